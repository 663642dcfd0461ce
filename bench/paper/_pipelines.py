"""Measures table 2 and figures 10 and 12 on simulated cores of TPU v3. Transformers of billions of parameters are pipelines over 128 cores, or replicas on
islands of 256 cores in all. The control path is real: a stock client, the controller, the worker of each host. A computation takes the compiler's count of its
operations and bytes at the device's speed, in real time. A network with a latency and a bandwidth joins the islands."""

import contextlib
import functools
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _breakdown  # noqa: E402
import _rows  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402

CORES = 128
PATIENCE_SECONDS = 900
RECORDINGS = 3
ROUNDS = 4  # in each, all rows take one turn
STEPS = 3  # in a turn, of which the middle one is timed; and in a recording, so that the middle one is in it as a whole
# All rows have the paper's model, the same devices (their speed gives every stage's time), the model spread over eight cores (_flow.TENSOR_PARALLEL), and the
# same batch. Pipelines have four times as many microbatches as places, so a microbatch has two examples for every eight cores.
MODEL, DEVICE, BATCH = "LM-3B", "tpu-v3", 128
SPMD = "SPMD"
# Name: islands, places, stages of each place, schedule.
ROWS = {"4 stages, gpipe": (1, 4, 1, "gpipe"), "8 stages, gpipe": (1, 8, 1, "gpipe"), "16 stages, gpipe": (1, 16, 1, "gpipe"),
        "16 stages, gpipe, on four islands": (4, 16, 1, "gpipe"), "16 stages, 1f1b": (1, 16, 1, "1f1b"),
        "4 x 4 stages, interleaved": (1, 4, 4, "interleaved")}
FOUR_ISLANDS, ONE_ISLAND = "16 stages, gpipe, on four islands", "16 stages, gpipe"
# Rows that take turns. Targets compare rows of the first group. All in one would need too much of this machine's memory: hosts of a pipeline of 16 stages take 4 GB.
GROUPS = (SPMD, "4 stages, gpipe", ONE_ISLAND, FOUR_ISLANDS), ("8 stages, gpipe", "16 stages, 1f1b", "4 x 4 stages, interleaved")
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


class Row:
    """A row that takes turns with others. Its client has a step prepared on a cluster that rows with as many islands share."""

    def __init__(self, stack, cluster, cores, do, more, prepare):
        """do: the request for steps. more: what is measured alone when all rounds are done, a function of this row, or None. prepare: (request, its
        arguments)."""
        self.cluster, self.do, self._more, self._rounds = cluster, do, more, []
        self.one = stack.enter_context(side(cluster.address, cores))
        self.prepared = _asked(self.one, prepare[0], **prepare[1])

    def turn(self):
        """Measures a round: the second of three steps, which are asked for together."""
        begin = time.monotonic()
        times, used = _breakdown.with_processors(self.cluster, self.one.process.pid, lambda: _asked(self.one, self.do, count=STEPS))
        self._rounds.append({**times, "processors_s": {name: seconds / STEPS for name, seconds in used.items()}, "took_s": time.monotonic() - begin})
        return self._rounds[-1]

    @property
    def needs(self):
        """The seconds that another round takes, as far as is known."""
        return max((one["took_s"] for one in self._rounds), default=0)

    def steps(self):
        """Returns what is known of the steps after the rounds so far; {} before the first."""
        if not self._rounds:
            return {}
        of = lambda key: [one[key] for one in self._rounds]
        used = {name: statistics.mean(one[name] for one in of("processors_s")) for name in self._rounds[0]["processors_s"]}
        return {"tokens_per_s": statistics.median(of("tokens_per_s")), "rounds": of("tokens_per_s"), "step_s": statistics.median(of("step_s")),
                "step_rounds_s": of("step_s"), "asked_s": statistics.median(of("asked_s")), "processors_s": used}

    def more(self):
        return self._more(self) if self._more is not None else {}


def _in_turn(rows, makes, rounds, needs):
    """Prepares the rows, measures them in turns, and writes down what there is after each. makes: {name: function that returns a Row}."""
    if rows.together(makes):
        return
    made, failed = {}, {}

    def attempt(name, what, work, least=0):
        answer = rows.attempt(f"{name}, {what}", work, least)
        if isinstance(answer, dict) and "error" in answer:
            failed[name] = answer["error"]
        return answer

    def write(name, why=None):
        known = {**made[name].prepared, **made[name].steps()} if name in made else {}
        why = failed.get(name, why)
        rows.put(name, {**known, "error": f"{why} (after {len(known.get('rounds', ()))} rounds)"} if why else known)

    for name, make in makes.items():
        row = attempt(name, "prepared", make, needs)
        if name not in failed:
            made[name] = row
        write(name, _rows.NOT_YET)
    for number in range(rounds):
        for name, row in made.items():
            if name not in failed:
                attempt(name, f"round {number + 1}", row.turn, row.needs)
                write(name, _rows.NOT_ALL)
    for name, row in made.items():
        if name not in failed and isinstance(more := attempt(name, "recorded", row.more), dict) and name not in failed:
            row.prepared |= more
        write(name)


