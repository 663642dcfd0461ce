"""Measures how long a local cluster takes to start, and the memory of its processes, idle and with 10,000 live arrays. The worker is compared with
a process that only creates the device plugin's client."""

import json
import subprocess
import time

import _report
import _sides

MB = 1e6


def pjrt_floor(tree, devices):
    """Returns the resident bytes and starting time of a bare PJRT host."""
    from pathways._cluster import binaries

    command = [tree / "bin" / "pjrt_floor", "--plugin", binaries.device_plugin("cpu"), "--devices", str(devices)]
    done = subprocess.run([str(c) for c in command], input=b"", capture_output=True, check=True)
    return json.loads(done.stdout)


def start_seconds(shape):
    start = time.perf_counter()
    with _sides.cluster(shape):
        return {"seconds": time.perf_counter() - start}


def main():
    def add(parser):
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--arrays", type=int, default=10_000)

    args = _report.arguments(__doc__, add)
    devices = 8
    starts = _sides.take_turns(args.rounds, {
        "cluster": lambda: start_seconds(f"1x1x{devices}"), "two_islands": lambda: start_seconds("2x1x4"),
        "pjrt": lambda: pjrt_floor(args.tree, devices)})
    with _sides.cluster(f"1x1x{devices}") as cluster:
        controller, worker = cluster.processes[:2]
        idle = {"controller_mb": _sides.resident_bytes(controller.pid) / MB, "worker_mb": _sides.resident_bytes(worker.pid) / MB}
        with _sides.client("ours", "package", cluster.address) as side:
            side.ask("hold", count=args.arrays)
            loaded = {"controller_mb": _sides.resident_bytes(controller.pid) / MB, "worker_mb": _sides.resident_bytes(worker.pid) / MB}
    figures = {"start_s": {name: _sides.median(r, "seconds") for name, r in starts.items()}, "idle": idle, "loaded": loaded,
               "pjrt_floor_mb": _sides.median(starts["pjrt"], "rss_bytes") / MB}
    above = idle["worker_mb"] - figures["pjrt_floor_mb"]
    print(f"startup: ready in {figures['start_s']['cluster']:.2f} s (2 islands {figures['start_s']['two_islands']:.2f} s, plugin alone "
          f"{figures['start_s']['pjrt']:.2f} s); controller {idle['controller_mb']:.0f} MB, with {args.arrays} arrays "
          f"{loaded['controller_mb']:.0f} MB; worker {idle['worker_mb']:.0f} MB, with the arrays {loaded['worker_mb']:.0f} MB, plugin alone "
          f"{figures['pjrt_floor_mb']:.0f} MB")
    _report.finish(args, "startup", figures, [
        _report.target("local cluster ready, s", figures["start_s"]["cluster"], 3),
        _report.target(f"controller with {args.arrays} arrays, MB", loaded["controller_mb"], 100),
        _report.target("worker above XLA's own, MB", above, 100)])


if __name__ == "__main__":
    main()
