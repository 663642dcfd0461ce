"""Renders report.json as text, an HTML page and a Markdown page. Measures nothing and does not read the clock."""

import base64
import html

import _earlier
import _found
import _paper
import _provenance
import _rows
import _setup
import _summary
import _targets
import _where
from _setup import Spread

STYLE = ("body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse;margin:1em 0}"
         "td,th{border:1px solid #ccc;padding:.25em .7em;text-align:right}td:first-child,th:first-child{text-align:left}img{max-width:100%}.quiet{color:#666}")


ABOUT = "\n\n".join((
    "The paper is Pathways: Asynchronous Distributed Dataflow for ML (Barham et al., MLSys 2022). It had up to 2,048 TPUs, which are not here. All "
    "processes of all sides run on one machine and share its processors; what else differs is said below each table. Rows such as 2 x 4 are hosts x "
    "devices of each host. Our plugin is the device runtime of our workers: XLA on CPU with our collectives.",
    "Spread: a median has the middle half of the rounds beside it, in brackets. A ratio is the median of the ratios of the single rounds. So it is not "
    "the ratio of the two medians shown, and may be on the other side of 1.",
    "Earlier runs: brackets are of one run, and say nothing of another. Earlier pages on which Ray was not stopped in the turns of others, or the rivals had the C library's allocator, do not compare with this one. "
    "In two runs before this one, a process of jax with our plugin crashed in table 1: once with the C library's "
    "allocator (SIGABRT, 'malloc(): unaligned tcache chunk detected'), once with ours (SIGSEGV, in a thread of the XLA that our plugin uses). The cause is not known; it is probably a fault of our plugin or of its XLA.",
    "A page is published only if it is of one commit, whose code did not change meanwhile, if the machine was quiet when the run began, and if in no figure other processes used more than 5 % of the processors' time, or "
    "other guests of the hardware more than 2 %. A side that gives no answer within 180 s has failed, ours and rivals alike; where models are trained and on simulated devices, within 900 s. If a side fails, ours or another, its row says FAILED, and the page may be published."))
VERDICTS = "\n\n".join((
    "Met: at least three quarters of the rounds of this run reach the target; the column says how many. Missed: at least three quarters do not. Failed: a side has no number. Otherwise, and with fewer than four "
    "rounds, there is no verdict. Figure 6 counts rounds at each length: met if throughputs are equal in three quarters of the rounds at all measured lengths from the target on; missed if at one of these lengths "
    "three quarters of the rounds are not equal. Figure 7 has no verdict where its ratio is no farther from 1 than that of one stage, on the same side. Figure 8 has none where 16 clients reach one client that itself leaves the devices idle or does not reach jax. "
    "Two simulated rows have none where the times of their devices alone decide it: no control path could meet the target, or they are above it by more than what counts as equal. Another run may find another verdict; the last column says where the run before this one did, if it is comparable.",
    f"Chance: a side that is exactly at its target reaches it in half of the rounds on average. Such a side has the verdict met in {100 * _setup.by_chance(4):.0f} % of runs of four rounds, {100 * _setup.by_chance(5):.0f} % of five, and {100 * _setup.by_chance(7):.0f} % of seven, and missed as "
    "often. With as many targets as there are here, some verdicts near their targets are chance.",
    "Targets: the paper's are 1 where it says ahead, or its own number. Our reading of the paper is a target for a row that the "
    "paper has in another form, that it does not compare directly, or of which it says equal (0.97 here) or faster (1 here) without a number. An aim of our own is not the paper's claim. All devices here are CPU devices or simulated, whosever the target is.",
    "Compared: in figures 5, 6 (real devices) and table 1, a verdict compares two systems. Both have the same device plugin, a process for each host, and "
    "as many calls under way. Ours has a client, its agent and a controller besides; ours in one process has a client and one process more than jax; ours by the PJRT door "
    "has one process, as jax. Against Ray, only ours with a process for each task has a verdict. Behind Ray's calls, an actor may have as many computations again under way. Figure 8's verdicts on the CPU device are against one process of jax, with "
    "one program and 16 calls, and with 16 programs and 256 calls, where ours has 16 clients and 256 calls. Table 2's and figure 12's on CPU devices are against jax, or compare ours with itself. All other verdicts compare ours with itself, with "
    "simulated devices, or with weights.",
    "Allocator: our agent, controller and workers have jemalloc, and so has the plugin in the workers. jax and Ray with our plugin are started with the same "
    "library in place of the C library's allocator (LD_PRELOAD), with a thread that gives memory back, as ours have. So is ours "
    "by the PJRT door, whose cluster lives in the program's process. Our client elsewhere is jax without a device plugin and has the C library's allocator, as have jax with its own runtime and TensorFlow.",
    "Under way: as many calls are not as many computations. A chained call has 128, so ours has up to 2,048 under way where jax's opbyop, to which it is "
    "compared, has 16.",
    "Processors: on one host, jax with our plugin computes mostly within its call, so it hardly has calls under way. In figures 5 and 6, the tables of processors in use say how many each side uses. "
    "In tables 1 and 2, and in figures 10 and 12 on CPU devices, this was measured for ours alone, so a side may be ahead there because it uses more processors."))


