"""Tables of where the time goes: for the figures that record it, and for each missed target. Pure."""

import _setup
import _targets

MISSED_HEAD = ["figure", "compared", "on", "reached", "wanted", "where the time goes"]
# Parts of a call or a step as they are shown; the keys are stored in report.json.
SHOWN = {
    "client and wire": "the rest: client, agent and connections", "controller: until all is granted": "controller, until the grant",
    "wire to the workers": "from the controller to the workers", "workers: until launched": "workers, until the launch",
    "wire back": "the end noticed, and back to the controller", "hosts": "workers", "forward and backward": "computing", "idle by the schedule": "idle in the schedule",
    "optimizer and the like": "optimizer and other functions",
    "waiting before updates (for the other island's gradients)": "waiting before updates",  # one island has no other
    "jax's client for Pathways, against a server that discards": "one of 64 of y + 1 that are not waited for, over the stock gRPC proxy client, to a server that discards",
}


def _shown(part):
    return SHOWN.get(part, part)


def _us(value):
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"


def _percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def _entries(row):
    """Returns the recorded entries of a row: one for each side and kind of call."""
    return [entry for entry in row.get("where", ()) if "processors_us" in entry]


def _calls(label, turns, entries):
    """Yields two tables: the time of each process for a call when many are under way, and the way of a call that is alone. turns: those of the former table."""
    parts = list(dict.fromkeys(part for entry in entries for part in entry["processors_us"]))
    head = ["call", "1 / rate", "the caller makes it", "the caller waits", *(f"processor time: {_shown(part)}" for part in parts),
            "processors idle, or busy with other programs", "devices busy"]
    yield f"calls on {label}, at most {_setup.DEPTH} under way, us for each, in {turns}; of other sides, the column client is the sum of all their processes", head, [
        [f"{entry['kind']}, {_shown(entry['who'])}", _us(entry["wall_us"]), _us(entry["calling_us"]), _us(entry["waiting_us"]),
         *(_us(entry["processors_us"].get(part)) for part in parts), _us(entry.get("idle_us")), _percent(entry.get("devices_busy"))] for entry in entries]
    if ways := [entry for entry in entries if entry.get("alone_us")]:
        steps = list(ways[0]["alone_us"])
        yield f"a call that is alone on {label}, from a recording, median us of each part", ["call", *map(_shown, steps)], [
            [f"{entry['kind']}, {entry['who']}", *(_us(us) for us in entry["alone_us"].values())] for entry in ways]


def _in_use(label, sides):
    """Yields how many processors each side used in turns that were not its own: what slowed down the others."""
    yield f"processors in use on {label}, by all processes of a side, mean over all turns", ["side", "in its own turns", "in the turns of the others"], [
        [name, *("-" if used[whose] is None else f"{used[whose]:.3f}" for whose in ("own", "others"))] for name, used in sides.items()]


def _rows_of_calls(turns):
    def tables(result):
        for row in result["rows"]:
            if entries := _entries(row):
                yield from _calls(row["name"], turns, entries)
            if sides := row.get("in_use"):
                yield from _in_use(row["name"], sides)
    return tables


def _processors(rows):
    """Yields the processor time of a step. Where it is nearly all that the machine has, the machine is the limit."""
    rows = {name: row for name, row in rows.items() if "processors_s" in row}
    if rows:
        who = list(next(iter(rows.values()))["processors_s"])
        yield "processor time of this machine for a step, ms", ["row", *map(_shown, who)], [
            [name, *(f"{row['processors_s'][one] * 1e3:,.0f}" for one in who)] for name, row in rows.items()]


def _pipelines(result):
    rows = {name: row for name, row in result["rows"].items() if "spent_s" in row}
    if rows:
        parts = list(next(iter(rows.values()))["spent_s"])
        yield "one recorded step, mean over one device of each place, ms", ["row", *map(_shown, parts)], [
            [name, *(f"{row['spent_s'][part] * 1e3:,.1f}" for part in parts)] for name, row in rows.items()]
    yield from _processors(result["rows"])


def _islands(result):
    rows = {name: row for name, row in result["rows"].items() if row.get("spent_s")}
    if rows:
        parts = list(next(iter(rows.values()))["spent_s"])
        yield "one recorded step, mean over the devices, ms; and what a device sends to the other island, by its shapes", ["row", *map(_shown, parts), "sent, MB"], [
            [name, *(f"{row['spent_s'][part] * 1e3:,.1f}" for part in parts), f"{row.get('sent_bytes', 0) / 1e6:,.1f}"] for name, row in rows.items()]
    yield from _processors(result["rows"])


TABLES = {"5": _rows_of_calls("the turns of the table above"), "6": _rows_of_calls("turns of their own"), "pipelines": _pipelines, "islands": _islands}


def tables(number, result):
    """Returns (title, head, rows) for each table of a figure."""
    return TABLES.get(number, lambda _: ())(result)


# ------------------------------------------------------------------------------------------------------------- missed targets
UNKNOWN = "not recorded"


