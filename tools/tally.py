"""Counts passed, failed and skipped tests of a run, and compares the skipped ones with the list of expected skips."""

import collections
import dataclasses
import re
import xml.etree.ElementTree as xml


@dataclasses.dataclass
class Report:
    """The results in a JUnit file. skipped: the reason of each skipped test."""

    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.skipped += other.skipped


def skip_reason(case):
    """Returns the reason of a skip, on one line. GoogleTest has file and line on a line before; pytest has the reason of a whole file in the text."""
    skipped = case.find("skipped")
    if skipped is None:
        return f"the runner says '{case.get('status')}'"
    message, text = skipped.get("message") or "", skipped.text or ""
    whole_file = re.search(r"Skipped: (.*?)['\"]\)\s*$", text, re.DOTALL) if message == "collection skipped" else None
    lines = (whole_file.group(1) if whole_file else message or text).strip().splitlines()
    return lines[-1].strip() if lines else "no reason is given"


def read_junit(path):
    """Returns the Report of a JUnit file, or None if the run did not write it."""
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
    """The list of expected skips. A line 'step | most | reason' allows `most` skipped tests of a step with that reason. A '*' in a reason stands for
    any text."""

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
        """Returns (lines for skips that the list does not allow, lines for entries that match no skip). counts: {(step, reason): number}."""
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
    """The counts of all steps, and the lines that are printed at the end of the run."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lines, self.failures = [], []
        self.skips = collections.Counter()  # {(step, reason): number}
        self.absent, self.notes = [], []

    def add(self, step, report, seconds=0.0):
        self.passed += report.passed
        self.failed += len(report.failures)
        self.skips.update((step, reason) for reason in report.skipped)
        skip = f", {len(report.skipped)} skipped" if report.skipped else ""
        self.lines.append(f"  {step:<26} {report.passed:>5} passed, {len(report.failures):>3} failed{skip}  ({seconds:.0f} s)")
        self.failures.extend(f"  {step}: {name}" for name in report.failures)

    def not_run(self, what, remedy):
        """Notes tests that the run left out as a whole, so their number is unknown."""
        self.absent.append(f"  {what}: {remedy}")

    def compare_skips(self, expected, strict):
        """Compares skipped tests with the list. strict: skips that the list does not allow are failures."""
        counts = dict(self.skips)
        counts.update({("not run", line.strip()): 1 for line in self.absent})
        beyond, gone = expected.compare(counts)
        if strict:
            self.add("skips on the list", Report(passed=int(not beyond), failures=beyond))
        else:
            self.notes += [f"  more than tools/expected_skips.txt says, which CI refuses: {line}" for line in beyond]
        self.notes += [f"  tools/expected_skips.txt has a line that nothing fits: {line}" for line in gone]

    def summary(self):
        """Returns the last lines of the run. The very last one is for programs to read."""
        lines = ["=" * 72, *self.lines]
        lines += ["failed:", *self.failures] if self.failures else []
        skips = [f"  {count:>4} of {step}: {reason}" for (step, reason), count in sorted(self.skips.items())]
        lines += ["not run:", *skips, *self.absent] if skips or self.absent else []
        lines += ["notes:", *self.notes] if self.notes else []
        skipped = sum(self.skips.values())
        return [*lines, f"{self.passed} passed, {self.failed} failed" + (f", {skipped} skipped" if skipped else "")]
