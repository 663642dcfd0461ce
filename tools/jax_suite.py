"""Runs jax's own tests on this backend, and reports the tests that fail only here. Needs a checkout of jax's `tests` folder of the installed
version, and hypothesis, flatbuffers and matplotlib in addition to the packages of build/venv.

  jax_suite.py --tests jax/tests                      150 tests of each file, drawn with a fixed seed
  jax_suite.py --tests jax/tests --sample 0 fft_test  all of one file

`make jax-matrix` (tools/jax_matrix.py) runs it on supported versions of jax.

A sample of each file runs with JAX_PLATFORMS=pathways on a local cluster of eight devices. Tests that fail there run again on eight of jax's own cpu
devices. Those that pass there count as our failures. A test that ends its process, or exceeds its time, counts as failed, and the rest of the file
runs in a new process. The results are one line for each file, and JSON lines in --out/results.jsonl.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = {"JAX_PLATFORMS": "pathways", "PATHWAYS_LOCAL": "1x1x8"}
CPU = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
_RESTARTS = 12  # of one file, after tests that ended the process


# --- inside pytest: draws the sample, writes down what happens -------------------------------------------------------------------------
def _say(**line):
    with open(os.environ["JAX_SUITE_OUT"], "a") as out:
        out.write(json.dumps(line) + "\n")


def _plan():
    return json.loads(os.environ["JAX_SUITE_PLAN"])


def pytest_collection_modifyitems(config, items):
    del config
    plan = _plan()
    _say(collected=len(items))
    if plan["only"]:
        only = set(plan["only"])
        items[:] = [item for item in items if item.nodeid in only]
    elif plan["sample"] and len(items) > plan["sample"]:
        chosen = set(random.Random(plan["seed"]).sample(range(len(items)), plan["sample"]))
        chosen |= {i for i, item in enumerate(items) if any(fnmatch.fnmatchcase(item.nodeid, one) for one in plan["also"])}
        items[:] = [items[i] for i in sorted(chosen)]
    done = set(plan["done"])
    _say(chosen=len(items))
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_runtest_logstart(nodeid, location):
    del location
    _say(start=nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        _say(test=report.nodeid, outcome=report.outcome, seconds=round(report.duration, 2),
             text=str(report.longrepr)[-3000:] if report.failed else "")


# --- outside ---------------------------------------------------------------------------------------------------------------------------
class Outcomes:
    """The results of one file on one backend: {test: (outcome, text)}. A later outcome of the same test (its teardown) replaces any but a failure."""

    def __init__(self):
        self.tests, self.collected, self.chosen, self.unfinished = {}, 0, 0, False

    def read(self, path):
        started = None
        for line in path.read_text().splitlines() if path.exists() else ():
            line = json.loads(line)
            self.collected = line.get("collected", self.collected)
            self.chosen = line.get("chosen", self.chosen)
            started = line.get("start", started)
            if "test" in line:
                if self.tests.get(line["test"], ("passed",))[0] != "failed":
                    self.tests[line["test"]] = (line["outcome"], line["text"])
                started = None
        return started

    def of(self, outcome):
        return [test for test, (what, _) in self.tests.items() if what == outcome]


def run_file(path, platform, args, only=()):
    """Runs the tests of a file until all have run, the file's time is over, or too many tests have ended the process."""
    result, deadline = Outcomes(), time.monotonic() + args.file_seconds
    lines = args.out / f"{path.stem}-{platform['JAX_PLATFORMS']}.jsonl"
    for _ in range(_RESTARTS):
        lines.unlink(missing_ok=True)
        plan = {"sample": args.sample, "seed": args.seed, "only": list(only), "done": list(result.tests),
                "also": args.also}
        environment = os.environ | platform | {"JAX_SUITE_OUT": str(lines), "JAX_SUITE_PLAN": json.dumps(plan),
                                               "JAX_NUM_GENERATED_CASES": str(args.cases),
                                               "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")])}
        # A pytest configuration in a folder above must not change how the tests run, or their names.
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", "-p", "jax_suite", "-p", "no:cacheprovider",
                   f"--timeout={args.test_seconds}", "--timeout-method=thread", path.name]
        log = args.out / f"{path.stem}-{platform['JAX_PLATFORMS']}.log"
        with open(log, "wb") as output:
            try:
                code = subprocess.run(command, cwd=path.parent, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False,
                                      timeout=max(1, deadline - time.monotonic())).returncode
            except subprocess.TimeoutExpired:
                result.read(lines)
                result.unfinished = True
                return result
        started = result.read(lines)
        if started is None:
            if code not in (0, 1, 5):
                result.tests[path.name] = ("failed", f"pytest ended with {code}: " + log.read_text(errors="replace")[-1500:])
            return result
        result.tests[started] = ("failed", f"ended the process ({code}): " + log.read_text(errors="replace")[-1500:])
    result.unfinished = True
    return result


def examine(path, args):
    ours = run_file(path, OURS, args)
    failed = ours.of("failed")
    cpu = run_file(path, CPU, args, only=failed) if failed else Outcomes()
    good = set(cpu.of("passed"))
    row = {"file": path.stem, "collected": ours.collected, "chosen": ours.chosen, "passed": ours.of("passed"),
           "skipped": len(ours.of("skipped")), "failed_on_both": len([t for t in failed if t not in good]),
           "failed_on_ours_only": {t: ours.tests[t][1] for t in failed if t in good}, "unfinished": ours.unfinished,
           "collection_error": "" if ours.collected else last_error(ours.tests.get(path.name, ("", ""))[1])}
    with open(args.out / "results.jsonl", "a") as out:
        out.write(json.dumps(row) + "\n")
    only_ours = row["failed_on_ours_only"]
    print(f"{row['file']:<36} {row['collected']:>6} there, {len(row['passed']):>4} passed, {row['skipped']:>4} skipped, "
          f"{row['failed_on_both']:>3} failed on both, {len(only_ours):>3} on ours only{'  (time was up)' if ours.unfinished else ''}", flush=True)
    for test, text in only_ours.items():
        print(f"    {test}\n        {last_error(text)}", flush=True)
    return not only_ours


def last_error(text):
    errors = [line for line in text.splitlines() if line.startswith("E  ")] or text.strip().splitlines()
    return errors[-1][:200] if errors else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=pathlib.Path, required=True, help="the folder of jax's tests")
    parser.add_argument("--sample", type=int, default=150, help="tests of each file, 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--also", action="append", default=[], help="run tests of this name too ('*': any text), whatever the sample is")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--cases", type=int, default=2, help="JAX_NUM_GENERATED_CASES")
    parser.add_argument("--test-seconds", type=int, default=120)
    parser.add_argument("--file-seconds", type=int, default=1800)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "jax_suite")
    parser.add_argument("files", nargs="*", help="names of test files without .py; default: all")
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    paths = [args.tests.resolve() / f"{name}.py" for name in args.files] or sorted(args.tests.resolve().glob("*_test.py"))
    (args.out / "results.jsonl").unlink(missing_ok=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        return 0 if all(list(pool.map(lambda path: examine(path, args), paths))) else 1


if __name__ == "__main__":
    sys.exit(main())
