"""Records the clusters started by `pathways up`, one folder each under ~/.pathways (or PATHWAYS_HOME), so that later commands find them.

    clusters/NAME/state.json    address, shape, and the processes: name, pid, start time, log
    clusters/NAME/*.log
    usage/NAME.sqlite           what users have used of it (`pathways usage`)
    identities/NAME/            the cluster's certificate authority and tokens, which outlive it

A process is identified by its pid and start time together: after a reboot or a wrap-around, another process may have the pid.
"""

import dataclasses
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import time

from pathways._cluster import processes


CONTROLLER = "controller"  # the name of a local cluster's member, and of its log


class NotRunning(Exception):
    """No such cluster is running."""


def home():
    return pathlib.Path(os.environ.get("PATHWAYS_HOME") or pathlib.Path.home() / ".pathways")


def folder(name):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", name):
        raise ValueError(f"'{name}' is not a cluster name: letters, digits, '.', '_' and '-', at most 41 of them")
    return home() / "clusters" / name


def usage_file(name):
    """Returns the path of a cluster's usage records, which outlive it."""
    folder(name)  # checks the name
    return home() / "usage" / f"{name}.sqlite"


def identity_folder(name):
    """Returns the folder of a cluster's authority and tokens. The controller makes it; this makes its parent."""
    folder(name)  # checks the name
    around = home() / "identities"
    around.mkdir(parents=True, exist_ok=True, mode=0o700)
    return around / name


def start_time(pid):
    """Returns the start time of a process in clock ticks since boot; None if it has ended (a zombie has ended)."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


@dataclasses.dataclass
class Member:
    """One process of a cluster."""

    name: str
    pid: int
    started: int
    log: str

    def alive(self):
        return start_time(self.pid) == self.started

    def signal(self, number):
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass


@dataclasses.dataclass
class State:
    name: str
    address: str
    shape: str
    platform: str
    members: list
    engine: str = "local"  # the launcher of its processes; for launchers other than "local", `handle` identifies the cluster there
    handle: dict = dataclasses.field(default_factory=dict)
    workers_address: str = ""
    access: list = dataclasses.field(default_factory=list)  # the flags with which our programs connect to it

    @property
    def folder(self):
        return folder(self.name)

    def alive(self):
        return any(m.alive() for m in self.members) if self.engine == "local" else engine(self.engine).alive(self)

    def lost_controller(self):
        """Says that the controller of a local cluster has ended, with the end of its log; empty: it has not."""
        gone = next((member for member in self.members if self.engine == "local" and member.name == CONTROLLER and not member.alive()), None)
        if gone is None:
            return ""
        return (f"The controller of cluster '{self.name}' has ended. 'pathways down' ends the rest of the cluster, then 'pathways up' starts it anew. The end of "
                f"{gone.log}:\n{processes.tail(gone.log)}")

    def save(self):
        path = self.folder / "state.json"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps({**dataclasses.asdict(self), "access": [str(word) for word in self.access]}, indent=2))
        temporary.rename(path)

    def stop(self):
        """Ends exactly the processes that were started; returns their names, and the names of those that had to be killed."""
        if self.engine == "local":
            killed = self._stop_members()
            names = [m.name for m in self.members]
        else:
            names, killed = engine(self.engine).stop(self), []
        (self.folder / "state.json").unlink(missing_ok=True)
        return names, killed

    def _stop_members(self, grace=15.0):
        """Tells all to end, then kills those that have not after `grace` seconds; returns their names. Hundreds of simulated hosts, which leave one by one, need the
        long grace."""
        for member in self.members:
            member.signal(processes.ENDS_THE_CLUSTER if member.name == CONTROLLER else signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        killed = [m.name for m in self.members if m.alive()]
        for member in self.members:
            member.signal(signal.SIGKILL)
        while self.alive():
            time.sleep(0.01)
        return killed


def engine(name):
    """Returns the launcher's module, which has launch(args, folder), alive(state) and stop(state)."""
    return importlib.import_module(f"pathways._launchers.{name}")


def load(name):
    """Loads a cluster's state. Raises NotRunning if there is none, or if it has ended."""
    try:
        raw = json.loads((folder(name) / "state.json").read_text())
        state = State(**{**raw, "members": [Member(**m) for m in raw["members"]]})
    except FileNotFoundError:
        raise NotRunning(f"no cluster '{name}' is running: start one with 'pathways up'") from None
    except (ValueError, TypeError, KeyError) as error:
        raise NotRunning(f"{folder(name)}/state.json is not readable ({error}): remove it, then 'pathways up'") from None
    if not state.alive():
        raise NotRunning(f"cluster '{name}' is not running any more; its logs are in {folder(name)}. Start a new one with 'pathways up'")
    return state


def address_of(args):
    """Returns the address of the cluster that a command's flags name: --address, else PATHWAYS_ADDRESS, else the cluster --name of this machine."""
    return args.address or os.environ.get("PATHWAYS_ADDRESS") or load(args.name).address


def why_silent(args):
    """Returns why the cluster that a command's flags name does not answer, if this machine knows; else an empty string."""
    if getattr(args, "address", None) or os.environ.get("PATHWAYS_ADDRESS") or not getattr(args, "name", None):
        return ""
    try:
        return load(args.name).lost_controller()
    except NotRunning:
        return ""


def all_recorded():
    """Returns the states of all clusters that this user has started and not stopped; also of some that have ended by themselves."""
    states = []
    for path in sorted((home() / "clusters").glob("*/state.json")):
        try:
            raw = json.loads(path.read_text())
            states.append(State(**{**raw, "members": [Member(**m) for m in raw["members"]]}))
        except (OSError, ValueError, TypeError, KeyError):
            continue  # stopped meanwhile, or of another version
    return states


def fetch_logs(name, lines):
    """Copies the last lines of logs on other machines into the cluster's folder, if the cluster runs."""
    try:
        state = load(name)
    except NotRunning:
        return
    if fetch := state.engine != "local" and getattr(engine(state.engine), "fetch_logs", None):
        fetch(state, lines)


def fresh_folder(name):
    """Makes an empty folder for a new cluster."""
    path = folder(name)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True, mode=0o700)
    return path
