"""Caches facts about the devices of a program's values, computed once for each set of devices."""

import functools

import jax
import numpy as np
from jax.extend.backend import get_backend
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from pathways._jax import placement
from pathways._client import wire


@functools.lru_cache(maxsize=1024)
def devices_of(sharding):
    """Returns the sharding's devices; equal devices give the same tuple, so compare with `is`."""
    devices = placement.devices_of(sharding)
    return _device_tuples.setdefault(devices, devices)


def canonical(devices):
    """Returns these devices as devices_of returns them."""
    devices = tuple(devices)
    return _device_tuples.setdefault(devices, devices)


_device_tuples = {}


def packed_ids(devices):
    """Returns the encoded ids of the devices. REQUIRES: `devices` is from devices_of or canonical."""
    if id(devices) not in _packed:
        _packed[id(devices)] = wire.packed(device.id for device in devices)
    return _packed[id(devices)]


_packed = {}


def client():
    """Returns the client of the backend that programs run on. Unlike jax.devices(), it makes no list of all devices."""
    return get_backend()


def of_the_program(devices):
    """Whether the devices belong to the backend that programs run on, jax's default one."""
    return devices[0].client is client()


def replicated(devices):
    """Returns the replicated sharding over the devices. REQUIRES: `devices` is from devices_of or canonical."""
    if id(devices) not in _replicated:
        _replicated[id(devices)] = SingleDeviceSharding(devices[0]) if len(devices) == 1 else NamedSharding(
            jax.sharding.Mesh(np.array(devices), ("all",)), PartitionSpec())
    return _replicated[id(devices)]


_replicated = {}


def named(devices):
    """Returns the devices' text for errors: "device 3", "devices 0-3,6". REQUIRES: `devices` is from devices_of or canonical."""
    if id(devices) not in _names:
        text = ranges([device.id for device in devices])
        if len(text) > 80:
            text = f"{text[:text.rfind(',', 0, 80)]} and others, {len(devices)} in all"
        _names[id(devices)] = f"device{'s' if len(devices) > 1 else ''} {text}"
    return _names[id(devices)]


_names = {}


def ranges(numbers):
    """Formats numbers as ranges: "0-3,6"."""
    parts = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
