"""The measurements: one function for each figure of the paper's section 5, on this machine. Each returns plain JSON."""

import contextlib
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _sides  # noqa: E402
from _rows import say as _say  # noqa: E402
from multihost import Together, free_port  # noqa: E402

RIVAL_SECONDS = 90  # for an answer, compiling included; who is late once is not asked for that again
DEPTH = 16  # calls under way of computations over several devices: deeper queues of collectives can stop jax's own CPU runtime for good
DEEP = 1024  # where there is but one device


def _side(name, mode, address, devices):
    return _sides.Side(name, [sys.executable, HERE / "_side.py", mode, address, devices], patience=900 if mode == "simulated" else _sides.ANSWER_SECONDS)


@contextlib.contextmanager
def _open(*sides):
    """Several that start together: processes of one jax wait for each other."""
    try:
        for side in sides:
            side.info = side.receive()
        yield Together(sides) if len(sides) > 1 else sides[0]
    finally:
        for side in sides:
            side.close()


def _multicontroller(hosts, devices):
    port = free_port()
    return _open(*(_side(f"process{i}", "multicontroller", f"127.0.0.1:{port}/{i}/{hosts}/{devices}", hosts * devices) for i in range(hosts)))


def _rivals():
    """{system: (its interpreter, environment)} of those that are installed: 'make paper' does that."""
    build, packages = HERE.parents[1] / "build", {"PYTHONPATH": sysconfig.get_path("purelib")}  # where the tensorflow-cpu wheel is
    found = {"tensorflow": (build / "venv-paper" / "bin" / "python", packages), "ray": (build / "venv-ray" / "bin" / "python", {})}
    return {name: rival for name, rival in found.items() if rival[0].exists()}


