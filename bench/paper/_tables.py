"""Tables 1 and 2, figures 10 and 12 of the paper in small: the Transformers of _transformer.py, trained by _train.py. Each function returns
plain JSON."""

import contextlib
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _sides  # noqa: E402

SMALL = ("small encoder-decoder", "small decoder-only")
DEEP = "small decoder-only, 16 layers"
# The paper's tables: what, how many cores, the mesh over data and model here, examples in a batch here.
LARGE = (("T5-Base", 32, (8, 4), 64), ("T5-Large", 32, (8, 4), 64), ("T5-3B", 512, (64, 8), 512), ("T5-11B", 512, (16, 32), 512),
         ("LM-3B", 128, (16, 8), 128))


PATIENCE = 900  # seconds: XLA compiles everything first
ENOUGH = 1000    # seconds after which no row of `large` is waited for


@contextlib.contextmanager
def side(mode, address, devices, patience=PATIENCE):
    one = _sides.Side(mode, [sys.executable, HERE / "_train.py", mode, address, devices], patience=patience)
    try:
        one.info = one.receive()
        yield one
    finally:
        one.close()


@contextlib.contextmanager
def ours(shape, devices):
    with _sides.cluster(shape) as cluster, side("package", cluster.address, devices) as one:
        yield one


def _compare(asks, rounds):
    """{name: {"tokens_per_s": the median, "losses"} or {"error"}} of sides that take turns."""
    found = {}
    for name, results in _sides.take_turns(rounds, asks).items():
        errors = [result["error"] for result in results if "error" in result]
        found[name] = {"error": errors[0]} if errors else {**results[0], "tokens_per_s": statistics.median(r["tokens_per_s"] for r in results)}
    return found


def table1(quick):
    """SPMD over eight devices of one island, by jax in process, and by jax in process with the device plugin that our workers have, which
    is another version of XLA's compiler: tokens a second, and the losses to the last bit."""
    from pathways import _binaries

    rows = {}
    with ours("1x1x8", 8) as pathways, side("inprocess", "-", 8) as rival, side("plugin", _binaries.device_plugin("cpu"), 8) as same:
        for model in SMALL:
            ask = {"model": model, "mesh": [2, 4], "batch": 16, "steps": 3 if quick else 8}
            rows[model] = _compare({name: lambda one=one: one.ask("spmd", **ask)
                                    for name, one in (("pathways", pathways), ("jax in process", rival), ("jax with our plugin", same))}, 1 if quick else 3)
    return {"rows": rows}


def _pipelined(one, stages, quick):
    return lambda: one.ask("pipeline", model=DEEP, stages=stages, microbatches=4 * stages, batch=64, steps=2 if quick else 3)


def table2(quick):
    """A decoder-only Transformer of 16 layers in 4, 8 and 16 stages, a device each, with four times as many microbatches as stages."""
    stages = (4, 8) if quick else (4, 8, 16)
    with ours("1x1x16", 16) as one:
        rows = _compare({str(count): _pipelined(one, count, quick) for count in stages}, 1)
    return {"rows": rows}


def figure10(quick):
    """The same in 16 stages on one island, and on four with the data-centre network between them."""
    stages = 8 if quick else 16
    with ours(f"1x1x{stages}", stages) as one, ours(f"4x1x{stages // 4}", stages) as four:
        rows = _compare({"one island": _pipelined(one, stages, quick), "four islands": _pipelined(four, stages, quick)}, 1)
    return {"stages": stages, "rows": rows}


def figure12(quick):
    """Data-parallel over two hosts: of one island, and of two."""
    with ours("1x2x4", 8) as one, ours("2x1x4", 8) as two:
        ask = {"model": SMALL[1], "mesh": [2, 4], "batch": 16, "steps": 3 if quick else 8}
        rows = _compare({"one island": lambda: one.ask("spmd", **ask), "two islands": lambda: two.ask("spmd", **ask)}, 1 if quick else 3)
    return {"rows": rows}


def large(quick):
    """The paper's own configurations, compiled for their shapes on simulated hosts with as many devices as the paper had cores."""
    rows, begin = {}, time.monotonic()
    for model, cores, mesh, batch in LARGE[:1] if quick else LARGE:
        row = rows[model] = {"cores": cores, "mesh": mesh, "batch": batch}
        try:
            if (left := ENOUGH - (time.monotonic() - begin)) < 0:
                raise RuntimeError("no time left for it: a quieter machine has more")
            with _sides.simulated(cores // 4, "tpu-v3") as address, side("package", address, cores, left) as one:
                row |= one.ask("lower", model=model, mesh=mesh, batch=batch)
        except (RuntimeError, OSError) as error:  # the others are still worth having
            row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        print(f"paper:   {model}: {row.get('error') or format(row['compile_s'], '.0f') + ' s to compile'}", file=sys.stderr, flush=True)
    return {"rows": rows}
