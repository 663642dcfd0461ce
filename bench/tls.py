"""Measures the cost of TLS: the same cluster with and without it, all connections by TCP on the loopback, as between machines. Sides take turns.

- call: a call of a small function that is waited for, and calls of which 16 are in flight
- step: calls of a function of some milliseconds, of which 16 are in flight
- up, down: an array from the program to a device and back, over a lane; across: from a host to the other
"""

import contextlib

import _answers
import _report
import _sides

STEP = "work 20000 1"  # some milliseconds


def asks_of(side, args):
    """Returns {what: function}; each returns a number, the smaller the better."""
    def rate(program, calls):
        return lambda: 1e6 / side.ask("rate", program=program, calls=calls, depth=_answers.DEPTH)["per_s"]

    return {
        "call_us": lambda: side.ask("latency", program="scalar", calls=500)["p50_us"],
        "call_under_way_us": rate("scalar", args.calls),
        "step_us": rate(STEP, args.calls // 20),
        "up_s": lambda: side.ask("up", mib=args.mib)["seconds"],
        "down_s": lambda: side.ask("down", mib=args.mib)["seconds"],
        "across_s": lambda: side.ask("across", mib=args.mib)["seconds"]}


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=2000)
        parser.add_argument("--mib", type=int, default=256)
        parser.add_argument("--rounds", type=int, default=9)

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, tls in (("plain", False), ("tls", True)):
            address, env = stack.enter_context(_sides.two_workers(shared=False, tls=tls))
            # The client shares memory with its agent; the agent and the hosts share none.
            side = stack.enter_context(_sides.client(name, "package", address, env))
            sides[name] = lambda asks=asks_of(side, args): {what: ask() for what, ask in asks.items()}
        results = _sides.take_turns(args.rounds, sides)
    figures = {name: {what: _sides.median(rounds, what) for what in rounds[0]} for name, rounds in results.items()}
    for what, plain in figures["plain"].items():
        cost = figures["tls"][what] / plain
        if what.endswith("_us"):
            print(f"{what:18} plain {plain:9.1f}  tls {figures['tls'][what]:9.1f}  tls / plain {cost:.2f}")
        else:
            gb = args.mib * (1 << 20) / 1e9
            print(f"{what.removesuffix('_s'):18} plain {gb / plain:6.2f} GB/s  tls {gb / figures['tls'][what]:6.2f} GB/s  time tls / plain {cost:.2f}")
    _report.finish(args, "tls", figures, [_report.target("time of a step, tls / plain", figures["tls"]["step_us"] / figures["plain"]["step_us"], 1.05)])


if __name__ == "__main__":
    main()
