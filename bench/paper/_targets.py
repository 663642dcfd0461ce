"""Targets: each comparison that may have a verdict, with a limit from the paper's claim or an aim of our own. Pure."""

import dataclasses
import itertools

import _paper
import _rows
import _setup
from _setup import Spread

# The origin of a target.
PAPER = "the paper's"
READING = "our reading of the paper"  # the paper has another rival, model or size there, does not compare directly, or has no number
OWN_AIM = "our own aim"


@dataclasses.dataclass(frozen=True)
class Target:
    """One target of a figure: `spread` must be at least `limit`, or at most `limit` if `at_most`; None: a part of the figure has no result. failed: why a side has no number; that is never "met".
    none: why the numbers allow no verdict. For a missed target, _where.py finds where the time goes. It looks at a `row` of the figure for our side `mine` with its
    `kind` of call and for the `rival`'s, or at `rows` of steps."""

    what: str
    where: str
    limit: float | None
    spread: Spread | None = None
    failed: str = ""
    none: str = ""
    at_most: bool = False
    claim: str = PAPER
    row: str = ""
    mine: str = _setup.OURS
    kind: str = "opbyop"
    rival: str = ""
    rival_kind: str = ""
    rows: tuple = ()
    number: str = ""
    shown: str = ""  # instead of the spread, where that would say more than is known

    @property
    def figure(self):
        return _paper.name(self.number)

    @property
    def wanted(self):
        if self.limit is None:
            return "-"
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"

    @property
    def reached(self):
        if self.spread is None:
            return "-"
        if self.shown:
            return self.shown
        return "not in the range" if self.spread.median == float("inf") else str(self.spread)

    @property
    def agreeing(self):
        """How many rounds reach the limit; "-" where the number is not of single rounds."""
        return "-" if self.spread is None or self.number == "6" or self.limit is None else f"{self.spread.reaching(self.limit, self.at_most)} of {self.spread.rounds}"

    @property
    def verdict(self):
        if _rows.is_unmeasured(self.failed):
            return f"not measured: {self.failed}"
        if self.failed:
            return f"{_setup.FAILED}: {self.failed}"
        if self.none:
            return f"none: {self.none}"
        return "not measured" if self.spread is None else _setup.verdict(self.spread, self.limit, self.at_most)


SHOWN = {_setup.OURS: "ours", _setup.OURS_ONE: "ours in one process", _setup.OURS_INSIDE: "ours by the PJRT door"}  # names of our sides


def compared(row, kind, rival, rival_kind=None, mine=_setup.OURS):
    """Returns (the spread of ours / theirs or None, the error of a side that failed) for a row of figure 5. mine: one of our sides."""
    cells = {who: row["rates"].get(f"{who}, {which}") for who, which in ((mine, kind), (rival, rival_kind or kind))}
    failed = "; ".join(f"{who}: {cell['error']}" for who, cell in cells.items() if cell and "error" in cell)
    if failed or None in cells.values():
        return None, failed
    return Spread.of(_setup.ratios(*cells.values())), ""


def no_result(row):
    """Returns why a row is not there as a whole: it failed, or it is still to be measured; "" if it is there."""
    return row.get("error", "") if not row.get("rounds") else ""


def _figure5(result):
    for row in result["rows"]:
        if row.get("simulated") or row["name"].endswith("simulated"):
            continue
        hosts = row.get("hosts") or int(row["name"].split(" x ")[0])
        of_jax = _setup.PLUGIN if hosts == 1 else _setup.MULTI_PLUGIN
        claim = PAPER if hosts > 1 else READING  # the paper's smallest row has several hosts; it says "ahead", which is 1
        wanted = [("opbyop", of_jax, "opbyop", 1.0, OWN_AIM), ("fused", of_jax, "fused", _setup.EQUAL, READING),  # it says "equal", without a number
                  ("chained", of_jax, "opbyop", 1.0, claim), ("chained", of_jax, "opbyop", 3.0, OWN_AIM),
                  *((kind, _setup.RAY, kind, 1.0, READING) for kind in _setup.KINDS)]  # the paper itself says that this does not compare directly
        for mine, (kind, rival, rival_kind, limit, claim) in itertools.product(_setup.ours(hosts), wanted):
            if _setup.comparable(mine, rival):
                spread, failed = (None, no_result(row)) if "rates" not in row else compared(row, kind, rival, rival_kind, mine)
                yield Target(f"{SHOWN[mine]}, {kind} / {rival}, {rival_kind}", row["name"], limit, spread, failed, claim=claim, row=row["name"], mine=mine, kind=kind, rival=rival,
                             rival_kind=rival_kind)


