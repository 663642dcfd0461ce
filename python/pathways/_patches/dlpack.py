"""Exports our arrays to other libraries by DLPack: torch.from_dlpack(x), np.from_dlpack(x).

The memory of our arrays belongs to workers, so the export is a copy on this process's cpu backend. In the other direction,
jax.dlpack.from_dlpack of this process's memory makes an array on that backend, as jax does for host memory on machines with accelerators.

Other libraries first check whether an array has `__cuda_array_interface__`. The client library raises its own error there; we raise AttributeError,
so the check says no.
"""

import functools

from pathways._jax import seams


def install(is_ours):
    """Replaces `__dlpack__` and `__cuda_array_interface__` of jax's arrays. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    array_class = seams.ARRAY.find()
    if array_class is None or getattr(array_class.__dlpack__, "_pathways", False):
        return
    ordinary, interface = array_class.__dlpack__, array_class.__cuda_array_interface__

    @functools.wraps(ordinary)
    def to_dlpack(self, *, copy=None, **named):
        import jax

        if not all(is_ours(device.client) for device in self.devices()):
            return ordinary(self, copy=copy, **named)
        if copy is False:
            raise ValueError(f"copy=False, but the memory of an array in {self.sharding} belongs to another process: set copy=True or copy=None")
        if len(self.devices()) == 1:
            self = jax.device_put(self, jax.local_devices(backend="cpu")[0])
        return ordinary(self, copy=None, **named)  # raises jax's own error for several devices

    def cuda_array_interface(self):
        if is_ours(next(iter(self.devices())).client):
            raise AttributeError("__cuda_array_interface__ is only defined for this process's GPU buffers.")
        return interface.__get__(self)

    array_class.__cuda_array_interface__ = property(cuda_array_interface)
    to_dlpack._pathways = True
    array_class.__dlpack__ = to_dlpack
