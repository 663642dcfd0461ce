"""Compares the ways of a stock client into a cluster of one host. The cluster is the client's own, in one process, or has several processes and an
agent by which clients enter. Both are also entered by the PJRT door, from the client's own process. By that door a client's own cluster is in the
client's process (pjrt_own), or separate (pjrt_one_process). The other sides are the floor, a server that answers everything at once without a
cluster, and jax in process, with its own runtime and with our device plugin.

`--grid` measures the same calls for 1, 8, 64 and 256 devices. The cluster is in the program's process, in another process of the machine, or on a
machine of its own (a network namespace, which needs root). It prints the number of devices from which the proxy's door is faster. By this crossover
the package chooses (python/pathways/_client/doors.py).

latency: call and block_until_ready. decode: call and read the result, then the next call; `eager` has four operations that jit does not join.
rate: calls a second with _answers.DEPTH in flight. step: several calls that update many donated arrays over all devices, until the last has ended.
up, down: a large array to the device and back. processor: processor time of all processes for a call, with _answers.DEPTH in flight.
"""

import contextlib

import _answers
import _places
import _report
import _sides

OURS = ("one_process", "agent", "pjrt_own", "pjrt_one_process", "pjrt")
BY_IFRT, BY_PJRT = {"PATHWAYS_DOOR": "ifrt"}, {"PATHWAYS_DOOR": "pjrt"}
SEPARATE = {"PATHWAYS_LOCAL_PROCESS": "separate"}


def open_sides(stack, args):
    from pathways._cluster import binaries

    enter = stack.enter_context
    sides = {"floor": enter(_sides.client("floor", "direct", enter(_sides.floor_server(args.tree, "--answer-all")))),
             "inprocess": enter(_sides.client("inprocess", "inprocess")),
             "plugin": enter(_sides.client("plugin", "plugin", str(binaries.device_plugin("cpu")), _sides.our_allocator())),
             "one_process": enter(_sides.client("one_process", "own", "1x1x8", BY_IFRT)),
             "pjrt_own": enter(_sides.client("pjrt_own", "own", "1x1x8", BY_PJRT)),
             "pjrt_one_process": enter(_sides.client("pjrt_one_process", "own", "1x1x8", BY_PJRT | SEPARATE))}
    cluster = enter(_sides.cluster("1x1x8"))
    sides["agent"] = enter(_sides.client("agent", "package", cluster.address))
    sides["pjrt"] = enter(_sides.client("pjrt", "package", cluster.address, BY_PJRT))
    members = [process.pid for process in cluster.processes]
    return sides, {"agent": members, "pjrt": members}


def processes(side, others):
    """Returns the process ids of the client, and of the others: its children and the cluster's processes."""
    return {"client": [side.process.pid], "others": [*_sides.children(side.process.pid).values(), *others]}


def processor_us(side, others, program, calls):
    """Returns the processor time of a call in a deep loop: of the client, and of all other processes."""
    pids = processes(side, others)
    used = lambda: {name: sum(map(_sides.processor_seconds, group)) for name, group in pids.items()}
    before = used()
    side.ask("rate", program=program, calls=calls, depth=_answers.DEPTH)
    return {name: (after - before[name]) / calls * 1e6 for name, after in used().items()}


def in_turn(sides, args, key, do, **arguments):
    asks = {name: lambda side=side: side.ask(do, **arguments) for name, side in sides.items()}
    return {name: {"median": _sides.median(r, key), "spread": _sides.spread(r, key)} for name, r in _sides.take_turns(args.rounds, asks).items()}


@contextlib.contextmanager
def sides_of(devices, args):
    """Opens the sides of a row of the grid. Clients of clusters are named "PLACE DOOR"."""
    from pathways._cluster import binaries

    with contextlib.ExitStack() as stack:
        shape, many = f"1x1x{devices}", {"PATHWAYS_BENCH_DEVICES": str(devices)}

        def enter(name, mode, address="", env=None):
            return stack.enter_context(_sides.client(name.replace(" ", "-"), mode, address, many | (env or {})))

        def both(place, address, env=None):
            for door, chosen in (("ifrt", BY_IFRT), ("pjrt", BY_PJRT)):
                sides[f"{place} {door}"] = enter(f"{place} {door}", "package", address, chosen | (env or {}))

        sides = {"jax in process": enter("inprocess", "inprocess"),
                 "plugin": enter("plugin", "plugin", str(binaries.device_plugin("cpu")), _sides.our_allocator()),
                 "program pjrt": enter("program pjrt", "own", shape, BY_PJRT | {"PATHWAYS_LOCAL_PROCESS": "own"})}
        if (args.tree / "bin" / "floor_server").exists():
            sides["floor"] = enter("floor", "direct", stack.enter_context(_sides.floor_server(args.tree, "--answer-all", "--devices", str(devices))))
        else:
            print(f"doors: no floor: {args.tree} has no bin/floor_server")
        both("process", stack.enter_context(_sides.cluster(shape)).address)
        try:
            address, env, _ = stack.enter_context(_places.elsewhere(devices))
            both("machine", address, env)
        except OSError as error:
            print(f"doors: nothing on a machine of its own: {error}")
        yield sides