NEVER_IDLE = "devices that are never idle"


def _figure6(result):
    for row in result["rows"]:
        limit = _paper.PARITY_MS.get(row["name"].removesuffix(", simulated"))
        rivals = row.get("against") or {NEVER_IDLE if row["name"].endswith("simulated") else _setup.MULTI_PLUGIN: {"error": row.get("error", "")}}
        for rival, found in rivals.items() if limit else ():
            if rival in _setup.OTHER_RUNTIME:
                continue
            yield Target(f"equal from, ms of device time, against {rival}", row["name"], limit, parity_spread(found), found.get("error", ""), undecided(found, limit), at_most=True,
                         claim=PAPER if rival in (_setup.PLUGIN, _setup.MULTI_PLUGIN) else READING, row=row["name"], rival=rival, rival_kind="opbyop", shown=between(found))


AGAINST = {_setup.OURS: "against", _setup.OURS_ONE: "against_one", _setup.OURS_INSIDE: "against_inside"}  # the keys of our sides in a row of figure 6


def against(row):
    """Yields (our side, the rival, points and parity) for each comparison in a row of figure 6."""
    for mine, key in AGAINST.items():
        for rival, found in row.get(key, {}).items():
            yield mine, rival, found


def undecided(found, limit):
    """Returns why a parity above the limit is not a miss, or "". It is one only if throughputs differ in most rounds at a length of the limit or above."""
    points, value = found.get("points", ()), found.get("parity_ms")
    if not points or "error" in found or (value is not None and value <= limit):
        return ""
    if min(point["rounds"] for point in points) < _setup.FEWEST_ROUNDS:
        return ""  # the verdict itself says so
    above = [point for point in points if point["ms"] >= limit]
    if any(_setup.verdict_of_point(point) == _setup.MISSED for point in above):
        return ""
    if (shortest := min(point["ms"] for point in points)) > limit and value == shortest:
        return f"equal from the shortest computation on that was measured, which takes {shortest:.3g} ms"
    return f"parity lies {between(found)} ms" if value is not None and value == min(point["ms"] for point in above) else _setup.SPREAD


def between(found):
    """Returns between which of the measured lengths parity lies, in ms; "" where there is none."""
    value = found.get("parity_ms")
    shorter = [point["ms"] for point in found.get("points", ()) if value is not None and point["ms"] < value]
    return "" if value is None else f"between {max(shorter):.3g} and {value:.3g}" if shorter else f"at most {value:.3g}"


def parity_spread(found):
    """Returns a parity as a Spread without width; the spread of the rounds is already part of it."""
    if "error" in found or not found.get("points"):
        return None
    value = found["parity_ms"] if found["parity_ms"] is not None else float("inf")
    return Spread(value, value, value, (value,) * min(point["rounds"] for point in found["points"]))


def _figure7(result):
    control = result["rows"].get("1", {}).get("ratio_rounds")
    for stages, row in result["rows"].items():
        if int(stages) >= 4:
            failed = no_result(row) or "; ".join(f"{one}: {row[one]['error']}" for one in ("parallel", "sequential") if "error" in row[one])
            spread = None if failed else Spread.of(row["ratio_rounds"])
            yield Target("calls/s, parallel / sequential", f"{stages} stages", 1.0, spread, failed, none="" if failed else near_control(spread, control), claim=READING, row=stages)


def near_control(spread, control):
    """Returns why a ratio of figure 7 says nothing, or "": two clusters that do the same, with one stage, differ as much in the same direction."""
    ratio = Spread.of(control).median if control else 1.0
    near = 1 < spread.median <= ratio or ratio <= spread.median < 1
    return f"with one stage, where nothing can be parallel, the ratio is {ratio:.3f}" if near else ""