IN_SHORT, VERDICTS_TITLE = "In short", "Verdicts"
NOT_THE_PAPERS = ("k of n: the rounds that reach the target. Met and MISSED: three quarters of them do, or do not; none: no verdict. Medians of this run, on CPU devices of one machine and on simulated ones; none is a result of TPUs. docs/paper.md has their scatter, says what differs from the paper, and explains the words.")
ATTEMPTS, NOT_ALL = "Measurements with failures, or that were replaced", "Not all there"


def preface(report):
    """Returns what the page is about. "words" in a report is the commit of its words, which may be another one than that of its numbers."""
    parts, words = [ABOUT, _summary.WORDS, before(report)], report.get("words")
    if words not in (None, *(run["commit"] for run, _ in _provenance.runs(report))):
        parts.append(f"The words around the numbers are of commit {words}.")
    return "\n\n".join([*parts, *report.get("notes", ()), *filter(None, [rules_changed(report)]), "This table says which run measured which figures."])


def rules_changed(report):
    """Says which verdicts were others by the rules at the time of the measurement, or ""."""
    first = {tuple(one["of"]): one["verdict"] for one in report.get("first", ())}
    now = {tuple(_earlier.key(one)): one for one in _targets.targets(report)}
    changed = [f"{of[0]}, {of[1]}, on {of[2]}, wanted {of[3]}: {first[of]}; now {one.verdict}" for of, one in now.items() if of in first and _earlier.word(first[of]) != _earlier.word(one.verdict)]
    if not changed:
        return ""
    of = lambda word: sum(_earlier.word(verdict) == word for verdict in first.values())
    return (f"The rules of verdicts were changed after the measurement, because readers of the page found faults in them. By the rules at the time, {of(_setup.MET)} were met, {of(_setup.MISSED)} missed, and {of('none')} without a verdict. "
            f"These are others now: {'. '.join(changed)}.")


def before(report):
    """Says how this run's verdicts differ from those of the run before it."""
    if not report.get("before"):
        return "The run before: none is known, so nothing says here how far verdicts move from run to run."
    found, both = _earlier.others(report)
    begun = f"The run before: begun {report['before']['begun']}, of commit {report['before']['commit']}."
    if why := _earlier.unlike(report):
        again = " Only measurements that were replaced do, below; one of the two was disturbed." if any(replaced for _, replaced in _provenance.attempts(report)) else ""
        return f"{begun} {why[0].upper()}{why[1:]}, so the two cannot be compared, and it does not say how far results move from run to run.{again}{_earlier.scatter(report)}"
    return (f"{begun} Of {both} verdicts that both runs have, {len(found)} are others there; the table of verdicts says which.{_earlier.scatter(report)} "
            "That run may have been of other code.")


def _middle(values, digits=0):
    """Formats rounds: their median, and the range of the middle half of them."""
    spread = Spread.of(values)
    text = f"{spread.median:,.{digits}f}"
    return text + (f" ({spread.low:,.{digits}f} to {spread.high:,.{digits}f})" if spread.rounds > 1 else "")


def _spread(cell):
    return _middle(cell["rounds"])


def _compared5(row, name, kind):
    """Returns (each of our sides / that side, how they differ beyond dispatch or why one failed)."""
    if name in _targets.SHOWN or row.get("simulated"):
        return *("" for _ in _targets.SHOWN), ""
    found = [_targets.compared(row, kind, name, mine=mine) for mine in _targets.SHOWN]
    failed = "; ".join(dict.fromkeys(error for _, error in found if error))
    return *("-" if spread is None else str(spread) for spread, _ in found), f"FAILED: {failed}" if failed else _setup.OTHER_RUNTIME.get(name, "")


