"""Hides the devices of virtual slices and of empty seats from jax.devices(), through the PJRT door.

In PJRT a client lists all of its devices. So our plugin lists the devices that slices may get, and those whose host was lost before the client
connected. This module removes both from the lists of jaxlib's client: programs see a slice's devices only through the slice.
"""

import weakref

from pathways._jax import seams

_FIRST = 1 << 20  # the lowest id of such a device (pathways/resource/topology.h)

_hiding = weakref.WeakSet()  # clients


def is_seat(device):
    """Whether the device is one of the cluster's own, not one of a slice."""
    return device.id < _FIRST


def can_hide():
    """Whether this jax lets devices be hidden; if not, there are no virtual slices."""
    return seams.find_all(seams.CLIENT_CLASS, seams.ALL_DEVICES) is not None


def hide(client):
    """Hides the virtual devices of a client, if it has any."""
    kind = seams.CLIENT_CLASS.find()
    if not can_hide():
        return
    _hiding.add(client)
    if getattr(kind.devices, "_pathways", False):
        return
    for name in ("devices", "local_devices"):
        setattr(kind, name, _shortened(getattr(kind, name)))
    for name, listed in (("device_count", kind.devices), ("local_device_count", kind.local_devices)):
        setattr(kind, name, _recounted(getattr(kind, name), listed))


def _shortened(ordinary):
    def devices(self):
        found = ordinary(self)
        return [device for device in found if is_seat(device) and not getattr(device, "empty_seat", 0)] if self in _hiding else found

    devices._pathways = True
    return devices


def _recounted(ordinary, listed):
    return lambda self: len(listed(self)) if self in _hiding else ordinary(self)
