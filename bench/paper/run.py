"""Section 5 of the paper on this machine, figures 5 to 12 and tables 1 and 2: measures, and writes report.json, report.txt, figureN.png and
report.html, the one page with all of them and the paper's numbers beside. Also `pathways bench paper`.

    run.py --out build/paper            everything
    run.py --quick                      one round of little: minutes, good for the form only
    run.py --figures 5 table1           some
    run.py --render                     no measuring: the page anew from report.json
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NUMBERS = ("5", "6", "7", "8", "9", "table1", "table2", "10", "12", "large")


def measure(args):
    import importlib.metadata

    import _measure
    import _tables

    functions = {number: getattr(_measure, f"figure{number}") for number in NUMBERS[:5]}
    functions |= {"table1": _tables.table1, "table2": _tables.table2, "10": _tables.figure10, "12": _tables.figure12, "large": _tables.large}
    report = {"time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "quick": args.quick, "figures": {}, "failed": {},
              "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0], "jax": importlib.metadata.version("jax")}}
    for number in args.figures:
        start = time.monotonic()
        print(f"paper: figure {number} ...", file=sys.stderr, flush=True)
        try:
            report["figures"][number] = functions[number](args.quick)
        except (RuntimeError, OSError, AssertionError, subprocess.CalledProcessError) as error:  # the others are still worth having
            report["failed"][number] = f"{type(error).__name__}: {error}"
            print(f"paper: figure {number}: {report['failed'][number]}", file=sys.stderr)
        print(f"paper: figure {number}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        (args.out / "report.json").write_text(json.dumps(report, indent=1))
    return report


def render(out, report):
    import _render

    images = _render.plots(report)
    for number, image in images.items():
        (out / f"figure{number}.png").write_bytes(image)
    (out / "report.txt").write_text(_render.text(report) + "\n")
    (out / "report.html").write_text(_render.page(report, images))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "paper")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", nargs="+", choices=NUMBERS, default=list(NUMBERS))
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--plot-python", metavar="PATH", default=str(ROOT / "build" / "venv-paper" / "bin" / "python"), help="one that has matplotlib")
    args = parser.parse_args()
    if not pathlib.Path(args.plot_python).exists():
        parser.error(f"{args.plot_python}, which draws the plots, is not there: 'make build/venv-paper' installs it, --plot-python names another one")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.render:
        return render(args.out, json.loads((args.out / "report.json").read_text()))
    report = measure(args)
    subprocess.run([args.plot_python, __file__, "--render", "--out", args.out], check=True)
    print((args.out / "report.txt").read_text())
    print(f"paper: {args.out / 'report.html'}")
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
