"""Tests compiled programs of jit, grad, vmap and control flow, donation, and errors."""

import gc
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import eventually
from pathways._client import connection
from pathways._cluster import admin

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
Y = np.linspace(1, 2, 12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("function", [
    lambda x, y: x @ y,
    lambda x, y: {"sum": x.sum(), "parts": [x * 2, (y.T, x + y.T)]},
    lambda x, y: jax.nn.softmax(x) @ jnp.tanh(y),
    lambda x, y: jnp.sort(x.ravel())[::-1],
    lambda x, y: jnp.fft.fft(x).real,
    lambda x, y: jnp.einsum("ij,jk->ik", x, y) > 0,
    lambda x, y: jax.lax.cumsum(x, axis=1),
    lambda x, y: jax.lax.conv_general_dilated(x[None, None], y[None, None], (1, 1), "SAME"),
    lambda x, y: jnp.argmax(x, axis=0),
    lambda x, y: (),
], ids=["matmul", "tree", "softmax", "sort", "fft", "einsum", "cumsum", "conv", "argmax", "nothing"])
def test_functions(same, function):
    same(function, X, Y, rtol=1e-5, atol=1e-6)


def test_gradients(same):
    loss = lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)
    same(jax.grad(loss, argnums=(0, 1)), Y, X, rtol=1e-5, atol=1e-6)
    same(jax.hessian(lambda v: jnp.sum(v ** 3)), X[0], rtol=1e-5)
    same(jax.jacfwd(lambda v: jnp.sin(v) * v[0]), X[0], rtol=1e-5, atol=1e-6)


def test_vmap(same):
    same(jax.vmap(lambda row: jnp.outer(row, row)), X)
    same(jax.vmap(jax.grad(lambda v: jnp.prod(v))), X, rtol=1e-5, atol=1e-6)


def test_control_flow(same):
    same(lambda x: jax.lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(4), x), X)
    same(lambda x: jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, x)), X)
    same(lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), X)
    same(lambda x: jax.lax.fori_loop(0, 10, lambda i, a: a + i * x, x), X, rtol=1e-5)
    same(lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(2), X)
    same(lambda x: jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x), X)


def test_eager_operations(same):
    same(lambda x: (x + 1).sum() * x[0, 0], X, jit=False)


def test_a_loop_of_small_steps():
    step = jax.jit(lambda x: x + 1)
    x = jnp.zeros(())
    for _ in range(500):
        x = step(x)
    assert float(x) == 500


def test_many_arguments_and_results():
    add = jax.jit(lambda xs: [x + 1 for x in xs])
    xs = [np.float32(i) for i in range(200)]
    for _ in range(3):
        xs = add(xs)
    assert [float(x) for x in xs] == [i + 3 for i in range(200)]


def test_ahead_of_time_compilation_and_its_answers():
    compiled = jax.jit(lambda x: x @ x.T).lower(X).compile()
    np.testing.assert_allclose(compiled(X), X @ X.T, rtol=1e-5, atol=1e-6)
    assert compiled.as_text()
    cost = compiled.cost_analysis()
    assert (cost[0] if isinstance(cost, list) else cost)["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == X.nbytes


def test_donation_reuses_the_buffer_and_deletes_the_input():
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.arange(1000.0)
    y = f(x)
    assert x.is_deleted()
    y = f(f(y))
    assert float(y[0]) == 3
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        f(x)


def test_a_donated_array_that_cannot_be_used_is_left_alone():
    f = jax.jit(lambda x: x.sum(), donate_argnums=0)
    x = jnp.arange(10.0)
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        assert float(f(x)) == 45


def test_a_failing_program_raises_where_it_is_read_and_nothing_else_is_lost():
    def fails(x):
        raise ValueError("deliberate failure 4711")

    good = jnp.arange(4.0) * 2
    bad = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), np.float32), x) + 1)(jnp.float32(1))
    worse = bad * 2
    with pytest.raises(Exception, match="deliberate failure 4711"):
        np.asarray(worse)
    with pytest.raises(Exception, match="deliberate failure 4711"):
        bad.block_until_ready()
    np.testing.assert_array_equal(good + 1, np.arange(4.0) * 2 + 1)


