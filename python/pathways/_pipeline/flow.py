"""A function as a row of equations that can be cut anywhere.

What is written in the function decides the order of what depends on the batch. Equations that depend on parameters alone (a cast of all of
them, at the top) come right before the first that needs them, so that a parameter belongs to the stage that works with it. Equations
that depend on nothing (masks, positions) belong to no stage: every one that needs them has its own.
"""

import dataclasses
import itertools
from typing import Any

import jax
from jax.extend import core
from jax.extend import source_info_util
from jax.interpreters import partial_eval

from pathways import _cost as cost
from pathways._jax import public

LAYER = "pipeline_layer_"  # the name of a jitted function that is not to be cut


@dataclasses.dataclass
class Flow:
    """Inputs: leaves of parameters, of x, of y, of what else the model keeps (statistics), and a random key or none. Outputs: the loss, and
    what becomes of the statistics."""
    params: list      # variables
    batch: list       # variables: x, y, then the rest
    loss: Any
    kept: list        # of the statistics: (position in the batch, what comes out for it)
    key: Any          # its position in the batch, or None
    units: list       # lists of equations
    constants: list   # equations that depend on nothing
    consts: dict      # variable -> array that the function closes over
    debug_info: Any

    def costs(self):
        """What each unit costs: its share of the work and its share of the parameters."""
        work = [sum(map(cost.equation_flops, unit)) for unit in self.units]
        memory = [0] * len(self.units)
        for position, var in zip(self.first_uses(), self.params):
            memory[position] += cost.bytes_of(var.aval)
        share = lambda values: [value / max(sum(values), 1) for value in values]
        return [a + b for a, b in zip(share(work), share(memory))]

    def first_uses(self):
        """The unit in which each parameter is used first; 0 for those that nobody uses."""
        found = {}
        for i, unit in enumerate(self.units):
            for var in _inputs(unit):
                found.setdefault(var, i)
        return [found.get(var, 0) for var in self.params]

    def crossing(self):
        """How many bytes a cut before each unit sends to later units."""
        made, last = {}, {}
        for i, unit in enumerate(self.units):
            for var in _inputs(unit):
                last[var] = i
            made.update((var, i) for eqn in unit for var in eqn.outvars)
        for var, first in zip(self.params, self.first_uses()):
            made[var] = first
        change = [0] * (len(self.units) + 1)
        for var, i in made.items():
            if var in last:
                change[i + 1] += cost.bytes_of(var.aval)
                change[last[var] + 1 if last[var] > i else i + 1] -= cost.bytes_of(var.aval)
        crossing, alive = [], 0
        for one in change[:-1]:
            alive += one
            crossing.append(alive)
        return crossing


def trace(function, params, x, y, kept=(), key=()):
    """The flow of function(params, x, y, kept, key) -> (loss, kept) for leaves of such shapes."""
    groups = (params, x, y, kept, key)
    ends = list(itertools.accumulate(map(len, groups)))

    def flat(*leaves):
        loss, after = function(*(leaves[a:b] for a, b in zip([0, *ends], ends)))
        return [loss, *after]

    closed = inlined(flat, *(leaf for group in groups for leaf in group))
    loss, *after = closed.out_avals
    for before, aval in zip(kept, after, strict=True):
        if (before.shape, before.dtype) != (aval.shape, aval.dtype):
            raise TypeError(f"a variable of the model is {before.dtype}{list(before.shape)}, and after a call {aval.str_short()}")
    if loss.shape != () or not jax.numpy.issubdtype(loss.dtype, jax.numpy.floating):
        raise TypeError(f"the loss must be one real number, not {loss.str_short()}")
    if closed.effects:
        raise NotImplementedError(f"a pipeline of functions with effects ({closed.effects}): remove prints and callbacks")
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    first = ends[2] - ends[0]  # of the statistics in the batch
    return _arrange(jaxpr, dict(zip(jaxpr.constvars, closed.consts)), ends[0], first, ends[3] - ends[0] if key else None)


def inlined(function, *avals):
    """The jaxpr with the equations of the jitted functions that it calls in their places."""
    closed = jax.make_jaxpr(function)(*avals)
    for _ in range(8):
        if not any(map(_opens, closed.jaxpr.eqns)):
            return closed
        closed = jax.make_jaxpr(lambda *args, whole=closed: _evaluate(whole.jaxpr, whole.consts, args))(*closed.in_avals)
    return closed


def _opens(eqn):
    if eqn.primitive.name not in ("jit", "pjit") or eqn.params["name"].startswith(LAYER):
        return False
    return all(public.is_unspecified(s) or s is None for s in (*eqn.params["in_shardings"], *eqn.params["out_shardings"]))


def _evaluate(jaxpr, consts, args):
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))
    read = lambda atom: atom.val if isinstance(atom, core.Literal) else env[atom]
    for eqn in jaxpr.eqns:
        values = [read(atom) for atom in eqn.invars]
        here = source_info_util.current_name_stack() + eqn.source_info.name_stack
        with source_info_util.user_context(eqn.source_info.traceback, name_stack=here), eqn.ctx.manager:
            if _opens(eqn):
                results = _evaluate(eqn.params["jaxpr"].jaxpr, eqn.params["jaxpr"].consts, values)
            else:
                found = eqn.primitive.get_bind_params(eqn.params)
                functions, params = found if isinstance(found, tuple) else ((), found)  # before jax 0.9: apart
                results = eqn.primitive.bind(*functions, *values, **params)
                results = results if eqn.primitive.multiple_results else [results]
        env.update(zip(eqn.outvars, results))
    return [read(atom) for atom in jaxpr.outvars]


def _inputs(eqns):
    return [atom for eqn in eqns for atom in eqn.invars if isinstance(atom, core.Var)]


def _arrange(jaxpr, consts, num_params, first_kept, key):
    params, batch = jaxpr.invars[:num_params], jaxpr.invars[num_params:]
    maker = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    of_batch, of_params = set(batch), set(params)
    constants, waiting, layers = [], set(), any(map(_is_layer, jaxpr.eqns))
    units = []
    for eqn in jaxpr.eqns:
        inputs = dict.fromkeys(_inputs([eqn]))  # a set with an order: the same text for the compile cache in every process
        if inputs.keys() & of_batch:
            of_batch.update(eqn.outvars)
            ready = []
            _collect(inputs, maker, waiting, ready)
            ready.append(eqn)
            if units and layers and not (_is_layer(eqn) and any(map(_is_layer, units[-1]))):
                units[-1] += ready
            else:
                units.append(ready)
        elif inputs.keys() & of_params:
            of_params.update(eqn.outvars)
            waiting.update(eqn.outvars)
        else:
            constants.append(eqn)
    loss, *after = jaxpr.outvars
    if isinstance(loss, core.Literal) or loss not in of_batch:
        raise ValueError("the loss does not depend on the batch")
    kept = [(first_kept + i, var) for i, var in enumerate(after)]
    return Flow(list(params), list(batch), loss, kept, key, units, constants, consts, jaxpr.debug_info.with_unknown_names())


def _is_layer(eqn):
    return eqn.primitive.name in ("jit", "pjit") and eqn.params["name"].startswith(LAYER)


def _collect(inputs, maker, waiting, ready):
    """Takes what makes these inputs out of `waiting`, in order."""
    for var in inputs:
        if var in waiting:
            eqn = maker[var]
            waiting.difference_update(eqn.outvars)
            _collect(dict.fromkeys(_inputs([eqn])), maker, waiting, ready)
            ready.append(eqn)
