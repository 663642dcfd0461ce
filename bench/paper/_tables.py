"""Measures tables 1 and 2 and figures 10 and 12 of the paper with small models: _train.py trains the Transformers of _transformer.py. Each function
returns plain JSON."""

import contextlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402
import _systems  # noqa: E402

SMALL = ("small encoder-decoder", "small decoder-only")
DEEP = "small decoder-only, 16 layers"
# The paper's models: name, cores in the paper, our mesh (data, model), our examples in a batch.
LARGE = (("T5-Base", 32, (8, 4), 64), ("T5-Large", 32, (8, 4), 64), ("T5-3B", 512, (64, 8), 512), ("T5-11B", 512, (16, 32), 512),
         ("LM-3B", 128, (16, 8), 128))


ROUNDS = 5
PATIENCE = 900  # seconds for an answer; the first includes compiling
# The seconds that each row of `large` takes on two cores.
LARGE_SECONDS = {"T5-Base": 40, "T5-Large": 60, "T5-3B": 150, "T5-11B": 200, "LM-3B": 120}


@contextlib.contextmanager
def side(mode, address, devices, patience=PATIENCE, env=None):
    one = _sides.Side(mode, [sys.executable, HERE / "_train.py", mode, address, devices], env, patience=patience)
    try:
        one.info = one.receive()
        yield one
    finally:
        one.close()


@contextlib.contextmanager
def ours(shape, devices, patience=PATIENCE):
    with _sides.cluster(shape) as cluster, side("package", cluster.address, devices, patience) as one:
        one.cluster = cluster
        yield one


def asked(answer):
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def _compare(asks, rounds):
    """Runs the sides in turns; returns {name: {"tokens_per_s": the median, "rounds": each, "losses"}, or {"error", "rounds"}}."""
    return {name: _systems.in_rounds(results, "tokens_per_s") for name, results in _sides.take_turns(rounds, asks).items()}


def _watched(one, ask):
    """Returns an answer; for our side also the processor time of its processes."""
    if not hasattr(one, "cluster"):
        return ask()
    answer, used = _breakdown.with_processors(one.cluster, one.process.pid, ask)
    return {**answer, "processors_s": used}


# Hosts, devices of each, rivals.
SPMD = {"one host": (1, 8, (_setup.PLUGIN, _setup.JAX)), "two hosts": (2, 4, (_setup.MULTI_PLUGIN, _setup.MULTI))}


def _rival(name, hosts, devices):
    from pathways._cluster import binaries

    env = _sides.our_allocator() if _setup.has_verdict(name) else {}
    modes = {_setup.PLUGIN: ("plugin", binaries.device_plugin("cpu")), _setup.JAX: ("inprocess", "-")}
    if name in modes:
        return side(*modes[name], hosts * devices, env=env)
    mode = "multicontroller-plugin" if name == _setup.MULTI_PLUGIN else "multicontroller"
    return _sides.multicontroller(mode, HERE / "_train.py", hosts, devices, [hosts * devices], PATIENCE, env)


def table1(quick, rows):
    """Measures SPMD over eight devices of one island, on one host and on two: ours against jax with as many processes, once with our device plugin and once
    with its own runtime. Tokens a second, and the losses to the last bit."""
    rows.begin()
    for where, (hosts, devices, rivals) in SPMD.items():
        with contextlib.ExitStack() as stack:
            sides = {_setup.OURS: stack.enter_context(ours(f"1x{hosts}x{devices}", hosts * devices))}
            sides |= {name: _systems.Guarded(stack, lambda name=name: _rival(name, hosts, devices)) for name in rivals}
            for model in SMALL:
                ask = {"model": model, "mesh": [2, 4], "batch": 16, "steps": 3 if quick else 8}
                rows.row(f"{model}, {where}", lambda: {"sides": _compare({name: lambda one=one: _watched(one, lambda: one.ask("spmd", **ask)) for name, one in sides.items()},
                                                                                1 if quick else ROUNDS)})
    return rows.figure()


