"""Clients that overload the devices share them by their weights, measured by the scheduler's own accounts."""

import contextlib
import json
import subprocess
import sys
import time

import pytest

from conftest import clean_environment, eventually

WEIGHTS = {"a": 1, "b": 2, "c": 4, "d": 8}
COMPUTATIONS = 200  # of the client with the least weight: the length of a measurement
APART = 10          # computations by which a client may be ahead of its share
DEADLINE_SECONDS = 240

# Keeps thousands of computations of a few milliseconds waiting, so it always has work between two checks. Reads commands on standard input. STEP is f
# and its argument.
BUSY = """
import collections, sys, threading
import jax, jax.numpy as jnp
import pathways as pw

f, x = STEP
x = jax.block_until_ready(f(x))
print("ready", flush=True)
def obey():
    for line in sys.stdin:
        exec(line)

sys.stdin.readline()
pending = collections.deque(f(x) for _ in range(2000))
print("queued", flush=True)
threading.Thread(target=obey, daemon=True).start()
while True:
    pending.extend(f(x) for _ in range(500))
    if len(pending) > 4000:
        oldest = [pending.popleft() for _ in range(500)]
        oldest[-1].block_until_ready()
"""


ON_CPU = BUSY.replace("STEP", "jax.jit(lambda x: jax.lax.fori_loop(0, 3000, lambda i, y: jnp.sin(y) * 1.01, x)), jnp.ones(256)")
SIMULATED = BUSY.replace("STEP", "jax.jit(lambda x: x + 1), jnp.ones(2000)")  # 2 ms on a device of one operation a microsecond


