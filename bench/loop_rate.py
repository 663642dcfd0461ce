"""Measures the loop y = psum(y) / 8 + 1 over 8 devices, pipelined, and the latency of block_until_ready(f(x)), against jax in one process.

The side "plugin" is jax in one process with our device plugin, instead of its own XLA, and our allocator: our system without processes and
protocols. The side "floor" is a server that computes nothing and answers at once: no server has a lower latency. All sides have the same number of
steps in flight.
"""

import contextlib

import _answers
import _report
import _sides

PROGRAMS = ("psum", "sharded", "scalar")


def rates(sides, program, args):
    asks = {name: lambda side=side: side.ask("rate", program=program, calls=args.calls, depth=_answers.DEPTH) for name, side in sides.items()}
    return {name: _sides.median(r, "per_s") for name, r in _sides.take_turns(args.rounds, asks).items()}


def latencies(sides, program, args):
    results = _sides.take_turns(args.rounds, {
        name: lambda side=side: side.ask("latency", program=program, calls=200) for name, side in sides.items()})
    return {name: {key: _sides.median(r, key) for key in ("p50_us", "p99_us")} for name, r in results.items()}


def processor_us(side, cluster, program, calls):
    """Returns the processor time of a step in each process, which limits the rate on few processors. cluster None: one process."""
    pids = {"client": side.process.pid}
    if cluster is not None:
        pids |= {"controller": cluster.processes[0].pid, "worker": cluster.processes[1].pid}
        pids |= _sides.door(side.process.pid) or {"agent": cluster.processes[-1].pid}  # else it is the cluster's own
    before = {name: _sides.processor_seconds(pid) for name, pid in pids.items()}
    side.ask("rate", program=program, calls=calls, depth=_answers.DEPTH)
    return {name: (_sides.processor_seconds(pid) - before[name]) / calls * 1e6 for name, pid in pids.items()}


def messages(side, cluster, program, calls):
    """Returns the traffic of a step between controller and worker: commands by kind, frames (a frame may have several commands), and bytes in
    both directions."""
    from pathways._cluster import admin

    def count():
        host, = admin.status(cluster.address)["hosts"]
        return {f"command {kind}": n for kind, n in host["commands"].items()} | {
            key: host[key] for key in ("frames_sent", "bytes_sent", "bytes_received")}

    before = count()
    side.ask("rate", program=program, calls=calls, depth=_answers.DEPTH)
    return {key: round((n - before.get(key, 0)) / calls, 3) for key, n in count().items() if n > before.get(key, 0)}


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=1600)
        parser.add_argument("--rounds", type=int, default=5)

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        sides = {"inprocess": stack.enter_context(_sides.client("inprocess", "inprocess"))}
        if not args.floor_only:
            from pathways._cluster import binaries

            sides["plugin"] = stack.enter_context(_sides.client("plugin", "plugin", str(binaries.device_plugin("cpu")), _sides.our_allocator()))
            cluster = stack.enter_context(_sides.cluster(listen_proxy="127.0.0.1:0"))
            sides["ours"] = stack.enter_context(_sides.client("ours", "package", cluster.address))
            sides["ours_direct"] = stack.enter_context(_sides.client("ours_direct", "direct", cluster.proxy_address))
        floor = stack.enter_context(_sides.client("floor", "direct", stack.enter_context(_sides.floor_server(args.tree))))
        rate = {program: rates(sides, program, args) for program in PROGRAMS}
        latency = {program: latencies(sides | {"floor": floor}, program, args) for program in PROGRAMS}
        sent = {} if args.floor_only else {program: messages(sides["ours"], cluster, program, args.calls * 4) for program in PROGRAMS}
        processor = {program: {name: processor_us(side, cluster if name.startswith("ours") else None, program, args.calls * 4)
                               for name, side in sides.items()} for program in PROGRAMS}
    for program in PROGRAMS:
        print(f"rate {program:8}" + "".join(f"  {name} {value:.0f}/s" for name, value in rate[program].items()))
        print(f"latency {program:8}" + "".join(f"  {name} {value['p50_us']:.0f} us" for name, value in latency[program].items()))
        if program in sent:
            print(f"messages {program:8}" + "".join(f"  {what} {n:.3f}" for what, n in sent[program].items()) + "  a step")
        for name, parts in processor[program].items():
            print(f"processor {program:8}  {name} {sum(parts.values()):.0f} us a step:" + "".join(f" {n} {v:.0f}" for n, v in parts.items()))
    ratio = rate["psum"]["ours"] / rate["psum"]["plugin"] if "ours" in rate["psum"] else None
    targets = [_report.target("psum: rate ours / in process with our plugin", ratio, 1.0, at_most=False)]
    for program in PROGRAMS if "ours" in sides else ():
        p50 = {name: figures["p50_us"] for name, figures in latency[program].items()}
        # The goal: the floor's round trip plus the computation's time in process.
        targets.append(_report.target(f"{program}: latency ours / (floor + in process)", p50["ours"] / (p50["floor"] + p50["plugin"]), 2.0))
    targets += [_report.target(f"{program}: execute commands a step", n["command execute"], 1.0) for program, n in sent.items()]
    targets += [_report.target(f"{program}: frames to the worker a step", n["frames_sent"], 1.0) for program, n in sent.items()]
    _report.finish(args, "loop_rate", {"rate_per_s": rate, "latency": latency, "messages_a_step": sent, "processor_us": processor}, targets)


if __name__ == "__main__":
    main()
