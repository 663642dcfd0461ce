"""Host callbacks: our own lowering of the jax primitives that call back into Python.

jax lowers the primitives behind pure_callback, io_callback, debug.callback, debug.print and checkify to a custom call in one function,
`emit_python_callback`. That call carries a pointer into this process, which is useless on a worker. For a Pathways backend we emit
the custom call `pathways_host_callback_call` instead; its attribute `callback` is the function's number in a registry. The rest of jax (vmap
rules, ordered effects and their tokens, the sharding that decides where the call runs) is unchanged. Lowerings for other backends, jax's own
cpu among them, are unchanged too.
"""

import dataclasses
import functools
import inspect
import threading
import weakref

import numpy as np

from pathways._callbacks import host_calls
from pathways._jax import compilation, seams

TARGET = "pathways_host_callback_call"
TARGET_ON_SHARDS = "pathways_host_callback_on_shards"  # each device calls with its own shard of every operand; no results

# An entry in jax's list of a program's callbacks: a nonempty list makes jax wait for the program at a barrier. It is removed before compilation.
MARK = "pathways host callback"

registry = host_calls.Registry()


class Registration:
    """Keeps a function callable while the program that calls it lives."""

    def __init__(self, number, prints=False):
        self.number = number
        self.prints = prints  # the function is jax.debug.print's, which never waits
        weakref.finalize(self, registry.retire, number).atexit = False


def checked(function, result_avals):
    """Wraps `function` to return numpy arrays of exactly the types that the program expects. The error texts are jax's."""
    from jax.dtypes import canonicalize_dtype

    def as_numpy(value):
        value = np.asarray(value)
        return np.asarray(value, canonicalize_dtype(value.dtype))

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
    """With shardy, adds an annotation for the token before those of the results."""
    if results == 0 or not _is_of_shardy(sharding):
        return sharding
    first = sharding.shardings[0]
    sequence = type(sharding.shardings)  # a list or a tuple, depending on jax's version
    token = type(first)(mesh_shape=(), dim_shardings=type(first.dim_shardings)(), logical_device_ids=first.logical_device_ids)
    return type(sharding)(sequence([token, *sharding.shardings]))


def _is_of_shardy(sharding):
    return hasattr(sharding, "shardings")


def _annotate(ctx, call, sharding):
    annotate = seams.SET_SHARDING.find()
    if annotate is None:
        return
    takes_context = len(inspect.signature(annotate).parameters) > 2  # since jax 0.10
    annotate(*([ctx.module_context] if takes_context else []), call, sharding)


def _replicated_like(sharding, aval):
    """Returns the replicated sharding for `aval` if `sharding` places it on one device; else None."""
    if _is_of_shardy(sharding):
        first, dimension = sharding.shardings[0], seams.SHARDY_DIMENSION.find()
        if not first.logical_device_ids or dimension is None:
            return None
        return type(first)(mesh_shape=(), dim_shardings=(dimension(axes=(), is_open=False),) * aval.ndim, logical_device_ids=())
    if sharding is None or sharding.type.name != "MAXIMAL":
        return None
    replicated = type(sharding)()
    replicated.type = type(sharding.type).REPLICATED
    return replicated


def _on_all_devices(ctx, results, avals, sharding):
    """Replicates the results of a callback that only one device calls. A replicated array can be the program's result and be passed to other
    devices and programs."""
    if getattr(ctx.module_context.axis_context, "num_devices", 1) == 1:
        return results
    constrain = seams.CONSTRAIN_SHARDING.find()
    if constrain is None:
        return results
    wanted = [_replicated_like(sharding, aval) for aval in avals]
    return [r if w is None else constrain(ctx, r, aval, w) for r, aval, w in zip(results, avals, wanted)]


