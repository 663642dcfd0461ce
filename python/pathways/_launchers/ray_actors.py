"""Runs each process of a cluster on Ray as the child of an actor, so that Ray supervises our processes.

An actor exits when its child ends, and Ray restarts it (`max_restarts`), on another node if its own is gone. Only control passes through
Ray: programs talk to the controller, and workers to each other, over their own connections. _launchers/ray.py makes these classes actors; importing
this module does not import Ray.
"""

import os
import pathlib
import signal
import tempfile
import threading
import time

from pathways._cluster import addresses, command_lines, credentials, processes
from pathways._cluster.local import START_SECONDS

_PAUSE_SECONDS = 0.5


def _folder(spec):
    """Returns this cluster's folder on this node, which is the same after a restart."""
    runs = pathlib.Path(tempfile.gettempdir()) / f"pathways-{os.getuid()}"
    runs.mkdir(mode=0o700, exist_ok=True)
    if runs.stat().st_uid != os.getuid():
        raise PermissionError(f"{runs} belongs to another user")
    folder = runs / f"ray-{spec['id']}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class _Actor:
    """Owns one child. The actor exits when the child ends, except in stop()."""

    def _start(self, name, args, log, stop_signal=signal.SIGTERM):
        self._stopping = False
        self.child = processes.Process(name, [*args, processes.ends_with_this_one()], log, stop_signal=stop_signal)
        threading.Thread(target=self._watch, name="pathways-watch", daemon=True).start()

    def _watch(self):
        self.child.popen.wait()
        if not self._stopping:
            print(self.child.failure(), flush=True)  # into Ray's log of this actor
            os._exit(1)

    def place(self):
        """Returns the pids of actor and child, and the node, for operators and tests."""
        import ray

        return {"pid": os.getpid(), "child": self.child.pid, "node": ray.get_runtime_context().get_node_id()}

    def log(self, lines):
        return self.child.log.read_text(errors="replace").splitlines()[-lines:]

    def stop(self):
        self._stopping = True
        self.child.stop()
        return True

    def _wait(self, read, what):
        return processes.wait_for(read, [self.child], START_SECONDS, what)

    @staticmethod
    def _here(spec):
        import ray

        os.environ.update(spec["environment"])
        return ray.util.get_node_ip_address()


class Controller(_Actor):
    def __init__(self, spec):
        address, folder = self._here(spec), _folder(spec)
        port_file = folder / "controller.port"
        # After a restart on this node, listen on the same addresses as before, so that clients find the controller.
        listen, listen_workers = addresses.read_ports(port_file) or (spec["listen"], spec["listen_workers"])
        port_file.unlink(missing_ok=True)
        args = command_lines.controller(listen or f"{address}:0", listen_workers or f"{address}:0", spec["hosts"], port_file, spec["policy"], spec["spill"],
                                        spec["dispatch"], spec["hang_limit"], security=_security(spec), client_grace=spec["client_grace"], host_grace=spec["host_grace"], controller_grace=spec["controller_grace"], on_hang=spec["on_hang"])
        self._start("pathways-controller", args, folder / "controller.log", processes.ENDS_THE_CLUSTER)
        ports = self._wait(lambda: addresses.read_ports(port_file), "the controller did not start")
        self._folder, self._tls = folder, spec["tls"]
        self._ports = tuple(addresses.reachable(port, address) for port in ports)

    def ports(self):
        """Returns (the clients' address, the workers' address)."""
        return self._ports

    def token_file(self, who):
        """Returns the text of a token file. Ray passes an actor's answer from process to process, and stores it nowhere else."""
        return None if self._tls == "off" else (self._folder / f"{who}.token").read_text()


def _ports(controller):
    """Returns the controller's addresses. Waits while it restarts, because Ray does not restart an actor whose constructor fails."""
    import ray

    while True:
        try:
            return ray.get(controller.ports.remote())
        except ray.exceptions.RayActorError as error:
            print(f"waits for the controller: {error}", flush=True)
            time.sleep(_PAUSE_SECONDS)


def _security(spec):
    return command_lines.Security(tls="off") if spec["tls"] == "off" else command_lines.Security(_folder(spec) / "identity", _folder(spec), oidc=spec["oidc"])


def _access(spec, controller, who, name):
    """Fetches the token file for this actor's child, into a file of this node; returns the flags that name it."""
    import ray

    text = ray.get(controller.token_file.remote(who))
    if text is None:
        return ["--tls", "off"]
    path = _folder(spec) / f"{name}.of-{who}.token"
    credentials.write(path, text)
    return ["--token-file", path]


class Worker(_Actor):
    def __init__(self, spec, controller, island, host, most_hosts):
        address, folder = self._here(spec), _folder(spec)
        _, workers = _ports(controller)
        args = command_lines.worker(workers, host, island, spec["platform"], spec["devices"], most_hosts, address, spec["checksum"], spec["memory_limit"],
                                    host_python=command_lines.HostPython(**spec["host_python"]), device_options=spec["device_options"], access=_access(spec, controller, "worker", host),
                                    island_hosts=spec["island_hosts"])
        self._start(f"pathways-worker {host}", [*args, "--exit-with-controller"], folder / f"{host}.log")


class Agent(_Actor):
    """The agent for programs without our package."""

    def __init__(self, spec, controller):
        address, folder = self._here(spec), _folder(spec)
        clients, _ = _ports(controller)
        port_file = folder / "agent.port"
        listen = processes.read_port_file(port_file) or spec["listen_proxy"] or f"{address}:0"  # after a restart on this node, as before
        port_file.unlink(missing_ok=True)
        self._start("pathways-agent", command_lines.agent(clients, listen, port_file, access=_access(spec, controller, "agent", "agent")), folder / "agent.log")
        self._address = addresses.reachable(self._wait(lambda: processes.read_port_file(port_file), "the agent did not start"), address)

    def address(self):
        return self._address
