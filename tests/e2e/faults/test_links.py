"""Cuts the network between a program and its controller. The program sees a pause: no array is lost, no request is done twice, and the results are
those of an undisturbed run. The tests use both doors, over TCP with tokens."""

import os
import random
import signal
import subprocess

import pytest
from cli import CommandLine, User, operator_at
from conftest import PATIENCE, eventually
from cut_network import Network
from slow_network import TwoIslands

TRAIN = """
import sys
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def step(w, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - 0.5) ** 2))(w)
    return w - 0.1 * gradient, loss

w, data = jnp.ones((16, 16)), np.random.default_rng(7).normal(size=(8, 4, 16)).astype(np.float32)
kept = jax.device_put(np.ones(100000, np.float32))  # by lane
print("ready", flush=True)
for i in range({steps}):
    w, loss = step(w, data[i % 8])
    if i % {every} == 0:
        print(float(loss), flush=True)
assert float(kept.sum()) == np.asarray(kept).sum() == 100000
print("done", flush=True)
sys.stdin.readline()
"""

HOLDS = """
import sys
import jax, jax.numpy as jnp
x = jax.block_until_ready(jax.jit(lambda v: v * 2)(jnp.arange(8.0)))
print("ready", flush=True)
sys.stdin.readline()
try:
    print(float((x + 1).sum()), flush=True)
except jax.errors.JaxRuntimeError as error:
    print(str(error).replace(chr(10), " "), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with operator_at(tmp_path_factory.mktemp("operator")) as command:
        yield command


@pytest.fixture(scope="module")
def cluster(operator):
    return operator("up", "--devices", "2", "--listen-proxy", "none", "--client-grace", "3600")


@pytest.fixture(params=["ifrt", "pjrt"])
def user(request, operator, cluster, tmp_path):
    """Returns a user of the cluster whose programs enter by this door."""
    token = tmp_path / "ada.token"
    operator("token", "create", "--user", "ada", "--role", "user", "--output", str(token))
    user = User(tmp_path / "ada")
    user.env.update(PATHWAYS_TOKEN_FILE=str(token), PATHWAYS_DOOR=request.param)
    return user


def clients(operator, cluster):
    return operator("status", "--address", cluster["address"])["clients"]


def losses(user, address, steps, every=1):
    """Trains on the cluster at `address`. Returns the losses and the program, which waits for a line before it ends."""
    program = user.program(address, TRAIN.format(steps=steps, every=every))
    lines = []
    while not lines or lines[-1] not in ("done\n", ""):
        lines.append(program.stdout.readline())
    assert lines[-1] == "done\n", program.communicate()[1]
    return lines[1:-1], program


def end(program):
    out, err = program.communicate("\n", timeout=PATIENCE)
    assert program.returncode == 0, out + err
    return out, err


def test_a_training_over_a_network_that_breaks_again_and_again_computes_the_same(operator, cluster, user):
    expected, undisturbed = losses(user, cluster["address"], 300)
    [client] = clients(operator, cluster)
    end(undisturbed)
    assert eventually(lambda: clients(operator, cluster) == [])
    rng = random.Random(11)
    network = Network(cluster["address"], lives=lambda: rng.randrange(10_000, 40_000))
    try:
        got, program = losses(user, network.address, 300)
        network.calm()  # to the controller, a program whose goodbye was lost may come back
        assert got == expected
        assert network.cuts >= 5
        [disturbed] = clients(operator, cluster)
        assert (disturbed["completed"], disturbed["arrays"], disturbed["executables"]) == (client["completed"], client["arrays"], client["executables"])
        end(program)
        assert eventually(lambda: clients(operator, cluster) == [])  # the goodbye may come after the program's end
    finally:
        network.close()


def test_a_program_waits_for_a_network_that_is_away_and_says_so_in_one_line(operator, cluster, user):
    network = Network(cluster["address"])
    program = user.program(network.address, HOLDS)
    try:
        assert program.stdout.readline() == "ready\n"
        network.cut()
        assert eventually(lambda: "seconds_away" in clients(operator, cluster)[0])
        text = user_sees(operator, cluster)
        assert "its connection is broken" in text, text
        program.stdin.write("\n")
        program.stdin.flush()
        line = program.stderr.readline()
        assert line.startswith(f"pathways: the connection to the Pathways controller at {network.address} is lost"), line
        assert "keeps this program's arrays for 1h" in line, line
        network.heal()
        assert program.stdout.readline() == "64.0\n"
        [client] = clients(operator, cluster)
        assert "seconds_away" not in client
        assert end(program) == ("", "")
    finally:
        network.close()
        program.kill()
    events = [event["kind"] for event in operator("status", "--address", cluster["address"])["events"]]
    assert "client away" in events and "client back" in events


def user_sees(operator, cluster):
    return operator("status", "--address", cluster["address"], check=False).stdout


def test_a_network_that_falls_silent_is_noticed_by_both_ends_and_used_again(tmp_path, user):
    """The program is on a separate machine. Its link goes down, and neither end is notified."""
    try:
        network = TwoIslands(0.0, 1e9)
    except OSError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error}")
    other = CommandLine(tmp_path / "other")
    program = None
    try:
        up = other("up", "--devices", "1", "--listen", "0.0.0.0:0", "--listen-proxy", "none", "--advertise", "127.0.0.1")
        other("token", "create", "--user", "bob", "--role", "user", "--output", str(tmp_path / "bob.token"))
        user.env["PATHWAYS_TOKEN_FILE"] = str(tmp_path / "bob.token")
        address = f"{network.heads[0]}:{up['address'].rpartition(':')[2]}"
        program = user.program(address, HOLDS, enter=network.islands[0].enter)
        assert program.stdout.readline() == "ready\n", program.stderr.read()
        network.set_link(0, up=False)
        program.stdin.write("\n")
        program.stdin.flush()
        assert "is lost" in program.stderr.readline()
        assert eventually(lambda: "seconds_away" in clients(other, up)[0])
        network.set_link(0, up=True)
        assert program.stdout.readline() == "64.0\n"
        end(program)
    finally:
        if program is not None:
            program.kill()
        other("down", check=False)
        network.stop()


def test_a_program_that_comes_back_too_late_is_told_so(operator, user, tmp_path, tmp_path_factory):
    other = CommandLine(tmp_path_factory.mktemp("late"))  # a short name: the path of a Unix socket has 107 bytes at most
    short = other("up", "--devices", "1", "--listen-proxy", "none", "--client-grace", "0.5")
    network = program = None
    try:
        other("token", "create", "--user", "bob", "--role", "user", "--output", str(tmp_path / "bob.token"))
        user.env["PATHWAYS_TOKEN_FILE"] = str(tmp_path / "bob.token")
        network = Network(short["address"])
        program = user.program(network.address, HOLDS)
        assert program.stdout.readline() == "ready\n"
        os.kill(agent_of(program), signal.SIGSTOP)  # like a machine that sleeps
        network.cut()
        assert eventually(lambda: clients(other, short) == [])
        network.heal()
        os.kill(agent_of(program), signal.SIGCONT)
        program.stdin.write("\n")
        program.stdin.flush()
        line = program.stdout.readline()
        assert "was kept for 500ms without a connection to its client" in line, line
        end(program)
    finally:
        if network is not None:
            network.close()
        if program is not None:
            program.kill()
        other("down", check=False)


def agent_of(program):
    """Returns the process that has the session: the program's agent, or the program itself."""
    for line in subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(program.pid)], capture_output=True, text=True).stdout.splitlines():
        pid, name = line.split()
        if name == "pathways-agent":
            return int(pid)
    return program.pid


def test_a_program_that_is_killed_is_not_waited_for(operator, cluster, user):
    """Its agent says goodbye. Without an agent, the operating system closes the connection, with nothing in between."""
    program = user.program(cluster["address"], HOLDS)
    assert program.stdout.readline() == "ready\n"
    assert len(clients(operator, cluster)) == 1
    program.kill()
    assert eventually(lambda: clients(operator, cluster) == [])
