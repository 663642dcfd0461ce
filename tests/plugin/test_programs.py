"""Runs ordinary programs: their results equal those of jax's own backend."""
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

RNG = np.random.default_rng(0)
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SMALL_FLOATS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e4m3fnuz",
                "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"]
INTEGERS = ["int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
OTHERS = ["bool", "complex64", "complex128"]


def values(dtype, shape=(7,)):
    x = RNG.standard_normal(shape) * 2
    if dtype == "bool":
        return x > 0
    if dtype.startswith("complex"):
        return (x + 1j * RNG.standard_normal(shape)).astype(dtype)
    if "int" in dtype:
        return (np.abs(x) if dtype.startswith("u") else x).astype(np.int8).clip(-1, 1).astype(jnp.dtype(dtype))
    return (np.abs(x) + 0.5 if dtype == "float8_e8m0fnu" else x).astype(jnp.dtype(dtype))


def test_the_backend_is_the_plugin(devices):
    assert jax.default_backend() == "cpu" and len(devices) == 8
    assert "programs of revision" in devices[0].client.platform_version  # jax's own cpu backend has none of these
    assert "programs of revision" not in jax.devices("cpu")[0].client.platform_version
    assert [d.id for d in devices] == list(range(8))
    assert {m.kind for m in devices[0].addressable_memories()} == {"device", "pinned_host", "unpinned_host"}
    assert devices[0].default_memory().kind == "device"


@pytest.mark.parametrize("dtype", FLOATS + SMALL_FLOATS + INTEGERS + OTHERS)
def test_transfers_of_every_type(devices, dtype):
    for shape in ((), (1,), (7,), (3, 5), (0, 4)):
        x = values(dtype, shape)
        y = jax.device_put(x, devices[0])
        assert y.dtype == jnp.dtype(dtype)
        np.testing.assert_array_equal(np.asarray(y), x)
        np.testing.assert_array_equal(np.asarray(jax.device_put(y, devices[1])), x)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + ["complex64", "complex128"])
def test_arithmetic(both, dtype):
    a, b = values(dtype, (4, 6)), values(dtype, (4, 6))
    both(lambda a, b: (a + b, a * b, a - b, a == b), a, b, rtol=1e-3 if dtype in ("float16", "bfloat16") else 1e-6)


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_small_floats(both, dtype):
    if dtype not in ("float8_e8m0fnu", "float4_e2m1fn"):
        both(lambda a: (a + a, a.astype(jnp.float32) * 2), values(dtype, (4, 6)))
    both(lambda a: a.astype(jnp.float32), values(dtype, (4, 6)))
    both(lambda a: a.astype(jnp.dtype(dtype)), np.abs(values("float32", (9,))) + 0.5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "int8", "int32", "complex64"])
def test_matmul(both, dtype):
    a, b = values(dtype, (33, 17)), values(dtype, (17, 9))
    both(lambda a, b: a @ b, a, b, rtol=2e-2 if dtype in ("bfloat16", "float16") else 1e-4, atol=1e-4)


def test_int4_matmul_of_packed_weights(both):
    a, b = values("float32", (8, 16)), values("int4", (16, 4))
    both(lambda a, b: a @ b.astype(jnp.float32), a, b, rtol=1e-5, atol=1e-5)


def test_elementwise_functions(both):
    x = np.abs(values("float32", (64,))) / 4 + 0.01
    for f in (jnp.sin, jnp.cos, jnp.tan, jnp.exp, jnp.log, jnp.tanh, jnp.sqrt, lax.rsqrt, jnp.arctan, jnp.log1p, jnp.expm1,
              jax.scipy.special.erf, jax.scipy.special.gammaln, jax.scipy.special.digamma, lax.erf_inv,
              jax.scipy.special.i0e, jnp.sinc, jax.nn.gelu, jax.nn.softmax, jax.nn.silu):
        both(f, x, rtol=2e-5, atol=1e-6)


def test_gradients(both):
    def loss(w, x):
        h = jnp.tanh(x @ w["a"])
        return jnp.mean((h @ w["b"]) ** 2)

    w = {"a": values("float32", (8, 16)), "b": values("float32", (16, 1))}
    both(jax.value_and_grad(loss), w, values("float32", (4, 8)), rtol=1e-4, atol=3e-5)
    both(jax.hessian(lambda x: jnp.sum(jnp.sin(x) ** 3)), values("float32", (5,)), rtol=1e-4, atol=1e-5)
    both(lambda x: jax.jvp(jnp.cumsum, (x,), (x,)), values("float32", (5,)), rtol=1e-5)


def test_convolution_pooling_and_gradient(both):
    x, k = values("float32", (2, 8, 8, 3)), values("float32", (3, 3, 3, 4))
    conv = lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    both(conv, x, k, rtol=1e-4, atol=1e-4)
    both(jax.grad(lambda k, x: jnp.sum(conv(x, k) ** 2)), k, x, rtol=1e-3, atol=1e-3)
    both(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), x)
    both(jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"))), x)


def test_control_flow(both):
    x = values("float32", (6,))
    both(lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.float32(0), x), x, rtol=1e-5)
    both(lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.5), (0, x)), x, rtol=1e-5)
    both(lambda x: lax.fori_loop(0, 10, lambda i, c: c + i, x), x, rtol=1e-5)
    both(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), x, rtol=1e-5)
    both(lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.exp], x), x, rtol=1e-5)
    both(lambda x: lax.associative_scan(jnp.add, x), x, rtol=1e-5)
    both(lambda x: lax.map(lambda v: v * 2, x), x)


