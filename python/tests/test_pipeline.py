"""Tests pw.pipeline on jax's own cpu devices, where its functions are called one by one. tests/e2e/programs/test_pipeline.py uses a cluster."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec as P

import pathways as pw

optax = pytest.importorskip("optax")
BATCH, WIDTH = 16, 8


def mean_square(outputs, y):
    return jnp.mean((outputs - y) ** 2)


def dense(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def batch(seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(BATCH, WIDTH)).astype(np.float32) for _ in range(2))


def layered(count=6):
    rng = np.random.default_rng(1)
    params = [{"w": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 3, "b": np.zeros(WIDTH, np.float32)} for _ in range(count)]

    def whole(params, x):
        for one in params:
            x = dense(one, x)
        return x

    return [dense] * count, params, whole


def linen_model():
    linen = pytest.importorskip("flax.linen")

    class Block(linen.Module):
        @linen.compact
        def __call__(self, x):
            return x + linen.Dense(WIDTH)(linen.gelu(linen.Dense(2 * WIDTH)(linen.LayerNorm()(x))))

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x):
            for i in range(4):
                x = Block(name=f"block_{i}")(x)
            return linen.Dense(WIDTH, name="head")(x)

    model = Network()
    params = model.init(jax.random.key(0), jnp.zeros((1, WIDTH)))
    return model, params, model.apply


def nnx_model():
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.linear = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

        def __call__(self, x):
            return x + nnx.gelu(self.linear(self.norm(x)))

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.blocks = nnx.List([Block(rngs) for _ in range(4)])
            self.head = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    model = Network(nnx.Rngs(0))
    graph, params = nnx.split(model, nnx.Param)
    return model, params, lambda params, x: nnx.merge(graph, params)(x)


def plain():
    """A function that is hard to cut: tied parameters, a cast of all parameters, a mask, and a skip over stages."""
    rng = np.random.default_rng(2)
    params = {"tied": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32), "layers": rng.normal(size=(4, WIDTH, WIDTH)).astype(np.float32) / 3,
              "unused": np.ones(3, np.float32)}

    def apply(params, x):
        params = jax.tree.map(lambda p: p.astype(jnp.float32) * 1.5, params)
        mask = jnp.tril(jnp.ones((WIDTH, WIDTH)))
        begin = x = x @ params["tied"]
        for i in range(4):
            x = jnp.tanh(x @ (params["layers"][i] * mask)) + (x > 0)
        return (x + begin) @ params["tied"].T

    return apply, params, apply


MODELS = {"layers": layered, "linen": linen_model, "nnx": nnx_model, "function": plain}


def close(ours, reference, rtol=2e-5, atol=2e-6):
    assert jax.tree.structure(ours) == jax.tree.structure(reference)
    for mine, theirs in zip(jax.tree.leaves(ours), jax.tree.leaves(reference)):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind, stages, schedule", [
    *(("layers", stages, schedule) for stages in (1, 2, 4) for schedule in ("gpipe", "1f1b")),
    *((kind, *how) for kind in MODELS if kind != "layers" for how in ((2, "gpipe"), (4, "1f1b")))])
def test_loss_and_gradients_are_those_of_the_whole_model(kind, stages, schedule):
    model, params, apply = MODELS[kind]()
    x, y = batch()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:stages], microbatches=4, schedule=schedule)
    state = pipeline.init(params, x, y)
    loss, gradients = pipeline.value_and_grad(state, x, y)
    expected, theirs = jax.value_and_grad(lambda p: mean_square(apply(p, x), y))(params)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    close(gradients, theirs)
    for gradient, parameter in zip(jax.tree.leaves(gradients), jax.tree.leaves(state.params)):
        assert gradient.sharding == parameter.sharding, "a gradient is where its parameter is"
    if kind != "function":  # which has its layers in one array
        assert set(jax.tree.leaves(pipeline.stage_of(state))) == set(range(stages)), "each stage has parameters"


def test_interleaved_a_device_has_several_stages():
    model, params, apply = layered(8)
    x, y = batch()
    devices = jax.devices()[:2]
    pipeline = pw.pipeline(model, loss=mean_square, stages=devices * 3, microbatches=4, optimizer=optax.adam(1e-2), schedule="interleaved",
                           split=[1, 2, 1, 1, 2, 1])
    state = pipeline.init(params, x, y)
    assert [one["b"] for one in pipeline.stage_of(state)] == [0, 1, 1, 2, 3, 4, 4, 5]
    assert [one["w"].devices() for one in state.params] == [{devices[i]} for i in (0, 1, 1, 0, 1, 0, 0, 1)]
    loss, gradients = pipeline.value_and_grad(state, x, y)
    expected, theirs = jax.value_and_grad(lambda p: mean_square(apply(p, x), y))(params)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    close(gradients, theirs)
    assert pipeline.bubble() == pytest.approx(1 / (3 * 4 + 1))
    with pytest.raises(ValueError, match="in the same order in every round"):
        pw.pipeline(model, loss=mean_square, stages=[devices[0], devices[0], devices[1]], microbatches=4, schedule="interleaved")


OPTIMIZERS = {
    "sgd": lambda: optax.sgd(0.1, momentum=0.9),
    "adam": lambda: optax.adam(1e-2),
    "clip": lambda: optax.chain(optax.clip_by_global_norm(0.05), optax.adamw(1e-2)),
    "multisteps": lambda: optax.MultiSteps(optax.adam(1e-2), 2),
    "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=4),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_training_takes_the_same_steps(kind):
    optimizer = OPTIMIZERS[kind]()
    model, params, apply = layered()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:3], microbatches=2, optimizer=optimizer,
                           remat=kind == "adam")
    state = pipeline.init(params, *batch())
    opt_state = optimizer.init(params)
    for seed in range(4):
        x, y = batch(seed)
        state, loss = pipeline.step(state, x, y)
        expected, gradients = jax.value_and_grad(lambda p: mean_square(apply(p, x), y))(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
    close(state.params, params, rtol=1e-4, atol=1e-5)
    close(state.opt_state, opt_state, rtol=1e-3, atol=1e-5)


def test_parameters_and_what_the_optimizer_keeps_of_them_are_on_their_stage():
    model, params, _ = layered(8)
    x, y = batch()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:4], microbatches=4, optimizer=optax.adam(1e-3), split=[1, 2, 2, 3])
    state = pipeline.init(params, x, y)
    for _ in range(2):
        where = [[d.id for d in one["w"].devices()] for one in state.params]
        assert where == [[0], [1], [1], [2], [2], [3], [3], [3]]
        moments = state.opt_state[0]
        for tree in (moments.mu, moments.nu):
            assert jax.tree.map(lambda a: a.sharding, tree) == jax.tree.map(lambda a: a.sharding, state.params)
        state, _ = pipeline.step(state, x, y)
    assert [one["b"] for one in pipeline.stage_of(state)] == [0, 1, 1, 2, 2, 3, 3, 3]


def test_stages_of_several_devices_spread_examples_and_parameters():
    model, params, apply = layered(4)
    x, y = batch()
    stages = [Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model")), Mesh(np.array(jax.devices()[4:]).reshape(2, 2), ("data", "model"))]
    spec = lambda path, leaf: P(None, "model") if len(leaf.shape) == 2 else P()
    pipeline = pw.pipeline(model, loss=mean_square, stages=stages, microbatches=4, optimizer=optax.adam(1e-2), partition_spec=spec)
    state = pipeline.init(params, x, y)
    assert state.params[0]["w"].sharding.spec == P(None, "model") == state.opt_state[0].mu[0]["w"].sharding.spec
    assert {s.data.shape for s in state.params[3]["w"].addressable_shards} == {(WIDTH, WIDTH // 2)}
    expected, gradients = jax.value_and_grad(lambda p: mean_square(apply(p, x), y))(params)
    loss, ours = pipeline.value_and_grad(state, x, y)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    close(ours, gradients)
    after, _ = pipeline.step(state, x, y)
    assert jax.tree.map(lambda a: a.sharding, after.params) == jax.tree.map(lambda a: a.sharding, ours)


def test_cuts_by_name_are_where_the_modules_begin():
    model, params, _ = linen_model()
    x, y = batch()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:3], microbatches=2, split=["block_1", "head"])
    stages = pipeline.stage_of(pipeline.init(params, x, y))["params"]
    assert {name: set(jax.tree.leaves(own)) for name, own in stages.items()} == {
        "block_0": {0}, "block_1": {1}, "block_2": {1}, "block_3": {1}, "head": {2}}


def test_an_automatic_cut_of_equal_blocks_falls_between_them():
    model, params, _ = linen_model()
    x, y = batch()
    stages = (pipeline := pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2)).stage_of(
        pipeline.init(params, x, y))["params"]
    assert [set(jax.tree.leaves(stages[f"block_{i}"])) for i in range(4)] == [{0}, {0}, {1}, {1}]


def test_the_caller_s_parameters_outlive_a_step_and_the_state_does_not():
    model, params, _ = layered(2)
    x, y = batch()
    params = jax.device_put(params, jax.devices()[0])
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2, optimizer=optax.adam(1e-2))
    state = pipeline.init(params, x, y)
    pipeline.step(state, x, y)
    assert np.isfinite(np.asarray(params[0]["w"])).all()
    assert state.params[0]["w"].is_deleted()
    kept = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2, optimizer=optax.adam(1e-2), donate=False)
    state = kept.init(params, x, y)
    kept.step(state, x, y)
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))


def test_batches_of_other_sizes_have_the_same_stages():
    model, params, apply = linen_model()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2)
    state = pipeline.init(params, *batch())
    x, y = (part[:4] for part in batch())
    loss, _ = pipeline.value_and_grad(state, x, y)
    np.testing.assert_allclose(loss, mean_square(apply(params, x), y), rtol=1e-6)


def test_a_state_of_shapes_has_the_shardings_of_a_real_one():
    model, params, _ = layered(4)
    x, y = batch()
    pipeline = pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2, optimizer=optax.adam(1e-2))
    shape = lambda tree: jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)
    abstract, state = pipeline.init(shape(params), shape(x), shape(y)), pipeline.init(params, x, y)
    assert jax.tree.structure(abstract) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(abstract), jax.tree.leaves(state)):
        assert (a.shape, a.dtype, a.sharding) == (b.shape, b.dtype, b.sharding)


def make(**changes):
    model, params, _ = layered(3)
    pipeline = pw.pipeline(**{"model": model, "loss": mean_square, "stages": jax.devices()[:2], "microbatches": 4, "optimizer": optax.sgd(0.1),
                              **changes})
    return pipeline, pipeline.init(params, *batch())


def with_dropout():
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Sequential(nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1)))
    pw.pipeline(model, loss=mean_square, stages=jax.devices()[:2], microbatches=2).init(nnx.state(model, nnx.Param), *batch())


def on_other_devices():
    _, theirs = make(stages=jax.devices()[2:4])
    ours, _ = make()
    ours.step(theirs, *batch())


def batches_that_differ():
    pipeline, state = make()
    x, y = batch()
    pipeline.step(state, x, y[:8])


def not_a_state():
    pipeline, state = make()
    pipeline.step(state.params, *batch())


def printing():
    noisy = lambda p, x: (jax.debug.print("{}", x), dense(p, x))[1]
    make(model=[noisy] * 3)


ERRORS = {
    "microbatches do not divide the batch": (lambda: make(microbatches=5), ValueError, r"16 examples cannot be divided into 5 microbatches"),
    "no microbatches": (lambda: make(microbatches=0), ValueError, "at least 1, not 0"),
    "more stages than layers": (lambda: make(stages=jax.devices()[:4]), ValueError, "3 layers cannot fill 4 stages"),
    "no stages": (lambda: make(stages=[]), ValueError, "at least one stage"),
    "another schedule": (lambda: make(schedule="zigzag"), ValueError, "no schedule 'zigzag': there are gpipe, 1f1b"),
    "a split of another sum": (lambda: make(split=[1, 1]), ValueError, "split must have 2 numbers .* whose sum is 3"),
    "a split by a name that is not there": (lambda: make(split=["nowhere"]), ValueError, "no parameter .* in a module 'nowhere'"),
    "a stage that is no device": (lambda: make(stages=["a", "b"]), TypeError, "stage 0 must be a mesh, a slice, a device"),
    "a stage whose devices do not divide a microbatch": (lambda: make(stages=[jax.devices()[:3], jax.devices()[3:6]]), ValueError,
                                                         "4 examples cannot be divided among the 3 devices of stage 0"),
    "a state on other devices": (on_other_devices, ValueError, r"parameter \[0\]\['b'\] is on device 2, but belongs to stage 0 .* on device 0"),
    "x and y of different sizes": (batches_that_differ, ValueError, "x has 16, y has 8"),
    "parameters instead of a state": (not_a_state, TypeError, "must be a PipelineState, .* not a list"),
    "a model of nothing": (lambda: make(model=3), TypeError, "not int"),
    "a layer that is none": (lambda: make(model=[dense, 3, dense]), TypeError, "layer 1 must be a function"),
    "parameters for other layers": (lambda: make(model=[dense] * 4), ValueError, "parameters of 4 layers must be a list of that length"),
    "a loss for each example": (lambda: make(loss=lambda outputs, y: outputs[:, 0]), TypeError, r"must be one real number, not float32\[4\]"),
    "a loss of nothing": (lambda: make(loss=lambda outputs, y: jnp.float32(1)), ValueError, "does not depend on the batch"),
    "prints": (printing, NotImplementedError, "effects"),
    "no optimizer": (lambda: (lambda p, s: p.step(s, *batch()))(*make(optimizer=None)), ValueError, "no optimizer"),
    "dropout": (with_dropout, ValueError, "model.eval"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_what_is_refused(what):
    call, kind, text = ERRORS[what]
    with pytest.raises(kind, match=text):
        call()
