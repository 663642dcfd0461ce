"""Runs a cluster on this machine: one controller and a worker for every host, as child processes."""

import dataclasses
import json
import os
import pathlib
import secrets
import signal
import socket

from pathways._cluster import addresses, admin, command_lines, processes, records, simulated
from pathways._cluster.shape import Shape

_MOST_PATH = 100  # bytes of a Unix socket's path; the system takes 107
STOP_SECONDS = 15.0  # for a controller that leaves its sessions to the next one
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


@dataclasses.dataclass(frozen=True)
class Page:
    """The address of the controller's page for operators."""

    listen: str                     # HOST:PORT; port 0: a free one
    names: tuple = ()               # more host names that browsers may use
    tls: str | None = None          # "on" or "off"; None: on if other machines reach the address
    certificate: str | None = None  # the file of a chain of certificates that browsers trust; None: the cluster's authority makes one
    key: str | None = None          # the file of its private key


def read_page_url(folder):
    """Returns the address of the page of the cluster whose files are in this folder, http://HOST:PORT/ or https://HOST:PORT/. Returns None while the
    controller does not show it."""
    try:
        address, scheme = (pathlib.Path(folder) / "page.port").read_text().split()
    except (OSError, ValueError):
        return None
    return f"{scheme}://{address}/"


def _with_host(url, name):
    """Returns the address of a page as browsers reach it: a wildcard host becomes `name`."""
    scheme, _, place = url.partition("://")
    return f"{scheme}://{addresses.reachable(place.rstrip('/'), name)}/"


# The heartbeat limit of a cluster that one program owns. All its processes are on this machine: when one ends, its socket closes at once, and no
# network can fail. So silence only means that the machine is busy, and a process may wait that long for its turn.
OWN_HEARTBEAT_LIMIT = "60s"


