"""Starts the sides of a comparison, servers and clients in separate processes, and runs them in alternating rounds."""

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ANSWER_SECONDS = 180


class Stuck(RuntimeError):
    """A side did not answer in time. Stock jax on CPU can hang without our code under a deep queue of collectives."""


class Side:
    """A process that answers requests in JSON lines."""

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

    def processes(self):
        return tree(self.process.pid)

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Together:
    """The processes of one program. All get the same request at the same time; the slowest answer counts for all."""

    def __init__(self, sides):
        self.sides = sides

    def ask(self, do, **arguments):
        for side in self.sides:
            side.send(json.dumps({"do": do, **arguments}))
        answers = [side.receive() for side in self.sides]
        failed = [answer for answer in answers if "error" in answer]
        return failed[0] if failed else min(answers, key=speed)

    def processes(self):
        return [pid for side in self.sides for pid in side.processes()]


def speed(answer):
    """Returns the speed in an answer; larger is faster."""
    return next((answer[key] for key in ("per_s", "tokens_per_s") if key in answer), -answer.get("p50_us", 0))


def our_allocator():
    """Returns the environment variables that give another program the allocator of our processes (cmake/PathwaysDeps.cmake, bin/malloc_conf.cc)."""
    library = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if library is None:
        raise RuntimeError("libjemalloc.so.2 is not installed: tools/setup.sh does that")
    return {"LD_PRELOAD": str(library), "MALLOC_CONF": "background_thread:true"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def opened(*sides):
    """Waits until processes that were started together are ready; yields one Side, or a Together of several."""
    try:
        for side in sides:
            side.info = side.receive()
        yield Together(sides) if len(sides) > 1 else sides[0]
    finally:
        for side in sides:
            side.close()


def multicontroller(mode, script, hosts, devices, words=(), patience=ANSWER_SECONDS, env=None):
    """Opens jax processes, one for each host. mode: "multicontroller" or "multicontroller-plugin" (_client.py). words: further script arguments."""
    from pathways._cluster import binaries

    port, env = free_port(), {"PATHWAYS_BENCH_PLUGIN": str(binaries.device_plugin("cpu")), **(env or {})}
    return opened(*(Side(f"process{i}", [sys.executable, script, mode, f"127.0.0.1:{port}/{i}/{hosts}/{devices}", *words], env, patience=patience)
                    for i in range(hosts)))


@contextlib.contextmanager
def client(name, mode, address="", env=None):
    """Starts a jax process (_client.py) and yields it when it is ready."""
    side = Side(name, [sys.executable, HERE / "_client.py", mode, address], env)
    try:
        side.info = side.receive()
        yield side
    finally:
        side.close()


@contextlib.contextmanager
def floor_server(tree, *flags, pinned=None):
    """Starts a server that discards requests; yields its address. pinned: the processors to run it on, see pin."""
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
def cluster(shape="1x1x8", policy=None, dispatch=None, listen_proxy=None, observed=False, hang_limit=None):
    """Starts a local cluster of the installed package and yields it. Its `processes` begin with the controller, then the workers. listen_proxy: the
    address at which its own agent listens for clients without the package. observed: it serves metrics and, if the package has one, the page, and
    stores what its users use. hang_limit: seconds after which a computation may hang."""
    from pathways._cluster import binaries, local
    from pathways._cluster.shape import Shape

    observation = {"hang_limit": hang_limit}
    if observed:
        observation["metrics_port"] = 0
        with contextlib.suppress(binaries.MissingError):
            binaries.page_files()
            observation["page"] = local.Page("127.0.0.1:0")
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder:
        if observed:
            observation["usage_file"] = pathlib.Path(folder) / "usage.sqlite"
        running = local.Cluster(Shape.parse(shape), folder, policy=policy, dispatch=dispatch, listen_proxy=listen_proxy, **observation).start()
        try:
            yield running
        finally:
            running.stop()


@contextlib.contextmanager
def two_workers(shared, tls=False):
    """Starts a cluster of two hosts of one device each, all on TCP. Yields (its address, the environment of its clients). shared: the hosts share
    memory with each other, and with clients that can. tls: all that its processes send is encrypted."""
    from pathways._cluster import admin, binaries, command_lines

    with tempfile.TemporaryDirectory(prefix="bench-two-workers-") as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)
        security = command_lines.Security(folder / "identity", folder) if tls else command_lines.Security(tls="off")

        def start(binary, *arguments):
            process = subprocess.Popen([str(binaries.find(binary)), *map(str, arguments), f"--exit-with-parent={os.getpid()}"], stderr=subprocess.DEVNULL)
            stack.callback(lambda: (process.terminate(), process.wait(30)))

        port = folder / "port"
        start("pathways-controller", "--listen-clients", "127.0.0.1:0", "--listen-workers", "127.0.0.1:0", "--expect-hosts", 2, "--port-file", port,
              "--own-workers", *security.controller_flags())
        while not port.exists():
            time.sleep(0.02)
        clients, workers = port.read_text().split()[:2]
        for host in range(2):
            start("pathways-worker", "--controller", workers.removeprefix("tcp:"), "--plugin", binaries.device_plugin("cpu"), "--island", f"i{host}",
                  "--host-name", f"h{host}", "--exit-with-controller", "--devices", 1, "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1",
                  *security.flags("worker"), *([] if shared else ["--no-shared-memory"]))
        access = security.flags("operator")
        while len(admin.status(clients, access=access)["hosts"]) < 2:
            time.sleep(0.05)
        yield clients, {"PATHWAYS_TOKEN_FILE": str(access[1])} if tls else {"PATHWAYS_TLS": "off"}


