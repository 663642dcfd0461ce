"""Compares pipelines of models with batch statistics and random numbers with the same model without a pipeline, one microbatch after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pathways as pw
from test_pipeline import BATCH, WIDTH, batch, close, mean_square

optax = pytest.importorskip("optax")
MICROBATCHES = 2


def linen_model():
    linen = pytest.importorskip("flax.linen")

    class Block(linen.Module):
        @linen.compact
        def __call__(self, x, train):
            y = linen.BatchNorm(use_running_average=not train, momentum=0.9)(linen.Dense(WIDTH)(x))
            return x + linen.Dropout(0.3, deterministic=not train)(linen.gelu(y))

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x, train):
            for i in range(2):
                x = Block(name=f"block_{i}")(x, train)
            return linen.Dense(WIDTH, name="head")(x)

    model = Network()
    variables = model.init(jax.random.key(0), jnp.zeros((2, WIDTH)), train=False)

    def apply(params, statistics, key, x):
        outputs, after = model.apply({**params, **statistics}, x, train=True, mutable=["batch_stats"],
                                     rngs={"dropout": jax.random.fold_in(key, 0)})
        return outputs, after

    return model, variables, {"params": variables["params"]}, {"batch_stats": variables["batch_stats"]}, apply, {"train": True}


def nnx_model():
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.linear = nnx.Linear(WIDTH, WIDTH, rngs=rngs)
            self.norm = nnx.BatchNorm(WIDTH, momentum=0.9, rngs=rngs)
            self.dropout = nnx.Dropout(0.3, rngs=rngs)

        def __call__(self, x):
            return x + self.dropout(nnx.gelu(self.norm(self.linear(x))))

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.blocks = nnx.List([Block(rngs) for _ in range(2)])
            self.head = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    model = Network(nnx.Rngs(0))
    graph, params, statistics, random, rest = nnx.split(model, nnx.Param, nnx.BatchStat, nnx.RngState, ...)
    keys = [path for path, leaf in jax.tree_util.tree_leaves_with_path(random) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]

    def reseeded(key):
        """Restarts every stream: the i-th key of the model becomes fold_in(key, i), and counts become 0."""
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: jax.random.fold_in(key, keys.index(path)) if path in keys else jnp.zeros_like(leaf), random)

    def apply(params, statistics, key, x):
        whole = nnx.merge(graph, params, statistics, reseeded(key), rest, copy=True)
        outputs = whole(x)
        return outputs, nnx.state(whole, nnx.BatchStat)

    return model, params, params, statistics, apply, {}


MODELS = {"linen": linen_model, "nnx": nnx_model}


def unpipelined(apply, optimizer, params, statistics, opt_state, x, y, key):
    """Runs one step. Each microbatch reads the statistics that the one before it left, and draws with its own key."""
    losses, gradients = [], []
    for m, (x, y) in enumerate(zip(np.split(x, MICROBATCHES), np.split(y, MICROBATCHES))):
        def loss(params):
            outputs, after = apply(params, statistics, jax.random.fold_in(key, m), x)
            return mean_square(outputs, y), after

        (one, statistics), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        losses.append(one)
        gradients.append(gradient)
    gradient = jax.tree.map(lambda *parts: sum(parts) / MICROBATCHES, *gradients)
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), statistics, opt_state, sum(losses) / MICROBATCHES, gradient


@pytest.mark.parametrize("kind, stages, schedule", [("linen", 2, "1f1b"), ("nnx", 3, "gpipe")])
def test_steps_are_those_of_the_model_without_a_pipeline(kind, stages, schedule):
    model, given, params, statistics, apply, arguments = MODELS[kind]()
    optimizer = optax.sgd(0.1, momentum=0.9)
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:stages], microbatches=MICROBATCHES, optimizer=optimizer,
                           schedule=schedule, arguments=arguments)
    x, y = batch()
    keys = [jax.random.key(number) for number in (5, 6)]
    state = pipeline.init(given, x, y, rng=keys[0])
    close(state.variables, statistics)
    opt_state = optimizer.init(params)
    for step, key in enumerate(keys):
        x, y = batch(step)
        _, gradients = pipeline.value_and_grad(state, x, y, rng=key)
        params, statistics, opt_state, expected, theirs = unpipelined(apply, optimizer, params, statistics, opt_state, x, y, key)
        close(gradients, theirs, rtol=1e-4, atol=1e-5)
        state, loss = pipeline.step(state, x, y, rng=key)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
        close(state.params, params, rtol=1e-3, atol=1e-4)
        close(state.variables, statistics, rtol=1e-4, atol=1e-5)
    number = {stage.id: i for i, stage in enumerate(jax.devices()[:stages])}
    assert {number[leaf.devices().pop().id] for leaf in jax.tree.leaves(state.variables)} <= set(range(stages))


def test_another_key_is_another_step():
    model, given, _, _, _, arguments = linen_model()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2, arguments=arguments)
    x, y = batch()
    state = pipeline.init(given, x, y, rng=jax.random.key(0))
    losses = [float(pipeline.value_and_grad(state, x, y, rng=jax.random.key(number))[0]) for number in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_what_is_missing_is_said():
    x, y = batch()
    model, given, *_ = nnx_model()
    with pytest.raises(ValueError, match=r"draws random numbers.*rng=\.\.\., to step.., or call model.eval"):
        pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2).init(given, x, y)
    model, given, _, _, _, arguments = linen_model()
    linen = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2, arguments=arguments)
    state = linen.init(given, x, y, rng=jax.random.key(0))
    with pytest.raises(TypeError, match="must be a random key, .* not 5"):
        linen.value_and_grad(state, x, y, rng=5)
    with pytest.raises(TypeError, match="rng=... is for Flax modules only"):
        pw.pipeline(lambda p, x: x * p, loss=mean_square, stages=jax.devices()[:1], microbatches=2).init(np.float32(1), x, y, rng=jax.random.key(0))
    with pytest.raises(TypeError, match="arguments=... is for Flax modules only"):
        pw.pipeline(lambda p, x: x * p, loss=mean_square, stages=jax.devices()[:1], microbatches=2, arguments={"train": True})
