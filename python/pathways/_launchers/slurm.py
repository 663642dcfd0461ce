"""`pathways up --on slurm`: runs a worker on every node of a job, and the controller on the first.

Within an allocation (salloc, sbatch) the cluster is a step of that job; outside it is a job of its own. Slurm starts, tracks and ends the
processes (_launchers/slurm_node.py); no program data passes through it. The nodes share the cluster's folder, below PATHWAYS_HOME.
"""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

from pathways._cluster import addresses, admin, command_lines, local, processes, records
from pathways._cluster.shape import Shape
from pathways._commands import cluster_commands

_PAUSE_SECONDS = 0.3
_STOP_SECONDS = 60
_LIVE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "RESIZING", "REQUEUED")


def _ask(*words):
    """Runs a Slurm command and returns its output."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        raise ValueError(f"'{words[0]}' was not found: run --on slurm on a machine from which Slurm jobs are submitted") from None
    except subprocess.TimeoutExpired:
        raise processes.StartError(f"'{shlex.join(words)}' did not answer within 60 s") from None
    if done.returncode != 0:
        raise processes.StartError(f"'{shlex.join(words)}' failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _state_of(job):
    """Returns the job's state, such as ("RUNNING", "n[0-3]") or ("PENDING", "(Resources)"); None once Slurm no longer lists it."""
    try:
        state, _, where = _ask("squeue", "-h", "-j", job, "-o", "%T|%R").partition("|")
    except processes.StartError as error:
        if "Invalid job id" in str(error):
            return None
        raise
    return (state, where) if state else None


def _gres_count(text):
    """Returns the number of devices per node, from "accel:2", "gpu:h100:8" or scontrol's "gres:gpu:8"; None if the text has none."""
    found = re.search(r"(\d+)$", text or "")
    return int(found.group(1)) if found else None


