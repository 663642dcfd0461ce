"""Clients that want more than the devices can do share them by their weights, as the scheduler itself accounts for it."""

import json
import subprocess
import sys
import time

import pytest

from conftest import clean_environment

WEIGHTS = {"a": 1, "b": 2, "c": 4, "d": 8}
WINDOW_SECONDS = 2.0  # of device time, not of a clock
DEADLINE_SECONDS = 90

# Has always some hundred computations under way, each of some milliseconds; obeys lines on standard input.
BUSY = """
import collections, sys, threading
import jax, jax.numpy as jnp
import pathways as pw

f = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda i, y: jnp.sin(y) * 1.01, x))
x = jax.block_until_ready(f(jnp.ones(4096)))
print("ready", flush=True)

def obey():
    for line in sys.stdin:
        exec(line)

sys.stdin.readline()
threading.Thread(target=obey, daemon=True).start()
pending = collections.deque()
while True:
    pending.append(f(x))
    if len(pending) > 500:
        oldest = [pending.popleft() for _ in range(100)]
        oldest[-1].block_until_ready()
"""


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
        client = self.clients[name] = self.client(BUSY, **env)
        assert client.stdout.readline() == "ready\n", client.communicate()
        (self.numbers[name],) = {c["id"] for c in self.status()["clients"]} - known

    def tell(self, name, line):
        self.clients[name].stdin.write(line + "\n")
        self.clients[name].stdin.flush()

    def of_clients(self):
        report = {c["id"]: c for c in self.status()["clients"]}
        return {name: report[number] for name, number in self.numbers.items() if number in report}

    def window(self):
        """Device seconds of each client over a time in which all of them always had something waiting."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        first = None
        while time.monotonic() < deadline:
            now = self.of_clients()
            if first is None or any(c["waiting"] == 0 for c in now.values()):
                first = now if all(c["waiting"] > 100 for c in now.values()) else None
                continue
            used = {name: c["device_seconds"] - first[name]["device_seconds"] for name, c in now.items()}
            if sum(used.values()) >= WINDOW_SECONDS:
                return used
        raise AssertionError(f"the clients did not keep the device busy: {now}")

    def expect(self, weights):
        used = self.window()
        for name, weight in weights.items():
            wanted = sum(used.values()) * weight / sum(weights.values())
            assert abs(used[name] - wanted) <= 0.1 * wanted + 0.01, (used, weights)


@pytest.fixture
def cluster(tmp_path):
    env = clean_environment(PATHWAYS_HOME=str(tmp_path), PATHWAYS_LOCAL="1x1x1")
    cluster = Cluster(env)
    cluster.address = json.loads(cluster.cli("up", "--policy", "share", "--json").stdout)["address"]
    try:
        yield cluster
    finally:
        for client in cluster.clients.values():
            client.kill()
            client.communicate()
        cluster.cli("down")


def test_four_clients_get_device_time_by_their_weights(cluster):
    for name, weight in WEIGHTS.items():
        cluster.add(name, PATHWAYS_WEIGHT=str(weight), PATHWAYS_PRIORITY="5")
    assert {name: (c["weight"], c["priority"]) for name, c in cluster.of_clients().items()} == {n: (w, 5) for n, w in WEIGHTS.items()}
    for name in WEIGHTS:
        cluster.tell(name, "")
    cluster.expect(WEIGHTS)

    # While they run: the operator changes one, another changes itself.
    cluster.cli("share", str(cluster.numbers["a"]), "--weight", "8")
    cluster.tell("d", "pw.set_share(weight=1)")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while cluster.of_clients()["d"]["weight"] != 1 and time.monotonic() < deadline:
        pass
    cluster.expect({"a": 8, "b": 2, "c": 4, "d": 1})

    # One is killed: it is no longer there, nor is what it had not started, and the others share the rest.
    cluster.clients["a"].kill()
    cluster.clients["a"].wait()
    while "a" in cluster.of_clients() and time.monotonic() < deadline:
        pass
    del cluster.numbers["a"]
    cluster.expect({"b": 2, "c": 4, "d": 1})
    text = cluster.cli("status").stdout
    assert "policy share" in text and "weight 4, priority 5; device time" in text


def test_what_a_killed_client_had_not_started_is_never_granted(cluster):
    program = BUSY.replace("> 500", "> 5000").replace("while True:", "for _ in range(5000):") + "sys.stdin.readline()\n"
    client = cluster.client(program)
    assert client.stdout.readline() == "ready\n"
    client.stdin.write("\n")
    client.stdin.flush()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        (before,) = cluster.status()["clients"]
        if before["waiting"] > 1000:
            break
    client.kill()
    client.communicate()
    while cluster.status()["clients"] and time.monotonic() < deadline:
        pass
    granted = cluster.status()["granted"]
    assert granted < before["completed"] + before["running"] + before["waiting"]
    other = cluster.client("import jax.numpy as jnp; print(float(jnp.ones(3).sum()))")
    assert other.communicate(timeout=60)[0] == "3.0\n"
    report = cluster.status()
    assert report["granted"] - granted <= 10  # those of the other client
    assert all(host["ops_in_flight"] == 0 for host in report["hosts"])


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