class Cluster:
    def __init__(self, env):
        self.env = env
        self.clients = {}
        self.numbers = {}

    def cli(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-m", "pathways", *arguments], env=self.env, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def status(self):
        return json.loads(self.cli("status", "--json").stdout)

    def client(self, program, **env):
        return subprocess.Popen([sys.executable, "-c", program], env={**self.env, "PATHWAYS_ADDRESS": self.address, **env}, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def add(self, name, **env):
        known = {c["id"] for c in self.status()["clients"]}
        client = self.clients[name] = self.client(SIMULATED, **env)
        assert client.stdout.readline() == "ready\n", client.communicate()
        (self.numbers[name],) = {c["id"] for c in self.status()["clients"]} - known

    def tell(self, name, line):
        self.clients[name].stdin.write(line + "\n")
        self.clients[name].stdin.flush()

    def of_clients(self):
        report = {c["id"]: c for c in self.status()["clients"]}
        return {name: report[number] for name, number in self.numbers.items() if number in report}

    def expect(self, weights):
        """Asserts that each client gets its share of device time, and always has work waiting, until the client with the least weight has completed
        COMPUTATIONS more computations. The devices are simulated: on real ones, a computation that another process delays counts as its client's
        device time. pathways/gang/fairness_test.cc checks the shares to 2 %."""
        first = now = self.of_clients()
        least = min(weights, key=weights.get)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while now[least]["completed"] < first[least]["completed"] + COMPUTATIONS:
            now = self.of_clients()
            assert all(client["waiting"] > 0 for client in now.values()), f"more work is needed: {now}"
            assert time.monotonic() < deadline, f"the devices stand still: {now}"
        used, completed = ({name: now[name][key] - first[name][key] for name in weights} for key in ("device_seconds", "completed"))
        total, one = sum(used.values()), sum(used.values()) / sum(completed.values())
        for name, weight in weights.items():
            due = total * weight / sum(weights.values())
            assert abs(used[name] - due) <= 0.1 * due + APART * one, f"{name} had {used[name]:.2f} s of {due:.2f} s: {used}, {completed}"


@contextlib.contextmanager
def started(folder, *devices):
    cluster = Cluster(clean_environment(PATHWAYS_HOME=str(folder), PATHWAYS_LOCAL="1x1x1"))
    cluster.address = json.loads(cluster.cli("up", "--policy", "share", "--json", *devices).stdout)["address"]
    try:
        yield cluster
    finally:
        for client in cluster.clients.values():
            client.kill()
            client.communicate()
        cluster.cli("down")


@pytest.fixture
def cluster(tmp_path):
    with started(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def exact(tmp_path):
    """Returns a cluster whose device takes as long as the operations of a computation say."""
    with started(tmp_path, "--simulated", "1x1", "--simulated-device", "1e6:0:0") as cluster:
        yield cluster


def test_four_clients_get_device_time_by_their_weights(exact):
    cluster = exact
    for name, weight in WEIGHTS.items():
        cluster.add(name, PATHWAYS_WEIGHT=str(weight), PATHWAYS_PRIORITY="5")
    assert {name: (c["weight"], c["priority"]) for name, c in cluster.of_clients().items()} == {n: (w, 5) for n, w in WEIGHTS.items()}
    for name in WEIGHTS:
        cluster.tell(name, "")
    for client in cluster.clients.values():
        assert client.stdout.readline() == "queued\n", client.communicate()
    cluster.expect(WEIGHTS)

    # While they run, the operator changes one client's weight, and another client changes its own.
    cluster.cli("share", str(cluster.numbers["a"]), "--weight", "8")
    cluster.tell("d", "pw.set_share(weight=1)")
    assert eventually(lambda: cluster.of_clients()["d"]["weight"] == 1)
    cluster.expect({"a": 8, "b": 2, "c": 4, "d": 1})

    # Kill one client: it and its queued work disappear, and the others share the devices.
    cluster.clients["a"].kill()
    cluster.clients["a"].wait()
    assert eventually(lambda: "a" not in cluster.of_clients())
    del cluster.numbers["a"]
    cluster.expect({"b": 2, "c": 4, "d": 1})
    text = cluster.cli("status").stdout
    assert "policy share" in text and "weight 4, priority 5; device time" in text


def test_what_a_killed_client_had_not_started_is_never_granted(cluster):
    client = cluster.client(ON_CPU)
    assert client.stdout.readline() == "ready\n"
    client.stdin.write("\n")
    client.stdin.flush()
    assert client.stdout.readline() == "queued\n"
    assert eventually(lambda: cluster.status()["clients"][0]["waiting"] > 100)  # what is queued is on its way to the controller
    (before,) = cluster.status()["clients"]
    client.kill()
    client.communicate()
    assert eventually(lambda: not cluster.status()["clients"])
    granted = cluster.status()["granted"]
    assert granted < before["completed"] + before["running"] + before["waiting"]
    other = cluster.client("import jax.numpy as jnp; print(float(jnp.ones(3).sum()))")
    assert other.communicate(timeout=60)[0] == "3.0\n"
    report = cluster.status()
    assert report["granted"] - granted <= 10  # the other client's computations
    assert all(host["ops_in_flight"] == 0 for host in report["hosts"])


HUGE = """
import collections, sys
import jax, jax.numpy as jnp
import pathways as pw

f = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda i, y: jnp.sin(y) * 1.01, x))

@pw.program
def huge(x):
    for _ in range(100):
        x = f(x)
    return x

x = jnp.ones(4096)
for _ in range(3):
    jax.block_until_ready(huge(x))
print("ready", flush=True)
pending = collections.deque()
while True:
    pending.append(huge(x))
    if len(pending) > 4:
        pending.popleft().block_until_ready()
"""

SMALL = """
import sys
import jax, jax.numpy as jnp
f = jax.jit(lambda x: x + 1)
x = jax.block_until_ready(f(jnp.ones(8)))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    x = jax.block_until_ready(f(x))
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_huge_program_lets_others_take_their_turns(cluster, tmp_path):
    huge = cluster.clients["huge"] = cluster.client(HUGE)
    assert huge.stdout.readline() == "ready\n", huge.communicate()
    small = cluster.clients["small"] = cluster.client(SMALL)
    assert small.stdout.readline() == "ready\n", small.communicate()
    number = max(c["id"] for c in cluster.status()["clients"])  # the latest client
    path = tmp_path / "trace.json"
    trace = subprocess.Popen([sys.executable, "-m", "pathways", "trace", "-s", "10", "--check", "--json", "-o", str(path)], env=cluster.env,
                             stdout=subprocess.PIPE, text=True)
    before = cluster.status()["granted"]
    assert eventually(lambda: cluster.status()["granted"] >= before + 20)
    small.stdin.write("\n")
    small.stdin.flush()
    assert small.stdout.readline() == "done\n", small.communicate()
    assert json.loads(trace.communicate(timeout=90)[0])["check"]["ok"] and trace.returncode == 0

    events = json.loads(path.read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == 1}
    grants = [e for e in events if e.get("cat") == "grant" and e["pid"] == 1]
    requests = [e for e in events if e.get("cat") == "request" and "gang" in e["args"]]
    mine = [e for e in requests if tracks[e["tid"]].split(" (")[0] == f"client {number}"]
    assert len(requests) > len(mine) > 0
    own = {e["args"]["gang"] for e in mine}
    took = {e["args"]["gang"]: e["dur"] for e in events if e.get("cat") == "run" and "gang" in e["args"]}
    others = sorted((g["ts"], took[g["args"]["gang"]]) for g in grants if g["args"]["gang"] in took and g["args"]["gang"] not in own)
    most = max(time for _, time in others)
    given = lambda begin, end: sum(time for ts, time in others if begin < ts < end)
    # Shares are of device time: the other client may first use as much as the small client has had more than it.
    debt, last = 0, None
    for request in sorted(mine, key=lambda e: e["ts"]):
        gang = request["args"]["gang"]
        (granted,) = [g["ts"] for g in grants if g["args"]["gang"] == gang]
        debt = debt if last is None else max(0, debt - given(last, request["ts"]))
        waited = given(request["ts"], granted)
        assert waited <= debt + 4 * most, f"the huge program had {waited:.0f} us before it, and is owed {debt:.0f}; its longest stage takes {most:.0f}"
        debt, last = max(0, debt - waited) + took[gang], granted


def test_values_that_make_no_sense_are_refused_with_what_they_should_be(cluster):
    failed = cluster.client("import jax; jax.devices()", PATHWAYS_WEIGHT="heavy").communicate(timeout=60)[1]
    assert "PATHWAYS_WEIGHT wants a number from 0.001 to 1000000, not 'heavy'" in failed
    failed = cluster.client("import pathways as pw; pw.set_share(priority=1.5)").communicate(timeout=60)[1]
    assert "priority wants a whole number from -1000000 to 1000000, not 1.5" in failed
    failed = cluster.client("import pathways as pw; pw.set_share(weight=float('nan'))").communicate(timeout=60)[1]
    assert "weight wants a number from 0.001 to 1000000, not nan" in failed
    assert "nothing to change" in cluster.cli("share", "1", code=2).stderr
    assert "--weight wants a number from 0.001 to 1000000, not '-3'" in cluster.cli("share", "1", "--weight", "-3", code=2).stderr
    assert "there is no client 99" in cluster.cli("share", "99", "--weight", "3", code=1).stderr


def test_a_share_set_before_the_connection_holds_from_it_on(cluster):
    client = cluster.client("import pathways as pw; pw.set_share(weight=3, priority=-2); import jax; jax.devices(); print('ready', flush=True); input()",
                            PATHWAYS_WEIGHT="7")
    assert client.stdout.readline() == "ready\n", client.communicate()
    (report,) = cluster.status()["clients"]
    assert (report["weight"], report["priority"]) == (3, -2)
    client.communicate("\n", timeout=60)
