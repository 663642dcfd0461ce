"""From the results of a run to tables, plots and one HTML page. Nothing here measures, and nothing reads the clock."""

import base64
import html
import io
import textwrap

import _paper
import _rows
import _targets
import _where

STYLE = ("body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}table{border-collapse:collapse;margin:1em 0}"
         "td,th{border:1px solid #ccc;padding:.25em .7em;text-align:right}td:first-child,th:first-child{text-align:left}img{max-width:100%}.quiet{color:#666}")


STOLEN = 0.02  # of the processors: less is not worth a word


def _rate(cell):
    return "not measured" if cell is None else cell.get("error") or f"{cell['per_s']:,.0f}"


def _table5(result):
    names = list(dict.fromkeys(name for row in result["rows"] for name in row.get("rates", {})))
    head = ["hosts x devices", *names]
    label = lambda row: f"{row['hosts']} x {row['devices'] // row['hosts']}" + ", simulated" * row.get("simulated", False)
    return head, [[label(row), *(_rate(row["rates"].get(name)) for name in names)] if "rates" in row else [row["name"], row["error"], *[""] * (len(names) - 1)]
                  for row in result["rows"]]


def _table6(result):
    rows = []
    for row in result["rows"]:
        if "error" in row:
            rows.append([row["name"], row["error"], ""])
        elif "busiest" in row:
            rows.append([f"{row['name']}: a client, sockets and all hosts, simulated", f"{row['busiest_ms']:.3f} ms", f"of the {row['busiest']}, the busiest of "
                         "the processes on the way, if each has a machine"])
        if "points" not in row:
            continue
        measured = f"{row['parity_ms']:.3f} ms" if row["parity_ms"] is not None else "not reached in this range"
        ratios = ", ".join(f"{point['ratio']:.2f} at {point['ms']:.3f} ms" for point in row["points"])
        rows.append([f"{row['hosts']} x {row['devices'] // row['hosts']}, against {row['rival']}", measured, ratios])
    for name, figure in (result.get("controller") or {}).items():
        rows.append([f"{name}: the controller alone, simulated hosts", f"{figure['us'] / 1e3:.3f} ms", f"{figure['frames']:.0f} messages a computation"])
    rows += [[f"the paper: {name}", f"{ms:g} ms", ""] for name, ms in _paper.PARITY_MS.items()]
    return ["hosts x devices", "equal from", "throughput of ours / theirs"], rows


def _table7(result):
    rows = [[stages, f"{row['parallel']['per_s']:,.0f}", f"{row['sequential']['per_s']:,.0f}", f"{row['ratio']:.2f}",
             f"{row['parallel']['call_ms']:.2f}", f"{row['sequential']['call_ms']:.2f}"] for stages, row in result["stages"].items()]
    return ["stages", "parallel, calls/s", "sequential, calls/s", "ratio", "one call, parallel, ms", "one call, sequential, ms"], rows


def _devices8(result):
    """(name, {clients: figures}) of each device."""
    for us, found in result["simulated"].items():
        yield f"simulated, {int(us) / 1e3:g} ms", found
    if "cpu" in result:
        yield "CPU", result["cpu"]


def _table8(result):
    rows = []
    for name, found in _devices8(result):
        for count, row in found.items():
            rows.append([name, count, f"{row['per_s']:,.0f}", f"{row['of_one']:.3f}", f"{row['device_busy']:.3f}",
                         *(f"{row[f'{whose}_processors']:.2f}" for whose in ("clients", "relays", "controller", "worker"))])
    return ["device", "clients", "computations/s together", "of one client", "device busy", "processors: clients", "their relays", "controller", "worker"], rows


def _table9(result):
    rows = []
    for name, row in result["mixes"].items():
        total = sum(row["device_seconds"])
        rows.append([name, " : ".join(f"{100 * used / total:.1f} %" for used in row["device_seconds"]),
                     " : ".join(f"{100 * weight / sum(row['weights']):.1f} %" for weight in row["weights"]), f"{100 * row['worst']:.2f} %"])
    return ["weights", "device time", "wanted", "off by at most"], rows


