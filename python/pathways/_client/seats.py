"""`pw.seats`: the devices of a cluster, those of lost hosts included."""

from pathways._client import connection
from pathways._jax import placement, virtual_devices


def seats():
    """Returns all devices of the cluster, sorted by id: those of jax.devices(), and those of lost hosts, whose seats others may take.

    Operations on a device of a lost host raise DATA_LOSS until another host has taken the seat. docs/faults.md has the rules."""
    import jax

    client = jax.devices()[0].client
    devices = placement.all_devices(client) if connection.is_ours(client) else None
    return sorted(filter(virtual_devices.is_seat, devices or jax.devices()), key=lambda device: device.id)
