"""Runs every benchmark one after another: the binaries named *_bench of a build tree, and bench/*.py. Each prints a line or a few
for people and writes JSON to build/bench/NAME.json (it gets `--json PATH`)."""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", default="build/release")
    parser.add_argument("only", nargs="*", help="names to run; all when none is given")
    args = parser.parse_args()
    out = ROOT / "build" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    benches = {p.stem: [p] for p in sorted((ROOT / args.tree).glob("bin/*_bench"))}
    benches |= {p.stem: [sys.executable, p] for p in sorted((ROOT / "bench").glob("*.py")) if not p.name.startswith("_")}
    failed = []
    for name, command in benches.items():
        if args.only and name not in args.only:
            continue
        print(f"--- {name}", flush=True)
        if subprocess.run(command + ["--json", out / f"{name}.json"], cwd=ROOT, check=False).returncode:
            failed.append(name)
    print("bench: results in build/bench" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
