"""Colocated functions in programs: a call of a function of `jax.experimental.colocated_python` becomes a node that runs on the hosts of its devices.

    @pw.program
    def step(state, position):
        batch = load(position)            # load: a colocated function, or a method of a colocated object
        return train(state, batch)        # train: jax.jit

jax's colocated functions take arrays and no traced values. So while a program is traced, `install` leads their calls here. The call becomes an
equation; `add` makes its node, when the shardings of its arguments are known.
"""

import dataclasses
import functools
import threading
from typing import Any

import jax
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from pathways._jax import placement, public, seams
from pathways._jax.after_import import call_after_import
from pathways._program import choice, meshes
from pathways._program.nodes import HostCompute, Node, Value

call_p = Primitive("pathways_host_compute")
call_p.multiple_results = True


@call_p.def_abstract_eval
def _results(*_, call, avals, name):
    return list(avals)


# ---------------------------------------------------------------------------------------------------------------- in jax
def install():
    """Patches jax's module when it is imported: few programs do. Idempotent."""
    call_after_import(seams.COLOCATED_GET.module, _change)


def _change(_):
    for seam, changed in ((seams.COLOCATED_GET, _get), (seams.COLOCATED_SPECIALIZED, _specialized), (seams.COLOCATED_SPEC, _spec)):
        ordinary = seam.find()
        if ordinary is not None and not getattr(ordinary, "_pathways", False):
            new = functools.wraps(ordinary)(changed(ordinary))
            new._pathways = True
            seam.replace(new)


def _get(ordinary):
    """Looks up the function for the types of its arguments, which are traced in a program."""
    def get(self, leaves, tree, info, specialization):
        if _is_traced(leaves):
            return functools.partial(_call, info, specialization)
        return ordinary(self, leaves, tree, info, specialization)

    return get


def _specialized(ordinary):
    """Makes the function for specified arguments, or for none. It may be called in programs and outside."""
    def get_specialized(info, specialization):
        function, lock = None, threading.Lock()

        def call(*args, **named):
            nonlocal function
            leaves = jax.tree.leaves((args, named))
            if _is_traced(leaves):
                return _call(info, specialization, *args, **named)
            with lock:
                if function is None:
                    known = specialization
                    if known.devices is None:  # jax looked for them in the arguments of the first call, which were traced
                        known = known.update(devices=placement.devices_of(leaves[0].sharding))
                    function = ordinary(info, known)
            return function(*args, **named)

        return call

    return get_specialized


def _spec(ordinary):
    """Tells the spec of an argument or a result of a method."""
    return lambda x: _Traced if _is_traced([x]) else ordinary(x)


class _Traced:
    """The spec of a traced value: it is on no device yet."""

    class sharding:
        device_set = frozenset()


def _is_traced(leaves):
    """Whether a program is traced, and the call belongs into it. Raises an error inside of a compiled function of a program."""
    if choice.is_program():
        return True
    if not choice.is_in_program() or not any(isinstance(leaf, Tracer) for leaf in leaves):
        return False
    raise TypeError("a colocated function is called inside of jax.jit, a gradient or the like, within a program: it runs between compiled functions. Call "
                    "it in the program itself, and pass its results to the compiled function")


# --------------------------------------------------------------------------------------------------------------- tracing
@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A call of a colocated function. `info` and `specialization` are jax's; `tree`: of (arguments, named arguments)."""
    info: Any
    specialization: Any
    tree: Any

    @property
    def name(self):
        return getattr(self.info.fun, "__name__", "a method")  # jax calls a method through an object without a name

    def results(self, specs):
        """Returns (specs, tree) of the results for arguments of these specs, whose shardings are None while the program is traced."""
        known = self.specialization
        if known.out_specs_treedef is not None:
            return known.out_specs_leaves, known.out_specs_treedef
        if known.out_specs_fn is None:
            raise TypeError(f"program calls {self.name}, whose results are not known: a program is sent before its functions run. Describe them by "
                            f"{self.name}.specialize(out_specs_fn=...)")
        args, named = jax.tree.unflatten(self.tree, specs)
        return jax.tree.flatten(known.out_specs_fn(*args, **named))


def _call(info, specialization, /, *args, **named):
    """Adds the call to the program that is traced; returns its results, as the function's own."""
    leaves, tree = jax.tree.flatten((args, named))
    call = Call(info, specialization, tree)
    avals = [jax.api_util.shaped_abstractify(leaf) for leaf in leaves]
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    if specialization.in_specs_leaves is not None:
        specs = _specified(call, specs)
    try:
        out_specs, out_tree = call.results(specs)
    except AttributeError as error:
        error.add_note(f"out_specs_fn of {call.name} is called while a program is traced, when the shardings of its arguments are None: name the shardings "
                       "of the results themselves, or those of the arguments by specialize(in_specs=...)")
        raise
    for spec in [*specs, *out_specs]:
        if public.is_of_keys(spec):
            raise NotImplementedError(f"{call.name} takes or returns random keys, which a function on hosts cannot in a program: pass integers "
                                      "(jax.random.key_data)")
    results = call_p.bind(*leaves, call=call, avals=tuple(ShapedArray(spec.shape, spec.dtype) for spec in out_specs), name=call.name)
    return jax.tree.unflatten(out_tree, results)


