"""Trains with Flax and Optax, and compares losses and parameters with jax in this process."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

flax = pytest.importorskip("flax")
optax = pytest.importorskip("optax")

from conftest import assert_same  # noqa: E402

STEPS = 10
BATCH = 16


def batches():
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        images = random.standard_normal((BATCH, 8, 8, 1), dtype=np.float32)
        yield images, (images.sum(axis=(1, 2, 3)) > 0).astype(np.int32)


def linen_model():
    from flax import linen

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x, train):
            x = linen.relu(linen.Conv(8, (3, 3), use_bias=False)(x))  # BatchNorm would cancel a bias
            x = linen.BatchNorm(use_running_average=not train)(x)
            x = linen.avg_pool(x, (2, 2), (2, 2)).reshape((x.shape[0], -1))
            x = linen.relu(linen.LayerNorm()(linen.Dense(16)(x)))
            return linen.Dense(2)(x)

    return Network()


def train_linen(place_parameters, place_batch):
    """Trains a linen model: Flax's TrainState with batch statistics, AdamW with a schedule, clipped gradients."""
    from flax.training import train_state

    model = linen_model()
    variables = jax.jit(lambda key: model.init(key, jnp.zeros((1, 8, 8, 1)), train=False))(jax.random.key(0))
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, STEPS)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    state = train_state.TrainState.create(apply_fn=model.apply, params=variables["params"], tx=optimizer)
    state, statistics = place_parameters((state, variables["batch_stats"]))

    @jax.jit
    def step(state, statistics, images, labels):
        def loss_of(params):
            logits, updated = model.apply({"params": params, "batch_stats": statistics}, images, train=True, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), updated["batch_stats"]

        (loss, statistics_after), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradients), statistics_after, loss

    losses = []
    for images, labels in batches():
        state, statistics, loss = step(state, statistics, *place_batch((images, labels)))
        losses.append(loss)
    return np.array([float(loss) for loss in losses]), (state.params, statistics)


def train_nnx(place_parameters, place_batch):
    """Trains an NNX model: a model object, dropout, an optimizer that updates it in place."""
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.attention = nnx.MultiHeadAttention(num_heads=2, in_features=8, decode=False, rngs=rngs)
            self.norm = nnx.LayerNorm(8, rngs=rngs)
            self.dropout = nnx.Dropout(0.1, rngs=rngs)
            self.head = nnx.Linear(64, 2, rngs=rngs)

        def __call__(self, x):
            x = x.reshape((x.shape[0], 8, 8))
            x = self.norm(x + self.dropout(self.attention(x)))
            return self.head(x.reshape((x.shape[0], -1)))

    model = Network(nnx.Rngs(0))
    nnx.update(model, place_parameters(nnx.state(model)))
    optimizer = nnx.Optimizer(model, optax.sgd(0.05, momentum=0.9), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, images, labels):
        loss_of = lambda model: optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()
        loss, gradients = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, gradients)
        return loss

    losses = [step(model, optimizer, *place_batch(batch)) for batch in batches()]
    return np.array([float(loss) for loss in losses]), nnx.to_pure_dict(nnx.state(model, nnx.Param))


@pytest.mark.parametrize("train", [train_linen, train_nnx])
def test_training_gives_what_it_gives_in_process(train, islands, cpu):
    with jax.default_device(cpu):
        reference = train(lambda tree: tree, lambda tree: tree)
    unplaced = train(lambda tree: tree, lambda tree: tree)
    assert_same(unplaced, reference, rtol=2e-4, atol=2e-5)
    mesh = Mesh(np.array(islands[1]), ("data",))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    data_parallel = train(lambda tree: jax.device_put(tree, everywhere), lambda tree: jax.device_put(tree, split))
    assert_same(data_parallel, reference, rtol=2e-3, atol=2e-4)
    assert reference[0][-1] < reference[0][0]
