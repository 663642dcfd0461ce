"""Table 2 and figures 10 and 11 in full size: decoder-only Transformers of billions of parameters as pipelines over 128 simulated cores of TPU v3. The
control path is the real one: a stock client, the controller, the worker of each host. The time of a computation is the compiler's count of its
operations and bytes at the device's speed, and passes in real time; the islands are joined by a network with a latency and a bandwidth."""

import contextlib
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _rows  # noqa: E402
import _sides  # noqa: E402

CORES = 128
PATIENCE_SECONDS = 500
RECORDINGS = 3
# Interleaved, a place runs four times as many computations, which are a quarter as long each: devices of half the speed leave them some milliseconds.
SLOWER = "30.75e12:225e9:17.2e9:50e-6:12.5e9:82e9:1e-6"
# What: islands, places, stages of each place, microbatches, schedule, model, examples, device.
ROWS = {"4 stages": (1, 4, 1, 16, "gpipe", "LM-1.6B", 512, "tpu-v3"), "8 stages": (1, 8, 1, 32, "gpipe", "LM-1.6B", 512, "tpu-v3"),
        "16 stages": (1, 16, 1, 64, "gpipe", "LM-1.6B", 512, "tpu-v3"), "16 stages on four islands": (4, 16, 1, 64, "gpipe", "LM-1.6B", 512, "tpu-v3"),
        "4 stages, interleaved": (1, 4, 4, 16, "interleaved", "LM-3B", 128, SLOWER),
        "16 stages, interleaved": (1, 16, 4, 64, "interleaved", "LM-3B", 128, SLOWER)}
QUICK = ("4 stages",)
# What a row took on two cores, in seconds.
ROW_SECONDS = {"16 stages": 75, "16 stages on four islands": 75, "4 stages, interleaved": 85, "16 stages, interleaved": 165}


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
    """The steps' times, and what each takes of the processors: the clients', the controller's, and those of all simulated hosts."""
    times, used = _breakdown.with_processors(cluster, one.process.pid, lambda: _asked(one, do, count=count))
    return {**times, "processors_s": {name: seconds / (count + 1) for name, seconds in used.items()}}


def _recorded(cluster, one, step_s, places, stages):
    """(the runs of a device of each place, seconds of each stage's forward function, of its backward). What a busy machine's recording lacks is recorded again."""
    for _ in range(RECORDINGS):
        events = _breakdown.recorded(cluster.address, 2.6 * step_s, lambda: _asked(one, "steps", count=3))
        by_place = _breakdown.pipeline_runs(events, places)
        forward, backward = (list(times.values()) for times in _breakdown.stage_seconds(by_place))
        if len(forward) == len(backward) == stages:
            return by_place, forward, backward
        _rows.say(f"the recording has {len(forward)} and {len(backward)} of {stages} stages, forward and backward")
    raise RuntimeError(f"{RECORDINGS} recordings of a step lack some of its {stages} stages")


def measure(islands, places, rounds, microbatches, schedule, model, batch, device, steps):
    with _sides.simulated_cluster(CORES // 4, device, islands) as cluster, side(cluster.address, CORES) as one:
        prepared = _asked(one, "prepare", model=model, places=places, rounds=rounds, microbatches=microbatches, batch=batch, schedule=schedule)
        _asked(one, "steps", count=1)
        row = {**prepared, **_timed(cluster, one, "steps", steps)}
        _rows.say(f"a step {row['step_s']:.2f} s, asked for in {row['asked_s']:.2f} s; prepared in {row['prepared_s']:.0f} s")
        by_place, forward, backward = _recorded(cluster, one, row["step_s"], places, places * rounds)
        planned = _asked(one, "timeline", forward=forward, backward=backward)
        window = _breakdown.step_of(by_place)
        whole = _breakdown.pipeline_step(by_place, *window, planned["seconds"]) if window else {}
        return {**row, "planned_s": planned["seconds"], "planned_idle": planned["idle"], "forward_s": statistics.mean(forward),
                "backward_s": statistics.mean(backward), **whole}


# Figure 12: what, how many cores, islands.
ISLANDS = {"one island of 256 cores": (256, 1), "two islands of 128 cores": (256, 2)}
ISLANDS_MODEL, ISLANDS_BATCH, SEGMENTS = "LM-1B", 2048, 4


def islands(quick, rows):
    """Data parallelism over two islands, against one island with as many devices."""
    cores_of = lambda cores: cores // 8 if quick else cores
    rows.begin(model=ISLANDS_MODEL, batch=cores_of(ISLANDS_BATCH))
    for name, (cores, count) in ISLANDS.items():
        rows.row(name, lambda: _replicated(cores_of(cores), count, cores_of(ISLANDS_BATCH), 2 if quick else 6), needs=0 if quick else 60)
    return rows.figure()


def _replicated(cores, islands, batch, steps):
    with _sides.simulated_cluster(cores // 4, "tpu-v3", islands) as cluster, side(cluster.address, cores) as one:
        prepared = _asked(one, "prepare_islands", model=ISLANDS_MODEL, islands=islands, segments=SEGMENTS, batch=batch)
        _asked(one, "islands_steps", count=1)
        row = {**prepared, **_timed(cluster, one, "islands_steps", steps)}
        events = _breakdown.recorded(cluster.address, 2.6 * row["step_s"], lambda: _asked(one, "islands_steps", count=3))
        _rows.say(f"{row['tokens_per_s']:,.0f} tokens/s, asked for in {row['asked_s']:.2f} s of {row['step_s']:.2f}")
        return {**row, "spent_s": _breakdown.replica_steps(events)}


def pipelines(quick, rows):
    rows.begin(cores=CORES)
    for name in QUICK if quick else ROWS:
        rows.row(name, lambda: {"model": ROWS[name][5], **measure(*ROWS[name], 2 if quick else 4)}, needs=0 if quick else ROW_SECONDS.get(name, 60))
    return rows.figure()
