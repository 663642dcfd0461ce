"""The page's first lines: its words explained, and its results in short, computed from the report. Pure."""

import _earlier
import _paper
import _setup
import _targets
from _setup import Spread

WORDS = "\n\n".join((
    "Words. A client is the user's Python process with stock jax. Its agent is a process beside it that speaks our protocol. The controller is one process "
    "for the whole cluster; it schedules all computations. A worker is the process of a host and owns its devices. An island is the hosts whose devices can take part in one "
    "collective. jax reaches us by one of two doors: its IFRT proxy client and the agent, or our PJRT plugin inside the client's process (the PJRT door). Ours is a client, its agent, the controller and a worker for each host. Ours in one process "
    "is a client and one process with the agent, the controller and the worker. By the PJRT door, all of it is in the client's process.",
    "opbyop: the client calls each computation. fused: one call runs a loop of 128 computations. chained: one call runs a program of 128 computations, each scheduled by itself. "
    "Under way: calls whose results the client does not have yet. In a turn, one side works while the others wait; a round has one turn of each side. Simulated devices compute nothing and are busy for as long as a computation would take; "
    "clients, controller and messages are real. Multi-controller jax is jax with a process for each host, the usual way to run it. A loop, of a computation on a CPU device, is a sine of its array.",
    "SPMD is one jit over all devices. gpipe, 1f1b and interleaved are the schedules of pipelines: the orders in which a stage computes microbatches. The time of a schedule is what a step would take if only the devices' own times counted. In segments: "
    "the model is differentiated in parts, so that the gradients of one are exchanged while the next is differentiated."))


def _measured(report):
    return [one for one in _targets.targets(report) if one.spread is not None and not one.failed]


def _told(one):
    """Returns "0.95 (none, 3 of 7)": the median, the verdict, and how many rounds reach the target."""
    return f"{one.spread.median:.2f} ({', '.join([_earlier.word(one.verdict), *([one.agreeing] if one.agreeing != '-' else [])])})"


def _each(some, words):
    """Returns "4 stages 0.98 (met, 5 of 5), 8 stages ...": targets with their words."""
    return ", ".join(f"{words(one)} {_told(one)}" for one in some)


LINES = (  # of the table: the kinds of calls of ours and of the rival, what they are, and the rivals
    ("opbyop", "opbyop", "one computation in a call", "jax", (_setup.PLUGIN, _setup.MULTI_PLUGIN)),
    ("fused", "fused", "128 computations in a call", "jax", (_setup.PLUGIN, _setup.MULTI_PLUGIN)),
    ("chained", "opbyop", "a program of 128 computations, up to 2,048 under way / single calls, 16 under way", "jax", (_setup.PLUGIN, _setup.MULTI_PLUGIN)),
    ("opbyop", "opbyop", "one computation in a call", "Ray", (_setup.RAY,)),
    ("chained", "chained", "a program of 128 computations", "Ray", (_setup.RAY,)),
    ("fused", "fused", "128 computations in a call", "Ray", (_setup.RAY,)))


def table(report):
    """Returns (head, rows): the rates of figure 5 against those of rivals with our device plugin, by hosts x devices. (head, []) if it was not measured."""
    found = [one for one in _measured(report) if one.number == "5"]
    places = list(dict.fromkeys(one.where for one in found))
    rows = []
    for kind, rival_kind, words, name, rivals in LINES:
        for mine, shown in _targets.SHOWN.items():
            # Two targets of one comparison: the lower one, which is the paper's or our reading of it.
            some = sorted((one for one in found if (one.mine, one.kind, one.rival_kind) == (mine, kind, rival_kind) and one.rival in rivals), key=lambda one: -one.limit)
            of = {one.where: _told(one) for one in some}
            if of:
                harder = [one for one in some if one.limit > some[-1].limit]
                aim = f"; {harder[0].wanted}, our own aim, is met in {sum(one.verdict == _setup.MET for one in harder)} of {len(harder)}" if harder else ""
                rows.append([f"{shown} / {name}: {words}; wanted {some[-1].wanted}{aim}", *(of.get(place, "") for place in places)])
    return ["computations a second (above 1: ours is faster), on hosts x devices:", *places], rows


def _of_parity(found):
    for one in found:
        if one.number == "6":
            where = "from none of the measured lengths of computation on" if one.spread.median == float("inf") else f"from a length of {one.reached} ms on"
            kind = " These have no network and free collectives, and no jax beside them, so the paper's number is no comparison." if "simulated" in one.where else ""
            yield f"On {one.where} devices, throughput equals that of {one.rival} {where} ({_earlier.word(one.verdict)}); the paper has {one.limit:g} ms, on TPUs.{kind}"


def _of_stages(found, report):
    stages = [one for one in found if one.number == "7"]
    if not stages:
        return
    rows = report["figures"]["7"]["rows"]
    control = f"; with one stage, where nothing is parallel, {Spread.of(rows['1']['ratio_rounds']).median:.2f}" if rows.get("1", {}).get("ratio_rounds") else ""
    yield f"Calls a second by parallel / by sequential dispatch, wanted {stages[0].wanted}: {_each(stages, lambda one: one.where)}{control}."
    jax = [f"{name} stage{'s' * (name != '1')} {Spread.of(row['of_jax_rounds']).median:.2f}" for name, row in rows.items() if row.get("of_jax_rounds")]
    if jax:
        yield f"The same by parallel dispatch / jax in one process, without a verdict: {', '.join(jax)}."


