"""A model in the form of layers as one SPMD jit: the counterpart of a pipeline of the same layers, with the same parameters."""

import jax
import optax
from jax.sharding import NamedSharding, PartitionSpec as P


def spec(path, parameter):
    """Returns the spec of a parameter on a mesh with the axis "model": heads, hidden units and words are spread over it."""
    return {"q": P(None, "model"), "k": P(None, "model"), "v": P(None, "model"), "o": P("model"), "up": P(None, "model"), "down": P("model"),
            "embed": P("model"), "head": P(None, "model")}.get(path[-1].key, P())


def state(params, optimizer, mesh):
    """Returns the shapes, with shardings, of the parameters and of the optimizer's state. params: shapes of the parameters, or arrays."""
    placed = jax.tree_util.tree_map_with_path(
        lambda path, leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec(path, leaf))), params)
    kept = optax.tree_utils.tree_map_params(optimizer, lambda leaf, like: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=like.sharding),
                                            jax.eval_shape(optimizer.init, placed), placed,
                                            transform_non_params=lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, P())))
    return placed, kept


def places(shapes):
    return jax.tree.map(lambda leaf: leaf.sharding, shapes)


def step(functions, loss, optimizer, shapes, mesh, recompute):
    """Returns the jit of a step: (state, x, y) -> (state, loss). shapes: as `state` returns them. recompute: the backward pass computes each layer again."""
    functions = [jax.checkpoint(function) if recompute else function for function in functions]

    def loss_of(params, x, y):
        for function, own in zip(functions, params):
            x = function(own, x)
        return loss(x, y)

    def step(state, x, y):
        params, kept = state
        value, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, kept = optimizer.update(gradients, kept, params)
        return (optax.apply_updates(params, updates), kept), value

    return jax.jit(step, out_shardings=(places(shapes), NamedSharding(mesh, P())), donate_argnums=0)
