"""Kills and stops workers and clients at random moments, under load: all other work goes on, with correct results.

Host `safe` and the clients that use only it are never harmed, and must see no failure. Travellers are clients that use all hosts; when a host is
lost, they get an error that says so, and a new traveller replaces each. PATHWAYS_CHAOS_SECONDS sets the duration. Each run draws a seed and prints it
first; PATHWAYS_CHAOS_SEED repeats the same events in the same order.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import clean_environment
from pathways._cluster import admin, binaries
from pathways._commands import check_trace

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("PATHWAYS_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("PATHWAYS_CHAOS_SEED", str(time.time_ns() % 100000)))
LIMIT_SECONDS = 6  # the heartbeat limit: a worker stopped for longer is lost
SETTLE_SECONDS = 180
VICTIMS = 2

CLIENT = """
import json, sys
import jax, jax.numpy as jnp, numpy as np

kind, rng = sys.argv[1], np.random.default_rng(int(sys.argv[2]))
safe = [d for d in jax.devices() if d.host == "safe"]
others = [d for d in jax.devices() if d.host != "safe"]
f = jax.jit(lambda x: x * 2 + 1)
print("ready", flush=True)
while True:
    value = rng.integers(0, 1000, 1 << 14).astype(np.float32)
    home = safe[rng.integers(len(safe))]
    try:
        if kind == "steady" or not others:
            x = jax.device_put(value, home)
        else:
            x = jax.device_put(f(jax.device_put(value, others[rng.integers(len(others))])), home)
            value = value * 2 + 1
        for _ in range(int(rng.integers(1, 20))):
            x, value = f(x), value * 2 + 1
            value %= 4096
            x = x % 4096
        got = np.asarray(x)
    except jax.errors.JaxRuntimeError as error:
        print("LOST", json.dumps(str(error).splitlines()[0]), flush=True)
        sys.exit(0)
    print("OK" if np.array_equal(got, value) else "WRONG", flush=True)
