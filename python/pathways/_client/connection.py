"""Connects this process to a cluster: the one at PATHWAYS_ADDRESS, or a local one of its own."""

import atexit
import contextlib
import ctypes
import logging
import os
import secrets
import shutil
import socket
import sys
import threading

from pathways._callbacks import callbacks, host_calls
from pathways._client import connect, doors, environment, host_memory, shares, timer_slack
from pathways._cluster import binaries, command_lines, local, processes, run_folders
from pathways._jax import seams

logger = logging.getLogger("pathways")

_clients = []
_lock = threading.Lock()


def is_ours(client):
    """Whether a jax backend client is one of ours."""
    return any(client is known for known in _clients)


def connected():
    """Returns (controller address, session number) for each connection of this process that may still be open."""
    if _endpoint is None or _endpoint.pid != os.getpid():
        return []
    return [(_endpoint.controller, client.pathways_client) for client in live_clients()]


def live_clients():
    """Returns our clients that jax still uses; clients that clear_backends dropped have no session."""
    return [client for client in _backends().values() if is_ours(client)]


def _backends():
    """Returns jax's table of backends in use, by platform; if this jax has no such table, our own clients."""
    found = seams.BACKENDS.find() if "jax" in sys.modules else {}
    return dict(enumerate(_clients)) if found is None else found


_NAMES = {"local": "local cluster"}  # of doors, in error texts


class _Endpoint:
    """Holds the run's folder, the process that jax's client connects to (the door), and the local cluster if this process started one.

    The door is an agent, or the one process of a local cluster of one host. The PJRT door is part of this process and connects to the controller; a
    local cluster of one host then usually runs in this process too (`in_process`: its flags). An endpoint lives until this process ends. A later
    connection (after jax's clear_backends) reuses it unless it has failed."""

    def __init__(self):
        self.pid = os.getpid()
        self.folder = run_folders.new_run_folder()
        self.cluster = None
        self.door = None
        self.in_process = None
        self.controller = None
        self.address = None
        self.peers = set()  # the addresses that this process is connected to, as its sockets name them
        self.files = None  # the folder from which the door takes large arrays
        self.callback_socket = None

    def start(self):
        try:
            address = os.environ.get("PATHWAYS_ADDRESS")
            shape = None if address else local.default_shape()
            if shape is not None and shape.islands == shape.hosts == 1:
                self._start_local(shape)
            else:
                self.controller = address or self._start_cluster(shape)
                if doors.chosen() == "ifrt":
                    self._start_agent()
            self.peers = _peers(self.controller if doors.chosen() == "pjrt" else self.address)
        except BaseException:
            self.stop()
            raise
        return self

    def _start_local(self, shape):
        in_process = doors.cluster_in_this_process()
        logger.info("starting a local cluster of one host with %s devices in %s process; its log is in %s", shape.devices,
                    "this" if in_process else "one", self.folder)
        [(island, host)] = shape.placement()
        platform, port_file, log = command_lines.default_platform(), self.folder / "local.port", self.folder / "local.log"
        self.controller = self._socket()
        if in_process:
            self.in_process = command_lines.local_in_this_process(island, host, platform, shape.devices, self.controller, log)
            doors.load_device_runtime(binaries.device_plugin(platform), log)
        else:
            self._start_door("local", command_lines.local(island, host, platform, shape.devices, port_file, self.controller), port_file)

    def _start_cluster(self, shape):
        logger.info("starting a local cluster of %s islands x hosts x devices; logs in %s", shape, self.folder)
        self.cluster = local.Cluster(shape, self.folder, listen=self._socket()).start()
        return self.cluster.address

    def _socket(self):
        """Returns the address of our own cluster's controller, which only this user's processes reach."""
        return f"unix:{self.folder / 'clients.sock'}"

    def _start_agent(self):
        port_file = self.folder / "agent.port"
        args = command_lines.agent(self.controller, "127.0.0.1:0", port_file, connect.timeout_seconds())
        with _own_stderr() as stderr:
            self._start_door("agent", [*args, *(f"--notices={fd}" for fd in stderr)], port_file, stderr)

    def _start_door(self, name, args, port_file, pass_fds=()):
        directory = host_memory.named_by_user()
        self.files = None if directory else host_memory.folder()
        if directory or self.files:
            args += ["--shared-directory", directory or self.files]
        self.callback_socket = self.folder / "callbacks.sock"
        args += ["--callback-socket", self.callback_socket, processes.ends_with_this_one()]
        self.door = processes.Process(f"pathways-{name}", args, self.folder / f"{name}.log", pass_fds=pass_fds)
        self.address = processes.wait_for(
            lambda: processes.read_port_file(port_file), [self.door], local.START_SECONDS, f"the {_NAMES.get(name, name)} did not start")

    def failure(self):
        """Returns the reason why the endpoint is unusable, or None."""
        if self.door is not None and not self.door.alive():
            return self.door.failure()
        return self.cluster.failure() if self.cluster is not None else None

    def _processes(self):
        return ([self.door] if self.door else []) + (self.cluster.processes if self.cluster else [])

    def listens(self):
        """Whether the door and the controller of our own cluster accept connections. A killed process closes its sockets a moment before its exit
        status is known."""
        ours = [(self.door, self.address), (self.cluster, self.controller)]
        return all(_listens(address) for process, address in ours if process is not None)

    def stop(self):
        processes.stop_all(self._processes())

    def forget(self):
        """Runs at the end of this process. The children watch this process and exit after it, so that the jax client, which the interpreter
        destroys after this call, still has a server. Logs stay only if a child has failed or PATHWAYS_KEEP_LOGS is set."""
        if os.getpid() != self.pid:
            return
        if self.failure() is None and not os.environ.get("PATHWAYS_KEEP_LOGS"):
            shutil.rmtree(self.folder, ignore_errors=True)
        for process in self._processes():
            process.leave()


