"""Compares programs with nodes that wait for values (callbacks between compiled functions, choices) with the undecorated functions."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw
from pathways._client import connection
from pathways._cluster import admin
from test_program_tracer import check, on  # noqa: E402

X = np.arange(4, dtype=np.float32)
LONG = 600  # seconds: only a failing test waits that long
SHAPE = jax.ShapeDtypeStruct((4,), np.float32)


@pytest.fixture(scope="module")
def steps(devices):
    """Returns compiled functions: x + 1 on one island, x * 3 on the other, and the sum of x."""
    add = jax.jit(lambda x: x + 1, in_shardings=on(devices[0]), out_shardings=on(devices[0]))
    triple = jax.jit(lambda x: x * 3, in_shardings=on(devices[5]), out_shardings=on(devices[5]))
    total = jax.jit(lambda x: x.sum(), in_shardings=on(devices[2]), out_shardings=on(devices[2]))
    return add, triple, total


def test_a_python_function_between_compiled_functions(steps):
    add, triple, _ = steps
    seen = []

    def reverse(x):
        seen.append(np.array(x))
        return x[::-1] * np.float32(10)

    @pw.program
    def step(x):
        y = add(x)
        z = jax.pure_callback(reverse, SHAPE, y)
        return triple(z), y

    check(step, X)
    np.testing.assert_array_equal(seen[0], X + 1)
    text = step.lower(X).as_text()
    assert "1 that wait for values" in text and "host reverse(%1)" in text
    assert 'data-kind="host"' in step.lower(X).as_svg()


@pytest.mark.parametrize("sign", [1, -1])
def test_only_the_branch_that_the_value_names_runs(steps, sign):
    add, triple, total = steps
    ran = []

    def here(x):
        return add(jax.pure_callback(lambda v: (ran.append("here"), v)[1], SHAPE, x))

    def there(x):
        return triple(jax.pure_callback(lambda v: (ran.append("there"), v)[1], SHAPE, x))

    @pw.program
    def step(x):
        y = add(x)
        return pw.cond(total(y) > 0, here, there, y), triple(y)

    ours = jax.block_until_ready(step(sign * (X + 2)))
    assert ran == ["here" if sign > 0 else "there"]
    for mine, theirs in zip(ours, step.__wrapped__(sign * (X + 2))):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
    assert "among there, here" in step.lower(X).as_text()


def test_choices_in_choices_captured_values_pytrees_and_literals(steps):
    add, triple, total = steps
    weights = jnp.arange(4.0)

    @pw.program
    def step(x, which):
        y = add(x)

        def inner(tree):
            return pw.switch(which, [lambda v: {"a": triple(v + y), "b": 1.0}, lambda v: {"a": v - weights, "b": 2.0},
                                     lambda v: {"a": add(v), "b": total(v)}], tree["v"])

        def outer(tree):
            return {"a": tree["v"], "b": 7.0}

        return pw.cond(total(x) > 3, inner, outer, {"v": x})

    for which in (-1, 0, 1, 2, 9):
        ours, plain = step(X, np.int32(which)), step.__wrapped__(X, np.int32(which))
        np.testing.assert_allclose(np.asarray(ours["a"]), np.asarray(plain["a"]))
        np.testing.assert_allclose(np.asarray(ours["b"]), np.asarray(plain["b"]))
    np.testing.assert_array_equal(np.asarray(step(X * 0, np.int32(0))["a"]), X * 0)


def test_sharded_values_and_what_the_branches_share(devices):
    mesh = Mesh(np.array(devices[:4]), ("i",))
    rows = NamedSharding(mesh, P("i"))
    other = NamedSharding(Mesh(np.array(devices[4:]), ("i",)), P("i"))
    double = jax.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows)
    minus = jax.jit(lambda x: -x, in_shardings=other, out_shardings=other)

    @pw.program
    def step(x):
        y = double(x)
        z = pw.cond(jnp.max(y) > 6, minus, double, y)
        return double(z), jax.pure_callback(np.sort, SHAPE, z)

    for x in (X, X / 10):
        check(step, jax.device_put(x, rows))


def test_what_nobody_has_placed_is_placed_by_the_branches(steps):
    _, triple, total = steps
    same = lambda v: v

    @pw.program
    def step(x, y):
        z = pw.cond(total(x) > 0, triple, same, y)
        return pw.switch(1, [same, triple], y) + pw.cond(total(z) > 0, same, lambda v: (triple(v), v)[1], X), z

    for x in (X, -X):
        for ours, plain in zip(step(x, X + 1), step.__wrapped__(x, X + 1)):
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(plain))


def test_a_program_chooses_again_and_again(steps, devices):
    """Each choice depends on the previous result; the test reads none of them in between."""
    add, triple, total = steps

    @pw.program
    def turn(x):
        return pw.cond(total(x) > 100, lambda v: v / 10, lambda v: add(triple(v)), x)

    ours = plain = X
    for _ in range(8):
        ours, plain = turn(ours), turn.__wrapped__(plain)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(plain), rtol=1e-6)


def test_what_is_given_away_meanwhile_is_still_there_for_the_branch(steps, devices):
    add, _, total = steps
    release = threading.Event()
    overwrite = jax.jit(lambda x: x * 0, donate_argnums=0, in_shardings=on(devices[0]), out_shardings=on(devices[0]))

    @pw.program
    def step(x):
        go = jax.pure_callback(lambda v: (release.wait(LONG), v)[1], jax.ShapeDtypeStruct((), np.float32), total(x))
        return pw.cond(go > 0, add, lambda v: v, x)

    x = jax.device_put(X, devices[0])
    y = step(x)
    gone = overwrite(x)
    release.set()
    np.testing.assert_array_equal(np.asarray(y), X + 1)
    np.testing.assert_array_equal(np.asarray(gone), X * 0)


def test_what_waits_for_no_value_does_not_wait(steps, devices):
    """One part of the program blocks until the test releases it; the other part's results arrive before."""
    add, triple, _ = steps
    release = threading.Event()

    @pw.program
    def step(x):
        slow = jax.pure_callback(lambda v: (release.wait(LONG), v)[1], SHAPE, add(x))
        return triple(slow), triple(x)

    slow, free = step(X)
    np.testing.assert_array_equal(np.asarray(free), X * 3)
    np.testing.assert_array_equal(np.asarray(add(X)), X + 1)  # other computations do not wait either
    assert not slow.is_ready()
    release.set()
    np.testing.assert_array_equal(np.asarray(slow), (X + 1) * 3)


