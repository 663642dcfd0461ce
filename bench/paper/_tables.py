"""Tables 1 and 2, figures 10 and 12 of the paper in small: the Transformers of _transformer.py, trained by _train.py. Each function returns
plain JSON."""

import contextlib
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _sides  # noqa: E402

SMALL = ("small encoder-decoder", "small decoder-only")
DEEP = "small decoder-only, 16 layers"
# The paper's tables: what, how many cores, the mesh over data and model here, examples in a batch here.
LARGE = (("T5-Base", 32, (8, 4), 64), ("T5-Large", 32, (8, 4), 64), ("T5-3B", 512, (64, 8), 512), ("T5-11B", 512, (16, 32), 512),
         ("LM-3B", 128, (16, 8), 128))


PATIENCE = 900  # seconds: XLA compiles everything first
# What each of `large` took on two cores, in seconds.
LARGE_SECONDS = {"T5-Base": 40, "T5-Large": 60, "T5-3B": 150, "T5-11B": 200, "LM-3B": 120}


@contextlib.contextmanager
def side(mode, address, devices, patience=PATIENCE):
    one = _sides.Side(mode, [sys.executable, HERE / "_train.py", mode, address, devices], patience=patience)
    try:
        one.info = one.receive()
        yield one
    finally:
        one.close()


@contextlib.contextmanager
def ours(shape, devices, patience=PATIENCE):
    with _sides.cluster(shape) as cluster, side("package", cluster.address, devices, patience) as one:
        yield one


def asked(answer):
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def _compare(asks, rounds):
    """{name: {"tokens_per_s": the median, "losses"} or {"error"}} of sides that take turns."""
    found = {}
    for name, results in _sides.take_turns(rounds, asks).items():
        errors = [result["error"] for result in results if "error" in result]
        found[name] = {"error": errors[0]} if errors else {**results[0], "tokens_per_s": statistics.median(r["tokens_per_s"] for r in results)}
    return found


def table1(quick, rows):
    """SPMD over eight devices of one island, by jax in process, and by jax in process with the device plugin that our workers have, which
    is another version of XLA's compiler: tokens a second, and the losses to the last bit."""
    from pathways import _binaries

    rows.begin()
    with ours("1x1x8", 8) as pathways, side("inprocess", "-", 8) as rival, side("plugin", _binaries.device_plugin("cpu"), 8) as same:
        for model in SMALL:
            ask = {"model": model, "mesh": [2, 4], "batch": 16, "steps": 3 if quick else 8}
            rows.row(model, lambda: _compare({name: lambda one=one: one.ask("spmd", **ask)
                                              for name, one in (("pathways", pathways), ("jax in process", rival), ("jax with our plugin", same))}, 1 if quick else 3))
    return rows.figure()


def _pipelined(one, stages, quick):
    """After one time that compiles."""
    ask = lambda: asked(one.ask("pipeline", model=DEEP, stages=stages, microbatches=4 * stages, batch=64, steps=2 if quick else 3))
    ask()
    return ask()


def table2(quick, rows):
    """A decoder-only Transformer of 16 layers in 4, 8 and 16 stages, a device each, with four times as many microbatches as stages."""
    rows.begin()
    with ours("1x1x16", 16) as one:
        for count in (4, 8) if quick else (4, 8, 16):
            rows.row(str(count), lambda: _pipelined(one, count, quick), needs=20)
    return rows.figure()


def figure10(quick, rows):
    """The same in 16 stages on one island, and on four with the data-centre network between them."""
    stages = 8 if quick else 16
    rows.begin(stages=stages)
    for name, islands in (("one island", 1), ("four islands", 4)):
        def measure():
            with ours(f"{islands}x1x{stages // islands}", stages) as one:
                return _pipelined(one, stages, quick)
        rows.row(name, measure, needs=20)
    return rows.figure()


def figure12(quick, rows):
    """Data-parallel over two hosts: of one island, and of two."""
    rows.begin()
    ask = {"model": SMALL[1], "mesh": [2, 4], "batch": 16, "steps": 3 if quick else 8}
    with ours("1x2x4", 8) as one, ours("2x1x4", 8) as two:
        found = _compare({"one island": lambda: one.ask("spmd", **ask), "two islands": lambda: two.ask("spmd", **ask)}, 1 if quick else 3)
    for name, row in found.items():
        rows.row(name, lambda: asked(row))
    return rows.figure()


def large(quick, rows):
    """The paper's own configurations, compiled for their shapes on simulated hosts with as many devices as the paper had cores."""
    rows.begin()
    for model, cores, mesh, batch in LARGE[:1] if quick else LARGE:
        def measure():
            with _sides.simulated(cores // 4, "tpu-v3") as address, side("package", address, cores) as one:
                return {"cores": cores, "mesh": mesh, "batch": batch, **asked(one.ask("lower", model=model, mesh=mesh, batch=batch))}
        rows.row(model, measure, needs=0 if quick else LARGE_SECONDS[model])
    return rows.figure()
