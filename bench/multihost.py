"""The loop y = psum(y) / 8 + 1 over 8 devices of two hosts, from end to end: ours (one island of two workers, a stock client) against jax
multi-controller (two processes that run the same script, collectives over Gloo); and large sums and gathers over the same devices.

As in loop_rate, at most 16 steps are under way where jax's own runtime takes part; ours runs with that depth and with one hundred times
that.
"""

import contextlib
import socket

import _report
import _sides

HOSTS, PER_HOST = 2, 4
SHALLOW, DEEP = 16, 1600
PROGRAMS = ("psum", "psum_large", "gather_large")


class Together:
    """Processes that are asked the same at the same time: the slowest counts."""

    def __init__(self, sides):
        self.sides = sides

    def ask(self, do, **arguments):
        import json

        for side in self.sides:
            side.send(json.dumps({"do": do, **arguments}))
        answers = [side.receive() for side in self.sides]
        if failed := [answer for answer in answers if "error" in answer]:
            return failed[0]
        slowest = min if do == "rate" else max
        return {key: slowest(answer[key] for answer in answers) for key in answers[0]}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def multicontroller():
    """Their start waits for each other, so they are started side by side."""
    import sys

    port = free_port()
    sides = [_sides.Side(f"process{i}", [sys.executable, _sides.HERE / "_client.py", "multicontroller", f"127.0.0.1:{port}/{i}/{HOSTS}/{PER_HOST}"])
             for i in range(HOSTS)]
    try:
        for side in sides:
            side.info = side.receive()
        yield Together(sides)
    finally:
        for side in sides:
            side.close()


def measure(sides, program, calls, rounds):
    asks = {name: lambda side=side: side.ask("rate", program=program, calls=calls, depth=SHALLOW) for name, side in sides.items()}
    asks["ours_deep"] = lambda: sides["ours"].ask("rate", program=program, calls=calls, depth=DEEP)
    rate = {name: _sides.median(r, "per_s") for name, r in _sides.take_turns(rounds, asks).items()}
    latency = _sides.take_turns(rounds, {name: lambda side=side: side.ask("latency", program=program, calls=max(20, calls // 8)) for name, side in sides.items()})
    return {"rate_per_s": rate, "latency_us": {name: _sides.median(r, "p50_us") for name, r in latency.items()}}


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=800)
        parser.add_argument("--rounds", type=int, default=3)

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_sides.cluster(f"1x{HOSTS}x{PER_HOST}"))
        sides = {"ours": stack.enter_context(_sides.client("ours", "package", cluster.address)),
                 "multicontroller": stack.enter_context(multicontroller())}
        figures = {program: measure(sides, program, args.calls if program == "psum" else max(20, args.calls // 20), args.rounds) for program in PROGRAMS}
    targets = []
    for program, figure in figures.items():
        rate, latency = figure["rate_per_s"], figure["latency_us"]
        print(f"{program:12}" + "".join(f"  {name} {value:.0f}/s" for name, value in rate.items()) +
              "".join(f"  {name} {value:.0f} us" for name, value in latency.items()))
        best = max(rate["ours"], rate["ours_deep"])
        targets.append(_report.target(f"{program}: rate ours / multi-controller", best / rate["multicontroller"], 1.0, at_most=False))
        targets.append(_report.target(f"{program}: latency ours / multi-controller", latency["ours"] / latency["multicontroller"], 1.5))
    _report.finish(args, "multihost", figures, targets)


if __name__ == "__main__":
    main()