def test_effects_of_python_functions_happen(steps):
    add, triple, _ = steps
    told, happened = [], threading.Event()

    @pw.program
    def step(x):
        y = add(x)
        io_callback(lambda v: (told.append(np.array(v)), happened.set())[1], None, y)
        jax.debug.print("y is {}", y)
        return triple(y)

    np.testing.assert_array_equal(np.asarray(step(X)), (X + 1) * 3)
    assert happened.wait(LONG)
    np.testing.assert_array_equal(told[0], X + 1)


def test_compiled_functions_that_call_back(devices):
    told, happened = [], threading.Event()
    where = on(devices[5])

    def inside(x):
        jax.debug.callback(lambda v: (told.append(np.array(v)), happened.set())[1], x)
        return jax.pure_callback(lambda v: v[::-1], SHAPE, x * 2)

    noisy = jax.jit(inside, in_shardings=where, out_shardings=where)

    @pw.program
    def step(x):
        return noisy(x + 1)

    np.testing.assert_array_equal(np.asarray(step(X)), ((X + 1) * 2)[::-1])
    assert happened.wait(LONG)
    np.testing.assert_array_equal(told[0], X + 1)


def test_errors_name_the_node_and_the_line(steps):
    add, triple, total = steps

    def fails(x):
        raise ValueError("no such word")

    @pw.program
    def step(x):
        bad = jax.pure_callback(fails, SHAPE, add(x))
        chosen = pw.cond(total(bad) > 0, add, triple, x)
        return triple(bad), chosen, triple(x)

    bad, chosen, good = step(X)
    np.testing.assert_array_equal(np.asarray(good), X * 3)
    for one in (bad, chosen):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no such word") as caught:
            np.asarray(one)
        assert "of step: test_program_values.py:" in str(caught.value)


