"""Programs of many nodes (@pw.program).

chain: the time of one node in a chain of 128 trivial computations, each on one device or on eight, pipelined. The chain is one program; or calls
one by one through our client; or calls one by one through jax in one process with our device plugin and our allocator. Rounds of all three take turns.

pipeline: a chain of k trivial computations, each with a sum over the devices of the next of k hosts of one island (paper, figure 7). Parallel dispatch
is compared with sequential dispatch of the same programs, in calls per second, in turns. Like the paper's, our sequential dispatch sends a stage once the
stage before it is enqueued. A third side is one process of jax with our device plugin, which has the devices of all hosts and calls stage after stage.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time

import _answers
import _report
import _sides
from _guarded import Guarded

NODES = 128
STAGE_DEVICES = 4
DISPATCHES, JAX = ("parallel", "sequential"), "jax"


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


def pipeline_side(stages, devices, as_program):
    """Runs in a separate process. Reads numbers of calls, one a line; answers with calls per second and the end-to-end time of one call in ms. as_program: the
    stages are one program; otherwise each is a call, and device_put takes its result to the next stage's devices."""
    out = _answers.channel()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    def stage(number):
        mesh = Mesh(np.array(jax.devices()[number * devices:(number + 1) * devices]), "i")
        place = NamedSharding(mesh, P("i"))
        step = jax.shard_map(lambda x: jax.lax.psum(x, "i") * (1 / devices) + 1, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        return jax.jit(step, in_shardings=place, out_shardings=place), place

    made = [stage(number) for number in range(stages)]

    def pipeline(x):
        for step, place in made:
            x = step(x if as_program else jax.device_put(x, place))
        return x

    if as_program:
        import pathways as pw

        pipeline = pw.program(pipeline)
    x = jax.device_put(np.zeros(devices, np.float32), made[0][1])
    assert float(pipeline(x)[0]) == stages
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        rate = _answers.timed_calls(lambda _: pipeline(x), x, int(line), _answers.DEPTH, jax.block_until_ready)["per_s"]
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            pipeline(x).block_until_ready()
            times.append(time.perf_counter() - begin)
        print(json.dumps({"per_s": rate, "call_ms": sorted(times)[10] * 1e3}), file=out, flush=True)


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


def in_process(binaries, devices):
    """Returns the environment of jax in one process with our device plugin and our allocator."""
    return {"JAX_PLATFORMS": "plugin", "PJRT_NAMES_AND_LIBRARY_PATHS": f"plugin:{binaries.device_plugin('cpu')}", "PJRT_CPU_DEVICES": str(devices),
            **_sides.our_allocator()}


def chain(args, devices):
    from pathways._cluster import binaries

    ours = {"JAX_PLATFORMS": "pathways", "PATHWAYS_LOCAL": f"1x1x{devices}"}
    kinds = {"program": ours, "one_by_one": ours, "in_process": in_process(binaries, devices)}
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


class Stages:
    """A side of the pipeline: a Guarded process of pipeline_side. One that has failed keeps answering with its error."""

    def __init__(self, stack, name, stages, environment):
        words = [sys.executable, __file__, "--side", "pipeline", stages, STAGE_DEVICES, int(name != JAX)]
        self._one, self._calls = Guarded(stack, lambda: _sides.opened(_sides.Side(f"{name}, {stages} stages", words, environment))), None

    def _ask(self, calls):
        def work(one):
            one.send(str(calls))
            return one.receive()

        return self._one.attempt("stages", work)

    def choose_calls(self, seconds):
        """Chooses the number of calls of a turn, which take about `seconds`."""
        self._calls = 2 * _answers.DEPTH
        for _ in range(2):  # with few calls, the first of all among them, filling and emptying the queue dominates
            self._calls = max(self._calls, round(self._ask(self._calls).get("per_s", 0) * seconds))

    def turn(self):
        return self._ask(self._calls)


def rounds_of(answers):
    """Returns medians over the rounds and the single rounds' values; of a side that failed {"error", "per_s_rounds": those before}."""
    good = list(itertools.takewhile(lambda answer: "error" not in answer, answers))
    values = {key: [answer[key] for answer in good] for key in ("per_s", "call_ms")}
    if len(good) < len(answers):
        return {"error": f"{answers[len(good)]['error']} (after {len(good)} rounds)", "per_s_rounds": values["per_s"]}
    return {key: median(each) for key, each in values.items()} | {f"{key}_rounds": each for key, each in values.items()}


def pipeline_of(stages, args):
    """Measures both kinds of dispatch, each on its own cluster, and jax, in turns."""
    from pathways._cluster import binaries

    with contextlib.ExitStack() as stack:
        sides = {}
        for dispatch in DISPATCHES:
            cluster = stack.enter_context(_sides.cluster(f"1x{stages}x{STAGE_DEVICES}", dispatch=dispatch))
            sides[dispatch] = Stages(stack, dispatch, stages, {"JAX_PLATFORMS": "pathways", "PATHWAYS_ADDRESS": cluster.address})
        sides[JAX] = Stages(stack, JAX, stages, in_process(binaries, stages * STAGE_DEVICES))
        for one in sides.values():
            one.choose_calls(args.seconds)
        results = _sides.take_turns(args.rounds, {name: one.turn for name, one in sides.items()})
    row = {name: rounds_of(found) for name, found in results.items()}
    for key, base in (("ratio", "sequential"), ("of_jax", JAX)):
        if "error" not in row["parallel"] and "error" not in row[base]:
            ratios = [a["per_s"] / b["per_s"] for a, b in zip(results["parallel"], results[base])]
            row |= {key: median(ratios), f"{key}_rounds": ratios}
    return row


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
        said = lambda one: f"FAILED: {one['error']}" if "error" in one else f"{one['per_s']:.0f} calls/s, one call {one['call_ms']:.2f} ms"
        print(f"pipeline of {k}: " + "; ".join(f"{name} {said(row[name])}" for name in (*DISPATCHES, JAX)))
    targets = [_report.target(f"{devices} devices: node in a program / node one by one in process", node["program"] / node["in_process"], 1 / 3)
               for devices, node in nodes.items()]
    targets += [_report.target(f"parallel / sequential, {k} stages", row.get("ratio"), 1.0, at_most=False) for k, row in stages.items() if int(k) >= 4]
    _report.finish(args, "program_chain", {"node_us": nodes, "pipeline": stages}, targets)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        what, *rest = sys.argv[2:]
        if what == "chain":
            chain_side(rest[0], *map(int, rest[1:]))
        else:
            stages, devices, as_program = map(int, rest)
            pipeline_side(stages, devices, bool(as_program))
    else:
        main()