@contextlib.contextmanager
def _own_stderr():
    """Yields a tuple with a descriptor of this program's standard error, for a child; an empty one if there is none."""
    try:
        fd = os.dup(2)
    except OSError:
        yield ()
        return
    try:
        yield (fd,)
    finally:
        os.close(fd)


def _listens(address):
    try:
        connect.connector(address)()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError:
        pass  # slow, not gone
    return True


def _name(peer):
    """Returns an address as sockets know it in one form: a path, or (host, port)."""
    return (peer[0].removeprefix("::ffff:"), peer[1]) if isinstance(peer, tuple) else peer  # ::ffff:127.0.0.1 for an IPv6 socket


def _peers(address):
    """Returns the addresses of the listener, in the form of _name."""
    if address.startswith("unix:"):
        return {address.removeprefix("unix:")}
    host, _, port = address.rpartition(":")
    return {_name(found[4]) for found in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)}


def _cut_connections():
    """Runs in a forked child. Replaces the connections shared with the parent by sockets without a peer, so that nothing that jax's client does in
    the child, its clean-up included, reaches the server."""
    if _endpoint is None:
        return
    keep, sink = socket.socketpair()
    _cut_connections.sink = (keep, sink)
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            with socket.socket(fileno=os.dup(fd)) as connection:
                if _name(connection.getpeername()) in _endpoint.peers:
                    os.dup2(sink.fileno(), fd)
        except (OSError, TypeError, AttributeError):
            continue  # not a socket, of another family, not connected, or already closed


def _keep_what_is_the_parent_s():
    """Runs in a forked child. Keeps the parent's clients, arrays and programs from being destroyed. Their threads, and those of jax's own cpu client,
    do not exist in the child, so a destructor would wait forever. Each object gets a reference that is never released, so it outlives the
    interpreter's clean-up."""
    for client in list(_backends().values()):
        for thing in (client, *client.live_arrays(), *client.live_executables()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


os.register_at_fork(after_in_child=_cut_connections)
os.register_at_fork(after_in_child=_keep_what_is_the_parent_s)

_endpoint = None


def _get_endpoint():
    global _endpoint
    if _endpoint is not None and (_endpoint.pid != os.getpid() or _endpoint.failure() is not None or not _endpoint.listens()):
        if _endpoint.pid == os.getpid():
            _endpoint.stop()
        _endpoint = None
    if _endpoint is None:
        _endpoint = _Endpoint().start()
        atexit.register(_endpoint.forget)
    return _endpoint


def make_client():
    """Connects to the cluster and returns jax's client. jax calls this when the backend is first needed."""
    enter = _connect_in_process if doors.chosen() == "pjrt" else _connect_through_proxy
    with _lock:
        environment.set_environment()
        if address := os.environ.get("PATHWAYS_ADDRESS"):
            try:
                connect.check_listening(address)
            except (OSError, ValueError) as error:
                raise RuntimeError(_explain(address, error, None)) from None
        try:
            client = enter(_get_endpoint())
        except _Died:  # a process that is about to end may still listen: the second endpoint is a new one
            client = enter(_get_endpoint())
        _clients.append(client)
        return client


class _Died(RuntimeError):
    """The endpoint's process ended before the connection was made."""


def _connect_in_process(endpoint):
    """Returns jax's client of this endpoint's controller. Raises _Died, or RuntimeError with the reason and what to do."""
    try:
        where = {"local": endpoint.in_process} if endpoint.in_process else {"cluster": endpoint.controller}
        return doors.connect(where, connect.timeout_seconds(), endpoint.folder / "calls.sock", {**shares.wanted(), **shares.on_hang()})
    except Exception as error:
        raise _failed(endpoint, error) from None


def _connect_through_proxy(endpoint):
    """Returns jax's client of this endpoint. Raises _Died, or RuntimeError with the reason and what to do."""
    ifrt_proxy = seams.PROXY_CLIENT.find()
    if ifrt_proxy is None:
        raise RuntimeError(f"this jax has no {seams.PROXY_CLIENT.full_name}, with which Pathways connects to a cluster: install a release of jax that "
                           "docs/compatibility.md names")
    token = secrets.token_hex(16)
    options = ifrt_proxy.ClientConnectionOptions()
    options.connection_timeout_in_seconds = max(1, round(connect.timeout_seconds()))
    options.initialization_data = {"pathways_companion": token.encode(), **shares.initialization_data()}
    try:
        if endpoint.callback_socket is not None:
            host_calls.CallServer(endpoint.callback_socket, token, callbacks.registry)
        uploads = host_memory.uploads_into(endpoint.files)
        if uploads is not None:
            options.initialization_data = {**options.initialization_data, **uploads.initialization_data()}
            atexit.register(uploads.remove)
        with uploads.told() if uploads is not None else contextlib.nullcontext(), timer_slack.unhurried():
            client = ifrt_proxy.get_client(f"grpc://{endpoint.address}", options)
    except Exception as error:
        raise _failed(endpoint, error) from None
    host_memory.serve(client)
    return client


def _failed(endpoint, error):
    failure = endpoint.failure()
    return (_Died if failure is not None else RuntimeError)(_explain(endpoint.controller, error, failure))


def _explain(where, error, failure):
    lines = [f"cannot connect to the Pathways controller at {where}: {error}"]
    if failure:
        lines.append(failure)
    elif os.environ.get("PATHWAYS_ADDRESS"):
        lines.append(f"Is it running? 'pathways status --address {where}' asks it. PATHWAYS_ADDRESS names this address; without the variable, a "
                     "local cluster is started.")
    return "\n".join(lines)
