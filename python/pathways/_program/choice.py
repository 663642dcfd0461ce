"""`pw.cond` and `pw.switch`: choose by a value which function runs.

    @pw.program
    def f(x):
        return pw.cond(score(x) > 0, on_one_slice, on_another, x)

Inside a program the functions may call compiled functions on any slices, and only the chosen one is dispatched, once the value is known.
Outside a program Python chooses. Inside `jax.jit` or a gradient they become `jax.lax.switch`, the only choice that jax has there.
"""

import contextlib
import threading

import jax
import jax.numpy as jnp
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive

from pathways._jax import public

select_p = Primitive("pathways_select")
select_p.multiple_results = True
_programs = threading.local()


@select_p.def_effectful_abstract_eval
def _results(*_, branches, names, counts):
    return [ShapedArray(aval.shape, aval.dtype) for aval in branches[0].out_avals], set().union(*(one.effects for one in branches))


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
    if not is_program():
        return jax.lax.switch(index, branches, *operands)
    if index.shape or not jnp.issubdtype(index.dtype, jnp.integer):
        raise TypeError(f"pw.switch chooses by one integer, not by {index.aval.str_short()}")
    traced = [trace(branch, operands) for branch in branches]
    _check(branches, traced)
    constants = [constant for closed, _ in traced for constant in closed.consts]
    leaves = jax.tree.leaves(operands)
    results = select_p.bind(jnp.asarray(index, jnp.int32), *constants, *leaves, branches=tuple(closed for closed, _ in traced),
                            names=tuple(map(name_of, branches)), counts=tuple(len(closed.consts) for closed, _ in traced))
    return jax.tree.unflatten(traced[0][1], results)


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
