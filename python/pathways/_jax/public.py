"""Reimplements private functions of jax with its public ones. Imports jax."""

import functools

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Token
from jax.extend.sharding import GSPMDSharding
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from pathways._jax import placement

try:
    from jax.extend.core import get_opaque_trace_state, set_current_trace, take_current_trace  # since jax 0.9
except ImportError:
    import warnings

    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # before that, jax announced where these would go
        from jax.core import get_opaque_trace_state, set_current_trace, take_current_trace


# ----------------------------------------------------------------------------------------------------------------- tracing
def trace_state():
    """Returns a value that identifies this thread's current trace; equal values mean the same trace."""
    return get_opaque_trace_state(convention="flax")


def trace_state_below_gradients():
    """Returns the value of trace_state for the trace below those of gradients: that of the function in which `jax.grad` or the like was called."""
    with take_current_trace() as trace:
        while type(trace).__name__ in ("JVPTrace", "LinearizeTrace", "JaxprTrace"):  # else there are no gradients, and the choice is jax's own
            trace = trace.parent_trace
        with set_current_trace(trace):
            return trace_state()


def is_tracing():
    """Whether this thread is inside of jit, grad, vmap or the like."""
    return trace_state() != _outside()


@functools.cache
def _outside():
    """Returns the trace state of a thread that traces nothing, taken from a new thread."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as fresh:
        return fresh.submit(trace_state).result()


@functools.cache
def token_aval():
    """Returns the type of the tokens that order effects."""
    return jax.typeof(Token(None))


def inner_jaxprs(params):
    """Yields the jaxprs among the parameters of an equation."""
    for value in params.values():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, (Jaxpr, ClosedJaxpr)):
                yield getattr(one, "jaxpr", one)


@functools.cache
def unspecified():
    """Returns jax's marker for an unspecified sharding in the parameters of a jit equation."""
    closed = jax.make_jaxpr(jax.jit(lambda x: x))(jax.ShapeDtypeStruct((), bool))
    return closed.eqns[0].params["in_shardings"][0]


def is_unspecified(sharding):
    return isinstance(sharding, type(unspecified()))


# --------------------------------------------------------------------------------------------------------------- shardings
def with_devices(sharding, devices):
    """Returns the sharding; if its mesh is abstract, the same sharding over these devices."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, AbstractMesh):
        return sharding
    import numpy as np

    abstract = sharding.mesh
    if abstract.size != len(devices):
        raise ValueError(f"{sharding} is for {abstract.size} devices, but the computation runs on {len(devices)}")
    mesh = Mesh(np.array(devices, dtype=object).reshape(abstract.axis_sizes), abstract.axis_names, axis_types=abstract.axis_types)
    return NamedSharding(mesh, sharding.spec, memory_kind=sharding.memory_kind)


def by_rows(sharding, rank, other_rank):
    """Returns the sharding for arrays of another rank, cut in the same way along their first dimension; None if it cuts arrays of `rank` along others."""
    if sharding.num_devices == 1 or sharding.is_fully_replicated:
        return sharding
    if isinstance(sharding, NamedSharding):
        if any(axis is not None and axis != () for axis in sharding.spec[1:]):
            return None
        return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:1]), memory_kind=sharding.memory_kind)
    written = placement.partition(sharding, rank).to_proto()
    ways = list(written.tile_assignment_dimensions)
    if any(way != 1 for way in ways[1:rank]):
        return None
    written.tile_assignment_dimensions = ways[:1] + [1] * (other_rank - 1) + ways[rank:]
    return GSPMDSharding(placement.devices_of(sharding), written, memory_kind=sharding.memory_kind)


def leaves_open(sharding):
    """Whether the compiler chooses the sharding or a part of it."""
    if is_unspecified(sharding):
        return True
    return isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec


# ------------------------------------------------------------------------------------------------------------ random keys
@functools.lru_cache(maxsize=64)
def _key_numbers(dtype):
    """Returns the shape and type of one random key's integers."""
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))


def is_of_keys(aval):
    return jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)


def physical_aval(aval):
    """Returns the type of the array stored on devices: for random keys, an array of integers."""
    if not is_of_keys(aval):
        return aval
    numbers = _key_numbers(aval.dtype)
    return jax.core.ShapedArray((*aval.shape, *numbers.shape), numbers.dtype)


def physical_sharding(aval, sharding):
    """Returns the sharding of the integers of random keys; the integers of one key stay on one device."""
    more = len(_key_numbers(aval.dtype).shape)
    if sharding.num_devices == 1:
        return sharding
    if isinstance(sharding, NamedSharding):
        spec = [*sharding.spec, *[None] * (aval.ndim - len(sharding.spec) + more)]
        return NamedSharding(sharding.mesh, PartitionSpec(*spec), memory_kind=sharding.memory_kind)
    written = placement.partition(sharding, aval.ndim).to_proto()
    if ways := list(written.tile_assignment_dimensions):
        written.tile_assignment_dimensions = ways[:aval.ndim] + [1] * more + ways[aval.ndim:]
    return GSPMDSharding(placement.devices_of(sharding), written, memory_kind=sharding.memory_kind)
