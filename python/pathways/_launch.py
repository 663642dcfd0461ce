"""Command lines of the controller and of workers, wherever they are started: on this machine, by hand, by Slurm or by Ray."""

import os
import pathlib
import sys
import tempfile

from pathways import _binaries

# Over how many hosts a computation may go in a cluster that others can join (cpu plugin only; a bound, not a reservation).
MOST_HOSTS = 8


def default_platform():
    return os.environ.get("PATHWAYS_PLATFORM", "cpu")


def compile_cache():
    """Compiled programs are kept on disk for all clusters of this user: the second start of a script compiles nothing."""
    folder = os.environ.get("PATHWAYS_COMPILE_CACHE")
    if folder == "off":
        return []
    if not folder:
        folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "pathways" / "programs"
    return ["--compile-cache", folder]


def _client_files():
    """Where programs may have the controller write and read files (pathwaysutils' persistence and profiles). Not everywhere: any process of
    this machine can connect."""
    below = os.environ.get("PATHWAYS_PERSISTENCE_DIRECTORY") or tempfile.gettempdir()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return ["--persistence-directory", below, "--object-directory", cache / "pathways" / "objects"]


def _front_door():
    """Flags of whatever process jax's clients connect to."""
    return ["--translator-python", sys.executable, *_client_files()]


def agent(sessions, listen, port_file=None):
    """Its command line. `sessions`: where the controller serves them. The port file has the clients' address in its first line."""
    args = [_binaries.find("pathways-agent"), "--cluster", sessions, "--listen", listen, *_front_door()]
    return [*args, "--port-file", port_file] if port_file else args


def take_token(path):
    """Processes started from now on show, and want, what this file says. In the environment: everybody on a machine can read command lines."""
    if path is None:
        return
    token = pathlib.Path(path).read_text().strip()
    if not token:
        raise ValueError(f"--token-file: {path} is empty")
    os.environ["PATHWAYS_TOKEN"] = token


def controller(listen, listen_workers, hosts, port_file, policy=None, spill=False, dispatch=None):
    """Its command line. The port file has the clients' and the workers' address, a line each, once it serves."""
    args = [_binaries.find("pathways-controller"), "--listen-clients", listen, "--listen-workers", listen_workers,
            "--expect-hosts", hosts, "--port-file", port_file, *_front_door()]
    if limit := os.environ.get("PATHWAYS_STAGED_LIMIT"):
        args.append(f"--staged-limit={limit}")
    if bulk := os.environ.get("PATHWAYS_LISTEN_BULK"):
        args.append(f"--listen-bulk={bulk}")
    if spill:
        args.append("--spill")
    if dispatch:
        args.append(f"--dispatch={dispatch}")
    return [*args, f"--policy={policy}"] if policy else args


def worker(controller_address, host, island, platform, devices=None, most_hosts=MOST_HOSTS, advertise=None, checksum=False, memory_limit=None):
    """Its command line. `devices`: how many to make of the CPU; other platforms have those that their plugin finds. `memory_limit`: bytes for
    arrays on each; None: what it has."""
    args = [_binaries.find("pathways-worker"), "--controller", controller_address, "--plugin", _binaries.device_plugin(platform),
            "--island", island, "--host-name", host, *compile_cache()]
    if platform == "cpu":
        args += ["--devices", devices, "--most-hosts", most_hosts]
    if checksum:
        args.append("--checksum")
    if memory_limit is not None:
        args.append(f"--memory-limit={memory_limit}")
    return [*args, "--advertise", advertise] if advertise else args


# ---------------------------------------------------------------------------------------------------------------- addresses
def split(address, what):
    """("host", "port") of "HOST:PORT"."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{what} wants HOST:PORT, not '{address}'")
    return host, port


def is_loopback(host):
    return host in ("localhost", "[::1]") or host.startswith("127.")


def is_wildcard(host):
    return host in ("0.0.0.0", "[::]")


def reachable(address, name):
    """What a process listens on, as others reach it: "every address" becomes `name`."""
    if address.startswith("unix:"):
        return address
    scheme, host_port = ("tcp:", address[4:]) if address.startswith("tcp:") else ("", address)
    host, _, port = host_port.rpartition(":")
    return f"{scheme}{name if is_wildcard(host) else host}:{port}"


def read_ports(port_file):
    """(the clients' address, the workers'), or None while the controller does not serve yet."""
    try:
        lines = pathlib.Path(port_file).read_text().splitlines()
    except OSError:
        return None
    return (lines[0], lines[1]) if len(lines) >= 2 else None
