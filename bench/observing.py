"""Measures the cost of observing a cluster: the time of a step of each of eight clients, while nobody looks, while the operators' page is read, while
the metrics of all processes are read, while a profile is recorded, and with all three.

Each client has a program of its own and keeps _answers.DEPTH calls in flight. The CPU device, the clients, the agents, the controller and the readers
share the processors, as they would on one machine. The sides take turns on one cluster, which serves the page and the metrics all the time: what is
compared is their readers. A reader asks as often as a browser or a scraper would: the status once a second and the computations four times a second;
each process's metrics once a second. A profile is recorded from before the window until after it, with the device runtime's events. Without a page
(the package was built where node and npm were missing), its sides are left out.
"""

import contextlib
import json
import pathlib
import tempfile
import threading
import urllib.request

import _answers
import _report
import _sides
from clients import rate
from fairness import open_clients

CLIENTS = 8
LOOPS = (20, 500)  # of a computation, which takes about 0.05 and 1 ms of one core
PAGE_SECONDS, METRICS_SECONDS = 0.25, 1.0
PATIENCE = 60
LIMIT = 1.1  # what a look may cost: a step of this length beside one that nobody looks at
SPARE_SECONDS = 5  # of a profile, before and after the window


class Reader:
    """Calls `look(turn)` every `often` seconds within the block, in a thread. `answers` is the number of looks."""

    def __init__(self, often, look):
        self.answers = 0
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
        except OSError as error:
            self._error = error


def get(url, secret):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.read()


def page_reader(cluster):
    """Asks what the page asks: each time the computations since the last answer, and every fourth time the status."""
    secret, last = (pathlib.Path(cluster.folder) / "page.token").read_text(), 0

    def look(turn):
        nonlocal last
        last = json.loads(get(f"{cluster.page_url}api/gangs?after={last}", secret))["last"]
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
    result["step_us"] = len(programs) * 1e6 / result["per_s"]
    result["answers"] = sum(reader.answers for reader in readers)
    if profile is not None:
        result.update(profile_bytes=profile.bytes, profile_missing=profile.missing)
    return result


def summary(rows, base):
    """Returns medians over the rounds; `of_off` is the step's length beside that of the same round that nobody looked at, with all rounds."""
    ratios = [row["step_us"] / off["step_us"] for row, off in zip(rows, base)]
    figures = {key: _sides.median(rows, key) for key in rows[0] if key != "profile_missing"}
    figures |= {"of_off": _sides.median([{"of": ratio} for ratio in ratios], "of"), "of_off_rounds": ratios, "step_us_rounds": [row["step_us"] for row in rows]}
    if missing := sorted({text for row in rows for text in row.get("profile_missing", ())}):
        figures["profile_missing"] = missing
    return figures


def looks_at(cluster):
    """Returns the sides: {name: what is looked at}."""
    sides = {"off": set(), "metrics": {"metrics"}, "profile": {"profile"}}
    return sides if cluster.page is None else {**sides, "page": {"page"}, "all": {"page", "metrics", "profile"}}


def show(loops, figures):
    for name, row in figures.items():
        took = ", ".join(f"{key.removesuffix('_processors')} {value:.2f}" for key, value in row.items() if key.endswith("_processors"))
        profile = f"; a profile of {row['profile_bytes'] / 2**20:.1f} MiB" if "profile_bytes" in row else ""
        print(f"{loops} loops, {name}: a step of {row['step_us']:.0f} us ({row['of_off']:.3f} of off; processors: {took}){profile}")


def main():
    def add(parser):
        parser.add_argument("--seconds", type=float, default=3, help="of each window")
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--clients", type=int, default=CLIENTS)
        parser.add_argument("--loops", type=int, nargs="+", default=LOOPS, help="of a computation")

    args = _report.arguments(__doc__, add)
    figures, targets = {"depth": _answers.DEPTH, "clients": args.clients}, []
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster("1x1x1", observed=True))
        sides = list(open_clients(stack, cluster.address, args.clients).values())
        for loops in args.loops:
            programs = [(side, f"work {loops} {number}") for number, side in enumerate(sides)]
            for side, own in programs:
                side.ask("prepare", program=own)
            asks = {name: lambda looks=looks: observed(cluster, programs, args.seconds, looks) for name, looks in looks_at(cluster).items()}
            results = _sides.take_turns(args.rounds, asks)
            figures[str(loops)] = {name: summary(rows, results["off"]) for name, rows in results.items()}
            show(loops, figures[str(loops)])
            targets += [_report.target(f"a step while it is observed ({name}) / while it is not, {loops} loops", row["of_off"], LIMIT)
                        for name, row in figures[str(loops)].items() if name in ("page", "metrics")]
    _report.finish(args, "observing", figures, targets)


if __name__ == "__main__":
    main()
