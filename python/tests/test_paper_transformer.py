"""Tests the Transformers of bench/paper: a scan over layers computes the same as the list of layers, and their sizes are those of the paper."""

import dataclasses
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "paper"))
import _spmd  # noqa: E402
import _transformer as t  # noqa: E402

TINY = t.Config(16, 32, 2, 8, 3, length=8, vocabulary=11)


def test_layers_one_by_one_are_the_scan():
    params = jax.jit(lambda key: t.init(TINY, key))(jax.random.key(0))
    text = jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 9)))
    functions, shapes = t.layers(TINY)
    each = [params["first"], *(jax.tree.map(lambda v: v[i], params["decoders"]) for i in range(3)), params["last"]]
    assert [jax.tree.map(jnp.shape, own) for own in each] == shapes

    def one_by_one(each):
        x = text[:, :-1]
        for function, own in zip(functions, each):
            x = function(own, x)
        return t.cross_entropy(x, text[:, 1:])

    np.testing.assert_allclose(jax.jit(one_by_one)(each), jax.jit(lambda p: t.loss(TINY, p, {"text": text}))(params), rtol=1e-5)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_step_of_one_jit_is_that_of_the_layers(recompute):
    functions, shapes = t.layers(TINY)
    params = [t.make(key, own) for key, own in zip(jax.random.split(jax.random.key(3), len(shapes)), shapes)]
    x, y = (jnp.asarray(np.random.default_rng(seed).integers(0, 11, (2, 8))) for seed in (2, 3))
    optimizer, mesh = optax.adam(1e-2), jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))

    def loss(params):
        value = x
        for function, own in zip(functions, params):
            value = function(own, value)
        return t.cross_entropy(value, y)

    expected, gradients = jax.jit(jax.value_and_grad(loss))(params)
    updates, _ = optimizer.update(gradients, optimizer.init(params), params)
    wanted = optax.apply_updates(params, updates)
    shapes = _spmd.state(params, optimizer, mesh)
    state = jax.device_put((params, optimizer.init(params)), _spmd.places(shapes))
    (found, _), value = _spmd.step(functions, t.cross_entropy, optimizer, shapes, mesh, recompute)(state, x, y)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), found, wanted)
    heads, hidden = shapes[0][1]["self"]["q"].sharding.spec, shapes[1][0].mu[1]["down"].sharding.spec
    assert heads == jax.P(None, "model") and hidden == jax.P("model"), "the optimizer's state lies as its parameters do"


def test_a_word_does_not_depend_on_later_ones_and_does_on_the_encoder_s_input():
    c = dataclasses.replace(TINY, encoders=2)
    params = jax.jit(lambda key: t.init(c, key))(jax.random.key(1))
    text, other = (jnp.asarray(np.random.default_rng(seed).integers(0, 11, (1, 9))) for seed in (0, 1))
    loss = jax.jit(lambda p, batch: t.loss(c, p, batch))
    assert loss(params, {"text": text, "input": other[:, :-1]}) != loss(params, {"text": text, "input": text[:, :-1]})
    functions, _ = t.layers(TINY)
    block = jax.jit(lambda key: t.make(key, t.block_shapes(TINY)))(jax.random.key(2))
    decode = jax.jit(lambda x: functions[-1](params["last"], t.block(block, t.embed(params["first"], x))))
    outputs = [np.asarray(decode(x)) for x in (text[:, :-1], text[:, :-1].at[0, -1].add(1) % 11)]
    np.testing.assert_array_equal(outputs[0][:, :-1], outputs[1][:, :-1])
    assert (outputs[0][:, -1] != outputs[1][:, -1]).any()


@pytest.mark.parametrize("name, parameters", [("T5-Base", 0.27e9), ("T5-Large", 0.77e9), ("T5-3B", 3e9), ("T5-11B", 11e9), ("LM-3B", 3e9)])
def test_the_large_ones_have_the_paper_s_sizes(name, parameters):
    assert t.count(t.CONFIGS[name]) == pytest.approx(parameters, rel=0.12)


def test_count_counts_what_init_makes():
    for c in (TINY, dataclasses.replace(TINY, encoders=2)):
        made = jax.eval_shape(lambda key, c=c: t.init(c, key), jax.random.key(0))
        assert t.count(c) == sum(leaf.size for leaf in jax.tree.leaves(made))
        assert jax.tree.structure(t.specs(made), is_leaf=lambda s: isinstance(s, jax.sharding.PartitionSpec)) == jax.tree.structure(made)