def _before(cell):
    """Formats a rate, or of a side that failed the rounds before."""
    return _spread(cell) if "error" not in cell else f"{_setup.FAILED}, before: {_spread(cell)}" if cell.get("rounds") else _setup.FAILED


def why_not(row):
    """Formats the error of a row: a side failed, or the row is still to be measured."""
    return row["error"] if _rows.is_unmeasured(row["error"]) else f"{_setup.FAILED}: {row['error']}"


def _table5(result):
    rows = []
    for row in result["rows"]:
        if "error" in row:
            rows.append([row["name"], "", why_not(row), "", "", *("" for _ in _targets.SHOWN), ""])
            continue
        for side, cell in row["rates"].items():
            name, kind = side.rsplit(", ", 1)
            rows.append([row["name"], kind, name, cell.get("calls", "-"), _before(cell), *_compared5(row, name, kind)])
        if row["hosts"] > 1 and not row.get("simulated"):
            rows += [[row["name"], "all", name, "-", "not run", *("-" for _ in _targets.SHOWN), why] for name, why in _setup.NOT_RUN.items()]
    return ["hosts x devices", "kind", "side", "calls in a turn", "computations/s, median (middle half)", *(f"{mine} / this side, same kind" for mine in _targets.SHOWN.values()),
            "differs beyond dispatch, or failed"], rows


def _table6(result):
    rows = []
    for row in result["rows"]:
        if "error" in row:
            rows.append([row["name"], "", "", why_not(row), "", ""])
        for mine, rival, found in _targets.against(row):
            points = found.get("points", ())
            equal = _setup.FAILED if "error" in found else "not in this range" if found["parity_ms"] is None else f"{_targets.between(found)} ms"
            each = ", ".join(f"{p['ratio']:.2f} ({p['low']:.2f} to {p['high']:.2f}) at {p['ms']:.3f} ms{_of_turn(p)}" for p in points)
            each = "; before: ".join(filter(None, (found.get("error"), each)))
            rows.append([row["name"], _targets.SHOWN[mine], rival, equal, each, _setup.OTHER_RUNTIME.get(rival, "")])
    rows += [[f"the paper: {name}", "Pathways", "jax multi-controller, on TPUs", f"{ms:g} ms", "", ""] for name, ms in _paper.PARITY_MS.items()]
    ratios = "ours / theirs, throughput, median (middle half), by device time of a computation"
    return ["hosts x devices", "side", "against", "equal from", ratios, "differs beyond dispatch"], rows


def _of_turn(point):
    """Says how many calls a turn has, of each side."""
    calls = [str(count) for count in point.get("calls", ())]
    return f" [{' and '.join(dict.fromkeys(calls))} calls a turn]" if calls else ""


def _table7(result):
    sides = {"parallel": "parallel", "sequential": "sequential", "jax": "jax in one process"}
    head = ["stages", *(f"{one}, calls/s, median (middle half)" for one in sides.values()), "parallel / sequential", "parallel / jax in one process",
            *(f"one call alone, {one}, ms" for one in sides.values())]
    cell = lambda row, key, digits: _failed_side(row) if "error" in row else _middle(row[key], digits)
    ratio = lambda row, key: str(Spread.of(row[key])) if key in row else "-"
    rows = [[stages, why_not(row), *[""] * (len(head) - 2)] if "error" in row else
            [stages, *(cell(row[one], "per_s_rounds", 0) for one in sides), ratio(row, "ratio_rounds"), ratio(row, "of_jax_rounds"), *(cell(row[one], "call_ms_rounds", 2) for one in sides)]
            for stages, row in result["rows"].items()]
    return head, rows


def _failed_side(row):
    return f"{_setup.FAILED}: {row['error']}"


def _table8(result):
    processors, ratios = ("clients", "agents", "controller", "worker"), ("of_one_rounds", "of_device_rounds", "of_jax_rounds", "of_jax_programs_rounds")
    head = ["devices, computation", "clients", "computations/s of all clients, median (middle half)", "/ one client", "/ what the devices can do",
            f"/ {_setup.PLUGIN}, one program", "/ the same, as many programs as clients", "processors busy: clients", "agents", "controller", "worker"]
    rows = [[name, "", why_not(row), *[""] * (len(head) - 3)] for name, row in result["rows"].items() if "error" in row]
    for name, found in _targets.devices8(result):
        for count, row in found.items():
            side = count if count.isdecimal() else _targets.side8(count)
            if "error" in row:
                rows.append([name, side, _failed_side(row), *[""] * (len(head) - 3)])
                continue
            of = [str(Spread.of(row[key])) if key in row else "" for key in ratios]
            rows.append([name, side, _middle(row["per_s_rounds"]), *of, *(_middle(row[f"{whose}_processors_rounds"], 2) for whose in processors)])
    return head, rows


