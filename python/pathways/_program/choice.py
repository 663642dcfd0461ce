"""`pw.cond` and `pw.switch`: choose by a value which function runs.

    @pw.program
    def f(x):
        return pw.cond(score(x) > 0, on_one_slice, on_another, x)

Inside a program the functions may call compiled functions on any slices, and only the chosen one is dispatched, once the value is known.
Outside a program Python chooses. Inside `jax.jit` they become `jax.lax.switch`, the only choice that jax has there.

A program may call `jax.grad` and the like of what has choices. The gradient is a choice too, by the same index: `tangents_p` is the derivative of a
choice, and its transpose a choice again. The branches of the gradient compute anew what they need of the forward branch, because the branches may need
values of different shapes, while those of a choice have the same.
"""

import contextlib
import functools
import threading

import jax
import jax.numpy as jnp
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive
from jax.interpreters import ad

from pathways._jax import public

select_p = Primitive("pathways_select")
tangents_p = Primitive("pathways_select_tangents")  # a choice whose last `linear` operands and results are tangents
select_p.multiple_results = tangents_p.multiple_results = True
_programs = threading.local()


def _results(branches):
    return [ShapedArray(aval.shape, aval.dtype) for aval in branches[0].out_avals]


@select_p.def_effectful_abstract_eval
def _select_results(*_, branches, names, counts):
    return _results(branches), set().union(*(one.effects for one in branches))


@tangents_p.def_abstract_eval
def _tangents_results(*_, branches, names, counts, linear):
    return _results(branches)


@contextlib.contextmanager
def in_program():
    """Marks jax's current trace as a program or a branch of one, for the block."""
    outer = _programs.trace = getattr(_programs, "trace", ())
    _programs.trace = (*outer, public.trace_state())
    try:
        yield
    finally:
        _programs.trace = outer


def is_program():
    """Whether jax traces a program or a branch of one now, and nothing inside of it."""
    return public.trace_state() in getattr(_programs, "trace", ())[-1:]


def _is_differentiated():
    """Whether jax traces a program or a branch of one now, and inside of it a gradient or the like, and nothing else."""
    return public.trace_state_below_gradients() in getattr(_programs, "trace", ())[-1:]


def is_in_program():
    """Whether jax traces a program, or something inside of it."""
    return bool(getattr(_programs, "trace", ()))


def cond(pred, true_fun, false_fun, *operands):
    """Returns true_fun(*operands) if pred else false_fun(*operands). Both must return the same structure, shapes and types."""
    if isinstance(pred, Tracer):
        chosen = pred if pred.dtype == bool else jnp.not_equal(pred, 0)
        return switch(chosen.astype(jnp.int32), [false_fun, true_fun], *operands)
    return true_fun(*operands) if pred else false_fun(*operands)


def switch(index, branches, *operands):
    """Returns branches[index](*operands). An index below 0 counts as 0, an index beyond the end as the last."""
    branches = list(branches)
    if not branches:
        raise ValueError("pw.switch needs at least one function to choose from")
    if not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    if not is_program() and not _is_differentiated():
        return jax.lax.switch(index, branches, *operands)
    if index.shape or not jnp.issubdtype(index.dtype, jnp.integer):
        raise TypeError(f"pw.switch chooses by one integer, not by {index.aval.str_short()}")
    traced = [trace(branch, operands) for branch in branches]
    _check(branches, traced)
    results = _bind(select_p, jnp.asarray(index, jnp.int32), [closed for closed, _ in traced], map(name_of, branches), jax.tree.leaves(operands))
    return jax.tree.unflatten(traced[0][1], results)


def _bind(primitive, index, branches, names, leaves, **params):
    constants = [constant for closed in branches for constant in closed.consts]
    return primitive.bind(index, *constants, *leaves, branches=tuple(branches), names=tuple(names), counts=tuple(len(one.consts) for one in branches), **params)


def name_of(function):
    return getattr(function, "__name__", "function").strip("<>")


def trace(function, operands):
    """Returns the function's jaxpr and the structure of its results. Values that it uses of the surrounding program are constants of the jaxpr."""
    leaves, tree = jax.tree.flatten(operands)
    structure = None

    def flat(*values):
        nonlocal structure
        with in_program():
            results, structure = jax.tree.flatten(function(*jax.tree.unflatten(tree, values)))
        return results

    avals = [jax.api_util.shaped_abstractify(leaf) for leaf in leaves]
    closed = jax.make_jaxpr(flat)(*(jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals))
    return closed, structure


