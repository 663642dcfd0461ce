"""Builds the command lines of controllers, agents and workers, for every launcher: this machine, `pathways worker`, Slurm and Ray."""

import dataclasses
import os
import pathlib
import sys
import tempfile

from pathways._cluster import addresses, binaries, credentials

# The most hosts that one computation may span in a cluster that hosts can join (cpu plugin only; a bound, not a reservation).
MOST_HOSTS = 8
# The workers' default limit of the compile cache's size (--compile-cache-bytes).
COMPILE_CACHE_BYTES = 4 << 30


def default_platform():
    return os.environ.get("PATHWAYS_PLATFORM", "cpu")


def island_hosts(platform, hosts):
    """Returns --island-hosts of the workers of an island of `hosts` hosts. 1: its hosts come and go, as only the CPU plugin's can;
    PATHWAYS_FIXED_ISLANDS keeps them together too."""
    fixed = platform != "cpu" or os.environ.get("PATHWAYS_FIXED_ISLANDS", "") not in ("", "0")
    return hosts if fixed else 1


def compile_cache_folder():
    """Returns the folder of compiled programs, which all clusters of this user share; None: it is switched off."""
    folder = os.environ.get("PATHWAYS_COMPILE_CACHE")
    if folder == "off":
        return None
    if folder:
        return pathlib.Path(folder)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pathways" / "programs"


def compile_cache():
    """Returns the flags for the compile cache on disk: the second run of a script compiles nothing."""
    folder = compile_cache_folder()
    return [] if folder is None else ["--compile-cache", folder]


def _client_files(here, users=False):
    """Returns the flags that name the folders in which programs may have a process read and write files. Hosts keep arrays there (pathwaysutils'
    persistence, Orbax), front doors profiles. Other folders are refused, because every client can name files. `here`: only processes of this machine
    can connect; otherwise the operator must name a folder. `users`: for a host; its other users get only the folder that the operator named."""
    named = os.environ.get("PATHWAYS_PERSISTENCE_DIRECTORY")
    below = named or (tempfile.gettempdir() if here else None)
    if below is None:
        return []
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    of_users = ["--users-directory", named] if named and users else []
    return ["--persistence-directory", below, *of_users, "--object-directory", cache / "pathways" / "objects"]


def _object_stores():
    """Returns the flags of a host's object stores, which its environment names (docs/checkpoints.md)."""
    stores = os.environ.get("PATHWAYS_OBJECT_STORES", "").split()
    named = {"--object-credentials": os.environ.get("PATHWAYS_OBJECT_CREDENTIALS"), "--users-objects": os.environ.get("PATHWAYS_USERS_OBJECTS")}
    return [*(f"--object-store={store}" for store in stores), *(f"{flag}={value}" for flag, value in named.items() if value)]


def _front_door():
    """Returns the flags of the process that jax's clients connect to: an agent, or a cluster of one process."""
    return ["--translator-python", sys.executable, *_client_files(here=True)]


@dataclasses.dataclass(frozen=True)
class HostPython:
    """Options of workers for running clients' Python functions."""

    interpreter: str | None = None  # None: PATHWAYS_HOST_PYTHON names it; "off": none
    user: str | None = None         # the user that runs them; None: the worker's
    memory: int | None = None       # bytes of private memory for each client; None: no limit
    processes: int | None = None    # the most processes and threads of `user`; None: no limit
    seconds: float | None = None    # that a call may take; None: no limit

    def flags(self, own_only=False):
        """Returns the flags. `own_only`: only this user's processes can connect. If no interpreter is named, functions run with this one if
        `own_only`, or if `user` is set; else they are refused, because a client's functions would have the worker's rights."""
        interpreter = self.interpreter or os.environ.get("PATHWAYS_HOST_PYTHON") or (sys.executable if own_only or self.user else "off")
        if interpreter == "off":
            return []
        limits = {"--python-user": self.user, "--python-memory": self.memory, "--python-processes": self.processes,
                  "--python-seconds": self.seconds}
        return ["--host-python", interpreter, *(f"{flag}={value}" for flag, value in limits.items() if value is not None)]


