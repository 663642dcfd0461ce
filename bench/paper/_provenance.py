"""The runs that measured a report, each with its commit, command, machine and date; and whether the report may be published. Pure.

In a report, "began" is the list of runs, and "runs" has the parts in which each figure was measured: one part, or several if a later run added missing
rows. "of" in a part is the place of its run in "began"; "code" identifies the code at its begin, and "changed" names what of it was different at its end.
"attempts" has all measurements, also those that failed and those whose results a later one replaced.
"""

import _paper

DIRTY, UNKNOWN = "-dirty", "unknown"
FIELDS = ("begun", "commit", "command", "machine")
# Shares of the processors. Above them, others disturbed a figure. The clock ticks of "others" are coarse.
LIMITS = {"stolen": 0.02, "others": 0.05}
TAKEN = {"stolen": "other guests of the same hardware took time of this machine's processors", "others": "other processes used this machine's processors"}


def begin(report, run):
    """Adds a run to the report; returns its place in the list."""
    report["began"].append({field: run[field] for field in FIELDS})
    return len(report["began"]) - 1


def measured(report, number, part, kept):
    """Notes a part in which a figure, or the rest of it, was measured. kept: rows of its earlier parts are still in it."""
    report["runs"][number] = [*(report["runs"].get(number, []) if kept else []), part]


def attempted(report, number, part, failures, shown, verdicts=()):
    """Notes a measurement of a figure. part: when, and what others used; failures: {what failed: why}; shown: whether it made a result; verdicts: what the result
    said, [[compared, on, wanted, reached, verdict]]. These stay when a later measurement replaces the result."""
    shares = {key: part[key] for key in LIMITS if key in part}
    report["attempts"].append({"figure": number, "of": part["of"], "time": part["time"], "failures": failures, "shown": shown, **shares, "verdicts": list(verdicts)})


def attempts(report):
    """Returns [(attempt, whether its result was replaced)] for those that a reader would not see elsewhere: a side failed, or there is a later one."""
    used = lambda one: any((part["of"], part["time"]) == (one["of"], one["time"]) for part in report["runs"].get(one["figure"], ()))
    found = [(one, one["shown"] and not used(one)) for one in report.get("attempts", ())]
    return [(one, replaced) for one, replaced in found if one["failures"] or replaced]


def runs(report):
    """Returns [(run, its figures)], in order, for the runs of which the report still has results."""
    found = [(run, [number for number in report["figures"] if any(part["of"] == place for part in report["runs"].get(number, ()))])
             for place, run in enumerate(report["began"])]
    return [(run, figures) for run, figures in found if figures]


def nameless(commit):
    """Returns why readers cannot check out this commit, or None if they can."""
    if commit == UNKNOWN:
        return "its commit is unknown"
    return f"it measures changes that are in no commit: {commit.removesuffix(DIRTY)} has changes" if commit.endswith(DIRTY) else None


def busy(machine):
    """Returns how busy a machine was when a run began, or None if it was quiet."""
    return f"load {machine['load']:.1f} on {machine['cores']} cores" if machine["load"] > machine["cores"] / 4 else None


def taken(report):
    """Yields (whose, {figure's name: share of the processors}) where others took more than the limits."""
    for key, limit in LIMITS.items():
        shares = {_paper.name(number): max((part[key] for part in parts), default=0) for number, parts in report["runs"].items() if number in report["figures"]}
        if many := {name: share for name, share in shares.items() if share > limit}:
            yield key, many


def disturbed(attempt):
    """Says what others used while an attempt was measured, if it was more than the limits; else ""."""
    return "; ".join(f"{TAKEN[key]}: {attempt[key]:.0%}" for key, limit in LIMITS.items() if attempt.get(key, 0) > limit)


def _of_one_code(report):
    """Yields why the figures are not of one known code."""
    parts = [(number, part) for number in report["figures"] for part in report["runs"].get(number, ())]
    for number, part in parts:
        if part["changed"]:
            yield f"the code changed while {_paper.name(number)} was measured: {', '.join(part['changed'])}"
    codes = {tuple(sorted(part["code"].items())) for _, part in parts}
    if len(codes) > 1:
        yield "its figures are of several states of the code"
    if wrong := {part["code"]["built"] for _, part in parts if part["code"]["built"] != part["code"]["commit"]}:
        yield f"the installed package is not known to be of the commit, but of {', '.join(sorted(wrong))}: make paper builds it"


def unfit(report):
    """Returns why readers could not repeat the measurement of this report, or None if it is of one known code, one machine, and nothing else was running."""
    used = [run for run, _ in runs(report)]
    commits = sorted({run["commit"] for run in used})
    why = [f"its figures come from several commits: {', '.join(commits)}"] if len(commits) > 1 else []
    why += [one for one in map(nameless, commits or [UNKNOWN]) if one]
    why += _of_one_code(report)
    machines = {tuple(sorted((key, value) for key, value in run["machine"].items() if key != "load")) for run in used}
    why += ["its figures come from several machines"] if len(machines) > 1 else []
    why += [f"the machine was busy when a run began ({load})" for run in used if (load := busy(run["machine"]))]
    why += [f"{TAKEN[key]}: {', '.join(f'{share:.0%} ({name})' for name, share in many.items())}" for key, many in taken(report)]
    return "; ".join(why) or None
