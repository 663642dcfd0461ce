"""What is compared with what: servers and clients, each in processes of its own, and rounds that take turns."""

import contextlib
import json
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ANSWER_SECONDS = 180


class Stuck(RuntimeError):
    """A side did not answer in time. Stock jax on CPU can do that by itself under a deep queue of collectives."""


class Side:
    """A process that answers JSON lines."""

    def __init__(self, name, command, env=None, log=None, patience=ANSWER_SECONDS):
        self.name, self.patience = name, patience
        self.log = log or tempfile.NamedTemporaryFile(prefix=f"bench-{name}-", suffix=".log")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, **(env or {})})

    def send(self, text):
        self.process.stdin.write((text + "\n").encode())
        self.process.stdin.flush()

    def receive(self):
        ready, _, _ = select.select([self.process.stdout], [], [], self.patience)
        line = self.process.stdout.readline() if ready else None
        if line:
            return json.loads(line)
        how = f"did not answer within {self.patience} s" if not ready else f"ended with status {self.process.wait()}"
        raise Stuck(f"{self.name} {how}; its last words:\n{pathlib.Path(self.log.name).read_text(errors='replace')[-2000:]}")

    def ask(self, do, **arguments):
        self.send(json.dumps({"do": do, **arguments}))
        return self.receive()

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Together:
    """Processes of one program, each of which is asked the same at the same time: the slowest answer is that of all."""

    def __init__(self, sides):
        self.sides = sides

    def ask(self, do, **arguments):
        for side in self.sides:
            side.send(json.dumps({"do": do, **arguments}))
        answers = [side.receive() for side in self.sides]
        failed = [answer for answer in answers if "error" in answer]
        return failed[0] if failed else min(answers, key=speed)


def speed(answer):
    """Of an answer, larger is faster."""
    return next((answer[key] for key in ("per_s", "tokens_per_s") if key in answer), -answer.get("p50_us", 0))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def opened(*sides):
    """What can be asked, of processes that were started side by side: those of one program wait for each other."""
    try:
        for side in sides:
            side.info = side.receive()
        yield Together(sides) if len(sides) > 1 else sides[0]
    finally:
        for side in sides:
            side.close()


def multicontroller(mode, script, hosts, devices, words=(), patience=ANSWER_SECONDS):
    """`opened` processes of jax, one for each host. mode: "multicontroller" or "multicontroller-plugin", see _client.py; words: what else the script is told."""
    from pathways import _binaries

    port, env = free_port(), {"PATHWAYS_BENCH_PLUGIN": str(_binaries.device_plugin("cpu"))}
    return opened(*(Side(f"process{i}", [sys.executable, script, mode, f"127.0.0.1:{port}/{i}/{hosts}/{devices}", *words], env, patience=patience)
                    for i in range(hosts)))


@contextlib.contextmanager
def client(name, mode, address="", env=None):
    """A jax process, see _client.py; ready when this returns."""
    side = Side(name, [sys.executable, HERE / "_client.py", mode, address], env)
    try:
        side.info = side.receive()
        yield side
    finally:
        side.close()


@contextlib.contextmanager
def floor_server(tree, *flags, pinned=None):
    """The address of a server that discards. pinned: the processors it runs on, see pin."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = pathlib.Path(folder) / "port"
        process = subprocess.Popen([str(tree / "bin" / "floor_server"), "--port-file", str(port_file), *flags], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"floor_server did not start (status {process.poll()})")
                time.sleep(0.01)
            if pinned:
                pin(process.pid, pinned)
            yield port_file.read_text().strip()
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def cluster(shape="1x1x8", policy=None, dispatch=None):
    """A local cluster of the installed package; yields it (address, processes: the controller comes first)."""
    from pathways import _cluster
    from pathways._shape import Shape

    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder:
        running = _cluster.Cluster(Shape.parse(shape), folder, policy=policy, dispatch=dispatch).start()
        try:
            yield running
        finally:
            running.stop()


@contextlib.contextmanager
def simulated(hosts, device, islands=1, devices=4):
    """The address of simulated_cluster."""
    with simulated_cluster(hosts, device, islands, devices) as running:
        yield running.address


@contextlib.contextmanager
def simulated_cluster(hosts, device, islands=1, devices=4, policy=None):
    """A cluster (address, processes: the controller, and one for all hosts) of simulated hosts of so many devices, those of an island equally many. device:
    what they can do, as `pathways up --simulated-device` takes it."""
    from pathways import _cluster, _simulated
    from pathways._shape import Shape

    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder:
        running = _cluster.Cluster(Shape(islands, hosts // islands, devices), folder, "simulated", policy=policy, simulated=_simulated.parse_device(device)).start()
        try:
            yield running
        finally:
            running.stop()


def take_turns(rounds, asks, warm=True):
    """asks: {name: function}. Runs all of them in turn, `rounds` times after one that does not count (unless they are warm); {name: [results]}."""
    results = {name: [] for name in asks}
    for number in range(0 if warm else 1, rounds + 1):
        for name, ask in asks.items():
            result = ask()
            if number:
                results[name].append(result)
    return results


def median(results, key):
    return statistics.median(r[key] for r in results)


def spread(results, key):
    """Largest over smallest: how far to trust a median."""
    values = [r[key] for r in results]
    return max(values) / max(min(values), 1e-12)


def stolen_seconds():
    """What of this machine's processors, all together, has gone to others on the same hardware since it was started; 0 where nobody tells."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0


def processor_seconds(pid):
    """What a process has used of the processors, all its threads together."""
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def children(pid):
    """{name: pid} of the processes that this one has started."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found[pathlib.Path(f"/proc/{child}/comm").read_text().strip()] = int(child)
    return found


def pin(pid, processors):
    """All threads of a process, and those that they start from now on, run on these processors alone."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), processors)


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has ended")
