"""Compares results with jax in process: random numbers, linear algebra, special functions."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

RANDOM = np.random.default_rng(0)
A = RANDOM.normal(size=(6, 6)).astype(np.float32)
SPD = (A @ A.T + 6 * np.eye(6)).astype(np.float32)
B = RANDOM.normal(size=(6, 3)).astype(np.float32)


@pytest.mark.parametrize("draw", [
    lambda k: jax.random.normal(k, (5, 3)), lambda k: jax.random.uniform(k, (7,)), lambda k: jax.random.randint(k, (9,), 0, 100),
    lambda k: jax.random.permutation(k, 20), lambda k: jax.random.bernoulli(k, 0.3, (11,)), lambda k: jax.random.categorical(k, jnp.zeros((4, 5))),
    lambda k: jax.random.gamma(k, 2.0, (3,)), lambda k: jax.random.truncated_normal(k, -1, 1, (4,)), lambda k: jax.random.bits(k, (4,))],
    ids=["normal", "uniform", "randint", "permutation", "bernoulli", "categorical", "gamma", "truncated", "bits"])
def test_random_numbers_are_the_same_numbers(same, draw):
    same(lambda seed: draw(jax.random.key(seed)), np.int32(42), rtol=1e-6, atol=1e-6)


def test_other_generators(same):
    same(lambda: jax.random.normal(jax.random.key(1, impl="rbg"), (4,)), rtol=1e-6, atol=1e-6)


LINALG = {
    "cholesky": lambda: jnp.linalg.cholesky(SPD), "solve": lambda: jnp.linalg.solve(A, B), "inv": lambda: jnp.linalg.inv(A),
    "det": lambda: jnp.linalg.det(A), "slogdet": lambda: jnp.linalg.slogdet(A), "lu": lambda: jsp.linalg.lu(A),
    "triangular": lambda: jsp.linalg.solve_triangular(jnp.tril(SPD), B, lower=True), "expm": lambda: jsp.linalg.expm(A / 10),
    "lstsq": lambda: jnp.linalg.lstsq(A, B)[0], "cho_solve": lambda: jsp.linalg.cho_solve(jsp.linalg.cho_factor(SPD), B),
    "eigvalsh": lambda: jnp.linalg.eigvalsh(SPD), "svdvals": lambda: jnp.linalg.svd(A, compute_uv=False), "pinv": lambda: jnp.linalg.pinv(A),
    "matrix_rank": lambda: jnp.linalg.matrix_rank(SPD), "norm": lambda: jnp.linalg.norm(A, 2), "cond": lambda: jnp.linalg.cond(SPD),
}


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(same, name):
    same(lambda: LINALG[name](), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name, rebuild", [
    ("qr", lambda a: (lambda q, r: q @ r)(*jnp.linalg.qr(a))), ("svd", lambda a: (lambda u, s, v: (u * s) @ v)(*jnp.linalg.svd(a))),
    ("eigh", lambda a: (lambda w, v: (v * w) @ v.T)(*jnp.linalg.eigh(a + a.T)) - a.T),
    ("eig", lambda a: (lambda w, v: ((v * w) @ jnp.linalg.inv(v)).real)(*jnp.linalg.eig(a))),
    ("schur", lambda a: (lambda t, z: z @ t @ z.T)(*jsp.linalg.schur(a))), ("hessenberg", lambda a: (lambda h, q: q @ h @ q.T)(*jsp.linalg.hessenberg(a, calc_q=True)))])
def test_factors_multiply_to_the_matrix(name, rebuild):
    np.testing.assert_allclose(np.asarray(jax.jit(rebuild)(A)), A, atol=2e-4)


def test_gradients_through_factorizations(same):
    same(jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), SPD, rtol=1e-3, atol=1e-4)
    same(jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), SPD, rtol=1e-3, atol=1e-4)


def test_batched_linear_algebra(same):
    same(jnp.linalg.cholesky, np.stack([SPD, SPD * 2]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [jsp.special.gammaln, jsp.special.erf, jsp.special.digamma, jsp.special.logsumexp, jnp.arctanh, jnp.cbrt, jnp.log1p,
                                      jax.nn.gelu, jax.nn.sigmoid, jnp.fft.rfft, jnp.fft.fft2], ids=lambda f: f.__name__)
def test_functions_of_one_array(same, function):
    same(function, np.abs(A) / 8 + 0.05, rtol=2e-5, atol=2e-6)


def test_double_precision(same):
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        same(lambda a: jnp.linalg.inv(a) @ a, SPD.astype(np.float64), rtol=1e-9, atol=1e-12)


def test_a_recurrent_network_and_an_optimizer_step(same):
    def step(params, xs):
        def loss(p):
            h, _ = jax.lax.scan(lambda h, x: (jnp.tanh(h @ p["w"] + x @ p["u"]), None), jnp.zeros(4), xs)
            return jnp.sum(h ** 2)
        value, grads = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    params = {"w": A[:4, :4] / 4, "u": B[:3, :1] * np.ones((3, 4), np.float32)}
    same(step, params, A[:, :3], rtol=1e-4, atol=1e-5)
