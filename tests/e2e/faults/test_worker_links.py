"""Cuts the network between a host and its controller. Programs see a pause: no array is lost, no command is done twice, and the results are those of
an undisturbed run. A host that is cut off for too long is lost, and a host whose process has ended is lost at once."""

import os
import random
import signal

import pytest
from cli import CommandLine
from conftest import PATIENCE, eventually
from cut_hosts import CutHosts, ask, end
from cut_network import Network
from slow_network import TwoIslands

LOOP = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

near, far = jax.devices()[0], jax.devices()[-1]
every = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
there = NamedSharding(Mesh(np.array([far]), ("x",)), P())
step = jax.jit(lambda w, x: (w * 0.9 + jnp.sin(x).sum(), (w * x).sum()))

w = jax.device_put(np.float32(1), NamedSharding(every.mesh, P()))
kept = jax.device_put(np.arange(100_000, dtype=np.float32), there)
print("ready", flush=True)
for i in range(int(sys.stdin.readline())):
    x = jax.device_put(np.arange(8, dtype=np.float32) + i, every)
    w, loss = step(w, x)
    moved = jax.device_put(jax.device_put(x, there) * 2, near)
    print(float(loss), float(np.asarray(moved).sum()), flush=True)
assert np.array_equal(np.asarray(kept), np.arange(100_000, dtype=np.float32))
print("done", flush=True)
sys.stdin.readline()
"""

HOLDS = """
import sys
import jax, numpy as np
far = jax.devices()[-1]
x = jax.block_until_ready(jax.device_put(np.arange(8.0, dtype=np.float32), far))
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(float(np.asarray(jax.jit(lambda v: v * 2)(x)).sum()), flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).replace(chr(10), " "), flush=True)
"""


class Cluster(CutHosts):
    """The second host, b, is behind a network that the test cuts."""

    def start_hosts(self, port):
        self.network = Network(f"127.0.0.1:{port}")
        self.networks.append(self.network)
        self.start("a", f"127.0.0.1:{port}")
        self.b = self.start("b", self.network.address)

    def start(self, name, address):
        return self.start_worker(name, address, advertise="127.0.0.1")

    def host(self, name="b"):
        return next((host for host in self.command("status")["hosts"] if host["name"] == name), None)

    def events(self):
        return [event["kind"] for event in self.command("status")["events"]]


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


def lines_of(program, steps):
    ask(program, str(steps))
    lines = []
    while not lines or lines[-1] not in ("done\n", ""):
        lines.append(program.stdout.readline())
    assert lines[-1] == "done\n", program.communicate()[1]
    return lines[:-1]


def test_a_loop_over_hosts_whose_link_breaks_again_and_again_computes_the_same(patient):
    undisturbed = patient.program(LOOP)
    expected = lines_of(undisturbed, 100)
    end(undisturbed)
    before = patient.host()
    rng = random.Random(5)
    disturbed = patient.program(LOOP)
    patient.network.age(lambda: rng.randrange(3_000, 20_000))
    assert lines_of(disturbed, 100) == expected
    cuts = patient.network.cuts
    patient.network.calm()
    assert cuts >= 5
    end(disturbed)
    assert patient.host()["id"] == before["id"], "it is the same host"
    assert "host lost" not in patient.events() and "DATA_LOSS" not in patient.log("b")
    assert eventually(lambda: patient.command("status")["clients"] == [])


def test_a_host_that_is_away_is_waited_for_and_shown(patient):
    program = patient.program(HOLDS)
    before = patient.host()
    try:
        patient.network.cut()
        assert eventually(lambda: patient.host()["state"] == "away")
        assert patient.host()["seconds_away"] > 0 and patient.host()["peer"] == ""
        text = patient.command("status", check=False).stdout
        assert "its connection is broken" in text, text
        ask(program)
    finally:
        patient.network.heal()
    assert program.stdout.readline() == "56.0\n"
    assert patient.host()["id"] == before["id"] and patient.host()["state"] != "away"
    assert {"host away", "host back"} <= set(patient.events()) and "host lost" not in patient.events()
    end(program)


def test_a_controller_that_is_stopped_finds_its_hosts_again(patient):
    program = patient.program(HOLDS)
    before, said = patient.host(), patient.log("b").count("is lost, and made again")
    os.kill(patient.controller, signal.SIGSTOP)
    try:
        assert eventually(lambda: patient.log("b").count("is lost, and made again") > said)
    finally:
        os.kill(patient.controller, signal.SIGCONT)
    ask(program)
    assert program.stdout.readline() == "56.0\n"
    assert patient.host()["id"] == before["id"] and "host lost" not in patient.events()
    end(program)


def test_a_host_that_is_cut_off_for_too_long_is_lost_and_joins_anew(impatient):
    program = impatient.program(HOLDS)
    before = impatient.host()
    impatient.network.cut()
    assert eventually(lambda: impatient.host() is None)
    ask(program)
    line = program.stdout.readline()
    assert line.startswith("DATA_LOSS: host 'b' of island 'ib' is gone since") and "did not come back within" in line, line
    impatient.network.heal()
    assert eventually(lambda: impatient.host() is not None), impatient.log("b")
    assert impatient.host()["id"] != before["id"]
    assert "does not keep this host any more: it was given up: host 'b' of island 'ib' is gone since" in impatient.log("b")
    end(program)


def test_a_host_whose_network_falls_silent_is_named_and_comes_back(tmp_path_factory):
    """The host is on a separate machine. Its link goes down, and neither end is notified."""
    try:
        network = TwoIslands(0.0, 1e9)
    except OSError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error}")
    folder = tmp_path_factory.mktemp("silent")
    command, worker = CommandLine(folder / "home"), None
    try:
        up = command("up", "--no-workers", "--hosts", "1", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--listen-proxy", "none", "--host-grace", "3600")
        command("token", "create", "--user", "rack", "--role", "worker", "--output", str(folder / "rack.token"))
        worker = command.start("worker", "--join", f"{network.heads[0]}:{up['address'].rpartition(':')[2]}", "--island", "i", "--host", "far", "--devices", "1",
                               "--advertise", network.addresses[0], "--token-file", str(folder / "rack.token"), "--wait", str(PATIENCE),
                               log=folder / "far.log", enter=network.islands[0].enter)
        assert eventually(lambda: command("status")["state"] == "formed"), (folder / "far.log").read_text()
        program = command.program(up["address"], HOLDS)
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        [before] = command("status")["hosts"]
        network.set_link(0, up=False)
        assert eventually(lambda: command("status")["hosts"][0]["state"] == "away")
        assert any(event["kind"] == "host away" and "nothing heard from it for 10s" in event["text"] for event in command("status")["events"])
        network.set_link(0, up=True)
        ask(program)
        assert program.stdout.readline() == "56.0\n"
        [after] = command("status")["hosts"]
        assert after["id"] == before["id"]
        end(program)
    finally:
        if worker is not None:
            worker.kill()
            worker.wait()
        command("down", check=False)
        network.stop()


def test_a_host_whose_process_is_killed_is_not_waited_for(patient):
    """This is the last test of this cluster, because it kills b."""
    program = patient.program(HOLDS)
    patient.b.kill()
    patient.b.wait()
    assert eventually(lambda: patient.host() is None)
    ask(program)
    line = program.stdout.readline()
    assert line.startswith("DATA_LOSS: host 'b' of island 'ib' is gone since") and "its process has ended" in line, line
    end(program)