"""


class Client:
    def __init__(self, world, kind, seed):
        self.kind = kind
        self.killed = False
        self.lines = []
        self.process = subprocess.Popen([sys.executable, "-c", CLIENT, kind, str(seed)], env=world.env, stdout=subprocess.PIPE,
                                        stderr=open(world.folder / f"client-{kind}-{seed}.log", "w"), text=True)
        self.reader = threading.Thread(target=lambda: self.lines.extend(self._read()), daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())
        return []

    def good(self):
        return self.lines.count("OK")

    def ended(self):
        return self.process.poll() is not None

    def end(self):
        self.killed = True
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.reader.join()


class World:
    """The controller, the safe host, the victims, the clients, and a log of the events."""

    def __init__(self, folder):
        self.folder = folder
        self.random = random.Random(SEED)
        self.clients, self.gone, self.workers, self.stopped = [], [], {}, {}
        self.serial = 0
        self.story = [f"seed {SEED}"]  # the events so far; part of every failure message
        self.controller = self._start("pathways-controller", "--listen-clients", f"unix:{folder}/c", "--listen-workers", f"unix:{folder}/w", "--expect-hosts", 1 + VICTIMS, "--port-file",
                                      folder / "port", "--own-workers", "--heartbeat-limit", f"{LIMIT_SECONDS}s", name="controller")
        self.wait("the controller to listen", (folder / "port").exists)
        self.address = (folder / "port").read_text().split()[0]
        self.env = clean_environment(PATHWAYS_ADDRESS=self.address)
        self.add_worker("safe")
        for _ in range(VICTIMS):
            self.add_worker()
        self.wait("the hosts to join", lambda: len(self.status()["hosts"]) == 1 + VICTIMS)
        for kind in ("steady", "steady", "traveller", "traveller"):
            self.add_client(kind)

    def _start(self, binary, *arguments, name):
        log = open(self.folder / f"{name}.log", "w")
        return subprocess.Popen([str(binaries.find(binary)), *map(str, arguments), f"--exit-with-parent={os.getpid()}"], stdout=log, stderr=log)

    def wait(self, what, condition):
        deadline = time.monotonic() + SETTLE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited too long for {what}: {self.story}"
            time.sleep(0.05)

    def status(self):
        return admin.status(self.address, 30)

    def add_worker(self, name=None):
        name = name or f"victim{self.serial}"
        self.serial += 1
        self.workers[name] = self._start("pathways-worker", "--controller", f"unix:{self.folder}/w", "--plugin", binaries.device_plugin("cpu"),
                                         "--island", f"island-{name}", "--host-name", name, "--exit-with-controller", "--devices", 2, name=name)

    def add_client(self, kind):
        self.serial += 1
        self.clients.append(Client(self, kind, self.serial))

    # ---- events
    def kill_worker(self):
        name = self.random.choice([n for n in self.workers if n != "safe"])
        self.story.append(f"kill {name}")
        self.workers[name].kill()
        self.workers.pop(name).wait()
        self.stopped.pop(name, None)
        self.add_worker()

    def stop_worker(self):
        """Stops a worker briefly, or until it is lost."""
        names = [n for n in self.workers if n != "safe" and n not in self.stopped]
        if not names:
            return
        name = self.random.choice(names)
        for_good = self.random.random() < 0.5
        self.story.append(f"stop {name}{' for good' if for_good else ''}")
        self.workers[name].send_signal(signal.SIGSTOP)
        self.stopped[name] = time.monotonic() + (2 * LIMIT_SECONDS if for_good else LIMIT_SECONDS / 8)

    def kill_client(self):
        client = self.random.choice([c for c in self.clients if c.kind == "traveller"] or self.clients)
        self.story.append(f"kill a {client.kind}")
        self._replace(client)

    def stop_client(self):
        client = self.random.choice(self.clients)
        if client.kind == "steady":
            return
        self.story.append(f"stop a {client.kind}")
        client.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        """Continues processes that were stopped long enough; replaces those that have ended."""
        for name, until in list(self.stopped.items()):
            if time.monotonic() > until:
                self.story.append(f"continue {name}")
                self.workers[name].send_signal(signal.SIGCONT)
                del self.stopped[name]
        for name, worker in list(self.workers.items()):
            if name != "safe" and worker.poll() is not None:  # the worker was lost, has noticed it, and has ended
                del self.workers[name]
                self.stopped.pop(name, None)  # it may have ended just before an event stopped it
                self.add_worker()
        for client in list(self.clients):
            if client.kind == "traveller":
                client.process.send_signal(signal.SIGCONT)
                if client.ended():
                    self._replace(client)

    def _replace(self, client):
        if not client.ended():
            client.end()
        self.clients.remove(client)
        self.gone.append(client)
        self.add_client(client.kind)

    def end(self):
        for client in self.clients:
            client.end()
        for worker in self.workers.values():
            worker.send_signal(signal.SIGCONT)
        self.controller.terminate()
        for process in [self.controller, *self.workers.values()]:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def world(tmp_path):
    print(f"to draw the same events again: PATHWAYS_CHAOS_SEED={SEED} PATHWAYS_CHAOS_SECONDS={SECONDS:g} pytest {__file__}")
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.end()


def check_travellers(world):
    for client in world.gone + world.clients:
        client.reader.join(timeout=0 if not client.ended() else 10)
        assert "WRONG" not in client.lines, world.story
        losses = [json.loads(line[5:]) for line in client.lines if line.startswith("LOST")]
        assert client.kind == "traveller" or not losses, (losses, world.story)
        for text in losses:
            assert text.startswith(("DATA_LOSS", "UNAVAILABLE")) and "victim" in text, (text, world.story)
        if client.ended() and not client.killed:
            assert losses and client.process.returncode == 0, (client.lines[-3:], client.process.returncode, world.story)


def test_what_is_killed_and_stopped_takes_nothing_else_with_it(world):
    steady = [c for c in world.clients if c.kind == "steady"]
    world.wait("the clients to work", lambda: all(c.good() > 0 for c in world.clients))
    trace = subprocess.Popen([str(binaries.find("pathways-controller")), "--trace", world.address, f"--trace-duration={SECONDS}s",
                              f"--trace-output={world.folder}/trace.json", "--status-timeout", "60s"], stdout=subprocess.PIPE)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(world.story) < SECONDS / 4:
        world.random.choice([world.kill_worker, world.stop_worker, world.stop_worker, world.kill_client, world.stop_client])()
        pause = time.monotonic() + world.random.uniform(0.1, 2)
        while time.monotonic() < pause:
            world.go_on()
            time.sleep(0.05)
        assert world.controller.poll() is None and world.workers["safe"].poll() is None, world.story

    # After the last event all clients work, on all hosts.
    world.stopped = {name: 0 for name in world.stopped}
    before = {c: c.good() for c in steady}
    world.wait("the steady clients to go on", lambda: all(c.good() > before[c] for c in steady))

    def all_work():
        world.go_on()
        return all(c.good() > 0 for c in world.clients)

    world.wait("the travellers to work again", all_work)
    check_travellers(world)
    assert sum(c.good() for c in steady) > 0 and sum(c.good() for c in world.gone + world.clients if c.kind == "traveller") > 0

    # The recorded trace violates no promise of order.
    assert json.loads(trace.communicate(timeout=90)[0])["events"] > 0
    report = check_trace.check_file(world.folder / "trace.json")
    assert not report.findings, (report.text(), world.story)

    # Clients that have ended leave nothing behind.
    for client in world.clients:
        client.end()
    world.gone += world.clients
    world.clients = []
    world.wait("the sessions to end", lambda: not world.status()["clients"])
    world.wait("the computations to end", lambda: all(h["ops_in_flight"] == 0 for h in world.status()["hosts"]))
    assert all(d["memory"]["used_bytes"] == 0 for d in world.status()["devices"] if "memory" in d), world.story
