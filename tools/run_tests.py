"""Runs the tests and counts them: lints, link and header checks, C++ unit tests, Python tests. Every step runs even if one before
it failed; the last line says how many passed and failed, and the exit status is 1 if any failed.

  run_tests.py --tree build/release --jobs 2 all     everything
  run_tests.py --tree build/release --jobs 2 fast    leaves out Python tests marked slow
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "results"
PYTHON_TESTS = ["tools/lint", "tests/plugin", "tests/wire", "tests/wheel", "python/tests", "tests/e2e"]
LONG_TESTS = ["tests/plugin", "python/tests", "tests/e2e"]  # worth a process for each processor
MOST_PROCESSES = 8  # each with its cluster takes up to 3 GiB
# What every supported jaxlib has to pass; the older ones have environments of their own.
CLIENT_TESTS = ["tests/wire", "tests/e2e/test_arrays.py", "tests/e2e/test_programs.py", "tests/e2e/test_sharding.py",
                "tests/e2e/test_callbacks.py", "tests/e2e/test_program_tracer.py", "tests/e2e/test_program_values.py",
                "tests/e2e/test_program_effects.py", "tests/e2e/test_program_errors.py"]


class Tally:
    """Counts of every step, and the lines that the end of the run shows."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lines, self.failures = [], []

    def add(self, step, passed, failed, skipped=0, seconds=0.0, failures=()):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        skip = f", {skipped} skipped" if skipped else ""
        self.lines.append(f"  {step:<12} {passed:>5} passed, {failed:>3} failed{skip}  ({seconds:.0f} s)")
        self.failures.extend(f"  {step}: {name}" for name in failures)

    def show(self):
        print("\n" + "=" * 72)
        for line in self.lines + (["failed:"] + self.failures if self.failures else []):
            print(line)
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""))


def run(command, output=None, **kwargs):
    """(status, seconds). output: a file that gets what it prints, shown when it has ended: for those that run side by side."""
    title, start = "\n--- " + " ".join(str(c) for c in command), time.monotonic()
    if output is None:
        print(title, flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False, **kwargs).returncode
    else:
        with open(output, "wb") as file:
            code = subprocess.run(command, cwd=ROOT, check=False, stdout=file, stderr=file, **kwargs).returncode
        print(title, output.read_text(errors="replace"), sep="\n", flush=True)
    return code, time.monotonic() - start


def yes_or_no(tally, step, command):
    """A step that is one check: a lint, or a target that builds or does not."""
    code, seconds = run(command)
    tally.add(step, int(code == 0), int(code != 0), 0, seconds, [] if code == 0 else [" ".join(map(str, command))])


def junit_counts(path):
    """(passed, skipped, names of the failed) of a JUnit file, or None if the run did not get as far as writing it."""
    if not path.exists():
        return None
    passed, skipped, failures = 0, 0, []
    for case in xml.parse(path).getroot().iter("testcase"):
        name = "::".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") in ("fail", "timeout"):
            failures.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failures


def cpp_tests(tally, tree, jobs):
    """ctest runs the binary of each folder; the cases inside are counted from what GoogleTest writes."""
    gtest, report = ROOT / tree / "gtest", RESULTS / "ctest.xml"
    shutil.rmtree(gtest, ignore_errors=True)
    code, seconds = run(["ctest", "--test-dir", tree, "-j", str(jobs), "--output-on-failure", "--output-junit", report])
    if not report.exists():
        tally.add("C++", 0, 1, 0, seconds, ["ctest did not run"])
        return
    passed, skipped, failures = 0, 0, []
    for path in sorted(gtest.glob("*.xml")):
        p, s, f = junit_counts(path)
        passed, skipped, failures = passed + p, skipped + s, failures + f
    if code != 0 and not failures:  # crashed, timed out or was not built: GoogleTest wrote nothing
        failures = [c.get("name") for c in xml.parse(report).getroot().iter("testcase") if c.get("status") != "run"] or ["ctest"]
    tally.add("C++", passed, len(failures), skipped, seconds, failures)


def ir_tests(tally, tree, jobs):
    report = RESULTS / "ir.xml"
    lit = pathlib.Path(sys.executable).parent / "lit"
    code, seconds = run([lit, "-q", f"-j{jobs}", f"--param=tree={tree}", f"--xunit-xml-output={report}", "tests/ir"])
    passed, skipped, failures = junit_counts(report) or (0, 0, [f"lit ended with {code} and wrote no report"])
    tally.add("tests/ir", passed, len(failures), skipped, seconds, failures or ([f"lit ended with {code}"] if code else []))


def pytest(step, python, paths, scope, output=None, jobs=1):
    """What Tally.add takes. jobs: so many files of tests at a time, each process with a cluster of its own."""
    report = RESULTS / (step.replace("/", "-").replace(" ", "-") + ".xml")
    command = [python, "-m", "pytest", "-q", "-rf", "--junitxml", report, *paths]
    if jobs > 1:
        command += ["-n", str(min(jobs, MOST_PROCESSES)), "--dist", "loadfile"]
    if scope == "fast":
        command += ["-m", "not slow"]
    code, seconds = run(command, output)
    counts = junit_counts(report)
    if counts is None:
        return step, 0, 1, 0, seconds, [f"pytest ended with {code} and wrote no report"]
    passed, skipped, failures = counts
    if code not in (0, 5) and not failures:
        failures = [f"pytest ended with {code}"]
    return step, passed, len(failures), skipped, seconds, failures


def python_tests(tally, scope, jobs):
    for folder in PYTHON_TESTS:
        tally.add(*pytest(folder, sys.executable, [folder], scope, jobs=jobs if folder in LONG_TESTS else 1))
    if scope == "all":
        # The older clients bring no tensorflow: a client needs none, but the workers of a local cluster are its children.
        os.environ["LD_LIBRARY_PATH"] = str(next(ROOT.glob("build/venv/lib/python*/site-packages/tensorflow")))
        venvs = sorted(ROOT.glob("build/venv-jax-*"))
        with concurrent.futures.ThreadPoolExecutor() as pool:  # a client and its cluster wait for each other much of the time
            steps = [pool.submit(pytest, venv.name.removeprefix("venv-"), venv / "bin/python", CLIENT_TESTS, scope,
                                 RESULTS / f"{venv.name}.log") for venv in venvs]
        for step in steps:
            tally.add(*step.result())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default="build/release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("scope", choices=["all", "fast"])
    args = parser.parse_args()

    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    tally = Tally()
    yes_or_no(tally, "lint", [sys.executable, "tools/lint/all.py"])
    yes_or_no(tally, "link tests", ["ninja", "-C", args.tree, f"-j{args.jobs}", "--quiet", "link_tests"])
    yes_or_no(tally, "headers", ["ninja", "-C", args.tree, f"-j{args.jobs}", "--quiet", "check_headers"])
    cpp_tests(tally, args.tree, args.jobs)
    ir_tests(tally, args.tree, args.jobs)
    python_tests(tally, args.scope, args.jobs)
    tally.show()
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
