"""Cuts the network between two hosts, which the controller still reaches both. Programs see a pause: arrays that move meanwhile arrive whole, and the
results are jax's. A network that stays cut fails the arrays that had to cross it, and no others."""

import contextlib
import random
import signal

import pytest
from cli import CommandLine, free_ports
from conftest import PATIENCE, eventually
from cut_hosts import CutHosts, ask, end
from cut_network import Network
from slow_network import TwoIslands

# Moves a large array to the other host and back, reshards one over both hosts without a collective, donates one, and calls a program whose stages are
# on both hosts. Each step prints whether all results are those of jax's own cpu.
MOVES = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
import pathways as pw

devices = jax.devices()
near, far = [SingleDeviceSharding(devices[i]) for i in (0, -1)]
rows = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
columns = NamedSharding(Mesh(np.array(devices[::-1]), ("x",)), P(None, "x"))
stages = [jax.jit(lambda x, k=k: x * 2 + k, in_shardings=s, out_shardings=s) for k, s in enumerate([near, far] * 3)]
def chain(x):
    for stage in stages:
        x = stage(x)
    return x
program = pw.program(chain)
def reference(x):
    with jax.default_device(jax.devices("cpu")[0]):
        for k in range(len(stages)):
            x = jax.jit(lambda x, k=k: x * 2 + k)(x)
        return np.asarray(x)
