"""Compares @pw.program, which runs whole functions as one program, with the same functions without the decorator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import eventually
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw
from pathways._client import connection
from pathways._cluster import admin


def on(device):
    return SingleDeviceSharding(device)


def check(function, *args, **kwargs):
    ours, plain = function(*args, **kwargs), function.__wrapped__(*args, **kwargs)
    assert jax.tree.structure(ours) == jax.tree.structure(plain)
    for mine, theirs in zip(jax.tree.leaves(ours), jax.tree.leaves(plain)):
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-6)
    return ours


@pytest.fixture(scope="module")
def parts(devices):
    """Returns the compiled functions of the paper's figure 2, each on its own slice."""
    a = jax.pmap(lambda x: x * 2.0, devices=devices[0:2])
    b = jax.pmap(lambda x: x + 1.0, devices=devices[2:4])
    c = jax.pmap(lambda x: x / 2.0, devices=devices[4:6])
    return a, b, c


def test_figure_2_of_the_paper(parts):
    a, b, c = parts

    @pw.program
    def f(v):
        x = a(v)
        y = b(x)
        z = a(c(x))
        return y, z

    y, z = f(np.array([1.0, 2.0], np.float32))
    assert list(np.asarray(y)) == [3.0, 5.0]
    assert list(np.asarray(z)) == [2.0, 4.0]


def test_a_chain_of_128_computations(devices):
    step = jax.jit(lambda x: x + 1.0, in_shardings=on(devices[0]), out_shardings=on(devices[0]))

    @pw.program
    def chain(x):
        for _ in range(128):
            x = step(x)
        return x

    x = jax.device_put(np.zeros(4, np.float32), devices[0])
    for _ in range(3):
        x = chain(x)
    np.testing.assert_array_equal(np.asarray(x), np.full(4, 384.0))


def test_pytrees_static_arguments_keywords_and_what_it_closes_over(devices):
    double = jax.jit(lambda x: x * 2.0, in_shardings=on(devices[1]))
    weights = jnp.arange(4.0)

    @pw.program(static_argnames="times")
    def f(tree, times, *, bias=0.0):
        x = tree["x"]
        for _ in range(times):
            x = double(x)
        return {"x": x + bias, "rest": [tree["y"], weights * 2.0, 3.0]}

    tree = {"x": np.ones(4, np.float32), "y": np.arange(3)}
    for times in (1, 3):
        out = f(tree, times, bias=1.0)
        np.testing.assert_array_equal(np.asarray(out["x"]), np.full(4, 2.0**times + 1))
        np.testing.assert_array_equal(np.asarray(out["rest"][0]), np.arange(3))
        np.testing.assert_array_equal(np.asarray(out["rest"][1]), np.arange(4.0) * 2)
        assert float(out["rest"][2]) == 3.0


def test_shardings_that_differ_are_joined_by_transfers(islands):
    here, there = (Mesh(np.array(part), ("x",)) for part in islands)
    rows, columns = NamedSharding(here, P("x", None)), NamedSharding(there, P(None, "x"))
    f = jax.jit(lambda x: x @ x.T, in_shardings=rows, out_shardings=rows)
    g = jax.jit(lambda x: jnp.sin(x).sum(axis=1), in_shardings=columns)

    @pw.program
    def h(x):
        y = f(x)
        return y, g(y)

    y, z = h(np.arange(64, dtype=np.float32).reshape(8, 8) / 64)
    x = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
    np.testing.assert_allclose(np.asarray(y), x @ x.T, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(z), np.sin(x @ x.T).sum(axis=1), rtol=1e-5)
    assert y.sharding.is_equivalent_to(rows, 2)


def test_arguments_with_different_numbers_of_shards(devices, islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    sharded = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    single = jax.device_put(np.float32(3.0), devices[5])
    scale = jax.jit(lambda x, s: x * s, in_shardings=(NamedSharding(mesh, P("x")), NamedSharding(mesh, P())))

    @pw.program
    def f(x, s):
        return scale(x, s), s

    out, s = f(sharded, single)
    np.testing.assert_array_equal(np.asarray(out), np.arange(8.0) * 3)
    assert float(s) == 3.0


def test_donated_arguments_are_gone(devices):
    step = jax.jit(lambda x: x + 1.0, donate_argnums=0)

    @pw.program(donate_argnums=0)
    def f(x, y):
        return step(x), y * 2.0

    x, y = (jax.device_put(np.ones(4, np.float32), devices[0]) for _ in range(2))
    out, _ = f(x, y)
    np.testing.assert_array_equal(np.asarray(out), np.full(4, 2.0))
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x + 1)


