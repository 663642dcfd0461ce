"""Copies numpy arrays that jax's client cannot send: views that run backwards (x[::-1], np.flip) or repeat elements (np.broadcast_to). An
in-process jax backend accepts them, but the proxy client refuses them, so we copy them into ordinary memory order first.

jax sends numpy arrays in two places. One is `batched_device_put`, which Python code calls and this module wraps. The other is the C++ fast path of a
jitted function on one device. If the client refuses an argument there, jax repeats the call from Python, and so through the wrapper.
"""

import functools

import numpy as np

from pathways._jax import seams


def sendable(x):
    """Returns x, or a copy of it in ordinary memory order."""
    host = x if isinstance(x, np.ndarray) else getattr(x, "val", None)  # some versions of jax wrap the script's array
    if not isinstance(host, np.ndarray) or all(stride > 0 for stride in host.strides):
        return x
    try:
        return np.array(host, order="C")
    except MemoryError as error:  # the error that an in-process backend raises
        import jax
        raise jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: {error}. A numpy array whose strides are zero or negative is copied before it is sent: pass a smaller array") from None


def install():
    """Wraps jax's batched_device_put. Idempotent."""
    put = seams.PUT_MANY.find()
    if put is None or getattr(put, "_pathways", False):
        return

    @functools.wraps(put)
    def batched_device_put(aval, sharding, xs, *others, **named):
        return put(aval, sharding, [sendable(x) for x in xs], *others, **named)

    batched_device_put._pathways = True
    seams.PUT_MANY.replace(batched_device_put)
