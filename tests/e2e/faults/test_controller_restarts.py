"""Supervisors and controllers. A controller that is told to stop (SIGTERM) leaves its programs to the next one; `pathways up` starts its controller again when
that is killed, until it has failed too often; `pathways down` ends everything. Programs that go on read what those of an undisturbed run read, bit for bit."""

import contextlib
import json
import os
import pathlib
import signal
import socket

import pytest
from cli import end, free_ports, operator_at
from conftest import eventually
from controllers import NOT_RESTORABLE, Controllers, formed, has_ended, hosts, lines, train
from cut_hosts import ask

# Makes arrays on all devices, and may then be asked for their sum. It tells an error, and ends.
WAITING = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x")))
x.block_until_ready()
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(float(jax.jit(lambda v: v.sum())(x)), flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).replace(chr(10), " "), flush=True)
        break
"""
GATES = (0, 95, 245)  # of a training; a controller ends soon after it has passed one
SUM = f"{float(sum(range(32)))}\n"


def up(command, hosts, *words):
    return command("up", "--hosts", str(hosts), "--devices", "2", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--listen-proxy", "none", "--controller-grace", "600",
                   *words)


def members(started):
    return {one["name"]: one["pid"] for one in json.loads(pathlib.Path(started["logs"], "state.json").read_text())["members"]}


def log(started):
    return pathlib.Path(started["logs"], "controller.log").read_text()


def ready(program):
    assert program.stdout.readline() == "ready\n", program.communicate()[1]
    return program


def read_past(program, gate, read):
    """Lets a training through a gate, and reads its lines up to the first after that. The training goes on, up to the next gate."""
    ask(program)
    while not read or int(read[-1]) < gate:
        read.append(program.stdout.readline().strip())
        assert read[-1], program.communicate()[1]


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_training_loop_goes_on_after_controllers_that_are_told_to_stop(tmp_path, stack, door, hosts):
    """The first one is told when the loop has just begun: by the PJRT door, arrays are then copied by programs of many nodes."""
    command = stack.enter_context(operator_at(tmp_path / "home", PATHWAYS_COMPILE_CACHE="off", PATHWAYS_DOOR=door))
    started = up(command, hosts)
    undisturbed, _ = lines(train(command, started["address"], gates=GATES), "\n" * len(GATES))
    program = train(command, started["address"], gates=GATES)
    stack.callback(program.kill)
    controllers = Controllers(command, tmp_path)
    stack.callback(controllers.stop)
    read = []
    for number, gate in enumerate(GATES):
        read_past(program, gate, read)
        if number == 0:
            os.kill(members(started)["controller"], signal.SIGTERM)
            assert eventually(lambda: has_ended(members(started)["controller"]))
        else:
            assert end(controllers.started[-1], signal.SIGTERM) == 0
        controllers.start(**{"listen-clients": started["address"]})
    out, err = lines(program)
    assert read + out == undisturbed
    assert err.count("stops (signal SIGTERM). Calls wait until another one is there") == 3, err
    for number in range(3):
        text = controllers.log(number).read_text()
        assert "goes on here" in text, text
    assert "is started again" not in log(started)
    assert eventually(lambda: command("status")["clients"] == [])
    assert all(device["memory"]["used_bytes"] == 0 for device in command("status")["devices"]), command("status")["devices"]


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_up_starts_a_controller_again_that_is_killed(tmp_path, stack, door):
    command = stack.enter_context(operator_at(tmp_path / "home", PATHWAYS_COMPILE_CACHE="off", PATHWAYS_DOOR=door))
    started = up(command, 1, "--metrics-port", "0")
    before = members(started)
    undisturbed, _ = lines(train(command, started["address"], gates=GATES), "\n" * len(GATES))
    program = train(command, started["address"], gates=GATES)
    stack.callback(program.kill)
    read, pids = [], [command("status")["pid"]]
    for gate in GATES:
        read_past(program, gate, read)
        os.kill(pids[-1], signal.SIGKILL)
        assert eventually(lambda: formed(command) and command("status")["pid"] not in pids)
        pids.append(command("status")["pid"])
    out, err = lines(program)
    assert read + out == undisturbed
    text = log(started)
    assert text.count("was killed by signal 9") == 3 and "(failure 3 of 5 within 1m)" in text and text.count("goes on here") == 3, text
    assert members(started) == before and set(before.values()).isdisjoint(pids)
    metrics = pathlib.Path(started["logs"], "controller.metrics").read_text().split()[0]
    assert metrics in pathlib.Path(started["logs"], "prometheus.yml").read_text(), "the next one shows them there, too"
    assert command("down")["killed"] == []
    assert eventually(lambda: all(map(has_ended, (*before.values(), *pids))))


def test_down_ends_programs_and_starts_nothing_again(tmp_path, stack):
    command = stack.enter_context(operator_at(tmp_path / "home"))
    started = up(command, 2)
    pids = [*members(started).values(), command("status")["pid"]]
    program = ready(command.program(started["address"], WAITING))
    assert command("down")["killed"] == []
    assert eventually(lambda: all(map(has_ended, pids)))
    ask(program)
    words = program.stdout.readline()
    assert "UNAVAILABLE" in words and "ended this session: the controller ends: signal SIGINT" in words, words
    assert end(program) == 0


def test_a_controller_that_fails_again_and_again_is_given_up(tmp_path, stack):
    """Another process takes its port, so none of the next ones can serve."""
    command = stack.enter_context(operator_at(tmp_path / "home"))
    started = up(command, 1)
    supervisor, pid = members(started)["controller"], command("status")["pid"]
    host, _, port = started["address"].rpartition(":")
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: has_ended(pid))
    taken = stack.enter_context(socket.socket())
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((host, int(port)))
    taken.listen()
    os.kill(supervisor, signal.SIGCONT)
    assert eventually(lambda: has_ended(supervisor))
    done = command("status", check=False)
    assert done.returncode != 0
    assert "The controller of cluster 'default' has ended" in done.stderr and "in use" in done.stderr, done.stderr
    assert "It has failed 5 times within 1m, and is not started again" in done.stderr, done.stderr
    pids = members(started).values()
    command("down")
    assert eventually(lambda: all(map(has_ended, pids)))


def test_a_program_that_no_other_controller_can_restore_hears_why_at_once(tmp_path, stack):
    command = stack.enter_context(operator_at(tmp_path / "home"))
    started = up(command, 1)
    program = command.program(started["address"], NOT_RESTORABLE)
    ready(program)
    os.kill(members(started)["controller"], signal.SIGTERM)
    assert eventually(lambda: has_ended(members(started)["controller"]))
    ask(program)
    words = program.stdout.readline()
    reason = "the controller stops: signal SIGTERM; another controller could not go on with this program, because it has used published arrays"
    assert "UNAVAILABLE" in words and reason in words, words
    assert end(program) == 0


def test_a_program_goes_on_when_a_pod_with_the_controller_is_replaced(tmp_path, stack):
    """As in deploy/kubernetes.yaml: `up --foreground --no-workers` gets SIGTERM, and another one is started in its place."""
    command = stack.enter_context(operator_at(tmp_path / "home"))
    ports = [f"127.0.0.1:{port}" for port in free_ports(2)]

    def start(name):
        pod = command.start("up", "--foreground", "--no-workers", "--hosts", "1", "--listen", ports[0], "--listen-workers", ports[1], "--listen-proxy", "none",
                            log=tmp_path / name)
        stack.callback(pod.kill)
        return pod

    first = start("first")
    assert eventually(lambda: command("status", check=False).returncode == 0), (tmp_path / "first").read_text()
    worker = command.start("worker", "--join", ports[0], "--devices", "2", log=tmp_path / "worker")
    stack.callback(worker.kill)
    assert eventually(lambda: formed(command)), (tmp_path / "worker").read_text()
    program = ready(command.program(ports[0], WAITING))
    stack.callback(program.kill)
    before = hosts(command)
    assert end(first, signal.SIGTERM) == 0
    second = start("second")
    ask(program)
    assert program.stdout.readline() == SUM, program.communicate()[1]
    assert hosts(command).keys() == before.keys()
    assert end(second, signal.SIGINT) == 0  # Ctrl-C ends the cluster
    ask(program)
    words = program.stdout.readline()
    assert "ended this session: the controller ends: signal SIGINT" in words, words
    assert end(program) == 0
