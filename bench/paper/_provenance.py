"""The runs that measured a report, each with its commit, command, machine and date; and whether the report may be published. Pure.

In a report, "began" is the list of runs, and "runs" has the parts in which each figure was measured: one part, or several if a later run added missing
rows. "of" in a part is the place of its run in "began".
"""

DIRTY, UNKNOWN = "-dirty", "unknown"
FIELDS = ("begun", "commit", "command", "machine")


def begin(report, run):
    """Adds a run to the report; returns its place in the list."""
    report["began"].append({field: run[field] for field in FIELDS})
    return len(report["began"]) - 1


def measured(report, number, part, kept):
    """Notes a part in which a figure, or the rest of it, was measured. kept: rows of its earlier parts are still in it."""
    report["runs"][number] = [*(report["runs"].get(number, []) if kept else []), part]


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


def unfit(report):
    """Returns why readers could not repeat the measurement of this report, or None if it is of one known commit and one machine."""
    used = [run for run, _ in runs(report)]
    commits = sorted({run["commit"] for run in used})
    if len(commits) > 1:
        return f"its figures come from several commits: {', '.join(commits)}"
    if why := nameless(commits[0] if commits else UNKNOWN):
        return why
    machines = {tuple(sorted((key, value) for key, value in run["machine"].items() if key != "load")) for run in used}
    return "its figures come from several machines" if len(machines) > 1 else None