def _shares(parts, total):
    """Formats parts as shares of the total, the largest first; shares below a hundredth are left out."""
    parts = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{_shown(name)} {100 * value / total:.0f} %" for name, value in parts if value >= 0.01 * total)


def _of_call(entry, theirs):
    """Describes a call of ours: the processor time by process, the rival's call, and the way of a call that is alone."""
    used = entry["processors_us"]
    idle = entry.get("idle_us")
    unused = f"processors idle, or busy with other programs, for {_percent(max(idle, 0) / (max(idle, 0) + sum(used.values())))} of their time; " if idle is not None else ""
    words = [f"{unused}with many under way, a call every {_us(entry['wall_us'])} us, which takes {_us(sum(used.values()))} us of processor time: "
             f"{_shares(used, sum(used.values()))} (devices busy {_percent(entry.get('devices_busy'))}; the caller makes it in {_us(entry['calling_us'])} us)"]
    if theirs:
        words.append(f"{theirs['who']}: a call every {_us(theirs['wall_us'])} us, {_us(sum(theirs['processors_us'].values()))} us of processor time")
    if way := entry.get("alone_us"):
        words.append(f"alone, a call of ours takes {_us(sum(way.values()))} us: {_shares(way, sum(way.values()))}")
    return "; ".join(words)


def _missed_calls(target, result):
    """Explains a missed target over rows of calls."""
    for row in result["rows"]:
        if target.row != row.get("name"):
            continue
        entries = {(entry["who"], entry["kind"]): entry for entry in _entries(row)}
        mine, theirs = entries.get((target.mine, target.kind)), entries.get((target.rival, target.rival_kind))
        least = next((entry for (who, _), entry in entries.items() if "discards" in who and target.mine != _setup.OURS_INSIDE), None)  # that door has no proxy
        if mine:
            alone = f"; a call, {_shown(least['who'])}: {_us(least['wall_us'])} us a call, and nothing is computed" if least else ""
            return _of_call(mine, theirs) + alone
    return UNKNOWN


def _missed_steps(target, result):
    """Explains a missed target over steps: the device time of each row that it compares."""
    said = []
    for name in target.rows:
        row = result["rows"].get(name, {})
        if row.get("spent_s"):
            said.append(f"{name}: a recorded step of {row.get('traced_step_s', row['step_s']):.3f} s, {_shares(row['spent_s'], sum(row['spent_s'].values()))}")
            if used := row.get("processors_s"):
                said[-1] += f"; processor time {sum(used.values()):.3f} s: {_shares(used, sum(used.values()))}"
        elif used := row.get("processors_s"):
            said.append(f"{name}: no step of it was recorded, so whether the devices or the control path limit it is not known; "
                        f"processor time {sum(used.values()):.3f} s: {_shares(used, sum(used.values()))}")
    return " | ".join(said) or UNKNOWN


def _missed_clients(target, result):
    """Explains a missed target of several clients: the rate and the busy processors, by number of clients."""
    said = []
    for count, row in dict(_targets.devices8(result))[target.row].items():
        used, side = {key.removesuffix("_processors"): value for key, value in row.items() if key.endswith("_processors")}, _targets.side8(count)
        if "error" in row:
            said.append(f"{side}: {_setup.FAILED}")
            continue
        said.append(f"{side}: {row['per_s']:,.0f}/s, processors busy {sum(used.values()):.2f}: {_shares(used, max(sum(used.values()), 1e-9))}")
    return " | ".join(said)


def _missed_stages(target, result):
    row = result["rows"][target.row]
    return f"a call that is alone takes {row['parallel']['call_ms']:.2f} ms in parallel, {row['sequential']['call_ms']:.2f} ms in sequence; the reason is not known"


def _missed_weights(target, result):
    return " | ".join(f"{name}: results {row['done']}, weights {list(row['weights'])}" for name, row in result["mixes"].items() if target.what.endswith(name))


def _missed_training(target, result):
    return _round(result["rows"][target.where]["sides"][_setup.OURS])


def _round(row):
    used = row.get("processors_s")
    return f"a round of ours, setup included, takes {sum(used.values()):.2f} s of processor time: {_shares(used, sum(used.values()))}" if used else UNKNOWN


def _missed_rounds(target, result):
    cells = _setup.cells(result["rows"])
    return " | ".join(f"{name}: {_round(cells[name])}" for name in target.rows if "processors_s" in cells[name]) or UNKNOWN


MISSED = {"7": _missed_stages, "8": _missed_clients, "9": _missed_weights, "table1": _missed_training, "table2": _missed_rounds, "10": _missed_rounds, "12": _missed_rounds}


def missed(report):
    """Returns a row with the columns of MISSED_HEAD for each missed target."""
    found = []
    for one in _targets.targets(report):
        if one.verdict == _setup.MISSED:
            explain = MISSED.get(one.number, _missed_steps if one.rows else _missed_calls)
            words = explain(one, report["figures"][one.number])
            found.append([one.figure, one.what, one.where, one.reached, one.wanted, words])
    return found
