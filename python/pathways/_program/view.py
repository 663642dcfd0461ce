"""Shows a traced program to people: as text, as a picture, and by each device's work and memory."""

import dataclasses

from pathways._program import meshes, sizes, svg
from pathways._program.nodes import HostCall, HostCompute, Route, While


@dataclasses.dataclass
class DeviceUse:
    """Estimates for one call. The operations of a computation are divided equally among its devices."""
    flops: float = 0
    computations: int = 0
    received_bytes: int = 0   # by transfers, from other devices
    argument_bytes: int = 0   # arguments and constants
    peak_bytes: int = 0       # all arrays live at one time; temporary memory inside computations is extra
    host_functions: int = 0   # calls of functions on the device's host
    host_bytes: int = 0       # that are copied between the device and these functions


class ProgramView:
    def __init__(self, graph):
        graph.number_values()
        self._graph = graph

    def as_text(self):
        """Returns one line for each node, with devices, types, sizes and the user's source line, then one line for each device."""
        graph = self._graph
        functions = [node for node in graph.nodes if isinstance(node.waits, HostCompute)]
        routes = sum(isinstance(node.waits, Route) for node in graph.nodes)
        waits = sum(n.waits is not None for n in graph.nodes) - len(functions) - routes
        computations = sum(n.executable >= 0 for n in graph.nodes) - len(functions)
        different = len(graph.executables) - graph.count_host_functions()
        lines = [f"program {graph.name}: {len(graph.arguments)} arguments, {computations} computations "
                 f"({different} different), {sum(n.is_transfer for n in graph.nodes)} transfers, "
                 + (f"{len(functions)} functions on hosts, " if functions else "") + (f"{routes} routes, " if routes else "") + (f"{waits} that wait for values, " if waits else "")
                 + f"{len(graph.results)} results"]
        lines += self._lines(graph, "  ")
        for device, use in self.per_device().items():
            lines.append(f"device {device.id}: {use.computations} computations, {sizes.operations(use.flops)}, receives {sizes.human(use.received_bytes)}, "
                         f"arguments {sizes.human(use.argument_bytes)}, at most {sizes.human(use.peak_bytes)}"
                         + (f", {use.host_functions} functions on its host with {sizes.human(use.host_bytes)}" if use.host_functions else ""))
        return "\n".join(lines)

    def _lines(self, graph, indent):
        for argument in graph.arguments:
            kind = "token" if argument.effect is not None else "constant" if argument.constant is not None else "arg"
            yield f"{indent}{self._typed(argument.value)} = {kind}{' donated' if argument.donated else ''}"
        for node in graph.nodes:
            inputs = [f"%{value.number}" for value in node.inputs]
            branches = ()
            if node.is_transfer:
                what = f"transfer {inputs[0]}  # {sizes.human(sizes.received(node))}, "
            elif node.waits is None:
                what = f"compute {graph.executable_names[node.executable]}({', '.join(inputs)})  # {sizes.operations(self._flops(node))}, "
            elif isinstance(node.waits, HostCall):
                what = f"host {node.waits.name}({', '.join(inputs)})  # "
            elif isinstance(node.waits, HostCompute):
                what = f"function {node.waits.name}({', '.join(inputs)})  # on the hosts of its devices, {sizes.human(sizes.passed(node))}, "
            elif isinstance(node.waits, While):
                branches = [node.waits.turn]
                what = f"while {inputs[0]} {node.waits.turn.name}({', '.join(inputs[1:])})  # "
            elif isinstance(node.waits, Route):
                back, experts = node.waits.back, f"{node.waits.experts} experts of capacity {node.waits.capacity}"
                what = f"route {f'back from {experts}' if back else f'to {experts}'}({', '.join(inputs)})  # at most {sizes.human(sizes.routed(node))}, "
            else:
                branches = node.waits.branches
                what = f"select {inputs[0]} among {', '.join(branch.name for branch in branches)}({', '.join(inputs[1:])})  # "
            yield f"{indent}{', '.join(map(self._typed, node.outputs))}{' = ' if node.outputs else ''}{what}{node.location}"
            for branch in branches:
                branch.number_values()
                yield f"{indent}  {'turn' if isinstance(node.waits, While) else 'branch'} {branch.name}:"
                yield from self._lines(branch, indent + "    ")
        yield f"{indent}result {', '.join(f'%{value.number}' for value in graph.results)}"

    def as_svg(self):
        """Returns an SVG picture: a lane for each set of devices, a box for each computation, bytes on the edges. Transfers are dashed."""
        return svg.draw(self._graph, self._flops)

    def per_device(self):
        """Returns {jax device: DeviceUse}. Branches are not counted: only one of them runs. Neither are turns of loops."""
        uses, now = {}, {}
        graph = self._graph

        def change(value, sign):
            size = sizes.shard_bytes(value) * sign
            for device in meshes.devices_of(value.sharding):
                use = uses.setdefault(device, DeviceUse())
                now[device] = now.get(device, 0) + size
                use.peak_bytes = max(use.peak_bytes, now[device])

        last = {value: i for i, node in enumerate(graph.nodes) for value in node.inputs}
        last.update((value, len(graph.nodes)) for value in graph.results)
        owned = set()  # the values that may be freed after their last use
        for argument in graph.arguments:
            change(argument.value, 1)
            owned |= {argument.value} if argument.donated else set()
            for device in meshes.devices_of(argument.value.sharding):
                uses[device].argument_bytes += sizes.shard_bytes(argument.value)
        for i, node in enumerate(graph.nodes):
            ending = [value for value in dict.fromkeys(node.inputs) if last[value] == i and value in owned]
            overwritten = [value for value in ending if value in node.donated]
            for value in overwritten:
                change(value, -1)
            for value in node.outputs:
                change(value, 1)
            for value in ending + [value for value in node.outputs if value not in last]:
                if value not in overwritten:
                    change(value, -1)
            owned.update(value for value in node.outputs if value in last)
            self._work(node, uses)
        return dict(sorted(uses.items(), key=lambda item: item[0].id))

    def _work(self, node, uses):
        if node.is_transfer:
            for device, size in sizes.arrivals(node).items():
                uses[device].received_bytes += size
            return
        if isinstance(node.waits, HostCompute):
            for device in self._graph.executable_devices[node.executable]:
                use = uses.setdefault(device, DeviceUse())
                use.host_functions += 1
                use.host_bytes += sum(map(sizes.shard_bytes, [*node.inputs, *node.outputs]))
            return
        if node.waits is not None:
            return
        devices = self._graph.executable_devices[node.executable]
        for device in devices:
            use = uses.setdefault(device, DeviceUse())
            use.computations += 1
            use.flops += self._flops(node) / len(devices)

    def _flops(self, node):
        return self._graph.executable_flops[node.executable]

    def _typed(self, value):
        return f"%{value.number}:{value.aval.str_short()}@{meshes.ranges([d.id for d in meshes.devices_of(value.sharding)])}"
