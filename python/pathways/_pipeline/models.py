"""Adapts models of all kinds to functions (parameters, variables, key, x) -> (outputs, variables). Parameters are trained; variables are other state
that a call changes (batch statistics)."""

import dataclasses
import sys
from typing import Any

import jax

from pathways._pipeline import flow


@dataclasses.dataclass
class Model:
    call: Any                                    # (parameters, variables, key or None, x) -> (outputs, variables)
    divide: Any = lambda given: (given, ())      # the argument of init() -> (parameters, variables)


def model_of(model, rngs, arguments):
    """Makes a Model from a list of layer functions, a Flax module of either kind, or a function (parameters, x) -> outputs."""
    linen, nnx = (_imported("flax.linen", "Module"), _imported("flax.nnx", "Module"))
    if linen and isinstance(model, linen):
        return _linen(model, rngs, arguments)
    if nnx and isinstance(model, nnx):
        return _nnx(model, arguments)
    if arguments:
        raise TypeError("arguments=... is for Flax modules only: a function or a list of layers takes (params, x)")
    if isinstance(model, (list, tuple)):
        return _function(_layers(list(model)))
    if callable(model):
        return _function(model)
    raise TypeError(f"a model is a list of layer functions, a Flax module or a function (params, x), not {type(model).__name__}")


def _function(function):
    def call(params, variables, key, x):
        if key is not None:
            raise TypeError("rng=... is for Flax modules only: pass random keys of a function or of layers as a part of x")
        return function(params, x), variables

    return Model(call)


def _imported(module, name):
    """Returns a class of a library, or None if the library is not imported: then no object of the class exists."""
    return getattr(sys.modules.get(module), name, None)


def _layers(layers):
    for i, layer in enumerate(layers):
        if not callable(layer):
            raise TypeError(f"layer {i} must be a function (params, x), not {type(layer).__name__}")
    named = []
    for i, layer in enumerate(layers):
        def call(params, x, layer=layer):
            return layer(params, x)

        call.__name__ = call.__qualname__ = f"{flow.LAYER}{i}"
        named.append(jax.jit(call))

    def forward(params, x):
        if not isinstance(params, (list, tuple)) or len(params) != len(named):
            raise ValueError(f"parameters of {len(named)} layers must be a list of that length: one entry for each layer, None for a layer without parameters")
        for layer, own in zip(named, params):
            x = layer(own, x)
        return x

    return forward


def _linen(model, rngs, arguments):
    def call(params, variables, key, x):
        drawn = {} if key is None else {"rngs": {name: jax.random.fold_in(key, i) for i, name in enumerate(rngs)}}
        if not variables:
            return model.apply(params, x, **drawn, **arguments), variables
        outputs, after = model.apply({**params, **variables}, x, mutable=list(variables), **drawn, **arguments)
        return outputs, {name: after.get(name, variables[name]) for name in variables}

    def divide(given):
        others = {name: value for name, value in given.items() if name != "params"}
        return {name: value for name, value in given.items() if name == "params"}, others or ()

    return Model(call, divide)


def _nnx(model, arguments):
    from flax import nnx

    graph, _, statistics, random, rest = nnx.split(model, nnx.Param, nnx.BatchStat, nnx.RngState, ...)
    statistics = statistics if jax.tree.leaves(statistics) else ()

    def call(params, variables, key, x):
        whole = nnx.merge(graph, params, variables if variables != () else nnx.State({}), _reseeded(random, key), rest, copy=True)
        state = lambda *kinds: jax.tree_util.tree_leaves_with_path(nnx.state(whole, nnx.All(*map(nnx.Not, kinds))))
        trained = (nnx.Param, nnx.BatchStat)
        before = state(*trained)
        outputs = whole(x, **arguments)
        after = state(*trained)
        changed = [jax.tree_util.keystr(path) for (path, new), (_, old) in zip(after, before) if new is not old]
        drawn = {jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(nnx.state(whole, nnx.RngState))}
        if key is None and drawn & set(changed):
            raise ValueError("the model draws random numbers when it is called: pass a key, rng=..., to step(), or call model.eval() first")
        changed = [name for name in changed if name not in drawn]
        if changed or len(after) != len(before):
            raise ValueError(f"the model changes more than its parameters and batch statistics when it is called: {', '.join(changed[:5])}. "
                             "A pipeline cannot keep such changes")
        return outputs, nnx.state(whole, nnx.BatchStat) if variables != () else variables

    return Model(call, lambda params: (params, statistics))


def _reseeded(random, key):
    """Restarts the model's streams of random numbers: the i-th begins with fold_in(key, i)."""
    if key is None:
        return random
    from flax import nnx

    numbers = iter(range(len(jax.tree.leaves(random))))

    def anew(variable):
        if issubclass(getattr(variable, "type", type(variable)), nnx.RngKey):
            return variable.replace(jax.random.fold_in(key, next(numbers)))
        return variable.replace(jax.numpy.zeros_like(variable.get_value() if hasattr(variable, "get_value") else variable.value))

    return jax.tree.map(anew, random, is_leaf=lambda one: isinstance(one, nnx.Variable) or hasattr(one, "type"))