def _check(branches, traced):
    first, structure = traced[0]
    types = lambda closed: [aval.strip_weak_type().str_short() for aval in closed.out_avals]
    for branch, (closed, other) in zip(branches, traced):
        if other != structure or types(closed) != types(first):
            raise TypeError(f"the functions of pw.switch or pw.cond must return the same structure and types: {name_of(branches[0])} returns {structure} of "
                            f"{', '.join(types(first))}, {name_of(branch)} returns {other} of {', '.join(types(closed))}")


# ---------------------------------------------------------------------------------------------------------------- gradients
def _values_of(branch, values, counts):
    """Returns the values that a branch takes, of those of the choice without the index: its own constants and the operands."""
    before = sum(counts[:branch])
    return values[before:before + counts[branch]] + values[sum(counts):]


def _evaluate(closed, values):
    return jax.core.eval_jaxpr(closed.jaxpr, values[:len(closed.jaxpr.constvars)], *values[len(closed.jaxpr.constvars):])


def _is_smooth(aval):
    return jnp.issubdtype(aval.dtype, jnp.inexact)


def _jvp(primitive, primals, tangents, *, branches, names, counts, **params):
    if any(closed.effects for closed in branches):
        raise NotImplementedError("the functions of pw.switch or pw.cond have effects (callbacks or debug.print between their compiled functions), so "
                                  "there is no gradient of the choice")
    found = primitive.bind(*primals, branches=branches, names=names, counts=counts, **params)
    index, *values = primals
    varying = [i for i, tangent in enumerate(tangents[1:]) if not isinstance(tangent, ad.Zero)]

    def derivative(branch, *given):  # all values, then the tangents of those that vary
        fixed = list(given[:len(values)])

        def function(*vary):
            for i, value in zip(varying, vary):
                fixed[i] = value
            return [one for one in _evaluate(branches[branch], _values_of(branch, fixed, counts)) if _is_smooth(one)]

        return jax.jvp(function, [fixed[i] for i in varying], list(given[len(values):]))[1]

    smooth = [_is_smooth(one) for one in found]
    made = iter(())
    if varying and any(smooth):
        operands = [*values, *(tangents[1 + i] for i in varying)]
        derived = [trace(functools.partial(derivative, branch), operands)[0] for branch in range(len(branches))]
        made = iter(_bind(tangents_p, index, derived, names, operands, linear=len(varying)))
    return found, [next(made, None) if one else None for one in smooth]


def _jvp_rule(primitive):
    def rule(primals, tangents, **params):
        found, moved = _jvp(primitive, primals, tangents, **params)
        return found, [ad.Zero(jax.typeof(one).to_tangent_aval()) if tangent is None else tangent for one, tangent in zip(found, moved)]

    return rule


def _transpose(cotangents, index, *values, branches, names, counts, linear):
    """A choice among the transposes of the branches. They take the known values, and the cotangents of the results."""
    open_ = [i for i, value in enumerate(values) if ad.is_undefined_primal(value)]
    given = [ad.instantiate_zeros(one) for one in cotangents]
    known = [value for value in values if not ad.is_undefined_primal(value)]

    def transposed(branch, *taken):
        rest = iter(taken[:len(known)])
        fixed = [None if i in open_ else next(rest) for i in range(len(values))]

        def function(*vary):
            for i, value in zip(open_, vary):
                fixed[i] = value
            return _evaluate(branches[branch], _values_of(branch, fixed, counts))

        kinds = [jax.ShapeDtypeStruct(values[i].aval.shape, values[i].aval.dtype) for i in open_]
        return list(jax.linear_transpose(function, *kinds)(list(taken[len(known):])))

    operands = [*known, *given]
    closed = [trace(functools.partial(transposed, branch), operands)[0] for branch in range(len(branches))]
    made = iter(_bind(select_p, index, closed, [f"gradient of {name}" for name in names], operands))
    return [None, *(next(made) if ad.is_undefined_primal(value) else None for value in values)]


for _primitive in (select_p, tangents_p):
    ad.primitive_jvps[_primitive] = _jvp_rule(_primitive)
ad.primitive_transposes[tangents_p] = _transpose