def test_what_makes_no_sense_is_refused(steps):
    add, _, total = steps
    with pytest.raises(TypeError, match="must return the same structure and types: a returns"):
        def a(x):
            return x

        pw.program(lambda x: pw.cond(total(x) > 0, lambda v: total(v), a, x))(X)
    with pytest.raises(TypeError, match="by one integer, not by f"):
        pw.program(lambda x: pw.switch(total(x), [a, a], x))(X)


def test_inside_of_jit_and_gradients_it_is_jaxs_own(devices):
    square = lambda x: pw.cond(x > 0, lambda v: v * v, lambda v: -v, x)
    assert float(jax.jit(square)(3.0)) == 9.0
    assert float(jax.grad(square)(3.0)) == 6.0
    assert float(pw.program(jax.grad(square))(np.float32(3))) == 6.0
    assert float(square(-2.0)) == 2.0


def test_only_the_chosen_branch_is_sent_if_the_controller_chooses(steps):
    """The controller's counters show `total` and the choice on the first island, and the branch on the other island only if chosen."""
    add, triple, total = steps
    call = lambda v: jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(v.shape, v.dtype), v)  # hosts cannot begin it

    @pw.program
    def step(x):
        return pw.cond(total(x) > 0, lambda v: add(v), lambda v: add(triple(triple(call(v)))), x)

    def executed():
        return [host["commands"].get("run_program", 0) for host in admin.status(connection._get_endpoint().controller)["hosts"]]

    x, y = (jax.device_put(v, jax.devices()[0]) for v in (X, -X))
    for warm in (x, y):
        jax.block_until_ready(step(warm))
    counts = [executed()]
    for value in (x, y):
        for _ in range(5):
            result = jax.block_until_ready(step(value))
        counts.append(executed())
    first, second = ([b - a for a, b in zip(*pair)] for pair in zip(counts, counts[1:]))
    assert first[1] == 0 and second[1] == 5, "one message a call, only where the branch has a part"
    np.testing.assert_array_equal(np.asarray(result), -9 * X + 1)


def test_a_branch_that_returns_its_argument_copies_nothing(steps, devices):
    """The devices' memory shows that nothing is copied; an array with two names cannot be donated."""
    double = jax.jit(lambda x: x * 2, in_shardings=on(devices[0]), out_shardings=on(devices[0]), donate_argnums=0)

    @pw.program
    def step(x, which):
        return pw.switch(which, [lambda v: v, lambda v: v * 2], x)

    def used():
        report = admin.status(connection._get_endpoint().controller)
        return next(device["memory"]["used_bytes"] for device in report["devices"] if device["id"] == devices[0].id)

    large = np.arange(1 << 20, dtype=np.float32)
    x = jax.device_put(large, devices[0])
    which = jax.device_put(np.int32(0), devices[0])
    jax.block_until_ready(step(x, which))
    before = used()
    kept = jax.block_until_ready([step(x, which) for _ in range(8)])
    assert used() < before + large.nbytes
    doubled = double(x)
    np.testing.assert_array_equal(np.asarray(doubled), large * 2)
    for one in kept:
        np.testing.assert_array_equal(np.asarray(one), large)
    del one, kept[1:]
    np.testing.assert_array_equal(np.asarray(double(kept[0])), large * 2)
