"""The command line and output that the benchmarks share: a JSON object on one line, and a few lines for people."""

import argparse
import json
import os
import pathlib
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def arguments(description, add=lambda parser: None):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="PATH", help="write the figures there")
    parser.add_argument("--out", metavar="PATH", help="append the figures there, one line a run")
    parser.add_argument("--tree", default=str(ROOT / "build" / "release"), metavar="DIR", help="build tree with the floors in bin/")
    parser.add_argument("--floor-only", action="store_true", help="without a cluster: what the floors alone can tell")
    add(parser)
    args = parser.parse_args()
    args.tree = pathlib.Path(args.tree).resolve()
    return args


def target(name, value, limit, at_most=True):
    """Returns a figure with its goal. value None: not measured."""
    met = None if value is None else (value <= limit if at_most else value >= limit)
    return {"name": name, "value": value, "limit": limit, "at_most": at_most, "met": met}


def describe(goal):
    sign = "<=" if goal["at_most"] else ">="
    verdict = {True: "met", False: "MISSED", None: "not measured"}[goal["met"]]
    value = "-" if goal["value"] is None else f"{goal['value']:.2f}"
    return f"{goal['name']}: {value} ({sign} {goal['limit']}: {verdict})"


def finish(args, name, figures, targets):
    """Prints and writes the figures; the JSON includes the targets."""
    record = {"bench": name, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cores": os.cpu_count(),
              "load_before": getattr(args, "load", None), "figures": figures, "targets": targets}
    line = json.dumps(record)
    print(line)
    for goal in targets:
        print(f"{name}: {describe(goal)}")
    if args.json:
        pathlib.Path(args.json).write_text(line + "\n")
    if args.out:
        with open(args.out, "a") as file:
            file.write(line + "\n")
