"""Measures section 5 of the paper as far as one machine can, and renders the results beside the paper's claims. report.html is the page with the pictures,
paper.md the page for the repository. Also writes report.json, report.txt and paper/figureN.png. `pathways bench paper` runs this program.

    run.py --out build/paper            everything
    run.py --minutes 30                 everything, in 30 minutes; leaves out what does not fit, and says so
    run.py --quick                      one round with few calls, some minutes; shows the form only
    run.py --figures 5 table1           only these; the results of the others stay in the report
    run.py --resume                     only what the last run left out, and figures that ended early; its rows stay, also those of sides that failed
    run.py --render                     no measuring: renders report.json again
    run.py --publish                    also copies the page and its pictures into docs/ and quotes it in README, also with --render, if the report is complete, not quick, of one commit
                                        and its build, and nothing else used the machine. First waits for a quiet machine

A process of its own measures each figure, with a time limit; nothing that it started outlives it. A figure that fails or gets stuck keeps its rows and does
not affect the others. report.json is written after each figure, and says which run (commit, command, machine, date) measured it. It keeps all attempts, also
those that failed. A full run keeps the report before it as previous-report.json, and its page says where the two runs have other verdicts.
"""

import argparse
import contextlib
import ctypes
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import _code
import _earlier
import _paper
import _provenance
import _rows

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import _sides  # noqa: E402

ROOT = HERE.parents[1]
NUMBERS = tuple(number for number in _paper.FIGURES if number not in _rows.DERIVED)
LIMIT_SECONDS = 2400  # for one figure
LATE = "not done within"
FAREWELL_SECONDS = 20  # for a figure to write its result once its time is over
# The approximate seconds of each figure on two cores. The minutes of a run are divided in this proportion.
SECONDS = {"5": 620, "6": 540, "7": 155, "8": 290, "9": 90, "table1": 530, "large": 40, "table2": 230, "pipelines": 1040, "10": 120, "12": 75, "islands": 160}
QUIET_SECONDS = 600  # the longest wait for a quiet machine


def measure_one(number, quick, rows):
    """Calls the figure's function, in the figure's own process; returns its result."""
    import importlib

    module = "_pipelines" if number in ("pipelines", "islands") else "_measure" if number.isdecimal() and int(number) < 10 else "_tables"
    return getattr(importlib.import_module(module), f"figure{number}" if number.isdecimal() else number)(quick, rows)


def in_own_process(number, quick, path, limit, known=None):
    """Runs measure_one in a process and a session of its own, and ends all its processes. Returns (the figure or the rows so far, why it is incomplete or
    None). known: the figure from an earlier run."""
    ours = set(_sides.tree(os.getpid()))
    partial = path.with_suffix(".partial")
    for old in (path, partial):
        old.unlink(missing_ok=True)
    if known is not None:
        partial.write_text(json.dumps(known))
    words = [sys.executable, __file__, "--one", number, "--result", path, "--limit", limit, *(["--quick"] if quick else [])]
    process = subprocess.Popen(list(map(str, words)), start_new_session=True)
    why = None
    try:
        status = process.wait(limit + FAREWELL_SECONDS)
    except subprocess.TimeoutExpired:
        why = f"{LATE} {limit:.0f} s"
    finally:
        # Its clients are in this session. Its clusters are in sessions of their own, and end with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_all_but(ours)
    answer = json.loads(path.read_text()) if path.exists() else {}
    figure = answer.get("figure") or (json.loads(partial.read_text()) if partial.exists() else None)
    if "figure" not in answer:
        why = answer.get("failed") or why or f"ended with status {status}; what it said last is above"
    for old in (path, partial):
        old.unlink(missing_ok=True)
    return figure, why


PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes this process the parent of descendants whose own parents end, so that end_all_but finds them."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_all_but(ours):
    """Kills all descendants of this process but `ours`. Those of Ray may be stopped (_systems.Paused), and would stay forever."""
    while left := set(_sides.tree(os.getpid())) - ours:
        _sides.signal_all(left, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):  # not a child of this process, or not yet
                os.waitpid(pid, 0)
    with contextlib.suppress(ChildProcessError):  # those that had ended by themselves
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def one(args):
    """Runs in the figure's own process: measures it and writes the answer."""
    partial = args.result.with_suffix(".partial")
    known = json.loads(partial.read_text()) if partial.exists() else None
    try:
        answer = {"figure": measure_one(args.one, args.quick, _rows.Rows(partial, known, args.limit))}
    except Exception as error:  # becomes part of the report
        import traceback

        traceback.print_exc()
        answer = {"failed": f"{type(error).__name__}: {error}"}
    args.result.write_text(json.dumps(answer))


