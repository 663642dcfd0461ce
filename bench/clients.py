"""Several clients on one device: what switching between them costs. Computations a second of 1, 2, 4, 8, 16 clients together, against one.

All clients are connected from the beginning; in each round some of them keep the device busy. The scheduler's own counts are taken while
all of those have work waiting.
"""

import contextlib
import time

import _report
import _sides
from fairness import by_client, open_clients

COUNTS = (1, 2, 4, 8, 16)
DEPTH = 64
SETTLE_SECONDS = 0.7


def rate(address, sides, seconds):
    for side in sides:
        side.send(f'{{"do": "flood", "program": "work", "seconds": {seconds + 2 * SETTLE_SECONDS}, "depth": {DEPTH}}}')
    time.sleep(SETTLE_SECONDS)
    readings = []
    for _ in range(2):
        clients = by_client(address).values()
        readings.append((time.monotonic(), sum(c["completed"] for c in clients), sum(c["device_seconds"] for c in clients)))
        if len(readings) < 2:
            time.sleep(seconds)
    for side in sides:
        side.receive()
    wall, done, busy = (after - before for before, after in zip(*readings))
    return {"per_s": done / wall, "device_busy": busy / wall}


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=2)
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="how many clients; 1 is among them")

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(_sides.cluster("1x1x1")).address
        sides = list(open_clients(stack, address, max(args.counts)).values())
        results = _sides.take_turns(args.rounds, {k: lambda k=k: rate(address, sides[:k], args.seconds) for k in args.counts})
    figures = {str(k): {key: _sides.median(rows, key) for key in ("per_s", "device_busy")} for k, rows in results.items()}
    one = figures["1"]["per_s"]
    for k, row in figures.items():
        print(f"{k} clients: {row['per_s']:.0f} computations/s together ({row['per_s'] / one:.3f} of one), device busy {row['device_busy']:.3f}")
    worst = min(row["per_s"] for row in figures.values()) / one
    _report.finish(args, "clients", figures, [_report.target("throughput of several clients / of one, the worst", worst, 1.0, at_most=False)])


if __name__ == "__main__":
    main()
