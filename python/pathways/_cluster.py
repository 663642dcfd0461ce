"""Runs a cluster on this machine: one controller and a worker for every host, as child processes."""

import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from pathways import _binaries, _launch, _processes, _simulated, _state
from pathways._shape import Shape

START_SECONDS = float(os.environ.get("PATHWAYS_START_SECONDS", "60"))


def default_shape():
    text = os.environ.get("PATHWAYS_LOCAL", "")
    try:
        return Shape.parse(text) if text else Shape()
    except ValueError as error:
        raise ValueError(f"PATHWAYS_LOCAL: {error}") from None


@dataclasses.dataclass(frozen=True)
class Joinable:
    """Options of a cluster that workers started separately may join."""

    with_workers: bool = True            # start workers too; else only the controller, which waits for the shape's hosts to join
    listen_workers: str | None = None    # the address for workers; default: derived from `listen`
    advertise: str | None = None         # the name under which other machines reach this one; default: its network name


class Cluster:
    """A controller and its workers. start() starts them and returns when they are ready. `owned`: they end with this process. `listen`: where clients
    connect. `listen_proxy`: where an agent of the cluster serves jax programs without our package; None: there is no such agent."""

    def __init__(self, shape, folder, platform=None, listen="127.0.0.1:0", owned=True, policy=None, joinable=None, checksum=False, heartbeat=None,
                 simulated=None, memory_limit=None, spill=False, dispatch=None, listen_proxy=None):
        self.shape = shape
        self.folder = pathlib.Path(folder)
        self.platform = platform or _launch.default_platform()
        self.listen = listen
        self.listen_proxy = listen_proxy
        self.owned = owned
        self.policy = policy
        self.joinable = joinable
        self.checksum = checksum
        self.heartbeat = heartbeat
        self.memory_limit = memory_limit  # bytes for arrays on each device; None: all that the device has
        self.spill = spill
        self.dispatch = dispatch
        self.simulated = simulated  # a _simulated.Device: all hosts are simulated and have such devices
        self.address = None
        self.workers_address = None
        self.proxy_address = None
        self.processes = []

    def start(self):
        try:
            self._start_controller()
            with_workers = self.joinable is None or self.joinable.with_workers
            if with_workers:
                self._start_workers()
            agent = self._start_agent() if self.listen_proxy is not None else None
            if with_workers:
                _processes.wait_for(self._formed, self.processes, START_SECONDS, "the hosts did not join the cluster")
            if agent is not None:
                self.proxy_address = self._reachable(_processes.wait_for(agent, self.processes, START_SECONDS, "the agent did not start"))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        _processes.stop_all(list(reversed(self.processes)))

    handle = {}

    @property
    def members(self):
        return [_state.Member(p.log.stem, p.pid, _state.start_time(p.pid), str(p.log)) for p in self.processes]

    def failure(self):
        """Describes the first process that has ended; None if all run."""
        return next((p.failure() for p in self.processes if not p.alive()), None)

    def _log(self, name):
        return self.folder / f"{name}.log"

    def _listen_workers(self):
        """Returns a Unix socket if clients are on this machine only, else a TCP address: workers may then be on other machines too."""
        if self.joinable is not None and self.joinable.listen_workers:
            return self.joinable.listen_workers
        if _launch.listens_here(self.listen):
            return f"unix:{self.folder / 'workers.sock'}"
        return f"{_launch.split(self.listen, '--listen')[0]}:0"

    def _listen_lanes(self):
        """Returns the address of each worker for clients; None: the worker's own choice. Its choice depends on where it joins, so it does not serve
        clients of other machines if workers are on this machine only."""
        if _launch.listens_here(self.listen) or not _launch.listens_here(self.workers_address):
            return None
        return f"{_launch.split(self.listen, '--listen')[0]}:0"

    def _start_controller(self):
        port_file = self.folder / "controller.port"
        args = _launch.controller(self.listen, self._listen_workers(), len(self.shape.placement()), port_file, self.policy, self.spill,
                                  self.dispatch)
        if self.joinable is None:
            args.append("--own-workers")  # workers started separately would wait for the next controller
        if self.heartbeat:
            args.append(f"--heartbeat-limit={self.heartbeat}")
        if self.owned:
            args.append("--exit-with-parent")
        self.processes.append(_processes.Process("pathways-controller", args, self._log("controller")))
        clients, workers = _processes.wait_for(
            lambda: _launch.read_ports(port_file), self.processes, START_SECONDS, "the controller did not start")
        self.address, self.workers_address = self._reachable(clients), self._reachable(workers)

    def _start_agent(self):
        """Starts the agent for programs without our package. Returns a function that returns the agent's address once it serves."""
        port_file = self.folder / "agent.port"
        args = _launch.agent(self.address, self.listen_proxy, port_file)
        if self.owned:
            args.append("--exit-with-parent")
        self.processes.append(_processes.Process("pathways-agent", args, self._log("agent")))
        return lambda: _processes.read_port_file(port_file)

    def _reachable(self, address):
        return _launch.reachable(address, self._advertise() or socket.gethostname())

    def _advertise(self):
        return self.joinable.advertise if self.joinable is not None else None

    def _start_workers(self):
        if self.simulated is not None:
            args = _simulated.workers(self.workers_address, self.shape, self.simulated)
            if self.owned:
                args.append("--exit-with-parent")
            self.processes.append(_processes.Process("pathways-worker of the simulated hosts", args, self._log("hosts"), _simulated.environment()))
            return
        hosts = len(self.shape.placement())
        # Leave room for hosts that replace lost ones, or join later.
        most_hosts = max(hosts + 2, _launch.MOST_HOSTS) if self.joinable is not None else hosts + 2 if hosts > 1 else 1
        for island, host in self.shape.placement():
            args = _launch.worker(self.workers_address, host, island, self.platform, self.shape.devices, most_hosts, self._advertise(),
                                  self.checksum, self.memory_limit, self._listen_lanes())
            args.append("--exit-with-controller")
            if self.owned:
                args.append("--exit-with-parent")
            self.processes.append(_processes.Process(f"pathways-worker {host}", args, self._log(host)))

    def _formed(self):
        try:
            report = status(self.address, seconds=5)
        except StatusError:
            return None
        return report if report.get("joined_hosts", 0) >= len(self.shape.placement()) else None


