"""What every comparison of the report has in common: who takes part, with which device runtime and how many processes, how many calls are under way, and when a
number is a verdict. Pure."""

import dataclasses
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from _answers import DEPTH  # noqa: E402, F401  calls under way, of all sides

NODES = 128  # computations of a chain
KINDS = {"opbyop": (16384, 1), "chained": (2048, NODES), "fused": (16384, NODES)}  # the most calls of a turn, computations in each
FEW = 4  # calls of a turn, see fewest
ROUNDS = 9  # of sides that take turns
EQUAL = 0.97  # throughputs from this ratio on are called equal
FEWEST_ROUNDS = 4  # for a verdict

OURS = "pathways"
PLUGIN, MULTI_PLUGIN, RAY = "jax, our plugin", "jax multi-controller, our plugin", "ray, our plugin"
JAX, MULTI, TENSORFLOW = "jax", "jax multi-controller", "tensorflow"
# Why a comparison with that side says more than what dispatch costs, and so has no verdict.
OTHER_RUNTIME = {JAX: "its own device runtime and collectives", MULTI: "its own device runtime, and Gloo", TENSORFLOW: "its own device runtime; a sum on one device"}


def has_verdict(side):
    return side not in OTHER_RUNTIME


def fewest(name, kind, quick):
    """Calls of a turn: DEPTH at least, or fewer would be under way. But of a side without verdict whose calls take long."""
    if quick:
        return DEPTH if kind == "opbyop" else 1
    return FEW if (name, kind) == (MULTI, "fused") else DEPTH


def rivals(hosts):
    """Of so many hosts, each of which is one process: TensorFlow has but one."""
    return (PLUGIN, JAX, TENSORFLOW, RAY) if hosts == 1 else (MULTI_PLUGIN, MULTI, RAY)


def knows(name, kind):
    """jax has nothing between one call and a function of all."""
    return kind != "chained" or name in (OURS, TENSORFLOW, RAY)


@dataclasses.dataclass(frozen=True)
class Spread:
    """Of a ratio, by rounds in which both sides took turns: the median, and half of the rounds are between the other two."""

    low: float
    median: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values):
        if len(values) == 1:
            return cls(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(low, median, high, len(values))

    @classmethod
    def quotient(cls, above, below):
        """Of what was not measured in turn: as far apart as their halves of the rounds allow."""
        a, b = cls.of(above), cls.of(below)
        return cls(a.low / b.high, a.median / b.median, a.high / b.low, min(a.rounds, b.rounds))

    def __str__(self):
        return f"{self.median:.3f}" + (f" ({self.low:.3f} to {self.high:.3f})" if self.rounds > 1 else "")


def ratios(mine, theirs):
    """Round by round, of two sides' {"rounds": [...]}."""
    return [a / b for a, b in zip(mine["rounds"], theirs["rounds"])]


MET, MISSED, FAILED = "met", "MISSED", "FAILED"


def verdict(spread, limit, at_most=False):
    """Met or missed if three quarters of the rounds say so; else why there is none."""
    if spread.rounds < FEWEST_ROUNDS:
        return f"none: {spread.rounds} round(s), of at least {FEWEST_ROUNDS}"
    if at_most:
        spread, limit = Spread(-spread.high, -spread.median, -spread.low, spread.rounds), -limit
    if spread.low >= limit:
        return MET
    return MISSED if spread.high < limit else "none: within the spread of the rounds"


def parity(points):
    """The device time of the smallest computation from which on throughputs are equal by three quarters of the rounds; None if they are not in this range."""
    smallest = None
    for point in sorted(points, key=lambda point: -point["ms"]):
        if point["low"] < EQUAL:
            break
        smallest = point["ms"]
    return smallest


def closed_form_idle(schedule, places, microbatches, rounds=1):
    """The share of a step that a schedule of equal stages leaves devices idle: GPipe's and 1F1B's are the same; interleaved, a place has several stages."""
    if schedule == "interleaved":
        return (places - 1) / (rounds * microbatches + places - 1)
    return (places - 1) / (microbatches + places - 1)