def loops_ms(report):
    """Returns {"CPU, 20 loops": the most ms that a computation takes there, by the rates of jax}."""
    rates = {device: _targets.rates_of_jax(rows) for device, rows in _targets.devices8(report["figures"].get("8", {"rows": {}}))}
    return {device: 1e3 / max(found) for device, found in rates.items() if found}


def _of_clients(found, report):
    eight = [one for one in found if one.number == "8"]
    longest = loops_ms(report)
    words = lambda one: f"{one.where}, at most {longest[one.where]:.2f} ms:" if one.where in longest else f"{one.where}:"
    for compared in dict.fromkeys(one.what for one in eight):
        some = [one for one in eight if one.what == compared]
        yield f"Results a second, {compared}, wanted {some[0].wanted}: {_each(some, words)}."
    if nine := [one for one in found if one.number == "9"]:
        told = "; ".join(f"{one.what.rpartition(' ')[2]}: {one.verdict}, {one.agreeing}" for one in nine)
        yield (f"Four clients with equal computations of 2.4 ms that keep all devices busy, under the policy of shares: the largest deviation from a weight is {100 * max(one.spread.median for one in nine):.2f} % "
               f"in the median round and {100 * max(max(one.spread.values) for one in nine):.2f} % in the worst, wanted at most {100 * nine[0].limit:g} % ({told}).")


def _of_stock_jax(report):
    """Yields the ratios of training steps to jax with its own device runtime, which have no verdict."""
    told = []
    for model, row in report["figures"].get("table1", {"rows": {}})["rows"].items():
        for name, cell in row.get("sides", {}).items():
            if not _setup.has_verdict(name) and not {"error"} & {*cell, *row["sides"][_setup.OURS]}:
                told.append(f"{model}, {name} {Spread.of(_setup.ratios(row['sides'][_setup.OURS], cell)).median:.2f}")
    if told:
        yield f"The same / jax with its own device runtime, without a verdict: {', '.join(told)}."


def _of_steps(found, report):
    """Yields the ratios of training steps and of pipelines."""
    of = lambda number: [one for one in found if one.number == number]
    if of("table1"):
        yield f"Tokens a second in training, ours / jax with our plugin and as many processes for hosts, wanted {of('table1')[0].wanted}: {_each(of('table1'), lambda one: one.where + ':')}."
        yield from _of_stock_jax(report)
    for one in of("table2") + of("10") + of("12"):
        yield f"Tokens a second on CPU devices, {one.what.removeprefix('tokens/s, ')}: {_told(one)}; wanted {one.wanted}."
    if schedule := [one for one in of("pipelines") if one.what.startswith("schedule")]:
        yield f"Simulated pipelines, the schedule's time / a step's, wanted {schedule[0].wanted}: {_each(schedule, lambda one: one.what.partition(', ')[2])}."
    for one in of("pipelines") + of("islands"):
        if one not in schedule:
            yield f"Tokens a second on simulated devices, {one.what.removeprefix('tokens/s, ')}: {_told(one)}; wanted {one.wanted}{'; ' + one.none if one.none else ''}."


def _without_verdict(report):
    """Yields results against us that have no verdict and stand in no other line."""
    told = []
    for row in report["figures"].get("5", {"rows": ()})["rows"]:
        for kind in _setup.KINDS if "rates" in row else ():
            spread, _ = _targets.compared(row, kind, _setup.TENSORFLOW)
            if spread and spread.median < 1:
                told.append(f"figure 5, {row['name']}, {kind}, ours / TensorFlow {spread.median:.2f}")
    for row in report["figures"].get("6", {"rows": ()})["rows"]:
        told += [f"figure 6, {row['name']}, {_targets.SHOWN[mine]}: not equal to {rival} at any measured length" for mine, rival, found in _targets.against(row)
                 if found.get("points") and found.get("parity_ms") is None and row["name"] not in _paper.PARITY_MS]
    cells = _setup.cells(report["figures"].get("table2", {"rows": {}})["rows"])
    spmd = cells.get(f"{_setup.ONE_JIT}, {_setup.OURS}", {"error": ""})
    told += [f"table 2 on CPU devices, {name} stages / our SPMD jit {Spread.of(_setup.ratios(row, spmd)).median:.2f}" for name, row in cells.items() if name.isdecimal() and "error" not in row and "error" not in spmd]
    for count, shared in (report["figures"].get("8", {"rows": {}})["rows"].get("simulated", {}).get("shared", {}).get("clients", {})).items():
        if count != "1" and min(shared["done"]):
            told.append(f"figure 11, {count} equal clients without the policy of shares, most / fewest results {max(shared['done']) / min(shared['done']):.2f}")
    if told:
        yield f"Without a verdict: {'; '.join(told)}."


def sentences(report):
    """Yields the results of the other figures in short, the unfavourable ones as well."""
    found = _measured(report)
    yield from _of_parity(found)
    yield from _of_stages(found, report)
    yield from _of_clients(found, report)
    yield from _of_steps(found, report)
    yield from _without_verdict(report)
