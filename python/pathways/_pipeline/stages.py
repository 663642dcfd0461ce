"""Cuts a flow into stages, and compiles each into a forward and a backward function for its devices.

The forward function of a stage returns its outputs for later stages, and the residuals for its own backward function. The backward function
takes the gradients of the outputs. It returns the gradients of the stage's parameters, added to those of earlier microbatches, and the gradients of
the inputs from earlier stages. A residual that is also an input is not copied: the backward function gets the input itself.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

DATA = "data"  # the axis of a stage's mesh over which examples are sharded


@dataclasses.dataclass
class Place:
    """The devices of a stage."""
    number: int
    mesh: Mesh
    spec_of: Any = None  # for parameters: (path, aval) -> PartitionSpec

    def sharding(self, spec=PartitionSpec()):
        if self.mesh.size == 1:
            return SingleDeviceSharding(self.mesh.devices.flat[0])
        return NamedSharding(self.mesh, spec)

    def examples(self, aval, rows):
        """Returns the sharding of an array: over the devices if it has a row for each example, else replicated."""
        ways = dict(self.mesh.shape).get(DATA, 1)
        if ways == 1 or aval.shape[:1] != (rows,):
            return self.sharding()
        if rows % ways:
            raise ValueError(f"a microbatch of {rows} examples cannot be divided among the {ways} devices of stage {self.number}: "
                             f"change the number of examples in a batch, or of microbatches")
        return self.sharding(PartitionSpec(DATA))

    def parameter(self, path, aval):
        return self.sharding(self.spec_of(path, aval)) if self.spec_of else self.sharding()


@dataclasses.dataclass
class Stage:
    place: Place
    params: list          # the parameters that the stage uses, as positions among all parameters
    inputs: list          # variables from earlier stages
    batch: list           # positions in the batch
    outputs: list         # variables for later stages, and statistics; in the last stage also the loss
    whole: set            # variables that are never sharded by example: statistics and keys
    smooth_out: Any = None  # for each output: whether a gradient comes back for it
    forward: Any = None   # (params, inputs, batch) -> (outputs, residuals)
    backward: Any = None  # (forward's arguments, outputs, residuals, each output's gradients by user, sums) -> (sums, gradients of inputs)
    smooth: Any = None    # for each input: whether it has a gradient


    def sharding(self, var, rows):
        return self.place.sharding() if var in self.whole else self.place.examples(var.aval, rows)


def is_smooth(var):
    return jnp.issubdtype(var.aval.dtype, jnp.inexact)


def cut(flow, starts, places):
    """Returns the stages of a flow, not compiled yet, and their functions (params, inputs, batch) -> outputs. starts: the stages' first units."""
    ends = [*starts[1:], len(flow.units)]
    parts = [[eqn for unit in flow.units[a:b] for eqn in unit] for a, b in zip(starts, ends)]
    parameter, batch = ({var: i for i, var in enumerate(many)} for many in (flow.params, flow.batch))
    used = [{atom for eqn in part for atom in eqn.invars if isinstance(atom, core.Var)} for part in parts]
    unused = set(flow.params) - set().union(*used)
    stages, made = [], {}
    after = {var for _, var in flow.kept if isinstance(var, core.Var)}
    whole = after | {flow.batch[i] for i, _ in flow.kept} | ({flow.batch[flow.key]} if flow.key is not None else set())
    for s, (part, reads) in enumerate(zip(parts, used)):
        back = set().union(*used[s + 1:]) | {flow.loss}
        later = back | after
        reads = list(dict.fromkeys(atom for eqn in part for atom in eqn.invars if isinstance(atom, core.Var)))
        if s == 0:
            reads += [var for var in flow.params if var in unused]
        stages.append(Stage(
            places[s], params=sorted(parameter[v] for v in reads if v in parameter), inputs=[v for v in reads if made.get(v, s) < s],
            batch=sorted(batch[v] for v in reads if v in batch), outputs=[v for eqn in part for v in eqn.outvars if v in later],
            whole=whole))
        stages[-1].smooth_out = [is_smooth(v) and v in back for v in stages[-1].outputs]
        made.update((v, s) for eqn in part for v in eqn.outvars)
    return stages, [_function(flow, part, stage) for part, stage in zip(parts, stages)]