def test_nested_programs_gradients_and_plain_jax_between_calls(devices):
    loss = jax.jit(lambda w, x: jnp.sum((x @ w) ** 2))

    @pw.program
    def inner(w, x):
        return jax.jit(jax.grad(loss))(w, x)

    @pw.program
    def step(w, x):
        return w - 0.1 * inner(w, x), loss(w, x)

    w, x = (jax.device_put(v, devices[0]) for v in (np.ones((3, 2), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3) / 6))
    check(step, w, x)


def test_a_compile_error_names_the_node_and_the_line(devices):
    good = jax.jit(lambda x: x + 1.0)
    bad = jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))

    @pw.program
    def f(x):
        return bad(good(x))

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"no_such_target.*\[at node 2 of f: test_program_tracer.py:\d+ in f, .* on device \d\]"):
        f(jax.device_put(np.ones(4, np.float32), devices[0]))


def test_an_exception_in_the_function_is_the_users_own():
    @pw.program
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(np.ones(3))


def test_the_text_has_a_line_for_every_node(devices):
    step = jax.jit(lambda x: x + 1.0, in_shardings=on(devices[0]))
    away = jax.jit(lambda x: x * 2.0, in_shardings=on(devices[4]))
    text = pw.program(lambda x: away(step(x))).lower(np.ones(4, np.float32)).as_text()
    assert text.count(" = compute") == 2 and text.count(" = transfer") == 1
    assert "test_program_tracer.py" in text


def test_a_call_is_one_message_to_each_host_and_leaves_nothing_behind(devices, islands):
    def hosts():
        report = admin.status(connection._get_endpoint().controller)
        kinds = ("run_program", "execute", "move")
        return [[host["commands"].get(kind, 0) for kind in kinds] for host in report["hosts"]], [c["arrays"] for c in report["clients"]]

    here, there = (jax.jit(lambda x: x + 1.0, in_shardings=on(part[0])) for part in islands)

    @pw.program
    def f(x):
        for _ in range(8):
            x = there(here(x))
        return x

    x = jax.device_put(np.zeros(4, np.float32), devices[0])
    f(x).block_until_ready()
    before, arrays = hosts()
    for _ in range(10):
        y = f(x)
    y.block_until_ready()
    after, _ = hosts()
    assert [[a - b for a, b in zip(*pair)] for pair in zip(after, before)] == [[10, 0, 0], [10, 0, 0]]
    # Only the last result is new: hosts free the values between nodes. The client deletes garbage in batches.
    assert eventually(lambda: hosts()[1][0] <= arrays[0] + 1)
    np.testing.assert_array_equal(np.asarray(y), np.full(4, 16.0))


def test_random_keys_cross_between_nodes(devices):
    split = jax.jit(lambda key: jax.random.split(key))
    draw = jax.jit(lambda key: jax.random.normal(key, (4,)))

    @pw.program
    def f(key):
        first, second = split(key)
        return draw(first), draw(second)

    check(f, jax.device_put(jax.random.key(7), devices[0]))


def test_what_nobody_has_placed_goes_on_to_wherever_it_is_used(devices):
    """This is as without the decorator: a result is committed to devices only if the user's code names devices."""
    double = jax.jit(lambda x: x * 2.0)
    there = jax.device_put(np.ones(4, np.float32), devices[6])

    @pw.program
    def f(x, y):
        return double(x) + 1.0, x - y, jax.device_put(double(x), devices[3]), jnp.arange(4.0)

    x = np.arange(4, dtype=np.float32)
    free, bound, put, made = check(f, x, there)
    plain = f.__wrapped__(x, there)
    assert [one.committed for one in (free, bound, put, made)] == [one.committed for one in plain] == [False, True, True, False]
    assert bound.devices() == {devices[6]} and put.devices() == {devices[3]}
    np.testing.assert_array_equal(np.asarray(free + made + there), np.asarray(plain[0] + plain[3] + there))
