"""Section 5 of the paper on this machine, figures 5 to 12 and tables 1 and 2: measures, and writes report.json, report.txt, figureN.png and
report.html, the one page with all of them and the paper's numbers beside. Also `pathways bench paper`.

    run.py --out build/paper            everything
    run.py --quick                      one round of little: minutes, good for the form only
    run.py --figures 5 table1           these alone; what is known of the others stays in the report
    run.py --resume                     what the last run did not come to, or failed at
    run.py --render                     no measuring: the page anew from report.json

Every figure is measured by a process of its own, which has a time limit and takes all that it started with it: one that fails or gets stuck costs
no other. report.json is written after each.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import _paper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NUMBERS = tuple(_paper.FIGURES)
LIMIT_SECONDS = 1200  # of one figure


def measure_one(number, quick):
    """What the figure's function returns. In the figure's own process."""
    import importlib

    module = "_pipelines" if number in ("pipelines", "islands") else "_measure" if number.isdecimal() and int(number) < 10 else "_tables"
    return getattr(importlib.import_module(module), f"figure{number}" if number.isdecimal() else number)(quick)


def in_own_process(number, quick, path, limit):
    """Runs measure_one in a process and a session of its own; what it returned, or raises with why not. Nothing of it is left."""
    path.unlink(missing_ok=True)
    words = [sys.executable, __file__, "--one", number, "--result", path, *(["--quick"] if quick else [])]
    process = subprocess.Popen(list(map(str, words)), start_new_session=True)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done within {limit:g} s") from None
    finally:
        # Its clusters are in sessions of their own, and end with it; its clients are in this one.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if not path.exists():
        raise RuntimeError(f"ended with status {status}; what it said last is above")
    answer = json.loads(path.read_text())
    path.unlink()
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer["figure"]


def one(args):
    """The figure's own process."""
    try:
        answer = {"figure": measure_one(args.one, args.quick)}
    except Exception as error:  # is told to those who read the report
        import traceback

        traceback.print_exc()
        answer = {"failed": f"{type(error).__name__}: {error}"}
    args.result.write_text(json.dumps(answer))


def begin(args):
    """The report so far: nothing, or what an earlier run of the same kind left."""
    report = {"quick": args.quick, "figures": {}, "failed": {}, "runs": {}}
    path = args.out / "report.json"
    if (args.resume or args.figures) and path.exists():
        earlier = json.loads(path.read_text())
        if earlier.get("quick") == args.quick:
            report |= {key: earlier.get(key, {}) for key in ("figures", "failed", "runs")}
    report |= {"time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
               "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0], "jax": importlib.metadata.version("jax")}}
    return report


def measure(args):
    report = begin(args)
    wanted = [number for number in args.figures or NUMBERS if not (args.resume and number in report["figures"])]
    start = time.monotonic()
    say = lambda text: print(f"paper: {text}", file=sys.stderr, flush=True)
    for place, number in enumerate(wanted, 1):
        load, begun = os.getloadavg()[0], time.monotonic()
        say(f"{place} of {len(wanted)}: {_paper.name(number)} ... ({time.monotonic() - start:.0f} s so far)")
        report["failed"].pop(number, None)
        try:
            report["figures"][number] = in_own_process(number, args.quick, args.out / f"figure{number}.json", args.limit)
        except RuntimeError as error:  # the others are still worth having
            report["failed"][number] = str(error)
            say(f"{_paper.name(number)}: {error}")
        took = time.monotonic() - begun
        report["runs"][number] = {"time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "seconds": round(took, 1), "load": load}
        say(f"{_paper.name(number)}: {took:.0f} s")
        report["figures"] = {key: report["figures"][key] for key in NUMBERS if key in report["figures"]}
        temporary = args.out / "report.json.new"
        temporary.write_text(json.dumps(report, indent=1))
        temporary.rename(args.out / "report.json")
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
    parser.add_argument("--figures", nargs="+", choices=NUMBERS)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, metavar="S", help="for each figure (default %(default)s)")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--one", choices=NUMBERS, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--plot-python", metavar="PATH", default=str(ROOT / "build" / "venv-paper" / "bin" / "python"), help="one that has matplotlib")
    args = parser.parse_args()
    if args.one:
        return one(args)
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
