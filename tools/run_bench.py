"""Runs all benchmarks one after another: the binaries named *_bench of a build tree, and bench/*.py. Each prints a few lines, and writes
JSON to build/bench/NAME.json (`--json PATH`). At the end all their targets are listed, with the verdicts."""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def summary(results):
    """Returns a table of all targets in the results."""
    rows = []
    for path in results:
        for goal in json.loads(path.read_text()).get("targets", []) if path.exists() else []:
            value = "-" if goal["value"] is None else f"{goal['value']:.2f}"
            limit = f"{'<=' if goal['at_most'] else '>='} {goal['limit']}"
            rows.append((path.stem, goal["name"], value, limit, {True: "met", False: "MISSED", None: "not measured"}[goal["met"]]))
    widths = [max(len(row[i]) for row in rows) for i in range(5)] if rows else []
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", default="build/release")
    parser.add_argument("only", nargs="*", help="names to run; all when none is given")
    args = parser.parse_args()
    out = ROOT / "build" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    benches = {p.stem: [p] for p in sorted((ROOT / args.tree).glob("bin/*_bench"))}
    benches |= {p.stem: [sys.executable, p] for p in sorted((ROOT / "bench").glob("*.py")) if not p.name.startswith("_")}
    benches["pipeline_bubble_simulated"] = [*benches["pipeline_bubble"], "--simulated"]
    failed, written = [], []
    for name, command in benches.items():
        if args.only and name not in args.only:
            continue
        print(f"--- {name}", flush=True)
        written.append(out / f"{name}.json")
        written[-1].unlink(missing_ok=True)
        tree = ["--tree", args.tree] if command[0] == sys.executable else []
        if subprocess.run(command + ["--json", written[-1], *tree], cwd=ROOT, check=False).returncode:
            failed.append(name)
    print(summary(written))
    print("bench: results in build/bench" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