@contextlib.contextmanager
def simulated(hosts, device, islands=1, devices=4):
    """Starts a simulated_cluster; yields its address."""
    with simulated_cluster(hosts, device, islands, devices) as running:
        yield running.address


@contextlib.contextmanager
def simulated_cluster(hosts, device, islands=1, devices=4, policy=None):
    """Starts a cluster of simulated hosts with `devices` devices each, divided equally among the islands. Yields the Cluster; its processes are the
    controller and one for all hosts. device: the devices' performance, as for `pathways up --simulated-device`."""
    from pathways._cluster import local, simulated
    from pathways._cluster.shape import Shape

    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder:
        running = local.Cluster(Shape(islands, hosts // islands, devices), folder, "simulated", policy=policy, simulated=simulated.parse_device(device)).start()
        try:
            yield running
        finally:
            running.stop()


def take_turns(rounds, asks, warm=True):
    """Calls the functions in asks, {name: function}, in turn, `rounds` times; returns {name: [results]}. Every second round has them backwards, so that
    none always comes after the same one. warm: add a first round that is not counted."""
    results = {name: [] for name in asks}
    for number in range(0 if warm else 1, rounds + 1):
        for name in list(asks)[::1 if number % 2 else -1]:
            result = asks[name]()
            if number:
                results[name].append(result)
    return results


def median(results, key):
    return statistics.median(r[key] for r in results)


def quartiles(values):
    """Returns the bounds of the middle half; of fewer than two values, the extremes."""
    return [min(values), max(values)] if len(values) < 2 else [statistics.quantiles(values, n=4, method="inclusive")[at] for at in (0, 2)]


def spread(results, key):
    """Returns the largest value over the smallest, which shows how reliable a median is."""
    values = [r[key] for r in results]
    return max(values) / max(min(values), 1e-12)


def _processor_states():
    """Returns the seconds of all processors in each state since the machine started, in the order of proc(5)."""
    return [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]


def stolen_seconds():
    """Returns the processor seconds, over all processors, that other guests of the hardware took since this machine started; 0 if unknown."""
    seconds = _processor_states()
    return seconds[7] if len(seconds) > 7 else 0


def outside_seconds(root):
    """Returns the processor seconds of all processes outside the tree of `root`; see outside. The kernel's threads are left out."""
    uses = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = _fields(folder.name)
            if not int(fields[6]) & KERNEL_THREAD:
                uses[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return outside(uses, root)


KERNEL_THREAD = 0x00200000  # PF_KTHREAD, a flag of a process


def outside(uses, root):
    """Returns the seconds of the processes that are neither `root` nor its descendants. uses: {process: (its parent, the seconds that it used, and its children that
    have ended and that it waited for)}. What a process used moves to its parent when it ends. So the difference of two readings is what these processes used
    meanwhile, also those that began or ended."""
    def is_inside(pid):
        while pid in uses and pid != root:
            pid = uses[pid][0]
        return pid == root

    return sum(seconds for pid, (_, seconds) in uses.items() if not is_inside(pid))


def processor_seconds(pid):
    """Returns the processor seconds that a process has used, over all its threads, those that ended too. Raises OSError if it is gone."""
    return time.clock_gettime(~pid << 3 | 2)  # the process's own clock, in nanoseconds: see clock_getcpuclockid(3)


def _fields(pid):
    """Returns the fields of /proc/PID/stat from the state on, as texts: see proc(5). Raises OSError if the process is gone."""
    return pathlib.Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()


def _stat(pid):
    """Returns (state, parent) of a process, as texts. Raises OSError if it is gone."""
    return _fields(pid)[:2]


def _state(pid):
    """Returns the state of a process; "T" also of one that is gone."""
    try:
        return _stat(pid)[0]
    except OSError:
        return "T"


def _parents():
    """Returns {process: its parent} of all processes that have not ended."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, parent = _stat(folder.name)
            if state != "Z":
                found[int(folder.name)] = int(parent)
    return found


def tree(root):
    """Returns a process and all its descendants, parents before their children; [] if it has ended."""
    parents = _parents()
    children_of = {}
    for pid, parent in parents.items():
        children_of.setdefault(parent, []).append(pid)
    found = [root] if root in parents else []
    for pid in found:  # grows meanwhile
        found += children_of.get(pid, ())
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def pause(root):
    """Stops a process and all its descendants; returns when all have stopped. One that is stopped starts no others, so this ends."""
    while running := [pid for pid in tree(root) if _state(pid) != "T"]:
        signal_all(running, signal.SIGSTOP)
        time.sleep(0.001)  # a running process stops a moment after the signal


def resume(root):
    signal_all(tree(root), signal.SIGCONT)


def children(pid):
    """Returns {name: pid} of the child processes of `pid`."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found[pathlib.Path(f"/proc/{child}/comm").read_text().strip()] = int(child)
    return found


def door(client):
    """Returns {"agent": process id} of the process through which a client enters its cluster. The key is "local" if that process is the whole
    cluster. {} if there is none."""
    return {name.removeprefix("pathways-"): pid for name, pid in children(client).items() if name.startswith("pathways-")}


def pin(pid, processors):
    """Restricts all threads of a process, and threads that they start later, to these processors."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), processors)


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has ended")
