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

from pathways import _binaries, _bootstrap, _callbacks, _cluster, _connect, _host_calls, _host_memory, _launch, _processes, _share, _timer_slack
from pathways._jax import seams

logger = logging.getLogger("pathways")

_clients = []
_lock = threading.Lock()


def is_ours(client):
    """Whether a jax backend client is one of ours."""
    return any(client is known for known in _clients)


def connected():
    """(the controller's address, the number of our session there) of each connection of this process that may still be there."""
    if _endpoint is None or _endpoint.pid != os.getpid():
        return []
    return [(_endpoint.controller, client.pathways_client) for client in _live_clients()]


def _live_clients():
    """jax keeps the backends that are in use; those that clear_backends has dropped have no session any more."""
    return [client for client in _backends().values() if is_ours(client)]


def _backends():
    """jax's table of the backends that are in use, by platform; without it, our own."""
    found = seams.BACKENDS.find() if "jax" in sys.modules else {}
    return dict(enumerate(_clients)) if found is None else found


class _Endpoint:
    """What stands between jax's client and the controller on this machine: the run's folder, the process that jax's client connects to, and a
    local cluster if we started one. That process is the relay; with PATHWAYS_AGENT=on it is an agent, for a cluster of our own. Lives until the
    process ends; a later connection (jax's clear_backends) uses it again while it is sound."""

    def __init__(self):
        self.pid = os.getpid()
        self.folder = _cluster.new_run_folder()
        self.cluster = None
        self.door = None
        self.controller = None
        self.address = None
        self.taker = None  # the address of the process on this machine that may take large arrays as files
        self.callback_socket = None
        self.relay_takes_files = False

    def start(self):
        try:
            self.controller = self.taker = os.environ.get("PATHWAYS_ADDRESS") or self._start_cluster()
            if self.cluster is not None and os.environ.get("PATHWAYS_AGENT", "off") == "on":
                self._start_agent()
            elif _binaries.has("pathways-relay"):
                self._start_relay()
            else:
                self.address = self.controller
        except BaseException:
            self.stop()
            raise
        return self

    def _start_cluster(self):
        shape = _cluster.default_shape()
        logger.info("starting a local cluster of %s islands x hosts x devices; logs in %s", shape, self.folder)
        self.cluster = _cluster.Cluster(shape, self.folder).start()
        return self.cluster.address

    def _start_agent(self):
        port_file = self.folder / "agent.port"
        args = _launch.agent(self.cluster.listen_sessions(), "127.0.0.1:0", port_file)
        if folder := (directory := _host_memory.named_by_user()) or _host_memory.server_folder():
            args += ["--shared-directory", folder]
        self._start_door("agent", args, port_file)
        self.taker = self.address
        if folder and not directory:
            _host_memory.announce(folder, self.address, self.door.pid)

    def _start_relay(self):
        port_file = self.folder / "relay.port"
        args = [_binaries.find("pathways-relay"), "--target", self.controller, "--listen", "127.0.0.1:0", "--port-file", port_file]
        if (files := _host_memory.relay_folder()) is not None:
            args += ["--files", files]
            self.relay_takes_files = True
        self._start_door("relay", args, port_file)

    def _start_door(self, name, args, port_file):
        self.callback_socket = self.folder / "callbacks.sock"
        args += ["--callback-socket", self.callback_socket, "--exit-with-parent"]
        self.door = _processes.Process(f"pathways-{name}", args, self.folder / f"{name}.log")
        self.address = _processes.wait_for(
            lambda: _processes.read_port_file(port_file), [self.door], _cluster.START_SECONDS, f"the {name} did not start")

    def failure(self):
        """Why it cannot be used any more, or None."""
        if self.door is not None and not self.door.alive():
            return self.door.failure()
        return self.cluster.failure() if self.cluster is not None else None

    def _processes(self):
        return ([self.door] if self.door else []) + (self.cluster.processes if self.cluster else [])

    def stop(self):
        _processes.stop_all(self._processes())

    def forget(self):
        """At the end of the process. The children end by themselves once it is really gone (they watch it): until then the jax client,
        which the interpreter takes down after us, keeps a server to talk to. Logs stay only if a process has failed, or PATHWAYS_KEEP_LOGS is
        set."""
        if os.getpid() != self.pid:
            return
        if self.failure() is None and not os.environ.get("PATHWAYS_KEEP_LOGS"):
            shutil.rmtree(self.folder, ignore_errors=True)
        for process in self._processes():
            process.leave()


