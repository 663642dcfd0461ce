"""Measures 1 GiB from client to device and back, against a bare gRPC stream in C++ with the same chunks, in turns.

The first way is a user's: through memory that a client and an agent on one machine share. The second is a socket, with our agent and with the
cluster's own. The third is the same client with a server that discards, which no server can beat over a socket.

It also prints the processor time of each process, and the time of the file alone that the stock client writes for each array. A bare stream has no such
file, and no server makes writing it shorter.
"""

import contextlib
import os

import _report
import _sides

DIRECTIONS = ("up", "down")


def stream_asks(side):
    def ask(direction):
        side.send(direction)
        return side.receive()

    return {"stream": ask}


def jax_ask(side, mib, watch=None):
    """Returns a function that asks `side` for a transfer. watch: {name: process} of the processes involved."""
    return lambda direction: side.ask(direction, mib=mib, watch=watch)


def processes(side, cluster):
    """Returns {name: pid} of the processes of a client's cluster of one host, and of its agent: the client's child, or the cluster's own."""
    controller, worker, agent = (process.pid for process in cluster.processes)
    return {"controller": controller, "worker": worker, **(_sides.door(side.process.pid) or {"agent": agent})}


def turn(ask):
    """Returns a function for one turn of a side: its download directly follows its upload, so that only one array is kept."""
    return lambda: {direction: ask(direction) for direction in DIRECTIONS}


def figure(results, gb):
    seconds = _sides.median(results, "seconds")
    used = [r["processor_seconds"] for r in results if "processor_seconds" in r]
    return {"seconds": seconds, "gb_per_s": gb / seconds,
            "processor_seconds": {name: _sides.median(used, name) for name in (used[0] if used else ())}}


def describe(name, direction, f):
    used = f["processor_seconds"]
    took = "  ".join(f"{who} {seconds:.2f}" for who, seconds in used.items())
    busy = f"   processors: {took}, {sum(used.values()) / (f['seconds'] * os.cpu_count()):.0%} of all" if used else ""
    print(f"transfer {name:12} {direction:4} {f['gb_per_s']:.2f} GB/s  {f['seconds']:.3f} s{busy}")


def main():
    def add(parser):
        parser.add_argument("--mib", type=int, default=1024)
        parser.add_argument("--rounds", type=int, default=5)

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        floor = enter(_sides.floor_server(args.tree))
        stream = _sides.Side("stream", [args.tree / "bin" / "stream_floor", "--target", floor, "--mib", args.mib])
        stack.callback(stream.close)
        discarding = enter(_sides.client("discarding", "direct", floor))
        asks = stream_asks(stream)
        asks["discarding"] = jax_ask(discarding, args.mib)
        if not args.floor_only:
            cluster = enter(_sides.cluster("1x1x1", listen_proxy="127.0.0.1:0"))
            for name, mode, address, env in (("ours", "package", cluster.address, {}),
                                             ("ours_socket", "package", cluster.address, {"PATHWAYS_SHARED_MEMORY": "off"}),
                                             ("ours_direct", "direct", cluster.proxy_address, {})):
                side = enter(_sides.client(name, mode, address, env))
                asks[name] = jax_ask(side, args.mib, processes(side, cluster))
        turns = {name: turn(ask) for name, ask in asks.items()}
        turns["client_file"] = lambda: {"up": discarding.ask("leave_file", mib=args.mib)}
        rounds = _sides.take_turns(args.rounds, turns)
    gb = args.mib * (1 << 20) / 1e9
    figures = {name: {d: figure([r[d] for r in results], gb) for d in DIRECTIONS if d in results[0]} for name, results in rounds.items()}
    for name, f in figures.items():
        for direction in f:
            describe(name, direction, f[direction])

    def ratio(name, direction):
        return figures[name][direction]["gb_per_s"] / figures["stream"][direction]["gb_per_s"] if name in figures else None

    print(f"transfer: with its file alone the stock client would reach {ratio('client_file', 'up'):.2f} of a bare stream up")
    _report.finish(args, "transfer", figures, [
        _report.target(f"{direction}, through shared memory / bare stream", ratio("ours", direction), 1.6, at_most=False) for direction in DIRECTIONS])


if __name__ == "__main__":
    main()
