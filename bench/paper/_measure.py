"""Measures figures 5 to 9 and 11 of the paper on this machine. Each function returns plain JSON."""

import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _meter  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402
import _systems  # noqa: E402
import _targets  # noqa: E402
from _rows import say as _say  # noqa: E402


def figure5(quick, rows):
    """Measures computations a second, by hosts and devices: one in a call, 128 traced into a program, 128 inside one call."""
    rows.begin(as_list=True)
    for hosts, devices in [(1, 4), (2, 2)] if quick else [(1, 1), (1, 8), (2, 4), (4, 4)]:
        rows.row(f"{hosts} x {devices}", lambda: _real5(hosts, devices, quick), needs=30)
    for hosts in (16,) if quick else (16, 128, 512):
        rows.row(f"{hosts} x 4, simulated", lambda: _simulated5(hosts, quick), needs=20)
    return rows.figure()


def _real5(hosts, devices, quick):
    with _systems.systems(hosts, devices, _setup.rivals(hosts)) as (found, cluster):
        asks = [_systems.of_kind(name, side, kind, quick) for name, side in found.items() for kind in _setup.KINDS if _setup.knows(name, kind)]
        meter = _systems.meter(found, cluster)
        rates = _systems.rates(asks, 1 if quick else _setup.ROUNDS, 0.2, meter)
        where = list(_where(asks, rates, meter, cluster))
    if devices == 1 and (alone := _breakdown.stock_client()):
        where.append(alone)
    return {"hosts": hosts, "devices": hosts * devices, "depth": _setup.DEPTH, "rates": rates, "where": where, "in_use": _meter.in_use(meter.turns)}


def _where(asks, rates, meter, cluster):
    """Yields where the time of a call goes, for each side and kind that has a rate, in the order of the kinds. Of ours, recordings say more."""
    for kind, (_, nodes) in _setup.KINDS.items():
        for each in (each for each in asks if each.what == kind and "error" not in rates[each.name]):
            rate = rates[each.name]
            entry = _breakdown.of_turns(each.side, kind, rate, nodes, meter.turns)
            if each.side == _setup.OURS:  # a recording needs the cluster's address; the other one's is known to its client alone
                try:
                    entry |= _breakdown.recordings(each.one, cluster, kind, nodes, rate["per_s"], _setup.DEPTH)
                except (RuntimeError, OSError, KeyError) as error:  # the rest is still useful
                    _say(f"a recording of {each.name}: {error}")
            yield entry


def _simulated5(hosts, quick):
    """Measures ours on simulated hosts of four devices whose computations take no time: the rate of the control path."""
    with _sides.simulated(hosts, "instant") as address, _systems.side("simulated", "simulated", address, hosts * 4) as side:
        asks = [dataclasses.replace(_systems.of_kind(_setup.OURS, side, kind, quick), fewest=_setup.DEPTH) for kind in _setup.KINDS]  # a chain takes half a second
        rates = _systems.rates(asks, 1 if quick else 5, 0.2 if quick else 1, _meter.Meter({}))
        return {"hosts": hosts, "devices": hosts * 4, "depth": _setup.DEPTH, "simulated": True, "rates": rates}


# Figure 6. Real: hosts, devices of each. Simulated: the same, behind sockets, with the lengths of the computations in us, the paper's own among them. An
# operation of these devices takes a microsecond.
REAL6, SIMULATED6 = ((1, 2), (16, 8)), {(16, 8): (100, 300, 1000, 2300, 10000), (512, 4): (1000, 3000, 10000, 35000, 100000)}
SIZES6, SIZES6_MANY = (10, 100, 300, 1000, 3000, 20000, 65000), (1, 100, 1000, 4000, 16000)  # the longest take about 40 and 800 ms of device time
LONG6, LONG6_SECONDS = 4000, 3  # turns of this size and above in a row of many hosts last this long, and have at least _setup.FEW calls
OPERATION_A_US = "1e6:0:0"
MANY_HOSTS = 4
ROUNDS6_MANY = 5  # for rows whose rounds take long
ROUNDS6_WHERE = 3  # of the calls that say where the time goes


