"""Several clients on one device: what switching between them costs. Computations a second of 1, 2, 4, 8, 16 clients together, against one.

On a simulated device, for computations of several lengths: it is busy for as long as a computation takes and needs no processor for that,
so whatever it stands still was lost between clients. All else is real: the clients, their relays, the controller with its scheduler, the
worker, and the time. And on a CPU device, which shares the processors with all of them: there, what clients take is missing for
computing, and where that goes is shown beside.

All clients are connected from the beginning; in each round some of them keep the device busy. The scheduler's own counts are taken while
all of those have work waiting.
"""

import contextlib
import os
import time

import _report
import _sides
from fairness import by_client, flooded, open_clients

COUNTS = (1, 2, 4, 8, 16)
SIMULATED_US = (330, 1040, 2400, 10000)
# Each client has so much work under way, by the time that it takes.
QUEUED_US, LEAST_DEPTH = 150_000, 12
CPU_DEPTH = 64
WARM_SECONDS, SETTLE_SECONDS = 0.2, 0.7
# Counted are whole computations, at moments known to a millisecond.
PRECISION = 0.005


def processes(cluster, sides):
    controller, *workers = (process.pid for process in cluster.processes)
    clients = [side.process.pid for side in sides]
    relays = [pid for client in clients for name, pid in _sides.children(client).items() if "relay" in name]
    return {"clients": clients, "relays": relays, "controller": [controller], "worker": workers}


def counted(address, pids):
    clients = by_client(address).values()
    return {"wall": time.monotonic(), "done": sum(c["completed"] for c in clients), "busy": sum(c["device_seconds"] for c in clients),
            **{name: sum(map(_sides.processor_seconds, many)) for name, many in pids.items()}}


def rate(cluster, sides, program, depth, seconds):
    with flooded(sides, WARM_SECONDS, depth, program):
        pass  # a client that was idle for minutes may have to be read from the disk again
    with flooded(sides, seconds + 2 * SETTLE_SECONDS, depth, program):
        time.sleep(SETTLE_SECONDS)
        pids = processes(cluster, sides)
        before = counted(cluster.address, pids)
        time.sleep(seconds)
        after = counted(cluster.address, pids)
    took = {key: after[key] - before[key] for key in after}
    return {"per_s": took["done"] / took["wall"], "device_busy": took["busy"] / took["wall"],
            **{f"{name}_processors": took[name] / took["wall"] for name in pids}}


def compare(cluster, sides, counts, program, depth, args):
    """{clients: medians over the rounds}; `of_one`: of ratios within a round."""
    for side in sides:
        side.ask("prepare", program=program)
    results = _sides.take_turns(args.rounds, {k: lambda k=k: rate(cluster, sides[:k], program, depth, args.seconds) for k in counts})
    for rows in results.values():
        for row, one in zip(rows, results[1]):
            row["of_one"] = row["per_s"] / one["per_s"]
    return {str(k): {key: _sides.median(rows, key) for key in rows[0]} for k, rows in results.items()}


def show(name, figures):
    for k, row in figures.items():
        took = ", ".join(f"{key.removesuffix('_processors')} {value:.2f}" for key, value in row.items() if key.endswith("_processors"))
        print(f"{name}, {k} clients: {row['per_s']:.0f} computations/s together ({row['of_one']:.3f} of one), device busy {row['device_busy']:.3f}; "
              f"of {os.cpu_count()} processors: {took}")


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=2)
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="how many clients; 1 is among them")
        parser.add_argument("--us", type=int, nargs="*", default=SIMULATED_US, help="what a computation takes on the simulated device")
        parser.add_argument("--no-cpu", action="store_true", help="the simulated device alone")

    args = _report.arguments(__doc__, add)
    figures, targets = {"simulated": {}}, []
    with contextlib.ExitStack() as stack:
        # An operation a microsecond.
        cluster = stack.enter_context(_sides.simulated_cluster(1, "1e6:0:0", devices=1))
        sides = list(open_clients(stack, cluster.address, max(args.counts), "scalar").values()) if args.us else []
        for us in args.us:
            found = compare(cluster, sides, args.counts, f"adds {us}", max(LEAST_DEPTH, QUEUED_US // us), args)
            figures["simulated"][str(us)] = found
            show(f"simulated device, {us / 1e3:g} ms", found)
            worst = min(row["of_one"] for row in found.values())
            targets.append(_report.target(f"throughput of several clients / of one, the worst, simulated {us / 1e3:g} ms", worst, 1 - PRECISION, at_most=False))
    if not args.no_cpu:
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(_sides.cluster("1x1x1"))
            sides = list(open_clients(stack, cluster.address, max(args.counts)).values())
            figures["cpu"] = compare(cluster, sides, args.counts, "work", CPU_DEPTH, args)
            show("CPU device", figures["cpu"])
    _report.finish(args, "clients", figures, targets)


if __name__ == "__main__":
    main()
