"""Programs of many nodes (@pw.program).

chain: the time of one node in a chain of 128 trivial computations, each on one device or on eight, pipelined: in one program, one by one
through our client, one by one through jax in process. Rounds of all three take turns.

pipeline: a chain of k trivial computations over k hosts, each on the next (paper, figure 7): calls per second with parallel dispatch
against sequential dispatch of the same programs, k = 1 .. 8 hosts on this machine.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import _report

NODES = 128


def chain_side(kind, devices, calls):
    """Runs in a process of its own: lines of microseconds a node."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    where = NamedSharding(Mesh(np.array(jax.devices()[:devices]), "i"), PartitionSpec("i"))
    step = jax.jit(lambda x: x + 1.0, in_shardings=where, out_shardings=where)

    def chain(x):
        for _ in range(NODES):
            x = step(x)
        return x

    if kind == "program":
        import pathways as pw

        chain = pw.program(chain)
    x = jax.device_put(np.zeros(devices, np.float32), where)
    jax.block_until_ready(chain(x))
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        y = x
        for _ in range(calls):
            y = chain(y)
        y.block_until_ready()
        print((time.perf_counter() - begin) / calls / NODES * 1e6, flush=True)
    assert float(y[0]) == calls * NODES


def pipeline_side(stages, calls, rounds):
    """Runs in a process of its own: lines of calls per second, and how long one call takes from end to end."""
    import jax
    import numpy as np
    from jax.sharding import SingleDeviceSharding

    import pathways as pw

    places = [SingleDeviceSharding(device) for device in jax.devices()[:stages]]
    steps = [jax.jit(lambda x: x + 1.0, in_shardings=p, out_shardings=p) for p in places]

    @pw.program
    def pipeline(x):
        for step in steps:
            x = step(x)
        return x

    x = jax.device_put(np.zeros(1, np.float32), places[0])
    assert float(pipeline(x)[0]) == stages
    for _ in range(rounds):
        begin = time.perf_counter()
        results = [pipeline(x) for _ in range(calls)]
        jax.block_until_ready(results)
        rate = calls / (time.perf_counter() - begin)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            pipeline(x).block_until_ready()
            times.append(time.perf_counter() - begin)
        print(json.dumps([rate, sorted(times)[10] * 1e3]), flush=True)


@contextlib.contextmanager
def side(arguments, environment):
    process = subprocess.Popen([sys.executable, __file__, "--side", *map(str, arguments)], env={**os.environ, **environment},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(60)


@contextlib.contextmanager
def cluster(hosts, dispatch):
    from pathways import _binaries

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        folder = pathlib.Path(folder)

        def start(name, *args):
            process = subprocess.Popen([str(_binaries.find(name)), *map(str, args)], stderr=subprocess.DEVNULL)
            stack.callback(lambda: (process.terminate(), process.wait(30)))

        port = folder / "port"
        start("pathways-controller", "--listen-workers", f"unix:{folder}/w", "--expect-hosts", hosts, "--port-file", port,
              "--own-workers", f"--dispatch={dispatch}")
        while not port.exists():
            time.sleep(0.02)
        for host in range(hosts):
            start("pathways-worker", "--controller", f"unix:{folder}/w", "--plugin", _binaries.device_plugin("cpu"), "--island",
                  f"i{host}", "--host-name", f"h{host}", "--exit-with-controller", "--devices", 1)
        yield port.read_text().split()[0]


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def chain(args, devices):
    ours = {"JAX_PLATFORMS": "pathways", "PATHWAYS_LOCAL": f"1x1x{devices}"}
    in_process = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    kinds = {"program": ours, "one_by_one": ours, "in_process": in_process}
    with contextlib.ExitStack() as stack:
        sides = {kind: stack.enter_context(side(["chain", kind, devices, args.calls], env)) for kind, env in kinds.items()}
        for process in sides.values():
            assert process.stdout.readline() == "ready\n"
        took = {kind: [] for kind in sides}
        for _ in range(args.rounds):
            for kind, process in sides.items():
                process.stdin.write("go\n")
                process.stdin.flush()
                took[kind].append(float(process.stdout.readline()))
    return {kind: median(values) for kind, values in took.items()}


def pipeline(args):
    figures = {}
    for stages in args.stages:
        row = {}
        for dispatch in ("parallel", "sequential"):
            with cluster(stages, dispatch) as address, side(["pipeline", stages, args.calls, args.rounds],
                                                            {"JAX_PLATFORMS": "pathways", "PATHWAYS_ADDRESS": address}) as process:
                results = [json.loads(process.stdout.readline()) for _ in range(args.rounds)]
            row[dispatch] = {"per_s": median([r for r, _ in results]), "call_ms": median([ms for _, ms in results])}
        row["ratio"] = row["parallel"]["per_s"] / row["sequential"]["per_s"]
        figures[str(stages)] = row
    return figures


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=50)
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--stages", type=int, nargs="*", default=list(range(1, 9)), help="none: only the chain")
        parser.add_argument("--no-chain", action="store_true", help="only the stages")

    args = _report.arguments(__doc__, add)
    nodes = {} if args.no_chain else {devices: chain(args, devices) for devices in (1, 8)}
    stages = pipeline(args)
    for devices, node in nodes.items():
        print(f"a node of a chain of {NODES} on {devices} devices: {node['program']:.2f} us in a program, {node['one_by_one']:.2f} us one by "
              f"one, {node['in_process']:.2f} us one by one in process")
    for k, row in stages.items():
        print(f"pipeline of {k}: {row['parallel']['per_s']:.0f} calls/s parallel, {row['sequential']['per_s']:.0f} sequential "
              f"({row['ratio']:.2f}x); one call {row['parallel']['call_ms']:.2f} against {row['sequential']['call_ms']:.2f} ms")
    targets = [_report.target(f"{devices} devices: node in a program / node one by one in process", node["program"] / node["in_process"], 1 / 3)
               for devices, node in nodes.items()]
    targets += [_report.target(f"parallel / sequential, {k} stages", row["ratio"], 2.0, at_most=False)
                for k, row in stages.items() if int(k) >= 4]
    _report.finish(args, "program_chain", {"node_us": nodes, "pipeline": stages}, targets)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        what, *rest = sys.argv[2:]
        if what == "chain":
            chain_side(rest[0], *map(int, rest[1:]))
        else:
            pipeline_side(*map(int, rest))
    else:
        main()