def emit(ctx, function, token, operands, operand_avals, result_avals, has_side_effect, sharding, target=TARGET):
    """Registers `function` and emits the custom call that calls it. Returns (results, token); `token` may be None."""
    import jax

    from pathways._jax import public

    operand_avals = [public.physical_aval(aval) for aval in operand_avals]  # random keys become their integers
    number = registry.add(checked(function, result_avals), [aval.dtype for aval in operand_avals], bool(result_avals))
    ctx.module_context.add_keepalive(Registration(number, ctx.primitive.name == "debug_print"))
    ctx.module_context.host_callbacks.append(MARK)
    operands = list(operands)
    avals_in, avals_out = list(operand_avals), list(result_avals)
    one_device = sharding
    if token:
        operands.insert(0, token)
        avals_in.insert(0, public.token_aval())
        avals_out.insert(0, public.token_aval())
        sharding = _sharding_with_token(sharding, len(result_avals))
    ctx = dataclasses.replace(ctx, avals_in=avals_in, avals_out=avals_out)
    call = jax.ffi.build_ffi_lowering_function(target, has_side_effect=has_side_effect)(ctx, *operands, callback=np.int64(number))
    if sharding is not None:
        _annotate(ctx, call, sharding)
    results = list(call.results)
    token = results.pop(0) if token else None
    return _on_all_devices(ctx, results, result_avals, one_device), token


def _is_whole_program(ctx):
    """Whether the program is written over whole arrays, which the compiler shards; otherwise it is written over one device's shards."""
    return hasattr(ctx.module_context.axis_context, "num_devices")  # other contexts have a mesh, or axis names


class _WithoutMarks(compilation.Pass):
    """Removes our marks from the list of callbacks: jax's client refuses to compile a program that has any."""

    def takes_callback(self, callback):
        return callback is MARK


PASS = _WithoutMarks()


_thread = threading.local()


def _only_prints(executable):
    """Whether the executable calls functions, and all of them are jax.debug.print's."""
    functions = [kept for kept in executable.keepalive or () if isinstance(kept, Registration)]
    return bool(functions) and all(one.prints for one in functions)


def _watch_eager_control_flow():
    """Marks loops and conditionals outside jit as eager. Each is one computation, but its prints must appear before the next line runs."""
    from jax.extend.core import primitives

    for primitive in (primitives.while_p, primitives.scan_p, primitives.cond_p):
        primitive.def_impl(_eager(primitive.impl))


def _eager(ordinary):
    def run(*args, **params):
        _thread.eager = True
        try:
            return ordinary(*args, **params)
        finally:
            _thread.eager = False

    return run


def _wait_for_prints():
    """Makes calls of functions that only print return after the output is printed, as on jax's own cpu: there is no result to wait for. The same
    holds for loops and conditionals outside jit that print. Calls do not wait for the user's own callbacks, which may wait for their caller. A call
    within a callback does not wait either: the program that called back may hold the device."""
    import jax

    ordinary = seams.HANDLE_TOKENS.find()
    if ordinary is None:
        return

    @functools.wraps(ordinary)
    def handle_token_bufs(self, token_bufs, sharded_token):
        ordinary(self, token_bufs, sharded_token)
        at_once = not self.out_handler.handlers or getattr(_thread, "eager", False)
        if not at_once or not _only_prints(self) or host_calls.answers_a_call():
            return
        try:
            sharded_token.block_until_ready()
        except jax.errors.JaxRuntimeError:
            pass  # jax.effects_barrier raises it

    handle_token_bufs._pathways = True
    seams.HANDLE_TOKENS.replace(handle_token_bufs)
    _watch_eager_control_flow()


def install(is_ours):
    """Replaces jax's lowering for the backends for which is_ours(client) is true. Idempotent."""
    ordinary = seams.EMIT_CALLBACK.find() if compilation.add(PASS, is_ours) else None
    if ordinary is None or getattr(ordinary, "_pathways", False):
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
    seams.EMIT_CALLBACK.replace(emit_python_callback)
    _wait_for_prints()
