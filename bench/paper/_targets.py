"""What was to be reached, held against a report. Pure."""

import _paper


def _rate(row, name):
    return row["rates"].get(name, {}).get("per_s")


def _against(rows, ours, theirs, pick):
    """The worst ratio over those rows that have both, and of which one it is."""
    found = []
    for row in rows:
        mine = max((rate for name in ours if (rate := _rate(row, name))), default=None)
        if pick(row) and mine and (other := _rate(row, theirs)):
            found.append((mine / other, f"{row['hosts']} x {row['devices'] // row['hosts']}"))
    return min(found, default=(None, ""))


def _figure5(result):
    rows = [row for row in result["rows"] if not row.get("simulated")]
    op, deep = "pathways, opbyop", "pathways, opbyop, deep queue"
    eight, one, several, all_of = (lambda row: row["hosts"] == 1 and row["devices"] == 8), (lambda row: row["devices"] == 1), (lambda row: row["hosts"] > 1), (lambda row: True)
    yield "OpByOp, 8 devices of one host / JAX in process", *_against(rows, (op, deep), "jax in process, opbyop", eight), 1.0
    yield "OpByOp, several hosts / JAX multi-controller", *_against(rows, (op, deep), "jax multi-controller, opbyop", several), 1.0
    for where, pick in (("8 devices of one host", eight), ("one device", one)):
        yield f"Chained, {where} / JAX in process OpByOp", *_against(rows, ("pathways, chained",), "jax in process, opbyop", pick), 3.0
        yield f"Fused, {where} / JAX in process", *_against(rows, ("pathways, fused",), "jax in process, fused", pick), 0.97
    yield "Chained / JAX multi-controller OpByOp", *_against(rows, ("pathways, chained",), "jax multi-controller, opbyop", several), 3.0
    yield "Fused / JAX multi-controller", *_against(rows, ("pathways, fused",), "jax multi-controller, fused", several), 0.97
    for rival in ("tensorflow", "ray"):
        for kind in ("opbyop", "chained", "fused"):
            ratio, where = _against(rows, (f"pathways, {kind}",), f"{rival}, {kind}", all_of)
            if ratio is not None:
                yield f"{kind} / {'TensorFlow' if rival == 'tensorflow' else 'Ray'}", ratio, where, 1.0


def _figure6(result):
    for name, limit in (("16x8", 0.25), ("512x4", 3.0)):
        figure = (result.get("controller") or {}).get(name)
        yield f"parity from, ms, {name} simulated devices", figure and figure["us"] / 1e3, "the controller alone", -limit


def _ratio_of(rows, name, base):
    return rows[name]["tokens_per_s"] / rows[base]["tokens_per_s"] if all("tokens_per_s" in rows.get(one, {}) for one in (name, base)) else None


def _pipelines(result):
    rows = result["rows"]
    yield "16 stages / 4 stages", _ratio_of(rows, "16 stages", "4 stages"), "simulated devices", 0.98
    yield "16 stages / 4 stages, interleaved", _ratio_of(rows, "16 stages, interleaved", "4 stages, interleaved"), "simulated devices", 0.98
    yield "four islands / one", _ratio_of(rows, "16 stages on four islands", "16 stages"), "simulated devices", 0.99
    for name, row in rows.items():
        if row.get("planned_s"):
            yield f"what the schedule allows / {name}", row["planned_s"] / row["step_s"], "simulated devices", 0.95


def _islands(result):
    if "two islands of 128 cores" in result["rows"]:
        yield "two islands / one with twice the devices", _ratio_of(result["rows"], "two islands of 128 cores", "one island of 256 cores"), "simulated devices", 0.972


FIGURES = {"5": _figure5, "6": _figure6, "pipelines": _pipelines, "islands": _islands}


def targets(report):
    """[(figure, what, value or None, where, limit as text, True, False or None: not measured)]. A negative limit is one from above."""
    found = []
    for number, figure in FIGURES.items():
        for what, value, where, limit in figure(report["figures"][number]) if number in report["figures"] else ():
            met = None if value is None else value <= -limit if limit < 0 else value >= limit
            found.append((_paper.name(number), what, value, where, f"{'<=' if limit < 0 else '>='} {abs(limit):g}", met))
    return found
