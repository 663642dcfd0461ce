"""What an earlier run found. A new report keeps the verdicts of the run before it, so that its page says where the two differ. Pure."""

import _provenance
import _targets


def record(report):
    """Returns what a later run compares itself with: when and of what a report was measured, and its verdicts."""
    runs = [run for run, _ in _provenance.runs(report)]
    return {"begun": ", ".join(run["begun"] for run in runs), "commit": ", ".join(dict.fromkeys(run["commit"] for run in runs)),
            "verdicts": [{"of": key(one), "verdict": one.verdict, "reached": one.reached} for one in _targets.targets(report)]}


def key(target):
    return [target.figure, target.what, target.where, target.wanted]


def word(verdict):
    """Returns the verdict without its reason."""
    return verdict.split(":")[0]


def others(report):
    """Returns ({(figure, what, where, wanted): another verdict, with its number}, how many verdicts both runs have)."""
    before = {tuple(one["of"]): one for one in (report.get("before") or {}).get("verdicts", ())}
    both = [(before[tuple(key(one))], one) for one in _targets.targets(report) if tuple(key(one)) in before]
    return {tuple(then["of"]): f"{then['verdict']}, {then['reached']}" for then, now in both if word(then["verdict"]) != word(now.verdict)}, len(both)
