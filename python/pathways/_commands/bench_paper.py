"""`pathways bench paper`: repeats section 5 of the paper on this machine. The benchmarks are in the source checkout, not in the wheel."""

import os
import pathlib
import subprocess
import sys


def checkout(start):
    """Returns the root of the source checkout that contains `start`; raises ValueError outside a checkout."""
    start = pathlib.Path(start).resolve()
    for folder in (start, *start.parents):
        if (folder / "bench" / "paper" / "run.py").is_file() and (folder / "python" / "pathways").is_dir():
            return folder
    raise ValueError(f"the benchmarks are in the source repository, and {start} is not in a checkout of it: clone the repository and run this there, or "
                     "name the checkout with --checkout DIR")


def bench(args):
    root = checkout(args.checkout or os.getcwd())
    out = pathlib.Path(args.out or root / "build" / "paper").resolve()
    command = [sys.executable, root / "bench" / "paper" / "run.py", "--out", out]
    command += ["--quick"] if args.quick else []
    command += ["--resume"] if args.resume else []
    command += ["--figures", *args.figures] if args.figures else []
    command += ["--minutes", str(args.minutes)] if args.minutes else []
    done = subprocess.run(command, cwd=root, stdout=sys.stderr if args.json else None, check=False)
    if args.json and (out / "report.json").exists():
        print((out / "report.json").read_text())
    return done.returncode
