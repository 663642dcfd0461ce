"""`pw.route`: sends the rows of an array to experts, shards that another array names, and brings them back.

    @pw.program
    def layer(x, where):
        routed = pw.route(x, where, experts, capacity=64)   # rows for each expert: [experts, 64, ...]
        return routed.back(feed_forward(routed.rows))       # the rows in their own order; zeros for rows that were dropped

In a program the rows travel from host to host, only to the hosts of the experts that they name (route_nodes.py). Elsewhere, inside `jax.jit` for
example, it is the plain function below, of sorts and gathers. Both give the same values, and both have gradients: the way back is the gradient of
the way out, and the other way round.

Three primitives carry this: `route_p` sends rows and tells their slots, `rows_p` sends rows whose slots are known, `back_p` brings rows back.
"""

import dataclasses
import functools
import inspect
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from pathways._jax import public
from pathways._program import choice, meshes


@dataclasses.dataclass(frozen=True)
class Groups:
    """The experts of a route: for each group its sharding, which cuts the experts, and their number."""
    shardings: tuple
    experts: tuple

    @property
    def total(self):
        return sum(self.experts)


@functools.partial(jax.tree_util.register_dataclass, data_fields=("rows", "slots", "count", "where"), meta_fields=("groups",))
@dataclasses.dataclass(frozen=True)
class Routed:
    """Rows at their experts. If `pw.route` was given several groups of experts, `rows`, `slots` and `count` are tuples of one array for each."""
    rows: Any     # [experts, capacity, ...]; zeros where no row is
    slots: Any    # int32[experts, capacity]: which row of the source it is; -1: none
    count: Any    # int32[experts]: how many rows named the expert, also beyond the capacity
    where: Any    # as given
    groups: Groups

    @property
    def dropped(self):
        """Returns how many rows of each expert were dropped, as they were beyond the capacity."""
        return jax.tree.map(lambda count, slots: jnp.maximum(count - slots.shape[1], 0), self.count, self.slots)

    def back(self, rows):
        """Returns these rows, shaped [experts, capacity, ...] as `self.rows`, in the order of the source, where its devices are. Rows of the source that
        no expert had are zeros. The rows may have other shapes and types than those that were routed."""
        given, slots = _listed(rows), _listed(self.slots)
        if len(given) != len(slots):
            raise ValueError(f"the experts have {len(slots)} groups, and back gets rows of {len(given)}")
        for i, (one, slot) in enumerate(zip(given, slots)):
            if jnp.ndim(one) < 2 or tuple(jnp.shape(one)[:2]) != tuple(slot.shape) or jnp.shape(one)[2:] != jnp.shape(given[0])[2:]:
                raise ValueError(f"back takes rows of the shape [{slot.shape[0]}, {slot.shape[1]}, ...]{f' for group {i}' if len(slots) > 1 else ''}, not "
                                 f"{list(jnp.shape(one))}")
            if one.dtype != given[0].dtype:
                raise TypeError(f"back takes rows of one type, not {given[0].dtype} and {one.dtype}")
        _check_rows(given[0], "rows that come back")
        return back_p.bind(*given, *slots, self.where, groups=self.groups)[0]


@dataclasses.dataclass(frozen=True)
class Unsized:
    """Rows on their way to experts, as many as there are. The capacity is a power of two, found when their numbers are known."""
    x: Any
    where: Any
    experts: Any
    per_shard: int
    smallest: int

    def through(self, function):
        """Returns function(rows) in the order of the source, for the rows of each expert, [experts, capacity, ...]. No row is dropped.

        The function is traced for every capacity that may occur, and in a program all are compiled when it is loaded; a call chooses one (`pw.switch`).
        A gradient in a program routes the rows and applies the function again: what it made has another shape for each capacity."""
        rows = self.where.shape[0]
        capacities = [self.smallest]
        while capacities[-1] < rows:
            capacities.append(2 * capacities[-1])
        groups = _groups(self.experts, self.per_shard)

        def branch(capacity, x, where):
            found = route(x, where, self.experts, capacity=capacity, per_shard=self.per_shard)
            return found.back(function(found.rows))

        branches = [functools.partial(branch, capacity) for capacity in capacities]
        for one, capacity in zip(branches, capacities):
            one.__name__ = f"capacity_{capacity}"
        return choice.switch(_class_of(self.where, groups.total, tuple(capacities)), branches, self.x, self.where)


