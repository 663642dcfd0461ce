"""Measures the loop y = psum(y) / 8 + 1, and large sums and gathers, over 8 devices of two hosts, against multi-controller jax.

Our side is one island of two workers with a stock client. Multi-controller jax is two processes that run the same script. It runs once with our
device plugin, its collectives and our allocator, and once with jax's own collectives over Gloo. Only the former shows the cost of the single
controller. All sides have the same number of calls in flight.
"""

import contextlib

import _answers
import _report
import _sides

HOSTS, PER_HOST = 2, 4
PROGRAMS = ("psum", "psum_large", "gather_large")


def measure(sides, program, calls, rounds):
    asks = {name: lambda side=side: side.ask("rate", program=program, calls=calls, depth=_answers.DEPTH) for name, side in sides.items()}
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
                 **{mode: stack.enter_context(_sides.multicontroller(mode, _sides.HERE / "_client.py", HOSTS, PER_HOST, env=env))
                    for mode, env in (("multicontroller-plugin", _sides.our_allocator()), ("multicontroller", None))}}
        figures = {program: measure(sides, program, args.calls if program == "psum" else max(20, args.calls // 20), args.rounds) for program in PROGRAMS}
    targets = []
    for program, figure in figures.items():
        rate, latency = figure["rate_per_s"], figure["latency_us"]
        print(f"{program:12}" + "".join(f"  {name} {value:.0f}/s" for name, value in rate.items()) +
              "".join(f"  {name} {value:.0f} us" for name, value in latency.items()))
        rival = "multicontroller-plugin"
        targets.append(_report.target(f"{program}: rate ours / multi-controller with our plugin", rate["ours"] / rate[rival], 1.0, at_most=False))
        targets.append(_report.target(f"{program}: latency ours / multi-controller with our plugin", latency["ours"] / latency[rival], 1.5))
    _report.finish(args, "multihost", figures, targets)


if __name__ == "__main__":
    main()