def _tokens(cell):
    return cell.get("error") or f"{cell['tokens_per_s']:,.0f}"


def _ratio(cell, base):
    return "-" if "error" in cell or "error" in base else f"{cell['tokens_per_s'] / base['tokens_per_s']:.3f}"


def _same(cell, base):
    """Whether the losses are equal, and to how much if not."""
    if "error" in cell or "error" in base:
        return "-"
    if cell["losses"] == base["losses"]:
        return "to the last bit"
    pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(cell["losses"], base["losses"])]
    return f"to {max(abs(a - b) / abs(b) for a, b in pairs):.1e}"


def _spmd_table(result):
    rivals = ("jax in process", "jax with our plugin")
    head = ["model", "pathways, tokens/s"]
    for rival in rivals:
        head += [f"{rival}, tokens/s", "ours / theirs", "losses equal"]
    rows = []
    for model, row in result["rows"].items():
        ours = row["pathways"]
        rows.append([model, _tokens(ours)])
        for rival in rivals:
            rows[-1] += [_tokens(row[rival]), _ratio(ours, row[rival]), _same(ours, row[rival])]
    return head, rows


def _against_first(what):
    def table(result):
        first = next(iter(result["rows"].values()))
        return [what.format(**result), "tokens/s", "of the first", "losses equal the first's"], [
            [name, _tokens(row), _ratio(row, first), _same(row, first)] for name, row in result["rows"].items()]
    return table


def _large_table(result):
    head = ["model", "parameters", "devices", "data x model", "state a device, GiB", "compiled in, s", "bound, tokens/s", "the paper, tokens/s"]
    rows = []
    for model, row in result["rows"].items():
        paper = f"{_paper.PAPER_TOKENS_PER_S[model]:,.0f}"
        if "error" in row:
            rows.append([model, row["error"], "", "", "", "", "", paper])
            continue
        bound = row["tokens"] / (row["flops_per_device"] / _paper.CORE_FLOPS)
        rows.append([model, f"{row['parameters'] / 1e9:.2f}e9", row["cores"], " x ".join(map(str, row["mesh"])), f"{row['state_bytes'] / 2**30:.2f}",
                     f"{row['compile_s']:.0f}", f"{bound:,.0f}", paper])
    return head, rows


def _pipelines_table(result):
    head = ["stages", "model", "tokens/s", "of the first", "a step, s", "by its schedule, s", "schedule / step", "idle by the schedule", "forward, ms", "backward, ms"]
    rows, first = [], {}
    for name, row in result["rows"].items():
        if "error" not in row:
            first.setdefault(row.get("model"), row)  # of this model
        rows.append([name, row.get("model", "-"), _tokens(row), _ratio(row, first.get(row.get("model"), row))])
        rows[-1] += ["-"] * 6 if "error" in row else [
            f"{row['step_s']:.3f}", f"{row['planned_s']:.3f}", f"{row['planned_s'] / row['step_s']:.3f}", f"{row['planned_idle']:.1%}",
            f"{row['forward_s'] * 1e3:.2f}", f"{row['backward_s'] * 1e3:.2f}"]
    return head, rows


def _islands_table(result):
    first = next(iter(result["rows"].values()))
    return ["devices", "tokens/s", "of the first", "a step, s"], [
        [name, _tokens(row), _ratio(row, first), "-" if "error" in row else f"{row['step_s']:.3f}"] for name, row in result["rows"].items()]


def targets_table(report):
    head = ["figure", "what", "reached", "wanted", "", "on"]
    return head, [[one.figure, one.what, "-" if one.value is None else f"{one.value:.3f}", one.wanted, {True: "met", False: "MISSED", None: "not measured"}[one.met],
                   one.where] for one in _targets.targets(report)]


TABLES = {"5": _table5, "6": _table6, "7": _table7, "8": _table8, "9": _table9, "table1": _spmd_table, "table2": _against_first("stages"),
          "10": _against_first("{stages} stages on"), "pipelines": _pipelines_table, "12": _against_first("two hosts of"), "islands": _islands_table, "large": _large_table}


def missed_table(report):
    """Of every target that was missed: where the time goes."""
    return _where.MISSED_HEAD, _where.missed(report)


