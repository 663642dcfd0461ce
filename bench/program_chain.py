"""Programs of many nodes (@pw.program).

chain: the time of one node in a chain of 128 trivial computations, each on one device or on eight, pipelined. The chain is one program; or calls
one by one through our client; or calls one by one through jax in one process with our device plugin and our allocator. Rounds of all three take turns.

pipeline: a chain of k trivial computations, each with a sum over the devices of the next of k hosts of one island (paper, figure 7). Parallel dispatch
is compared with sequential dispatch of the same programs, in calls per second, in turns. Like the paper's, our sequential dispatch sends a stage once the
stage before it is enqueued.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

import _answers
import _report
import _sides

NODES = 128
STAGE_DEVICES = 4


def chain_side(kind, devices, calls):
    """Runs in a separate process; prints the microseconds per node, one line for each request."""
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


def pipeline_side(stages, devices):
    """Runs in a separate process. Reads numbers of calls, one a line; answers [calls per second, end-to-end time of one call in ms]."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    import pathways as pw

    def stage(number):
        mesh = Mesh(np.array(jax.devices()[number * devices:(number + 1) * devices]), "i")
        place = NamedSharding(mesh, P("i"))
        step = jax.shard_map(lambda x: jax.lax.psum(x, "i") * (1 / devices) + 1, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        return jax.jit(step, in_shardings=place, out_shardings=place), place

    made = [stage(number) for number in range(stages)]

    @pw.program
    def pipeline(x):
        for step, _ in made:
            x = step(x)
        return x

    x = jax.device_put(np.zeros(devices, np.float32), made[0][1])
    assert float(pipeline(x)[0]) == stages
    print("ready", flush=True)
    for line in sys.stdin:
        rate = _answers.timed_calls(lambda _: pipeline(x), x, int(line), _answers.DEPTH, jax.block_until_ready)["per_s"]
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


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def chain(args, devices):
    from pathways._cluster import binaries

    ours = {"JAX_PLATFORMS": "pathways", "PATHWAYS_LOCAL": f"1x1x{devices}"}
    in_process = {"JAX_PLATFORMS": "plugin", "PJRT_NAMES_AND_LIBRARY_PATHS": f"plugin:{binaries.device_plugin('cpu')}", "PJRT_CPU_DEVICES": str(devices),
                  **_sides.our_allocator()}
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


def ask(process, calls):
    process.stdin.write(f"{calls}\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline() or "null")


def calls_for(process, seconds):
    """Returns the number of calls that take about `seconds`."""
    calls = 2 * _answers.DEPTH
    for _ in range(2):  # with few calls, the first of all among them, filling and emptying the queue dominates
        calls = max(calls, round(ask(process, calls)[0] * seconds))
    return calls


def pipeline_of(stages, args):
    """Measures both kinds of dispatch in turn, each on its own cluster."""
    with contextlib.ExitStack() as stack:
        sides = {}
        for dispatch in ("parallel", "sequential"):
            cluster = stack.enter_context(_sides.cluster(f"1x{stages}x{STAGE_DEVICES}", dispatch=dispatch))
            sides[dispatch] = stack.enter_context(side(["pipeline", stages, STAGE_DEVICES], {"JAX_PLATFORMS": "pathways", "PATHWAYS_ADDRESS": cluster.address}))
        for process in sides.values():
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("a client of the pipeline ended; what it said is above")
        calls = {dispatch: calls_for(process, args.seconds) for dispatch, process in sides.items()}
        results = _sides.take_turns(args.rounds, {dispatch: lambda dispatch=dispatch, process=process: ask(process, calls[dispatch]) for dispatch, process in sides.items()})
    rounds = {dispatch: {"per_s": [r for r, _ in found], "call_ms": [ms for _, ms in found]} for dispatch, found in results.items()}
    row = {dispatch: {**{key: median(values) for key, values in of.items()}, **{f"{key}_rounds": values for key, values in of.items()}} for dispatch, of in rounds.items()}
    ratios = [a / b for (a, _), (b, _) in zip(results["parallel"], results["sequential"])]
    return {**row, "ratio": median(ratios), "ratio_rounds": ratios}


def pipeline(args):
    return {str(stages): pipeline_of(stages, args) for stages in args.stages}


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=50, help="of a chain in a turn")
        parser.add_argument("--seconds", type=float, default=1, help="of a turn of the stages")
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--stages", type=int, nargs="*", default=(1, 2, 4, 8, 16), help="none: only the chain")
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
    targets += [_report.target(f"parallel / sequential, {k} stages", row["ratio"], 1.0, at_most=False) for k, row in stages.items() if int(k) >= 4]
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