def agent(cluster, listen, port_file=None, patience=None, access=None):
    """Returns the agent's command line. `cluster`: the controller's address for clients. `patience`: seconds to wait for the controller when a program
    connects. `access`: the flags with which the agent connects to it; None: this user's. The port file's first line is the address for programs."""
    access = credentials.flags(cluster) if access is None else access
    args = [binaries.find("pathways-agent"), "--cluster", cluster, "--listen", listen, *access, *_front_door()]
    if patience is not None:
        args.append(f"--patience={patience}s")
    return [*args, "--port-file", port_file] if port_file else args


def local(island, host, platform, devices, port_file, listen):
    """Returns the command line of a cluster of one host in one process. `listen`: the address of its controller. The port file's first line is the
    address for programs."""
    return [binaries.find("pathways-local"), "--port-file", port_file, *_local(island, host, platform, devices, listen), *_front_door(),
            *_object_stores(), *HostPython().flags(listen.startswith("unix:"))]


def local_in_this_process(island, host, platform, devices, listen, log):
    """Returns the flags of such a cluster in this process, as the PJRT door takes them: one word a line. `log`: the file for its log lines."""
    flags = [*_local(island, host, platform, devices, listen), "--log", log]
    if any("\n" in str(flag) for flag in flags):
        raise ValueError(f"a path with a line break cannot be used for a local cluster: {flags}")
    return "\n".join(map(str, flags))


def _local(island, host, platform, devices, listen):
    return ["--island", island, "--host-name", host, "--listen-clients", listen, *_devices(platform, devices), *_staged_limit()]


def metrics(port, token_file, port_file=None, host="127.0.0.1"):
    """Returns the flags with which a controller, a worker or an agent serves its metrics (docs/operators.md). `port` 0: a free one; None: no flags.
    `token_file`: holds the secret that readers must send. `host`: of the address; one that other machines reach has HTTPS."""
    if port is None:
        return []
    return [f"--listen-metrics={host}:{port}", "--metrics-token-file", token_file, *(["--metrics-port-file", port_file] if port_file else [])]


def page(listen, token_file, port_file, names=(), logs=None, tls=None, certificate=None, key=None):
    """Returns the flags with which a controller serves its page to operators (docs/operators.md). `names`: more host names that browsers may use.
    `logs`: the folder of the logs that it shows; None: it shows none. `tls`: "on" or "off"; None: on if other machines reach the address.
    `certificate`, `key`: files of a certificate that the cluster's authority has not made."""
    security = {"--page-tls": tls, "--page-certificate": certificate, "--page-key": key}
    return [*(f"{flag}={value}" for flag, value in security.items() if value is not None), "--listen-page", listen, *(["--page-logs", logs] if logs else []), "--page-files", binaries.page_files(), "--page-token-file", token_file, "--page-port-file", port_file,
            *(["--page-names", ",".join(names)] if names else [])]


def _staged_limit():
    limit = os.environ.get("PATHWAYS_STAGED_LIMIT")
    return [f"--staged-limit={limit}"] if limit else []


# The flags of the controller, and of `pathways up`, that describe an identity provider (OpenID Connect), without "--oidc-".
OIDC = ("issuer", "audience", "user-claim", "operators", "keys", "ca")


def oidc(args):
    """Returns {name in OIDC: value} of the parsed options of `pathways up` that were given. Raises ValueError for some that mean nothing together."""
    given = {name: value for name in OIDC if (value := getattr(args, "oidc_" + name.replace("-", "_"))) is not None}
    if not given:
        return {}
    if not {"issuer", "audience"} <= given.keys():
        raise ValueError("tokens of an identity provider need both --oidc-issuer and --oidc-audience: tokens that it made for other services must not count here")
    if args.tls == "off":
        raise ValueError("--oidc-issuer means nothing with --tls off, where nobody shows a token")
    files = {name: os.path.abspath(given[name]) for name in ("keys", "ca") if name in given and not given[name].startswith("https://")}
    return {**given, **files}


