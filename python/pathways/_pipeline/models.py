"""Models of all kinds as functions (parameters, x) -> outputs."""

import sys

import jax

from pathways._pipeline import flow


def forward_of(model):
    """Of a list of layer functions, a Flax module of either kind, or a function that is one already."""
    if isinstance(model, (list, tuple)):
        return _layers(list(model))
    linen, nnx = (_imported("flax.linen", "Module"), _imported("flax.nnx", "Module"))
    if linen and isinstance(model, linen):
        return _linen(model)
    if nnx and isinstance(model, nnx):
        return _nnx(model)
    if callable(model):
        return model
    raise TypeError(f"a pipeline is made of a list of layer functions, a Flax module or a function (params, x), not of {type(model).__name__}")


def _imported(module, name):
    """A class of a library, if somebody has imported that: else nobody has objects of it."""
    return getattr(sys.modules.get(module), name, None)


def _layers(layers):
    for i, layer in enumerate(layers):
        if not callable(layer):
            raise TypeError(f"layer {i} is no function (params, x) but {type(layer).__name__}")
    named = []
    for i, layer in enumerate(layers):
        def call(params, x, layer=layer):
            return layer(params, x)

        call.__name__ = call.__qualname__ = f"{flow.LAYER}{i}"
        named.append(jax.jit(call))

    def forward(params, x):
        if not isinstance(params, (list, tuple)) or len(params) != len(named):
            raise ValueError(f"{len(named)} layers want a list of as many parameters, one for each layer (None for those that have none)")
        for layer, own in zip(named, params):
            x = layer(own, x)
        return x

    return forward


def _linen(model):
    def forward(variables, x):
        others = sorted(set(variables) - {"params"})
        if others:
            raise ValueError(f"the model has variables besides its parameters: {', '.join(others)}. A pipeline trains parameters alone; "
                             "layers that keep statistics of a batch (BatchNorm) would see microbatches: use LayerNorm or GroupNorm")
        return model.apply(variables, x)

    return forward


def _nnx(model):
    from flax import nnx

    graph, _, rest = nnx.split(model, nnx.Param, ...)

    def forward(params, x):
        whole = nnx.merge(graph, params, rest, copy=True)
        before = jax.tree.leaves(nnx.state(whole, nnx.Not(nnx.Param)))
        outputs = whole(x)
        after = jax.tree_util.tree_leaves_with_path(nnx.state(whole, nnx.Not(nnx.Param)))
        changed = [jax.tree_util.keystr(path) for (path, new), old in zip(after, before) if new is not old]
        if changed or len(after) != len(before):
            raise ValueError(f"the model changes more than its parameters when it is called: {', '.join(changed[:5])}. A pipeline trains "
                             "parameters alone: call model.eval() or remove dropout, and use LayerNorm or GroupNorm for BatchNorm")
        return outputs

    return forward