def missing(report):
    """[(figure, why it is not all there)]."""
    found = list(report["failed"].items())
    found += [(number, f"{name}: {why}") for number, result in report["figures"].items() for name, why in _rows.missing(result).items()]
    return [(_paper.name(number), why) for number, why in found]


def tables(report):
    """{figure: (head, rows)} of those that were measured."""
    return {number: TABLES[number](result) for number, result in report["figures"].items()}


def warnings(report):
    """Why the figures are not to be relied on."""
    found = []
    if report["quick"]:
        found.append("A quick run: one round of little, good for its form only.")
    if report["machine"]["load"] > report["machine"]["cores"] / 4:
        found.append(f"The machine was busy when the run began (load {report['machine']['load']:.1f} on {report['machine']['cores']} cores): run it on a quiet one.")
    stolen = {_paper.name(number): run["stolen"] for number, run in report.get("runs", {}).items() if run.get("stolen", 0) > STOLEN}
    if stolen:
        found.append("Others on the same hardware took of this machine's processors, so that times scatter: " +
                     ", ".join(f"{share:.0%} ({name})" for name, share in stolen.items()) + ".")
    return found


def _lines(title, head, rows):
    lines = [list(map(str, line)) for line in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return f"{title}\n" + "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def text(report):
    parts = warnings(report)
    if (goals := targets_table(report))[1]:
        parts.append(_lines("What was to be reached", *goals))
    if (lacks := missed_table(report))[1]:
        parts.append(_lines("What was missed, and where the time goes", *lacks))
    for number, (head, rows) in tables(report).items():
        parts.append(_lines(f"{_paper.name(number)}: {_paper.FIGURES[number]['title']}", head, rows))
        parts += [_lines(f"  where the time goes: {title}", *more) for title, *more in _where.tables(number, report["figures"][number])]
    parts += [f"not measured: {name}: {why}" for name, why in missing(report)]
    return "\n\n".join(parts)


# -------------------------------------------------------------------------------------------------------------------- plots
def _plot5(axes, result):
    shown = [row for row in result["rows"] if "rates" in row]
    names = list(dict.fromkeys(name for row in shown for name in row["rates"]))
    labels = [f"{row['hosts']}x{row['devices'] // row['hosts']}" for row in shown]
    for name in names:
        cells = [row["rates"].get(name, {}) for row in shown]
        axes.plot(labels, [cell.get("per_s", float("nan")) for cell in cells], marker="o", label=name)
    axes.set(yscale="log", xlabel="hosts x devices", ylabel="computations/s")
    axes.legend(fontsize=7)


def _plot6(axes, result):
    for row in result["rows"]:
        if "points" not in row:
            continue
        points = sorted(row["points"], key=lambda point: point["ms"])
        axes.plot([p["ms"] for p in points], [p["ratio"] for p in points], marker="o", label=f"{row['hosts']} host(s), against {row['rival']}")
    axes.axhline(1, color="gray", linewidth=0.7)
    axes.set(xscale="log", xlabel="time of a computation, ms", ylabel="throughput, ours / theirs")
    axes.legend(fontsize=7)


def _plot7(axes, result):
    for dispatch in ("parallel", "sequential"):
        axes.plot(list(result["stages"]), [row[dispatch]["per_s"] for row in result["stages"].values()], marker="o", label=dispatch)
    axes.set(xlabel="stages, each on a host of its own", ylabel="calls/s", yscale="log")
    axes.legend()


def _plot8(axes, result):
    for name, found in _devices8(result):
        axes.plot(list(found), [row["per_s"] for row in found.values()], marker="o", label=name)
    axes.set(xlabel="clients", ylabel="computations/s together", yscale="log")
    axes.legend(fontsize=7)


def _plot9(axes, result):
    """A line for each client: when the device ran its computations, as recorded."""
    labels = []
    for name, row in result["mixes"].items():
        for client, weight in enumerate(row["weights"]):
            bars = [(begin / 1e3, took / 1e3) for place, begin, took in row.get("runs", ()) if place == client]
            axes.broken_barh(bars, (len(labels) - 0.4, 0.8), color=f"C{client}")
            labels.append(f"{name}, weight {weight}")
    axes.set(xlabel="ms", yticks=range(len(labels)), yticklabels=labels)
    axes.invert_yaxis()


def _bars(axes, result):
    rows = {name: row for name, row in result["rows"].items() if "error" not in row}
    axes.bar(list(rows), [row["tokens_per_s"] for row in rows.values()], width=0.4)
    axes.set(ylabel="tokens/s")


COLORS = {"forward": "#4c78a8", "backward": "#f58518", "other": "#bbbbbb"}


def _plot_pipelines(axes, result):
    """The paper's figure 11: what a device of each stage ran in one step, by the recording."""
    shown = {name: row for name, row in result["rows"].items() if row.get("runs")}
    if not shown:
        return
    name, row = list(shown.items())[-1] if "16 stages on four islands" not in shown else ("16 stages on four islands", shown["16 stages on four islands"])
    first = min(begin for _, _, begin, _ in row["runs"])
    for place, kind, begin, took in row["runs"]:
        axes.broken_barh([((begin - first) / 1e3, took / 1e3)], (place - 0.42, 0.84), color=COLORS[kind], linewidth=0)
    for island in range(1, 4 if "four" in name else 1):
        axes.axhline(island * (1 + max(place for place, *_ in row["runs"])) / 4 - 0.5, color="black", linewidth=0.7)
    axes.set(xlabel=f"ms of one step; {name}; blue: forward, orange: backward", ylabel="stage",
             yticks=sorted({place for place, *_ in row["runs"]}))
    axes.invert_yaxis()


PLOTS = {"5": _plot5, "6": _plot6, "7": _plot7, "8": _plot8, "9": _plot9, "table2": _bars, "10": _bars, "12": _bars, "pipelines": _plot_pipelines}


def plots(report):
    """{figure: PNG}. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    images = {}
    for number, result in report["figures"].items():
        if number not in PLOTS:
            continue
        figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
        PLOTS[number](axes, result)
        axes.set_title(textwrap.fill(f"{_paper.name(number)}: {_paper.FIGURES[number]['title']}", 72), fontsize=10)
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
        pyplot.close(figure)
        images[number] = image.getvalue()
    return images


# --------------------------------------------------------------------------------------------------------------------- page
def _cells(tag, cells):
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"


def _html_table(head, rows):
    return "<table>" + _cells("th", head) + "".join(_cells("td", row) for row in rows) + "</table>"


def page(report, images):
    machine = report["machine"]
    parts = [f"<!doctype html><meta charset=utf-8><title>Section 5 of the paper, here</title><style>{STYLE}</style>",
             "<h1>Section 5 of the paper, on this machine</h1>",
             f"<p class=quiet>{html.escape(report['time'])}; {machine['cores']} cores; jax {html.escape(machine['jax'])}.</p>",
             *(f"<p><b>{html.escape(warning)}</b></p>" for warning in warnings(report))]
    if (goals := targets_table(report))[1]:
        parts.append("<h2>What was to be reached</h2>" + _html_table(*goals))
    if (lacks := missed_table(report))[1]:
        parts.append("<h2>What was missed, and where the time goes</h2>" + _html_table(*lacks))
    for number, (head, rows) in tables(report).items():
        about = _paper.FIGURES[number]
        parts.append(f"<h2>{_paper.name(number)}: {html.escape(about['title'])}</h2>")
        if number in images:
            parts.append(f"<img alt='{_paper.name(number)}' src='data:image/png;base64,{base64.b64encode(images[number]).decode()}'>")
        parts.append(_html_table(head, rows))
        parts += [f"<p>Where the time goes: {html.escape(title)}</p>" + _html_table(*more)
                  for title, *more in _where.tables(number, report["figures"][number])]
        parts.append(f"<p><b>The paper:</b> {html.escape(about['paper'])}</p><p><b>Here:</b> {html.escape(about['here'])}</p>")
    failed = "".join(f"<li>{name}: {html.escape(why)}</li>" for name, why in missing(report))
    if failed:
        parts.append(f"<h2>Not measured</h2><ul>{failed}</ul>")
    return "\n".join(parts) + "\n"
