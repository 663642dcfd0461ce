"""Measures where the time goes: processor time by process, and the stages of a call from a recording of `pathways trace`. The functions on events are
pure."""

import collections
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _meter  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402

TRACE_SECONDS = 0.5
ONE_PROCESS = "agent, controller and worker in one"
INSIDE = "client with the cluster in it"
RECORDED_SECONDS = 1.0  # about half of the calls of a recording with many under way


def with_processors(cluster, client, work):
    """Returns (the result of `work`, {process: processor seconds meanwhile})."""
    controller, *workers = (process.pid for process in cluster.processes)
    pids = {"client": [client], "agent": list(_sides.door(client).values()), "controller": [controller], "hosts": workers}
    used = lambda: {name: sum(map(_sides.processor_seconds, many)) for name, many in pids.items()}
    before, result = used(), work()
    return result, {name: seconds - before[name] for name, seconds in used().items()}


def parts(name, side, cluster):
    """Returns {part: [process ids]} of a side that takes turns; ours has the cluster's processes too. Devices of real hosts are threads of the workers. {} while
    it is not started."""
    pids = side.processes() if side is not None else []
    if pids and name == _setup.OURS_INSIDE:
        return {INSIDE: pids}
    if not pids or name not in (_setup.OURS, _setup.OURS_ONE):
        return {"client": pids} if pids else {}  # other systems: all processes together
    client, *door = pids
    if name == _setup.OURS_ONE:
        return {"client": [client], ONE_PROCESS: door}
    controller, *workers = (process.pid for process in cluster.processes)
    return {"client": [client], "agent": door, "controller": [controller], "workers": workers}


def of_turns(name, kind, rate, nodes, turns):
    """Returns the us of a call in the turns that gave the rate: the times at the caller, the processor time by part, and the idle rest. rate: the answers of
    these turns as one; nodes: computations in a call."""
    spent, wall = _meter.per_call_us(turns, name, kind), 1e6 * nodes / rate["per_s"]
    return {"who": name, "kind": kind, "wall_us": wall, "calling_us": rate["calling_us"], "waiting_us": rate["waiting_us"], "processors_us": spent,
            "idle_us": os.cpu_count() * wall - sum(spent.values())}