def _percents(parts):
    return " : ".join(f"{100 * part / max(sum(parts), 1e-12):.1f} %" for part in parts)


def _table9(result):
    return ["weights", "results, counted by the clients", "wanted", "largest deviation of a client, median (middle half)", "device time in the recording"], [
        [name, _percents(row["done"]), _percents(row["weights"]), str(Spread.of([100 * each for each in row["worst_rounds"]])) + " %", _percents(row["shown_us"])]
        for name, row in result["mixes"].items()]


def _row11(count, us, shared):
    runs = shared["runs"]
    turns = sum(1 for before, after in zip(runs, runs[1:]) if before[0] != after[0])
    took = [sum(took for place, _, took in runs if place == client) for client in range(len(shared["done"]))]
    busy = sum(shared["done"]) * us / 1e6 / shared["seconds"]
    return [count, f"{us / 1e3:g} ms", f"{100 * busy:.1f} %", f"{len(runs)}, {turns}", _percents(took), _percents(shared["done"])]


def _table11(result):
    head = ["clients", "computation", "device busy, from the clients' results", "runs recorded, and how many followed a run of another client",
            "device time of each client in the recording", "results of each client"]
    return head, [_row11(count, result["us"], shared) for count, shared in result["clients"].items()]


def _tokens(cell):
    return f"{_setup.FAILED}: {_failed(cell)}" if "error" in cell else _spread(cell)


def _same(cell, base):
    """Says whether the losses are equal, or the largest relative difference."""
    if "error" in cell or "error" in base:
        return "-"
    if cell["losses"] == base["losses"]:
        return "to the last bit"
    pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(cell["losses"], base["losses"])]
    return f"to {max(abs(a - b) / abs(b) for a, b in pairs):.1e}"


def _spmd_table(result):
    rows = []
    for model, row in result["rows"].items():
        if "error" in row:
            rows.append([model, "", why_not(row), "", "", ""])
            continue
        ours = row["sides"][_setup.OURS]
        for name, cell in row["sides"].items():
            both = name != _setup.OURS and "error" not in cell and "error" not in ours
            rows.append([model, name, _tokens(cell), str(Spread.of(_setup.ratios(ours, cell))) if both else "-",
                         _same(ours, cell) if both else "-", _setup.OTHER_RUNTIME.get(name, "")])
    return ["model", "side", "tokens/s, median (middle half)", "ours / this side", "losses equal ours", "differs beyond dispatch"], rows


def _of_first(row, first):
    return "-" if "error" in row or "error" in first else str(Spread.of(_setup.ratios(row, first)))


def _against_first(what):
    def table(result):
        first = next(iter(_setup.cells(result["rows"]).values()))
        return [what.format(**result), "tokens/s, median (middle half)", "/ the first row", "losses equal the first row's"], [
            [name, _tokens(row), _of_first(row, first), _same(row, first)] for name, row in _setup.cells(result["rows"]).items()]
    return table


def _table2(result):
    """Has no ratios: rows have other numbers of devices."""
    cells = _setup.cells(result["rows"])
    first = next(iter(cells.values()))
    return ["stages, of one device each", "tokens/s, median (middle half)", "losses equal the first row's"], [[name, _tokens(row), _same(row, first)] for name, row in cells.items()]


def _large_table(result):
    head = ["model", "parameters", "devices", "mesh, data x model", "batch", "arguments on a device, GiB", "temporary buffers, GiB", "compile time, s"]
    rows = []
    for model, row in result["rows"].items():
        rows.append([model, why_not(row), *[""] * 6] if "error" in row else [
            model, f"{row['parameters'] / 1e9:.2f}e9", row["cores"], " x ".join(map(str, row["mesh"])), row["batch"], f"{row['state_bytes'] / 2**30:.2f}",
            f"{row['temporary_bytes'] / 2**30:.2f}", f"{row['compile_s']:.0f}"])
    return head, rows


