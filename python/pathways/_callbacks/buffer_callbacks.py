"""jax.experimental.buffer_callback: callbacks that write their results into buffers passed to them.

In stock jax the buffers are the computation's own memory, in the same process. Our computations run on workers, so the buffers are numpy arrays in
this process, and their contents are sent back as the results of a host callback (`callbacks.py`).
"""

import functools

import numpy as np

from pathways._callbacks import callbacks
from pathways._jax import compilation, seams


class Buffer(np.ndarray):
    """Stands for jax's Buffer: shape, dtype, the array protocols, and `writeable`."""

    @property
    def writeable(self):
        return self.flags.writeable


class Context:
    """Stands for jax's ExecutionContext."""

    def __init__(self):
        from jax.experimental.buffer_callback import ExecutionStage

        self.stage = ExecutionStage.EXECUTE

    @property
    def stream(self):
        import jax

        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available: the callback runs on the client's machine")


def _with_buffers(callback, in_tree, out_tree, avals_out, aliases):
    """Wraps `callback` as a function from arrays to arrays. aliases: pairs (operand, result) that share memory."""
    import jax

    seeds = {result: operand for operand, result in aliases}

    def call(*operands):
        results = []
        for i, aval in enumerate(avals_out):
            seeded = np.array(operands[seeds[i]]) if i in seeds else np.zeros(aval.shape, aval.dtype)
            results.append(seeded.view(Buffer))
        operands = [np.asarray(operand).view(Buffer) for operand in operands]
        for operand in operands:
            operand.flags.writeable = False
        args, named = jax.tree.unflatten(in_tree, operands)
        if callback(Context(), jax.tree.unflatten(out_tree, results), *args, **named) is not None:
            raise ValueError("buffer_callback callback must not return any values.")
        return [np.asarray(result) for result in results]

    return call


def install(is_ours):
    """Replaces jax's lowering of buffer callbacks. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    from jax.interpreters import mlir

    found = seams.find_all(seams.BUFFER_CALLBACK, seams.BUFFER_CALLBACK_LOWERING)
    if found is None or getattr(found[1], "_pathways", False) or not compilation.add(callbacks.PASS, is_ours):
        return
    primitive, ordinary = found

    @functools.wraps(ordinary)
    def lowering(ctx, *args, callback, in_tree, out_tree, has_side_effect, input_output_aliases, **others):
        if len(ctx.module_context.platforms) > 1 or not is_ours(ctx.module_context.get_backend()):
            return ordinary(ctx, *args, callback=callback, in_tree=in_tree, out_tree=out_tree, has_side_effect=has_side_effect,
                            input_output_aliases=input_output_aliases, **others)
        function = _with_buffers(callback, in_tree, out_tree, ctx.avals_out, input_output_aliases)
        return callbacks.emit(ctx, function, None, args, ctx.avals_in, ctx.avals_out, has_side_effect, None)[0]

    lowering._pathways = True
    seams.BUFFER_CALLBACK_LOWERING.replace(lowering)
    mlir.register_lowering(primitive, lowering)