def machine():
    about = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(":", 1)[1].strip() for line in about if line.startswith("model name")), "unknown processor")
    virtual = any(line.startswith("flags") and "hypervisor" in line.split() for line in about)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": processor, "virtual": virtual, "cores": os.cpu_count(), "memory_gib": round(memory / 2**30), "load": os.getloadavg()[0], **versions()}


def versions():
    """Returns the versions of the compared systems. Ray is in an environment of its own."""
    ray = [line.split("==")[1].strip() for line in (ROOT / "tools" / "requirements-ray.txt").read_text().splitlines() if line.startswith("ray==")]
    found = {}
    for name in ("jax", "tensorflow-cpu"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found | {"ray": ray[0] if ray else "unknown"}


def now():
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def begin(args):
    """Returns (the report so far: empty, or that of an earlier run of the same kind; this run's place among its runs)."""
    report = {"quick": args.quick, "figures": {}, "failed": {}, "runs": {}, "began": [], "attempts": [], "before": None, "first": [], "notes": []}
    path = args.out / "report.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    same = earlier.get("quick") == args.quick and "attempts" in earlier
    if (args.resume or args.figures) and same:
        report |= {key: earlier.get(key, report[key]) for key in report if key != "quick"}
    elif not args.quick:
        if same:
            path.rename(args.out / PREVIOUS)
        report["before"] = before(args.out)
    run = {"begun": now(), "machine": machine(), "commit": _code.commit(ROOT), "command": " ".join(["bench/paper/run.py", *sys.argv[1:]])}
    return report, _provenance.begin(report, run)


PREVIOUS = "previous-report.json"


def before(out):
    """Returns the record of the full run before this one: of its report, or beside the published page, whichever is later; None if there is neither."""
    found = [_earlier.record(json.loads((out / PREVIOUS).read_text()))] if (out / PREVIOUS).exists() else []
    published = ROOT / _code.RECORD
    found += [json.loads(published.read_text())] if published.exists() else []
    return max(found, key=lambda one: one["begun"], default=None)


def unfinished(report, number):
    """Returns what of a figure is still to be measured, or None. Sides that failed have been measured."""
    failed = report["failed"].get(number)
    if failed and _rows.is_unmeasured(failed):
        return failed
    if number not in report["figures"]:
        return None if failed else "not measured yet"
    return "; ".join(f"{name}: {why}" for name, why in _rows.missing(report["figures"][number]).items()) or None


def limit_of(number, wanted, args, spent):
    """Returns the seconds for this figure, the first of `wanted`: its share of the minutes that are left, if these are limited."""
    if args.minutes is None:
        return args.limit
    return max(0, min(args.limit, (args.minutes * 60 - spent) * SECONDS[number] / sum(SECONDS[one] for one in wanted)))


def progress(wanted, place, spent, limit, quick):
    """Returns the message before the figure at this place of `wanted`: the expected time of this figure and of all, on two quiet cores."""
    whole = "" if quick else f", of about {spent + sum(SECONDS[number] for number in wanted[place:]):.0f}"
    one = "" if quick else f"about {SECONDS[wanted[place]]} s for this one, "
    return f"{place + 1} of {len(wanted)}: {_paper.name(wanted[place])} ... ({spent:.0f} s so far{whole}; {one}at most {limit:.0f} s)"


def say(text):
    print(f"paper: {text}", file=sys.stderr, flush=True)


class Outsiders:
    """Measures how much of the processors others use meanwhile: other guests of the hardware, and processes of this machine outside the tree of `root`."""

    def __init__(self, root):
        self._root = root
        self._begin = self._now()

    def _now(self):
        return {"wall": time.monotonic(), "stolen": _sides.stolen_seconds(), "others": _sides.outside_seconds(self._root)}

    def shares(self):
        """Returns the shares of all processors' time."""
        spent = {key: now - self._begin[key] for key, now in self._now().items()}
        every = spent["wall"] * os.cpu_count()
        return {key: max(0.0, spent[key]) / every for key in ("stolen", "others")}


def measure(args):
    report, run = begin(args)
    code = _code.identity(ROOT)
    if mixed := {one["commit"] for one, _ in _provenance.runs(report)} - {report["began"][run]["commit"]}:
        say(f"what earlier runs measured is of another commit ({', '.join(sorted(mixed))}): the page will say so, and may not be published")
    wanted = [number for number in args.figures or NUMBERS if not args.resume or unfinished(report, number) or number in report["failed"]]
    start = time.monotonic()
    for place, number in enumerate(wanted):
        begun, outsiders = time.monotonic(), Outsiders(os.getpid())
        limit = limit_of(number, wanted[place:], args, begun - start)
        say(progress(wanted, place, begun - start, limit, args.quick))
        known = report["figures"].get(number) if args.resume else None
        figure, why = in_own_process(number, args.quick, args.out / f"figure{number}.json", limit, known)
        took, shares, code, then = time.monotonic() - begun, outsiders.shares(), _code.identity(ROOT), code
        if why and limit < LIMIT_SECONDS and why.startswith(LATE):
            why = f"{_rows.NO_TIME}: {why}"
        part = {"of": run, "time": now(), "seconds": round(took, 1), **shares, "code": then, "changed": _code.changed(then, code)}
        note(report, number, known, figure, why, part)
        say(f"{_paper.name(number)}: {took:.0f} s" + (f"; not all of it: {missing}" if (missing := unfinished(report, number)) else ""))
        report["figures"] = {key: report["figures"][key] for key in NUMBERS if key in report["figures"]}
        report["first"] = _earlier.record(report)["verdicts"]
        temporary = args.out / "report.json.new"
        temporary.write_text(json.dumps(report, indent=1))
        temporary.rename(args.out / "report.json")
    return report


def note(report, number, known, figure, why, part):
    """Puts a measurement of a figure into the report. known: the figure from an earlier run; why: it is incomplete, or None; part: see _provenance."""
    new = figure is not None and figure != known
    failures = {what: one for what, one in _rows.failures(figure).items() if what not in _rows.failures(known)} if new else {}
    if why and not _rows.is_unmeasured(why):
        failures["the rest" if figure else "all"] = why
    if new:
        report["figures"][number] = figure
        _provenance.measured(report, number, part, kept=_rows.kept(known, figure))
    if new or failures:
        _provenance.attempted(report, number, part, failures, new, _earlier.verdicts(report, number) if new else ())
    report["failed"].pop(number, None)
    if why is not None:  # the other figures are still useful
        report["failed"][number] = why


def say_what_is_missing(report, asked):
    """Prints what failed, what is missing of the figures in `asked` and how to measure it; returns whether anything is missing."""
    for number in asked:
        for what, why in _rows.failures(report["figures"].get(number)).items():
            print(f"paper: {_paper.name(number)}, {what}: FAILED: {why}")
        if (why := report["failed"].get(number)) and not _rows.is_unmeasured(why):
            print(f"paper: {_paper.name(number)}: FAILED: {why}")
    left = {number: why for number in asked if (why := unfinished(report, number))}
    for number, why in left.items():
        print(f"paper: {_paper.name(number)} is not all there: {why}")
    if left:
        print("paper: make paper RESUME=1 goes on with what is missing, and keeps the rest;\n"
              f"paper: make paper FIGURES=\"{' '.join(left)}\" measures all of these anew")
    return bool(left)


def unpublishable(report):
    """Returns why the page must not be in docs/, or None."""
    if report["quick"]:
        return "a quick run is good for its form only"
    if left := [number for number in NUMBERS if unfinished(report, number)]:
        return "not all is measured: " + " ".join(left)
    words = _provenance.nameless(_code.commit(ROOT))
    return _provenance.unfit(report) or (words and f"its words are in no commit ({words})")


def publish(out, report):
    """Copies the page and its pictures into docs/, and writes the record of its verdicts beside it; returns 1 and prints the reason if it may not be there."""
    if why := unpublishable(report):
        print(f"paper: {_code.PAGE} stays as it is: {why}")
        return 1
    page, pictures = (out / "paper.md").read_text(), ROOT / _code.PICTURES
    shutil.rmtree(pictures, ignore_errors=True)
    shutil.copytree(out / "paper", pictures)
    (ROOT / _code.PAGE).write_text(page)
    quote(ROOT / _code.README, page)
    (ROOT / _code.RECORD).write_text(json.dumps({"page": digest_of(page), **_earlier.record(report)}, indent=1) + "\n")
    return 0


QUOTED, END = "<!-- docs/paper.md, in short: written by `make paper PUBLISH=1`, not by hand -->", "<!-- to here -->"


def section(page, title):
    """Returns the paragraphs of a section of the page."""
    return page.partition(f"## {title}\n\n")[2].partition("\n\n## ")[0].split("\n\n")


def in_short(page):
    """Returns what README quotes of the page: the rates beside the rivals', how many of all targets are met and missed, and what these words mean. A stranger
    sees the misses by their number there, and each of them on the page."""
    import _render

    rates, *_, words = section(page, _render.IN_SHORT)
    return "\n\n".join([rates, section(page, _render.VERDICTS_TITLE)[0], words])


def quoted(readme):
    """Returns (the text of README before the quoted results, these results, the text after them)."""
    before, _, rest = readme.read_text().partition(f"{QUOTED}\n")
    found, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{readme} has no place for the results: {QUOTED} ... {END}")
    return before, found.strip("\n"), after


def quote(readme, page):
    """Puts the page's results in short between the marks in README."""
    before, _, after = quoted(readme)
    readme.write_text(f"{before}{QUOTED}\n{in_short(page)}\n{END}{after}")


def digest_of(page):
    return hashlib.sha256(page.encode()).hexdigest()


def edited(root):
    """Returns why docs/paper.md, or what README quotes of it, is not as it was published, or None. A page is never edited by hand: its words would not be of the
    commit that it names."""
    record = root / _code.RECORD
    if not record.exists():  # the page is older than records
        return None
    page = (root / _code.PAGE).read_text()
    if json.loads(record.read_text())["page"] != digest_of(page):
        return f"{_code.PAGE} is not what run.py --publish wrote"
    return None if quoted(root / _code.README)[1] == in_short(page) else f"{_code.README} quotes other results than {_code.PAGE} has"


def cannot_begin(machine):
    """Returns why a run that is to be published must not begin now, or None."""
    load = _provenance.busy(machine)
    return load and f"the machine is busy ({load}): wait until it is quiet, or measure without --publish"


def wait_until_quiet(seconds=QUIET_SECONDS, pause=10, sleep=time.sleep):
    """Waits until the machine is quiet, for example after a build; returns why it is not after that many seconds, or None."""
    for left in range(int(seconds), -1, -pause):
        if not (why := cannot_begin(machine())):
            return None
        if left >= pause:
            say(f"{why}; waiting")
            sleep(pause)
    return why


def render(out, report):
    import _plots
    import _render

    report["words"] = _code.commit(ROOT)
    images = _plots.plots(report)
    pictures = out / "paper"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir()
    for number, image in images.items():
        (pictures / f"figure{number}.png").write_bytes(image)
    (out / "report.txt").write_text(_render.text(report) + "\n")
    (out / "report.html").write_text(_render.page(report, images))
    (out / "paper.md").write_text(_render.markdown(report, images))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "paper")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", nargs="+", choices=NUMBERS)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, metavar="S", help="for each figure (default %(default)s)")
    parser.add_argument("--minutes", type=float, metavar="M", help="for everything: each figure has its share")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--publish", action="store_true", help="paper.md becomes docs/paper.md, if all of it is measured and nothing disturbed it")
    parser.add_argument("--one", choices=NUMBERS, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--plot-python", metavar="PATH", default=str(ROOT / "build" / "venv-paper" / "bin" / "python"), help="one that has matplotlib")
    args = parser.parse_args()
    if args.one:
        return one(args)
    if not args.render and not pathlib.Path(args.plot_python).exists():
        parser.error(f"{args.plot_python}, which draws the plots, is not there: 'make build/venv-paper' installs it, --plot-python names another one")
    args.out.mkdir(parents=True, exist_ok=True)
    adopt_orphans()
    if args.render:
        report = json.loads((args.out / "report.json").read_text())
        render(args.out, report)
        return publish(args.out, report) if args.publish else 0
    if args.publish and (why := "a quick run is good for its form only" if args.quick else _provenance.nameless(_code.commit(ROOT)) or wait_until_quiet()):
        parser.error(f"--publish: {why}")
    report = measure(args)
    subprocess.run([args.plot_python, __file__, "--render", "--out", args.out], check=True)
    print((args.out / "report.txt").read_text())
    print(f"paper: {args.out / 'report.html'}")
    if say_what_is_missing(report, args.figures or NUMBERS):
        return 1
    return publish(args.out, report) if args.publish else 0


if __name__ == "__main__":
    sys.exit(main())
