"""Traces a function into a sequence of equations that can be cut anywhere.

Equations that depend on the batch keep the order of the function. Equations that depend on parameters only move right before their first use:
a cast of all parameters at the top, for example. So each parameter belongs to the stage that uses it. Equations without inputs (masks,
positions) belong to no stage: each stage that needs one computes its own copy.
"""

import dataclasses
import itertools
from typing import Any

import jax
from jax.extend import core
from jax.extend import source_info_util
from jax.interpreters import partial_eval

from pathways._jax import public
from pathways._program import cost

LAYER = "pipeline_layer_"  # the name prefix of jitted functions that must not be cut


@dataclasses.dataclass
class Flow:
    """A traced loss function. Inputs: the leaves of the parameters, of x, of y, and of the model's variables (statistics), and perhaps a random key.
    Outputs: the loss and the new statistics."""
    params: list      # variables
    batch: list       # variables: x, y, the statistics, the key
    loss: Any
    kept: list        # one for each statistic: (position in the batch, the variable of its new value)
    key: Any          # the key's position in the batch, or None
    units: list       # lists of equations
    constants: list   # equations that depend on nothing
    consts: dict      # variable -> array that the function closes over
    debug_info: Any

    def costs(self):
        """Returns the cost of each unit: its share of the work plus its share of the parameters' bytes."""
        work = [sum(map(cost.equation_flops, unit)) for unit in self.units]
        memory = [0] * len(self.units)
        for position, var in zip(self.first_uses(), self.params):
            memory[position] += cost.bytes_of(var.aval)
        share = lambda values: [value / max(sum(values), 1) for value in values]
        return [a + b for a, b in zip(share(work), share(memory))]

    def first_uses(self):
        """Returns, for each parameter, the first unit that uses it; 0 for unused parameters."""
        found = {}
        for i, unit in enumerate(self.units):
            for var in _inputs(unit):
                found.setdefault(var, i)
        return [found.get(var, 0) for var in self.params]

    def crossing(self):
        """Returns, for each unit, the bytes that a cut before it sends to later units."""
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
    """Traces function(params, x, y, kept, key) -> (loss, kept) for leaves of these shapes; returns its Flow."""
    groups = (params, x, y, kept, key)
    ends = list(itertools.accumulate(map(len, groups)))

    def flat(*leaves):
        loss, after = function(*(leaves[a:b] for a, b in zip([0, *ends], ends)))
        return [loss, *after]

    closed = inlined(flat, *(leaf for group in groups for leaf in group))
    loss, *after = closed.out_avals
    for before, aval in zip(kept, after, strict=True):
        if (before.shape, before.dtype) != (aval.shape, aval.dtype):
            raise TypeError(f"a call changes the type of a variable of the model from {before.dtype}{list(before.shape)} to {aval.str_short()}: it must stay the same")
    if loss.shape != () or not jax.numpy.issubdtype(loss.dtype, jax.numpy.floating):
        raise TypeError(f"the loss must be one real number, not {loss.str_short()}")
    if closed.effects:
        raise NotImplementedError(f"the model or the loss has side effects, which a pipeline cannot run ({closed.effects}): remove prints and callbacks")
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    first = ends[2] - ends[0]  # the position of the first statistic in the batch
    return _arrange(jaxpr, dict(zip(jaxpr.constvars, closed.consts)), ends[0], first, ends[3] - ends[0] if key else None)


def inlined(function, *avals):
    """Returns the function's jaxpr with its calls of jitted functions inlined."""
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
                functions, params = found if isinstance(found, tuple) else ((), found)  # before jax 0.9: a pair
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
        inputs = dict.fromkeys(_inputs([eqn]))  # an ordered set, so that every process produces the same text for the compile cache
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
        raise ValueError("the loss does not depend on the batch: compute it from the model's outputs")
    kept = [(first_kept + i, var) for i, var in enumerate(after)]
    return Flow(list(params), list(batch), loss, kept, key, units, constants, consts, jaxpr.debug_info.with_unknown_names())


def _is_layer(eqn):
    return eqn.primitive.name in ("jit", "pjit") and eqn.params["name"].startswith(LAYER)


def _collect(inputs, maker, waiting, ready):
    """Moves the equations that make these inputs from `waiting` to `ready`, in order of dependency."""
    for var in inputs:
        if var in waiting:
            eqn = maker[var]
            waiting.difference_update(eqn.outvars)
            _collect(dict.fromkeys(_inputs([eqn])), maker, waiting, ready)
            ready.append(eqn)
