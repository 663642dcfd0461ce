"""Gradients of choices (`pw.cond`, `pw.switch`) and of routes without a capacity (`through`) in programs, which are choices too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw
from conftest import assert_same
from test_program_tracer import on

X = np.arange(8, dtype=np.float32) / 4
RNG = np.random.default_rng(11)


def place(function, device):
    return jax.jit(function, in_shardings=on(device), out_shardings=on(device))


PLAIN = [lambda w, x: jnp.tanh(w * x), lambda w, x: w * w * x + jnp.roll(x, 1), lambda w, x: x.sum() * w + x]


def losses(functions):
    """Returns a loss whose branches use a parameter of the surrounding function, and choose in turn."""
    f, g, h = functions

    def loss(w, x, which):
        inner = lambda v: pw.cond(v.sum() > 4, lambda v: g(w, f(w, v)), lambda v: h(w, v), v)
        y = pw.switch(which, [lambda v: f(w, v), inner, lambda v: v], x)
        return (y ** 2).sum() + (x * w).sum()

    return loss


@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradients_of_choices(cpu, devices, which):
    ours = losses([place(f, d) for f, d in zip(PLAIN, (devices[1], devices[5], devices[6]))])
    plain = losses(PLAIN)
    for scale in (0.5, 2.0):
        w, x, i = np.float32(0.7) * np.ones(8, np.float32), X * np.float32(scale), np.int32(which)
        with jax.default_device(cpu):
            theirs = jax.jit(jax.value_and_grad(plain, argnums=(0, 1)))(w, x, i)
        assert_same(pw.program(jax.value_and_grad(ours, argnums=(0, 1)))(w, x, i), theirs, rtol=1e-5)


def test_gradients_of_gradients_and_derivatives_forward(cpu, devices):
    twice = lambda loss: lambda w, x, i: jax.grad(lambda w: (jax.grad(loss)(w, x, i) ** 2).sum())(w)
    forward = lambda loss: lambda w, x, i: jax.jvp(lambda w: loss(w, x, i), (w,), (jnp.ones_like(w),))[1]
    ours, w = losses([place(f, d) for f, d in zip(PLAIN, (devices[1], devices[5], devices[6]))]), np.full(8, 0.3, np.float32)
    for derivative in (twice, forward):
        for which in (0, 1):
            with jax.default_device(cpu):
                theirs = jax.jit(derivative(losses(PLAIN)))(w, X, np.int32(which))
            assert_same(pw.program(derivative(ours))(w, X, np.int32(which)), theirs, rtol=1e-4, atol=1e-5)


def test_a_choice_of_integers_beside_it_has_no_gradient(devices):
    add = place(lambda n, x: (n + 1, x * 3), devices[5])
    loss = lambda x, i: (lambda n, y: (y * n).sum())(*pw.switch(i, [lambda x: add(jnp.int32(1), x), lambda x: (jnp.int32(5), x)], x))
    for i, expected in ((0, 6), (1, 5)):
        np.testing.assert_allclose(np.asarray(pw.program(jax.grad(loss))(X, np.int32(i))), np.full(8, expected))


def test_effects_in_branches_refuse_gradients(devices):
    loss = lambda x: pw.cond(x[0] > 0, lambda v: (jax.debug.print("{}", v[0]), v)[1], lambda v: v * 2, x).sum()
    with pytest.raises(NotImplementedError, match="have effects"):
        pw.program(jax.grad(loss))(X)


def rows_of(devices):
    return NamedSharding(Mesh(np.array(devices), ("rows",)), P("rows"))


@pytest.mark.parametrize("most", [0, 5, 9, 24])
def test_gradients_through_routes_are_those_of_the_dense_one_hot_form(islands, cpu, most):
    """The experts' parameters are captured by the function; the capacity is 8, 16 or 32, by the number of rows of the first expert."""
    experts, rows = [islands[1][0], islands[0][3], islands[1][2]], 24
    where = np.array([0] * most + list(RNG.integers(-1, 3, rows - most)), np.int32)
    x, weights = RNG.normal(size=(rows, 4)).astype(np.float32), [RNG.normal(size=(4, 4)).astype(np.float32) for _ in experts]
    apply = [jax.jit(lambda w, x: jnp.tanh(x @ w), in_shardings=SingleDeviceSharding(one), out_shardings=SingleDeviceSharding(one)) for one in experts]
    loss_of = jax.jit(lambda x, y: ((x + y) ** 2).sum())

    def loss(x, weights, where):
        forward = lambda found: tuple(f(w, r) for f, w, r in zip(apply, weights, found))
        return loss_of(x, pw.route(x, where, experts, smallest=8).through(forward))

    def dense(x, weights):
        chosen = jax.nn.one_hot(where, 3)
        return ((x + jnp.einsum("te,etd->td", chosen, jnp.stack([jnp.tanh(x @ w) for w in weights]))) ** 2).sum()

    with jax.default_device(cpu):
        theirs = jax.jit(jax.value_and_grad(dense, argnums=(0, 1)))(x, weights)
    step = pw.program(jax.value_and_grad(loss, argnums=(0, 1)))
    placed = jax.device_put(x, rows_of(islands[0])), weights, jax.device_put(where, rows_of(islands[0]))
    ours, text = step(*placed), step.lower(*placed).as_text()
    assert "capacity_8" in text and "gradient of capacity_32" in text, text
    assert_same(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours[1][1][2].sharding.device_set == {islands[1][2]}, "gradients of an expert are where it is"
