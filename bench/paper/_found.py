"""What a run found, in words: sentences that are computed from its report, so that they are true of it. Pure."""

import os

import _breakdown
import _rows
import _setup
import _summary
import _targets
from _setup import Spread

CORE_GIB = 16  # the memory of a TPU v3's core
HOST_BYTES_A_SECOND, DEVICES_A_HOST = 100e9 / 8, 4  # between simulated islands


def _listed(words):
    return ", ".join(words) or "none"


def _of(row, who, kind):
    """Returns where the time of a call goes, of a row of figure 5, or None."""
    return next((one for one in row.get("where", ()) if (one["who"], one["kind"]) == (who, kind)), None)


def _spent(entry):
    return sum(entry["processors_us"].values())


def _more_processor_time(rows):
    """Yields how often a call of ours takes more processor time than jax's of the same kind, on one host; and by how much for fused on several."""
    pairs = [(row["name"], kind, mine, theirs) for row in rows for kind in _setup.KINDS for rival in (_setup.PLUGIN, _setup.MULTI_PLUGIN)
             if (mine := _of(row, _setup.OURS, kind)) and (theirs := _of(row, rival, kind))]
    near = [(mine, theirs) for name, _, mine, theirs in pairs if name.startswith("1 x ")]
    if near:
        yield (f"On one host, a call of {_setup.OURS} takes more processor time than one of {_setup.PLUGIN} in {sum(_spent(a) > _spent(b) for a, b in near)} of {len(near)} "
               "comparisons of the same kind of call.")
    for name, kind, mine, theirs in pairs:
        if kind == "opbyop" and mine.get("devices_busy") and mine["devices_busy"] * mine["wall_us"] > theirs["wall_us"]:
            yield (f"On {name}, devices are recorded as busy for {mine['devices_busy'] * mine['wall_us']:,.0f} us of a call of ours, where the whole call of jax takes {theirs['wall_us']:,.0f} us: "
                   "such shares include the waking of threads and the late noticing of ends.")
    for name, kind, mine, theirs in pairs:
        if kind == "fused" and not name.startswith("1 x "):
            yield (f"On {name}, a fused call of ours takes {_spent(mine):,.0f} us of processor time, {mine['processors_us'].get('workers', 0):,.0f} us of it in the workers, and one of jax "
                   f"{_spent(theirs):,.0f} us; processors are idle for {mine['idle_us']:,.0f} us of ours and {theirs['idle_us']:,.0f} us of jax's.")


def _figure5(result, report):
    rows = [row for row in result["rows"] if "rates" in row and not row.get("simulated")]
    yield from _more_processor_time(rows)
    ratio = lambda row, kind: _targets.compared(row, kind, _setup.TENSORFLOW)[0]
    both = [(f"{row['name']}, {kind}", ratio(row, kind)) for row in rows for kind in _setup.KINDS if ratio(row, kind)]
    if both:
        yield f"By the medians, TensorFlow is ahead of {_setup.OURS} in {sum(one.median < 1 for _, one in both)} of {len(both)} rows: {_listed(name for name, one in both if one.median < 1)}."


def _figure6(result, report):
    for row in result["rows"]:
        for mine, rival, found in _targets.against(row):
            if found.get("points") and row["name"] == "16 x 8":
                lengths = [point["ms"] for point in found["points"]]
                equal = "and throughputs are equal from none of the measured lengths on" if found.get("parity_ms") is None else f"and throughputs are equal from {found['parity_ms']:.3g} ms on"
                yield f"On 16 x 8, the computations took {min(lengths):.3g} to {max(lengths):.3g} ms, {equal} (against {rival})."


