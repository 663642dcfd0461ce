"""Host callbacks: our own lowering of everything in jax that calls back into Python.

jax has one place where the primitives behind pure_callback, io_callback, debug.callback, debug.print and checkify become a custom
call: `emit_python_callback`. Its ordinary result carries a pointer of this process, which means nothing on a server. Where the
lowering targets a Pathways backend we emit the custom call `pathways_host_callback_call` instead, whose attribute `callback` is the
number of the function in a registry; everything else in jax (vmap rules, ordered effects and their tokens, the sharding that
decides where the call runs) stays as it is. Lowerings for other backends, jax's own cpu among them, are untouched.
"""

import dataclasses
import functools
import inspect
import weakref

import numpy as np

from pathways import _host_calls

TARGET = "pathways_host_callback_call"
TARGET_ON_SHARDS = "pathways_host_callback_on_shards"  # each device calls, with its own part of every operand; no results

# Stands in jax's list of a program's callbacks, which makes jax wait for the program at a barrier. The compiler does not get to see it.
MARK = "pathways host callback"

registry = _host_calls.Registry()


class Registration:
    """Keeps a function callable while the program that calls it lives."""

    def __init__(self, number):
        self.number = number
        weakref.finalize(self, registry.retire, number).atexit = False


def checked(function, result_avals):
    """`function` with its results as numpy arrays of exactly the types that the program expects; the texts are jax's."""
    from jax._src import dtypes

    canonical = getattr(dtypes, "canonicalize_value", None)

    def as_numpy(value):
        value = np.asarray(value)
        if canonical is not None:
            return canonical(value)
        return np.asarray(value, dtypes.canonicalize_dtype(value.dtype))

    def call(*operands):
        results = function(*operands)
        if len(results) != len(result_avals):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(result_avals)}, Actual: {len(results)}")
        results = tuple(as_numpy(r) for r in results)
        for i, (result, aval) in enumerate(zip(results, result_avals)):
            if result.shape != aval.shape:
                raise RuntimeError(f"Incorrect output shape for return value #{i}: Expected: {aval.shape}, Actual: {result.shape}")
            if result.dtype != aval.dtype:
                raise RuntimeError(f"Incorrect output dtype for return value #{i}: Expected: {aval.dtype}, Actual: {result.dtype}")
        return results

    return call


def _sharding_with_token(sharding, results):
    """With shardy, an annotation for the token in front of those of the results."""
    from jax._src import sharding_impls

    if results == 0 or not isinstance(sharding, sharding_impls.SdyArrayList):
        return sharding
    first = sharding.shardings[0]
    sequence = type(sharding.shardings)  # lists or tuples, by jax's version
    token = sharding_impls.SdyArray(mesh_shape=(), dim_shardings=type(first.dim_shardings)(), logical_device_ids=first.logical_device_ids)
    return sharding_impls.SdyArrayList(sequence([token, *sharding.shardings]))


def _annotate(ctx, call, sharding):
    from jax._src.interpreters import mlir

    takes_context = len(inspect.signature(mlir.set_sharding).parameters) > 2  # since jax 0.10
    mlir.set_sharding(*([ctx.module_context] if takes_context else []), call, sharding)


def _replicated_like(sharding, aval):
    """What every device holds, if `sharding` says that one device makes it; else None."""
    from jax._src import named_sharding, sharding_impls
    from jax._src.lib import xla_client

    if isinstance(sharding, sharding_impls.SdyArrayList):
        if not sharding.shardings[0].logical_device_ids:
            return None
        dims = (named_sharding.SdyDim(axes=(), is_open=False),) * aval.ndim
        return named_sharding.SdyArray(mesh_shape=(), dim_shardings=dims, logical_device_ids=())
    if sharding is None or sharding.type != xla_client.OpSharding.Type.MAXIMAL:
        return None
    replicated = xla_client.OpSharding()
    replicated.type = xla_client.OpSharding.Type.REPLICATED
    return replicated


def _on_all_devices(ctx, results, avals, sharding):
    """Of a function that one device calls for all, every device gets the result: an array that others hold too can be the program's result,
    and go on to other devices and programs."""
    from jax._src.interpreters import mlir

    if getattr(ctx.module_context.axis_context, "num_devices", 1) == 1:
        return results
    wanted = [_replicated_like(sharding, aval) for aval in avals]
    return [r if w is None else mlir.wrap_with_sharding_op(ctx, r, aval, w) for r, aval, w in zip(results, avals, wanted)]


def emit(ctx, function, token, operands, operand_avals, result_avals, has_side_effect, sharding, target=TARGET):
    from jax._src import core, ffi

    operand_avals = [core.physical_aval(aval) for aval in operand_avals]  # of random keys their numbers
    number = registry.add(checked(function, result_avals), [aval.dtype for aval in operand_avals], bool(result_avals))
    ctx.module_context.add_keepalive(Registration(number))
    ctx.module_context.host_callbacks.append(MARK)
    operands = list(operands)
    avals_in, avals_out = list(operand_avals), list(result_avals)
    one_device = sharding
    if token:
        operands.insert(0, token)
        avals_in.insert(0, core.abstract_token)
        avals_out.insert(0, core.abstract_token)
        sharding = _sharding_with_token(sharding, len(result_avals))
    ctx = dataclasses.replace(ctx, avals_in=avals_in, avals_out=avals_out)
    call = ffi.build_ffi_lowering_function(target, has_side_effect=has_side_effect)(ctx, *operands, callback=np.int64(number))
    if sharding is not None:
        _annotate(ctx, call, sharding)
    results = list(call.results)
    token = results.pop(0) if token else None
    return _on_all_devices(ctx, results, result_avals, one_device), token


def _is_whole_program(ctx):
    """Whether the program is about whole values, which the compiler shards; else it is about one device's."""
    from jax._src import sharding_impls

    return isinstance(ctx.module_context.axis_context, sharding_impls.ShardingContext)


def _compile_without_marks():
    """jax's client refuses to compile programs with a list of callbacks."""
    from jax._src import compiler

    ordinary = compiler.backend_compile_and_load

    @functools.wraps(ordinary)
    def backend_compile_and_load(backend, module, executable_devices, options, host_callbacks):
        return ordinary(backend, module, executable_devices, options, [c for c in host_callbacks if c is not MARK])

    compiler.backend_compile_and_load = backend_compile_and_load


def install(is_ours):
    """Puts our lowering in front of jax's, for backends of which is_ours(client) is true. Idempotent."""
    from jax._src import callback as jax_callback

    ordinary = jax_callback.emit_python_callback
    if getattr(ordinary, "_pathways", False):
        return

    @functools.wraps(ordinary)
    def emit_python_callback(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect, returns_token=True,
                             partitioned=False, sharding=None, **others):
        if len(ctx.module_context.platforms) > 1 or not is_ours(ctx.module_context.get_backend()):
            return ordinary(ctx, callback, token, operands, operand_avals, result_avals, has_side_effect=has_side_effect,
                            returns_token=returns_token, partitioned=partitioned, sharding=sharding, **others)
        if partitioned and result_avals:
            raise ValueError("Partitioned callback not supported with return values.")
        if partitioned and token is None and _is_whole_program(ctx):
            return *emit(ctx, callback, None, operands, operand_avals, [], has_side_effect, None, TARGET_ON_SHARDS), None
        results, token = emit(ctx, callback, token, operands, operand_avals, result_avals, has_side_effect, sharding)
        return results, token, None

    emit_python_callback._pathways = True
    jax_callback.emit_python_callback = emit_python_callback
    _compile_without_marks()
