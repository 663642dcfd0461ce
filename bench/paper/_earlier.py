"""What an earlier run found. A new report keeps the verdicts of the run before it, so that its page says where the two differ. Pure."""

import statistics

import _provenance
import _targets


def record(report):
    """Returns what a later run compares itself with: when and of what a report was measured, and its verdicts."""
    runs = [run for run, _ in _provenance.runs(report)]
    return {"begun": ", ".join(run["begun"] for run in runs), "commit": ", ".join(dict.fromkeys(run["commit"] for run in runs)),
            "verdicts": [{"of": key(one), "verdict": one.verdict, "reached": one.reached, "rounds": rounds(one)} for one in _targets.targets(report)]}


def rounds(target):
    """Returns the single rounds of a target, [] if it has none."""
    return [round(value, 4) for value in target.spread.values] if target.spread and not target.shown else []


def key(target):
    return [target.figure, target.what, target.where, target.wanted]


def word(verdict):
    """Returns the verdict without its reason."""
    return verdict.split(":")[0]


def moved(report):
    """Returns the factors, at least 1, by which the medians of comparisons differ from those of the run before."""
    before = {tuple(one["of"][:3]): one["reached"] for one in (report.get("before") or {}).get("verdicts", ())}
    now = {tuple(key(one)[:3]): one.reached for one in _targets.targets(report)}
    both = [(_median(before[of]), _median(reached)) for of, reached in now.items() if of in before]
    return sorted(max(a / b, b / a) for a, b in both if a and b)


def _median(reached):
    """Returns the median of a number as it is shown, None if it has another form."""
    try:
        return float(reached.split(" ")[0])
    except ValueError:
        return None


def scatter(report):
    """Says by how much comparisons differ from those of the run before, "" if none has a number in both."""
    factors = moved(report)
    if not factors:
        return ""
    return f" The medians of {len(factors)} comparisons differ from that run by a factor of {statistics.median(factors):.2f} in the median, and of {factors[-1]:.2f} at most."


def others(report):
    """Returns ({(figure, what, where, wanted): another verdict, with its number}, how many verdicts both runs have)."""
    before = {tuple(one["of"]): one for one in (report.get("before") or {}).get("verdicts", ())}
    both = [(before[tuple(key(one))], one) for one in _targets.targets(report) if tuple(key(one)) in before]
    return {tuple(then["of"]): f"{then['verdict']}, {then['reached']}" for then, now in both if word(then["verdict"]) != word(now.verdict)}, len(both)
