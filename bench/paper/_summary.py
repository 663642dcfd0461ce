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


def _of_steps(found):
    """Yields the ratios of training steps and of pipelines."""
    for one in found:
        if one.number == "table1":
            yield f"Training steps of a small {one.where}, {one.what.partition(', ')[2]}: {one.spread.median:.2f}."
    if one := next((one for one in found if one.number == "12" and one.what.startswith("tokens/s, two islands")), None):
        yield f"Data parallelism over two islands / one, both ours, CPU devices: {one.spread.median:.2f}; the paper has {one.limit:g}."
    for one in found:
        if one.number in ("pipelines", "islands"):
            yield f"On simulated devices, {one.what.removeprefix('tokens/s, ')}: {one.spread.median:.2f}, wanted {one.wanted} ({one.claim})."


def sentences(report):
    """Yields the results of the other figures in short, the unfavourable ones as well."""
    found = _measured(report)
    for one in found:
        if one.number == "6":
            where = "from none of the measured lengths of computation on" if one.spread.median == float("inf") else f"from a length of computation of {one.reached} ms on"
            yield f"Throughput on {one.where} devices equals that of {one.rival} {where}; the paper has {one.limit:g} ms, on TPUs."
    stages = [one for one in found if one.number == "7"]
    if stages:
        yield "Parallel / sequential dispatch: " + ", ".join(f"{one.spread.median:.2f} ({one.where})" for one in stages) + "."
    for one in found:
        if one.number == "8" and one.where.startswith("simulated") and "what the devices can do" in one.what:
            yield f"{one.what.split(' together')[0]} with computations of {one.where.removeprefix('simulated, ')} keep simulated devices busy for {100 * one.spread.median:.0f} % of the time."
        if one.number == "8" and one.where.startswith("CPU") and "jax" in one.what:
            yield f"{one.what.split(' together')[0]} on one CPU device, {one.where.removeprefix('CPU, ')} / {one.what.partition(' / ')[2]}: {one.spread.median:.2f}."
    if nine := [one for one in found if one.number == "9"]:
        yield f"The results of four clients deviate from their weights by at most {100 * max(one.spread.median for one in nine):.2f} % (median of the rounds)."
    yield from _of_steps(found)
