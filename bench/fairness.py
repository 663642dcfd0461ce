"""Clients that together want more than a device can do: the device time that each got, against its weight.

Device time is what the scheduler measured and accounted for, over a window in which every client always had work waiting.
"""

import contextlib
import pathlib
import time

import _report
import _sides

MIXES = {"1:1:1:1": (1, 1, 1, 1), "1:2:4:8": (1, 2, 4, 8)}
DEPTH = 400
TRACE_SECONDS, TRACE_DEPTH = 3, 8
SETTLE_SECONDS = 2


def by_client(address):
    from pathways import _cluster

    return {c["id"]: c for c in _cluster.status(address)["clients"]}


def open_clients(stack, address, count, program="work"):
    """{number of the client at the controller: its process}, the program prepared."""
    sides = {}
    for i in range(count):
        side = stack.enter_context(_sides.client(f"client{i}", "package", address))
        side.ask("prepare", program=program)
        (number,) = by_client(address).keys() - sides.keys()
        sides[number] = side
    return sides


@contextlib.contextmanager
def flooded(sides, seconds, depth, program="work"):
    """While they have so much work under way, each for so many seconds from now; ends when they do."""
    for side in sides:
        side.send(f'{{"do": "flood", "program": "{program}", "seconds": {seconds}, "depth": {depth}}}')
    yield
    for side in sides:
        side.receive()


def measure(address, sides, weights, seconds):
    from pathways import _cluster

    for number, weight in zip(sides, weights):
        _cluster.share(address, number, weight=weight)
    with flooded(sides.values(), seconds + 2 * SETTLE_SECONDS, DEPTH):
        time.sleep(SETTLE_SECONDS)
        idle, first, start = 0, by_client(address), time.monotonic()
        while time.monotonic() < start + seconds:
            time.sleep(0.25)
            last = by_client(address)
            idle += sum(client["waiting"] == 0 for client in last.values())
    used = [last[n]["device_seconds"] - first[n]["device_seconds"] for n in sides]
    done = [last[n]["completed"] - first[n]["completed"] for n in sides]
    off = [u / sum(used) / (w / sum(weights)) - 1 for u, w in zip(used, weights)]
    return {"weights": weights, "device_seconds": used, "computations": done, "times_without_work": idle, "worst": max(map(abs, off))}


def record(address, sides, weights, path):
    """Has the cluster record what it does under these weights; returns the clients' numbers, in the order of the weights."""
    from pathways import _cluster

    for number, weight in zip(sides, weights):
        _cluster.share(address, number, weight=weight)
    # Few under way, so that what runs has been asked for while it was recorded.
    with flooded(sides.values(), TRACE_SECONDS + SETTLE_SECONDS, TRACE_DEPTH):
        _cluster.trace(address, TRACE_SECONDS, path)
    return list(sides)


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=10)
        parser.add_argument("--trace", metavar="DIR", help="record a few seconds of each mix there, as fairness-N.json for ui.perfetto.dev")

    args = _report.arguments(__doc__, add)
    figures = {}
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster("1x1x1", policy="share"))
        sides = open_clients(stack, cluster.address, 4)
        for name, weights in MIXES.items():
            figures[name] = measure(cluster.address, sides, weights, args.seconds)
            if args.trace:
                path = pathlib.Path(args.trace, f"fairness-{len(figures)}.json").resolve()
                figures[name] |= {"trace": str(path), "clients": record(cluster.address, sides, weights, path)}
    for name, row in figures.items():
        shares = ", ".join(f"{u:.2f} s" for u in row["device_seconds"])
        print(f"weights {name}: device time {shares}; off by at most {100 * row['worst']:.2f} %")
    targets = [_report.target(f"device time off the weights {name}", row["worst"], 0.02) for name, row in figures.items()]
    _report.finish(args, "fairness", figures, targets)


if __name__ == "__main__":
    main()
