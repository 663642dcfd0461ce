"""The page's first lines: its words explained, and its results in short, computed from the report. Pure."""

import _setup
import _targets

WORDS = "\n\n".join((
    "Words. A client is the user's Python process with stock jax. Its agent is a process beside it that speaks our protocol. The controller is one process "
    "for the whole cluster; it schedules all computations. A worker is the process of a host and owns its devices. An island is the hosts whose devices can take part in one "
    "collective. jax reaches us by one of two doors: its IFRT proxy client and the agent, or our PJRT plugin inside the client's process (the PJRT door).",
    "opbyop: the client calls each computation. fused: one call runs a loop of 128 computations. chained: one call runs a program of 128 computations, each scheduled by itself. "
    "Under way: calls whose results the client does not have yet. In a turn, one side works while the others wait; a round has one turn of each side. Simulated devices compute nothing and are busy for as long as a computation would take; "
    "clients, controller and messages are real. Multi-controller jax is jax with a process for each host, the usual way to run it."))


def _measured(report):
    return [one for one in _targets.targets(report) if one.spread is not None and not one.failed]


SAME_KIND = {"opbyop": "one computation in a call", "fused": "128 computations in a call"}


def table(report):
    """Returns (head, rows): the rates of figure 5 against those of the same kind of call, by hosts x devices. (head, []) if it was not measured."""
    found = [one for one in _measured(report) if one.number == "5" and one.kind == one.rival_kind]
    places = list(dict.fromkeys(one.where for one in found))
    rows = []
    for name_of_rivals, rivals, kinds in (("jax", (_setup.PLUGIN, _setup.MULTI_PLUGIN), SAME_KIND), ("Ray", (_setup.RAY,), _setup.KINDS)):
        for mine, name in _targets.SHOWN.items():
            for kind in kinds:
                of = {one.where: f"{one.spread.median:.2f}" for one in found if one.mine == mine and one.kind == kind and one.rival in rivals}
                if of:
                    rows.append([f"{name} / {name_of_rivals}: {SAME_KIND.get(kind, 'a program of 128 calls')}", *(of.get(place, "") for place in places)])
    return ["calls a second, ours / theirs, the same device plugin; hosts x devices:", *places], rows


def _each(some, words):
    """Returns "0.98 (4 stages), 1.02 (8 stages)": the medians with their words."""
    return ", ".join(f"{one.spread.median:.2f} ({words(one)})" for one in some)


def _of_parity(found):
    for one in found:
        if one.number == "6":
            where = "from none of the measured lengths of computation on" if one.spread.median == float("inf") else f"from a length of computation of {one.reached} ms on"
            yield f"Throughput on {one.where} devices equals that of {one.rival} {where}; the paper has {one.limit:g} ms, on TPUs."


def _of_clients(found):
    eight = [one for one in found if one.number == "8"]
    if simulated := [one for one in eight if "what the devices can do" in one.what]:
        yield f"16 clients / what simulated devices can do, by the length of a computation: {_each(simulated, lambda one: one.where.removeprefix('simulated, '))}."
    for rival in dict.fromkeys(one.what.partition(" / ")[2] for one in eight if "jax" in one.what):
        some = [one for one in eight if one.what.endswith(rival)]
        yield f"16 clients on one CPU device / {rival}, in one process, by the length of a computation: {_each(some, lambda one: one.where.removeprefix('CPU, '))}."
    if nine := [one for one in found if one.number == "9"]:
        yield f"The results of four clients deviate from their weights by at most {100 * max(one.spread.median for one in nine):.2f} % (median of the rounds)."


def _of_steps(found):
    """Yields the ratios of training steps and of pipelines."""
    of = lambda number: [one for one in found if one.number == number]
    if of("table1"):
        yield f"Training steps of small models, ours / jax with our plugin and as many processes for hosts: {_each(of('table1'), lambda one: one.where.removeprefix('small '))}."
    for one in of("12"):
        yield f"Data parallelism on CPU devices, {one.what.removeprefix('tokens/s, ')}: {one.spread.median:.2f}, wanted {one.wanted} ({one.claim})."
    if schedule := [one for one in of("pipelines") if one.what.startswith("schedule")]:
        yield f"Simulated pipelines, the schedule's time / a step's: {_each(schedule, lambda one: one.what.partition(', ')[2])}."
    for one in of("pipelines") + of("islands"):
        if one not in schedule:
            yield f"On simulated devices, {one.what.removeprefix('tokens/s, ')}: {one.spread.median:.2f}, wanted {one.wanted} ({one.claim})."


def sentences(report):
    """Yields the results of the other figures in short, the unfavourable ones as well."""
    found = _measured(report)
    yield from _of_parity(found)
    if stages := [one for one in found if one.number == "7"]:
        yield f"Parallel / sequential dispatch: {_each(stages, lambda one: one.where)}."
    yield from _of_clients(found)
    yield from _of_steps(found)
