"""Verdicts: every comparison of a report that may have one, held against the paper's claim or an aim of our own. Pure."""

import dataclasses

import _paper
import _setup
from _setup import Spread


@dataclasses.dataclass(frozen=True)
class Target:
    """One of a figure: `spread` is to be at least `limit`, or at most. failed: why a side has no number, which is no verdict for us; none: why the numbers are
    none. What it is about says where
    to look when it is missed (_where.py): a `row` of a figure, our `kind` of call there and the `rival`'s; or `rows` of steps."""

    what: str
    where: str
    limit: float
    spread: Spread | None = None
    failed: str = ""
    none: str = ""
    at_most: bool = False
    claim: str = "the paper's"
    row: str = ""
    kind: str = "opbyop"
    rival: str = ""
    rival_kind: str = ""
    rows: tuple = ()
    number: str = ""

    @property
    def figure(self):
        return _paper.name(self.number)

    @property
    def wanted(self):
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"

    @property
    def reached(self):
        if self.spread is None:
            return "-"
        return "not in the range" if self.spread.median == float("inf") else str(self.spread)

    @property
    def verdict(self):
        if self.failed:
            return f"{_setup.FAILED}: {self.failed}"
        if self.none:
            return f"none: {self.none}"
        return "not measured" if self.spread is None else _setup.verdict(self.spread, self.limit, self.at_most)


OWN_AIM = "our own aim"


def label(row):
    return f"{row['hosts']} x {row['devices'] // row['hosts']}"


def compared(row, kind, rival, rival_kind=None):
    """(the spread of ours / theirs or None, why there is none) of a row of figure 5."""
    cells = {who: row["rates"].get(f"{who}, {which}") for who, which in ((_setup.OURS, kind), (rival, rival_kind or kind))}
    failed = "; ".join(f"{who}: {cell['error']}" for who, cell in cells.items() if cell and "error" in cell)
    if failed or None in cells.values():
        return None, failed
    return Spread.of(_setup.ratios(*cells.values())), ""


def _figure5(result):
    for row in result["rows"]:
        if "rates" not in row or row.get("simulated"):
            continue
        of_jax = _setup.PLUGIN if row["hosts"] == 1 else _setup.MULTI_PLUGIN
        wanted = [("opbyop", of_jax, "opbyop", 1.0, OWN_AIM), ("fused", of_jax, "fused", _setup.EQUAL, "the paper's"),
                  ("chained", of_jax, "opbyop", 1.0, "the paper's"), ("chained", of_jax, "opbyop", 3.0, OWN_AIM),
                  *((kind, _setup.RAY, kind, 1.0, "the paper's") for kind in _setup.KINDS)]
        for kind, rival, rival_kind, limit, claim in wanted:
            spread, failed = compared(row, kind, rival, rival_kind)
            yield Target(f"{kind} / {rival}, {rival_kind}", label(row), limit, spread, failed, claim=claim, row=row["name"], kind=kind, rival=rival, rival_kind=rival_kind)


def _figure6(result):
    for row in result["rows"]:
        limit = _paper.PARITY_MS.get(label(row)) if "against" in row else None
        for rival, found in row["against"].items() if limit else ():
            if rival in _setup.OTHER_RUNTIME:
                continue
            yield Target(f"equal from, ms of the devices, against {rival}", row["name"], limit, parity_spread(found), found.get("error", ""), all_longer(found, limit), at_most=True,
                         row=row["name"])


def all_longer(found, limit):
    """Why a parity above the limit is no miss: where throughputs are equal from the shortest computation on, and that is longer, nobody knows of shorter ones."""
    shortest = min((point["ms"] for point in found.get("points", ())), default=0)
    return f"the devices have no shorter computation than {shortest:.3g} ms" if found.get("parity_ms") == shortest > limit else ""


def parity_spread(found):
    """A parity as a spread without width: that of the rounds is in it."""
    if not found.get("points"):
        return None
    value = found["parity_ms"] if found["parity_ms"] is not None else float("inf")
    return Spread(value, value, value, min(point["rounds"] for point in found["points"]))


def _figure7(result):
    for stages, row in result["stages"].items():
        if int(stages) >= 4:
            yield Target("parallel / sequential", f"{stages} stages", 1.0, Spread.of(row["ratio_rounds"]), row=stages)


def _figure8(result):
    for device, found in devices8(result):
        most = max((name for name in found if name != "jax"), key=int)
        against = [("of_device_rounds", "what the devices can do"), ("of_jax_rounds", _setup.PLUGIN), ("of_one_rounds", "one of them")]
        for key, words in against:
            if key in found[most]:
                yield Target(f"{most} clients together / {words}", device, _setup.EQUAL, Spread.of(found[most][key]), row=device)


def devices8(result):
    """(name, {clients: figures}) of each kind of device and computation."""
    for us, found in result.get("simulated", {}).items():
        yield f"simulated, {int(us) / 1e3:g} ms", found
    for loops, found in result.get("cpu", {}).items():
        yield f"CPU, {loops} loops", found


def _figure9(result):
    for name, row in result["mixes"].items():
        yield Target(f"results off the weights {name}", f"{row['devices']} simulated devices", 0.02, Spread.of(row["worst_rounds"]), at_most=True, claim=OWN_AIM)


def _table1(result):
    for name, row in result["rows"].items():
        for rival, cell in row.get("sides", {}).items():
            mine = row["sides"][_setup.OURS]
            if rival == _setup.OURS or not _setup.has_verdict(rival):
                continue
            failed = "; ".join(f"{who}: {one['error']}" for who, one in ((_setup.OURS, mine), (rival, cell)) if "error" in one)
            spread = None if failed else Spread.of(_setup.ratios(mine, cell))
            yield Target(f"tokens/s / {rival}", name, _setup.EQUAL, spread, failed, rows=(name,))


def _pipelines(result):
    for name, row in result["rows"].items():
        if row.get("planned_s"):
            spread = Spread.of([row["planned_s"] / took for took in row["step_rounds_s"]])
            yield Target(f"what the schedule takes / {name}", "simulated devices", 0.95, spread, claim=OWN_AIM, rows=(name,))
    yield from _steps(result["rows"], "16 stages, gpipe, on four islands", "16 stages, gpipe", _setup.EQUAL)


def _steps(rows, name, base, limit):
    both = [rows.get(one, {}) for one in (name, base)]
    failed = "; ".join(f"{one}: {row['error']}" for one, row in zip((name, base), both) if "error" in row)
    if failed or all("step_rounds_s" in row for row in both):
        spread = None if failed else Spread.quotient(both[1]["step_rounds_s"], both[0]["step_rounds_s"])
        yield Target(f"{name} / {base}", "simulated devices", limit, spread, failed, rows=(name, base))


def _islands(result):
    for base in ("one island of 256 cores, one SPMD jit", "one island of 256 cores, in segments"):
        yield from _steps(result["rows"], "two islands of 128 cores, in segments", base, _paper.ISLANDS_RATIO)


FIGURES = {"5": _figure5, "6": _figure6, "7": _figure7, "8": _figure8, "9": _figure9, "table1": _table1, "pipelines": _pipelines, "islands": _islands}


def targets(report):
    """[Target] of all figures that were measured."""
    return [dataclasses.replace(target, number=number) for number, figure in FIGURES.items() if number in report["figures"]
            for target in figure(report["figures"][number])]