class Guarded:
    """A system that is asked no more for a kind of computation at which it has failed or got stuck: from then on that is its answer. For the others it is
    started anew."""

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
        return str(error).splitlines()[0]

    def ask(self, do, **arguments):
        kind = arguments.get("kind")
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
def systems(hosts, devices, rivals=False):
    """({name: what can be asked} of ours, and of what a user would take instead; our cluster)."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster(f"1x{hosts}x{devices}"))
        count = hosts * devices
        opens = {"pathways": lambda: _open(_side("pathways", "package", cluster.address, count)),
                 "jax in process": lambda: _open(_side("inprocess", "inprocess", "-", count))}
        if hosts > 1:
            opens["jax multi-controller"] = lambda: _multicontroller(hosts, devices)
        for name, (python, environment) in (_rivals() if rivals else {}).items():
            opens[name] = lambda name=name, python=python, environment=environment: _open(
                _sides.Side(name, [python, HERE / "_rivals.py", name, count], environment, patience=RIVAL_SECONDS))
        yield {name: Guarded(stack, open_side) for name, open_side in opens.items()}, cluster


def _knows(name, kind):
    """jax has nothing between one call and a function of all; Ray has no collectives for CPUs."""
    return kind == "opbyop" or (name != "ray" if kind == "fused" else name in ("pathways", "tensorflow", "ray"))


def _rates(asks, rounds, seconds):
    """{name: {"per_s": the median} or {"error": why not}}. asks: {name: (the fewest calls, the most, computations in a call, a function of the number of
    calls)}: each takes turns of about `seconds`, as the first few calls tell."""
    timed = {}
    for name, (fewest, most, nodes, ask) in asks.items():
        calls, first = fewest, [ask(fewest), ask(fewest)][-1]  # the first of all compiles
        for _ in range(2):  # of few calls the first and the last are most of what is measured
            enough = calls if "error" in first else max(fewest, min(most, round(first["per_s"] / nodes * seconds)))
            if enough > 2 * calls:
                calls, first = enough, ask(enough)
        timed[name] = functools.partial(ask, calls)
        _say(f"{name}: {first.get('error') or format(first['per_s'], ',.0f')}, then {calls} calls")
    found = {}
    for name, results in _sides.take_turns(rounds, timed, warm=False).items():
        errors = [result["error"] for result in results if "error" in result]
        found[name] = {"error": errors[0]} if errors else {"per_s": statistics.median(result["per_s"] for result in results)}
    return found


KINDS = {"opbyop": (16, 16384, 1), "chained": (1, 2048, 128), "fused": (1, 16384, 128)}  # the fewest calls, the most, computations in each


def _asks(side, kind, depth):
    return (*KINDS[kind], lambda calls: side.ask("rate", kind=kind, calls=calls, depth=depth))


def figure5(quick, rows):
    """Computations a second, by devices: each a call, 128 traced into a program, 128 in one call."""
    rows.begin(as_list=True)
    for hosts, devices in [(1, 4), (2, 2)] if quick else [(1, 1), (1, 8), (2, 4), (4, 4)]:
        rows.row(f"{hosts} x {devices}", lambda: _real5(hosts, devices, quick), needs=30)
    for hosts in (16,) if quick else (16, 128, 512):
        rows.row(f"{hosts} x 4, simulated", lambda: _simulated5(hosts, quick), needs=20)
    return rows.figure()


def _real5(hosts, devices, quick):
    depth = DEPTH if hosts * devices > 1 else DEEP
    with systems(hosts, devices, rivals=True) as (found, cluster):
        asks = {f"{name}, {kind}": _asks(side, kind, depth) for name, side in found.items() for kind in KINDS if _knows(name, kind)}
        # jax's own runtime cannot be asked this
        asks["pathways, opbyop, deep queue"] = (256, 16384, 1, lambda calls: found["pathways"].ask("rate", kind="opbyop", calls=calls, depth=DEEP))
        rates = _rates(asks, 1 if quick else 9, 0.2)
        return {"hosts": hosts, "devices": hosts * devices, "depth": depth, "rates": rates, "where": list(_where5(found, cluster, rates, depth))}


def _where5(found, cluster, rates, depth):
    """Where a call goes, of ours and of theirs, for each kind that was measured."""
    for kind, (_, _, nodes) in KINDS.items():
        for name, side in found.items():
            rate = rates.get(f"{name}, {kind}", {}).get("per_s")
            if rate is None or side.side is None or name == "ray":
                continue
            try:
                if name == "pathways":
                    yield _breakdown.ours(side.side, cluster, kind, nodes, rate, depth)
                else:
                    yield _breakdown.theirs(name, side.side, kind, nodes, rate, depth)
            except (RuntimeError, OSError, KeyError) as error:  # the rates are still worth having
                _say(f"where {kind} of {name} goes: {error}")
    if depth == DEEP and (alone := _breakdown.stock_client()):
        yield alone


def _simulated5(hosts, quick):
    """Ours on simulated hosts of four devices, whose computations take no time: what the control path makes of it."""
    with _sides.simulated(hosts, "instant") as address, _open(_side("simulated", "simulated", address, hosts * 4)) as side:
        asks = {f"pathways, {kind}": _asks(side, kind, DEPTH) for kind in KINDS}
        return {"hosts": hosts, "devices": hosts * 4, "simulated": True, "rates": _rates(asks, 1 if quick else 3, 0.2 if quick else 1)}


# Simulated hosts, devices of each, and what the paper's figure 6 calls them.
LARGE = ((16, 8), (512, 4))


def figure6(quick, rows):
    """The throughput of ours against jax's, by the time that a computation takes; the smallest at which they are equal."""
    rows.begin(as_list=True, controller=_controller_alone(quick))
    for hosts, devices in [(1, 2)] if quick else [(1, 2), (2, 1)]:
        rows.row(f"{hosts} x {devices}", lambda: _against_jax(hosts, devices, quick), needs=20)
    for hosts, devices in LARGE[:1] if quick else LARGE:
        rows.row(f"{hosts}x{devices}", lambda: _control_path(hosts, devices), needs=20)
    return rows.figure()


def _against_jax(hosts, devices, quick):
    with systems(hosts, devices) as (found, cluster):
        rival = "jax multi-controller" if hosts > 1 else "jax in process"
        points = []
        for size in (30, 300, 3000) if quick else (10, 30, 100, 300, 1000, 3000, 10000):
            asks = {name: (16, 1024, 1, lambda calls, side=found[name], size=size: side.ask("rate", kind="work", calls=calls, depth=DEPTH, size=size))
                    for name in ("pathways", rival)}
            rates = _rates(asks, 1 if quick else 9, 0.2)
            if all("per_s" in rate for rate in rates.values()):
                points.append({"ms": 1e3 / rates[rival]["per_s"], "ratio": rates["pathways"]["per_s"] / rates[rival]["per_s"]})
    return {"hosts": hosts, "devices": hosts * devices, "rival": rival, "points": points, "parity_ms": parity(points)}


