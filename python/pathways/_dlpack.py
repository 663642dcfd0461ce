"""Arrays of ours handed to other libraries by DLPack: torch.from_dlpack(x), np.from_dlpack(x).

Their memory is another machine's, so what is handed out is a copy, on the cpu backend of this process. The other way, jax.dlpack.from_dlpack of
memory of this process, gives an array on that backend, as jax does for host memory where it has accelerators.

Other libraries ask an array first whether it has `__cuda_array_interface__`: ours has not, where the client library raises an error of its own.
"""

import functools


def install(is_ours):
    """is_ours(client) tells our backends from others. Idempotent."""
    from jax._src import array, dlpack

    ordinary = dlpack._to_dlpack
    if getattr(ordinary, "_pathways", False):
        return

    @functools.wraps(ordinary)
    def to_dlpack(x, stream, src_device=None, device=None, copy=None):
        import jax

        source = src_device or next(iter(x.devices()))
        if not is_ours(source.client):
            return ordinary(x, stream, src_device, device, copy)
        host = jax.local_devices(backend="cpu")[0] if device is None or is_ours(device.client) else device
        if copy is False:
            raise ValueError(f"copy=False, but the memory of {source} is not this process's: set copy=True or copy=None")
        return ordinary(jax.device_put(x, host), stream, host, host, None)

    interface = array.ArrayImpl.__cuda_array_interface__

    def cuda_array_interface(self):
        if is_ours(next(iter(self.devices())).client):
            raise AttributeError("__cuda_array_interface__ is only defined for this process's GPU buffers.")
        return interface.__get__(self)

    array.ArrayImpl.__cuda_array_interface__ = property(cuda_array_interface)
    to_dlpack._pathways = True
    dlpack._to_dlpack = to_dlpack