def _figure8(result):
    for name, row in result["rows"].items():
        if why := no_result(row):
            yield Target("several clients together", name, None, failed=why)
    for device, found in devices8(result):
        clients = [name for name in found if name.isdecimal()]
        most = max(clients, key=int)
        against = {"what the devices can do": "of_device_rounds", "one client": "of_one_rounds"} | {side8(name): ratio8(name) for name in found if not name.isdecimal()}
        for words, key in against.items():
            failed = next((row["error"] for name, row in found.items() if side8(name) == words and "error" in row), "")
            if key in found[most] or failed:
                target = Target(f"{most} clients together / {words}", device, _setup.EQUAL, None if failed else Spread.of(found[most][key]), failed, claim=READING, row=device)
                yield dataclasses.replace(target, none=unfilled(found)) if words == "one client" and target.verdict == _setup.MET else target


def rates_of_jax(found):
    """Returns the rates of jax's rows of one kind of device and length of computation."""
    return [row["per_s"] for name, row in found.items() if not name.isdecimal() and "error" not in row]


def unfilled(found):
    """Returns why no number of clients can be too slow for one client, or "": one client alone does not fill the devices, by the length of a computation or by
    the rate of jax."""
    one, jax = found["1"], rates_of_jax(found)
    share = one["of_device"] if "of_device" in one else one["per_s"] / max(jax) if jax else 1.0
    return f"one client reaches only {100 * share:.0f} % of what {'the devices' if 'of_device' in one else 'jax'} can do" if share < _setup.EQUAL else ""


def ratio8(name):
    """Returns the key of the ratios to a row of jax in figure 8: with one program, or with as many as there are clients."""
    return "of_jax_rounds" if name == "jax" else "of_jax_programs_rounds"


def side8(name):
    """Returns the name of a row of figure 8 for readers."""
    if name.isdecimal():
        return f"{name} client" + "s" * (name != "1")
    return f"{_setup.PLUGIN}, {name.partition(', ')[2] or 'one program'}"


def devices8(result):
    """Yields (name, {clients: figures}) for each kind of device and length of computation."""
    parts = {key: found for row in result["rows"].values() for key, found in row.items()}
    for us, found in parts.get("simulated", {}).items():
        yield f"simulated, {int(us) / 1e3:g} ms", found
    for loops, found in parts.get("cpu", {}).items():
        yield f"CPU, {loops} loops", found


def _figure9(result):
    for name, row in result["mixes"].items():
        yield Target(f"largest deviation of a client's results, weights {name}", f"{row['devices']} simulated devices", 0.02, Spread.of(row["worst_rounds"]), at_most=True, claim=OWN_AIM)


def _table1(result):
    for name, row in result["rows"].items():
        if why := no_result(row):
            yield Target(f"tokens/s, ours / {_setup.PLUGIN if name.endswith('one host') else _setup.MULTI_PLUGIN}", name, _setup.EQUAL, failed=why, claim=READING)
        for rival, cell in row.get("sides", {}).items():
            mine = row["sides"][_setup.OURS]
            if rival == _setup.OURS or not _setup.has_verdict(rival):
                continue
            failed = "; ".join(f"{who}: {one['error']}" for who, one in ((_setup.OURS, mine), (rival, cell)) if "error" in one)
            spread = None if failed else Spread.of(_setup.ratios(mine, cell))
            yield Target(f"tokens/s, ours / {rival}", name, _setup.EQUAL, spread, failed, claim=READING, rows=(name,))  # the paper's models are T5's


def _table2(result):
    """Compares the SPMD jits only. Rows of pipelines have other numbers of devices."""
    mine, jax = (f"{_setup.ONE_JIT}, {side}" for side in (_setup.OURS, _setup.PLUGIN))
    yield from _steps(_setup.cells(result["rows"]), mine, jax, _setup.EQUAL, READING, "CPU devices", f"SPMD, ours / {_setup.PLUGIN}")


def _figure10(result):
    yield from _steps(result["rows"], "four islands", "one island", _setup.EQUAL, READING, "CPU devices")


def _figure12(result):
    mine, jax = (f"{_setup.ONE_ISLAND}, {side}" for side in (_setup.OURS, _setup.MULTI_PLUGIN))
    cells = _setup.cells(result["rows"])
    yield from _steps(cells, "two islands", mine, _paper.ISLANDS_RATIO, READING, "CPU devices", "two islands / one island, ours")
    yield from _steps(cells, mine, jax, _setup.EQUAL, READING, "CPU devices", f"one island, ours / {_setup.MULTI_PLUGIN}")


