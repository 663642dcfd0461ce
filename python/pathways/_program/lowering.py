"""Lowers one computation of a program to StableHLO, with jax.

A jitted function of the user was traced when its call became an equation. If its jaxpr needs no change, it is lowered as it is. Every other
computation is traced once more, as the function that jax would compile with these shardings.
"""

import dataclasses
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend.backend import get_compile_options
from jax.extend.mlir import ir
from jax.interpreters import mlir

from pathways._jax import portable_programs
from pathways._jax import compilation, public, seams
from pathways._client import wire
from pathways._program import meshes, tokens

_LOGGED_OPERATIONS = 10  # jax's default of --jax_compiler_detailed_logging_min_ops


def is_possible():
    """Whether this jax has the private names that lowering needs; if not, programs run call by call."""
    return seams.find_all(seams.HLO_SHARDING, seams.LOWERING) is not None


@dataclasses.dataclass(frozen=True)
class Lowered:
    jaxpr: Any
    computation: Any     # jax's own object: the module and its compile arguments
    options: tuple = ()  # the user's compiler options, as pairs
    stage: Any = None    # its jax.stages.Lowered, if it was traced anew

    def compiled_shardings(self):
        """Returns the shardings of the results, which the compiler chooses. REQUIRES: it was traced anew."""
        return jax.tree.leaves(self.stage.compile().output_shardings)


def as_traced(params, inputs, wanted, outs, donated, devices):
    """Returns a jit equation with these parameters, lowered; None if it must be traced again."""
    if params is None or not inputs or len(devices) > 1 and any(public.is_unspecified(out) for out in outs):
        return None
    closed, lower = params["jaxpr"], seams.LOWER.find()
    if lower is None:
        return None
    try:
        layouts = (*params["in_layouts"], *params["out_layouts"])
        mesh, options = params["ctx_mesh"], params["compiler_options_kvs"]
    except KeyError:  # another version of jax
        return None
    plain = all(_plain(aval) for aval in (*closed.in_avals, *closed.out_avals)) and mesh.empty and not any(layouts)
    if not plain or [v.aval.weak_type for v in inputs] != [aval.weak_type for aval in closed.in_avals]:
        return None
    try:
        return Lowered(closed.jaxpr, options=options, computation=lower(
            closed, "jit", params["name"], tuple(wanted), tuple(outs), tuple(params["in_layouts"]), tuple(params["out_layouts"]),
            tuple(donated), keep_unused=False, context_mesh=mesh, compiler_options_kvs=options, lowering_platforms=None,
            lowering_parameters=mlir.LoweringParameters(), pgle_profiler=None))
    except Exception:  # the second trace raises a better error
        return None


def _plain(aval):
    """Whether the value is an array of numbers, and its type names no mesh."""
    return isinstance(aval, ShapedArray) and not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended) and aval.sharding.mesh.empty


def traced_anew(function, name, inputs, wanted, outs, donated, devices):
    """Returns the function, traced with these shardings and lowered."""

    def named(*args):
        return function(*args)

    named.__name__ = named.__qualname__ = name.strip("<>") or "node"
    if not inputs and all(public.is_unspecified(out) for out in outs):
        outs = [meshes.replicated(devices)] * len(outs)  # only the outputs can name the devices
    given = dict(out_shardings=outs) if not any(public.is_unspecified(out) for out in outs) else {}
    if not given and any(not public.is_unspecified(out) for out in outs):
        given = dict(out_shardings=[None if public.is_unspecified(out) else out for out in outs])
    donate = tuple(i for i, gives in enumerate(donated) if gives)
    jitted = jax.jit(named, in_shardings=tuple(wanted), donate_argnums=donate, **given)
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, sharding=w, weak_type=v.aval.weak_type)
              for v, w in zip(inputs, wanted)]
    traced = jitted.trace(*shapes)
    lowered = traced.lower()
    return Lowered(traced.jaxpr.jaxpr, compilation.computation_of(lowered), stage=lowered)


def executable_bytes(lowered, devices, packed, known):
    """Returns the bytes of an executable. `packed`: the encoded device ids. `known`: a cache of encoded compile options."""
    args = lowered.computation.compile_args
    module, ordered = lowered.computation.stablehlo(), len(args["ordered_effects"])
    if ordered:
        module = tokens.as_arrays(module, ordered)
    tokens_fixed = (False,) * ordered
    allow_in = tokens_fixed + tuple(map(public.is_unspecified, args["in_shardings"]))
    allow_out = tokens_fixed + tuple(map(public.leaves_open, args["out_shardings"]))
    what = (len(devices), args["tuple_args"], allow_in, allow_out, lowered.options)
    if what not in known:
        known[what] = _options(module, args["backend"], *what)
    version = getattr(devices[0].client, "stablehlo_current_version", None) or "1.13.0"
    if not isinstance(version, str):
        version = ".".join(map(str, version))
    return wire.executable(portable_programs.write(module, version), known[what], packed, len(devices))


def _is_worth_logging(module):
    """Decides as jax does, by the number of operations, so that equal options find the same entry in the workers' compile cache."""
    left = _LOGGED_OPERATIONS

    def visit(_):
        nonlocal left
        left -= 1
        return ir.WalkResult.INTERRUPT if left < 0 else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return left < 0


def _options(module, backend, partitions, tuple_args, allow_in, allow_out, overrides):
    """Returns jax's compile options without the devices, on which the compiled code does not depend."""
    overrides = dict(overrides)
    options = get_compile_options(
        num_replicas=1, num_partitions=partitions, fdo_profile=overrides.pop("fdo_profile", None), env_options_overrides=overrides,
        detailed_logging=_is_worth_logging(module), backend=backend)
    options.parameter_is_tupled_arguments = tuple_args
    build = options.executable_build_options
    build.allow_spmd_sharding_propagation_to_parameters = list(allow_in)
    build.allow_spmd_sharding_propagation_to_output = list(allow_out)
    return options.SerializeAsString()