def figure6(quick, rows):
    """Measures the throughput of ours against jax's by the device time of a computation, and the shortest computation at which they are equal."""
    rows.begin(as_list=True)
    for hosts, devices in REAL6[:1] if quick else REAL6:
        rows.row(f"{hosts} x {devices}", lambda: _against_jax(hosts, devices, quick), needs=260 if hosts > MANY_HOSTS else 60)
    for (hosts, devices), sizes in list(SIMULATED6.items())[:1 if quick else None]:
        rows.row(f"{hosts} x {devices}, simulated", lambda: _against_devices(hosts, devices, sizes[1:4] if quick else sizes, quick), needs=20)
    return rows.figure()


def _point(device_us, ratios, calls):
    """Returns the ratios at one length. calls: how many calls a turn of each side has."""
    spread = _setup.Spread.of(ratios)
    return {"ms": device_us / 1e3, "ratio": spread.median, "low": spread.low, "high": spread.high, "rounds": spread.rounds, "ratios": ratios, "calls": calls}


def _device_us(cluster, side, **work):
    """Returns the device time in us of one computation that is alone, from a recording."""
    calls = lambda count: side.ask("rate", calls=count, depth=1, **work)
    calls(2)
    first = calls(4)
    if "error" in first:
        raise RuntimeError(first["error"])
    count = max(4, round(first["per_s"] * _breakdown.TRACE_SECONDS))
    way = _breakdown.way(_breakdown.recorded(cluster.address, _breakdown.TRACE_SECONDS + 4 / first["per_s"], lambda: calls(count)), 1e6 / first["per_s"])
    if not way:
        raise RuntimeError("the recording of a computation that was alone has none of it as a whole")
    return way["devices"]


def _against_jax(hosts, devices, quick):
    """Compares real devices with jax in as many processes: with our device plugin and, for few hosts, with its own runtime."""
    many = hosts > MANY_HOSTS
    rivals = (_setup.MULTI_PLUGIN,) if many else (_setup.PLUGIN, _setup.JAX) if hosts == 1 else (_setup.MULTI_PLUGIN, _setup.MULTI)
    rounds = 1 if quick else ROUNDS6_MANY if many else _setup.ROUNDS
    points = {mine: {rival: [] for rival in rivals} for mine in _setup.ours(hosts)}
    failed = {}
    with _systems.systems(hosts, devices, rivals) as (found, cluster):
        meter = _systems.meter(found, cluster)
        for size in (30, 300, 3000) if quick else SIZES6_MANY if many else SIZES6:
            rates = _systems.rates(_asks6(found, size, many), rounds, LONG6_SECONDS if _is_long(size, many) else 0.2, meter)
            of = lambda name, size=size: rates[f"{name}, work {size}"]
            if "error" in of(_setup.OURS):
                raise RuntimeError(of(_setup.OURS)["error"])
            device_us = _device_us(cluster, found[_setup.OURS], kind="work", size=size)
            for mine, rival in itertools.product(points, rivals):
                if error := next((of(one)["error"] for one in (mine, rival) if "error" in of(one)), None):
                    failed.setdefault((mine, rival), f"{error}, at {device_us / 1e3:.3g} ms")
                else:
                    points[mine][rival].append(_point(device_us, _setup.ratios(of(mine), of(rival)), [of(mine)["calls"], of(rival)["calls"]]))
        where = _where6(found, cluster, meter, quick)
    against = {mine: {rival: _parity(many, failed.get((mine, rival))) for rival, many in of_rival.items()} for mine, of_rival in points.items()}
    return {"hosts": hosts, "devices": hosts * devices, "where": where, "in_use": _meter.in_use(meter.turns), **{key: against[mine] for mine, key in _targets.AGAINST.items() if mine in against}}


def _is_long(size, many):
    return many and size >= LONG6


def _asks6(found, size, many):
    """Returns an Asking for each side. A long computation fills its turn with few calls, and then filling and emptying the queue is a small part of it."""
    fewest = _setup.FEW if _is_long(size, many) else _setup.LEAST
    return [_systems.Asking(name, f"work {size}", side, {"kind": "work", "size": size}, fewest=fewest) for name, side in found.items()]