def test_indexing_sorting_searching(both):
    x = values("float32", (5, 7))
    both(lambda x: jnp.sort(x, axis=1), x)
    both(lambda x: jnp.argsort(x, axis=0), x)
    both(lambda x: lax.sort((x, x * 2), num_keys=1), x)
    both(lambda x: lax.top_k(x, 3), x)
    both(lambda x: lax.approx_max_k(x, 2), x)
    both(lambda x: (jnp.argmax(x, 1), jnp.unique(x, size=10), jnp.median(x, 1), jnp.quantile(x, 0.3)), x, rtol=1e-5)
    both(lambda x: x.at[jnp.array([0, 2]), 1].add(5.0).at[3].set(0), x)
    both(lambda x: x[jnp.array([4, 0, 1])][:, ::-2], x)
    both(lambda x: lax.dynamic_update_slice(x, x[:2, :2], (2, 3)), x)
    both(lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]), x)
    both(lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 0, 2, 1]), 3), x, rtol=1e-5)
    both(lambda x: jnp.einsum("ij,kj->ik", x, x), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_random_numbers(both, impl):
    key = lambda: jax.random.key(7, impl=impl)
    both(lambda: jax.random.bits(key(), (16,)))
    both(lambda: jax.random.uniform(key(), (16,)))
    both(lambda: jax.random.normal(key(), (16,)), rtol=1e-4, atol=1e-5)
    both(lambda: jax.random.permutation(key(), 16))
    both(lambda: jax.random.gamma(key(), 2.0, (8,)), rtol=1e-4)
    both(lambda: jax.random.categorical(key(), jnp.zeros((4, 5))))
    both(lambda: jax.random.key_data(jax.random.split(key(), 3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fft(both, dtype):
    x = values(dtype, (3, 16))
    tol = dict(rtol=1e-4, atol=1e-4)
    both(jnp.fft.fft, x, **tol)
    both(jnp.fft.rfft, x, **tol)
    both(lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), x, **tol)
    both(lambda x: jnp.fft.ifft2(jnp.fft.fft2(x)), x, **tol)
    both(lambda x: jnp.fft.fftn(x.reshape(3, 4, 4)), x, **tol)
    both(jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 2)), x, **tol)
    both(jnp.fft.fft, values(dtype, (2, 15)), **tol)


def test_strided_and_transposed_host_arrays(devices):
    x = np.arange(60.0).reshape(3, 4, 5)
    for view in (x.T, x[:, ::2, ::-1], np.asfortranarray(x), x[1:2], np.broadcast_to(x[0], (6, 4, 5)), x[..., 2]):
        np.testing.assert_array_equal(np.asarray(jax.device_put(view, devices[0])), view)


def test_numpy_views_and_dlpack(devices):
    x = jnp.arange(12.0).reshape(3, 4)
    view = np.asarray(x)
    assert not view.flags.writeable and view.ctypes.data == x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.from_dlpack(x), view)
    np.testing.assert_array_equal(jax.dlpack.from_dlpack(np.arange(5.0)), np.arange(5.0))


def test_layouts(devices):
    from jax.experimental.layout import Format, Layout

    sharding = jax.sharding.SingleDeviceSharding(devices[0])
    x = np.arange(12.0).reshape(3, 4)
    y = jax.device_put(x, Format(Layout((1, 0)), sharding))
    assert y.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(np.asarray(y), x)
    np.testing.assert_array_equal(np.asarray(y + 1), x + 1)
    out = jax.jit(lambda v: v * 2, out_shardings=Format(Layout((1, 0)), sharding))(x)
    assert out.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(np.asarray(out), x * 2)
    auto = jax.jit(lambda v: v.T, in_shardings=Format(Layout.AUTO), out_shardings=Format(Layout.AUTO)).lower(x).compile()
    assert len(auto.input_formats[0]) == 1
    np.testing.assert_array_equal(np.asarray(auto(jax.device_put(x, auto.input_formats[0][0]))), x.T)


def test_many_arguments_and_results(both):
    xs = [values("float32", (3,)) for _ in range(200)]
    both(lambda *xs: [x + i for i, x in enumerate(xs)], *xs)


def test_custom_derivatives_and_vmap(both):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * jnp.cos(x) * 2,))
    both(jax.vmap(jax.grad(f)), values("float32", (5,)), rtol=1e-5)


def test_programs_queue_behind_the_long_ones_that_they_read_from(devices):
    """plugins/pjrt_cpu/c_api_test.cc tests that a call returns before its program has run."""

    @jax.jit
    def slow(x):
        return lax.fori_loop(0, 60, lambda _, c: c @ c / jnp.linalg.norm(c), x)

    start = np.eye(300, dtype=np.float32) + 0.1
    one_by_one = queued = jax.device_put(start, devices[0])
    for _ in range(3):
        one_by_one = jax.block_until_ready(slow(one_by_one))
    for _ in range(3):
        queued = slow(queued)
    np.testing.assert_array_equal(np.asarray(queued), np.asarray(one_by_one))


def test_threads_share_a_device(devices):
    import concurrent.futures

    f = jax.jit(lambda x: x * 2 + 1)

    def work(i):
        x = jax.device_put(np.full(100, float(i)), devices[i % 8])
        for _ in range(50):
            x = f(x)
        return float(x[0])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(work, range(32)))
    np.testing.assert_allclose(got, [(i + 1) * 2.0**50 - 1 for i in range(32)])
