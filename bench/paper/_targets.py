"""What was to be reached, held against a report. Pure."""

import dataclasses

import _paper


@dataclasses.dataclass(frozen=True)
class Target:
    """One of a figure: `value` is to be at least `limit`, or at most. What it is about says where to look when it is missed (_where.py): a `row` of a figure, our
    `kind` of call there and the `rival`'s; or `rows` of steps."""

    what: str
    value: float | None
    where: str
    limit: float
    at_most: bool = False
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
    def met(self):
        if self.value is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def label(row):
    return f"{row['hosts']} x {row['devices'] // row['hosts']}"


def _rate(row, name):
    return row["rates"].get(name, {}).get("per_s")


def _against(what, rows, ours, rival, kind, pick, limit):
    """Of the worst ratio over those rows that have both. ours: the best of these counts."""
    found = []
    for row in rows:
        mine = max((rate for name in ours if (rate := _rate(row, name))), default=None)
        if pick(row) and mine and (other := _rate(row, f"{rival}, {kind}")):
            found.append((mine / other, label(row)))
    value, where = min(found, default=(None, ""))
    return Target(what, value, where, limit, row=where, kind=ours[0].split(", ")[1], rival=rival, rival_kind=kind)


def _figure5(result):
    rows = [row for row in result["rows"] if "rates" in row and not row.get("simulated")]
    op = ("pathways, opbyop", "pathways, opbyop, deep queue")
    chained, fused = ("pathways, chained",), ("pathways, fused",)
    eight, one, several = (lambda row: row["hosts"] == 1 and row["devices"] == 8), (lambda row: row["devices"] == 1), (lambda row: row["hosts"] > 1)
    alone, many = "jax in process", "jax multi-controller"
    yield _against("OpByOp, 8 devices of one host / JAX in process", rows, op, alone, "opbyop", eight, 1.0)
    yield _against("OpByOp, several hosts / JAX multi-controller", rows, op, many, "opbyop", several, 1.0)
    for where, pick in (("8 devices of one host", eight), ("one device", one)):
        yield _against(f"Chained, {where} / JAX in process OpByOp", rows, chained, alone, "opbyop", pick, 3.0)
        yield _against(f"Fused, {where} / JAX in process", rows, fused, alone, "fused", pick, 0.97)
    yield _against("Chained / JAX multi-controller OpByOp", rows, chained, many, "opbyop", several, 3.0)
    yield _against("Fused / JAX multi-controller", rows, fused, many, "fused", several, 0.97)
    for rival, name in (("tensorflow", "TensorFlow"), ("ray", "Ray")):
        for kind in ("opbyop", "chained", "fused"):
            for row in rows:  # in every column: each is a target of its own
                target = _against(f"{kind} / {name}", [row], (f"pathways, {kind}",), rival, kind, lambda row: True, 1.0)
                if target.value is not None:
                    yield target


def _figure6(result):
    measured = {row["name"]: row for row in result["rows"] if "busiest" in row}
    for name, limit in (("16x8", 0.25), ("512x4", 3.0)):
        alone = (result.get("controller") or {}).get(name)
        yield Target(f"parity from, ms, {name} simulated devices", alone and alone["us"] / 1e3, "the controller alone", limit, True, name)
        row = measured.get(name)
        if row:
            yield Target(f"parity from, ms, {name} simulated devices", row["busiest_ms"], f"client, sockets and hosts: the {row['busiest']}", limit, True, name)


def _ratio_of(rows, name, base):
    return rows[name]["tokens_per_s"] / rows[base]["tokens_per_s"] if all("tokens_per_s" in rows.get(one, {}) for one in (name, base)) else None


def _steps(what, rows, name, base, limit):
    return Target(what, _ratio_of(rows, name, base), "simulated devices", limit, rows=(name, base))


def _pipelines(result):
    rows = result["rows"]
    yield _steps("16 stages / 4 stages", rows, "16 stages", "4 stages", 0.98)
    yield _steps("16 stages / 4 stages, interleaved", rows, "16 stages, interleaved", "4 stages, interleaved", 0.98)
    yield _steps("four islands / one", rows, "16 stages on four islands", "16 stages", 0.99)
    for name, row in rows.items():
        if row.get("planned_s"):
            yield Target(f"what the schedule allows / {name}", row["planned_s"] / row["step_s"], "simulated devices", 0.95, rows=(name,))


def _islands(result):
    yield _steps("two islands / one with twice the devices", result["rows"], "two islands of 128 cores", "one island of 256 cores", 0.972)


def _figure8(result):
    for us, found in result["simulated"].items():
        worst, count = min((row["of_one"], count) for count, row in found.items())
        yield Target(f"clients together / one, {int(us) / 1e3:g} ms", worst, f"{count} clients, simulated device", 0.995, row=us)


FIGURES = {"5": _figure5, "6": _figure6, "8": _figure8, "pipelines": _pipelines, "islands": _islands}


def targets(report):
    """[Target] of all figures that were measured."""
    return [dataclasses.replace(target, number=number) for number, figure in FIGURES.items() if number in report["figures"]
            for target in figure(report["figures"][number])]
