"""Draws the plots of a report. Needs matplotlib."""

import io
import itertools
import textwrap

import _paper
import _rows
import _setup
import _targets


NOTHING = float("nan")
STYLES = {"opbyop": "-", "chained": "--", "fused": ":"}  # of figure 5's lines, by the kind of call; a side has one colour
WIDE = ("5", "6", "8")  # figures whose many lines have their names beside the plot


def _legend_beside(axes):
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _line(axes, places, rounds, **options):
    """Draws a line through the medians of the rounds at each place, with the middle half of the rounds as error bars. None or []: no point there."""
    spreads = [_setup.Spread.of(each) if each else None for each in rounds]
    of = lambda value: [value(spread) if spread else NOTHING for spread in spreads]
    bars = [of(lambda s: s.median - s.low), of(lambda s: s.high - s.median)]
    return axes.errorbar(places, of(lambda s: s.median), yerr=bars, **{"marker": "o"} | options, markersize=3, capsize=2, linewidth=1)


def _plot5(axes, result):
    shown = [row for row in result["rows"] if "rates" in row]
    places = [row["name"].replace(", simulated", "\nsimulated") for row in shown]
    axes.plot(places, [NOTHING] * len(places))  # the order of the rows, also where the first line has none of them
    names = list(dict.fromkeys(name for row in shown for name in row["rates"]))
    sides = list(dict.fromkeys(name.rsplit(", ", 1)[0] for name in names))
    for name, is_simulated in itertools.product(names, (False, True)):  # no line joins real and simulated devices
        side, kind = name.rsplit(", ", 1)
        cells = [row["rates"].get(name, {}) if bool(row.get("simulated")) == is_simulated else {} for row in shown]
        if any(cells):
            _line(axes, places, [cell.get("rounds") if "error" not in cell else None for cell in cells], label=f"{name}{', simulated' * is_simulated}",
                  color=f"C{sides.index(side)}", linestyle=STYLES[kind], marker="s" if is_simulated else "o")
    axes.set(yscale="log", xlabel="hosts x devices; simulated devices compute nothing", ylabel="computations/s")
    _legend_beside(axes)


def _plot6(axes, result):
    for row in result["rows"]:
        for mine, rival, found in _targets.against(row):
            points = sorted(found.get("points", ()), key=lambda point: point["ms"])
            bars = [[p["ratio"] - p["low"] for p in points], [p["high"] - p["ratio"] for p in points]]
            simulated = bool(row.get("simulated"))
            axes.errorbar([p["ms"] for p in points], [p["ratio"] for p in points], yerr=bars, marker="s" if simulated else "o", linestyle="--" if simulated else "-",
                          markersize=3, capsize=2, linewidth=1, label=f"{row['name']}, {_targets.SHOWN[mine]}, against {rival}")
    axes.axhline(1, color="gray", linewidth=0.7)
    axes.set(xscale="log", xlabel="device time of a computation as recorded, ms (of short ones an upper bound)", ylabel="throughput, ours / theirs")
    _legend_beside(axes)


def _plot7(axes, result):
    rows = {stages: row for stages, row in result["rows"].items() if "error" not in row}
    for side, label in {"parallel": "ours, parallel", "sequential": "ours, sequential", "jax": "jax in one process"}.items():
        _line(axes, list(rows), [row[side].get("per_s_rounds") if "error" not in row[side] else None for row in rows.values()], label=label)
    axes.set(xlabel="stages, each on the devices of a host", ylabel="calls/s", yscale="log")
    axes.legend(fontsize=6, loc="upper right")


def _plot8(axes, result):
    for name, found in _targets.devices8(result):
        shown = {count: row["per_s_rounds"] for count, row in found.items() if count.isdecimal()}
        line = _line(axes, list(shown), list(shown.values()), label=name)[0]
        for jax, style in (("jax", "--"), (next((one for one in found if one.startswith("jax, ")), ""), ":")):
            if "error" not in found.get(jax, {"error": ""}):
                axes.axhline(found[jax]["per_s"], color=line.get_color(), linestyle=style, linewidth=0.8, label=f"{name}: {_targets.side8(jax)}")
    axes.set(xlabel="clients", ylabel="computations/s of all clients", yscale="log")
    _legend_beside(axes)


def _runs(axes, lines):
    """Draws a line of bars for each (name, colour, [(begin, duration) in us])."""
    for number, (_, color, bars) in enumerate(lines):
        axes.broken_barh([(begin / 1e3, took / 1e3) for begin, took in bars], (number - 0.4, 0.8), color=color)
    axes.set(xlabel="ms", yticks=range(len(lines)), yticklabels=[name for name, _, _ in lines])
    axes.invert_yaxis()


def _of_client(runs, client):
    return [(begin, took) for place, begin, took in runs if place == client]


def _plot9(axes, result):
    """Draws when a device ran each client's computations, from the recording."""
    _runs(axes, [(f"{name}, weight {weight}", f"C{client}", _of_client(row["runs"], client))
                 for name, row in result["mixes"].items() for client, weight in enumerate(row["weights"])])