@dataclasses.dataclass(frozen=True)
class Security:
    """Protection of a cluster's network addresses: TLS and tokens."""

    identity: pathlib.Path | None = None  # the folder of its authority and tokens; None: it listens on Unix sockets only, or TLS is off
    tokens: pathlib.Path | None = None    # the folder in which the controller keeps token files for this user, for workers and for the agent
    tls: str = "on"                       # "off": nothing is encrypted, and every process that reaches an address has all rights
    oidc: dict = dataclasses.field(default_factory=dict)  # the identity provider whose tokens count too: {one of OIDC: its value}

    def controller_flags(self):
        if self.tls == "off":
            return ["--tls", "off"]
        if self.identity is None:
            return []
        return ["--identity", self.identity, *(word for who in ("operator", "worker", "agent") for word in (f"--{who}-token-file", self._token(who))),
                *(f"--oidc-{name}={value}" for name, value in self.oidc.items())]

    def _token(self, who):
        return self.tokens / f"{who}.token"

    def flags(self, who):
        """Returns the flags with which an operator, a worker or an agent of this user connects to the cluster. A Unix socket needs them too. It asks
        for no token, but the controller may name processes on TCP, which are verified by the authority in the token file."""
        if self.tls == "off":
            return ["--tls", "off"]
        return [] if self.identity is None else ["--token-file", self._token(who)]


def controller(listen, listen_workers, hosts, port_file, policy=None, spill=False, dispatch=None, hang_limit=None, *, usage_file=None, security=Security(),
               client_grace=None, host_grace=None, controller_grace=None, on_hang=None, restart=False):
    """Returns the controller's command line. Once it serves, the port file has two lines: the clients' and the workers' address. `restart`: a process of it
    stays and starts it again when it fails."""
    args = [binaries.find("pathways-controller"), "--listen-clients", listen, "--listen-workers", listen_workers,
            "--expect-hosts", hosts, "--port-file", port_file, *security.controller_flags(), *_staged_limit()]
    if restart:
        args.append("--restart")
    if spill:
        args.append("--spill")
    if dispatch:
        args.append(f"--dispatch={dispatch}")
    if usage_file is not None:
        args += ["--usage-file", usage_file]
    if hang_limit is not None:
        args.append(f"--hang-limit={hang_limit}s")
    if on_hang is not None:
        args.append(f"--on-hang={on_hang}")
    if client_grace is not None:
        args.append(f"--client-grace={client_grace}s")
    if host_grace is not None:
        args.append(f"--host-grace={host_grace}s")
    if controller_grace is not None:
        args.append(f"--controller-grace={controller_grace}s")
    return [*args, f"--policy={policy}"] if policy else args


def _devices(platform, devices):
    args = ["--plugin", binaries.device_plugin(platform), *compile_cache()]
    return [*args, "--devices", devices] if platform == "cpu" else args


def worker(controller_address, host, island, platform, devices=None, most_hosts=MOST_HOSTS, advertise=None, checksum=False, memory_limit=None,
           listen_lanes=None, host_python=HostPython(), own_only=False, access=(), device_options=(), island_hosts=1):
    """Returns the worker's command line. `devices`: the number of CPU devices to create; on other platforms the plugin finds them. `memory_limit`:
    bytes for arrays on each device; None: all that the device has. `listen_lanes`: the address of clients' lanes; None: a socket of the same kind as
    for other workers. `own_only`: as in HostPython.flags. `access`: the flags with which the worker joins. `island_hosts`: the number of hosts of an island whose
    hosts find each other before any of them joins; 1: they come and go, and one computation spans at most `most_hosts`."""
    args = [binaries.find("pathways-worker"), "--controller", controller_address, "--island", island, "--host-name", host, *access,
            *_devices(platform, devices), *_client_files(addresses.listens_here(controller_address), users=True), *_object_stores(),
            *host_python.flags(own_only)]
    if island_hosts > 1:
        args += ["--island-hosts", island_hosts]
    elif platform == "cpu":
        args += ["--most-hosts", most_hosts]
    if checksum:
        args.append("--checksum")
    if memory_limit is not None:
        args.append(f"--memory-limit={memory_limit}")
    if listen_lanes is not None:
        args += ["--listen-lanes", listen_lanes]
    args += [f"--device-option={option}" for option in device_options]
    return [*args, "--advertise", advertise] if advertise else args


def list_device_options(platform):
    """Returns the command that prints the options of a platform's device plugin (--device-options help)."""
    return [binaries.find("pathways-worker"), "--plugin", binaries.device_plugin(platform), "--device-option=help"]