def _specified(call, specs):
    """Returns the function's own specs of its arguments. Raises TypeError if those of the call differ."""
    wanted = call.specialization.in_specs_leaves
    types = lambda specs: [(spec.shape, spec.dtype) for spec in specs]
    if call.tree != call.specialization.in_specs_treedef or types(specs) != types(wanted):
        text = lambda specs: ", ".join(f"{spec.dtype.name}{list(spec.shape)}" for spec in specs)
        raise TypeError(f"{call.name} is specialized for {text(wanted)}, and a program calls it with {text(specs)}")
    return list(wanted)


# ----------------------------------------------------------------------------------------------------------------- nodes
def add(graph, eqn, env, location):
    """Adds the node of a call."""
    call = eqn.params["call"]
    values = [graph.read(env, var) for var in eqn.invars]
    given = [spec.sharding for spec in call.specialization.in_specs_leaves or ()] or [None] * len(values)
    devices = _devices(call, given, values)
    wanted = [_wanted(sharding, value, devices) for sharding, value in zip(given, values)]
    inputs = [graph.place(value, sharding, location) for value, sharding in zip(values, wanted)]
    specs = [jax.ShapeDtypeStruct(value.aval.shape, value.aval.dtype, sharding=sharding) for value, sharding in zip(values, wanted)]
    out_specs, out_tree = call.results(specs)
    _check(call, out_specs, eqn.params["avals"], devices)
    outputs = [Value(aval, spec.sharding) for aval, spec in zip(eqn.params["avals"], out_specs)]
    key = (id(call.info), call.tree, out_tree, id(devices), *(_kind(graph, value) for value in [*inputs, *outputs]))
    write = functools.partial(_pickled, call, tuple(specs), out_tree, tuple(out_specs), devices)
    number = graph.host_function(key, call.info, call.name, devices, write)
    graph.nodes.append(Node(location, inputs, outputs, number, waits=HostCompute(call.name)))
    env.update(zip(eqn.outvars, outputs))


def _kind(graph, value):
    return value.aval.shape, value.aval.dtype, graph.sharding_number(value)


def _devices(call, given, values):
    """Returns the function's devices: its own, else those of its specified arguments, else those of its first placed argument."""
    if call.specialization.devices is not None:
        return meshes.canonical(call.specialization.devices)
    for sharding in given:
        if sharding is not None:
            return meshes.devices_of(sharding)
    placed = [value for value in values if value.sharding is not None]
    for value in [value for value in placed if value.committed] or placed:
        return meshes.devices_of(value.sharding)
    return meshes.canonical(jax.devices()[:1])


def _wanted(given, value, devices):
    """Returns the sharding in which the function takes a value: the specified one, or the value's own if that is on the function's devices."""
    if given is not None:
        return given
    if _can_travel(value.sharding) and set(meshes.devices_of(value.sharding)) == set(devices):
        return value.sharding
    return meshes.replicated(devices)


def _can_travel(sharding):
    """Whether jax can pickle the sharding for hosts."""
    return isinstance(sharding, SingleDeviceSharding) or isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)


def _check(call, out_specs, avals, devices):
    """Raises an error if the results are not those that were traced, or not on the function's devices."""
    if [(spec.shape, spec.dtype) for spec in out_specs] != [(aval.shape, aval.dtype) for aval in avals]:
        raise TypeError(f"out_specs_fn of {call.name} names other shapes or types once the shardings of the arguments are known: specialize it with in_specs")
    for i, spec in enumerate(out_specs):
        if not _can_travel(spec.sharding):
            raise TypeError(f"result {i} of {call.name} has the sharding {spec.sharding}: out_specs_fn must name a NamedSharding or SingleDeviceSharding")
        if spec.sharding.device_set != set(devices):
            raise ValueError(f"result {i} of {call.name} is to be on {meshes.named(meshes.devices_of(spec.sharding))}, and the function runs on "
                             f"{meshes.named(devices)}: a colocated function makes arrays on its own devices; move them afterwards")


def _pickled(call, specs, out_tree, out_specs, devices):
    serialize = seams.COLOCATED_SERIALIZE.find()
    if serialize is None:
        raise NotImplementedError(f"this jax has no {seams.COLOCATED_SERIALIZE.full_name}: call {call.name} outside of the program")
    return serialize((call.info.fun, call.tree, specs, out_tree, out_specs, placement.device_list(devices)))
