"""Measures the cost of observing a cluster, all of it together: the time of a step of each of eight clients.

Sides, in turn:
    without   a cluster with no page, no metrics and no record of usage, whose controller takes no computation for hanging
    unread    another cluster of the same shape, with the page, the metrics of all processes, the record of usage and the watch for hangs
    read      the same cluster, while a browser's questions come to the page and a scraper reads every process's metrics
    profile   the same cluster, while a profile of all hosts is recorded, with the device runtime's events
With --parts also: page, metrics (each alone), all (read and profile).

Each cluster has eight clients of its own; those of the side whose turn it is not are idle. Each client has a program of its own and keeps _answers.DEPTH
calls in flight. The CPU device, the clients, the agents, the controller and the readers share the processors, as they would on one machine. A reader
asks as often as a browser or a scraper would: the status once a second and the computations four times a second; each process's metrics once a second.
A profile is recorded from before the window until after it. Without a page (the package was built where node and npm were missing), `read` reads the
metrics alone, and says so.

The target is that of `read`: its step takes at most 1 % more than `without` in the median of the rounds. The middle half of the rounds is printed beside
it: where that is wider than the distance to the target, more rounds are needed.
"""

import contextlib
import pathlib
import re
import socket
import statistics
import tempfile
import threading
import time

import _answers
import _report
import _sides
from clients import rate
from fairness import open_clients

CLIENTS = 8
LOOPS = (20, 500)  # of a computation, which takes about 0.05 and 1 ms of one core
PAGE_SECONDS, METRICS_SECONDS = 0.25, 1.0
PATIENCE = 60
LIMIT = 1.01  # of all that observes together: a step of this length beside one of a cluster that nothing observes
NEVER = 1e8  # seconds: a computation that may take so long does not hang
LAST = re.compile(rb'"last":(\d+)')
SPARE_SECONDS = 5  # of a profile, before and after the window


class Reader:
    """Calls `look(turn)` every `often` seconds within the block, in a thread. `answers` is the number of looks, `seconds` the processor time of the thread, which
    would be another machine's."""

    def __init__(self, often, look):
        self.answers, self.seconds = 0, 0.0
        self._often, self._look = often, look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._error = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _read(self):
        try:
            while not self._ended.wait(self._often):
                self._look(self.answers)
                self.answers += 1
                self.seconds = time.thread_time()
        except (OSError, RuntimeError, TypeError) as error:
            self._error = error