def shape_for(args, job):
    """Returns the requested shape, completed from the current allocation and from --gres."""
    base = local.default_shape()
    islands, hosts, devices = args.islands or 1, args.hosts, args.devices or _gres_count(args.gres)
    if job is not None:
        nodes = int(os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1)
        hosts = hosts or max(1, nodes // islands)
        if islands * hosts > nodes:
            raise ValueError(f"{islands} island(s) x {hosts} host(s) need {islands * hosts} nodes, but job {job} has {nodes}: change --islands or --hosts, or allocate other nodes")
        if devices is None:
            found = re.search(r"\bTresPerNode=(\S+)", _ask("scontrol", "show", "job", "-o", job))
            devices = _gres_count(found.group(1)) if found else None
    return Shape(islands, hosts or base.hosts, devices or base.devices).checked()


class SlurmCluster:
    def __init__(self, args, folder):
        self.job = os.environ.get("SLURM_JOB_ID")
        self.submitted = self.job is None
        self.shape = shape_for(args, self.job)
        self.platform = args.platform or command_lines.default_platform()
        self.folder = folder
        self.address = self.workers_address = self.proxy_address = None
        self._args = args
        self._srun = None
        self._step = None

    @property
    def handle(self):
        return {"job": self.job, "step": self._step, "submitted": self.submitted}

    @property
    def access(self):
        """Returns the flags with which this user's programs connect to the cluster."""
        return ["--tls", "off"] if self._args.tls == "off" else ["--token-file", self.folder / "operator.token"]

    @property
    def members(self):
        return [] if self._srun is None else [records.Member("srun", self._srun.pid, records.start_time(self._srun.pid), str(self._srun.log))]

    def start(self):
        args = self._args
        spec = {"shape": str(self.shape), "platform": self.platform, "policy": args.policy, "checksum": args.checksum,
                "memory_limit": args.memory_limit, "device_options": args.device_options, "host_python": dataclasses.asdict(cluster_commands.host_python(args)), "spill": args.spill, "dispatch": args.dispatch, "hang_limit": args.hang_limit, "on_hang": args.on_hang, "client_grace": args.client_grace, "host_grace": args.host_grace, "controller_grace": args.controller_grace, "restart": not args.no_restart,
                "listen": args.listen or "0.0.0.0:0", "listen_workers": args.listen_workers or "0.0.0.0:0", "listen_proxy": addresses.listen_proxy(args.listen_proxy or "none", ""), "tls": args.tls,
                "oidc": command_lines.oidc(args)}
        (self.folder / "spec.json").write_text(json.dumps(spec))
        try:
            if self.submitted:
                self._submit()
            else:
                self._step_of_job()
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def _srun_command(self):
        nodes = len(self.shape.placement())
        gres = [f"--gres={self._args.gres}"] if self._args.gres else []
        # A failed node must not end the others: the controller reports it to the clients that compute there.
        return ["srun", "--no-kill", "--kill-on-bad-exit=0", "--wait=0", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", *gres]

    def _node_command(self):
        return [sys.executable, "-m", "pathways._launchers.slurm_node", str(self.folder)]

    def _submit(self):
        if shutil.which("sbatch") is None:
            raise ValueError("'sbatch' was not found: run --on slurm on a machine from which Slurm jobs are submitted")
        nodes = len(self.shape.placement())
        gres = [f"--gres={self._args.gres}"] if self._args.gres else []
        script = "#!/bin/sh\nexec " + shlex.join([*self._srun_command(), *self._node_command()]) + "\n"
        (self.folder / "job.sh").write_text(script)
        self.job = _ask("sbatch", "--parsable", f"--job-name=pathways-{self._args.name}", "--no-kill", "--no-requeue", f"--nodes={nodes}",
                        "--ntasks-per-node=1", *gres, f"--output={self.folder / 'job.log'}", *(self._args.option or []),
                        str(self.folder / "job.sh")).partition(";")[0]

    def _step_of_job(self):
        command = [*self._srun_command(), "--overlap", f"--jobid={self.job}", *(self._args.option or []), *self._node_command()]
        self._srun = processes.Process("srun", command, self.folder / "job.log")

    def _wait(self):
        self._say(f"job {self.job} " + ("is submitted" if self.submitted else f"gets a step on {len(self.shape.placement())} node(s)"))
        ready_file, said, deadline, give_up = self.folder / "controller.json", None, None, time.monotonic() + self._args.wait
        while True:
            if self.address is None and ready_file.exists():
                ready = json.loads(ready_file.read_text())
                self.address, self.workers_address, self.proxy_address = (ready[name] for name in ("address", "workers_address", "proxy_address"))
                self._step = ready["step"]
            if self.address is not None and self._formed():
                return
            if (failure := self.failure()) is not None:
                raise processes.StartError(failure)
            state = _state_of(self.job)
            if state != said and state is not None:
                self._say(f"job {self.job} is {state[0]}, {state[1]}")
                said = state
            if deadline is None and state is not None and state[0] == "RUNNING":
                deadline = time.monotonic() + local.START_SECONDS
            if deadline is None and time.monotonic() > give_up:
                raise processes.StartError(f"job {self.job} has not started within {self._args.wait:g} s ({state}): --wait S waits longer")
            if deadline is not None and time.monotonic() > deadline:
                raise processes.StartError(f"the hosts of job {self.job} did not join within {local.START_SECONDS:.0f} s; logs in {self.folder}\n"
                                           + processes.tail(self.folder / "job.log"))
            time.sleep(_PAUSE_SECONDS)

    def _formed(self):
        try:
            return admin.status(self.address, seconds=5, access=self.access).get("state") == "formed"
        except admin.StatusError:
            return False

    @staticmethod
    def _say(text):
        print(f"pathways up: {text}", file=sys.stderr, flush=True)

    def failure(self):
        """Returns the reason why the cluster has ended, or None."""
        if self._srun is not None:
            return None if self._srun.alive() else self._srun.failure()
        state = _state_of(self.job)
        if state is not None and state[0] in _LIVE:
            return None
        return f"job {self.job} has ended; logs in {self.folder}\n{processes.tail(self.folder / 'job.log')}"

    def stop(self):
        if self.job is not None:
            _end(self.handle, self.members)
        if self._srun is not None:
            self._srun.stop()


# ------------------------------------------------------------------------------- the engine's interface (see records.engine)
def launch(args, folder):
    return SlurmCluster(args, folder).start()


def alive(state):
    job, step = state.handle["job"], state.handle["step"]
    if state.handle["submitted"]:
        found = _state_of(job)
        return found is not None and found[0] in _LIVE
    return bool(_ask("squeue", "-h", f"--steps={job}.{step}", "-o", "%i"))


def stop(state):
    """Ends the job if we submitted it, else only our step; returns the names of the ended job or step."""
    return _end(state.handle, state.members)


def _end(handle, members):
    job, step = handle["job"], handle["step"]
    if handle["submitted"]:
        if _state_of(job) is not None:
            _ask("scancel", job)
        _until(lambda: (found := _state_of(job)) is None or found[0] not in (*_LIVE, "COMPLETING"), f"job {job}")
        return [f"job {job}"]
    if step is not None:
        _ask("scancel", f"{job}.{step}")
    else:
        for member in members:  # srun; its step has not started, or is unknown yet
            member.signal(15)
    _until(lambda: not any(member.alive() for member in members), f"step {step} of job {job}")
    return [f"step {step} of job {job}"]


def _until(condition, what):
    deadline = time.monotonic() + _STOP_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise processes.StartError(f"{what} was told to end, but still runs after {_STOP_SECONDS} s: 'squeue' shows why")
        time.sleep(0.1)
