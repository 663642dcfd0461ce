"""pw.route outside of programs, on jax's own cpu: values by their definition, gradients by those of the one-hot form, and batches."""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import pathways as pw
from pathways._jax import public

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from route_reference import reference  # noqa: E402

DEVICE = jax.devices("cpu")[0]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rows_by_their_definition(compiled, seed):
    rng = np.random.default_rng(seed)
    rows, experts, capacity = int(rng.integers(0, 30)), int(rng.integers(1, 7)), int(rng.integers(0, 9))
    x, where = rng.normal(size=(rows, 3)).astype(np.float32), rng.integers(-1, experts, rows).astype(np.int32)

    def function(x, where):
        found = pw.route(x, where, DEVICE, capacity=capacity, per_shard=experts)
        return found.rows, found.slots, found.count, found.back(found.rows)

    for ours, theirs in zip((jax.jit(function) if compiled else function)(x, where), reference(x, where, experts, capacity)):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_groups_are_parts_of_the_same_experts():
    rng = np.random.default_rng(3)
    x, where = rng.normal(size=(20, 2)).astype(np.float32), rng.integers(-1, 4, 20).astype(np.int32)
    one, two = (pw.route(x, where, experts, capacity=3, per_shard=each) for experts, each in ((DEVICE, 4), ([DEVICE, DEVICE], 2)))
    for name in ("rows", "slots", "count", "dropped"):
        np.testing.assert_array_equal(np.asarray(getattr(one, name)), np.concatenate(getattr(two, name)))
    np.testing.assert_array_equal(one.back(one.rows), two.back(two.rows))


@pytest.mark.parametrize("compiled", [False, True])
def test_without_a_capacity_no_row_is_dropped(compiled):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(16, 2)).astype(np.float32)
    function = lambda x, where: pw.route(x, where, [DEVICE, DEVICE], smallest=4).through(lambda rows: [rows[0] * 2, rows[1] * 3])
    function = jax.jit(function) if compiled else function
    for most in (0, 3, 4, 5, 16):
        where = np.array([0] * most + [-1] * (16 - most), np.int32)
        where[most:most + 2] = 1
        np.testing.assert_array_equal(np.asarray(function(x, where)), x * np.array([2, 3, 0], np.float32)[where][:, None])


def test_compiled_functions_take_unknown_experts_as_none():
    x, where = np.ones((4, 1), np.float32), np.array([5, -7, 0, 2], np.int32)
    found = jax.jit(lambda x, where: pw.route(x, where, DEVICE, capacity=4, per_shard=2))(x, where)
    np.testing.assert_array_equal(found.count, [1, 0])
    np.testing.assert_array_equal(np.asarray(found.slots), [[2, -1, -1, -1], [-1] * 4])


def test_gradients_are_those_of_the_one_hot_form():
    rng = np.random.default_rng(4)
    x, where, scale = rng.normal(size=(20, 3)).astype(np.float32), rng.integers(-1, 4, 20).astype(np.int32), rng.normal(size=(4, 1, 1)).astype(np.float32)

    def ours(x, scale):
        found = pw.route(x, where, [DEVICE, DEVICE], capacity=3, per_shard=2)
        return jnp.sum(found.back(tuple(jnp.tanh(rows) * part for rows, part in zip(found.rows, jnp.split(scale, 2)))) ** 2)

    chosen = jax.nn.one_hot(where, 4)
    place = jnp.cumsum(chosen, axis=0) - 1
    to = chosen[:, :, None] * jax.nn.one_hot(place.astype(jnp.int32), 3)

    def theirs(x, scale):
        return jnp.sum(jnp.einsum("tec,ecd->td", to, jnp.tanh(jnp.einsum("tec,td->ecd", to, x)) * scale) ** 2)

    for differentiate in (lambda f: jax.grad(f, argnums=(0, 1)), lambda f: jax.jit(jax.grad(f, argnums=(0, 1))), lambda f: jax.grad(lambda x, s: sum(
            jnp.sum(g ** 2) for g in jax.grad(f, argnums=(0, 1))(x, s)), argnums=(0, 1))):
        for mine, expected in zip(differentiate(ours)(x, scale), differentiate(theirs)(x, scale)):
            np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-4)
    tangents = (np.ones_like(x), np.ones_like(scale))
    np.testing.assert_allclose(jax.jvp(ours, (x, scale), tangents)[1], jax.jvp(theirs, (x, scale), tangents)[1], rtol=1e-4)


def test_where_has_no_gradient_and_unused_rows_have_none():
    x, where = np.ones((4, 1), np.float32), np.array([0, 1, 0, 1], np.int32)
    count = jax.grad(lambda x: pw.route(x, where, DEVICE, capacity=4, per_shard=2).count.astype(jnp.float32).sum())(x)
    np.testing.assert_array_equal(count, np.zeros_like(x))
    first = jax.grad(lambda x: pw.route(x, where, [DEVICE, DEVICE], capacity=4).rows[0].sum())(x)
    np.testing.assert_array_equal(first, [[1], [0], [1], [0]])


def test_batches():
    rng = np.random.default_rng(5)
    x, where = rng.normal(size=(3, 8, 2)).astype(np.float32), rng.integers(-1, 2, (3, 8)).astype(np.int32)

    def function(x, where):
        found = pw.route(x, where, DEVICE, capacity=3, per_shard=2)
        return found.rows, found.back(found.rows * 2)

    for i in range(3):
        for ours, alone in zip(jax.vmap(function)(x, where), function(x[i], where[i])):
            np.testing.assert_array_equal(ours[i], alone)
    for ours, alone in zip(jax.vmap(function, in_axes=(None, 0))(x[0], where), function(x[0], where[1])):
        np.testing.assert_array_equal(ours[1], alone)


def test_a_sharding_says_how_it_cuts_rows():
    mesh = Mesh(np.array([DEVICE]), ("a",))
    assert public.by_rows(NamedSharding(mesh, P("a")), 2, 1) == NamedSharding(mesh, P("a"))  # one device holds it whatever it says
    found = pw.route(np.ones((2, 1), np.float32), np.zeros(2, np.int32), mesh, capacity=2)
    assert found.rows.sharding == NamedSharding(mesh, P("a")) and found.rows.shape == (1, 2, 1)
