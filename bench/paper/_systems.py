"""Starts the systems that a figure compares, each in its processes, and measures their throughputs in turns."""

import contextlib
import functools
import itertools
import pathlib
import statistics
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _setup  # noqa: E402
import _sides  # noqa: E402
from _rows import say as _say  # noqa: E402

RIVAL_SECONDS = 120  # for an answer, compiling included; a side that is late is not asked for that kind again
SIMULATED_SECONDS = 900
SCRIPT = HERE / "_side.py"


def side(name, mode, address, devices):
    """Opens a process of jax. mode: of _side.py."""
    patience = SIMULATED_SECONDS if mode == "simulated" else _sides.ANSWER_SECONDS
    return _sides.opened(_sides.Side(name, [sys.executable, SCRIPT, mode, address, devices], patience=patience))


def _installed(name):
    """Returns (interpreter, environment variables) of a system in an environment of its own, which 'make paper' installs."""
    from pathways._cluster import binaries

    build, packages = HERE.parents[1] / "build", sysconfig.get_path("purelib")
    found = {_setup.TENSORFLOW: ("venv-paper", {"PYTHONPATH": packages}),  # has the tensorflow-cpu wheel
             _setup.RAY: ("venv-ray", {"PATHWAYS_BENCH_PACKAGES": packages, "PATHWAYS_BENCH_PLUGIN": str(binaries.device_plugin("cpu"))})}
    venv, environment = found[name]
    python = build / venv / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{name.split(',')[0]} is not installed: 'make paper' does that")
    return python, environment


def _elsewhere(name, hosts, devices):
    python, environment = _installed(name)
    system = name.split(",")[0]
    return _sides.opened(_sides.Side(system, [python, HERE / "_rivals.py", system, hosts, devices], environment, patience=RIVAL_SECONDS))


def _opening(name, hosts, devices):
    """Returns the function that opens this rival, with `hosts` processes of `devices` devices each."""
    from pathways._cluster import binaries

    count = hosts * devices
    return {_setup.PLUGIN: lambda: side("plugin", "plugin", binaries.device_plugin("cpu"), count),
            _setup.JAX: lambda: side("jax", "inprocess", "-", count),
            _setup.MULTI_PLUGIN: lambda: _sides.multicontroller("multicontroller-plugin", SCRIPT, hosts, devices, [count]),
            _setup.MULTI: lambda: _sides.multicontroller("multicontroller", SCRIPT, hosts, devices, [count])}.get(
                name, lambda: _elsewhere(name, hosts, devices))


class Guarded:
    """A system that is asked only until it fails. Once a kind of computation, or a model, has failed or got stuck, that error is the answer for this kind. For
    other kinds the system is started again."""

    def __init__(self, stack, open_side):
        self.error, self.failed, self.side = None, {}, None
        self._open_side, self._opened = open_side, stack.enter_context(contextlib.ExitStack())
        self._open()

    def _open(self):
        try:
            self.side = self._opened.enter_context(self._open_side())
        except (RuntimeError, OSError) as error:
            self.error = self._gave_up(error)

    def _gave_up(self, error):
        print(f"paper: {error}", file=sys.stderr, flush=True)
        self._opened.close()
        self.side = None
        first, *more = [line for line in str(error).splitlines() if line.strip()]
        return f"{first} {more[-1]}" if more else first  # the last of the last words is the reason

    def ask(self, do, **arguments):
        kind = arguments.get("kind") or arguments.get("model")
        if self.side is None and self.error is None and kind not in self.failed:
            self._open()
        if self.error is not None or kind in self.failed:
            return {"error": self.error or self.failed[kind]}
        try:
            return self.side.ask(do, **arguments)
        except (RuntimeError, OSError) as error:
            self.failed[kind] = self._gave_up(error)
            return {"error": self.failed[kind]}


@contextlib.contextmanager
def systems(hosts, devices, rivals):
    """Yields ({name: Guarded} of ours and of these rivals, our cluster). With one host, ours is there twice: once with a cluster in one process."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster(f"1x{hosts}x{devices}"))
        opens = {_setup.OURS: lambda: side("pathways", "package", cluster.address, hosts * devices)}
        if _setup.OURS_ONE in _setup.ours(hosts):
            opens[_setup.OURS_ONE] = lambda: side("pathways, one process", "own", f"1x1x{devices}", devices)
        opens |= {name: _opening(name, hosts, devices) for name in rivals}
        yield {name: Guarded(stack, open_side) for name, open_side in opens.items()}, cluster


def rates(asks, rounds, seconds):
    """Measures in turns; returns {name: {"per_s": the median, "rounds": each} or {"error"}}. asks: {name: (fewest calls in a turn, most, computations in a
    call, a function of the number of calls)}. The first calls tell how many calls make a turn of about `seconds`."""
    timed = {}
    for name, (fewest, most, nodes, ask) in asks.items():
        calls, first = fewest, [ask(fewest), ask(fewest)][-1]  # the very first compiles
        for _ in range(2):  # with few calls, filling and emptying the queue dominates
            enough = calls if "error" in first else max(fewest, min(most, round(first["per_s"] / nodes * seconds)))
            if enough > 2 * calls:
                calls, first = enough, ask(enough)
        timed[name] = functools.partial(ask, calls)
        _say(f"{name}: {first.get('error') or format(first['per_s'], ',.0f')}, then {calls} calls")
    return {name: in_rounds(results, "per_s") for name, results in _sides.take_turns(rounds, timed, warm=False).items()}


def in_rounds(results, key):
    """Returns a side's answers to several rounds as one: {key: the median, "rounds": each, and what else the first one has}, or {"error", "rounds": those
    before it}."""
    each = [result[key] for result in itertools.takewhile(lambda result: "error" not in result, results)]
    if len(each) < len(results):
        return {"error": f"{results[len(each)]['error']} (after {len(each)} rounds)", "rounds": each}
    return {**results[0], key: statistics.median(each), "rounds": each}


def asks(one, name, kind, quick):
    return (_setup.fewest(name, kind, quick), *_setup.KINDS[kind], lambda calls: one.ask("rate", kind=kind, calls=calls, depth=_setup.DEPTH))