def _figure7(result, report):
    off = {stages: abs(Spread.of(row["ratio_rounds"]).median - 1) for stages, row in result["rows"].items() if row.get("ratio_rounds")}
    if "1" in off and len(off) > 1:
        farther = [stages for stages in off if off[stages] > off["1"]]
        slower = [f"{stages} (in {sum(ratio < 1 for ratio in row['ratio_rounds'])} of {len(row['ratio_rounds'])} rounds)" for stages, row in result["rows"].items()
                  if row.get("ratio_rounds") and Spread.of(row["ratio_rounds"]).median < 1]
        if slower:
            yield f"Parallel is slower than sequential with this many stages: {_listed(slower)}; the cause was not measured."
        yield f"With one stage, the ratio of parallel to sequential is {off['1']:.3f} from 1. Farther from 1 than that are the rows of this many stages: {_listed(farther)}."


def _figure8(result, report):
    fewer, alone, sizes = [], [], []
    for device, found in _targets.devices8(result):
        counts = sorted((name for name in found if name.isdecimal()), key=int)
        if "of_device" in found[counts[0]]:
            alone.append(f"{100 * found[counts[0]]['of_device']:.0f} % ({device})")
        if len(counts) > 1:
            sizes = counts[-2:]
            fewer += [device] * (found[sizes[1]]["per_s"] < found[sizes[0]]["per_s"])
    if alone:
        yield f"One client keeps the simulated devices busy for {', '.join(alone)} of the time."
    if sizes:
        yield f"By the medians, {sizes[1]} clients reach less than {sizes[0]} with: {_listed(fewer)}."
    if longest := _summary.loops_ms(report):
        yield "By the rates of jax's rows, a computation takes at most: " + ", ".join(f"{most:.3f} ms ({device.removeprefix('CPU, ')})" for device, most in longest.items()) + "."
    yield from _filled8(result)
    yield from _processors8(result, report)


def _filled8(result):
    """Yields between which lengths of computation the clients begin to fill the simulated devices."""
    found = [(device, row) for device, row in _targets.devices8(result) if "of_device" in row.get("1", {})]
    for clients in ("1", max((name for _, row in found for name in row if name.isdecimal()), key=int, default="1")):
        filled = [device for device, row in found if row.get(clients, {}).get("of_device", 0) >= _setup.EQUAL]
        short = [device for device, row in found if row.get(clients, {}).get("of_device", 1) < _setup.EQUAL]
        if found:
            yield f"By the medians, {_targets.side8(clients)} fill{'s' * (clients == '1')} the devices to {_setup.EQUAL:.0%} or more with: {_listed(filled)}; not with: {_listed(short)}. Lengths between these were not measured."


def _processors8(result, report):
    """Yields how many of this machine's processors the most clients and the cluster used: where it is all of them, they are the limit."""
    used = []
    for device, row in _targets.devices8(result):
        count = max((name for name in row if name.isdecimal()), key=int)
        if "error" not in row[count]:
            used.append(f"{sum(value for key, value in row[count].items() if key.endswith('_processors')):.2f} ({device})")
    if used:
        yield f"With the most clients, all processes together used this many processors of the machine's {_cores(report)}: {', '.join(used)}. Near that number, the processors are the limit, not the devices."


def _cores(report):
    return "/".join(dict.fromkeys(str(run["machine"]["cores"]) for run in report["began"])) if report.get("began") else str(os.cpu_count())


def _figure11(result, report):
    length = _rows.by_name(report["figures"].get("8")).get("simulated", {}).get("simulated", {}).get(str(result["us"]), {})
    both = {count: (sum(shared["done"]) * result["us"] / 1e6 / shared["seconds"], length[count]["of_device"])
            for count, shared in result["clients"].items() if "of_device" in length.get(count, {})}
    if both:
        yield "In figure 8, without a recording, the devices are busy for: " + ", ".join(
            f"{100 * without:.0f} % with {_targets.side8(count)} (here {100 * here:.0f} %)" for count, (here, without) in both.items()) + "."
    counts = sorted(result["clients"], key=int)
    recorded = {count: _setup.busy(result["clients"][count]["runs"]) for count in counts if result["clients"][count]["runs"]}
    if recorded:
        yield ("The picture's shares are of the recorded 0.4 s, and the table's of the 2 s in which results were counted. In the recording, the device is busy for: "
               + ", ".join(f"{100 * share:.0f} % with {_targets.side8(count)}" for count, share in recorded.items()) + ".")
    rates = {count: sum(result["clients"][count]["done"]) / result["clients"][count]["seconds"] for count in counts}
    if len(counts) > 1 and rates[counts[0]]:
        for count in counts[1:]:
            done = result["clients"][count]["done"]
            yield f"Of {_targets.side8(count)}, which have equal weights, the one with the most results has {max(done) / max(min(done), 1):.2f} times those of the one with the least."
        yield f"Here, {_targets.side8(counts[-1])} have {rates[counts[-1]] / rates[counts[0]]:.2f} times the results of {_targets.side8(counts[0])}."