class StatusError(RuntimeError):
    """The controller did not answer."""


def status(address, seconds=10.0, at_workers=False):
    """Returns the status report of the controller whose clients connect to `address`; `at_workers`: whose workers join there."""
    return _ask(address, seconds, "--status-at-workers" if at_workers else "--status", address, f"--status-timeout={seconds}s")


def share(address, client, weight=None, priority=None):
    """Changes a client's share; returns the share now in force."""
    change = [f"--share-{name}={value}" for name, value in (("weight", weight), ("priority", priority)) if value is not None]
    return _ask(address, 10.0, "--share", address, f"--share-client={client}", *change)


def drain(address, host, undo, seconds):
    """Moves the virtual slices off a host, or with `undo` allows them again. Returns {"moved": [slice, ...], "stuck": [{"slice", "why"}, ...]}."""
    return _ask(address, seconds + 10, "--drain", address, f"--drain-host={host}", f"--status-timeout={seconds}s",
                *(["--drain-undo"] if undo else []))


def suspend(address, client, resume, seconds):
    """Suspends or resumes a client; returns {"client", "arrays", "bytes"}."""
    return _ask(address, seconds + 10, "--resume" if resume else "--suspend", address, f"--suspend-client={client}", f"--status-timeout={seconds}s")


def trace(address, seconds, path):
    """Has the cluster record its events into a file; returns a summary."""
    return _ask(address, seconds + 60, "--trace", address, f"--trace-duration={seconds}s", f"--trace-output={path}", "--status-timeout=50s")


def _ask(address, seconds, *question):
    try:
        done = subprocess.run([str(_binaries.find("pathways-controller")), *question], capture_output=True, text=True, timeout=seconds + 10, check=False)
    except subprocess.TimeoutExpired:
        raise StatusError(f"no answer from the controller at {address} within {seconds:.0f} s") from None
    if done.returncode != 0:
        raise StatusError(done.stderr.strip() or f"pathways-controller {question[0]} {address} ended with status {done.returncode}")
    return json.loads(done.stdout)


# ------------------------------------------------------------------------------------------------- folders of one run
def _runs():
    return pathlib.Path(tempfile.gettempdir()) / f"pathways-{os.getuid()}"


KEPT_SECONDS = 600  # after the last write to its logs
_held = []  # lock descriptors of this process's run folders; never closed, so the locks last until the process ends


def new_run_folder():
    """Makes a private folder for sockets and logs, and removes old folders of processes that have ended, KEPT_SECONDS after their last log line.
    A folder whose lock is free has no process; this test also works across containers, where process ids are invisible."""
    runs = _runs()
    runs.mkdir(mode=0o700, exist_ok=True)
    if runs.stat().st_uid != os.getuid():
        raise PermissionError(f"{runs} belongs to another user; set TMPDIR to a folder of your own")
    for old in [*runs.glob("run-*"), *runs.glob(".run-*")]:
        if _abandoned(old):
            shutil.rmtree(old, ignore_errors=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f".run-{os.getpid()}-", dir=runs))
    _held.append(os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    fcntl.flock(_held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder.rename(runs / folder.name[1:])  # other processes test the lock of folders with such names only


def _abandoned(folder):
    try:
        if not folder.name.startswith("."):
            with open(folder / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return time.time() - max(path.stat().st_mtime for path in folder.iterdir()) > KEPT_SECONDS
    except FileNotFoundError:
        pass  # its process was killed while making it, or belongs to a version without locks
    except OSError:
        return False  # locked: its process lives
    try:
        return time.time() - folder.stat().st_mtime > 86400
    except OSError:
        return False
