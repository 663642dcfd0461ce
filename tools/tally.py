"""Counts of a run of the tests: what passed, what failed, and what was not run with the reason; compared with the list of what may be skipped."""

import collections
import dataclasses
import re
import xml.etree.ElementTree as xml


@dataclasses.dataclass
class Report:
    """What a JUnit file says. skipped: the reason of each skipped test."""

    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.skipped += other.skipped


def skip_reason(case):
    """The reason on one line. GoogleTest puts file and line on a line before it, pytest hides that of a whole file in the text."""
    skipped = case.find("skipped")
    if skipped is None:
        return f"the runner says '{case.get('status')}'"
    message, text = skipped.get("message") or "", skipped.text or ""
    whole_file = re.search(r"Skipped: (.*?)['\"]\)\s*$", text, re.DOTALL) if message == "collection skipped" else None
    lines = (whole_file.group(1) if whole_file else message or text).strip().splitlines()
    return lines[-1].strip() if lines else "no reason is given"


def read_junit(path):
    """The Report of a JUnit file, or None if the run did not get as far as writing it."""
    if not path.exists():
        return None
    report = Report()
    for case in xml.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") in ("fail", "timeout"):
            report.failures.append("::".join(filter(None, [case.get("classname"), case.get("name")])))
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            report.skipped.append(skip_reason(case))
        else:
            report.passed += 1
    return report


class ExpectedSkips:
    """The checked-in list: a line 'step | most | reason' says that at most so many tests of a step are skipped for that reason. A '*' in a
    reason stands for any text."""

    def __init__(self, text):
        self.entries = []
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                step, most, reason = (part.strip() for part in line.split("|", 2))
                self.entries.append((step, int(most), reason))

    @staticmethod
    def _covers(entry, step, reason):
        pattern = ".*".join(re.escape(part) for part in entry[2].split("*"))
        return entry[0] == step and re.fullmatch(pattern, reason)

    def compare(self, counts):
        """counts: {(step, reason): how many}. Returns (lines for those beyond the list, lines for entries that nothing fits any more)."""
        beyond, seen = [], collections.Counter()
        for (step, reason), count in sorted(counts.items()):
            entry = next((e for e in self.entries if self._covers(e, step, reason)), None)
            seen[entry] += count
            if entry is None:
                beyond.append(f"{step}: {count} not on the list: {reason}")
            elif seen[entry] > entry[1]:
                beyond.append(f"{step}: {seen[entry]}, and {entry[1]} are on the list: {reason}")
        return beyond, [" | ".join(map(str, entry)) for entry in self.entries if not seen[entry]]


class Tally:
    """Counts of every step, and the lines that the end of the run shows."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lines, self.failures = [], []
        self.skips = collections.Counter()  # {(step, reason): how many}
        self.absent, self.notes = [], []

    def add(self, step, report, seconds=0.0):
        self.passed += report.passed
        self.failed += len(report.failures)
        self.skips.update((step, reason) for reason in report.skipped)
        skip = f", {len(report.skipped)} skipped" if report.skipped else ""
        self.lines.append(f"  {step:<26} {report.passed:>5} passed, {len(report.failures):>3} failed{skip}  ({seconds:.0f} s)")
        self.failures.extend(f"  {step}: {name}" for name in report.failures)

    def not_run(self, what, remedy):
        """Tests of which no count is known, because the run left them out as a whole."""
        self.absent.append(f"  {what}: {remedy}")

    def compare_skips(self, expected, strict):
        """Compares what was not run with the list. strict: more than the list allows is a failure."""
        counts = dict(self.skips)
        counts.update({("not run", line.strip()): 1 for line in self.absent})
        beyond, gone = expected.compare(counts)
        if strict:
            self.add("skips on the list", Report(passed=int(not beyond), failures=beyond))
        else:
            self.notes += [f"  more than tools/expected_skips.txt says, which CI refuses: {line}" for line in beyond]
        self.notes += [f"  tools/expected_skips.txt has a line that nothing fits: {line}" for line in gone]

    def summary(self):
        """The lines that end the run. The very last one is read by machines."""
        lines = ["=" * 72, *self.lines]
        lines += ["failed:", *self.failures] if self.failures else []
        skips = [f"  {count:>4} of {step}: {reason}" for (step, reason), count in sorted(self.skips.items())]
        lines += ["not run:", *skips, *self.absent] if skips or self.absent else []
        lines += ["notes:", *self.notes] if self.notes else []
        skipped = sum(self.skips.values())
        return [*lines, f"{self.passed} passed, {self.failed} failed" + (f", {skipped} skipped" if skipped else "")]
