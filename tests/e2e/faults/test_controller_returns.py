"""Kills the controller and starts another one at its address. The worker processes stay, with their devices, compiled programs and arrays: hosts get
their places again, and serve new programs, whose results equal jax's own. Programs that were running go on, and their results equal those of
undisturbed runs, bit for bit. A controller that was stopped meanwhile and wakes up ends, and says why."""

import ast
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess

import jax
import numpy as np
import pytest
from cli import CommandLine, end, free_ports
from conftest import PATIENCE, assert_same, eventually
from controllers import NOT_RESTORABLE, REPLACED, Controllers, formed, hosts, lines, train
from cut_hosts import ask
from cut_network import Network

from pathways._cluster import command_lines

# Collectives over all hosts, on all devices. Then waits, and may be asked for the sum of what it holds.
PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def f(v):
    return jnp.cumsum(jnp.sin(v) @ v.T, axis=0) / (1 + jnp.abs(v).sum())

mesh = Mesh(np.array(jax.devices()), ("x",))
x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x")))
print([(d.id, d.host) for d in jax.devices()], flush=True)
print(np.asarray(jax.jit(f)(x)).tolist(), flush=True)
for line in sys.stdin:
    print(float(np.asarray(x).sum()), flush=True)
"""

# Trains on two exclusive devices, and now and then takes a slice beside them, computes there, and gives it back. Prints a hash of all that it has read
# every 10 steps, and at the end where its devices are.
SLICES = """
import hashlib, sys
import jax, jax.numpy as jnp, numpy as np
import pathways as pw
from jax.sharding import NamedSharding, PartitionSpec as P

slices = pw.make_virtual_device_set()
one = slices.add_slice(devices=2, exclusive=True)
place, ids = one.placement()["physical"], [d.id for d in one.devices]
mesh = one.mesh("x")
rows, copies = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
step = jax.jit(lambda w, x: (w - 0.01 * jnp.tanh(x @ w).T @ x / 64, jnp.sum(w)), donate_argnums=0, out_shardings=(copies, copies))
aside = jax.jit(lambda v: jnp.cumsum(jnp.sin(v)))
n = 64
w = jax.device_put(np.eye(n, dtype=np.float32), copies)
read = hashlib.sha256()
for i in range(300):
    x = jax.device_put(np.random.default_rng(i).normal(size=(n, n)).astype(np.float32), rows)
    w, value = step(w, x)
    if i % 7 == 3:
        other = slices.add_slice(devices=1)
        read.update(np.asarray(aside(jax.device_put(np.arange(i, dtype=np.float32), other.devices[0]))).tobytes())
        other.release()
    if i % 10 == 0:
        read.update(np.asarray(w).tobytes())
        print(i, flush=True)
assert (one.placement()["physical"], [d.id for d in one.devices]) == (place, ids)
print(read.hexdigest(), flush=True)
print(place, flush=True)
sys.stdin.readline()
"""

# Takes an exclusive slice of two devices, and prints which these are.
TAKES_A_SLICE = """
import pathways as pw
one = pw.make_virtual_device_set().add_slice(devices=2, exclusive=True)
print(one.placement()["physical"], flush=True)
input()
"""

# Calls methods of an object that lives on the hosts, and counts there: a call that is done twice or not at all changes all later results. Prints every 20th
# result, and at the end whether one process has done it all on each host.
COUNTS = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import colocated_python
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def change(x, by):
    shards = [jax.device_put(by(np.asarray(shard.data)), shard.device) for shard in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, shards)

@colocated_python.colocated_python_class
class Counter:
    def __init__(self):
        self.calls = 0

    def add(self, x):
        self.calls += 1
        return change(x, lambda v: v + np.float32(self.calls))

    def process(self, x):
        return change(x, lambda v: v * 0 + np.float32(os.getpid()))

cpus = colocated_python.colocated_cpu_devices(jax.devices())
x = jax.device_put(np.zeros(len(cpus), np.float32), NamedSharding(Mesh(np.array(cpus), ("x",)), P("x")))
counter = Counter()
before = np.asarray(counter.process(x)).tolist()
for i in range(int(sys.argv[1])):
    x = counter.add(x)
    if i % 20 == 0:
        print(i, np.asarray(x).tolist(), flush=True)
assert np.asarray(counter.process(x)).tolist() == before
print(np.asarray(x).tolist(), flush=True)
"""

# Keeps the devices of all hosts busy with collectives until the cluster fails.
BUSY = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
total = jax.jit(lambda v: v + jnp.sin(v).sum())
x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
x = total(x)
x.block_until_ready()
print("ready", flush=True)
try:
    while True:
        for _ in range(64):
            x = total(x)
        x.block_until_ready()