@functools.partial(jax.jit, static_argnames=("experts", "capacities"))
def _class_of(where, experts, capacities):
    """Returns the position of the first capacity that has room for the rows of every expert."""
    known = jnp.where((where >= 0) & (where < experts), where, experts)
    largest = jnp.zeros(experts + 1, jnp.int32).at[known].add(1)[:experts].max()
    return jnp.sum(largest > jnp.asarray(capacities, jnp.int32)).astype(jnp.int32)


def route(x, where, experts, *, capacity=None, per_shard=1, smallest=1):
    """Sends row i of `x` to expert `where[i]`; -1: nowhere. Returns the rows of each expert, as `Routed`, or without a capacity as `Unsized`.

    experts    the shards that are the experts: a sharding or mesh (cut along its first axis) or device, or a sequence of these, whose shards are numbered
               through. They may be of any slices and islands, and need not be those of x
    capacity   how many rows each expert takes at most: its first ones, in the order of x. None: all, whatever their number
    smallest   without a capacity: the smallest that is compiled for. Larger ones are twice as large each
    per_shard  how many experts each shard has

    `where` is int32. An expert that does not exist is an error in programs, which name the row; compiled functions take it as -1."""
    groups = _groups(experts, per_shard)
    x, where = _as_array(x), _as_array(where)
    if x.ndim < 1 or where.shape != x.shape[:1]:
        raise ValueError(f"pw.route needs an expert for each row: x has the shape {list(x.shape)}, where {list(where.shape)}")
    if where.dtype != jnp.int32:
        raise TypeError(f"the array that says where rows go is {where.dtype}, and must be int32: use where.astype(jnp.int32)")
    _check_rows(x, "rows")
    if capacity is None:
        if isinstance(smallest, bool) or not isinstance(smallest, int) or smallest < 1:
            raise ValueError(f"the smallest capacity of pw.route is a number of rows, 1 or more, not {smallest!r}")
        return Unsized(x, where, experts, per_shard, smallest)
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 0:
        raise TypeError(f"the capacity of pw.route is a number of rows, not {capacity!r}")
    found = route_p.bind(x, where, groups=groups, capacity=capacity)
    count = len(groups.experts)
    parts = [found[:count], found[count:2 * count], found[2 * count:]]
    return Routed(*(part[0] if _is_one(experts) else tuple(part) for part in parts), where, groups)


def _as_array(value):
    return value if hasattr(value, "aval") else jnp.asarray(value)


def _check_rows(array, what):
    if public.is_of_keys(jax.typeof(array)):
        raise NotImplementedError(f"{what} of pw.route cannot be random keys: route their integers (jax.random.key_data)")


def _is_one(experts):
    return isinstance(experts, (Mesh, Sharding, jax.Device))


def _listed(arrays):
    return list(arrays) if isinstance(arrays, (tuple, list)) else [arrays]


def _groups(experts, per_shard):
    if isinstance(per_shard, bool) or not isinstance(per_shard, int) or per_shard < 1:
        raise ValueError(f"per_shard is the number of experts of each shard, 1 or more, not {per_shard!r}")
    shardings = tuple(_by_experts(one) for one in ([experts] if _is_one(experts) else experts))
    if not shardings:
        raise ValueError("pw.route needs an expert")
    return Groups(shardings, tuple(per_shard * _shards(sharding) for sharding in shardings))


def _by_experts(one):
    """Returns the sharding of a group of experts."""
    if isinstance(one, jax.Device):
        return SingleDeviceSharding(one)
    if isinstance(one, Mesh):
        return NamedSharding(one, PartitionSpec(one.axis_names[0]))
    if isinstance(one, SingleDeviceSharding):
        return one
    if isinstance(one, NamedSharding) and isinstance(one.mesh, Mesh) and not any(axis is not None for axis in one.spec[1:]):
        return NamedSharding(one.mesh, PartitionSpec(*one.spec[:1]), memory_kind=one.memory_kind)
    raise TypeError(f"experts are shards along the first dimension: pass a mesh, a device, or a NamedSharding that cuts no other dimension, not {one}")