def _function(flow, part, stage):
    """Returns the stage's function (params, inputs, batch) -> outputs."""
    needed = {atom for eqn in part for atom in eqn.invars if isinstance(atom, core.Var)}
    constants = []
    for eqn in reversed(flow.constants):
        if needed & set(eqn.outvars):
            constants.append(eqn)
            needed.update(atom for atom in eqn.invars if isinstance(atom, core.Var))
    consts = [var for var in flow.consts if var in needed]
    invars = [flow.params[i] for i in stage.params] + stage.inputs + [flow.batch[i] for i in stage.batch]
    eqns = constants[::-1] + part
    jaxpr = core.Jaxpr(consts, invars, stage.outputs, eqns, set(), debug_info=flow.debug_info)
    run = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, [flow.consts[var] for var in consts]))
    return lambda params, inputs, batch: run(*params, *inputs, *batch)


def compile_stage(stage, function, flow, owned, rows, microbatches, remat):
    """Sets stage.forward and stage.backward. owned: the shardings of the parameters on this stage."""
    place = stage.place
    avals = lambda variables: [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in variables]
    params, inputs = avals([flow.params[i] for i in stage.params]), avals(stage.inputs)
    batch = avals([flow.batch[i] for i in stage.batch])
    stage.smooth = [is_smooth(v) for v in stage.inputs]
    smooth_out = stage.smooth_out
    if remat:
        function = jax.checkpoint(function)
    pick = lambda values, smooth, which: [value for value, s in zip(values, smooth) if s == which]

    def differentiated(params, inputs, batch):
        def smooth(params, chosen):
            chosen, rest = iter(chosen), iter(pick(inputs, stage.smooth, False))
            outputs = function(params, [next(chosen if s else rest) for s in stage.smooth], batch)
            return pick(outputs, smooth_out, True), pick(outputs, smooth_out, False)

        outputs, pull, others = jax.vjp(smooth, params, pick(inputs, stage.smooth, True), has_aux=True)
        outputs, others = iter(outputs), iter(others)
        leaves, back.tree = jax.tree.flatten(pull)
        return [next(outputs if s else others) for s in smooth_out], leaves

    def back(given, outputs, residuals, gradients, sums):
        sources = {"input": given, "output": outputs, "residual": residuals}
        leaves = [sources[kind][i] for kind, i in back.leaves]
        pulled = [jnp.full((), 1 / microbatches, var.aval.dtype) if var is flow.loss else sum(parts[1:], parts[0])
                  for var, parts in zip(pick(stage.outputs, smooth_out, True), gradients)]
        of_params, of_inputs = jax.tree.unflatten(back.tree, leaves)(pulled)
        return [g if sums is None else s + g for g, s in zip(of_params, sums or of_params)], of_inputs

    closed = jax.make_jaxpr(differentiated)(params, inputs, batch)
    forward, back.leaves = _without_copies(closed, len(stage.outputs))
    shardings = ([owned[i] for i in stage.params], [stage.sharding(v, rows) for v in stage.inputs],
                 [stage.sharding(flow.batch[i], rows) for i in stage.batch])
    outputs = [stage.sharding(v, rows) for v in stage.outputs]
    stage.forward = jitted(f"stage{place.number}_forward", forward, in_shardings=shardings, out_shardings=(outputs, None))
    stage.backward = jitted(f"stage{place.number}_backward", back, donate_argnums=4,
                            out_shardings=(shardings[0], pick(shardings[1], stage.smooth, True)))


def _without_copies(closed, num_outputs):
    """Rewrites a function that returns outputs and then residuals. The new one returns each residual once, and omits those that are inputs or
    outputs. Returns it, and for each original residual its kind ("input", "output" or "residual") and its index there."""
    jaxpr = closed.jaxpr
    places = {}
    for kind, variables in (("output", jaxpr.outvars[:num_outputs]), ("input", jaxpr.invars)):
        places.update((var, (kind, i)) for i, var in enumerate(variables) if isinstance(var, core.Var))
    leaves, kept = [], []
    for atom in jaxpr.outvars[num_outputs:]:
        key = atom if isinstance(atom, core.Var) else object()
        if key not in places:
            places[key] = ("residual", len(kept))
            kept.append(atom)
        leaves.append(places[key])
    jaxpr = jaxpr.replace(outvars=jaxpr.outvars[:num_outputs] + kept, debug_info=jaxpr.debug_info.with_unknown_names())
    run = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, closed.consts))

    def forward(params, inputs, batch):
        made = run(*params, *inputs, *batch)
        return made[:num_outputs], made[num_outputs:]

    return forward, leaves


def jitted(name, function, **options):
    def call(*args):
        return function(*args)

    call.__name__ = call.__qualname__ = name
    return jax.jit(call, **options)
