"""One computation of a program to StableHLO, by jax.

A compiled function of the user's has been traced when its call became an equation: its jaxpr is lowered as it is, where nothing asks for a
change to it. Everything else is traced once more, as the function that jax would compile with these shardings.
"""

import jax
from jax._src import core
from jax._src.interpreters import mlir
from jax._src.interpreters import pxla
from jax._src.sharding_impls import UnspecifiedValue

from pathways import _program_meshes as meshes
from pathways import _program_tokens as tokens
from pathways import _program_wire as wire


def as_traced(params, inputs, wanted, outs, donated, devices):
    """The jaxpr and jax's lowering of a jit equation with these parameters; (None, None) where it has to be traced anew."""
    if params is None or not inputs or len(devices) > 1 and any(isinstance(out, UnspecifiedValue) for out in outs):
        return None, None
    closed = params["jaxpr"]
    try:
        layouts = (*params["in_layouts"], *params["out_layouts"])
        mesh, options = params["ctx_mesh"], params["compiler_options_kvs"]
    except KeyError:  # of another version of jax
        return None, None
    plain = all(_plain(aval) for aval in (*closed.in_avals, *closed.out_avals)) and mesh.empty and not any(layouts)
    if not plain or [v.aval.weak_type for v in inputs] != [aval.weak_type for aval in closed.in_avals]:
        return None, None
    try:
        return closed.jaxpr, pxla.lower_sharding_computation(
            closed, "jit", params["name"], tuple(wanted), tuple(outs), tuple(params["in_layouts"]), tuple(params["out_layouts"]),
            tuple(donated), keep_unused=False, context_mesh=mesh, compiler_options_kvs=options, lowering_platforms=None,
            lowering_parameters=mlir.LoweringParameters(), pgle_profiler=None)
    except Exception:  # what is wrong with it, jax says better when it lowers it in its own way
        return None, None


def _plain(aval):
    """An array of numbers whose type says nothing of a mesh."""
    return isinstance(aval, core.ShapedArray) and not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended) and aval.sharding.mesh.empty


def traced_anew(function, name, inputs, wanted, outs, donated, devices):
    def named(*args):
        return function(*args)

    named.__name__ = named.__qualname__ = name.strip("<>") or "node"
    if not inputs and all(isinstance(out, UnspecifiedValue) for out in outs):
        outs = [meshes.replicated(devices)] * len(outs)  # nothing else says where to run
    given = dict(out_shardings=outs) if not any(isinstance(out, UnspecifiedValue) for out in outs) else {}
    if not given and any(not isinstance(out, UnspecifiedValue) for out in outs):
        given = dict(out_shardings=[None if isinstance(out, UnspecifiedValue) else out for out in outs])
    donate = tuple(i for i, gives in enumerate(donated) if gives)
    jitted = jax.jit(named, in_shardings=tuple(wanted), donate_argnums=donate, **given)
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, sharding=w, weak_type=v.aval.weak_type)
              for v, w in zip(inputs, wanted)]
    traced = jitted.trace(*shapes)
    return traced.jaxpr.jaxpr, traced.lower()._lowering


def compiled_shardings(mesh):
    return list(mesh.compile()._out_shardings)


def executable_bytes(mesh, args, devices, packed, known):
    """`packed`: the devices as the program says them. `known`: the bytes of the options that were needed before."""
    module, ordered = mesh.stablehlo(), len(args["ordered_effects"])
    if ordered:
        module = tokens.as_arrays(module, ordered)
    allow_in, allow_out = pxla.get_prop_to_input_output(args["in_shardings"], args["out_shardings"], ordered)
    what = (len(devices), args["tuple_args"], tuple(allow_in), tuple(allow_out), mesh._compiler_options_kvs)
    if what not in known:
        known[what] = _options(module, args["backend"], *what)
    client = devices[0].client
    version = getattr(client, "stablehlo_current_version", None) or "1.13.0"
    if not isinstance(version, str):
        version = ".".join(map(str, version))
    return wire.executable(_portable(module, version), known[what], packed, len(devices))


def _portable(module, version):
    from jax._src.lib import xla_client

    serialize = xla_client._xla.mlir.serialize_portable_artifact
    try:
        return serialize(module, version, True)
    except TypeError:  # before jax 0.10
        return serialize(mlir.module_to_bytecode(module), version, True)


def _options(module, backend, partitions, tuple_args, allow_in, allow_out, overrides):
    """As jax makes them, but for the devices: what is compiled does not depend on these."""
    from jax._src import compiler

    overrides = dict(overrides)
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=partitions, fdo_profile=overrides.pop("fdo_profile", None), env_options_overrides=overrides,
        detailed_logging=compiler.use_detailed_logging(module), backend=backend)
    options.parameter_is_tupled_arguments = tuple_args
    build = options.executable_build_options
    build.allow_spmd_sharding_propagation_to_parameters = list(allow_in)
    build.allow_spmd_sharding_propagation_to_output = list(allow_out)
    return options.SerializeAsString()
