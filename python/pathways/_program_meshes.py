"""The devices of a program's values: what is worked out once for each set of devices, however many devices, and nodes, there are."""

import functools

import jax
import numpy as np
from jax.extend.backend import get_backend
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from pathways import _program_wire as wire


@functools.lru_cache(maxsize=1024)
def devices_of(sharding):
    """The same tuple for the same devices: compare with `is`, however many there are."""
    devices = tuple(sharding._internal_device_list)
    return _device_tuples.setdefault(devices, devices)


_device_tuples = {}


def packed_ids(devices):
    """REQUIRES: from devices_of. What a program says of them."""
    if id(devices) not in _packed:
        _packed[id(devices)] = wire.packed(device.id for device in devices)
    return _packed[id(devices)]


_packed = {}


def client():
    """Of the backend that programs run on. jax.devices() would make a list of all devices."""
    return get_backend()


def of_the_program(devices):
    """Whether they are of the backend that programs run on: jax's default one."""
    return devices[0].client is client()


def replicated(devices):
    """REQUIRES: from devices_of."""
    if id(devices) not in _replicated:
        _replicated[id(devices)] = SingleDeviceSharding(devices[0]) if len(devices) == 1 else NamedSharding(
            jax.sharding.Mesh(np.array(devices), ("all",)), PartitionSpec())
    return _replicated[id(devices)]


_replicated = {}


def named(devices):
    """REQUIRES: from devices_of. For errors: "device 3", "devices 0-3,6"."""
    if id(devices) not in _names:
        text = ranges([device.id for device in devices])
        if len(text) > 80:
            text = f"{text[:text.rfind(',', 0, 80)]} and others, {len(devices)} in all"
        _names[id(devices)] = f"device{'s' if len(devices) > 1 else ''} {text}"
    return _names[id(devices)]


_names = {}


def ranges(numbers):
    """0-3,6"""
    parts = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
