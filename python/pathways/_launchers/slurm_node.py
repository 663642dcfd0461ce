"""The task that `pathways up --on slurm` runs on every node: supervises the worker, and on the first node the controller and an agent too.

    python -m pathways._launchers.slurm_node FOLDER

The nodes share FOLDER, as they share home folders under Slurm. Its spec.json describes the cluster. The first task writes controller.json once the
controller serves. Every process writes its log to FOLDER. The task restarts a crashed worker or agent. The controller restarts
itself; the task ends when that is given up.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from pathways._cluster import addresses, command_lines, processes
from pathways._cluster.local import START_SECONDS
from pathways._cluster.shape import Shape

# A worker that fails MOST_FAILURES times within WITHIN_SECONDS is not restarted.
MOST_FAILURES, WITHIN_SECONDS = 5, 60
_PAUSE_SECONDS = 0.2


def node_address(name):
    """Returns this node's address as Slurm knows it, else its name."""
    try:
        text = subprocess.run(["scontrol", "show", "node", "-o", name], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    found = re.search(r"\bNodeAddr=(\S+)", text)
    return found.group(1) if found else name


def _security(folder, spec):
    """The folder is private to the user, and shared by the nodes: they read the worker's token file there."""
    return command_lines.Security(tls="off") if spec["tls"] == "off" else command_lines.Security(folder / "identity", folder, oidc=spec["oidc"])


def _start_controller(folder, spec, shape, address):
    """Returns the controller, and its addresses for clients and workers as other nodes reach them."""
    port_file = folder / "controller.port"
    args = command_lines.controller(spec["listen"], spec["listen_workers"], len(shape.placement()), port_file, spec["policy"],
                                    spec["spill"], spec["dispatch"], spec["hang_limit"], security=_security(folder, spec), on_hang=spec["on_hang"], client_grace=spec["client_grace"],
                                    host_grace=spec["host_grace"], controller_grace=spec["controller_grace"], restart=spec["restart"])
    process = processes.Process("pathways-controller", [*args, processes.ends_with_this_one()], folder / "controller.log",
                                stop_signal=processes.ENDS_THE_CLUSTER)  # the job's end is that of the workers, too
    ports = processes.wait_for(lambda: addresses.read_ports(port_file), [process], START_SECONDS, "the controller did not start")
    return process, *(addresses.reachable(port, address) for port in ports)


def _start_agent(folder, spec, controller):
    """Starts the agent for programs without our package; again at the same address if it ran before."""
    port_file = folder / "agent.port"
    args = command_lines.agent(controller, processes.read_port_file(port_file) or spec["listen_proxy"], port_file,
                               access=_security(folder, spec).flags("agent"))
    return processes.Process("pathways-agent", [*args, processes.ends_with_this_one()], folder / "agent.log")


def _tell(folder, ready):
    temporary = folder / "controller.new"
    temporary.write_text(json.dumps({**ready, "job": os.environ["SLURM_JOB_ID"], "step": os.environ["SLURM_STEP_ID"]}))
    temporary.rename(folder / "controller.json")


def _read_ready(folder):
    try:
        return json.loads((folder / "controller.json").read_text())
    except OSError:
        return None


class _Restarted:
    """A process that is started again after each failure, unless it fails too often."""

    def __init__(self, start):
        self._start, self._failures = start, []
        self.process = start()

    def has_ended(self):
        """Whether the process has ended; if so, prints how."""
        if self.process is None or self.process.alive():
            return False
        print(self.process.failure(), file=sys.stderr, flush=True)
        return True

    def restart(self):
        """Starts the process again. If it has failed too often, drops it instead and returns False."""
        now = time.monotonic()
        self._failures = [at for at in self._failures if now - at < WITHIN_SECONDS] + [now]
        self.process = self._start() if len(self._failures) < MOST_FAILURES else None
        return self.process is not None


def supervise(start_worker, controller, agent=None):
    """Runs until the controller has ended, or until the worker has ended because of it; returns the exit status. `agent`: a _Restarted."""
    restarted = [] if agent is None else [agent]
    try:
        restarted.insert(0, _Restarted(start_worker))
        return _supervise(restarted[0], controller, agent)
    finally:
        processes.stop_all([*(one.process for one in restarted if one.process is not None), *([] if controller is None else [controller])])


def _supervise(worker, controller, agent):
    while True:
        if controller is not None and not controller.alive():
            print(controller.failure(), file=sys.stderr)
            return 1
        if worker.has_ended():
            if worker.process.popen.returncode == 0 and controller is None:
                return 0  # the worker left because the controller is gone
            if not worker.restart() and controller is None:
                return 1
        if agent is not None and agent.has_ended():
            agent.restart()
        time.sleep(_PAUSE_SECONDS)


def main(argv):
    folder = pathlib.Path(argv[0])
    spec = json.loads((folder / "spec.json").read_text())
    shape = Shape.parse(spec["shape"])
    index, name = int(os.environ["SLURM_PROCID"]), os.environ["SLURMD_NODENAME"]
    island, _ = shape.placement()[index]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # supervise() then stops the children
    address = node_address(name)
    controller = agent = None
    if index == 0:
        controller, clients, workers = _start_controller(folder, spec, shape, address)
        proxy = None
        if spec["listen_proxy"] is not None:
            agent = _Restarted(lambda: _start_agent(folder, spec, clients))
            proxy = addresses.reachable(processes.wait_for(lambda: processes.read_port_file(folder / "agent.port"), [controller, agent.process],
                                                           START_SECONDS, "the agent did not start"), address)
        _tell(folder, {"address": clients, "workers_address": workers, "proxy_address": proxy})
    ready = processes.wait_for(lambda: _read_ready(folder), [], START_SECONDS, f"{name}: the first node's controller did not start")

    def start_worker():
        args = command_lines.worker(ready["workers_address"], name, island, spec["platform"], shape.devices,
                                    max(len(shape.placement()) + 2, command_lines.MOST_HOSTS), address, spec["checksum"], spec["memory_limit"],
                                    host_python=command_lines.HostPython(**spec["host_python"]), device_options=spec["device_options"], access=_security(folder, spec).flags("worker"),
                                    island_hosts=command_lines.island_hosts(spec["platform"], shape.hosts))
        return processes.Process(f"pathways-worker {name}", [*args, "--exit-with-controller", processes.ends_with_this_one()], folder / f"{name}.log")

    return supervise(start_worker, controller, agent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