def _percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def _step(row):
    return str(Spread.of(row["step_rounds_s"]))


def _failed(row):
    """Formats why a row failed, and the rounds before."""
    return row["error"] + (f"; before: {_spread(row)}" if row.get("rounds") else "")


def _pipelines_table(result):
    head = ["128 cores as", "microbatches", "tokens/s, median (middle half)", "step, s, median (middle half)", "its schedule, s", "schedule / step, median (middle half)",
            "idle: closed form", "idle: schedule with the stages' times", "idle: measured", "forward of a stage, mean, ms", "backward of a stage, mean, ms"]
    rows = []
    for name, row in result["rows"].items():
        if "error" in row:
            rows.append([name, "", _tokens(row), *[""] * 8])
        elif "planned_s" in row:
            rows.append([name, row["microbatches"], _tokens(row), _step(row), f"{row['planned_s']:.3f}", str(Spread.of(_targets.schedule_of_step(row))),
                         _percent(row["closed_form_idle"]), _percent(row["planned_idle"]), _percent(row.get("idle")), f"{row['forward_s'] * 1e3:.2f}",
                         f"{row['backward_s'] * 1e3:.2f}"])
        else:
            rows.append([name, 1, _tokens(row), _step(row), *["-"] * 7])
    return head, rows


def _islands_table(result):
    first = next(iter(result["rows"].values()))
    of = lambda row: "-" if "error" in row or "error" in first else str(Spread.of(_setup.ratios(row, first)))
    return ["devices", "tokens/s, median (middle half)", "/ the first row", "step, s, median (middle half)"], [
        [name, _tokens(row), of(row), "-" if "error" in row else _step(row)] for name, row in result["rows"].items()]


def targets_table(report):
    head = ["figure", "compared", "on", "reached, median (middle half)", "wanted", "rounds that reach it", "whose target", "verdict in this run", "in the run before, where it was another"]
    others, _ = _earlier.others(report)
    return head, [[one.figure, one.what, one.where, one.reached, one.wanted, one.agreeing, "-" if one.limit is None else one.claim, one.verdict, others.get(tuple(_earlier.key(one)), "")] for one in _targets.targets(report)]


TABLES = {"5": _table5, "6": _table6, "7": _table7, "8": _table8, "9": _table9, "11": _table11, "table1": _spmd_table, "table2": _table2,
          "10": _against_first("{stages} stages on"), "pipelines": _pipelines_table, "12": _against_first("two hosts in"), "islands": _islands_table, "large": _large_table}


def count(report):
    """Says how many verdicts are met, missed, none and failed, and how many are met against each rival."""
    found = _targets.targets(report)
    of = lambda wanted, some: sum(one.verdict.startswith(wanted) for one in some)
    jax = [one for one in found if "/ jax" in one.what or "against jax" in one.what]
    ray = [one for one in found if one.rival == _setup.RAY]
    near = [one for one in ray if one.where.startswith("1 x ")]
    groups = {"jax, by ours with a process for each task": [one for one in jax if one.mine == _setup.OURS],
              "jax, by ours in one process": [one for one in jax if one.mine == _setup.OURS_ONE], "jax, by ours by the PJRT door": [one for one in jax if one.mine == _setup.OURS_INSIDE],
              "Ray on one host": near, "Ray on several hosts": [one for one in ray if one not in near],
              "ourselves, simulated devices or weights": [one for one in found if one not in jax and one not in ray]}
    of_jax = [one for one in jax if one.number == "5"]
    same = [one for one in of_jax if one.kind == one.rival_kind]
    compared = {(one.number, one.what, one.where) for one in found}
    return (f"{of(_setup.MET, found)} met, {of(_setup.MISSED, found)} missed, {of('none', found)} without a verdict, {of(_setup.FAILED, found)} failed: "
            f"{len(found)} targets of {len(compared)} comparisons, as some have two. "
            f"Met, by what ours is compared with: {'; '.join(f'{name}, {of(_setup.MET, some)} of {len(some)}' for name, some in groups.items() if some)}. "
            "The sides of ours take turns with the same rivals, so they are not independent. "
            f"In figure 5, {of(_setup.MET, same)} of {len(same)} targets against jax with the same kind of call are met; "
            f"the other {of(_setup.MET, of_jax) - of(_setup.MET, same)} that are met against jax compare a chained call of ours with single calls of jax.")


