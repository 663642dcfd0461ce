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


def _range(some, digits=2):
    values = [one.spread.median for one in some]
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _measured(report):
    return [one for one in _targets.targets(report) if one.spread is not None and not one.failed]


def _against_jax(found):
    """Yields the ratios of figure 5 to jax with our plugin, of the same kind of call, and to Ray."""
    for mine, name in _targets.SHOWN.items():
        for kind in ("opbyop", "fused"):
            some = [one for one in found if (one.number, one.mine, one.kind, one.rival_kind) == ("5", mine, kind, kind) and one.rival in (_setup.PLUGIN, _setup.MULTI_PLUGIN)]
            if some:
                yield f"Figure 5, {kind}: {name} makes {_range(some)} times the calls a second that jax with our plugin makes (by row)."
    if ray := [one for one in found if one.number == "5" and one.rival == _setup.RAY]:
        yield f"Figure 5, against Ray: {_range(ray)} times its rate."


RATIOS = (("7", "Figure 7, parallel / sequential dispatch"), ("table1", "Table 1, training steps, ours / jax with our plugin"), ("12", "Figure 12 on CPU devices, the ratios of its verdicts"),
          ("pipelines", "Simulated pipelines, the time of the schedule / the time of a step"), ("islands", "Figure 12, simulated, the ratios of its verdicts"))


def sentences(report):
    """Yields the results in short, the unfavourable ones as well."""
    found = _measured(report)
    yield from _against_jax(found)
    for one in found:
        if one.number == "6":
            where = "not in the range that was measured" if one.spread.median == float("inf") else f"{one.reached} ms"
            yield f"Figure 6, {one.where}: throughput equal to that of {one.rival} from computations on of: {where}. The paper has {one.limit:g} ms."
    if shared := [one for one in found if one.number == "8" and "what the devices can do" in one.what]:
        yield "Figure 8: " + "; ".join(f"{one.what.split(' together')[0]} reach {one.spread.median:.2f} of what the devices can do ({one.where.removeprefix('simulated, ')})" for one in shared) + "."
    if nine := [one for one in found if one.number == "9"]:
        yield f"Figure 9: clients deviate from their shares by at most {100 * max(one.spread.median for one in nine):.2f} % (the median of the rounds)."
    for number, words in RATIOS:
        some = [one for one in found if one.number == number and (number != "pipelines" or one.what.startswith("schedule"))]
        if some:
            yield f"{words}: {_range(some)}."


def in_short(report):
    """Returns the results as lines; [] if there are none."""
    return list(sentences(report))
