"""Measures the device time that each client gets against its weight, when the clients together want more than the devices can do.

Each computation is a gang over all devices of several simulated hosts, of the same length for each client. So a client's share of the results is its
share of the device time. The clients count the results that they have received; the scheduler's own accounts are not used. A recording of the devices'
runs in the same window gives the shares a second time. The devices are simulated; the clients, the controller with its scheduler, the workers and
the time are real.
"""

import contextlib
import json
import pathlib
import statistics
import tempfile
import time

import _answers
import _report
import _sides

MIXES = {"1:1:1:1": (1, 1, 1, 1), "1:2:4:8": (1, 2, 4, 8)}
HOSTS, DEVICES, US = 4, 8, 2400
OPERATION_A_US = "1e6:0:0"  # a simulated device of one operation per microsecond
SETTLE_SECONDS = 2
RECORDED_SECONDS = 1
LIMIT = 0.02


def numbers(address):
    """Returns the controller's numbers of its clients."""
    from pathways._cluster import admin

    return {client["id"] for client in admin.status(address)["clients"]}


def open_clients(stack, address, count):
    """Starts `count` clients; returns {the client's number at the controller: its process}."""
    sides = {}
    for i in range(count):
        side = stack.enter_context(_sides.client(f"client{i}", "package", address))
        (number,) = numbers(address) - sides.keys()
        sides[number] = side
    return sides


class Flood:
    """Keeps all of these clients calling within the block, each its own programs, with `depth` calls of each in flight. programs: [(client, its program or a
    list of them)]. Afterwards `done` has, for each client, the number of results that it saw within the window of `seconds`."""

    def __init__(self, programs, seconds, depth=_answers.DEPTH, settle=SETTLE_SECONDS):
        self.programs, self.depth = programs, depth
        self.begin = time.monotonic() + settle
        self.end = self.begin + seconds
        self.done = []

    def __enter__(self):
        for side, program in self.programs:
            side.send(json.dumps({"do": "flood", "programs": [program] if isinstance(program, str) else program, "begin": self.begin, "end": self.end, "depth": self.depth}))
        return self

    def until_begin(self):
        time.sleep(max(0.0, self.begin - time.monotonic()))

    def until_end(self):
        time.sleep(max(0.0, self.end - time.monotonic()))

    def __exit__(self, *_):
        self.done = [side.receive()["done"] for side, _ in self.programs]


SHOWN_US = 400_000


def runs_of(events, clients):
    """Returns [client's place in the list, begin, duration in us] for the runs at the end of a trace, on the device that ran most."""
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    places = {f"client {number}": place for place, number in enumerate(clients)}
    asked = {event["args"]["op"]: places[track] for event in events if event.get("cat") == "request"
             and (track := tracks.get((event["pid"], event["tid"]))) in places and "op" in event.get("args", {})}
    of_device = {}
    for event in events:
        if event.get("cat") == "run" and event.get("args", {}).get("op") in asked:
            track = tracks.get((event["pid"], event["tid"]), "").split(" (")[0]  # overlapping runs of a device have separate tracks
            of_device.setdefault((event["pid"], track), []).append((event["ts"], event["dur"], asked[event["args"]["op"]]))
    runs = sorted(max(of_device.values(), key=len, default=[]))
    first = max(runs[-1][0] - SHOWN_US, runs[0][0]) if runs else 0
    # An end is recorded when it is noticed, which may be after the next run has begun.
    following = [*(begin for begin, _, _ in runs[1:]), float("inf")]
    return [[place, round(begin - first), round(min(took, after - begin))] for (begin, took, place), after in zip(runs, following) if begin >= first]


def recorded(address, clients, seconds=RECORDED_SECONDS):
    """Records a trace now; returns its runs_of."""
    from pathways._cluster import admin

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        admin.trace(address, seconds, path)
        return runs_of(json.loads(path.read_text())["traceEvents"], clients)


def off(shares, weights):
    """Returns the largest relative deviation of a client from its share."""
    total = sum(shares)
    return max(abs(share / total / (weight / sum(weights)) - 1) for share, weight in zip(shares, weights)) if total else float("inf")


def window(address, sides, seconds):
    """Returns (the results of each client within `seconds`, the runs of a device recorded in the middle of that time)."""
    with Flood([(side, f"gang {US} {i}") for i, side in enumerate(sides.values())], seconds) as flood:
        flood.until_begin()
        time.sleep(max(0.0, (seconds - RECORDED_SECONDS) / 2))
        runs = recorded(address, list(sides))
    return flood.done, runs


def measure(address, sides, weights, seconds, rounds):
    from pathways._cluster import admin

    for number, weight in zip(sides, weights):
        admin.share(address, number, weight=weight)
    windows = [window(address, sides, seconds) for _ in range(rounds)]
    worst, runs = [off(done, weights) for done, _ in windows], windows[-1][1]
    by_trace = [sum(took for place, _, took in runs if place == i) for i in range(len(weights))]
    return {"weights": weights, "done": [sum(of_client) for of_client in zip(*(done for done, _ in windows))], "worst": statistics.median(worst),
            "worst_rounds": worst, "us": US, "devices": HOSTS * DEVICES, "runs": runs, "shown_us": by_trace}


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=6, help="of each window")
        parser.add_argument("--rounds", type=int, default=5)

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.simulated_cluster(HOSTS, OPERATION_A_US, devices=DEVICES, policy="share"))
        sides = open_clients(stack, cluster.address, 4)
        for i, side in enumerate(sides.values()):
            side.ask("prepare", program=f"gang {US} {i}")
        figures = {name: measure(cluster.address, sides, weights, args.seconds, args.rounds) for name, weights in MIXES.items()}
    for name, row in figures.items():
        print(f"weights {name}: results {row['done']}; off by at most {100 * row['worst']:.2f} %")
    targets = [_report.target(f"results off the weights {name}", row["worst"], LIMIT) for name, row in figures.items()]
    _report.finish(args, "fairness", figures, targets)


if __name__ == "__main__":
    main()
