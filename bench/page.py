"""Measures the operators' page on a simulated cluster of 2,048 devices, in Debian's chromium. First comes the controller's cost of an answer; then,
while four programs compute, frames a second and the controller's part of a processor. Sides take turns: without a browser, with a browser.

    build/venv-newest/bin/python bench/page.py            (make test-page installs what it needs)

Targets: 30 frames a second, and at most 2 % of a processor more for the controller, in the median of the rounds. Without chromium or without the page
the answers' cost alone is measured, or nothing.
"""

import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

import _report  # noqa: E402
import devtools  # noqa: E402
from clusters import Cluster  # noqa: E402

FRAMES_A_SECOND, COST = 30, 0.02

# JavaScript that resolves to the times between frames, in milliseconds.
FRAMES = """new Promise(resolve => {
  const gaps = [], began = performance.now();
  let last = began;
  const next = now => {
    gaps.push(now - last);
    last = now;
    now - began < %d ? requestAnimationFrame(next) : resolve(gaps.slice(1));
  };
  requestAnimationFrame(now => { last = now; requestAnimationFrame(next); });
})"""


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_of(pid, wait):
    """Returns (the part of a processor that a process takes while `wait` runs, the result of `wait`)."""
    before, began = processor_seconds(pid), time.monotonic()
    result = wait()
    return (processor_seconds(pid) - before) / (time.monotonic() - began), result


def cost_of(cluster, question, times):
    """Returns the processor milliseconds that an answer costs the controller, while no program computes."""
    secret = pathlib.Path(cluster.started["logs"], "page.token").read_text()
    request = urllib.request.Request(f"{cluster.started['page']}api/{question}", headers={"Authorization": f"Bearer {secret}"})

    def ask():
        for _ in range(times):
            with urllib.request.urlopen(request, timeout=devtools.PATIENCE) as answer:
                answer.read()

    idle, _ = share_of(cluster.pid("controller"), lambda: time.sleep(5))
    began, before = time.monotonic(), processor_seconds(cluster.pid("controller"))
    ask()
    return 1000 * (processor_seconds(cluster.pid("controller")) - before - idle * (time.monotonic() - began)) / times


def look(browser, seconds):
    gaps = browser.evaluate(FRAMES % (seconds * 1000), promise=True)
    return {"frames_per_second": 1000 * len(gaps) / sum(gaps), "gap_p99_ms": statistics.quantiles(gaps, n=100)[98], "gap_max_ms": max(gaps)}


def measure(args, cluster, browser):
    controller = cluster.pid("controller")
    rounds = []
    for _ in range(args.rounds):
        browser.open("about:blank")
        time.sleep(12)  # until the controller has forgotten the browser
        alone, _ = share_of(controller, lambda: time.sleep(args.seconds))
        browser.open(cluster.login())
        browser.wait("document.querySelector('.state')?.textContent === 'live'")
        time.sleep(3)
        looked, frames = share_of(controller, lambda: look(browser, args.seconds))
        rounds.append({"controller_alone": alone, "controller_looked_at": looked, **frames})
        print(json.dumps(rounds[-1]), flush=True)
    return {what: statistics.median(one[what] for one in rounds) for what in rounds[0]}


def add_arguments(parser):
    parser.add_argument("--shape", default="512x4", help="of the simulated cluster (default 512x4)")
    parser.add_argument("--programs", type=int, default=4, help="that share its devices (default 4)")
    parser.add_argument("--pause", type=float, default=0.0, metavar="S", help="of each program between its steps, which take 90 ms on the devices (default 0)")
    parser.add_argument("--seconds", type=int, default=20, help="of each side of a round (default 20)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--picture", help="a file for a picture of the page")


def has_page():
    from pathways._cluster import binaries

    with contextlib.suppress(binaries.MissingError):
        return binaries.page_files() is not None
    return False


def measure_cluster(args, folder):
    """Returns the figures of a cluster with its programs, in a browser if there is one."""
    cluster = Cluster(pathlib.Path(folder) / "home", "--simulated", args.shape)
    try:
        figures = {"status_answer_ms": cost_of(cluster, "status", 50), "gangs_answer_ms": cost_of(cluster, "gangs", 500)}
        if devtools.program() is None:
            return figures
        for part in range(args.programs):
            program = cluster.program(size=8192, steps=5, pause=args.pause, part=f"{part}/{args.programs}")
            assert program.stdout.readline() == "ready\n"
        with devtools.Browser(pathlib.Path(folder) / "browser") as browser:
            figures |= measure(args, cluster, browser)
            if args.picture:
                time.sleep(11)  # for a full timeline
                browser.picture(args.picture)
            assert browser.complaints == [], browser.complaints
    finally:
        cluster.stop()
    return figures


def main():
    args = _report.arguments(__doc__.split("\n\n")[0], add_arguments)
    figures = {}
    if has_page():
        with tempfile.TemporaryDirectory() as folder:
            figures = measure_cluster(args, folder)
    cost = None
    if "controller_alone" in figures:
        cost = figures["controller_cost"] = figures["controller_looked_at"] - figures["controller_alone"]
    for name, value in figures.items():
        print(f"{name:22} {value:.4f}")
    _report.finish(args, "page", figures, [
        _report.target(f"frames a second, {args.shape}", figures.get("frames_per_second"), FRAMES_A_SECOND, at_most=False),
        _report.target("the controller's share of a processor for a reader, in percent", None if cost is None else 100 * cost, 100 * COST)])


if __name__ == "__main__":
    main()