def _control_path(hosts, devices):
    """What a computation takes of each process on its way: with a client, sockets and all hosts, whose devices take no time. On machines of their own all
    of these work at the same time, and hosts beside each other: the busiest says from which computations on none of them limits."""
    with _sides.simulated_cluster(hosts, "instant", devices=devices) as cluster, _open(_side("simulated", "simulated", cluster.address, hosts * devices)) as side:
        rate = _rates({"pathways, opbyop": _asks(side, "opbyop", DEPTH)}, 1, 1)["pathways, opbyop"]
        if "error" in rate:
            raise RuntimeError(rate["error"])
        where = _breakdown.ours(side, cluster, "opbyop", 1, rate["per_s"], DEPTH)
    spent = dict(where["processors_us"])
    spent["each worker"] = spent.pop("workers") / hosts
    busiest = max(spent, key=spent.get)
    return {"hosts": hosts, "devices": hosts * devices, "simulated": True, "where": [where], "busiest": busiest, "busiest_ms": spent[busiest] / 1e3}


def _controller_alone(quick):
    """{"16x8": {"us": of the controller for a computation, "frames", "bytes"}, ...}, with simulated hosts that answer at once; None where the
    program is not built."""
    program = HERE.parents[1] / "build" / "release" / "bin" / "dispatch_bench"
    if not program.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "figures.json"
        subprocess.run([program, "--json", path, *(("--calls", "2000", "--rounds", "3") if quick else ())], check=True, stdout=sys.stderr)
        return {name: figure for name, figure in json.loads(path.read_text())["figures"].items() if "x" in name}


def parity(points, ratio=0.97):
    """The smallest computation from which on the throughputs are equal; None if they are not in this range."""
    smallest = None
    for point in sorted(points, key=lambda point: -point["ms"]):
        if point["ratio"] < ratio:
            break
        smallest = point["ms"]
    return smallest


def _script(name, *words):
    """The figures of one of the benchmarks in bench/."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "figures.json"
        done = subprocess.run([sys.executable, HERE.parent / f"{name}.py", "--json", path, *map(str, words)], check=False, stdout=sys.stderr)
        if not path.exists():
            raise RuntimeError(f"bench/{name}.py ended with status {done.returncode}; what it said is above")
        return json.loads(path.read_text())["figures"]


def figure7(quick, rows):
    """Calls a second of a program with one stage on each of k hosts, dispatched in parallel and stage by stage."""
    stages = (1, 2, 4) if quick else (1, 2, 4, 8)
    return {"stages": _script("program_chain", "--no-chain", "--calls", 20 if quick else 50, "--rounds", 1 if quick else 5, "--stages", *stages)["pipeline"]}


def figure8(quick, rows):
    """What several clients reach together on one device: a simulated one, by the time that computations take, and one of this machine's processors."""
    words = ("--seconds", 0.5, "--rounds", 1, "--counts", 1, 4, "--us", 1040) if quick else ("--seconds", 2, "--rounds", 3)
    return _script("clients", *words)


def figure9(quick, rows):
    """The device time that clients with weights get."""
    with tempfile.TemporaryDirectory() as folder:
        mixes = _script("fairness", "--seconds", 2 if quick else 10, "--trace", folder)
        for mix in mixes.values():
            mix["runs"] = runs_of(json.loads(pathlib.Path(mix.pop("trace")).read_text())["traceEvents"], mix.pop("clients"))
    return {"mixes": mixes}


SHOWN_US = 400_000


def runs_of(events, clients):
    """[client's place in the list, begin, duration in us] of what the device ran at the end of a trace."""
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    places = {f"client {number}": place for place, number in enumerate(clients)}
    asked = {event["args"]["op"]: places[track] for event in events if event.get("cat") == "request"
             and (track := tracks.get((event["pid"], event["tid"]))) in places and "op" in event.get("args", {})}
    runs = sorted((event["ts"], event["dur"], asked[event["args"]["op"]]) for event in events
                  if event.get("cat") == "run" and event.get("args", {}).get("op") in asked)
    first = max(runs[-1][0] - SHOWN_US, runs[0][0]) if runs else 0
    return [[place, round(begin - first), round(took)] for begin, took, place in runs if begin >= first]