def _shards(sharding):
    if isinstance(sharding, SingleDeviceSharding) or not sharding.spec or sharding.spec[0] is None:
        return 1
    axes = sharding.spec[0] if isinstance(sharding.spec[0], tuple) else (sharding.spec[0],)
    return math.prod(sharding.mesh.shape[axis] for axis in axes)


# ------------------------------------------------------------------------------------------------------ the plain function
def _plain_route(x, where, *, groups, capacity):
    experts = groups.total
    key = jnp.where((where >= 0) & (where < experts), where, experts)
    order = jnp.argsort(key, stable=True).astype(jnp.int32)
    count = jnp.zeros(experts + 1, jnp.int32).at[key].add(1)[:experts]
    at = (jnp.cumsum(count) - count)[:, None] + jnp.arange(capacity, dtype=jnp.int32)
    taken = jnp.arange(capacity) < count[:, None]
    slots = jnp.where(taken, _take(order, at), -1) if x.shape[0] else jnp.full((experts, capacity), -1, jnp.int32)
    return [*_cut(_rows_of(x, slots), groups), *_cut(slots, groups), *_cut(count, groups)]


def _plain_rows(x, where, *slots, groups, capacity):
    return _cut(_rows_of(x, jnp.concatenate(slots)), groups)


def _plain_back(*arrays, groups):
    count = len(groups.experts)
    rows, slots, where = jnp.concatenate(arrays[:count]), jnp.concatenate(arrays[count:2 * count]), arrays[-1]
    number = where.shape[0]
    place = jnp.where((slots >= 0) & (slots < number), slots, number)  # beyond the end: dropped
    return [jnp.zeros((number, *rows.shape[2:]), rows.dtype).at[place].set(rows, mode="drop")]


def _take(array, at):
    return array[jnp.clip(at, 0, array.shape[0] - 1)]


def _rows_of(x, slots):
    shape = (*slots.shape, *x.shape[1:])
    if x.shape[0] == 0:
        return jnp.zeros(shape, x.dtype)
    taken = (slots >= 0).reshape(*slots.shape, *[1] * (x.ndim - 1))
    return jnp.where(taken, _take(x, slots), jnp.zeros((), x.dtype))


def _cut(array, groups):
    """Returns the part of each group, along the first dimension."""
    parts, at = [], 0
    for experts in groups.experts:
        parts.append(array[at:at + experts])
        at += experts
    return parts


