"""Measures the cost of sharing devices among clients: the computations a second of 1, 2, 4, 8 and 16 clients together.

Each client has its own program, with a text that no other client has, and keeps _answers.DEPTH calls in flight. The clients count their results.

On simulated devices, computations have several lengths. A simulated device is busy for the length of a computation, and uses no processor. So the time
in which it is idle was lost in the control path, or between clients; `of_device` is the fraction of time in which it was busy. All else is real: the
clients, the controller with its scheduler, the worker, and the time.

A CPU device shares the processors with all these processes. There one process of jax with our device plugin is measured too, in two turns of each round: with
one program and as many calls in flight as one client, and with as many programs and calls as all clients. If jax fails, that is its result, and ours stay.
"""

import contextlib
import itertools
import os
import time

import _answers
import _report
import _sides
from _guarded import Guarded
from fairness import OPERATION_A_US, Flood, open_clients, recorded

COUNTS = (1, 2, 4, 8, 16)
SIMULATED_US = (40, 330, 1040)
DEVICES = 8
CPU_LOOPS = (20, 150, 500)  # about 0.05, 0.33 and 1 ms of one core: see the rate of jax
SHOWN_US = 330  # the computations whose runs are recorded: those of the paper's figure 11
JAX = "jax"  # the row of jax with one program; many_programs names the other one
WARM_SECONDS, SETTLE_SECONDS = 0.2, 0.7
RECORDED_COUNTS = (1, 4, 8, 16)  # clients whose runs are recorded
SHOWN_SECONDS = 2
EQUAL = 0.97  # a throughput of at least this ratio counts as equal


def processes(cluster, sides):
    controller, *workers = (process.pid for process in cluster.processes)
    clients = [side.process.pid for side in sides]
    agents = [pid for client in clients for pid in _sides.door(client).values()]
    return {"clients": clients, "agents": agents, "controller": [controller], "worker": workers}


def used(pids):
    return {name: sum(map(_sides.processor_seconds, many)) for name, many in pids.items()}


def rate(cluster, programs, seconds):
    """Measures the total throughput of these clients. programs: [(client, its program)]."""
    with Flood(programs, WARM_SECONDS, settle=0):
        pass  # warm up: a client that was idle for minutes may have to be read from disk again
    with Flood(programs, seconds, settle=SETTLE_SECONDS) as flood:
        flood.until_begin()
        pids = processes(cluster, [side for side, _ in programs])
        before, begin = used(pids), time.monotonic()
        flood.until_end()
        took, after = time.monotonic() - begin, used(pids)
    return {"per_s": sum(flood.done) / seconds, **{f"{name}_processors": (after[name] - before[name]) / took for name in pids}}


def in_turn(asks, rounds):
    """Runs all asks in turn; returns {name: rows}."""
    results = _sides.take_turns(rounds, asks, warm=False)  # each turn has its own warm-up
    _put_ratios(results, "of_one", "1")
    return results


def _put_ratios(results, key, base):
    """Adds the ratio of each round to that of `base`, under `key`. A row whose side failed has none, and if the base failed, no row has."""
    if any("error" in row for row in results[base]):
        return
    for rows in results.values():
        for row, one in zip(rows, results[base]):
            if "error" not in row:
                row[key] = row["per_s"] / one["per_s"]


def summary(rows):
    """Returns medians over the rounds, and the single rounds' values; of a side that failed {"error", "per_s_rounds": those before}."""
    good = list(itertools.takewhile(lambda row: "error" not in row, rows))
    if len(good) < len(rows):
        return {"error": f"{rows[len(good)]['error']} (after {len(good)} rounds)", "per_s_rounds": [row["per_s"] for row in good]}
    return {key: _sides.median(rows, key) for key in rows[0]} | {f"{key}_rounds": [row[key] for row in rows] for key in rows[0]}


def many_programs(count):
    """Returns the name of the row of jax with as many programs and calls under way as this many clients."""
    return f"{JAX}, {count} programs"


def compare(cluster, sides, program, args, rival=None, us=None):
    """Returns {clients: summary}, with two rows of jax if there is a rival, which is Guarded. program: client's number -> its program. us: device time of a
    computation."""
    programs = [(side, program(i)) for i, side in enumerate(sides)]
    for side, own in programs:
        side.ask("prepare", program=own)
    asks = {str(k): lambda k=k: rate(cluster, programs[:k], args.seconds) for k in args.counts}
    many = many_programs(max(args.counts))
    if rival is not None:
        own = list(map(program, range(max(args.counts))))
        for name, some in ((JAX, own[:1]), (many, own)):
            asks[name] = lambda some=some: rival.attempt((program(0), len(some)), lambda side: rate_alone(side, some, args.seconds))
    results = in_turn(asks, args.rounds)
    for row in (row for rows in results.values() for row in rows if us is not None):
        row["of_device"] = row["per_s"] * us / 1e6
    if rival is not None:
        _put_ratios(results, "of_jax", JAX)
        _put_ratios(results, "of_jax_programs", many)
    return {name: summary(rows) for name, rows in results.items()}


