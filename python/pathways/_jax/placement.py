"""Reads where data is from private attributes of jax's objects. Imports jax."""

from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from pathways._jax import seams


def client_of(sharding):
    """Returns the client of the sharding's devices."""
    return next(iter(sharding.device_set)).client


def devices_of(sharding):
    """Returns the sharding's devices in order. Raises ValueError if its mesh is abstract."""
    if isinstance(sharding, NamedSharding):
        return tuple(sharding.mesh.devices.flat)
    if isinstance(sharding, SingleDeviceSharding):
        return tuple(sharding.device_set)
    if seams.DEVICE_LIST.find() is None:
        raise NotImplementedError(f"this jax does not tell the order of the devices of {sharding}: use a NamedSharding")
    return tuple(sharding._internal_device_list)


def device_list(devices):
    """Returns jaxlib's list of these devices. REQUIRES: seams.DEVICE_LIST is found."""
    import numpy as np

    sharding = SingleDeviceSharding(devices[0]) if len(devices) == 1 else NamedSharding(Mesh(np.array(devices), ("all",)), PartitionSpec())
    return sharding._internal_device_list


def partition(sharding, rank):
    """Returns the sharding of arrays of this rank in XLA's form (HloSharding). REQUIRES: seams.HLO_SHARDING is found."""
    return sharding._to_xla_hlo_sharding(rank)


def all_devices(client):
    """Returns all devices of a client, including those of virtual slices; None if this jax cannot list them."""
    return client._get_all_devices() if seams.ALL_DEVICES.find() is not None else None
