"""Measures the client's cost of a call y = f(y) that does not wait. It is compared with a server that discards (the floor), and with jax in one
process: with its own device runtime, and with our device plugin and our allocator. The latter computes mostly within the call.

Programs: scalar on one device; sharded: elementwise over 8 devices; psum: psum and add over 8 devices. A burst has few calls, so that no queue is
full. jax's own runtime allows 32 computations in flight; beyond that its collectives can block forever.

If servers and clients share few processors, a call also takes the time of processes that it wakes and that run first. --apart gives the first
processor to clients, and the others to all servers, agents included. Any time above the floor is then the client's own.
"""

import contextlib
import os

import _report
import _sides

PROGRAMS = ("scalar", "sharded", "psum")


def open_sides(stack, args):
    sides = {}
    enter = stack.enter_context
    first, *others = sorted(os.sched_getaffinity(0))
    if args.apart and not others:
        raise SystemExit("--apart: there is only one processor")
    servers = others if args.apart else None
    sides["floor"] = enter(_sides.client("floor", "direct", enter(_sides.floor_server(args.tree, pinned=servers))))
    sides["answering"] = enter(_sides.client("answering", "direct", enter(_sides.floor_server(args.tree, "--answer-all", pinned=servers))))
    sides["inprocess"] = enter(_sides.client("inprocess", "inprocess"))
    cluster = None
    if not args.floor_only:
        from pathways._cluster import binaries

        sides["plugin"] = enter(_sides.client("plugin", "plugin", str(binaries.device_plugin("cpu")), _sides.our_allocator()))
        cluster = enter(_sides.cluster(listen_proxy="127.0.0.1:0"))
        sides["ours_direct"] = enter(_sides.client("ours_direct", "direct", cluster.proxy_address))
        sides["ours"] = enter(_sides.client("ours", "package", cluster.address))
    if args.apart:
        keep_apart(sides, cluster, {first}, set(others))
    return sides


def keep_apart(sides, cluster, clients, servers):
    """Pins clients and servers to separate processors. jax in one process is client and server, and may use all processors."""
    for name, side in sides.items():
        for child in _sides.children(side.process.pid).values():  # the agent counts as a server
            _sides.pin(child, servers)
        if name not in ("inprocess", "plugin"):
            _sides.pin(side.process.pid, clients)
    for process in cluster.processes if cluster else ():
        _sides.pin(process.pid, servers)


def measure(sides, program, args):
    results = _sides.take_turns(args.rounds, {
        name: lambda side=side: side.ask("enqueue", program=program, calls=args.calls, bursts=args.bursts) for name, side in sides.items()})
    return {name: {key: _sides.median(r, key) for key in r[0]} | {"spread": _sides.spread(r, "us")} for name, r in results.items()}


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=16, help="calls of a burst")
        parser.add_argument("--bursts", type=int, default=20, help="bursts of a round")
        parser.add_argument("--rounds", type=int, default=10, help="turns of each side")
        parser.add_argument("--apart", action="store_true", help="clients and servers on processors of their own")

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
        thread = {name: f["thread_cpu_us"] for name, f in figures[program].items()}
        if "ours" in thread:
            print(f"enqueue {program:8}  of the calling thread's processor time alone: ours / floor {thread['ours'] / thread['floor']:.2f}")
        ours = us.get("ours")
        targets.append(_report.target(f"{program}: ours / floor", ours and ours / us["floor"], 1.3))
        if program != "scalar":
            targets.append(_report.target(f"{program}: ours / in process with our plugin", ours and ours / us["plugin"], 1.0))
    _report.finish(args, "enqueue", figures, targets)


if __name__ == "__main__":
    main()
