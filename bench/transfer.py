"""1 GiB from client to device and back, against a bare gRPC stream in C++ with the same chunks, in turns: through the memory that a client and
a cluster on one machine share, as a user has it; over the network, with our relay and without; and the same client with a server that discards,
which is what any server could reach over the network.
"""

import contextlib

import _report
import _sides


def stream_asks(side):
    def ask(direction):
        side.send(direction)
        return side.receive()

    return {"stream": ask}


def jax_ask(side, mib):
    return lambda direction: side.ask(direction, mib=mib)


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
        asks = stream_asks(stream)
        asks["discarding"] = jax_ask(enter(_sides.client("discarding", "direct", floor)), args.mib)
        if not args.floor_only:
            cluster = enter(_sides.cluster("1x1x1"))
            asks["ours"] = jax_ask(enter(_sides.client("ours", "package", cluster.address)), args.mib)
            network = {"PATHWAYS_SHARED_MEMORY": "relay"}
            asks["ours_network"] = jax_ask(enter(_sides.client("ours_network", "package", cluster.address, network)), args.mib)
            asks["ours_direct"] = jax_ask(enter(_sides.client("ours_direct", "direct", cluster.address)), args.mib)
        # A side's download follows its upload at once: only the array in hand is kept.
        pairs = _sides.take_turns(args.rounds, {name: lambda ask=ask: {d: ask(d) for d in ("up", "down")} for name, ask in asks.items()})
    gb = args.mib * (1 << 20) / 1e9
    figures = {name: {f"{d}_gb_per_s": gb / _sides.median([r[d] for r in rounds], "seconds") for d in ("up", "down")}
               for name, rounds in pairs.items()}
    for name, f in figures.items():
        print(f"transfer {name:12} up {f['up_gb_per_s']:.2f} GB/s   down {f['down_gb_per_s']:.2f} GB/s")

    def ratio(name, direction):
        return figures[name][direction] / figures["stream"][direction] if name in figures else None

    ways = {"ours": ("through shared memory", 1.6), "ours_network": ("over the network", 0.8)}
    _report.finish(args, "transfer", figures, [
        _report.target(f"{direction}, {way} / bare stream", ratio(name, f"{direction}_gb_per_s"), limit, at_most=False)
        for name, (way, limit) in ways.items() for direction in ("up", "down")])


if __name__ == "__main__":
    main()