def _parity(points, failed):
    """Returns the points and the parity that they show, or why there is none, with the points before."""
    return {"error": failed, "points": points} if failed else {"points": points, "parity_ms": _setup.parity(points)}


def _where6(found, cluster, meter, quick):
    """Returns where the time of an opbyop call goes, for the sides with our device runtime, in further turns."""
    asks = [_systems.of_kind(name, side, "opbyop", quick) for name, side in found.items() if _setup.has_verdict(name)]
    return list(_where(asks, _systems.rates(asks, 1 if quick else ROUNDS6_WHERE, 0.2 if quick else 0.5, meter), meter, cluster))


def _against_devices(hosts, devices, sizes, quick):
    """Compares simulated devices, behind a stock client, the controller and sockets, with the most that they can do, which no system can exceed. The devices
    are told how long a computation takes."""
    points, count = [], hosts * devices
    with _sides.simulated_cluster(hosts, OPERATION_A_US, devices=devices) as cluster, _systems.side("simulated", "simulated", cluster.address, count) as side:
        meter = _meter.Meter({_setup.OURS: lambda: _breakdown.parts(_setup.OURS, side, cluster)})
        for us in sizes:
            busy = _systems.Asking(_setup.OURS, f"busy {us}", side, {"kind": "busy", "size": us}, most=4096)
            rate = _systems.rates([busy], 1 if quick else ROUNDS6_MANY, 1, meter)[busy.name]
            if "error" in rate:
                raise RuntimeError(rate["error"])
            points.append(_point(us, [per_s * us / 1e6 for per_s in rate["rounds"]], [rate["calls"]]))
        least = _systems.of_kind(_setup.OURS, side, "opbyop", quick)
        where = list(_where([least], _systems.rates([least], 1, 1, meter), meter, cluster))
    return {"hosts": hosts, "devices": count, "simulated": True, "where": where,
            "against": {_targets.NEVER_IDLE: {"points": points, "parity_ms": _setup.parity(points)}}}


def _script(name, *words):
    """Runs a benchmark in bench/; returns its figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "figures.json"
        done = subprocess.run([sys.executable, HERE.parent / f"{name}.py", "--json", path, *map(str, words)], check=False, stdout=sys.stderr)
        if not path.exists():
            raise RuntimeError(f"bench/{name}.py ended with status {done.returncode}; what it said is above")
        return json.loads(path.read_text())["figures"]


def figure7(quick, rows):
    """Measures calls a second of a program with a stage on each of k hosts of an island, with parallel and with sequential dispatch, and of jax in one
    process."""
    stages, seconds, rounds = ((1, 2), 0.2, 1) if quick else ((1, 2, 4, 8, 16), 1, 5)
    rows.begin()
    for count in map(str, stages):
        rows.row(count, lambda: _script("program_chain", "--no-chain", "--seconds", seconds, "--rounds", rounds, "--stages", count)["pipeline"][count])
    return rows.figure()


# Figure 8's rows, and the arguments of bench/clients.py that leave out the other one.
SIMULATED8, CPU8 = "simulated", "CPU"
PARTS8 = {SIMULATED8: "--loops", CPU8: "--us"}


def figure8(quick, rows):
    """Measures the total rate of several clients on the same devices, by length of computation: simulated devices, then one CPU device."""
    words = ("--seconds", 0.5, "--rounds", 1, "--counts", 1, 4) if quick else ("--seconds", 1, "--rounds", 5, "--counts", 1, 4, 16)
    fewer = {SIMULATED8: ("--us", 1040), CPU8: ("--loops", 150)} if quick else {}
    rows.begin()
    for name, other in PARTS8.items():
        rows.row(name, lambda: _script("clients", *words, *fewer.get(name, ()), other), needs=0 if quick else 60)
    return rows.figure()


def figure9(quick, rows):
    """Measures the device time of clients with weights."""
    return {"mixes": _script("fairness", "--seconds", 2 if quick else 6, "--rounds", 1 if quick else 5)}
