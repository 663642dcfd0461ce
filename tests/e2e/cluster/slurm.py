"""Runs a private Slurm on this machine: slurmctld, several slurmd and munge, in a private folder, with private ports and a private socket.
All processes are children of this one and are ended by pid."""

import getpass
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time

from cli import free_ports

NEEDED = ("slurmctld", "slurmd", "munged", "srun")
NODES, DEVICES = 4, 2
_SECONDS = 180

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=5
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=accel
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Returns a required program that is not installed, or None."""
    return next((name for name in NEEDED if which(name) is None), None)


def which(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Slurm:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.env = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.daemons = {}
        for name in ("state", *(f"spool-n{i}" for i in range(NODES))):
            (self.folder / name).mkdir()
        port, *ports = free_ports(NODES + 1)
        host = socket.gethostname()
        nodes = "\n".join(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={p} CPUs=2 Gres=accel:{DEVICES}" for i, p in enumerate(ports))
        (self.folder / "slurm.conf").write_text(CONF.format(host=host, port=port, user=getpass.getuser(), folder=self.folder, nodes=nodes))
        (self.folder / "gres.conf").write_text("".join(f"NodeName=n{i} Name=accel Count={DEVICES}\n" for i in range(NODES)))
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)

    def start(self):
        f = self.folder
        self._daemon("munged", "--foreground", "--force", f"--key-file={f}/munge.key", f"--socket={f}/munge.sock", f"--pid-file={f}/munged.pid",
                     f"--log-file={f}/munged.log", f"--seed-file={f}/munge.seed")
        self._until(lambda: (f / "munge.sock").exists(), "munged does not serve")
        self._daemon("slurmctld", "-D")
        for i in range(NODES):
            self._daemon("slurmd", "-D", "-N", f"n{i}", name=f"n{i}")
        self._until(lambda: self.ask("sinfo", "-h", "-N", "-o", "%t", check=False).split() == ["idle"] * NODES, "the nodes are not idle")
        return self

    def _daemon(self, program, *words, name=None):
        with open(self.folder / f"{name or program}.out", "w") as output:
            self.daemons[name or program] = subprocess.Popen([which(program), *words], env=dict(os.environ, **self.env), stdin=subprocess.DEVNULL,
                                                             stdout=output, stderr=output)

    def _until(self, condition, what):
        deadline = time.monotonic() + _SECONDS
        while not condition():
            ended = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            logs = {name: (self.folder / f"{name}.out").read_text()[-1000:] for name in self.daemons}
            assert not ended and time.monotonic() < deadline, f"{what} {ended}: {logs}"
            time.sleep(0.05)

    def ask(self, *words, check=True):
        done = subprocess.run(words, env=dict(os.environ, **self.env), capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def jobs(self):
        """Returns {job id: state}."""
        return dict(line.split() for line in self.ask("squeue", "-h", "-o", "%i %T").splitlines())

    def kill_node(self, name):
        """Simulates a power failure of a node: kills its slurmd, the slurmstepd of its jobs, and the jobs' processes."""
        self.daemons.pop(name).kill()
        tasks = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._runs_on(pid, name)]
        watchers = {parent for pid in tasks if (parent := _parent(pid)) and _comm(parent) == "slurmstepd"}
        for pid in (*watchers, *tasks):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # Tell Slurm, which would notice it only after a minute of silence.
        self.ask("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=killed")

    def _runs_on(self, pid, name):
        try:
            words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"SLURMD_NODENAME={name}".encode() in words and f"SLURM_CONF={self.env['SLURM_CONF']}".encode() in words

    def stop(self):
        if "slurmctld" in self.daemons:
            self.ask("scancel", *self.jobs(), check=False)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