def test_debug_nans_and_checkify_find_their_errors():
    from jax.experimental import checkify

    checked = checkify.checkify(jax.jit(lambda x: jnp.log(x)), errors=checkify.float_checks)
    error, _ = checked(np.float32(-1))
    assert "nan" in error.get()
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.log(jnp.float32(-1)).block_until_ready()


def test_clear_caches_and_run_again(same):
    same(lambda x: x * 3, X)
    jax.clear_caches()
    same(lambda x: x * 3, X)


def test_constants_inside_programs(same):
    table = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    same(lambda x: x @ table[:4, :3] + table[:3, :3], X, rtol=1e-5, atol=1e-6)


def test_programs_are_freed(devices):
    executables = lambda: sum(client["executables"] for client in admin.status(connection._get_endpoint().controller)["clients"])
    programs = [jax.jit(lambda x, i=i: x + i) for i in range(20)]
    results = [program(np.float32(1)) for program in programs]
    assert [float(result) for result in results] == [1.0 + i for i in range(20)]
    with_them = executables()
    assert with_them >= 20
    del programs
    gc.collect()
    assert eventually(lambda: executables() <= with_them - 20), f"{executables()} of {with_them} are left"
    assert float(results[-1] + 1) == 21, "arrays live on without the program that made them"


def test_threads_share_the_client():
    step, failures = jax.jit(lambda x, i: x * 2 + i), []

    def work(seed):
        try:
            x = np.float32(seed)
            y = jnp.float32(seed)
            for i in range(40):
                x, y = np.float32(x * 0.5 + i), y * 0.5 + i
            np.testing.assert_allclose(np.asarray(y), x, rtol=1e-5)
            assert float(step(y, seed)) == pytest.approx(float(x) * 2 + seed, rel=1e-5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_export_and_import(same):
    pytest.importorskip("flatbuffers")
    from jax import export

    exported = export.export(jax.jit(lambda x: jnp.sin(x) + 1), platforms=["cpu"])(jax.ShapeDtypeStruct(X.shape, X.dtype))
    again = export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(X), np.sin(X) + 1, rtol=1e-6)


def test_the_cost_of_a_program_is_known_before_it_is_compiled():
    lowered = jax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((4, 4), np.float32))
    assert lowered.cost_analysis()["flops"] == 128


PASSES = """
import {first}
from jax.extend import xla
import jax, jax.numpy as jnp

xla.register_hlo_module_transformation(lambda module: None, name="mine", {platforms})
try:
    jax.jit(jnp.sin)(1.0)
except NotImplementedError as error:
    assert "'mine'" in str(error) and "clear_hlo_module_transformation" in str(error), error
    print("refused")
print(xla.clear_hlo_module_transformation("mine"), float(jax.jit(jnp.cos)(0.0)))
"""


@pytest.mark.parametrize("platforms, expected", [("", "refused\nTrue 1.0\n"), ("platforms='cpu'", "refused\nTrue 1.0\n")])
@pytest.mark.parametrize("devices_first", [False, True])
def test_a_compiler_pass_of_the_user_is_refused_and_can_be_taken_back(run_script, platforms, expected, devices_first):
    if not hasattr(pytest.importorskip("jax.extend.xla"), "register_hlo_module_transformation"):
        pytest.skip("this jax has none")
    done = run_script(PASSES.format(first="jax; jax.devices()" if devices_first else "jax", platforms=platforms))
    assert (done.stdout, done.stderr) == (expected, "")


@pytest.mark.parametrize("devices_first", [False, True])
def test_a_compiler_pass_for_a_platform_that_is_not_here_is_jax_s_own_business(run_script, devices_first):
    if not hasattr(pytest.importorskip("jax.extend.xla"), "register_hlo_module_transformation"):
        pytest.skip("this jax has none")
    done = run_script(PASSES.format(first="jax; jax.devices()" if devices_first else "jax", platforms="platforms='tpu'"))
    if jax.__version_info__ < (0, 12):  # jax records the registration, and no program runs there
        assert (done.stdout, done.stderr) == ("False 1.0\n", "")
    else:  # jax looks for the plugin at once
        assert done.stdout == "" and ("PJRT_Api not found" in done.stderr or "PJRT_Api is not initialized" in done.stderr)