class Cluster:
    """A controller and its workers. start() starts them and returns when they are ready. `owned`: they end with this process. `listen`: the address
    for clients; None: a Unix socket, for this user. `security`: needed if clients or workers connect over a network. `listen_proxy`: the address at
    which an agent serves jax programs without our package; None: there is no such agent."""

    def __init__(self, shape, folder, platform=None, listen=None, owned=True, policy=None, joinable=None, checksum=False, heartbeat=None,
                 simulated=None, memory_limit=None, spill=False, dispatch=None, listen_proxy=None, security=command_lines.Security(), metrics_port=None, metrics_host="127.0.0.1",
                 hang_limit=None, on_hang=None, usage_file=None, host_python=command_lines.HostPython(), client_grace=None, host_grace=None, controller_grace=None, page=None,
                 device_options=(), restart=False):
        self.shape = shape
        self.folder = pathlib.Path(folder)
        self.platform = platform or command_lines.default_platform()
        self.listen = listen or self._own_socket()
        self.security = security
        self.listen_proxy = listen_proxy
        self.owned = owned
        self.policy = policy
        self.joinable = joinable
        self.checksum = checksum
        self.heartbeat = heartbeat or (OWN_HEARTBEAT_LIMIT if owned and joinable is None else None)
        self.memory_limit = memory_limit  # bytes for arrays on each device; None: all that the device has
        self.device_options = device_options  # with which each host's device plugin is created: NAME=VALUE
        self.spill = spill
        self.host_python = host_python
        self.dispatch = dispatch
        self.usage_file = usage_file  # the controller's records of users' usage; None: it keeps none
        self.hang_limit = hang_limit  # seconds; None: the controller's own choice
        self.on_hang = on_hang  # "end": the session of a computation that hangs ends too; None: it is reported only
        self.client_grace = client_grace  # seconds; None: the controller's own choice
        self.host_grace = host_grace  # seconds; None: the controller's own choice
        # Seconds; None: the controller's own choice. Nobody starts another controller for a program's own cluster.
        self.controller_grace = 0 if owned and joinable is None else controller_grace
        self.restart = restart  # the controller, when it fails
        self.simulated = simulated  # a simulated.Device: all hosts are simulated and have such devices
        self.metrics_port = metrics_port  # the controller's; the workers, and then the agent, have the ports after it. 0: free ones; None: no metrics
        self.metrics_host = metrics_host  # on which they listen; the agent, which has no certificate, always on 127.0.0.1
        self.metrics = {}  # by the name of each process's log: its port file, and once it serves metrics their address
        self.page = page  # a Page; None: the controller serves none
        self.page_url = None  # without a login
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
                processes.wait_for(self._formed, self.processes, START_SECONDS, "the hosts did not join the cluster")
            self._find_metrics()
            self._find_page()
            if agent is not None:
                self.proxy_address = self._reachable(processes.wait_for(agent, self.processes, START_SECONDS, "the agent did not start"))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        processes.stop_all(list(reversed(self.processes)))

    def stop_for_now(self):
        """Stops a cluster without workers of its own so that another one can take its place: its programs wait for that."""
        for process in self.processes:
            process.stop_signal = signal.SIGTERM
        processes.stop_all(list(reversed(self.processes)), STOP_SECONDS)

    handle = {}

    @property
    def members(self):
        return [records.Member(p.log.stem, p.pid, records.start_time(p.pid), str(p.log)) for p in self.processes]

    def failure(self):
        """Describes the first process that has ended; None if all run."""
        return next((p.failure() for p in self.processes if not p.alive()), None)

    def _own_socket(self):
        path = f"{self.folder / 'clients.sock'}"
        return f"unix:{path}" if len(path) <= _MOST_PATH else f"unix:@pathways-{secrets.token_hex(16)}"

    @property
    def access(self):
        """Returns the flags with which this user's programs connect to the cluster."""
        return self.security.flags("operator")

    def _log(self, name):
        return self.folder / f"{name}.log"

    def _listen_workers(self):
        """Returns a Unix socket if clients are on this machine only, else a TCP address: workers may then be on other machines too."""
        if self.joinable is not None and self.joinable.listen_workers:
            return self.joinable.listen_workers
        if addresses.listens_here(self.listen):
            return f"unix:{self.folder / 'workers.sock'}"
        return f"{addresses.split(self.listen, '--listen')[0]}:0"

    def _listen_lanes(self):
        """Returns the address of each worker's lanes for clients; None: the worker's own choice. A worker that joins by a local address chooses a
        local address, which clients on other machines cannot reach."""
        if addresses.listens_here(self.listen) or not addresses.listens_here(self.workers_address):
            return None
        return f"{addresses.split(self.listen, '--listen')[0]}:0"

    def _start_controller(self):
        port_file = self.folder / "controller.port"
        args = command_lines.controller(self.listen, self._listen_workers(), len(self.shape.placement()), port_file, self.policy, self.spill,
                                        self.dispatch, self.hang_limit, usage_file=self.usage_file, security=self.security,
                                        client_grace=self.client_grace, host_grace=self.host_grace, controller_grace=self.controller_grace, on_hang=self.on_hang,
                                        restart=self.restart)
        if self.joinable is None:
            args.append("--own-workers")  # workers started separately would wait for the next controller
        args += self._metrics("controller", 0)
        if self.page is not None:
            advertised = (self._advertise(),) if self._advertise() else ()
            args += command_lines.page(self.page.listen, self._secret("page.token"), self.folder / "page.port", (*self.page.names, *advertised), logs=self.folder,
                                       tls=self.page.tls, certificate=self.page.certificate, key=self.page.key)
        if self.heartbeat:
            args.append(f"--heartbeat-limit={self.heartbeat}")
        if self.owned:
            args.append(processes.ends_with_this_one())
        self.processes.append(processes.Process("pathways-controller", args, self._log(records.CONTROLLER), stop_signal=processes.ENDS_THE_CLUSTER))
        clients, workers = processes.wait_for(
            lambda: addresses.read_ports(port_file), self.processes, START_SECONDS, "the controller did not start")
        self.address, self.workers_address = self._reachable(clients), self._reachable(workers)

    def _start_agent(self):
        """Starts the agent for programs without our package. Returns a function that returns the agent's address once it serves."""
        port_file = self.folder / "agent.port"
        args = [*command_lines.agent(self.address, self.listen_proxy, port_file, access=self.security.flags("agent")),
                *self._metrics("agent", len(self.shape.placement()) + 1)]
        if self.owned:
            args.append(processes.ends_with_this_one())
        self.processes.append(processes.Process("pathways-agent", args, self._log("agent")))
        return lambda: processes.read_port_file(port_file)

    def _metrics(self, name, number):
        """Returns the flags for a process's metrics. `number`: how far its port is above the controller's."""
        if self.metrics_port is None:
            return []
        token_file = self._secret("metrics.token")
        port_file = self.folder / f"{name}.metrics"
        self.metrics[name] = port_file
        host = "127.0.0.1" if name == "agent" else self.metrics_host
        return command_lines.metrics(self.metrics_port + number if self.metrics_port else 0, token_file, port_file, host)

    def _secret(self, name):
        """Returns the path of a file with a secret, which only this user can read; makes it if it is missing."""
        path = self.folder / name
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
        return path

    def _find_page(self):
        if self.page is not None:
            found = processes.wait_for(lambda: read_page_url(self.folder), self.processes, START_SECONDS, "the controller shows no page")
            self.page_url = _with_host(found, self._own_name())

    def _find_metrics(self):
        """Finds out where the metrics are, and writes a configuration with which Prometheus reads them."""
        if self.metrics_port is None:
            return
        for name, port_file in self.metrics.items():
            self.metrics[name] = processes.wait_for(
                lambda: processes.read_port_file(port_file), self.processes, START_SECONDS, f"{name} shows no metrics")
        jobs = {"pathways-controller": ["controller"], "pathways-worker": [name for name in self.metrics if name not in ("controller", "agent")],
                "pathways-agent": [name for name in self.metrics if name == "agent"]}
        scrapes = [{"job_name": job, "authorization": {"credentials_file": str(self.folder / "metrics.token")}, **self._scheme(job),
                    "static_configs": [{"targets": [self._reachable(self.metrics[name])], "labels": {"process": name}} for name in names]}
                   for job, names in jobs.items() if names]
        (self.folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": scrapes}, indent=2))  # JSON is YAML

    def _scheme(self, job):
        """Returns how Prometheus reads a job's metrics: each part of the cluster shows a certificate with the part's name, and not the machine's."""
        if job == "pathways-agent" or addresses.is_loopback(self.metrics_host):
            return {}
        authority = str(self.security.identity / "authority.crt")
        return {"scheme": "https", "tls_config": {"ca_file": authority, "server_name": job.removeprefix("pathways-") + ".pathways"}}

    def _reachable(self, address):
        return addresses.reachable(address, self._own_name())

    def _own_name(self):
        return self._advertise() or socket.gethostname()

    def _advertise(self):
        return self.joinable.advertise if self.joinable is not None else None

    def _start_workers(self):
        if self.simulated is not None:
            args = [*simulated.workers(self.workers_address, self.shape, self.simulated), *self.security.flags("worker")]
            if self.owned:
                args.append(processes.ends_with_this_one())
            self.processes.append(processes.Process("pathways-worker of the simulated hosts", args, self._log("hosts"), simulated.environment()))
            return
        hosts = len(self.shape.placement())
        # Leave room for hosts that replace lost ones, or join later.
        most_hosts = max(hosts + 2, command_lines.MOST_HOSTS) if self.joinable is not None else hosts + 2 if hosts > 1 else 1
        for number, (island, host) in enumerate(self.shape.placement(), 1):
            args = command_lines.worker(self.workers_address, host, island, self.platform, self.shape.devices, most_hosts, self._advertise(),
                                        self.checksum, self.memory_limit, self._listen_lanes(), self.host_python,
                                        own_only=self.listen.startswith("unix:"), access=self.security.flags("worker"),
                                        device_options=self.device_options,
                                        island_hosts=command_lines.island_hosts(self.platform, self.shape.hosts))
            args += ["--exit-with-controller", *self._metrics(host, number)]
            if self.owned:
                args.append(processes.ends_with_this_one())
            self.processes.append(processes.Process(f"pathways-worker {host}", args, self._log(host)))

    def _formed(self):
        try:
            report = admin.status(self.address, seconds=5, access=self.access)
        except admin.StatusError:
            return None
        return report if report.get("joined_hosts", 0) >= len(self.shape.placement()) else None