big = np.arange(BYTES // 4, dtype=np.float32).reshape(1024, -1)
small = np.arange(1000, dtype=np.float32)
np.asarray(program(jax.device_put(small, near)))
print("ready", flush=True)
for i in range(int(sys.stdin.readline())):
    x = jax.device_put(big + np.float32(i), near)
    moved = jax.device_put(jax.device_put(x, far), near)
    resharded = jax.device_put(jax.device_put(x, rows), columns)
    chained = program(jax.device_put(small + np.float32(i), near))
    given = jax.device_put(x, far, donate=True)
    expected = big + np.float32(i)
    same = [np.array_equal(np.asarray(y), expected) for y in (moved, resharded, given)]
    print(same + [np.array_equal(np.asarray(chained), reference(small + np.float32(i)))], flush=True)
print("done", flush=True)
sys.stdin.readline()
"""
RIGHT = "[True, True, True, True]\n"

# Moves an array from host to host at each line of input.
HOLDS = """
import sys
import jax, numpy as np
near, far = jax.devices()[0], jax.devices()[-1]
x = jax.device_put(np.arange(BYTES // 4, dtype=np.float32), near)
y = jax.block_until_ready(jax.device_put(np.arange(8.0, dtype=np.float32), far))
print("ready", flush=True)
for line in sys.stdin:
    try:
        moved = jax.device_put(x, far)
        print(bool(np.array_equal(np.asarray(moved), np.asarray(x))), flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).replace(chr(10), " "), flush=True)
    assert float(np.asarray(jax.jit(lambda v: v * 2)(y)).sum()) == 56, "other arrays of the far host are there"
"""
BYTES = 24 << 20


def with_bytes(code, size=BYTES):
    return code.replace("BYTES", str(size))


class Cluster(CutHosts):
    """Each host is reached by the other through a network of its own, which the test cuts."""

    def start_hosts(self, port):
        self.workers = {}
        for name, place, own in zip("ab", ("127.0.0.2", "127.0.0.3"), free_ports(2)):
            self.networks.append(Network(f"127.0.0.1:{own}", listen=(place, own)))
            self.workers[name] = self.start_worker(name, f"127.0.0.1:{port}", "--listen", f"tcp:127.0.0.1:{own}", "--no-shared-memory", advertise=place,
                                                   listen_lanes=f"tcp:{place}:0")

    def hosts(self):
        return {host["name"]: host["id"] for host in self.command("status")["hosts"]}

    def program(self, code):
        return super().program(with_bytes(code))

    @contextlib.contextmanager
    def cut(self):
        for network in self.networks:
            network.cut()
        try:
            yield
        finally:
            for network in self.networks:
                network.heal()


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("patient"), grace=3600)
    yield cluster
    cluster.stop()


@pytest.fixture
def impatient(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("impatient"), grace=1)
    yield cluster
    cluster.stop()


def test_arrays_cross_a_network_that_breaks_again_and_again(patient):
    before = patient.hosts()
    rng = random.Random(5)
    program = patient.program(MOVES)
    for network in patient.networks:
        network.age(lambda: rng.randrange(100_000, 8_000_000))
    ask(program, "3")
    lines = [program.stdout.readline() for _ in range(4)]
    cuts = [network.cuts for network in patient.networks]
    for network in patient.networks:
        network.calm()
    assert lines == [RIGHT] * 3 + ["done\n"], program.communicate()[1]
    assert min(cuts) >= 5, cuts
    end(program)
    assert patient.hosts() == before
    for name in "ab":
        assert "is lost, and made again" in patient.log(name) and "is back after" in patient.log(name)


def test_a_move_waits_for_a_network_that_is_cut(patient):
    program = patient.program(HOLDS)
    ask(program)
    assert program.stdout.readline() == "True\n", "there is a link"
    said = patient.log("a").count("is back after")
    lost = patient.log("a").count("is lost, and made again")
    with patient.cut():
        ask(program)
        assert eventually(lambda: patient.log("a").count("is lost, and made again") > lost)
    assert program.stdout.readline() == "True\n"
    assert eventually(lambda: patient.log("a").count("is back after") > said)
    end(program)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_host_that_is_stopped_for_a_moment_loses_nothing(patient, name):
    before = patient.hosts()
    program = patient.program(HOLDS)
    patient.workers[name].send_signal(signal.SIGSTOP)
    try:
        ask(program)
        pid = patient.workers[name].pid
        assert eventually(lambda: open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "T")
    finally:
        patient.workers[name].send_signal(signal.SIGCONT)
    assert program.stdout.readline() == "True\n"
    end(program)
    assert patient.hosts() == before


def test_a_network_that_stays_cut_is_named_and_used_again(impatient):
    before = impatient.hosts()
    program = impatient.program(HOLDS)
    ask(program)
    assert program.stdout.readline() == "True\n"
    with impatient.cut():
        ask(program)
        line = program.stdout.readline()
    assert line.startswith("UNAVAILABLE: host '"), line
    assert "cannot reach host '" in line and "the controller hears from both: look at the network between them" in line, line
    assert "host 'a' of island 'ia'" in line and "host 'b' of island 'ib'" in line, line
    assert "tcp:127.0.0." in line, line
    ask(program)
    assert program.stdout.readline() == "True\n", "the network is back"
    end(program)
    assert impatient.hosts() == before


def test_a_network_that_falls_silent_is_noticed(tmp_path_factory):
    """Each host is on a separate machine. The packets between them are dropped, and neither end is notified."""
    try:
        network = TwoIslands(0.0, 1e9)
    except OSError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error}")
    folder = tmp_path_factory.mktemp("silent")
    command, workers, logs = CommandLine(folder / "home"), [], [folder / f"{name}.log" for name in "ab"]
    try:
        up = command("up", "--no-workers", "--hosts", "2", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--listen-proxy", "none", "--host-grace", "3600")
        command("token", "create", "--user", "rack", "--role", "worker", "--output", str(folder / "rack.token"))
        for name, island, head, address, log in zip("ab", network.islands, network.heads, network.addresses, logs):
            workers.append(command.start("worker", "--join", f"{head}:{up['address'].rpartition(':')[2]}", "--island", f"i{name}", "--host", name,
                                         "--devices", "1", "--advertise", address, "--token-file", str(folder / "rack.token"), "--wait", str(PATIENCE),
                                         log=log, enter=island.enter))
        assert eventually(lambda: command("status")["state"] == "formed"), [log.read_text() for log in logs]
        program = command.program(up["address"], with_bytes(HOLDS))
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        ask(program)
        assert program.stdout.readline() == "True\n"
        network.ask("cut")
        ask(program)
        assert eventually(lambda: "nothing heard from host 'b' of island 'ib'" in logs[0].read_text()), logs[0].read_text()
        network.ask("heal")
        assert program.stdout.readline() == "True\n"
        assert eventually(lambda: "is back after" in logs[0].read_text())
        end(program)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        command("down", check=False)
        network.stop()