def missed_table(report):
    """Returns (head, rows): for each missed target, where the time goes."""
    return _where.MISSED_HEAD, _where.missed(report)


def missing(report):
    """Returns [(figure, why it is incomplete)]."""
    found = [(number, why if _rows.is_unmeasured(why) else f"{_setup.FAILED}: {why}") for number, why in report["failed"].items()]
    found += [(number, f"{name}: {why}") for number, result in report["figures"].items() for name, why in _rows.missing(result).items()]
    return [(_paper.name(number), why) for number, why in found]


def tables(report):
    """Returns {figure: (head, rows)} of the measured figures."""
    return {number: TABLES[number](result) for number, result in _rows.figures(report).items()}


def attempts_table(report):
    """Returns (head, rows): measurements in which a side failed, and those whose results are not on the page."""
    rows = []
    for one, replaced in _provenance.attempts(report):
        what = "replaced by a later measurement" if replaced else "on this page" if one["shown"] else "it had none"
        failed = "; ".join(f"{name}: {why}" for name, why in one["failures"].items()) or "nothing"
        found = "; ".join(f"{compared}, {on}: {reached}, {verdict}" for compared, on, _, reached, verdict in one.get("verdicts", ())) if replaced else ""
        rows.append([_paper.name(one["figure"]), report["began"][one["of"]]["begun"], one["time"], failed, _provenance.disturbed(one) or "no", what, found])
    return ["figure", "run begun", "measured until", "failed", "disturbed", "its result", "what the replaced result said"], rows


def warnings(report):
    """Returns the reasons not to rely on these figures."""
    found = []
    if report["quick"]:
        found.append("A quick run: one round with few calls, and simulated clusters may be smaller than their rows say. It shows the form of the page only.")
    if why := _provenance.unfit(report):
        found.append(f"Not to be published: {why}.")
    return found


def _names(numbers):
    return "; ".join(map(_paper.name, numbers))


def runs_table(report):
    """Returns (head, rows): which run measured which figures."""
    return ["started", "commit", "command", "machine", "load at the start", "figures"], [
        [run["begun"], run["commit"], run["command"], _machine(run["machine"]), f"{run['machine']['load']:.2f}", _names(figures)] for run, figures in _provenance.runs(report)]


