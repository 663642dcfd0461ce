"""The rules that all comparisons share: the sides, their device runtimes and processes, the calls under way, and when a number is a verdict. Pure."""

import dataclasses
import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from _answers import DEPTH  # noqa: E402, F401  calls under way, of all sides

NODES = 128  # computations of a chain
KINDS = {"opbyop": (16384, 1), "chained": (2048, NODES), "fused": (16384, NODES)}  # the most calls in a turn, computations in a call
LEAST, FEW = 3 * DEPTH, 4  # calls in a turn: so that filling and emptying the queue is a small part of it; see fewest
ROUNDS = 7  # in each, all sides take one turn
EQUAL = 0.97  # throughputs with at least this ratio count as equal
FEWEST_ROUNDS = 4  # for a verdict

OURS = "pathways"
OURS_ONE = "pathways, one process"  # by the IFRT proxy; the agent, the controller and the only worker are one process
OURS_INSIDE = "pathways, PJRT door"  # the cluster lives in the program's process: what a program without PATHWAYS_ADDRESS gets. Here with our allocator
PLUGIN, MULTI_PLUGIN, RAY = "jax, our plugin", "jax multi-controller, our plugin", "ray, our plugin"
JAX, MULTI, TENSORFLOW = "jax", "jax multi-controller", "tensorflow"
# The differences of a side beyond dispatch. A comparison with it has no verdict.
OTHER_RUNTIME = {JAX: "its own device runtime and collectives; the C library's allocator", MULTI: "its own device runtime, and Gloo; the C library's allocator",
                 TENSORFLOW: "its own device runtime; a sum on one device; the C library's allocator"}
NOT_RUN = {TENSORFLOW: "it has one process here; its runtime for several was not measured"}  # why a side is missing in rows of several hosts


def has_verdict(side):
    return side not in OTHER_RUNTIME


def comparable(mine, rival):
    """Says whether a side of ours and a rival have a verdict: the same device runtime, and processes for the same tasks. Ray has a driver, an actor for each
    host and daemons; ours in one or two processes is less than that."""
    return has_verdict(rival) and (rival != RAY or mine == OURS)


def fewest(name, kind, quick):
    """Returns the fewest calls in a turn: LEAST; fewer for a slow side without a verdict."""
    if quick:
        return DEPTH if kind == "opbyop" else 1
    return FEW if (name, kind) == (MULTI, "fused") else LEAST


def ours(hosts):
    """Returns our sides for a number of hosts."""
    return (OURS, OURS_ONE, OURS_INSIDE) if hosts == 1 else (OURS,)


def rivals(hosts):
    """Returns the rivals for a number of hosts. Each host is one process; TensorFlow has only one."""
    return (PLUGIN, JAX, TENSORFLOW, RAY) if hosts == 1 else (MULTI_PLUGIN, MULTI, RAY)


def knows(name, kind):
    """Says whether a side has this kind of call. jax has no chained: only single calls, or one function of all."""
    return kind != "chained" or name in (OURS, OURS_ONE, OURS_INSIDE, TENSORFLOW, RAY)


@dataclasses.dataclass(frozen=True)
class Spread:
    """A ratio over rounds in which both sides took turns: its median, and the range of the middle half of the rounds."""

    low: float
    median: float
    high: float
    values: tuple

    @classmethod
    def of(cls, values):
        if len(values) == 1:
            return cls(values[0], values[0], values[0], tuple(values))
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(low, median, high, tuple(values))

    @property
    def rounds(self):
        return len(self.values)

    def reaching(self, limit, at_most=False):
        """Returns how many rounds reach a target."""
        return sum(value <= limit if at_most else value >= limit for value in self.values)

    def __str__(self):
        return f"{self.median:.3f}" + (f" ({self.low:.3f} to {self.high:.3f})" if self.rounds > 1 else "")


def busy(runs, begin=0, end=None):
    """Returns the share of the time from `begin` to `end`, in us, in which a device runs. runs: [client, begin, duration]; end: None: of the last run."""
    end = max(at + took for _, at, took in runs) if end is None else end
    return sum(max(0, min(at + took, end) - max(at, begin)) for _, at, took in runs) / (end - begin)


def ratios(mine, theirs):
    """Returns the ratios of two sides' {"rounds": [...]}, round by round."""
    return [a / b for a, b in zip(mine["rounds"], theirs["rounds"])]


ONE_JIT, ONE_ISLAND = "SPMD, one jit over 16 devices (mesh 4 x 4)", "one island"  # the rows of table 2 and of figure 12 on CPU devices that have several sides


def cells(rows):
    """Returns {name: cell} of rows, of which some have several sides."""
    return {f"{name}, {side}" if side else name: cell for name, row in rows.items() for side, cell in (row["sides"] if "sides" in row else {"": row}).items()}


MET, MISSED, FAILED = "met", "MISSED", "FAILED"


SPREAD = "within the spread of the rounds"


def most(some, rounds):
    """Says whether `some` of the rounds are at least three quarters of them."""
    return 4 * some >= 3 * rounds


def verdict(spread, limit, at_most=False):
    """Returns met or missed if three quarters of the rounds agree, else "none: " and the reason."""
    if spread.rounds < FEWEST_ROUNDS:
        return f"none: {spread.rounds} round(s), at least {FEWEST_ROUNDS} needed"
    reaching = spread.reaching(limit, at_most)
    if most(reaching, spread.rounds):
        return MET
    return MISSED if most(spread.rounds - reaching, spread.rounds) else f"none: {SPREAD}"


def by_chance(rounds):
    """Returns how often three quarters of the rounds reach a target if each of them does so with probability 1/2, as for a side that is exactly at it."""
    return sum(math.comb(rounds, some) for some in range(rounds + 1) if most(some, rounds)) / 2**rounds


def verdict_of_point(point):
    """Returns the verdict on whether throughputs are equal at one length of computation."""
    return verdict(Spread.of(point["ratios"]), EQUAL)


def parity(points):
    """Returns the shortest device time from which on throughputs are equal in three quarters of the rounds, or None."""
    smallest = None
    for point in sorted(points, key=lambda point: -point["ms"]):
        if not most(Spread.of(point["ratios"]).reaching(EQUAL), len(point["ratios"])):
            break
        smallest = point["ms"]
    return smallest


def closed_form_idle(schedule, places, microbatches, rounds=1):
    """Returns the idle share of a step with equal stages. GPipe and 1F1B have the same; interleaved, each place has `rounds` stages."""
    if schedule == "interleaved":
        return (places - 1) / (rounds * microbatches + places - 1)
    return (places - 1) / (microbatches + places - 1)