def get(url, secret):
    """Returns the body of an answer, by few steps: what a reader itself takes is not what is measured."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.rpartition(":")
    with socket.create_connection((name, int(port)), PATIENCE) as connection:
        connection.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n\r\n".encode())
        pieces = []
        while piece := connection.recv(1 << 20):
            pieces.append(piece)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1] != b"200":
        raise RuntimeError(f"{url}: {head.decode(errors='replace')}")
    return body


def page_reader(cluster):
    """Asks what the page asks: each time the computations since the last answer, and every fourth time the status."""
    secret, last = (pathlib.Path(cluster.folder) / "page.token").read_text(), 0

    def look(turn):
        nonlocal last
        last = int(LAST.search(get(f"{cluster.page_url}api/gangs?after={last}", secret))[1])
        if turn % 4 == 0:
            get(f"{cluster.page_url}api/status", secret)

    return Reader(PAGE_SECONDS, look)


def metrics_reader(cluster):
    secret = (pathlib.Path(cluster.folder) / "metrics.token").read_text()
    return Reader(METRICS_SECONDS, lambda turn: [get(f"http://{address}/metrics", secret) for address in cluster.metrics.values()])


class Profile:
    """Records a profile of the cluster within the block, which takes about `seconds`; `bytes` is its size."""

    def __init__(self, address, seconds):
        self._thread = threading.Thread(target=self._record, args=(address, seconds))
        self.bytes, self.missing, self._error = 0, [], None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _record(self, address, seconds):
        from pathways._cluster import admin

        try:
            with tempfile.TemporaryDirectory() as folder:
                hosts = admin.profile(address, seconds, folder, 256 << 20)["hosts"]
            self.bytes = sum(host["bytes"] for host in hosts)
            self.missing = [host["missing"] for host in hosts if host["missing"]]
        except (OSError, RuntimeError) as error:
            self._error = error


def observed(cluster, programs, seconds, looks):
    """Measures the clients while these looks are taken: {"page", "metrics", "profile"}."""
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(make(cluster)) for name, make in (("page", page_reader), ("metrics", metrics_reader)) if name in looks]
        profile = stack.enter_context(Profile(cluster.address, seconds + SPARE_SECONDS)) if "profile" in looks else None
        result = rate(cluster, programs, seconds)
    if not result["per_s"]:
        raise SystemExit("observing: no loop ended in that time; give more --seconds, or fewer --loops")
    result["step_us"] = len(programs) * 1e6 / result["per_s"]
    result["answers"] = sum(reader.answers for reader in readers)
    result["readers_processors"] = sum(reader.seconds for reader in readers) / seconds
    if profile is not None:
        result.update(profile_bytes=profile.bytes, profile_missing=profile.missing)
    return result


def summary(rows, base):
    """Returns medians over the rounds; `of_without` is the step's length beside that of the same round of the cluster without it all, with its middle half
    and all rounds."""
    ratios = [row["step_us"] / alone["step_us"] for row, alone in zip(rows, base)]
    figures = {key: _sides.median(rows, key) for key in rows[0] if key != "profile_missing"}
    figures |= {"of_without": statistics.median(ratios), "of_without_quartiles": _sides.quartiles(ratios), "of_without_rounds": ratios,
                "step_us_rounds": [row["step_us"] for row in rows]}
    if missing := sorted({text for row in rows for text in row.get("profile_missing", ())}):
        figures["profile_missing"] = missing
    return figures


def looks_at(cluster, parts):
    """Returns the sides of the cluster that is observed: {name: what is looked at}."""
    read = {"metrics"} if cluster.page is None else {"page", "metrics"}
    sides = {"unread": set(), "read": read, "profile": {"profile"}}
    if parts:
        sides |= {**{name: {name} for name in sorted(read)}, "all": read | {"profile"}}
    return sides


def show(loops, figures):
    for name, row in figures.items():
        took = ", ".join(f"{key.removesuffix('_processors')} {value:.2f}" for key, value in row.items() if key.endswith("_processors"))
        profile = f"; a profile of {row['profile_bytes'] / 2**20:.1f} MiB" if "profile_bytes" in row else ""
        low, high = row["of_without_quartiles"]
        print(f"{loops} loops, {name}: a step of {row['step_us']:.0f} us ({row['of_without']:.4f} of without, {low:.4f} to {high:.4f}; processors: {took}){profile}")


def prepared(stack, cluster, loops, count):
    """Opens the clients of a cluster. Returns {loops: [(client, its program)]}."""
    sides = list(open_clients(stack, cluster.address, count).values())
    programs = {n: [(side, f"work {n} {number}") for number, side in enumerate(sides)] for n in loops}
    for one in programs.values():
        for side, own in one:
            side.ask("prepare", program=own)
    return programs


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=3, help="of each window")
        parser.add_argument("--rounds", type=int, default=9)
        parser.add_argument("--clients", type=int, default=CLIENTS)
        parser.add_argument("--loops", type=int, nargs="+", default=LOOPS, help="of a computation")
        parser.add_argument("--parts", action="store_true", help="also measure the page, the metrics and a profile alone, and all with a profile")

    args = _report.arguments(__doc__, add)
    figures, targets = {"depth": _answers.DEPTH, "clients": args.clients}, []
    with contextlib.ExitStack() as stack:
        bare = stack.enter_context(_sides.cluster("1x1x1", hang_limit=NEVER))
        full = stack.enter_context(_sides.cluster("1x1x1", observed=True))
        figures["page"] = full.page is not None
        programs = {cluster: prepared(stack, cluster, args.loops, args.clients) for cluster in (bare, full)}
        for loops in args.loops:
            asks = {"without": lambda: observed(bare, programs[bare][loops], args.seconds, set())}
            asks |= {name: lambda looks=looks: observed(full, programs[full][loops], args.seconds, looks) for name, looks in looks_at(full, args.parts).items()}
            results = _sides.take_turns(args.rounds, asks)
            figures[str(loops)] = {name: summary(rows, results["without"]) for name, rows in results.items()}
            show(loops, figures[str(loops)])
            what = "page and metrics read" if figures["page"] else "metrics read (no page in this package)"
            targets.append(_report.target(f"a step with all that observes, {what} / without, {loops} loops", figures[str(loops)]["read"]["of_without"], LIMIT))
    _report.finish(args, "observing", figures, targets)


if __name__ == "__main__":
    main()
