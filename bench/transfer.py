"""1 GiB from client to device and back, against a bare gRPC stream in C++ with the same chunks, in turns; also against the same client with a
server that discards (what any server could reach), and through the shared directory (client to device only: that is how the client has it).
"""

import contextlib
import os
import tempfile

import _report
import _sides

OPTIMIZATION = "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION"


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
            directory = enter(tempfile.TemporaryDirectory(dir="/dev/shm"))
            os.environ[f"{OPTIMIZATION}_DIRECTORY"] = directory  # the cluster serves what the client library is told
            cluster = enter(_sides.cluster("1x1x1"))
            asks["ours"] = jax_ask(enter(_sides.client("ours", "package", cluster.address)), args.mib)
            asks["ours_direct"] = jax_ask(enter(_sides.client("ours_direct", "direct", cluster.address)), args.mib)
            shared = {f"{OPTIMIZATION}_THRESHOLD_BYTES": str(1 << 20)}
            asks["ours_shared"] = jax_ask(enter(_sides.client("ours_shared", "package", cluster.address, shared)), args.mib)
        # A side's download follows its upload at once: only the array in hand is kept.
        pairs = _sides.take_turns(args.rounds, {name: lambda ask=ask: {d: ask(d) for d in ("up", "down")} for name, ask in asks.items()})
    gb = args.mib * (1 << 20) / 1e9
    figures = {name: {f"{d}_gb_per_s": gb / _sides.median([r[d] for r in rounds], "seconds") for d in ("up", "down")}
               for name, rounds in pairs.items()}
    for name, f in figures.items():
        print(f"transfer {name:12} up {f['up_gb_per_s']:.2f} GB/s   down {f['down_gb_per_s']:.2f} GB/s")

    def ratio(name, direction):
        return figures[name][direction] / figures["stream"][direction] if name in figures else None

    _report.finish(args, "transfer", figures, [
        _report.target("up: ours / bare stream", ratio("ours", "up_gb_per_s"), 0.8, at_most=False),
        _report.target("down: ours / bare stream", ratio("ours", "down_gb_per_s"), 0.8, at_most=False),
        _report.target("up: shared directory / bare stream", ratio("ours_shared", "up_gb_per_s"), 1.6, at_most=False)])


if __name__ == "__main__":
    main()
