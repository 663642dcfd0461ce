"""Draws a program as SVG.

Each set of devices has a lane; lanes are sorted from left to right by their lowest device. Within a lane, computations are stacked in the order in
which the devices run them, and below their inputs. Arguments are one box at the top of their lane, results one box at its bottom. A transfer is a dot
at the edge of the lane where it arrives, and the edge to it is dashed. Each edge shows the size of its arrays; an edge to a transfer shows
the bytes that move.

Each box or dot is a <g class="node"> with the attributes data-kind, data-devices and an id. Each edge is a <path class="edge"> (or "edge
transfer") with data-from, data-to and data-bytes.
"""

import dataclasses
from xml.sax.saxutils import escape, quoteattr

from pathways._program import meshes, sizes
from pathways._program.nodes import HostCall, HostCompute, Route, While

BOX_WIDTH, BOX_HEIGHT, LANE_WIDTH, ROW_HEIGHT, MARGIN, HEADER, DOT = 190, 40, 290, 86, 30, 40, 4
FILLS = ("#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3", "#ede9fe", "#cffafe", "#ffedd5", "#e5e7eb")
STYLE = """
  text { font: 12px sans-serif; fill: #111827; text-anchor: middle }
  .lane text { font-weight: bold }
  .small { font-size: 10px; fill: #4b5563 }
  .node rect { stroke: #6b7280; rx: 6 }
  .node circle { fill: #b91c1c }
  .edge { fill: none; stroke: #6b7280; marker-end: url(#tip) }
  .transfer { stroke: #b91c1c; stroke-dasharray: 5 3 }
  .bytes { font-size: 10px; fill: #374151; paint-order: stroke; stroke: white; stroke-width: 3px }
"""


@dataclasses.dataclass(eq=False)
class Box:
    kind: str           # "arguments", "compute", "transfer", "function", "route", "host", "select", "results"
    title: str
    note: str
    devices: tuple      # ids
    tip: str = ""
    row: int = 0
    name: str = ""


@dataclasses.dataclass
class Edge:
    size: int = 0
    values: list = dataclasses.field(default_factory=list)