except jax.errors.JaxRuntimeError as error:
    print(str(error).replace(chr(10), " "), flush=True)
"""


def reference(cpu):
    def f(v):
        return jax.numpy.cumsum(jax.numpy.sin(v) @ v.T, axis=0) / (1 + jax.numpy.abs(v).sum())

    with jax.default_device(cpu):
        return np.asarray(jax.jit(f)(np.arange(32, dtype=np.float32).reshape(8, 4)))


def check(command, address, cpu):
    """Runs PROGRAM, compares its results with jax's own, and returns it, still running, with the devices that it sees."""
    program = command.program(address, PROGRAM)
    devices, values = program.stdout.readline(), program.stdout.readline()
    assert values, program.communicate()[1]
    assert_same(np.array(ast.literal_eval(values), np.float32), reference(cpu), rtol=1e-5, atol=1e-7)
    return program, ast.literal_eval(devices)


def kill(program):
    program.kill()
    program.communicate()


def test_the_hosts_of_a_killed_controller_serve_the_next_one(tmp_path, cpu):
    command = CommandLine(tmp_path / "home", PATHWAYS_COMPILE_CACHE="off")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: command("down", check=False))
        up = command("up", "--hosts", "2", "--devices", "2", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--listen-proxy", "none", "--controller-grace", "600", "--no-restart")
        controllers = Controllers(command, tmp_path)
        stack.callback(controllers.stop)
        before = hosts(command)
        first, devices = check(command, up["address"], cpu)
        busy = command.program(up["address"], BUSY)
        assert busy.stdout.readline() == "ready\n", busy.communicate()[1]
        controllers.kill_first()
        controllers.start(**{"listen-clients": up["address"]})
        assert eventually(lambda: formed(command)), controllers.log(0).read_text()
        assert eventually(lambda: controllers.log(0).read_text().count("goes on here") == 2), controllers.log(0).read_text()
        ask(first)
        assert first.stdout.readline() == f"{float(np.arange(32).sum())}\n"
        after = hosts(command)
        assert {name: host["pid"] for name, host in after.items()} == {name: host["pid"] for name, host in before.items()}
        again, same_devices = check(command, up["address"], cpu)
        assert same_devices == devices
        for name in before:
            log = (pathlib.Path(up["logs"]) / f"{name}.log").read_text()
            assert "This worker keeps everything for 10m" in log and "has outlived its controller, and is not compiled again" in log, log
        assert all(event["text"].endswith("arrays") for event in command("status")["events"] if event["kind"] == "host joined")
        assert busy.poll() is None, busy.communicate()
        for program in (first, busy, again):
            kill(program)
        assert eventually(lambda: command("status")["clients"] == [])


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_training_loop_goes_on_with_the_next_controller(tmp_path, door, hosts):
    """On one host, controllers die while computations are under way. On two, they die between them: one may have reached only one host, and then ends
    the session. The first one dies when the requests of the first steps are settled: by the PJRT door, those copy with a program of many nodes."""
    moments = (100, 150, 250)
    quiet = moments if hosts == 2 else ()
    command = CommandLine(tmp_path / "home", PATHWAYS_COMPILE_CACHE="off", PATHWAYS_DOOR=door)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: command("down", check=False))
        up = command("up", "--hosts", str(hosts), "--devices", "2", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--listen-proxy", "none", "--controller-grace", "600", "--no-restart")
        controllers = Controllers(command, tmp_path)
        stack.callback(controllers.stop)
        undisturbed, _ = lines(train(command, up["address"], quiet), "\n" * len(quiet))
        program = train(command, up["address"], quiet)
        stack.callback(program.kill)
        read = []
        for number, moment in enumerate(moments):
            while read[-1:] != (["quiet"] if quiet else [str(moment)]):
                read.append(program.stdout.readline().strip())
                assert read[-1], program.communicate()[1]
            if number == 0:
                controllers.kill_first()
            else:
                controllers.started[-1].kill()
                controllers.started[-1].wait()
            controllers.start(**{"listen-clients": up["address"]})
            controllers.await_program(program)
            if quiet:
                ask(program)
                read.append(program.stdout.readline().strip())
        assert read + lines(program)[0] == undisturbed
        for number in range(3):
            assert "goes on here" in controllers.log(number).read_text(), controllers.log(number).read_text()
        assert eventually(lambda: command("status")["clients"] == [])
        assert all(device["memory"]["used_bytes"] == 0 for device in command("status")["devices"]), command("status")["devices"]


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_virtual_slices_stay_where_they_are(tmp_path, door):
    """Controllers die while a program trains on its slice, and takes and releases others. A program that comes later gets other devices."""
    command = CommandLine(tmp_path / "home", PATHWAYS_COMPILE_CACHE="off", PATHWAYS_DOOR=door)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: command("down", check=False))
        up = command("up", "--hosts", "1", "--devices", "5", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--listen-proxy", "none", "--controller-grace", "600", "--no-restart")
        controllers = Controllers(command, tmp_path)
        stack.callback(controllers.stop)
        undisturbed = lines(command.program(up["address"], SLICES), "\n")[0][:-1]
        program = command.program(up["address"], SLICES)
        stack.callback(program.kill)
        read = []
        for number, moment in enumerate((50, 130, 200)):
            while read[-1:] != [str(moment)]:
                read.append(program.stdout.readline().strip())
                assert read[-1], program.communicate()[1]
            if number == 0:
                controllers.kill_first()
            else:
                controllers.started[-1].kill()
                controllers.started[-1].wait()
            controllers.start(**{"listen-clients": up["address"]})
            controllers.await_program(program)
        other = command.program(up["address"], TAKES_A_SLICE)
        stack.callback(other.kill)
        while len(read) < len(undisturbed):
            read.append(program.stdout.readline().strip())
            assert read[-1], program.communicate()[1]
        assert read == undisturbed
        mine, others = ast.literal_eval(program.stdout.readline()), other.stdout.readline()
        assert others, other.communicate()[1]
        assert not set(mine) & set(ast.literal_eval(others))
        assert {tuple(slice["devices"]) for slice in command("status")["slices"]} == {tuple(mine), tuple(ast.literal_eval(others))}
        assert lines(program, "\n")[0] == lines(other, "\n")[0] == []
        assert eventually(lambda: command("status")["clients"] == [])
        assert command("status")["slices"] == []


@pytest.mark.parametrize("hosts", [1, 2])
def test_python_functions_on_hosts_are_called_once(tmp_path, hosts):
    """Controllers die while calls of a stateful object are under way. Its process stays."""
    command = CommandLine(tmp_path / "home", PATHWAYS_DOOR="ifrt")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: command("down", check=False))
        up = command("up", "--hosts", str(hosts), "--devices", "1", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--listen-proxy", "none", "--controller-grace", "600",
                     "--host-python", "--no-restart")
        controllers = Controllers(command, tmp_path)
        stack.callback(controllers.stop)
        count = lambda: subprocess.Popen([command.python, "-c", COUNTS, "400"], env=dict(command.env, PATHWAYS_ADDRESS=up["address"]), text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        undisturbed = lines(count())[0]
        program = count()
        stack.callback(program.kill)
        read = []
        for number, moment in enumerate((60, 160, 280)):
            while not read or not read[-1].startswith(f"{moment} "):
                read.append(program.stdout.readline().strip())
                assert read[-1], program.communicate()[1]
            if number == 0:
                controllers.kill_first()
            else:
                controllers.started[-1].kill()
                controllers.started[-1].wait()
            controllers.start(**{"listen-clients": up["address"]})
            controllers.await_program(program)
        assert read + lines(program)[0] == undisturbed
        assert undisturbed[-1] == str([float(400 * 401 / 2)] * hosts)
        for number in range(3):
            assert "goes on here" in controllers.log(number).read_text(), controllers.log(number).read_text()
        assert eventually(lambda: command("status")["clients"] == [])


def test_a_program_that_no_other_controller_can_restore_says_why(tmp_path):
    command = CommandLine(tmp_path / "home")
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: command("down", check=False))
        up = command("up", "--hosts", "1", "--devices", "1", "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--listen-proxy", "none", "--controller-grace", "600",
                     "--no-restart")
        controllers = Controllers(command, tmp_path)
        stack.callback(controllers.stop)
        program = command.program(up["address"], NOT_RESTORABLE)
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        controllers.kill_first()
        ask(program)
        words = program.stdout.readline()
        assert "UNAVAILABLE" in words and "because it has used published arrays" in words, words
        kill(program)