def crossover(rows, place, what):
    """Returns the smallest measured number of devices at which the proxy's door is faster; None if there is none."""
    doors = [(devices, rows[devices][what].get(f"{place} ifrt"), rows[devices][what].get(f"{place} pjrt")) for devices in sorted(rows)]
    return next((devices for devices, ifrt, pjrt in doors if ifrt and pjrt and ifrt["median"] < pjrt["median"]), None)


def grid(args):
    """Measures the grid; prints it as a table for docs/design/two-doors.md."""
    rows = {}
    for devices in args.devices:
        with sides_of(devices, args) as sides:
            real = {name: side for name, side in sides.items() if name != "floor"}
            rows[devices] = {
                "synchronous call": in_turn(sides, args, "p50_us", "latency", program=f"spread {devices}", calls=args.calls),
                "step of 20 arrays": in_turn(real, args, "step_us", "steps", program=f"state 20 {devices}", calls=16),
            }
            if devices == 1:
                rows[devices]["call and read"] = in_turn(real, args, "p50_us", "decode", program="scalar", calls=args.calls)
    columns = list(dict.fromkeys(name for row in rows.values() for values in row.values() for name in values))
    print("| us | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|")
    for devices, row in rows.items():
        for what, values in row.items():
            print(f"| {what}, {devices} | " + " | ".join(f"{values[c]['median']:,.0f}" if c in values else "" for c in columns) + " |")
    for place in ("process", "machine"):
        for what in ("synchronous call", "step of 20 arrays"):
            print(f"doors: {place}, {what}: the proxy's door is the faster from {crossover(rows, place, what) or 'none of these numbers of'} devices on")
    _report.finish(args, "doors_grid", {str(devices): row for devices, row in rows.items()}, [])


def main():
    def add(parser):
        parser.add_argument("--calls", type=int, default=400)
        parser.add_argument("--rounds", type=int, default=7)
        parser.add_argument("--mib", type=int, default=256)
        parser.add_argument("--grid", action="store_true", help="by numbers of devices and places of the cluster")
        parser.add_argument("--devices", type=int, nargs="+", default=[1, 8, 64, 256], help="of --grid")

    args = _report.arguments(__doc__, add)
    if args.grid:
        return grid(args)
    with contextlib.ExitStack() as stack:
        sides, others = open_sides(stack, args)
        real = {name: side for name, side in sides.items() if name != "floor"}  # the floor has no results to read
        figures = {f"latency {p}": in_turn(sides, args, "p50_us", "latency", program=p, calls=args.calls) for p in ("scalar", "sharded")}
        for p in ("scalar", "eager"):
            figures[f"decode {p}"] = in_turn(real, args, "p50_us", "decode", program=p, calls=args.calls)
        for arrays in (20, 200):
            figures[f"step {arrays}"] = in_turn(real, args, "step_us", "steps", program=f"state {arrays} 8", calls=16)
        for p in ("scalar", "sharded", "psum"):
            figures[f"rate {p}"] = in_turn(real, args, "per_s", "rate", program=p, calls=4 * args.calls, depth=_answers.DEPTH)
        figures["processor scalar"] = {name: processor_us(side, others.get(name, []), "scalar", 8 * args.calls) for name, side in real.items()}
        large = {name: sides[name] for name in OURS}
        for do in ("up", "down"):
            figures[do] = in_turn(large, args, "seconds", do, mib=args.mib)
    for name, values in figures.items():
        print(f"doors {name:16}" + "".join(f"  {side} " + " ".join(f"{key} {v:.3g}" for key, v in value.items()) for side, value in values.items()))
    targets = [_report.target(f"{p}: latency, one process / floor", figures[f"latency {p}"]["one_process"]["median"] / figures[f"latency {p}"]["floor"]["median"], 1.3)
               for p in ("scalar", "sharded")]
    used = figures["processor scalar"]["one_process"]
    targets.append(_report.target("processor time of everything but the client / the client's, a call", used["others"] / used["client"], 0.5))
    _report.finish(args, "doors", figures, targets)


if __name__ == "__main__":
    main()