SPMD_ROW = "SPMD"  # the row of the simulated table 2 that has no schedule


def _pipelines(result):
    for name, row in result["rows"].items():
        if name != SPMD_ROW and ("planned_s" in row or "error" in row):
            failed = row.get("error", "")
            spread = None if failed else Spread.of(schedule_of_step(row))
            yield Target(f"schedule / step, {name}", "simulated devices", 0.95, spread, failed, claim=OWN_AIM, rows=(name,))
    rows = result["rows"]
    for name, base, limit in (("4 stages, gpipe", "SPMD", _paper.STAGES_TO_SPMD), ("16 stages, gpipe", "4 stages, gpipe", _paper.STAGES_16_TO_4)):
        limit = round(limit, 3)
        yield from _unless_decided(rows, _steps(rows, name, base, limit))
    yield from _unless_decided(rows, _steps(rows, "16 stages, gpipe, on four islands", "16 stages, gpipe", _setup.EQUAL))


def _unless_decided(rows, targets):
    """Yields the targets of simulated rows; those that the devices' times decide have no verdict."""
    for target in targets:
        yield target if target.failed else dataclasses.replace(target, none=decided_by_devices(target.verdict, *(rows[name] for name in target.rows), target.limit))


def device_s(row):
    """Returns the seconds of a step if only the devices' own times counted, None if they are not known: of SPMD, no step is recorded."""
    if "planned_s" in row:
        return row["planned_s"]
    computing = [row["spent_s"][kind] for kind in ("forward", "backward", "update") if kind in row.get("spent_s", {})]
    return sum(computing) if len(computing) == 3 else None


def decided_by_devices(verdict, row, base, limit):
    """Returns why two simulated rows have no verdict, or "". It is met, and the times of their devices alone are above the target by more than what counts as
    equal; or it is missed, and no control path could meet it."""
    mine, theirs = device_s(row), device_s(base)
    if verdict == _setup.MET and mine and theirs and theirs / mine > limit / _setup.EQUAL:
        return f"the devices' times alone make it {theirs / mine:.3f}"
    if verdict == _setup.MISSED and mine and (theirs or base.get("step_s")) and (theirs or base["step_s"]) / mine < limit:
        return f"the devices' times allow at most {(theirs or base['step_s']) / mine:.3f}"
    return ""


def schedule_of_step(row):
    """Returns the planned time of a step / its time, for each round."""
    return [row["planned_s"] / took for took in row["step_rounds_s"]]


def _steps(rows, name, base, limit, claim=READING, where="simulated devices", shown=""):
    both = [rows.get(one, {}) for one in (name, base)]
    failed = "; ".join(f"{one}: {row['error']}" for one, row in zip((name, base), both) if "error" in row)
    if failed or all("rounds" in row for row in both):
        spread = None if failed else Spread.of(_setup.ratios(*both))
        yield Target(f"tokens/s, {shown or f'{name} / {base}'}", where, limit, spread, failed, claim=claim, rows=(name, base))


def _islands(result):
    for base, claim in (("one island of 256 cores, one SPMD jit", READING), ("one island of 256 cores, in segments", OWN_AIM)):  # the paper's model is larger
        yield from _unless_decided(result["rows"], _steps(result["rows"], "two islands of 128 cores, in segments", base, _paper.ISLANDS_RATIO, claim=claim))


def of_next_step(runs, place, kind, begin):
    """Says whether a run of the two islands' picture belongs to the step after: a forward function after the place's last update."""
    updates = [at for where, what, at, _ in runs if where == place and what == "update"]
    return kind == "forward" and bool(updates) and begin > max(updates)


FIGURES = {"5": _figure5, "6": _figure6, "7": _figure7, "8": _figure8, "9": _figure9, "table1": _table1, "table2": _table2,
           "pipelines": _pipelines, "10": _figure10, "12": _figure12, "islands": _islands}


def targets(report):
    """Returns the targets of all measured figures. What a figure lacks because it ended early has failed, too."""
    found = []
    for number, figure in FIGURES.items():
        some = list(figure(report["figures"][number])) if number in report["figures"] else []
        if why := report.get("failed", {}).get(number):
            some.append(Target("the rest of the figure" if number in report["figures"] else "all of the figure", "-", None, failed=why))
        found += [dataclasses.replace(target, number=number) for target in some]
    return found
