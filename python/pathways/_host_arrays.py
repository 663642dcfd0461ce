"""Numpy arrays that jax's client cannot send as they lie in memory: views that run backwards (x[::-1], np.flip) or repeat elements
(np.broadcast_to). jax in process takes them, the client refuses them; here they are copied into an ordinary array first.

jax sends numpy arrays in two places. One is `batched_device_put`, which is called from Python and wrapped here. The other is the short way
of a jitted function on one device, which is all C++. But that asks Python for every numpy argument for which it has been told of a
layout; so we name one, and take it away again where we are asked.
"""

import functools

import numpy as np

_ASK = "ask Python"  # in place of a layout


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


def _asking(data, executable, args_flat, const_args):
    """The data of a short way (MeshExecutableFastpathData) that asks for each numpy array."""
    args = [x for i, x in enumerate([*const_args, *args_flat]) if i in executable._kept_var_idx]
    layouts = list(data.in_device_local_layouts)
    if len(args) != len(layouts):
        return None  # another version of jax counts otherwise: no short way then
    return data._replace(in_device_local_layouts=[
        _ASK if layout is None and isinstance(x, np.ndarray) else layout for x, layout in zip(args, layouts)])


def install(is_ours):
    """is_ours(client) tells our backends from others. Idempotent."""
    from jax._src import pjit
    from jax._src.interpreters import pxla
    from jax._src.lib import xla_client

    put, fast, shard = xla_client.batched_device_put, pjit._get_fastpath_data, pxla.shard_arg_handlers[np.ndarray]
    if getattr(put, "_pathways", False):
        return

    @functools.wraps(put)
    def batched_device_put(aval, sharding, xs, *others, **named):
        return put(aval, sharding, [sendable(x) for x in xs], *others, **named)

    @functools.wraps(fast)
    def get_fastpath_data(executable, out_tree, args_flat, out_flat, effects, consts, pgle_profiler, const_args):
        data = fast(executable, out_tree, args_flat, out_flat, effects, consts, pgle_profiler, const_args)
        if data is None or not any(isinstance(x, np.ndarray) for x in args_flat):
            return data
        devices = executable.xla_executable.local_devices()
        return _asking(data, executable, args_flat, const_args) if len(devices) == 1 and is_ours(devices[0].client) else data

    @functools.wraps(shard)
    def shard_arg(xs, shardings, layouts, copy_semantics):
        return shard(xs, shardings, [None if layout is _ASK else layout for layout in layouts], copy_semantics)

    batched_device_put._pathways = True
    xla_client.batched_device_put, pjit._get_fastpath_data = batched_device_put, get_fastpath_data
    for kind, handler in list(pxla.shard_arg_handlers.items()):
        if handler is shard:
            pxla.shard_arg_handlers[kind] = shard_arg
