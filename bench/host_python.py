"""Measures Python on the hosts (docs/host-python.md): the call of an empty function beside Ray's, and an input pipeline that feeds a training step.

Calls. Each side calls a function that returns its argument, an integer that is already where the function runs, in another process of this machine, and
waits until the result is there: one by one, and with _answers.DEPTH calls in flight. Sides, in turn; the processes of Ray are stopped while it is not
its turn:
    ours     a colocated function on one host, whose results specialize() describes
    task     ray.remote of a function
    actor    a method of a Ray actor, which Ray calls faster
Without build/venv-ray (make test-ray makes it) ours is measured alone.

Pipeline. A step computes on one device for some time, and reads a batch. The host reads the batches from a file in the page cache. Sides, in turn:
    fixed    the steps get four batches in turn, which the device has
    beside   the same, while a process that touches no memory keeps another processor busy
    fed      pw.data makes a new batch for each step
The machine's processors are shared by the device, the reading process and the client. So `beside` tells what any neighbour costs the device.
"""

import contextlib
import subprocess
import sys

import _answers
import _guarded
import _report
import _sides

SHAPE = "1x1x1"
SEPARATE = {"PATHWAYS_DOOR": "ifrt", "PATHWAYS_LOCAL_PROCESS": "separate"}
RAY = _report.ROOT / "build" / "venv-ray" / "bin" / "python"
TARGET_GB_PER_S = 1.0


def calls_of(args, ours, ray):
    """Returns {side: {p50_us, p99_us, per_s}}."""
    sides = {"ours": (ours, "host_latency", "host_rate", {})}
    if ray is not None:
        sides |= {kind: (ray, "latency", "rate", {"kind": kind}) for kind in ("task", "actor")}
    latency = {name: lambda side=side, do=do, more=more: side.ask(do, calls=args.calls, **more) for name, (side, do, _, more) in sides.items()}
    rate = {name: lambda side=side, do=do, more=more: side.ask(do, calls=args.calls, depth=_answers.DEPTH, **more) for name, (side, _, do, more) in sides.items()}
    waited, flowing = _sides.take_turns(args.rounds, latency), _sides.take_turns(args.rounds, rate)
    return {name: {key: _sides.median(waited[name], key) for key in ("p50_us", "p99_us")} | {"per_s": _sides.median(flowing[name], "per_s")} for name in sides}


def pipeline(args, ours):
    """Returns the figures of the sides, and the bytes that flow meanwhile."""
    def steps(fed):
        return ours.ask("feed", fed=fed, mib=args.mib, loops=args.loops, steps=args.steps)

    def beside():
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            return steps(False)
        finally:
            neighbour.kill()
            neighbour.wait()

    results = _sides.take_turns(args.rounds, {"fixed": lambda: steps(False), "beside": beside, "fed": lambda: steps(True)})
    figures = {name: {"step_ms": _sides.median(rounds, "step_ms"), "spread": _sides.spread(rounds, "step_ms")} for name, rounds in results.items()}
    figures["fed"]["gb_per_s"] = (args.mib << 20) / 1e6 / figures["fed"]["step_ms"]
    return figures


def add_arguments(parser):
    parser.add_argument("--calls", type=int, default=500, help="of a function, in each turn (default 500)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=64, help="of a batch (default 64)")
    parser.add_argument("--loops", type=int, default=40000, help="of the computation of a step (default 40000)")
    parser.add_argument("--steps", type=int, default=30, help="in each turn (default 30)")


def main():
    args = _report.arguments(__doc__.split("\n\n")[0], add_arguments)
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(_sides.client("ours", "own", SHAPE, SEPARATE))
        ray = _guarded.Paused(stack, lambda: _sides.opened(_sides.Side("ray", [RAY, _sides.HERE / "_ray_call.py"]))) if RAY.exists() else None
        figures = calls_of(args, ours, ray)
        for name, row in figures.items():
            print(f"call  {name:6} {row['p50_us']:7.0f} us (p99 {row['p99_us']:.0f}), {row['per_s']:.0f} a second in a row")
        figures["pipeline"] = fed = pipeline(args, ours)
    print(f"steps: {fed['fixed']['step_ms']:.1f} ms with the batches that it has, {fed['beside']['step_ms']:.1f} ms beside a busy process, {fed['fed']['step_ms']:.1f} ms with a new one of {args.mib} MiB each ({fed['fed']['gb_per_s']:.2f} GB/s)")
    task = figures.get("task")
    _report.finish(args, "host_python", figures, [
        _report.target("an empty call / ray.remote's", None if task is None else figures["ours"]["p50_us"] / task["p50_us"], 1.0),
        _report.target("a step with a new batch / with one that the device has", fed["fed"]["step_ms"] / fed["fixed"]["step_ms"], 1.05),
        _report.target("the same / beside a busy process", fed["fed"]["step_ms"] / fed["beside"]["step_ms"], 1.05),
        _report.target("GB/s of the pipeline meanwhile", fed["fed"]["gb_per_s"], TARGET_GB_PER_S, at_most=False)])


if __name__ == "__main__":
    sys.exit(main())
