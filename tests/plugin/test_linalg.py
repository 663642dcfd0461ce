"""Tests all operations that jax.numpy.linalg and jax.scipy.linalg lower to on CPU, in four element types, batched.

Results are compared with jax's own backend. If a decomposition is only determined up to a phase, the product of its factors is compared
instead.
"""
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax.experimental import sparse
from jax.lax import linalg as lax_linalg

TYPES = [np.float32, np.float64, np.complex64, np.complex128]


def tolerance(dtype):
    return 2e-4 if np.dtype(dtype).char in "fF" else 1e-10


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def hermitian(shape, dtype):
    a = random(shape, dtype)
    return (a + a.conj().swapaxes(-1, -2)) / 2


def positive(shape, dtype):
    a = random(shape, dtype)
    n = shape[-1]
    return (a @ a.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def close(a, b, dtype):
    np.testing.assert_allclose(a, b, rtol=tolerance(dtype), atol=tolerance(dtype) * 10)


@pytest.fixture(params=TYPES, ids=lambda t: np.dtype(t).name)
def dtype(request):
    return request.param


@pytest.fixture
def same(both, dtype):
    return lambda f, *args: both(f, *args, rtol=tolerance(dtype), atol=tolerance(dtype) * 10)


def test_cholesky(same, dtype):
    a = positive((3, 6, 6), dtype)
    l = same(jnp.linalg.cholesky, a)
    close(l @ l.conj().swapaxes(-1, -2), a, dtype)
    same(lambda x: jnp.linalg.cholesky(x, upper=True), a)
    same(lambda x: jsl.cho_solve(jsl.cho_factor(x), x), a[0])


def test_cholesky_of_indefinite_is_nan(same, dtype):
    good, bad = positive((4, 4), dtype), -positive((4, 4), dtype)
    l = same(jnp.linalg.cholesky, np.stack([good, bad]))
    assert np.isfinite(l[0]).all() and np.isnan(l[1][0, 0])


def test_lu_and_what_uses_it(same, dtype):
    a = random((2, 5, 5), dtype)
    p, l, u = same(jsl.lu, a[0])
    close(p @ l @ u, a[0], dtype)
    same(lax_linalg.lu, random((2, 5, 3), dtype))
    same(jnp.linalg.det, a)
    same(jnp.linalg.slogdet, a)
    inverse = same(jnp.linalg.inv, a)
    close(inverse @ a, np.broadcast_to(np.eye(5), a.shape), dtype)
    same(jnp.linalg.solve, a, random((2, 5, 3), dtype, 1))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_qr(same, dtype, shape):
    a = random(shape, dtype)
    q, r = same(jnp.linalg.qr, a)
    close(q @ r, a, dtype)
    q, r = same(lambda x: jnp.linalg.qr(x, mode="complete"), a)
    close(q @ r, a, dtype)


def test_qr_with_pivoting(same, dtype):
    a = random((5, 4), dtype)
    q, r, p = same(lambda x: jsl.qr(x, pivoting=True, mode="economic"), a)
    close(q @ r, a[:, p], dtype)


@pytest.mark.skipif(not hasattr(lax_linalg, "ormqr"), reason="this jax has no ormqr")
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_multiply_by_q(same, dtype, left, transpose):
    a, c = random((2, 5, 3), dtype), random((2, 5, 5), dtype, 1)

    def f(a, c):
        h, taus = jnp.linalg.qr(a, mode="raw")
        return lax_linalg.ormqr(h.mT, taus, c, left=left, transpose=transpose)

    same(f, a, c)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 5, 5)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(same, dtype, shape, full):
    a = random(shape, dtype)
    u, s, vh = same(lambda x: jnp.linalg.svd(x, full_matrices=full), a)
    k = s.shape[-1]
    close((u[..., :, :k] * s[..., None, :]) @ vh[..., :k, :], a, dtype)
    same(lambda x: jnp.linalg.svd(x, compute_uv=False), a)


def test_svd_by_qr_iteration(same, dtype):
    a = random((2, 6, 4), dtype)
    f = lambda x: lax_linalg.svd(x, full_matrices=False, algorithm=lax_linalg.SvdAlgorithm.QR)
    u, s, vh = same(f, a)
    close((u * s[..., None, :]) @ vh, a, dtype)


def test_functions_of_the_svd(same, dtype):
    a = random((5, 3), dtype)
    same(jnp.linalg.pinv, a)
    same(jnp.linalg.matrix_rank, a)
    same(lambda x: jnp.linalg.norm(x, ord=2), a)
    same(jnp.linalg.cond, a)
    same(lambda x, y: jnp.linalg.lstsq(x, y)[0], a, random((5, 2), dtype, 1))


def test_eigh(same, dtype):
    a = hermitian((3, 5, 5), dtype)
    w, v = same(jnp.linalg.eigh, a)
    close(v * w[..., None, :] @ v.conj().swapaxes(-1, -2), a, dtype)
    same(jnp.linalg.eigvalsh, a)
    same(lambda x: jnp.linalg.eigh(x, UPLO="U")[0], a)


