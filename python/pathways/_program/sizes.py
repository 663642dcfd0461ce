"""Sizes and amounts of work in a program's graph, as numbers and as text for people."""

import math

from pathways._program import cost
from pathways._program.nodes import physical


def shard_bytes(value):
    """Returns the value's bytes on each of its devices."""
    aval, sharding = physical(value.aval, value.sharding)
    return math.prod(sharding.shard_shape(aval.shape)) * cost.bytes_of(aval) // max(math.prod(aval.shape), 1)


def arrivals(node):
    """Returns {device: bytes that a transfer brings there}. Shards already there do not move."""
    value, out = node.inputs[0], node.outputs[0]
    aval, target = physical(out.aval, out.sharding)
    _, source = physical(value.aval, value.sharding)
    had = source.devices_indices_map(aval.shape)
    size = shard_bytes(out)
    return {device: 0 if had.get(device) == index else size for device, index in target.devices_indices_map(aval.shape).items()}


def received(node):
    return sum(arrivals(node).values())


def passed(node):
    """Returns the bytes that a function on hosts takes and makes, on all its devices."""
    return sum(shard_bytes(value) * len(value.sharding.device_set) for value in [*node.inputs, *node.outputs])


def routed(node):
    """Returns the most bytes of rows that a route may send."""
    return sum(cost.bytes_of(value.aval) for value in node.inputs[:node.waits.groups if node.waits.back else 1])


def human(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024


def operations(count):
    for unit in ("", "k", "M", "G", "T"):
        if count < 1000 or unit == "T":
            return f"{count:.0f} flop" if not unit else f"{count:.1f} {unit}flop"
        count /= 1000