def _cut_connections():
    """In a forked child: what jax's client does there, its clean-up at the latest, must not reach the server over the connections it
    shares with the parent. They are replaced by sockets that lead nowhere."""
    if _endpoint is None or _endpoint.address is None:
        return
    host, _, port = _endpoint.address.rpartition(":")
    keep, sink = socket.socketpair()
    _cut_connections.sink = (keep, sink)
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            with socket.socket(fileno=os.dup(fd)) as connection:
                peer = connection.getpeername()[:2]  # an IPv6 socket says ::ffff:127.0.0.1
                if isinstance(peer, tuple) and (peer[0].removeprefix("::ffff:"), peer[1]) == (host, int(port)):
                    os.dup2(sink.fileno(), fd)
        except (OSError, TypeError):
            continue  # not a socket, not connected, or gone


def _keep_what_is_the_parent_s():
    """In a forked child: clients, arrays and programs of the parent are never destroyed. Their threads, those of jax's own cpu client too,
    did not come along, and a destructor would wait for them for ever. A reference that nobody gives back outlives the
    interpreter's clean-up."""
    for client in list(_backends().values()):
        for thing in (client, *client.live_arrays(), *client.live_executables()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


os.register_at_fork(after_in_child=_cut_connections)
os.register_at_fork(after_in_child=_keep_what_is_the_parent_s)

_endpoint = None


def _get_endpoint():
    global _endpoint
    if _endpoint is not None and (_endpoint.pid != os.getpid() or _endpoint.failure() is not None):
        if _endpoint.pid == os.getpid():
            _endpoint.stop()
        _endpoint = None
    if _endpoint is None:
        _endpoint = _Endpoint().start()
        atexit.register(_endpoint.forget)
    return _endpoint


def make_client():
    """jax calls this when the backend is first needed."""
    ifrt_proxy = seams.PROXY_CLIENT.find()
    if ifrt_proxy is None:
        raise RuntimeError(f"this jax has no {seams.PROXY_CLIENT.full_name}, with which Pathways connects to a cluster: install a release of jax that "
                           "docs/compatibility.md names")
    with _lock:
        _bootstrap.set_environment()
        if address := os.environ.get("PATHWAYS_ADDRESS"):
            try:
                _connect.check_listening(address)
            except (OSError, ValueError) as error:
                raise RuntimeError(_explain(address, error, None)) from None
        endpoint = _get_endpoint()
        token = secrets.token_hex(16)
        options = ifrt_proxy.ClientConnectionOptions()
        options.connection_timeout_in_seconds = max(1, round(_connect.timeout_seconds()))
        options.initialization_data = {"pathways_companion": token.encode(), **_share.initialization_data()}
        if endpoint.callback_socket is not None:
            _host_calls.CallServer(endpoint.callback_socket, token, _callbacks.registry)
        uploads = _host_memory.uploads_to(endpoint.taker, endpoint.relay_takes_files)
        if uploads is not None:
            options.initialization_data = {**options.initialization_data, **uploads.initialization_data()}
            atexit.register(uploads.remove)
        try:
            with uploads.told() if uploads is not None else contextlib.nullcontext(), _timer_slack.unhurried():
                client = ifrt_proxy.get_client(f"grpc://{endpoint.address}", options)
        except Exception as error:
            raise RuntimeError(_explain(endpoint.controller, error, endpoint.failure())) from None
        _clients.append(client)
        _host_memory.serve(client, endpoint.callback_socket)
        return client


def _explain(where, error, failure):
    lines = [f"cannot connect to the Pathways controller at {where}: {error}"]
    if failure:
        lines.append(failure)
    elif os.environ.get("PATHWAYS_ADDRESS"):
        lines.append(f"Is it running? 'pathways status --address {where}' asks it. PATHWAYS_ADDRESS names it; unset, a local cluster is started.")
    return "\n".join(lines)