def draw(graph, flops_of):
    boxes, edges = _boxes_and_edges(graph, flops_of)
    lanes = sorted({box.devices for box in boxes}, key=lambda ids: (min(ids), len(ids), ids))
    _arrange(boxes, edges)
    for i, box in enumerate(boxes):
        box.name = f"n{i}"
    width = 2 * MARGIN + LANE_WIDTH * len(lanes)
    height = 2 * MARGIN + HEADER + ROW_HEIGHT * (1 + max((box.row for box in boxes), default=0))
    place = _places(boxes, edges, lanes)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
             f"<title>{escape(graph.name)}</title><style>{STYLE}</style>",
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker></defs>']
    for i, ids in enumerate(lanes):
        x = MARGIN + LANE_WIDTH * i
        parts.append(f'<g class="lane"><rect x="{x + 8}" y="{MARGIN - 10}" width="{LANE_WIDTH - 16}" height="{height - 2 * MARGIN + 20}" '
                     f'fill="{FILLS[i % len(FILLS)]}" fill-opacity="0.35"/><text x="{x + LANE_WIDTH / 2}" y="{MARGIN + 10}">{escape(_where(graph, ids))}</text></g>')
    parts += [_edge(source, target, edge, place) for (source, target), edge in edges.items()]
    parts += [_box(box, place[box], FILLS[lanes.index(box.devices) % len(FILLS)]) for box in boxes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _boxes_and_edges(graph, flops_of):
    boxes, edges, source = [], {}, {}
    ids = lambda value: tuple(sorted(device.id for device in meshes.devices_of(value.sharding)))

    def group(kind, values):
        found = {}
        for value in values:
            found.setdefault(ids(value), []).append(value)
        for devices, members in found.items():
            total = sum(sizes.shard_bytes(value) * len(devices) for value in members)
            boxes.append(Box(kind, f"{len(members)} {kind if len(members) > 1 else kind[:-1]}", sizes.human(total), devices,
                             "\n".join(f"%{value.number} {value.aval.str_short()}" for value in members)))
            yield from ((value, boxes[-1]) for value in members)

    def connect(value, target, size=None):
        edge = edges.setdefault((source[value], target), Edge())
        if value not in edge.values:
            edge.values.append(value)
            edge.size += sizes.shard_bytes(value) * len(ids(value)) if size is None else size

    source.update(group("arguments", [argument.value for argument in graph.arguments]))
    for node in graph.nodes:
        if node.is_transfer:
            box = Box("transfer", "", "", ids(node.outputs[0]), node.location)
        elif isinstance(node.waits, HostCompute):
            devices = tuple(sorted(device.id for device in graph.executable_devices[node.executable]))
            box = Box("function", node.waits.name, f"on the hosts, {sizes.human(sizes.passed(node))}", devices, node.location)
        elif isinstance(node.waits, Route):
            devices = ids((node.outputs if node.waits.back else node.inputs)[0])
            box = Box("route", "route back" if node.waits.back else "route", f"at most {sizes.human(sizes.routed(node))}", devices, node.location)
        elif node.waits is not None:
            at = (node.outputs or node.inputs)[:1]
            devices = ids(at[0]) if at else ()
            if isinstance(node.waits, HostCall):
                said = ("host", node.waits.name, "in the client")
            elif isinstance(node.waits, While):
                said = ("select", node.waits.turn.name, "in turns, by a value")
            else:
                said = ("select", " or ".join(branch.name for branch in node.waits.branches), "by a value")
            box = Box(*said, devices or (0,), node.location)
        else:
            devices = tuple(sorted(device.id for device in graph.executable_devices[node.executable]))
            box = Box("compute", graph.executable_names[node.executable], sizes.operations(flops_of(node)), devices, node.location)
        boxes.append(box)
        for value in node.inputs:
            connect(value, box, sizes.received(node) if node.is_transfer else None)
        source.update((value, box) for value in node.outputs)
    for value, box in list(group("results", dict.fromkeys(graph.results))):
        connect(value, box)
    return boxes, edges


def _arrange(boxes, edges):
    """Sets rows: each box is below its inputs, and below the previous box in its lane."""
    needs, lowest = {}, {}
    for source, target in edges:
        needs.setdefault(target, []).append(source)
    last = 0
    for box in boxes:
        above = max((one.row for one in needs.get(box, ())), default=-1)
        if box.kind == "transfer":
            box.row = above  # a dot needs no row of its own
        elif box.kind == "results":
            box.row = max(above, lowest.get(box.devices, -1), last) + 1
        else:
            box.row = max(above, lowest.get(box.devices, -1)) + 1
            last = max(last, box.row)
        if box.kind != "transfer":
            lowest[box.devices] = box.row


def _places(boxes, edges, lanes):
    """Returns, for each box, the middle of its upper side."""
    top, left = MARGIN + HEADER, {ids: MARGIN + LANE_WIDTH * i for i, ids in enumerate(lanes)}
    place = {box: (left[box.devices] + LANE_WIDTH / 2, top + ROW_HEIGHT * box.row) for box in boxes if box.kind != "transfer"}
    users = {}
    for source, target in edges:
        users.setdefault(source, []).append(target.row)
    dots = {}
    for box in boxes:
        if box.kind == "transfer":
            row = min(users.get(box, [box.row + 1]))
            beside = dots[box.devices, row] = dots.get((box.devices, row), 0) + 1
            place[box] = (left[box.devices] + 8 + 14 * beside, top + ROW_HEIGHT * row - 24)
    return place


def _where(graph, ids):
    devices = {device.id: device for value in _values(graph) for device in meshes.devices_of(value.sharding)}
    islands = dict.fromkeys(str(devices[i].island) for i in ids if i in devices and hasattr(devices[i], "island"))
    return f"device{'s' if len(ids) > 1 else ''} {meshes.ranges(ids)}" + (f" ({', '.join(islands)})" if islands else "")


def _values(graph):
    return [argument.value for argument in graph.arguments] + [value for node in graph.nodes for value in node.outputs]


def _box(box, at, fill):
    x, y = at
    devices = ",".join(map(str, box.devices))
    begin = f'<g class="node" id="{box.name}" data-kind="{box.kind}" data-devices="{devices}"><title>{escape(box.tip)}</title>'
    if box.kind == "transfer":
        return begin + f'<circle cx="{x}" cy="{y + DOT}" r="{DOT}"/></g>'
    return (begin + f'<rect x="{x - BOX_WIDTH / 2}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" fill="{fill}"/>'
            f'<text x="{x}" y="{y + 17}">{escape(box.title[:28])}</text><text class="small" x="{x}" y="{y + 32}">{escape(box.note)}</text></g>')


def _edge(source, target, edge, place):
    (x1, y1), (x2, y2) = place[source], place[target]
    y1 += 2 * DOT if source.kind == "transfer" else BOX_HEIGHT
    bend = (y2 - y1) / 2
    aside = 0 if x1 != x2 or target.row == source.row + 1 else BOX_WIDTH * 0.75  # curve around the boxes in between
    path = f"M{x1} {y1}C{x1 + aside} {y1 + bend} {x2 + aside} {y2 - bend} {x2} {y2}"
    kind = "edge transfer" if target.kind == "transfer" else "edge"
    values = quoteattr(", ".join(f"%{value.number}" for value in edge.values))
    drawn = (f'<path class="{kind}" data-from="{source.name}" data-to="{target.name}" data-bytes="{edge.size}" data-values={values} '
             f'd="{path}"/>')
    if source.kind == "transfer":  # the edge to the transfer shows the bytes
        return drawn
    return drawn + (f'<text class="bytes" x="{(x1 + x2) / 2 + 0.75 * aside}" y="{(y1 + y2) / 2 + 3}">'
                    f'{escape(sizes.human(edge.size))}</text>')
