"""Runs and counts the tests: lints, link and header checks, C++ unit tests, Python tests. A step runs even if earlier ones have failed.
The last lines list the tests that were not run, with the reasons. The very last line has the numbers of passed, failed and skipped tests.
The exit status is 1 if a test failed. With CI=true, a skipped test that is not on tools/expected_skips.txt is a failure too.

  run_tests.py --tree build/release --jobs 2 all     everything
  run_tests.py --tree build/release --jobs 2 fast    leaves out Python tests marked slow

The whole Python suite runs on the newest jax (build/venv-newest), or else in build/venv. CLIENT_TESTS run there by the PJRT door too, and in each
other environment.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

from tally import ExpectedSkips, Report, Tally, read_junit

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "results"
PYTHON_TESTS = ["tools/lint", "tools/tests", "tests/plugin", "tests/wire", "tests/wheel", "python/tests", "tests/e2e"]
LONG_TESTS = ["tests/plugin", "python/tests", "tests/e2e"]  # worth a process for each processor
MOST_PROCESSES = 8  # each with its cluster takes up to 3 GiB
# Every supported jax must pass these. tests/wire is not among them: it checks the jaxlib of every environment itself.
CLIENT_TESTS = [f"tests/e2e/{test}.py" for test in (
    "arrays/test_arrays", "arrays/test_moves", "arrays/test_sharding", "clients/test_devices", "programs/test_callback_order",
    "programs/test_callbacks", "programs/test_colocated_python", "programs/test_host_functions", "programs/test_newer_programs",
    "programs/test_program_effects", "programs/test_program_errors", "programs/test_program_tracer", "programs/test_program_values",
    "programs/test_programs")]


@dataclasses.dataclass(frozen=True)
class Environment:
    """A Python environment made by tools/setup.sh, with one version of jax."""

    folder: pathlib.Path

    @property
    def python(self):
        return self.folder / "bin" / "python"

    def exists(self):
        return self.python.exists()

    def jax(self):
        found = list(self.folder.glob("lib/python3*/site-packages/jax-*.dist-info"))
        return found[0].name.removeprefix("jax-").removesuffix(".dist-info") if found else "unknown"


BUILD = Environment(ROOT / "build" / "venv")
NEWEST = Environment(ROOT / "build" / "venv-newest")
OLDER = [Environment(ROOT / "build" / f"venv-{file.stem.removeprefix('requirements-')}")
         for file in sorted(ROOT.glob("tools/requirements-jax-[0-9]*.txt"))]


def run(command, output=None, **kwargs):
    """Runs a command; returns (status, seconds). output, for commands that run in parallel: a file for the text, which is printed at the end."""
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
    """Runs a step that counts as one test, such as a lint or a build target."""
    code, seconds = run(command)
    tally.add(step, Report(passed=int(code == 0), failures=[] if code == 0 else [" ".join(map(str, command))]), seconds)


def cpp_tests(tally, tree, jobs):
    """Runs the test binaries by ctest, and counts their cases from GoogleTest's reports."""
    gtest, junit = ROOT / tree / "gtest", RESULTS / "ctest.xml"
    shutil.rmtree(gtest, ignore_errors=True)
    code, seconds = run(["ctest", "--test-dir", tree, "-j", str(jobs), "--output-on-failure", "--output-junit", junit])
    if not junit.exists():
        tally.add("C++", Report(failures=["ctest did not run"]), seconds)
        return
    report = Report()
    for path in sorted(gtest.glob("*.xml")):
        report.add(read_junit(path))
    if code != 0 and not report.failures:  # crashed, timed out or was not built: GoogleTest wrote nothing
        cases = xml.parse(junit).getroot().iter("testcase")
        report.failures = [c.get("name") for c in cases if c.get("status") != "run"] or ["ctest"]
    tally.add("C++", report, seconds)


def ir_tests(tally, tree, jobs):
    junit = RESULTS / "ir.xml"
    lit = BUILD.python.with_name("lit")
    code, seconds = run([lit, "-q", f"-j{jobs}", f"--param=tree={tree}", f"--xunit-xml-output={junit}", "tests/ir"])
    report = read_junit(junit) or Report(failures=[f"lit ended with {code} and wrote no report"])
    if code and not report.failures:
        report.failures = [f"lit ended with {code}"]
    tally.add("tests/ir", report, seconds)


def pytest(step, python, paths, scope, output=None, jobs=1, **env):
    """Runs pytest; returns the arguments for Tally.add. jobs: test files that run at a time, each process with its own cluster. env: added variables."""
    junit = RESULTS / (step.replace("/", "-").replace(" ", "-") + ".xml")
    command = [python, "-m", "pytest", "-q", "-rf", "--junitxml", junit, *paths]
    if jobs > 1:
        command += ["-n", str(min(jobs, MOST_PROCESSES)), "--dist", "loadfile"]
    if scope == "fast":
        command += ["-m", "not slow"]
    code, seconds = run(command, output, env={**os.environ, **env})
    report = read_junit(junit) or Report(failures=[f"pytest ended with {code} and wrote no report"])
    if code == 5:
        report.failures = ["pytest found no test"]
    elif code and not report.failures:
        report.failures = [f"pytest ended with {code}"]
    return step, report, seconds


def suite_environment(tally):
    """Returns the environment for the whole Python suite."""
    if NEWEST.exists():
        return NEWEST
    tally.not_run("every Python test on the newest jax",
                  "build/venv-newest is absent, for want of a Python 3.12 or newer: install one (uv, pyenv) or name it with PYTHON_NEWEST=, "
                  "and run 'make test' again")
    return BUILD


def client_environments(tally, suite):
    found = []
    for one in [BUILD, *OLDER]:
        if not one.exists():
            tally.not_run(f"tests of clients in {one.folder.name}", "the environment is absent: 'make setup' makes it")
        elif one != suite:
            found.append(one)
    return found


def python_tests(tally, scope, jobs):
    suite = suite_environment(tally)
    tally.lines.append(f"  below, what names no version ran on jax {suite.jax()}")
    for folder in PYTHON_TESTS:
        tally.add(*pytest(folder, suite.python, [folder], scope, jobs=jobs if folder in LONG_TESTS else 1))
    if scope == "fast":
        tally.not_run("tests marked slow, and the older clients", "'make test' runs them")
        return
    tally.add(*pytest("clients by the PJRT door", suite.python, CLIENT_TESTS, scope, jobs=jobs, PATHWAYS_DOOR="pjrt"))
    clients = client_environments(tally, suite)
    with concurrent.futures.ThreadPoolExecutor() as pool:  # a client and its cluster wait for each other much of the time
        steps = [pool.submit(pytest, f"clients on jax {one.jax()}", one.python, CLIENT_TESTS, scope, RESULTS / f"{one.folder.name}.log")
                 for one in clients]
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
    if args.scope == "all":
        expected = ExpectedSkips((ROOT / "tools" / "expected_skips.txt").read_text())
        tally.compare_skips(expected, strict=os.environ.get("CI", "").lower() in ("1", "true"))
    print("", *tally.summary(), sep="\n")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