# ----------------------------------------------------------------------------------------------------------- the primitives
def _primitive(name, plain, results, placed):
    """Makes a primitive that runs as `plain` wherever it is no node of a program. `placed`: its results go to the groups' devices."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(results)
    static = [name for name in ("groups", "capacity") if name in inspect.signature(plain).parameters]
    compiled = jax.jit(plain, static_argnames=static)

    def eager(*arrays, groups, **params):
        found = compiled(*_together(arrays), groups=groups, **params)
        if not placed:
            where = getattr(arrays[-1], "sharding", None)
            return found if where is None or not arrays[-1].committed else [jax.device_put(found[0], public.by_rows(where, 1, found[0].ndim))]
        return [jax.device_put(array, groups.shardings[i % len(groups.shardings)]) for i, array in enumerate(found)]

    def batched(arrays, axes, **params):
        found = jax.vmap(functools.partial(plain, **params), in_axes=axes, axis_size=_size(arrays, axes))(*arrays)
        return found, [0] * len(found)

    primitive.def_impl(eager)
    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=True))
    return primitive


def _size(arrays, axes):
    return next(array.shape[axis] for array, axis in zip(arrays, axes) if axis is not None)


def _together(arrays):
    """Returns the arrays on the devices of the last one, which says where rows go: a compiled function has one set of devices."""
    devices = getattr(arrays[-1], "sharding", None)
    if devices is None or all(getattr(array, "sharding", devices).device_set == devices.device_set for array in arrays):
        return arrays
    first = arrays[0].sharding if hasattr(arrays[0], "sharding") else devices
    whole = meshes.replicated(meshes.devices_of(first))
    return [jax.device_put(array, whole) for array in arrays]


def _shapes(x, experts, capacity):
    return [ShapedArray((count, capacity, *x.shape[1:]), x.dtype) for count in experts]


def _routed(x, where, *, groups, capacity):
    slots = [ShapedArray((count, capacity), jnp.int32) for count in groups.experts]
    return [*_shapes(x, groups.experts, capacity), *slots, *(ShapedArray((count,), jnp.int32) for count in groups.experts)]


def _rows(x, where, *slots, groups, capacity):
    return _shapes(x, groups.experts, capacity)


def _returned(*arrays, groups):
    return [ShapedArray((*arrays[-1].shape, *arrays[0].shape[2:]), arrays[0].dtype)]


route_p = _primitive("pathways_route", _plain_route, _routed, placed=True)
rows_p = _primitive("pathways_route_rows", _plain_rows, _rows, placed=True)
back_p = _primitive("pathways_route_back", _plain_back, _returned, placed=False)


# ---------------------------------------------------------------------------------------------------------------- gradients
def _zero(aval):
    return ad.Zero(aval.to_tangent_aval())


def _route_jvp(primals, tangents, *, groups, capacity):
    x, where = primals
    found = route_p.bind(x, where, groups=groups, capacity=capacity)
    count = len(groups.experts)
    if isinstance(tangents[0], ad.Zero):
        return found, [_zero(jax.typeof(array)) for array in found]
    moved = rows_p.bind(tangents[0], where, *found[count:2 * count], groups=groups, capacity=capacity)
    return found, [*moved, *(_zero(jax.typeof(array)) for array in found[count:])]


def _rows_jvp(primals, tangents, *, groups, capacity):
    found = rows_p.bind(*primals, groups=groups, capacity=capacity)
    if isinstance(tangents[0], ad.Zero):
        return found, [_zero(jax.typeof(array)) for array in found]
    return found, rows_p.bind(tangents[0], *primals[1:], groups=groups, capacity=capacity)


def _rows_transpose(cotangents, x, where, *slots, groups, capacity):
    if not ad.is_undefined_primal(x):
        raise NotImplementedError("the places of routed rows have no gradient")
    if all(isinstance(one, ad.Zero) for one in cotangents):
        return [ad.Zero(x.aval), None, *[None] * len(slots)]
    given = [ad.instantiate_zeros(one) for one in cotangents]
    return [back_p.bind(*given, *slots, where, groups=groups)[0], None, *[None] * len(slots)]


def _back_jvp(primals, tangents, *, groups):
    count = len(groups.experts)
    found = back_p.bind(*primals, groups=groups)
    if all(isinstance(one, ad.Zero) for one in tangents[:count]):
        return found, [_zero(jax.typeof(found[0]))]
    moved = [ad.instantiate_zeros(one) for one in tangents[:count]]
    return found, back_p.bind(*moved, *primals[count:], groups=groups)


def _back_transpose(cotangents, *arrays, groups):
    count = len(groups.experts)
    rows, slots, where = arrays[:count], arrays[count:2 * count], arrays[-1]
    if isinstance(cotangents[0], ad.Zero):
        given = [ad.Zero(one.aval) if ad.is_undefined_primal(one) else None for one in rows]
    else:
        found = rows_p.bind(cotangents[0], where, *slots, groups=groups, capacity=slots[0].shape[1])
        given = [one if ad.is_undefined_primal(row) else None for one, row in zip(found, rows)]
    return [*given, *[None] * (count + 1)]


ad.primitive_jvps[route_p] = _route_jvp
ad.primitive_jvps[rows_p] = _rows_jvp
ad.primitive_transposes[rows_p] = _rows_transpose
ad.primitive_jvps[back_p] = _back_jvp
ad.primitive_transposes[back_p] = _back_transpose