def _large(result, report):
    sums = {model: (row["state_bytes"] + row["temporary_bytes"]) / 2**30 for model, row in result["rows"].items() if "error" not in row}
    above = [f"{model} ({size:.1f} GiB)" for model, size in sums.items() if size >= CORE_GIB]
    if sums:
        yield f"The sum of a device's arguments and temporary buffers is below {CORE_GIB} GiB for {len(sums) - len(above)} of {len(sums)} models; not for: {_listed(above)}."


def _pipelines(result, report):
    rows = {name: row for name, row in result["rows"].items() if "error" not in row}
    few, spmd = rows.get("4 stages, gpipe", {}), rows.get(_targets.SPMD_ROW, {})
    if few.get("spent_s") and spmd.get("step_s"):
        spent = few["spent_s"]
        yield (f"A device of 4 stages computes for {spent['forward and backward']:.3f} s of a recorded step, idles for {spent['idle by the schedule']:.3f} s by the schedule, and waits "
               f"{spent['waiting for the control path and transfers']:.3f} s for the control path and transfers; a whole step of SPMD takes {spmd['step_s']:.3f} s.")
    one, other = (rows.get(f"16 stages, {name}", {}).get("spent_s", {}).get("waiting for the control path and transfers") for name in ("gpipe", "1f1b"))
    if one and other:
        yield (f"In 16 stages, a recorded step waits {other * 1e3:,.0f} ms for the control path and transfers with 1f1b, and {one * 1e3:,.0f} ms with gpipe, though their schedules take equally long; "
               "the cause was not measured, and the two did not take turns.")
    eight, sixteen = (rows.get(f"{count} stages, gpipe", {}).get("processors_s", {}).get("hosts") for count in (8, 16))
    if eight and sixteen:
        yield f"From 8 to 16 stages, where stages times microbatches grow 4 times, the workers' processor time for a step grows {sixteen / eight:.1f} times."


def _islands(result, report):
    row = result["rows"].get("two islands of 128 cores, in segments", {})
    if row.get("sent_bytes") and row.get("step_s"):
        share = row["sent_bytes"] * DEVICES_A_HOST / HOST_BYTES_A_SECOND / row["step_s"]
        yield f"By the bytes and the bandwidth, a host's exchange with the other island takes {100 * share:.1f} % of a step."
    runs = row.get("runs") or ()
    first = {place: min(begin for where, _, begin, _ in runs if where == place) for place in {where for where, *_ in runs}}
    if any(_targets.of_next_step(runs, place, kind, begin) for place, kind, begin, _ in runs):
        yield f"The picture lacks the first function of island 2's device, which began before that of island 1's; it has those from {first[1] / 1e3:,.0f} ms on."
    if row.get("spent_s"):
        yield f"In the recorded step, a device waits {row['spent_s'].get(_breakdown.EXCHANGE, 0) * 1e3:,.1f} ms before updates."


SAID = {"5": _figure5, "6": _figure6, "7": _figure7, "8": _figure8, "11": _figure11, "large": _large, "pipelines": _pipelines, "islands": _islands}


def said(number, report):
    """Returns the paragraph of what this run found in a figure, or ""."""
    result = _rows.figures(report).get(number)
    sentences = list(SAID[number](result, report)) if number in SAID and result else []
    return "In this run: " + " ".join(sentences) if sentences else ""
