"""Numpy arrays that jax's client cannot send as they lie in memory: views that run backwards (x[::-1], np.flip) or repeat elements
(np.broadcast_to). jax in process takes them, the client refuses them; here they are copied into an ordinary array first.

jax sends numpy arrays in two places. One is `batched_device_put`, which is called from Python and wrapped here. The other is the short way
of a jitted function on one device, which is all C++. Where the client refuses an argument there, jax runs the call again from Python,
and so through the wrapper.
"""

import functools

import numpy as np

from pathways._jax import seams


def sendable(x):
    """x, or a copy of it in ordinary memory order."""
    host = x if isinstance(x, np.ndarray) else getattr(x, "val", None)  # some versions of jax wrap an array of a script
    if not isinstance(host, np.ndarray) or all(stride > 0 for stride in host.strides):
        return x
    try:
        return np.array(host, order="C")
    except MemoryError as error:  # as jax in process says it
        import jax
        raise jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: {error}, to be sent as it would lie in memory") from None


def install():
    """Idempotent."""
    put = seams.PUT_MANY.find()
    if put is None or getattr(put, "_pathways", False):
        return

    @functools.wraps(put)
    def batched_device_put(aval, sharding, xs, *others, **named):
        return put(aval, sharding, [sendable(x) for x in xs], *others, **named)

    batched_device_put._pathways = True
    seams.PUT_MANY.replace(batched_device_put)