class BehindNetworks:
    """Two hosts of one island, which reach their controller through a network that can lead to another one."""

    def __init__(self, folder):
        self.command = CommandLine(folder / "home", PATHWAYS_COMPILE_CACHE="off")
        self.folder, self.networks, self.workers = folder, [], []
        self.ports = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self.command("up", "--no-workers", "--hosts", "2", "--listen", self.ports[0], "--listen-workers", self.ports[1], "--listen-proxy", "none",
                     "--controller-grace", "600", "--host-grace", "600", "--no-restart")
        self.command("token", "create", "--user", "rack", "--role", "worker", "--uses", "2", "--output", str(folder / "rack.token"))
        for name in ("a", "b"):
            self.networks.append(Network(self.ports[1]))
            words = command_lines.worker(f"tcp:{self.networks[-1].address}", name, "i", "cpu", 2, access=["--token-file", folder / "rack.token"],
                                         advertise="127.0.0.1")
            with open(folder / f"{name}.log", "w") as log:
                self.workers.append(subprocess.Popen([str(word) for word in words], env=self.command.env, stdout=log, stderr=log))
        assert eventually(lambda: formed(self.command)), self.logs()
        self.controllers = Controllers(self.command, folder)
        self.command.env["PATHWAYS_TOKEN_FILE"] = self.controllers.word("operator-token-file")  # of the controllers to come; the cluster's record ends with the first

    def logs(self):
        return "".join((self.folder / f"{name}.log").read_text() for name in ("a", "b"))

    def lead_to(self, address):
        for network in self.networks:
            network.redirect(address.removeprefix("tcp:"))

    def stop(self):
        self.controllers.stop()
        for worker in self.workers:
            worker.kill()
            worker.wait()
        for network in self.networks:
            network.close()
        self.command("down", check=False)