STEP_US = 1_000
SHOWN_US = 30_000  # the part of the recording in figure 11, whose computations are short


def typical(runs, length=SHOWN_US):
    """Returns the begin of the part of a recording, in us, whose busy share is nearest to that of the whole, and this share."""
    end = max(at + took for _, at, took in runs)
    whole = _setup.busy(runs)
    begins = range(0, max(1, int(end - length)), STEP_US)
    return min(begins, key=lambda begin: abs(_setup.busy(runs, begin, begin + length) - whole)), whole


def _plot11(axes, result):
    """Draws a line for each number of clients, with a colour for each client: a part of the recording that is as busy as the whole."""
    from matplotlib import colormaps

    names = []
    for number, (count, shared) in enumerate(result["clients"].items()):
        first, whole = typical(shared["runs"]) if shared["runs"] else (0, 0.0)
        shown = _setup.busy(shared["runs"], first, first + SHOWN_US)
        names.append(f"{count} client{'s' * (count != '1')}\n(busy {100 * whole:.0f} %,\nhere {100 * shown:.0f} %)")
        for client in range(len(shared["done"])):
            bars = [((begin - first) / 1e3, took / 1e3) for begin, took in _of_client(shared["runs"], client) if first <= begin < first + SHOWN_US]
            axes.broken_barh(bars, (number - 0.4, 0.8), color=colormaps["tab20"](client))
    axes.set(xlabel=f"the {SHOWN_US / 1e3:.0f} ms of the recording whose busy share is nearest to that of all of it", yticks=range(len(names)), yticklabels=names)
    axes.invert_yaxis()


def _bars(axes, result):
    rows = {name: row for name, row in _setup.cells(result["rows"]).items() if "error" not in row}
    spreads = [_setup.Spread.of(row["rounds"]) for row in rows.values()]
    bars = [[s.median - s.low for s in spreads], [s.high - s.median for s in spreads]]
    axes.bar([textwrap.fill(name, 16) for name in rows], [s.median for s in spreads], yerr=bars, capsize=3, width=0.4)
    axes.set(ylabel="tokens/s")


COLORS = {"forward": "#4c78a8", "backward": "#f58518", "update": "#54a24b", "other": "#bbbbbb"}


FOUR_ISLANDS, ISLANDS = "16 stages, gpipe, on four islands", 4


def _plot_pipelines(axes, result):
    """Draws the paper's figure 10: the runs of one device of each stage in one recorded step."""
    shown = {name: row for name, row in result["rows"].items() if row.get("runs")}
    if not shown:
        return
    name = FOUR_ISLANDS if FOUR_ISLANDS in shown else list(shown)[-1]
    runs = shown[name]["runs"]
    first, places = min(begin for _, _, begin, _ in runs), 1 + max(place for place, *_ in runs)
    for place, kind, begin, took in runs:
        axes.broken_barh([((begin - first) / 1e3, took / 1e3)], (place - 0.42, 0.84), color=COLORS[kind], linewidth=0)
    for island in range(1, ISLANDS if name == FOUR_ISLANDS else 1):
        axes.axhline(island * places / ISLANDS - 0.5, color="black", linewidth=0.7)
    axes.set(xlabel=f"ms of one step; {name}; blue: forward, orange: backward", ylabel="stage", yticks=range(places))
    axes.invert_yaxis()


TWO_ISLANDS = "two islands of 128 cores, in segments"


def _plot_islands(axes, result):
    """Draws the paper's figure 12: the runs of a device of each island in one recorded step."""
    runs = result["rows"].get(TWO_ISLANDS, {}).get("runs") or ()
    if not runs:
        return
    first = min(begin for _, _, begin, _ in runs)
    for place, kind, begin, took in runs:
        if not _targets.of_next_step(runs, place, kind, begin):
            axes.broken_barh([((begin - first) / 1e3, took / 1e3)], (place - 0.4, 0.8), color=COLORS[kind], linewidth=0)
    axes.set(xlabel="ms of one step; blue: forward, orange: backward, green: update", yticks=(0, 1), yticklabels=["a device of island 1", "a device of island 2"])
    axes.invert_yaxis()


PLOTS = {"5": _plot5, "6": _plot6, "7": _plot7, "8": _plot8, "9": _plot9, "11": _plot11, "table2": _bars, "10": _bars, "12": _bars, "pipelines": _plot_pipelines, "islands": _plot_islands}


def plots(report):
    """Returns {figure: PNG}. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    images = {}
    for number, result in _rows.figures(report).items():
        if number not in PLOTS:
            continue
        figure, axes = pyplot.subplots(figsize=(9.6, 4.2) if number in WIDE else (6.4, 3.6), layout="constrained")
        PLOTS[number](axes, result)
        if not axes.has_data():  # all of it failed
            pyplot.close(figure)
            continue
        axes.set_title(textwrap.fill(f"{_paper.name(number)}: {_paper.FIGURES[number]['title']}", 72), fontsize=10)
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
        pyplot.close(figure)
        images[number] = image.getvalue()
    return images