def recordings(side, cluster, kind, nodes, rate, depth):
    """Records calls of ours: the busy share of the devices with `depth` calls under way, and the stages of a call that is alone. rate: the measured
    computations a second; nodes: computations in a call."""
    ask = lambda depth: lambda calls: side.ask("rate", kind=kind, calls=calls, depth=depth)
    calls = max(4, round(rate / nodes * RECORDED_SECONDS))
    busy = devices_busy(recorded(cluster.address, TRACE_SECONDS, lambda: ask(depth)(2 * calls)))
    alone = []
    events = recorded(cluster.address, TRACE_SECONDS, lambda: alone.append(ask(1)(max(4, calls // 4))))
    return {"devices_busy": busy, "alone_us": way(events, alone[0]["calling_us"] + alone[0]["waiting_us"])}


def stock_client():
    """Measures the least cost of a call: jax's client against a server that discards requests. Returns None if that server is not built."""
    tree = HERE.parents[1] / "build" / "release"
    if not (tree / "bin" / "floor_server").exists():
        return None
    with _sides.floor_server(tree) as address, _sides.client("floor", "direct", address) as side:
        found = side.ask("enqueue", program="scalar", calls=64, bursts=40)
    return {"who": "jax's client for Pathways, against a server that discards", "kind": "a call", "wall_us": found["us"] + found["drain_us"],
            "calling_us": found["us"], "waiting_us": found["drain_us"], "processors_us": {"client": found["process_cpu_us"]}}


def recorded(address, seconds, work):
    """Records while `work` runs; returns the events."""
    from pathways._cluster import admin

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        thread = threading.Thread(target=work)
        thread.start()
        try:
            admin.trace(address, seconds, path)
        finally:
            thread.join()
        return json.loads(path.read_text())["traceEvents"]


# The stages of a call. The first is all time before the controller has the call and after it knows of the end: client, agent and connections.
# The names are stored in report.json; _where.py shows others.
WAY = ("client and wire", "controller: until all is granted", "wire to the workers", "workers: until launched", "devices", "wire back")


def _of_calls(events):
    """Yields {event: us} for each call that was recorded whole. A call may be several computations (gangs), each with a grant of its own: it is then
    asked with the first and known with the last."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    asked, gangs, granted, known = {}, collections.defaultdict(set), {}, {}
    arrived, begun, ended = (collections.defaultdict(list) for _ in range(3))
    for e in events:
        args, kind = e.get("args", {}), e.get("cat")
        if kind == "request" and "gang" in args:
            op = args.get("op")
            asked[op] = min(e["ts"], asked.get(op, e["ts"]))
            gangs[op].add(args["gang"])
        elif kind == "grant" and names.get((e["pid"], e["tid"]), "").startswith("scheduler"):
            granted[args["gang"]] = e["ts"]
        elif kind == "prepare":
            arrived[args.get("op")].append(e["ts"])
        elif kind == "run" and "gang" in args:
            begun[args["gang"]].append(e["ts"])
            ended[args["gang"]].append(e["ts"] + e.get("dur", 0))
        elif kind == "end" and e["name"] == "done":
            known[args["gang"]] = e["ts"]
    for op, mine in gangs.items():
        if arrived[op] and all(gang in granted and gang in known and begun[gang] for gang in mine):
            yield {"asked": asked[op], "granted": min(granted[gang] for gang in mine), "there": max(arrived[op]),
                   "begin": min(min(begun[gang]) for gang in mine), "end": max(max(ended[gang]) for gang in mine), "known": max(known[gang] for gang in mine)}


def way(events, wall_us):
    """Returns {part of WAY: median us} of calls that were made one at a time, each `wall_us` long for its caller; {} if none was recorded whole."""
    ways = []
    for call in _of_calls(events):
        there = max(call["there"], call["granted"])  # a command may reach its hosts before its grant
        inside = (max(call["granted"] - call["asked"], 0), max(call["there"] - max(call["granted"], call["asked"]), 0), max(call["begin"] - there, 0),
                  call["end"] - call["begin"], max(call["known"] - call["end"], 0))
        ways.append((wall_us - sum(inside), *inside))
    return {name: statistics.median(each[i] for each in ways) for i, name in enumerate(WAY)} if ways else {}


def devices_busy(events):
    """Returns the busy share of the devices that ran anything, between the first begin and the last end; None if none did."""
    found = runs(events)
    if not found:
        return None
    first, last = min(many[0][0] for many in found.values()), max(many[-1][1] for many in found.values())
    busy = sum(max(end - begin, 0) for many in found.values() for begin, end, _ in many)
    return busy / (len(found) * (last - first)) if last > first else None


# ------------------------------------------------------------------------------------------------------------------ pipelines
def runs(events):
    """Returns {(process, device): [(begin us, end us, name)]}: the runs of each device, in order and without overlap."""
    processes = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"].split(" (")[0] for e in events if e.get("name") == "thread_name"}
    found = collections.defaultdict(list)
    for e in events:
        if e.get("cat") == "run":
            found[processes[e["pid"]], threads[e["pid"], e["tid"]]].append((e["ts"], e["ts"] + e.get("dur", 0), e["name"]))
    for device, many in found.items():
        many.sort()
        # An end is recorded when it is noticed, which may be after the next run has begun.
        found[device] = [(begin, min(end, following), name) for (begin, end, name), following
                         in zip(many, [*(begin for begin, _, _ in many[1:]), float("inf")])]
    return dict(found)


FORWARD, BACKWARD, OTHER = "forward", "backward", "other"


def _kind(name):
    return FORWARD if name.endswith("_forward") else BACKWARD if name.endswith("_backward") else OTHER


def _stage(name):
    """Returns 7 for "jit_stage7_forward"."""
    return int(name.split("stage")[1].split("_")[0])


def pipeline_runs(events, places):
    """Returns [the runs of one device] for each place: the first device that ran one of its stages."""
    found = {}
    for device, many in sorted(runs(events).items()):
        stage = next((_stage(name) for _, _, name in many if _kind(name) != OTHER), None)
        if stage is not None:
            found.setdefault(stage % places, many)
    return [found.get(place, []) for place in range(places)]


def step_of(by_place):
    """Returns (begin, end) in us of the last whole recorded step, or None. A step begins with the first place's first forward function after its
    optimizer."""
    begins, updated = [], False
    for begin, _, name in by_place[0]:
        if _kind(name) == FORWARD and updated:
            begins.append(begin)
        updated = name.endswith("optimizer") or (updated and _kind(name) == OTHER)
    return (begins[-2], begins[-1]) if len(begins) > 1 else None


def stage_seconds(by_place):
    """Returns ({stage: median seconds of its forward function}, the same of its backward function)."""
    took = {FORWARD: collections.defaultdict(list), BACKWARD: collections.defaultdict(list)}
    for many in by_place:
        for begin, end, name in many:
            if _kind(name) != OTHER:
                took[_kind(name)][_stage(name)].append((end - begin) / 1e6)
    return tuple({stage: statistics.median(times) for stage, times in sorted(took[kind].items())} for kind in (FORWARD, BACKWARD))


def pipeline_step(by_place, begin, end, planned_s):
    """Returns the seconds of one step by activity, a mean over the places' devices, and the runs for the plot: [place, kind, begin, duration in us]."""
    shown = [[place, _kind(name), round(b - begin), round(e - b)] for place, many in enumerate(by_place) for b, e, name in many if begin <= b < end]
    spent = {kind: sum(took for _, k, _, took in shown if k == kind) / 1e6 / len(by_place) for kind in (FORWARD, BACKWARD, OTHER)}
    step, computing = (end - begin) / 1e6, spent[FORWARD] + spent[BACKWARD]
    return {"traced_step_s": step, "runs": shown, "idle": 1 - computing / (step - spent[OTHER]),
            "spent_s": {"forward and backward": computing, "idle by the schedule": planned_s - computing, "optimizer and the like": spent[OTHER],
                        "waiting for the control path and transfers": step - planned_s - spent[OTHER]}}


# ------------------------------------------------------------------------------------------------------------------ data parallelism
UPDATE = "update"
EXCHANGE, CONTROL = "waiting before updates (for the other island's gradients)", "waiting for the control path"


def _last_step(many):
    """Returns (the place of the first run of a device's last whole step, that of the step after), or None."""
    begins = [at for at, (_, _, name) in enumerate(many) if name.endswith("segment0_forward")]
    return (begins[-2], begins[-1]) if len(begins) > 1 else None


def _kind_of_segment(name):
    kind = name.rsplit("_", 1)[-1]
    return kind if kind in (FORWARD, BACKWARD, UPDATE) else UPDATE


def replica_step(many):
    """Returns {activity: seconds} of a device's last whole step: the functions that it ran (segmentN_forward, _backward, _update) and its waits. A wait before
    an update counts as one for gradients, any other as one for the control path. {} if there is no whole step."""
    step = _last_step(many)
    if step is None:
        return {}
    first, following = step
    spent = dict.fromkeys((FORWARD, BACKWARD, UPDATE, EXCHANGE, CONTROL), 0.0)
    for (_, before, _), (begin, end, name) in zip(many[first:following], many[first + 1:following + 1]):
        spent[EXCHANGE if name.endswith("_update") else CONTROL] += max(begin - before, 0) / 1e6
    for begin, end, name in many[first:following]:
        spent[_kind_of_segment(name)] += (end - begin) / 1e6
    return spent


def _in_order(device):
    """Returns a key that sorts host2 before host10."""
    return [int(part) if part.isdecimal() else part for word in device for part in re.split(r"(\d+)", word)]


def replica_runs(events):
    """Returns [place, kind, begin, duration in us] of two devices in the last whole step of the first: the first device (place 0) and the last (place 1). With
    several islands, these are of the first and of the last. [] if there is no whole step."""
    found = runs(events)
    pair = [found[device] for device in sorted(found, key=_in_order)][::max(1, len(found) - 1)][:2]
    step = _last_step(pair[0]) if pair else None
    if step is None:
        return []
    begin, end = (pair[0][at][0] for at in step)
    return [[place, _kind_of_segment(name), round(b - begin), round(e - b)] for place, many in enumerate(pair) for b, e, name in many if begin <= b < end]


def replica_steps(events):
    """Returns the mean of replica_step over all devices that ran whole steps."""
    steps = [spent for many in runs(events).values() if (spent := replica_step(many))]
    return {what: statistics.mean(spent[what] for spent in steps) for what in steps[0]} if steps else {}