def _lines(title, head, rows):
    lines = [list(map(str, line)) for line in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return f"{title}\n" + "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def text(report):
    parts = [*warnings(report), _lines("Measured by", *runs_table(report)), _lines(IN_SHORT, *_summary.table(report)), *_summary.sentences(report)]
    if (goals := targets_table(report))[1]:
        parts.append(_lines("Verdicts", *goals))
    if (tries := attempts_table(report))[1]:
        parts.append(_lines(ATTEMPTS, *tries))
    if (lacks := missed_table(report))[1]:
        parts.append(_lines("Missed targets, and where the time goes", *lacks))
    for number, (head, rows) in tables(report).items():
        parts.append(_lines(f"{_paper.name(number)}: {_paper.FIGURES[number]['title']}", head, rows))
        parts += [_lines(f"  where the time goes: {title}", *more) for title, *more in _where.tables(number, _rows.figures(report)[number])]
        parts += [found] if (found := _found.said(number, report)) else []
    parts += [f"not all there: {name}: {why}" for name, why in missing(report)]
    return "\n\n".join(parts)


# --------------------------------------------------------------------------------------------------------------------- page
def _cells(tag, cells):
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"


def _html_table(head, rows):
    return "<table>" + _cells("th", head) + "".join(_cells("td", row) for row in rows) + "</table>"


def _paragraphs(text):
    return [f"<p>{html.escape(paragraph)}</p>" for paragraph in text.split("\n\n")]


def page(report, images):
    parts = [f"<!doctype html><meta charset=utf-8><title>Section 5 of the paper, here</title><style>{STYLE}</style>",
             "<h1>Section 5 of the paper, on this machine</h1>", *_paragraphs(preface(report)), _html_table(*runs_table(report)),
             *(f"<p><b>{html.escape(warning)}</b></p>" for warning in warnings(report))]
    said = "".join(f"<li>{html.escape(line)}</li>" for line in _summary.sentences(report))
    rates = _summary.table(report)
    parts.append(f"<h2>{IN_SHORT}</h2>{_html_table(*rates) if rates[1] else ''}<ul>{said}</ul><p>{NOT_THE_PAPERS}</p>")
    if (goals := targets_table(report))[1]:
        parts += [f"<h2>Verdicts</h2><p>{count(report)}</p>", *_paragraphs(VERDICTS), _html_table(*goals)]
    if (tries := attempts_table(report))[1]:
        parts.append(f"<h2>{ATTEMPTS}</h2>" + _html_table(*tries))
    if (lacks := missed_table(report))[1]:
        parts.append("<h2>Missed targets, and where the time goes</h2>" + _html_table(*lacks))
    for number, (head, rows) in tables(report).items():
        about = _paper.FIGURES[number]
        parts.append(f"<h2>{_paper.name(number)}: {html.escape(about['title'])}</h2>")
        if number in images:
            parts.append(f"<img alt='{_paper.name(number)}' src='data:image/png;base64,{base64.b64encode(images[number]).decode()}'>")
        parts.append(_html_table(head, rows))
        parts += [f"<p>Where the time goes: {html.escape(title)}</p>" + _html_table(*more)
                  for title, *more in _where.tables(number, _rows.figures(report)[number])]
        parts.append(f"<p><b>The paper:</b> {html.escape(about['paper'])}</p><p><b>Here:</b></p>")
        parts += _paragraphs(about["here"])
        parts += _paragraphs(found) if (found := _found.said(number, report)) else []
        parts += [f"<p class=quiet>{html.escape(line)}</p>" for line in _when(report, number)]
    failed = "".join(f"<li>{name}: {html.escape(why)}</li>" for name, why in missing(report))
    if failed:
        parts.append(f"<h2>{NOT_ALL}</h2><ul>{failed}</ul>")
    return "\n".join(parts) + "\n"


def _machine(machine):
    versions = ", ".join(f"{name} {machine[name]}" for name in ("jax", "tensorflow-cpu", "ray"))
    cores = f"{machine['cores']} cores{' of a virtual machine' * machine['virtual']}"
    return f"{machine['processor']}, {cores}, {machine['memory_gib']} GiB; {versions}"


def _when(report, number):
    """Returns a line for each part of a figure's measurement."""
    return [f"Measured in {part['seconds']:.0f} s, until {part['time']}. Meanwhile other processes used {100 * part['others']:.1f} % of the processors, and other guests of the hardware {100 * part['stolen']:.1f} %." for part in report["runs"].get(_rows.DERIVED.get(number, number), ())]


def _markdown_table(head, rows):
    line = lambda cells: "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def in_short(report):
    """Returns the results in short as Markdown. README quotes the table."""
    rates = _summary.table(report)
    return "\n\n".join([*([_markdown_table(*rates)] if rates[1] else []), "\n".join(f"- {line}" for line in _summary.sentences(report))])


def markdown(report, images=()):
    """Returns the page for the repository (docs/paper.md). images: the figures that have a picture, in the folder paper/ beside it."""
    parts = ["# Section 5 of the paper, on one machine", f"Generated by `make paper` from its record of the measurement; nobody edits the text. {preface(report)}",
             _markdown_table(*runs_table(report)),
             *(f"**{warning}**" for warning in warnings(report))]
    parts += [f"## {IN_SHORT}", in_short(report), NOT_THE_PAPERS]
    if (goals := targets_table(report))[1]:
        parts += [f"## {VERDICTS_TITLE}", count(report), VERDICTS, _markdown_table(*goals)]
    if (tries := attempts_table(report))[1]:
        parts += [f"## {ATTEMPTS}", _markdown_table(*tries)]
    if (lacks := missed_table(report))[1]:
        parts += ["## Missed targets, and where the time goes", _markdown_table(*lacks)]
    for number, (head, rows) in tables(report).items():
        about = _paper.FIGURES[number]
        parts.append(f"## {_paper.name(number)}: {about['title']}")
        parts += [f"![{_paper.name(number)}](paper/figure{number}.png)"] if number in images else []
        parts.append(_markdown_table(head, rows))
        for title, *more in _where.tables(number, _rows.figures(report)[number]):
            parts += [f"Where the time goes: {title}", _markdown_table(*more)]
        parts += [f"**The paper:** {about['paper']}", "**Here:**", about["here"], *filter(None, [_found.said(number, report)]), *_when(report, number)]
    if failed := missing(report):
        parts += [f"## {NOT_ALL}", "\n".join(f"- {name}: {why}" for name, why in failed)]
    return "\n\n".join(parts) + "\n"
