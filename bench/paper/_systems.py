"""Starts the systems that a figure compares, each in its processes, and measures their throughputs in turns."""

import contextlib
import dataclasses
import itertools
import pathlib
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _meter  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402
from _guarded import Guarded, Paused  # noqa: E402
from _rows import say as _say  # noqa: E402

SIMULATED_SECONDS = 900
SCRIPT = HERE / "_side.py"


def side(name, mode, address, devices, env=None):
    """Opens a process of jax. mode: of _side.py."""
    patience = SIMULATED_SECONDS if mode == "simulated" else _sides.ANSWER_SECONDS
    return _sides.opened(_sides.Side(name, [sys.executable, SCRIPT, mode, address, devices], env, patience=patience))


def _installed(name):
    """Returns (interpreter, environment variables) of a system in an environment of its own, which 'make paper' installs."""
    from pathways._cluster import binaries

    build, packages = HERE.parents[1] / "build", sysconfig.get_path("purelib")
    found = {_setup.TENSORFLOW: ("venv-paper", {"PYTHONPATH": packages}),  # has the tensorflow-cpu wheel
             _setup.RAY: ("venv-ray", {"PATHWAYS_BENCH_PACKAGES": packages, "PATHWAYS_BENCH_PLUGIN": str(binaries.device_plugin("cpu")), **_sides.our_allocator()})}
    venv, environment = found[name]
    python = build / venv / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{name.split(',')[0]} is not installed: 'make paper' does that")
    return python, environment


def _elsewhere(name, hosts, devices):
    python, environment = _installed(name)
    system = name.split(",")[0]
    return _sides.opened(_sides.Side(system, [python, HERE / "_rivals.py", system, hosts, devices], environment))


def _opening(name, hosts, devices):
    """Returns the function that opens this rival, with `hosts` processes of `devices` devices each."""
    from pathways._cluster import binaries

    count = hosts * devices
    return {_setup.PLUGIN: lambda: side("plugin", "plugin", binaries.device_plugin("cpu"), count, _sides.our_allocator()),
            _setup.JAX: lambda: side("jax", "inprocess", "-", count),
            _setup.MULTI_PLUGIN: lambda: _sides.multicontroller("multicontroller-plugin", SCRIPT, hosts, devices, [count], env=_sides.our_allocator()),
            _setup.MULTI: lambda: _sides.multicontroller("multicontroller", SCRIPT, hosts, devices, [count])}.get(
                name, lambda: _elsewhere(name, hosts, devices))


@contextlib.contextmanager
def systems(hosts, devices, rivals):
    """Yields ({name: Guarded} of ours and of these rivals, our cluster). With one host, ours is there three times: also with a cluster in one process, and with one in the
    program's own process, which gets our allocator as jax does."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster(f"1x{hosts}x{devices}"))
        opens = {_setup.OURS: lambda: side("pathways", "package", cluster.address, hosts * devices)}
        if _setup.OURS_ONE in _setup.ours(hosts):
            opens[_setup.OURS_ONE] = lambda: side("pathways, one process", "own", f"1x1x{devices}", devices, {"PATHWAYS_DOOR": "ifrt"})
            opens[_setup.OURS_INSIDE] = lambda: side("pathways, PJRT door", "own", f"1x1x{devices}", devices, {"PATHWAYS_DOOR": "pjrt", **_sides.our_allocator()})
        opens |= {name: _opening(name, hosts, devices) for name in rivals}
        yield {name: (Paused if name == _setup.RAY else Guarded)(stack, open_side) for name, open_side in opens.items()}, cluster


def meter(found, cluster):
    """Returns a Meter of these systems."""
    return _meter.Meter({name: lambda name=name, one=one: _breakdown.parts(name, one.side, cluster) for name, one in found.items()},
                        {name: one.awake for name, one in found.items()})


@dataclasses.dataclass(frozen=True)
class Asking:
    """The request to a side in its turns. side: its name; what: the name of these calls; nodes: computations in a call; fewest, most: calls in a turn."""

    side: str
    what: str
    one: object
    request: dict
    nodes: int = 1
    fewest: int = _setup.LEAST
    most: int = 1024

    @property
    def name(self):
        return f"{self.side}, {self.what}"

    def ask(self, calls):
        return self.one.ask("rate", calls=calls, depth=_setup.DEPTH, **self.request)

    def calls(self, seconds):
        """Returns how many calls make a turn of about `seconds`, from a few first calls."""
        calls, first = self.fewest, [self.ask(self.fewest), self.ask(self.fewest)][-1]  # the very first compiles
        for _ in range(2):  # with few calls, filling and emptying the queue dominates
            enough = calls if "error" in first else max(self.fewest, min(self.most, round(first["per_s"] / self.nodes * seconds)))
            if enough > 2 * calls:
                calls, first = enough, self.ask(enough)
        _say(f"{self.name}: {first.get('error') or format(first['per_s'], ',.0f')}, then {calls} calls")
        return calls


def of_kind(name, one, kind, quick):
    """Returns the Asking for one of _setup.KINDS."""
    most, nodes = _setup.KINDS[kind]
    return Asking(name, kind, one, {"kind": kind}, nodes, _setup.fewest(name, kind, quick), most)


def rates(asks, rounds, seconds, meter):
    """Measures in turns of about `seconds`; returns {name: {"per_s": the median, "rounds": each, "calls": of a turn} or {"error"}}. asks: Asking of each."""
    calls = {each.name: each.calls(seconds) for each in asks}
    timed = {each.name: lambda each=each: meter.turn(each.side, each.what, calls[each.name], each.ask) for each in asks}
    return {name: {**in_rounds(results, "per_s", "calling_us", "waiting_us"), "calls": calls[name]} for name, results in _sides.take_turns(rounds, timed, warm=False).items()}


def in_rounds(results, key, *more):
    """Returns a side's answers to several rounds as one: {key: the median, "rounds": each, the medians of `more`, and what else the first one has}, or
    {"error", "rounds": those before it}."""
    good = list(itertools.takewhile(lambda result: "error" not in result, results))
    each = [result[key] for result in good]
    if len(good) < len(results):
        return {"error": f"{results[len(good)]['error']} (after {len(good)} rounds)", "rounds": each}
    return {**good[0], **{name: _sides.median(good, name) for name in (key, *more)}, "rounds": each}
