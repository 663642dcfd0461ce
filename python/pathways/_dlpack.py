"""Arrays of ours handed to other libraries by DLPack: torch.from_dlpack(x), np.from_dlpack(x).

Their memory is another machine's, so what is handed out is a copy, on the cpu backend of this process. The other way, jax.dlpack.from_dlpack of
memory of this process, gives an array on that backend, as jax does for host memory where it has accelerators.

Other libraries ask an array first whether it has `__cuda_array_interface__`: ours has not, where the client library raises an error of its own.
"""

import functools

from pathways._jax import seams


def install(is_ours):
    """is_ours(client) tells our backends from others. Idempotent."""
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
            raise ValueError(f"copy=False, but the memory of {self.sharding} is not this process's: set copy=True or copy=None")
        if len(self.devices()) == 1:
            self = jax.device_put(self, jax.local_devices(backend="cpu")[0])
        return ordinary(self, copy=None, **named)  # says what it thinks of several devices

    def cuda_array_interface(self):
        if is_ours(next(iter(self.devices())).client):
            raise AttributeError("__cuda_array_interface__ is only defined for this process's GPU buffers.")
        return interface.__get__(self)

    array_class.__cuda_array_interface__ = property(cuda_array_interface)
    to_dlpack._pathways = True
    array_class.__dlpack__ = to_dlpack