@pytest.fixture
def behind(tmp_path):
    cluster = BehindNetworks(tmp_path)
    yield cluster
    cluster.stop()


def test_a_controller_that_wakes_up_after_it_was_replaced_ends(behind, cpu):
    """The token lets two hosts join; to return takes no further use of it."""
    command, controllers = behind.command, behind.controllers
    controllers.kill_first()
    old, address, _ = controllers.start()
    assert eventually(lambda: formed(command, "--address", address)), behind.logs()
    program, devices = check(command, address, cpu)
    kill(program)
    old.send_signal(signal.SIGSTOP)
    ports = free_ports(2)
    _, address, workers = controllers.start(**{"listen-clients": f"127.0.0.1:{ports[0]}", "listen-workers": f"127.0.0.1:{ports[1]}"})
    behind.lead_to(workers)
    assert eventually(lambda: formed(command, "--address", address)), behind.logs()
    assert {host["pid"] for host in hosts(command, "--address", address).values()} == {worker.pid for worker in behind.workers}
    old.send_signal(signal.SIGCONT)
    assert end(old) == REPLACED
    assert "another controller has taken the place of this one" in controllers.log(0).read_text()
    program, same_devices = check(command, address, cpu)
    assert same_devices == devices
    kill(program)


def test_hosts_tell_a_controller_that_it_was_replaced(behind, cpu):
    """The controllers have separate folders, so only the hosts can tell. They lose nothing."""
    command, controllers = behind.command, behind.controllers
    controllers.kill_first()
    old, old_address, old_workers = controllers.start()
    assert eventually(lambda: formed(command, "--address", old_address)), behind.logs()
    old.send_signal(signal.SIGSTOP)
    folder = behind.folder / "identity"
    shutil.copytree(controllers.word("identity"), folder)
    ports = free_ports(2)
    moved = {f"{who}-token-file": folder / f"{who}.token" for who in ("operator", "worker", "agent")}
    _, address, workers = controllers.start(**{"identity": folder, "listen-clients": f"127.0.0.1:{ports[0]}",
                                               "listen-workers": f"127.0.0.1:{ports[1]}", **moved})
    command.env["PATHWAYS_TOKEN_FILE"] = str(moved["operator-token-file"])
    behind.lead_to(workers)
    assert eventually(lambda: formed(command, "--address", address)), behind.logs()
    program, _ = check(command, address, cpu)
    before = hosts(command, "--address", address)
    old.send_signal(signal.SIGCONT)
    behind.lead_to(old_workers)
    assert end(old) == REPLACED
    assert "a worker at" in controllers.log(0).read_text() and "another controller has taken the place of this one" in controllers.log(0).read_text()
    behind.lead_to(workers)
    ask(program)
    assert program.stdout.readline() == f"{float(np.arange(32).sum())}\n"
    assert {name: host["id"] for name, host in hosts(command, "--address", address).items()} == {name: host["id"] for name, host in before.items()}
    kill(program)


def test_hosts_that_no_controller_takes_end_with_theirs(tmp_path):
    command = CommandLine(tmp_path / "home")
    try:
        command("up", "--hosts", "2", "--devices", "1", "--listen-proxy", "none", "--controller-grace", "1", "--no-restart")
        before = hosts(command)
        controllers = Controllers(command, tmp_path)
        controllers.kill_first()
        assert eventually(lambda: not any(pathlib.Path(f"/proc/{host['pid']}/exe").exists() for host in before.values()), PATIENCE)
    finally:
        command("down", check=False)
