"""Which runs a report was measured by, each with its commit, command, machine and date; and whether it may be published. Pure.

A report has "began", a list of runs, and for each figure the parts that it was measured in: one, or several where a later run went on with rows that were
missing. A part says by "of" which run of the list it belongs to.
"""

DIRTY, UNKNOWN = "-dirty", "unknown"
FIELDS = ("begun", "commit", "command", "machine")


def begin(report, run):
    """Adds a run to the report; its place in the list."""
    report["began"].append({field: run[field] for field in FIELDS})
    return len(report["began"]) - 1


def measured(report, number, part, kept):
    """A figure was measured, or the rest of one: kept says whether rows of its earlier parts are still in it."""
    report["runs"][number] = [*(report["runs"].get(number, []) if kept else []), part]


def runs(report):
    """[(a run, the figures that came from it)] of those that something is left of, in their order."""
    found = [(run, [number for number in report["figures"] if any(part["of"] == place for part in report["runs"].get(number, ()))])
             for place, run in enumerate(report["began"])]
    return [(run, figures) for run, figures in found if figures]


def nameless(commit):
    """Why this is no commit that one could look up; None if it is."""
    if commit == UNKNOWN:
        return "nobody knows of which commit it is"
    return f"what it measures is in no commit: {commit.removesuffix(DIRTY)} has changes" if commit.endswith(DIRTY) else None


def unfit(report):
    """Why nobody could measure this report again from what it says of itself; None if it is of one commit, which has a name, and of one machine."""
    used = [run for run, _ in runs(report)]
    commits = sorted({run["commit"] for run in used})
    if len(commits) > 1:
        return f"its figures are of several commits: {', '.join(commits)}"
    if why := nameless(commits[0] if commits else UNKNOWN):
        return why
    machines = {tuple(sorted((key, value) for key, value in run["machine"].items() if key != "load")) for run in used}
    return "its figures are of several machines" if len(machines) > 1 else None