def rate_alone(side, programs, seconds):
    for program in programs:
        side.ask("prepare", program=program)
    with Flood([(side, programs)], WARM_SECONDS, settle=0):
        pass
    with Flood([(side, programs)], seconds, settle=SETTLE_SECONDS) as flood:
        flood.until_begin()
        before = _sides.processor_seconds(side.process.pid)
        flood.until_end()
        took = _sides.processor_seconds(side.process.pid) - before
    return {"per_s": flood.done[0] / seconds, "clients_processors": took / seconds, "agents_processors": 0.0, "controller_processors": 0.0, "worker_processors": 0.0}


def show(name, figures):
    for k, row in figures.items():
        if "error" in row:
            print(f"{name}, {k}: FAILED: {row['error']}")
            continue
        took = ", ".join(f"{key.removesuffix('_processors')} {value:.2f}" for key, value in row.items() if key.endswith("_processors"))
        against = ", ".join(f"{row[key]:.3f} {words}" for key, words in (("of_one", "of one"), ("of_device", "of the device"), ("of_jax", "of jax")) if key in row)
        print(f"{name}, {k} clients: {row['per_s']:.0f} computations/s together ({against}); of {os.cpu_count()} processors: {took}")


def simulated(args):
    """Returns ({us: compare}, the runs of a device that clients share: {"us", "clients": {count: {"runs", "done", "seconds"}}})."""
    figures, gang = {}, lambda us: lambda i: f"gang {us} {i}"
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.simulated_cluster(1, OPERATION_A_US, devices=DEVICES))
        clients = open_clients(stack, cluster.address, max(args.counts))
        sides = list(clients.values())
        for us in args.us:
            figures[str(us)] = compare(cluster, sides, gang(us), args, us=us)
            show(f"simulated devices, {us / 1e3:g} ms", figures[str(us)])
        shown_us = SHOWN_US if SHOWN_US in args.us else args.us[0]
        programs = [(side, gang(shown_us)(i)) for i, side in enumerate(sides)]
        shared = {str(count): shown(cluster, list(clients)[:count], programs[:count]) for count in RECORDED_COUNTS if count <= len(sides)}
    return figures, {"us": shown_us, "clients": shared}


def shown(cluster, numbers, programs):
    """Returns the runs of a device while these clients keep calling, and the number of results that each of them saw."""
    with Flood(programs, SHOWN_SECONDS, settle=SETTLE_SECONDS) as flood:
        flood.until_begin()
        runs = recorded(cluster.address, numbers)
    return {"runs": runs, "done": flood.done, "seconds": SHOWN_SECONDS}


def on_cpu(args):
    """Returns {loops: compare}, with jax in one process with our plugin and our allocator as the rival."""
    from pathways._cluster import binaries

    figures, jax = {}, lambda: _sides.client("jax", "plugin", str(binaries.device_plugin("cpu")), _sides.our_allocator())
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster("1x1x1"))
        rival = Guarded(stack, jax)
        sides = list(open_clients(stack, cluster.address, max(args.counts)).values())
        for loops in args.loops:
            figures[str(loops)] = compare(cluster, sides, lambda i: f"work {loops} {i}", args, rival=rival)
            show(f"CPU device, {loops} loops", figures[str(loops)])
    return figures


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=2)
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="how many clients; 1 is among them")
        parser.add_argument("--us", type=int, nargs="*", default=SIMULATED_US, help="what a computation takes on the simulated device")
        parser.add_argument("--loops", type=int, nargs="*", default=CPU_LOOPS, help="of a computation on the CPU device")

    args = _report.arguments(__doc__, add)
    figures, targets = {"depth": _answers.DEPTH}, []
    if args.us:
        figures["simulated"], figures["shared"] = simulated(args)
        for us, found in figures["simulated"].items():
            worst = min(row["of_one"] for row in found.values())
            targets.append(_report.target(f"throughput of several clients / of one, the worst, simulated {int(us) / 1e3:g} ms", worst, EQUAL, at_most=False))
    if args.loops:
        figures["cpu"] = on_cpu(args)
    _report.finish(args, "clients", figures, targets)


if __name__ == "__main__":
    main()