def test_eig(same, dtype):
    a = random((2, 5, 5), dtype)
    w, v = same(jnp.linalg.eig, a)
    close(a @ v, v * w[..., None, :], dtype)
    same(jnp.linalg.eigvals, a)
    same(lambda x: lax_linalg.eig(x, compute_left_eigenvectors=True, compute_right_eigenvectors=False), a)


def test_not_finite_is_nan_and_returns(both, dtype):
    a = np.full((4, 4), np.nan, dtype)
    for f in (jnp.linalg.eigvals, jnp.linalg.eigvalsh, lambda x: jnp.linalg.svd(x, compute_uv=False)):
        assert np.isnan(both(f, a)).all()


def test_schur(dtype):
    a = random((5, 5), dtype)
    for output in ("real", "complex"):
        with jax.default_device(jax.devices("pwcpu")[0]):
            t, z = map(np.asarray, jsl.schur(a, output=output))
        close(z @ t @ z.conj().T, a, dtype)
        close(z @ z.conj().T, np.eye(5), dtype)
        # Not unique: a pair of conjugate eigenvalues is a block of 2 x 2 on the diagonal of the real form, in either order.
        below = 1 if output == "real" and not np.iscomplexobj(t) else 0
        assert not np.tril(t, -1 - below).any()
        assert not (np.diag(t, -1)[:-1] * np.diag(t, -1)[1:]).any(), "blocks do not touch"
        close(np.poly(t), np.poly(a), dtype)  # the same eigenvalues
        close(np.tril(t, -2), np.zeros_like(t), dtype)


def test_hessenberg(same, dtype):
    a = random((2, 5, 5), dtype)
    h, q = same(lambda x: jsl.hessenberg(x, calc_q=True), a)
    close(q @ h @ q.conj().swapaxes(-1, -2), a, dtype)


@pytest.mark.parametrize("lower", [True, False])
def test_tridiagonalize(same, dtype, lower):
    same(lambda x: lax_linalg.tridiagonal(x, lower=lower), hermitian((2, 5, 5), dtype))


def test_tridiagonal_solve(same, dtype):
    dl, d, du = (random((2, 6), dtype, i) for i in range(3))
    dl[:, 0] = du[:, -1] = 0
    d = d + 4
    b = random((2, 6, 3), dtype, 3)
    x = same(lax_linalg.tridiagonal_solve, dl, d, du, b)
    matrix = np.stack([np.diag(d[i]) + np.diag(dl[i, 1:], -1) + np.diag(du[i, :-1], 1) for i in range(2)])
    close(matrix @ x, b, dtype)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", ["no", "transpose", "adjoint"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(same, dtype, left, lower, trans, unit):
    a, b = random((2, 4, 4), dtype) / 4 + 2 * np.eye(4, dtype=dtype), random((2, 4, 4), dtype, 1)
    same(lambda a, b: lax_linalg.triangular_solve(a, b, left_side=left, lower=lower, transpose_a=trans != "no",
                                                  conjugate_a=trans == "adjoint", unit_diagonal=unit), a, b)


def test_matrix_functions(same, dtype):
    a = random((4, 4), dtype) / 4
    same(jsl.expm, a)
    close(same(jsl.sqrtm, positive((4, 4), dtype)), same(jsl.sqrtm, positive((4, 4), dtype)), dtype)
    same(lambda x: jsl.polar(x)[0], a)
    same(lambda x: jnp.linalg.matrix_power(x, 3), a)
    same(lambda a, b: jsl.solve_sylvester(a, b, a), a, np.eye(4, dtype=dtype) + a)


