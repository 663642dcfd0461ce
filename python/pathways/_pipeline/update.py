"""Divides the optimizer's step among the stages, so that each part runs on the devices of its parameters.

The whole step is traced as one function of all parameters, so an optimizer may combine them freely (such as a global norm). Its equations are then
divided among the stages: each runs on the stage of its large inputs. Equations that combine scalars of several stages run at the place BETWEEN. The
equations that one place can run without waiting for another place form one compiled function.
"""

import collections

import jax
from jax.extend import core

from pathways._pipeline import flow
from pathways._pipeline.stages import jitted

EARLY = -1  # the phase of equations that need no gradients
BETWEEN = -1  # the place of equations that belong to no stage or to several: the first stage's devices


class Update:
    """The divided form of step(gradients, state, params) -> (params, state), over lists of leaves. *_places: the stage of each leaf. Call it with the
    result of begin() and the gradients."""

    def __init__(self, step, params, state, param_places, state_places, sharding_of, donate):
        """params, state: leaves with shape, dtype and sharding. sharding_of(place): the replicated sharding there."""
        self._sharding_of = sharding_of
        avals = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False)) for leaf in (*params, *params, *state)]
        n = len(params)
        closed = flow.inlined(lambda *all: step(all[:n], all[2 * n:], all[n:2 * n]), *avals)
        self._jaxpr, self._consts = closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts))
        self._n = n
        self._places = dict(zip(self._jaxpr.invars, [*param_places, *param_places, *state_places]))
        self._targets = [leaf.sharding for leaf in (*params, *state)]
        self._target_places = [*param_places, *state_places]
        self._donate = donate
        self._parts = self._divide()

    def begin(self, state, params):
        """Runs the equations that need no gradients (counts, rates). Call it first, so that no stage waits for them at the end. Returns the
        environment for __call__."""
        env = dict(zip(self._jaxpr.invars[self._n:], [*params, *state]))
        self._run(env, [part for part in self._parts if part[0] == EARLY])
        return env

    def __call__(self, env, gradients):
        env.update(zip(self._jaxpr.invars, gradients))
        self._run(env, [part for part in self._parts if part[0] != EARLY])
        results = [self._read(env, atom, sharding) for atom, sharding in zip(self._jaxpr.outvars, self._targets)]
        return results[:self._n], results[self._n:]

    def _run(self, env, parts):
        for phase, place, invars, donated, outvars, function in parts:
            move = lambda var: env[var] if self._places[var] == place else jax.device_put(env[var], self._sharding_of(place))
            kept, given = ([move(var) for var in invars if (var in donated) == d] for d in (False, True))
            env.update(zip(outvars, function(kept, given)))

    def _read(self, env, atom, sharding):
        if isinstance(atom, core.Literal) or atom in self._consts:
            value = atom.val if isinstance(atom, core.Literal) else self._consts[atom]
            return jax.device_put(jax.numpy.asarray(value, atom.aval.dtype), sharding)
        return jax.device_put(env[atom], sharding)  # does nothing if the sharding is right already

    def _divide(self):
        constants, equations, first = [], [], dict.fromkeys(self._jaxpr.invars, 0)
        early = {var for var in self._jaxpr.invars[2 * self._n:] if self._places[var] == BETWEEN}
        for eqn in self._jaxpr.eqns:
            inputs = [atom for atom in eqn.invars if isinstance(atom, core.Var) and atom in self._places]
            if not inputs:
                constants.append(eqn)
                continue
            place = self._place(eqn, inputs)
            if early.issuperset(inputs):
                early.update(eqn.outvars)
                phase = EARLY
            else:
                phase = max(0, *(first[var] + (self._places[var] != place) for var in inputs))
            equations.append((eqn, place, inputs))
            self._places.update(dict.fromkeys(eqn.outvars, place))
            first.update(dict.fromkeys(eqn.outvars, phase))
        results = {atom for atom in self._jaxpr.outvars if isinstance(atom, core.Var)}
        constant = {var for eqn in constants for var in eqn.outvars}
        placed = self._late(equations, first, early)
        if results & constant:  # compute results without inputs in a separate part
            placed[0, BETWEEN] = constants + placed[0, BETWEEN]
            self._places.update(dict.fromkeys(constant, BETWEEN))
            constants = []
        return self._compile(sorted(placed.items()), constants, results)

    def _late(self, equations, first, early):
        """Returns {(phase, place): equations}. Each equation is in the latest phase that delays no other place, so that a place has few parts."""
        last = max(first.values(), default=0)
        latest, placed = {}, collections.defaultdict(list)
        for eqn, place, inputs in reversed(equations):
            phase = EARLY if early.issuperset(eqn.outvars) else min((latest[var] for var in eqn.outvars if var in latest), default=last)
            placed[phase, place].insert(0, eqn)
            for var in inputs:
                latest[var] = min(latest.get(var, last), phase - (self._places[var] != place))
        return placed

    def _place(self, eqn, inputs):
        everywhere = {self._places[var] for var in inputs}
        if len(everywhere) == 1:
            return everywhere.pop()
        large = {self._places[var] for var in inputs if var.aval.shape}
        if len(large) == 1:
            return large.pop()
        if all(var.aval.shape == () for var in eqn.outvars) and not large:
            return BETWEEN
        return self._places[max(inputs, key=lambda var: var.aval.size)]

    def _compile(self, placed, constants, results):
        reads = [{atom for eqn in eqns for atom in eqn.invars if isinstance(atom, core.Var)} for _, eqns in placed]
        target = {atom: i for i, atom in enumerate(self._jaxpr.outvars) if isinstance(atom, core.Var)}
        parts = []
        for k, ((phase, place), eqns) in enumerate(placed):
            later = set().union(*reads[k + 1:], results)
            made = {var for eqn in eqns for var in eqn.outvars}
            outvars = [var for eqn in eqns for var in eqn.outvars if var in later]
            if not outvars:
                continue
            own = _needed(constants, reads[k])
            needed = [var for eqn in own + eqns for var in eqn.invars if isinstance(var, core.Var) and var in self._places]
            invars = [var for var in dict.fromkeys(needed) if var not in made]
            donated = self._donated(invars, outvars, later, place)
            sharding = lambda var: self._targets[target[var]] if var in target and self._target_places[target[var]] == place else (
                self._sharding_of(place) if var.aval.shape == () else None)
            function = self._function(own + eqns, [v for v in invars if v not in donated], [v for v in invars if v in donated], outvars)
            name = "optimizer" if place == BETWEEN else f"stage{place}_optimizer"
            parts.append((phase, place, invars, donated, outvars, jitted(
                name, function, out_shardings=[sharding(var) for var in outvars], **({"donate_argnums": 1} if donated else {}))))
        return parts

    def _donated(self, invars, outvars, later, place):
        """Returns the old parameters and state whose last use is here and whose successors are made here."""
        if not self._donate:
            return frozenset()
        old = self._jaxpr.invars[self._n:]
        successors = zip(old, self._jaxpr.outvars)
        return frozenset(var for var, new in successors if new in set(outvars) and var in set(invars) and var not in later
                         and self._places[var] == place)

    def _function(self, eqns, kept, donated, outvars):
        needed = {atom for eqn in eqns for atom in eqn.invars if isinstance(atom, core.Var)}
        consts = [var for var in self._consts if var in needed]
        jaxpr = core.Jaxpr(consts, kept + donated, outvars, eqns, set(), debug_info=self._jaxpr.debug_info.with_unknown_names())
        run = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, [self._consts[var] for var in consts]))
        return lambda kept, donated: run(*kept, *donated)


def _needed(constants, reads):
    reads, found = set(reads), []
    for eqn in reversed(constants):
        if reads & set(eqn.outvars):
            found.append(eqn)
            reads.update(atom for atom in eqn.invars if isinstance(atom, core.Var))
    return found[::-1]
