"""What a call y = f(y) that does not wait costs the client: against a server that discards (the floor), and jax in process.

Programs: scalar on one device; sharded: elementwise over 8 devices; psum: psum and add over 8 devices. Bursts of a few calls, so that nobody's
queue is full: jax in process allows 32 computations under way and can stop for good in collectives beyond that.
"""

import contextlib

import _report
import _sides

PROGRAMS = ("scalar", "sharded", "psum")


def open_sides(stack, args):
    sides = {}
    enter = stack.enter_context
    sides["floor"] = enter(_sides.client("floor", "direct", enter(_sides.floor_server(args.tree))))
    sides["answering"] = enter(_sides.client("answering", "direct", enter(_sides.floor_server(args.tree, "--answer-all"))))
    sides["inprocess"] = enter(_sides.client("inprocess", "inprocess"))
    if not args.floor_only:
        cluster = enter(_sides.cluster())
        sides["ours_direct"] = enter(_sides.client("ours_direct", "direct", cluster.address))
        sides["ours"] = enter(_sides.client("ours", "package", cluster.address))
    return sides


def measure(sides, program, args):
    results = _sides.take_turns(args.rounds, {
        name: lambda side=side: side.ask("enqueue", program=program, calls=args.calls, bursts=args.bursts) for name, side in sides.items()})
    return {name: {key: _sides.median(r, key) for key in r[0]} | {"spread": _sides.spread(r, "us")} for name, r in results.items()}


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=16, help="calls of a burst")
        parser.add_argument("--bursts", type=int, default=20, help="bursts of a round")
        parser.add_argument("--rounds", type=int, default=10, help="turns of each side")

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        sides = open_sides(stack, args)
        figures = {program: measure(sides, program, args) for program in PROGRAMS}
    targets = []
    for program in PROGRAMS:
        us = {name: f["us"] for name, f in figures[program].items()}
        print(f"enqueue {program:8}" + "".join(f"  {name} {value:.1f} us" for name, value in us.items()) + "   (processor time of the thread"
              + "".join(f" {f['thread_cpu_us']:.1f}" for f in figures[program].values()) + ", of the process"
              + "".join(f" {f['process_cpu_us']:.1f}" for f in figures[program].values()) + ")")
        ours = us.get("ours")
        targets.append(_report.target(f"{program}: ours / floor", ours and ours / us["floor"], 1.3))
        if program != "scalar":
            targets.append(_report.target(f"{program}: in process / ours", ours and us["inprocess"] / ours, 3, at_most=False))
    _report.finish(args, "enqueue", figures, targets)


if __name__ == "__main__":
    main()