def test_eigh_tridiagonal(both):
    d, e = random((8,), np.float64), random((7,), np.float64, 1)
    both(lambda d, e: jsl.eigh_tridiagonal(d, e, eigvals_only=True), d, e, rtol=1e-9)
    try:
        w, v = both(lambda d, e: jsl.eigh_tridiagonal(d, e), d, e, rtol=1e-6, atol=1e-9)
    except NotImplementedError:
        pytest.skip("this jax gives no eigenvectors of tridiagonal matrices")
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    np.testing.assert_allclose(matrix @ v, v * w, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_perturbed_tridiagonal_solve(both, dtype, seed):
    if "perturb_singular" not in lax_linalg.tridiagonal_solve.__kwdefaults__ if lax_linalg.tridiagonal_solve.__kwdefaults__ else True:
        pytest.skip("this jax does not perturb")
    n = 9
    dl, d, du = (random((2, n), dtype, 10 * seed + i) for i in range(3))
    dl[:, 0] = du[:, -1] = 0
    b = random((2, n, 2), dtype, seed)
    f = lambda dl, d, du, b: lax_linalg.tridiagonal_solve(dl, d, du, b, perturb_singular=True)
    both(f, dl, d, du, b, rtol=tolerance(dtype) * 10, atol=tolerance(dtype) * 10)
    # Singular: rows of zeros. Any finite answer will do.
    zeros = np.zeros_like(d)
    with jax.default_device(jax.devices("pwcpu")[0]):
        assert np.isfinite(np.asarray(f(zeros, zeros, zeros, b))).all()


def test_gradients(same, dtype):
    a = positive((4, 4), dtype)
    loss = lambda x: jnp.sum(jnp.abs(x) ** 2)
    same(jax.grad(lambda x: loss(jnp.linalg.cholesky(x))), a)
    same(jax.grad(lambda x: loss(jnp.linalg.inv(x))), a)
    same(jax.grad(lambda x: loss(jnp.linalg.qr(x)[1])), a)
    same(jax.grad(lambda x: loss(jnp.linalg.eigh(x)[0])), a)
    same(jax.grad(lambda x: loss(jnp.linalg.svd(x, compute_uv=False))), a)


def test_empty_and_tiny(same, dtype):
    for f in (jnp.linalg.cholesky, jnp.linalg.eigvalsh, lambda x: jnp.linalg.qr(x)[1], jnp.linalg.inv):
        same(f, positive((1, 1), dtype))
        same(f, np.zeros((0, 3, 3), dtype))


def test_batched_by_vmap_over_devices(devices, dtype):
    """Decompositions partition over the batch: each device factors its own matrices, concurrently."""
    sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("x",)), jax.sharding.PartitionSpec("x"))
    a = positive((64, 24, 24), dtype)
    f = jax.jit(lambda x: (jnp.linalg.cholesky(x), jnp.linalg.eigvalsh(x), jnp.linalg.inv(x)))
    for _ in range(5):
        l, w, inverse = f(jax.device_put(a, sharding))
        assert l.sharding.is_equivalent_to(sharding, 3)
        close(np.asarray(l) @ np.asarray(l).conj().swapaxes(-1, -2), a, dtype)
        close(np.asarray(inverse) @ a, np.broadcast_to(np.eye(24), a.shape), dtype)


@pytest.mark.parametrize("data", [np.int32, np.int64, *TYPES], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("index", [np.int32, np.int64], ids=lambda t: np.dtype(t).name)
def test_sparse_times_dense(devices, data, index):
    dense = np.where(np.random.default_rng(0).random((6, 5)) < 0.4, random((6, 5), np.float64) * 10, 0).astype(data)
    with jax.default_device(devices[0]):
        m = sparse.BCSR.fromdense(jnp.asarray(dense), index_dtype=index)
        for shape in ((5,), (5, 3)):
            x = (random(shape, np.float64, 1) * 10).astype(data)
            np.testing.assert_allclose(jax.jit(lambda m, x: m @ x)(m, x), dense @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64])
def test_large(same, dtype):
    """Matrices are larger than LAPACK's blocks, so workspace sizes matter."""
    a = random((200, 150), dtype)
    same(lambda x: jnp.linalg.svd(x, compute_uv=False), a)
    q, r = same(jnp.linalg.qr, a)
    close(q @ r, a, dtype)
    square = positive((200, 200), dtype)
    same(jnp.linalg.eigvalsh, square)
    same(jnp.linalg.inv, square)


ROUTINES = {
    "cholesky": jnp.linalg.cholesky,
    "eigh": lambda a: jnp.linalg.eigh(a).eigenvalues,
    "svd": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "qr": lambda a: jnp.abs(jnp.linalg.qr(a)[1]),
    "solve": lambda a: jnp.linalg.solve(a, a.sum(-1, keepdims=True)),
}


@pytest.mark.parametrize("how", ["split", "split by both", "uneven", "whole", "shard_map", "given"])
@pytest.mark.parametrize("name", ROUTINES)
def test_every_device_works_on_its_part_of_a_batch(devices, name, how):
    mesh = jax.sharding.Mesh(np.array(devices[:4]).reshape(2, 2), ("x", "y"))
    spec = jax.sharding.PartitionSpec({"split by both": ("x", "y"), "whole": None}.get(how, "x"))
    a = np.random.default_rng(0).standard_normal((7 if how == "uneven" else 8, 4, 4))
    a = a @ a.swapaxes(1, 2) + np.eye(4)
    routine, sharding = ROUTINES[name], jax.sharding.NamedSharding(mesh, spec)
    program = routine
    if how == "uneven":
        program = lambda v: routine(jax.lax.with_sharding_constraint(v, sharding))
    elif how == "shard_map":
        program = jax.shard_map(routine, mesh=mesh, in_specs=spec, out_specs=spec)
    argument = a if how == "uneven" else jax.device_put(a, sharding)
    given = {"in_shardings": sharding, "out_shardings": sharding} if how == "given" else {}  # nothing is left for the compiler to choose
    compiled = jax.jit(program, **given).lower(argument).compile()
    if how != "uneven":
        assert "all-gather" not in compiled.as_text()
    np.testing.assert_allclose(compiled(argument), routine(a), rtol=1e-9, atol=1e-12)
