"""Measures table 2 and figures 10 and 12 on simulated cores of TPU v3: Transformers of billions of parameters, as pipelines over 128 cores and as replicas on
islands of 256 cores in all. The control path is real: a stock client, the controller, the worker of each host. A computation takes the compiler's count of its
operations and bytes at the device's speed, in real time. A network with a latency and a bandwidth joins the islands."""

import contextlib
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _rows  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402

CORES = 128
PATIENCE_SECONDS = 900
RECORDINGS = 3
STEPS = 4
# All rows have the paper's model, the same devices (their speed gives every stage's time), the model spread over eight cores (_flow.TENSOR_PARALLEL), and the
# same batch. Pipelines have four times as many microbatches as places, so a microbatch has two examples for every eight cores.
MODEL, DEVICE, BATCH = "LM-3B", "tpu-v3", 128
SPMD = "SPMD"
# Name: islands, places, stages of each place, schedule.
ROWS = {"4 stages, gpipe": (1, 4, 1, "gpipe"), "8 stages, gpipe": (1, 8, 1, "gpipe"), "16 stages, gpipe": (1, 16, 1, "gpipe"),
        "16 stages, gpipe, on four islands": (4, 16, 1, "gpipe"), "16 stages, 1f1b": (1, 16, 1, "1f1b"),
        "4 x 4 stages, interleaved": (1, 4, 4, "interleaved")}
FOUR_ISLANDS, ONE_ISLAND = "16 stages, gpipe, on four islands", "16 stages, gpipe"
QUICK = ("4 stages, gpipe",)
ROW_SECONDS = 60  # the least that a row needs on two cores


@contextlib.contextmanager
def side(address, cores):
    one = _sides.Side("flow", [sys.executable, HERE / "_flow.py", address, cores], patience=PATIENCE_SECONDS)
    try:
        one.receive()
        yield one
    finally:
        one.close()


def _asked(one, do, **arguments):
    answer = one.ask(do, **arguments)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def _timed(cluster, one, do, count):
    """Returns the steps' times, and the processor time of a step: of the client (without its relay), the controller, and all simulated hosts."""
    times, used = _breakdown.with_processors(cluster, one.process.pid, lambda: _asked(one, do, count=count))
    return {**times, "processors_s": {name: seconds / (count + 1) for name, seconds in used.items()}}


def _recorded(cluster, one, step_s, places, stages):
    """Returns (the runs of a device of each place, the seconds of each stage's forward function, of its backward function). Records again if stages are
    missing, as on a busy machine."""
    for _ in range(RECORDINGS):
        events = _breakdown.recorded(cluster.address, 2.6 * step_s, lambda: _asked(one, "steps", count=3))
        by_place = _breakdown.pipeline_runs(events, places)
        forward, backward = (list(times.values()) for times in _breakdown.stage_seconds(by_place))
        if len(forward) == len(backward) == stages:
            return by_place, forward, backward
        _rows.say(f"the recording has {len(forward)} and {len(backward)} of {stages} stages, forward and backward")
    raise RuntimeError(f"{RECORDINGS} recordings of a step lack some of its {stages} stages")


def measure(islands, places, rounds, schedule, steps):
    microbatches = 4 * places
    with _sides.simulated_cluster(CORES // 4, DEVICE, islands) as cluster, side(cluster.address, CORES) as one:
        prepared = _asked(one, "prepare", model=MODEL, places=places, rounds=rounds, microbatches=microbatches, batch=BATCH, schedule=schedule)
        row = {**prepared, **_timed(cluster, one, "steps", steps)}
        _rows.say(f"a step {row['step_s']:.2f} s, asked for in {row['asked_s']:.2f} s; prepared in {row['prepared_s']:.0f} s")
        by_place, forward, backward = _recorded(cluster, one, row["step_s"], places, places * rounds)
        planned = _asked(one, "timeline", forward=forward, backward=backward)
        window = _breakdown.step_of(by_place)
        whole = _breakdown.pipeline_step(by_place, *window, planned["seconds"]) if window else {}
        return {**row, "batch": BATCH, "microbatches": microbatches, "planned_s": planned["seconds"], "planned_idle": planned["idle"],
                "closed_form_idle": _setup.closed_form_idle(schedule, places, microbatches, rounds), "forward_s": statistics.mean(forward),
                "backward_s": statistics.mean(backward), **whole}


def _spmd(model, cores, batch, steps):
    """Measures one jit over all cores of one island."""
    with _sides.simulated_cluster(cores // 4, DEVICE) as cluster, side(cluster.address, cores) as one:
        prepared = _asked(one, "prepare_spmd", model=model, batch=batch)
        return {"batch": batch, **prepared, **_timed(cluster, one, "spmd_steps", steps)}


# Figure 12: the base is one SPMD jit. A step over two islands also has segments and is a program; the row ONE has these on one island.
ONE_JIT, ONE, TWO = "one island of 256 cores, one SPMD jit", "one island of 256 cores, in segments", "two islands of 128 cores, in segments"
ISLANDS = {ONE: (256, 1), TWO: (256, 2)}
ISLANDS_MODEL, ISLANDS_BATCH, SEGMENTS = "LM-1B", 1024, 4


def islands(quick, rows):
    """Measures data parallelism over two islands against one island with as many devices."""
    of = lambda whole: whole // 8 if quick else whole
    rows.begin(model=ISLANDS_MODEL, batch=of(ISLANDS_BATCH))
    steps, needs = (2, 0) if quick else (STEPS, ROW_SECONDS)
    rows.row(ONE_JIT, lambda: _spmd(ISLANDS_MODEL, of(ISLANDS[ONE][0]), of(ISLANDS_BATCH), steps), needs=needs)
    for name, (cores, count) in ISLANDS.items():
        rows.row(name, lambda: _replicated(of(cores), count, of(ISLANDS_BATCH), steps), needs=needs)
    return rows.figure()


def _replicated(cores, islands, batch, steps):
    with _sides.simulated_cluster(cores // 4, DEVICE, islands) as cluster, side(cluster.address, cores) as one:
        prepared = _asked(one, "prepare_islands", model=ISLANDS_MODEL, islands=islands, segments=SEGMENTS, batch=batch)
        row = {**prepared, **_timed(cluster, one, "islands_steps", steps)}
        events = _breakdown.recorded(cluster.address, 2.6 * row["step_s"], lambda: _asked(one, "islands_steps", count=3))
        _rows.say(f"{row['tokens_per_s']:,.0f} tokens/s, asked for in {row['asked_s']:.2f} s of {row['step_s']:.2f}")
        return {**row, "spent_s": _breakdown.replica_steps(events)}


def pipelines(quick, rows):
    rows.begin(cores=CORES, model=MODEL, batch=BATCH)
    steps, needs = (2, 0) if quick else (STEPS, ROW_SECONDS)
    if not quick:
        rows.row(SPMD, lambda: _spmd(MODEL, CORES, BATCH, steps), needs=needs)
    for name in QUICK if quick else ROWS:
        rows.row(name, lambda: measure(*ROWS[name], steps), needs=needs)
    return rows.figure()