BATCH = 64  # examples, for any number of stages


def _pipelined(one, stages, quick):
    return one.ask("pipeline", model=DEEP, stages=stages, microbatches=4 * stages, batch=BATCH, steps=2 if quick else 3)


def _in_turn(asks, quick, rows):
    """Measures rows in turns. asks: {name of a row: (the side, what asks it)}, or for a row with several sides {side: (the side, what asks it)}."""
    if rows.together(asks):
        return rows.figure()
    every = {(name, side): pair for name, one in asks.items() for side, pair in (one if isinstance(one, dict) else {None: one}).items()}
    found = _compare({name: lambda one=one, ask=ask: _watched(one, ask) for name, (one, ask) in every.items()}, 1 if quick else ROUNDS)
    for name, one in asks.items():
        rows.put(name, {"sides": {side: found[name, side] for side in one}} if isinstance(one, dict) else found[name, None])
    return rows.figure()


def table2(quick, rows):
    """Measures a decoder-only Transformer of 16 layers in 4, 8 and 16 stages, one device for each, with four times as many microbatches as stages; and the
    same as one jit over 16 devices, ours and jax's with our device plugin."""
    rows.begin()
    devices, spmd = 16, {"model": DEEP, "mesh": [4, 4], "batch": BATCH, "steps": 2 if quick else 3}
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(ours(f"1x1x{devices}", devices))
        jits = {_setup.OURS: one, _setup.PLUGIN: _systems.Guarded(stack, lambda: _rival(_setup.PLUGIN, 1, devices))}
        pipelines = {str(count): (one, lambda count=count: _pipelined(one, count, quick)) for count in ((4, 8) if quick else (4, 8, 16))}
        return _in_turn(pipelines | {_setup.ONE_JIT: {name: (each, lambda each=each: each.ask("layers", **spmd)) for name, each in jits.items()}}, quick, rows)


def figure10(quick, rows):
    """Measures the model of table 2 in 16 stages on four worker processes, which are one island or four."""
    stages = 8 if quick else 16
    rows.begin(stages=stages)
    with ours(f"1x4x{stages // 4}", stages) as one, ours(f"4x1x{stages // 4}", stages) as four:
        return _in_turn({"one island": (one, lambda: _pipelined(one, stages, quick)), "four islands": (four, lambda: _pipelined(four, stages, quick))}, quick, rows)


def figure12(quick, rows):
    """Measures one SPMD jit over two hosts of one island, ours and multi-controller jax's, and over two islands of one host each."""
    rows.begin()
    ask = {"model": SMALL[1], "mesh": [2, 4], "batch": 16, "steps": 3 if quick else 8}
    with contextlib.ExitStack() as stack:
        one, two = (stack.enter_context(ours(shape, 8)) for shape in ("1x2x4", "2x1x4"))
        both = {_setup.OURS: one, _setup.MULTI_PLUGIN: _systems.Guarded(stack, lambda: _rival(_setup.MULTI_PLUGIN, 2, 4))}
        asks = {_setup.ONE_ISLAND: {name: (each, lambda each=each: each.ask("spmd", **ask)) for name, each in both.items()},
                "two islands": (two, lambda: two.ask("spmd", **ask))}
        return _in_turn(asks, quick, rows)


def large(quick, rows):
    """Compiles models of the paper's sizes for their shapes, with our mesh and batch, on simulated hosts, with as many devices as the paper had cores. No throughput."""
    rows.begin()
    for model, cores, mesh, batch in LARGE[:1] if quick else LARGE:
        def measure():
            with _sides.simulated(cores // 4, "tpu-v3") as address, side("package", address, cores) as one:
                return {"cores": cores, "mesh": mesh, "batch": batch, **asked(one.ask("lower", model=model, mesh=mesh, batch=batch))}
        rows.row(model, measure, needs=0 if quick else LARGE_SECONDS[model])
    return rows.figure()