@contextlib.contextmanager
def _clusters(cores):
    """Yields (the stack that ends what is started, a function of the number of islands that returns the cluster of these)."""
    with contextlib.ExitStack() as stack:
        yield stack, functools.cache(lambda islands: stack.enter_context(_sides.simulated_cluster(cores // 4, DEVICE, islands)))


def _recorded(row, places, stages):
    """Returns (the runs of a device of each place, the seconds of each stage's forward function, of its backward function). Records again if stages are
    missing, as on a busy machine."""
    for _ in range(RECORDINGS):
        events = _breakdown.recorded(row.cluster.address, 2.6 * row.steps()["step_s"], lambda: _asked(row.one, "steps", count=STEPS))
        by_place = _breakdown.pipeline_runs(events, places)
        forward, backward = (list(times.values()) for times in _breakdown.stage_seconds(by_place))
        if len(forward) == len(backward) == stages:
            return by_place, forward, backward
        _rows.say(f"the recording has {len(forward)} and {len(backward)} of {stages} stages, forward and backward")
    raise RuntimeError(f"{RECORDINGS} recordings of a step lack some of its {stages} stages")


def _pipeline(stack, cluster_of, islands, places, rounds, schedule):
    """Returns the Row of a pipeline. rounds: the stages of each place."""
    microbatches = 4 * places

    def more(row):
        by_place, forward, backward = _recorded(row, places, places * rounds)
        planned = _asked(row.one, "timeline", forward=forward, backward=backward)
        window = _breakdown.step_of(by_place)
        whole = _breakdown.pipeline_step(by_place, *window, planned["seconds"]) if window else {}
        return {"batch": BATCH, "microbatches": microbatches, "planned_s": planned["seconds"], "planned_idle": planned["idle"],
                "closed_form_idle": _setup.closed_form_idle(schedule, places, microbatches, rounds), "forward_s": statistics.mean(forward),
                "backward_s": statistics.mean(backward), **whole}

    prepare = {"model": MODEL, "places": places, "rounds": rounds, "microbatches": microbatches, "batch": BATCH, "schedule": schedule}
    return Row(stack, cluster_of(islands), CORES, "steps", more, ("prepare", prepare))


def _spmd(stack, cluster_of, model, cores, batch):
    """Returns the Row of one jit over all cores of one island."""
    return Row(stack, cluster_of(1), cores, "spmd_steps", None, ("prepare_spmd", {"model": model, "batch": batch}))


# Figure 12: the base is one SPMD jit. A step over two islands also has segments and is a program; the row ONE has these on one island.
ONE_JIT, ONE, TWO = "one island of 256 cores, one SPMD jit", "one island of 256 cores, in segments", "two islands of 128 cores, in segments"
ISLANDS, ISLANDS_CORES = {ONE: 1, TWO: 2}, 256
ISLANDS_MODEL, ISLANDS_BATCH, SEGMENTS = "LM-1B", 1024, 4


def islands(quick, rows):
    """Measures data parallelism over two islands against one island with as many devices."""
    cores, batch = (whole // 8 if quick else whole for whole in (ISLANDS_CORES, ISLANDS_BATCH))
    rows.begin(model=ISLANDS_MODEL, batch=batch)
    with _clusters(cores) as (stack, cluster_of):
        makes = {ONE_JIT: lambda: _spmd(stack, cluster_of, ISLANDS_MODEL, cores, batch)}
        makes |= {name: lambda count=count: _replicated(stack, cluster_of, cores, count, batch) for name, count in ISLANDS.items()}
        _in_turn(rows, makes, 1 if quick else ROUNDS, 0 if quick else ROW_SECONDS)
    return rows.figure()


def _replicated(stack, cluster_of, cores, islands, batch):
    def more(row):
        events = _breakdown.recorded(row.cluster.address, 2.6 * row.steps()["step_s"], lambda: _asked(row.one, "islands_steps", count=STEPS))
        return {"spent_s": _breakdown.replica_steps(events), "runs": _breakdown.replica_runs(events)}

    return Row(stack, cluster_of(islands), cores, "islands_steps", more,
               ("prepare_islands", {"model": ISLANDS_MODEL, "islands": islands, "segments": SEGMENTS, "batch": batch}))


def pipelines(quick, rows):
    """Measures table 2's model as SPMD and as pipelines, on one island and on four."""
    rows.begin(cores=CORES, model=MODEL, batch=BATCH)
    for group in (QUICK,) if quick else GROUPS:
        with _clusters(CORES) as (stack, cluster_of):
            makes = {name: lambda name=name: _spmd(stack, cluster_of, MODEL, CORES, BATCH) if name == SPMD else _pipeline(stack, cluster_of, *ROWS[name]) for name in group}
            _in_turn(rows, makes, 1 if quick else ROUNDS, 0 if quick else ROW_SECONDS)
    return rows.figure()
