"""The task that `pathways up --on slurm` runs on every node: supervises the worker, and on the first node the controller too.

    python -m pathways._launchers.slurm_node FOLDER

The nodes share FOLDER, as they share home folders under Slurm. spec.json describes the cluster. The first task writes controller.json once the
controller serves. Every process writes its log there. The task restarts a crashed worker, and ends with the controller.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from pathways import _launch, _processes
from pathways._cluster import START_SECONDS
from pathways._shape import Shape

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


def _start_controller(folder, spec, shape, address):
    port_file = folder / "controller.port"
    args = _launch.controller(spec["listen"], spec["listen_workers"], len(shape.placement()), port_file, spec["policy"],
                              spec["spill"], spec["dispatch"])
    process = _processes.Process("pathways-controller", [*args, "--exit-with-parent"], folder / "controller.log")
    ports = _processes.wait_for(lambda: _launch.read_ports(port_file), [process], START_SECONDS, "the controller did not start")
    clients, workers = (_launch.reachable(port, address) for port in ports)
    ready = {"address": clients, "workers_address": workers, "job": os.environ["SLURM_JOB_ID"], "step": os.environ["SLURM_STEP_ID"]}
    temporary = folder / "controller.new"
    temporary.write_text(json.dumps(ready))
    temporary.rename(folder / "controller.json")
    return process


def _read_ready(folder):
    try:
        return json.loads((folder / "controller.json").read_text())
    except OSError:
        return None


def supervise(start_worker, controller):
    """Runs until the controller has ended, or until the worker has ended because of it; returns the exit status."""
    children = [] if controller is None else [controller]

    def start():
        children[1 if controller else 0:] = [start_worker()]
        return children[-1]

    try:
        return _supervise(start, controller)
    finally:
        _processes.stop_all(list(reversed(children)))


def _supervise(start_worker, controller):
    failures = []
    worker = start_worker()
    while True:
        if controller is not None and not controller.alive():
            print(controller.failure(), file=sys.stderr)
            return 1
        if worker is not None and not worker.alive():
            print(worker.failure(), file=sys.stderr, flush=True)
            if worker.popen.returncode == 0 and controller is None:
                return 0  # the worker left because the controller is gone
            now = time.monotonic()
            failures = [at for at in failures if now - at < WITHIN_SECONDS] + [now]
            worker = start_worker() if len(failures) < MOST_FAILURES else None
            if worker is None and controller is None:
                return 1
        time.sleep(_PAUSE_SECONDS)


def main(argv):
    folder = pathlib.Path(argv[0])
    spec = json.loads((folder / "spec.json").read_text())
    shape = Shape.parse(spec["shape"])
    index, name = int(os.environ["SLURM_PROCID"]), os.environ["SLURMD_NODENAME"]
    island, _ = shape.placement()[index]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # supervise() then stops the children
    address = node_address(name)
    controller = _start_controller(folder, spec, shape, address) if index == 0 else None
    ready = _processes.wait_for(lambda: _read_ready(folder), [], START_SECONDS, f"{name}: the first node's controller did not start")

    def start_worker():
        args = _launch.worker(ready["workers_address"], name, island, spec["platform"], shape.devices,
                              max(len(shape.placement()) + 2, _launch.MOST_HOSTS), address, spec["checksum"], spec["memory_limit"])
        return _processes.Process(f"pathways-worker {name}", [*args, "--exit-with-controller", "--exit-with-parent"], folder / f"{name}.log")

    return supervise(start_worker, controller)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
