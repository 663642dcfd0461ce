"""Where the time goes, in tables: of every figure that knows it, and of every target that was missed. Pure."""

import _setup
import _targets

MISSED_HEAD = ["figure", "what", "on", "reached", "wanted", "where the time goes"]


def _us(value):
    return "-" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def _entries(row):
    """What is known of where the calls of a row go."""
    return [entry for entry in row.get("where", ()) if "processors_us" in entry]


def _calls(label, depth, entries):
    """Two tables: what each call takes of whom when many are under way, and where one that is alone is at what time."""
    parts = list(dict.fromkeys(part for entry in entries for part in entry["processors_us"]))
    head = ["", "a call", "its caller makes it", "its caller waits", *(f"processors: {part}" for part in parts), "processors: idle, or for others", "devices busy"]
    yield f"calls, {label}, {depth} under way, us for each", head, [
        [f"{entry['kind']}, {entry['who']}", _us(entry["wall_us"]), _us(entry["calling_us"]), _us(entry["waiting_us"]),
         *(_us(entry["processors_us"].get(part)) for part in parts), _us(entry.get("idle_us")), _percent(entry.get("devices_busy"))] for entry in entries]
    if ways := [entry for entry in entries if entry.get("alone_us")]:
        steps = list(ways[0]["alone_us"])
        yield f"one call alone, {label}, by the recording, us", ["", *steps], [
            [f"{entry['kind']}, {entry['who']}", *(_us(us) for us in entry["alone_us"].values())] for entry in ways]


def _rows_of_calls(result):
    for row in result["rows"]:
        if entries := _entries(row):
            yield from _calls(row["name"], _setup.DEPTH, entries)


def _processors(rows):
    """What a step takes of this machine: where that is nearly all it has, it is what limits."""
    rows = {name: row for name, row in rows.items() if "processors_s" in row}
    if rows:
        who = list(next(iter(rows.values()))["processors_s"])
        yield "Of this machine's processors for each step, ms", ["", *who], [
            [name, *(f"{row['processors_s'][one] * 1e3:,.0f}" for one in who)] for name, row in rows.items()]


def _pipelines(result):
    rows = {name: row for name, row in result["rows"].items() if "spent_s" in row}
    if rows:
        parts = list(next(iter(rows.values()))["spent_s"])
        yield "A step of a device, ms, by the recording of one", ["stages", *parts], [
            [name, *(f"{row['spent_s'][part] * 1e3:,.1f}" for part in parts)] for name, row in rows.items()]
        yield from _processors(rows)


def _islands(result):
    rows = {name: row for name, row in result["rows"].items() if row.get("spent_s")}
    if rows:
        parts = list(next(iter(rows.values()))["spent_s"])
        yield "A step of a device, ms, by the recording of one; and what it sends to the other island", ["devices", *parts, "sent, MB"], [
            [name, *(f"{row['spent_s'][part] * 1e3:,.1f}" for part in parts), f"{row.get('sent_bytes', 0) / 1e6:,.1f}"] for name, row in rows.items()]
        yield from _processors(rows)


TABLES = {"5": _rows_of_calls, "6": _rows_of_calls, "pipelines": _pipelines, "islands": _islands}


def tables(number, result):
    """(title, head, rows) of each table of a figure."""
    return TABLES.get(number, lambda _: ())(result)


# ------------------------------------------------------------------------------------------------------------- what was missed
UNKNOWN = "not recorded"


def _shares(parts, total):
    """The largest first, as shares of the total; what is less than a hundredth is left out."""
    parts = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in parts if value >= 0.01 * total)


def _of_call(entry, theirs):
    """One call of ours in words: who has the processors, and where a call is that has the house to itself."""
    used = entry["processors_us"]
    words = [f"a call takes {_us(entry['wall_us'])} us, and of the processors {_us(sum(used.values()))} us: {_shares(used, sum(used.values()))}"
             f" ({_us(entry.get('idle_us'))} not for it; devices busy {_percent(entry.get('devices_busy'))}; its caller makes it in {_us(entry['calling_us'])})"]
    if theirs:
        words.append(f"one of {theirs['who']} takes {_us(theirs['wall_us'])} us, and of the processors {_us(sum(theirs['processors_us'].values()))} us")
    if way := entry.get("alone_us"):
        words.append(f"alone, it takes {_us(sum(way.values()))} us: {_shares(way, sum(way.values()))}")
    return "; ".join(words)


def _missed_calls(target, result):
    """Of a target over the rows of a figure."""
    for row in result["rows"]:
        if target.row != row.get("name"):
            continue
        entries = {(entry["who"], entry["kind"]): entry for entry in _entries(row)}
        mine, theirs = entries.get(("pathways", target.kind)), entries.get((target.rival, target.rival_kind))
        least = next((entry for (who, _), entry in entries.items() if "discards" in who), None)
        if mine:
            alone = f"; {least['who']}, takes {_us(least['wall_us'])} us a call and computes nothing" if least else ""
            return _of_call(mine, theirs) + alone
    return UNKNOWN


def _missed_steps(target, result):
    """Of a target over steps: of each row that it compares, a device's time."""
    said = []
    for name in target.rows:
        row = result["rows"].get(name, {})
        if row.get("spent_s"):
            said.append(f"{name}: a step of {row['step_s']:.3f} s, {_shares(row['spent_s'], sum(row['spent_s'].values()))}")
            if used := row.get("processors_s"):
                said[-1] += f"; of this machine's processors {sum(used.values()):.3f} s, {_shares(used, sum(used.values()))}"
    return " | ".join(said) or UNKNOWN


def _missed_clients(target, result):
    """Of several clients on a device: what it stood still, and who had the processors."""
    said = []
    for count, row in dict(_targets.devices8(result))[target.row].items():
        used = {key.removesuffix("_processors"): value for key, value in row.items() if key.endswith("_processors")}
        said.append(f"{count if count != 'jax' else _setup.PLUGIN} (clients): {row['per_s']:,.0f}/s, processors busy {sum(used.values()):.2f}: {_shares(used, max(sum(used.values()), 1e-9))}")
    return " | ".join(said)


def _missed_stages(target, result):
    row = result["stages"][target.row]
    return f"one call alone takes {row['parallel']['call_ms']:.2f} ms in parallel, {row['sequential']['call_ms']:.2f} ms in sequence"


def _missed_weights(target, result):
    return " | ".join(f"{name}: results {row['done']} of weights {list(row['weights'])}" for name, row in result["mixes"].items() if target.what.endswith(name))


def _missed_training(target, result):
    used = result["rows"][target.where]["sides"][_setup.OURS].get("processors_s")
    return f"ours takes of the processors {sum(used.values()):.2f} s: {_shares(used, sum(used.values()))}" if used else UNKNOWN


MISSED = {"7": _missed_stages, "8": _missed_clients, "9": _missed_weights, "table1": _missed_training}


def missed(report):
    """[[figure, what, reached, wanted, on, where the time goes]] of every target that was."""
    found = []
    for one in _targets.targets(report):
        if one.verdict == _setup.MISSED:
            explain = MISSED.get(one.number, _missed_steps if one.rows else _missed_calls)
            words = explain(one, report["figures"][one.number])
            found.append([one.figure, one.what, one.where, one.reached, one.wanted, words])
    return found
