"""Runs the end-to-end tests on the newest jax, flax, optax, orbax and pathwaysutils of the registry, and reports failures with the versions. It is for
a scheduled job: other tests use the versions that tools/requirements-newest.txt pins.

  newest.py --tree build/release                    all of tests/e2e
  newest.py --tree build/release tests/e2e/arrays/test_arrays.py
"""

import argparse
import json
import subprocess
import sys

from run_tests import RESULTS, ROOT, Environment, pytest
from tally import Tally

UNPINNED = Environment(ROOT / "build" / "venv-unpinned")
PINS = ROOT / "tools" / "requirements-newest.txt"
LIBRARIES = ["jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "pathwaysutils", "numpy"]
ASK = "import importlib.metadata as m, json, sys; print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"


def pinned():
    """Returns {package: version} of the newest supported versions."""
    lines = [line for line in PINS.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def installed(environment):
    done = subprocess.run([environment.python, "-c", ASK, *LIBRARIES], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compare(supported, found):
    """Returns a line for each library: the supported version, and the registry's."""
    lines = []
    for name in LIBRARIES:
        same = "" if supported.get(name) == found[name] else "  NEWER than what is supported"
        lines.append(f"  {name:<18} supported {supported.get(name, 'none'):<12} installed {found[name]}{same}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default="build/release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("tests", nargs="*", default=["tests/e2e"])
    args = parser.parse_args()
    subprocess.run(["tools/setup.sh", "unpinned"], cwd=ROOT, check=True)
    subprocess.run(["tools/wheel.sh", args.tree, UNPINNED.folder], cwd=ROOT, check=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    tally = Tally()
    tally.lines += compare(pinned(), installed(UNPINNED))
    tally.add(*pytest("newest", UNPINNED.python, args.tests, "all", jobs=args.jobs))
    print("", *tally.summary(), sep="\n")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
