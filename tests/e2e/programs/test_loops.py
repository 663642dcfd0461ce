"""Compares `pw.while_loop` in programs with `jax.lax.while_loop` on jax's own cpu, and counts the controller's messages for the turns of a loop."""

import gc
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import pathways as pw
from conftest import assert_same, eventually
from pathways._client import connection
from pathways._cluster import admin
from test_program_tracer import on

X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def slices(devices):
    """Returns a mesh of two devices of the first island, and one of four devices of the second."""
    return Mesh(np.array(devices[0:2]), ("x",)), Mesh(np.array(devices[4:8]), ("x",))


def check(cpu, ours, condition, body, init):
    """Compares ours() with jax's own loop of these functions, whose arguments have no placement."""
    mine = jax.block_until_ready(ours())
    with jax.default_device(cpu):
        theirs = jax.jit(lambda value: jax.lax.while_loop(condition, body, value))(init)
    assert_same(mine, theirs, rtol=1e-5)
    return mine


def commands():
    """Returns the number of each kind of command that the controller has sent to each host."""
    return [host["commands"] for host in admin.status(connection._get_endpoint().controller)["hosts"]]


def sent(before, after):
    return [{kind: now[kind] - then.get(kind, 0) for kind in now if now[kind] != then.get(kind, 0)} for then, now in zip(before, after)]


def test_a_loop_over_two_slices(cpu, slices):
    first, second = (NamedSharding(mesh, P("x")) for mesh in slices)
    grow = lambda x: x * 1.25 + 1
    mix = lambda x: jnp.roll(x, 1) - 0.5
    is_small = lambda x: x.sum() < 1000
    grow_there, mix_here = jax.jit(grow, in_shardings=second, out_shardings=second), jax.jit(mix, in_shardings=first, out_shardings=first)
    is_small_there = jax.jit(is_small, in_shardings=second)

    @pw.program
    def f(x):
        def body(carry):
            i, value = carry
            return i + 1, mix_here(grow_there(value))

        return pw.while_loop(lambda carry: is_small_there(carry[1]), body, (0, x))

    plain = lambda carry: (carry[0] + 1, mix(grow(carry[1])))
    turns, _ = check(cpu, lambda: f(jax.device_put(X, first)), lambda carry: is_small(carry[1]), plain, (0, X))
    assert turns > 5
    text = f.lower(jax.device_put(X, first)).as_text()
    assert "while %" in text and "turn body:" in text and "1 that wait for values" in text
    assert "in turns, by a value" in f.lower(jax.device_put(X, first)).as_svg()


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 100, 1000])
def test_as_many_turns_as_the_predicate_says(cpu, devices, turns):
    step = jax.jit(lambda i, x: (i + 1, x * 0.5 + i), in_shardings=on(devices[1]), out_shardings=on(devices[1]))

    @pw.program
    def f(n, x):
        return pw.while_loop(lambda c: c[0] < n, lambda c: step(*c), (np.int32(0), x))

    check(cpu, lambda: f(np.int32(turns), X), lambda c: c[0] < turns, lambda c: (c[0] + 1, c[1] * 0.5 + c[0]), (np.int32(0), X))


def test_values_after_the_loop_and_before_it(devices):
    add, double = (jax.jit(g, in_shardings=on(d), out_shardings=on(d)) for g, d in ((lambda x: x + 1, devices[0]), (lambda x: x * 2, devices[5])))

    @pw.program
    def f(x):
        before = double(x)
        after, _ = pw.while_loop(lambda c: c[1] < 5, lambda c: (add(c[0]), c[1] + 1), (jax.device_put(before, devices[0]), 0))
        again = pw.while_loop(lambda v: v.sum() < 1e4, double, jax.device_put(after, devices[5]))
        return add(after), double(again), before

    for _ in range(3):
        after, again, before = f(X)
        np.testing.assert_array_equal(np.asarray(after), X * 2 + 6)
        np.testing.assert_array_equal(np.asarray(before), X * 2)
        expected = X * 2 + 5
        while expected.sum() < 1e4:
            expected = expected * 2
        np.testing.assert_array_equal(np.asarray(again), expected * 2)


def test_a_carry_that_a_turn_permutes_keeps_and_replaces(cpu, devices):
    add = lambda x: x + 1
    add_there = jax.jit(add, in_shardings=on(devices[6]), out_shardings=on(devices[6]))
    weights = jnp.arange(8.0)

    def body(c, add):
        return {"a": c["b"], "b": add(c["a"]) + weights, "kept": c["kept"], "i": c["i"] + 1, "new": jnp.ones(3) * c["i"], "same": c["i"] + 1}

    init = {"a": X, "b": X * 2, "kept": np.float32(7), "i": 0, "new": np.zeros(3, np.float32), "same": 0}
    f = pw.program(lambda: pw.while_loop(lambda c: c["i"] < 7, lambda c: body(c, add_there), init))
    check(cpu, f, lambda c: c["i"] < 7, lambda c: body(c, add), init)


def test_loops_in_choices(devices):
    add, double = (jax.jit(g, in_shardings=on(d), out_shardings=on(d)) for g, d in ((lambda x: x + 1, devices[0]), (lambda x: x * 2, devices[5])))

    @pw.program
    def f(x, which):
        def loop(step):
            return lambda v: pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(c[1])), (0, v))[1]

        return double(pw.cond(which, loop(add), loop(double), x))

    np.testing.assert_array_equal(np.asarray(f(X, True)), (X + 3) * 2)
    np.testing.assert_array_equal(np.asarray(f(X, False)), X * 16)


def test_the_initial_value_is_not_overwritten_unless_it_is_donated(devices):
    double = jax.jit(lambda x: x * 2, in_shardings=on(devices[0]), out_shardings=on(devices[0]), donate_argnums=0)
    loop = lambda x: pw.while_loop(lambda c: c[1] < 3, lambda c: (double(c[0]), c[1] + 1), (x, 0))[0]
    x = jax.device_put(X, devices[0])
    f = pw.program(lambda x: (loop(x), x + 1))
    for _ in range(2):
        doubled, added = f(x)
        np.testing.assert_array_equal(np.asarray(doubled), X * 8)
        np.testing.assert_array_equal(np.asarray(added), X + 1)
    np.testing.assert_array_equal(np.asarray(x), X)
    given = pw.program(loop, donate_argnums=0)(x)
    np.testing.assert_array_equal(np.asarray(given), X * 8)
    assert x.is_deleted()


def test_the_controller_sends_messages_for_leases_not_for_turns(slices):
    first, second = (NamedSharding(mesh, P("x")) for mesh in slices)
    here, there = (jax.jit(lambda x: x + 1, in_shardings=s, out_shardings=s) for s in (first, second))

    @pw.program
    def f(n, x):
        return pw.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, there(here(c[1]))), (np.int32(0), x))

    x = jax.device_put(np.zeros(8, np.float32), second)
    run = lambda turns: np.testing.assert_array_equal(np.asarray(f(np.int32(turns), x)[1]), np.full(8, 2 * turns, np.float32))
    run(64)
    turns, counts, began = 2000, [commands()], time.monotonic()
    for n in (1, turns):
        run(n)
        counts.append(commands())
    most = 30 + (time.monotonic() - began) / 1e-3  # a lease takes some milliseconds, even if that is one turn of a busy machine
    few, many = (sent(*pair) for pair in zip(counts, counts[1:]))
    for host in range(2):
        assert few[host]["begin_loop"] == many[host]["begin_loop"] == 1
        assert many[host]["loop_lease"] < most, (few, many)
        assert many[host].get("execute", 0) == few[host].get("execute", 0)
        assert sum(many[host].values()) < 4 * most, "the same holds for commands of any kind"


def test_memory_does_not_grow_with_the_turns(devices):
    step = jax.jit(lambda x: jnp.tanh(x) + 1, in_shardings=on(devices[0]), out_shardings=on(devices[0]))

    def memory():
        report = admin.status(connection._get_endpoint().controller)
        device = next(d for d in report["devices"] if d["id"] == devices[0].id)
        return device["memory"]["used_bytes"], device["memory"]["peak_bytes"]

    f = pw.program(lambda n, x: pw.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(step(c[1]))), (np.int32(0), x)))
    large = jax.device_put(np.ones(1 << 20, np.float32), devices[0])
    jax.block_until_ready(f(np.int32(3), large))
    gc.collect()
    before = memory()
    result = jax.block_until_ready(f(np.int32(200), large))
    assert eventually(lambda: memory()[0] < before[0] + 2 * large.nbytes), "the result only"
    assert memory()[1] <= max(before[1], before[0] + 20 * large.nbytes), "the arrays of a few turns, not of 200; or an earlier test had more"
    del result


def test_outside_of_programs_and_inside_of_jit_it_is_pythons_and_jaxs_own():
    loop = lambda n: pw.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2.0), (0, 1.0))
    assert loop(5) == (5, 32.0)
    assert [float(v) for v in jax.jit(loop)(5)] == [5, 32]
    assert [float(v) for v in pw.program(jax.jit(loop))(np.int32(5))] == [5, 32]
    power = lambda x: pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]
    assert float(jax.jvp(power, (2.0,), (1.0,))[1]) == 32.0
    for gradient in (jax.grad(power), pw.program(jax.grad(power)), jax.grad(pw.program(power))):
        with pytest.raises(ValueError, match="Reverse-mode differentiation"):
            gradient(np.float32(2))


def loops(body, init, condition=lambda c: jax.tree.leaves(c)[0].sum() < 9):
    return pw.program(lambda: pw.while_loop(condition, body, init))


def test_what_a_carry_may_not_do_is_told_with_the_name_of_the_leaf(devices):
    init = {"a": jax.device_put(X, devices[0]), "b": [np.int32(1), X]}
    with pytest.raises(TypeError, match=r"the carry\['b'\]\[0\] as int32\[\] and returns it as float32\[\]"):
        loops(lambda c: {"a": c["a"], "b": [c["b"][0] * 1.5, c["b"][1]]}, init)()
    with pytest.raises(TypeError, match="must return what it takes"):
        loops(lambda c: {"a": c["a"]}, init)()
    with pytest.raises(TypeError, match=r"must return one bool, not float32\[8\]"):
        loops(lambda c: c, init, lambda c: c["a"])()
    with pytest.raises(ValueError, match=r"the carry\['a'\], float32\[8\], is on .* before a turn and on .* after it.*device_put"):
        loops(lambda c: {**c, "a": jax.device_put(c["a"], devices[5])}, init)()
    with pytest.raises(NotImplementedError, match="not select"):
        loops(lambda c: {**c, "a": pw.cond(c["b"][0] > 1, lambda v: v, lambda v: v + 1, c["a"])}, init)()
    with pytest.raises(NotImplementedError, match="has effects"):
        loops(lambda c: c, init, lambda c: (jax.debug.print("{}", c["b"][0]), c["b"][0] < 3)[1])()
    outside = {"n": 0}
    with pytest.raises(TypeError, match=r"the carry\['n'\]"):
        pw.while_loop(lambda c: c["n"] < 3, lambda c: {"n": c["n"] + 0.5}, outside)


def test_an_error_of_a_turn_names_the_turn_and_the_node(devices):
    def fails(i):
        if i == 3:
            raise ValueError("no fourth turn")
        return i

    step = jax.jit(lambda i, x: jax.pure_callback(fails, jax.ShapeDtypeStruct((), np.int32), i) + 1 + 0 * x.astype(np.int32)[0],
                   in_shardings=on(devices[5]), out_shardings=on(devices[5]))
    add = jax.jit(lambda x: x + 1, in_shardings=on(devices[0]), out_shardings=on(devices[0]))

    @pw.program
    def f(x):
        i, y = pw.while_loop(lambda c: c[0] < 1000, lambda c: (step(c[0], c[1]), add(c[1])), (np.int32(0), x))
        return i, y, add(x)

    i, y, fine = f(X)
    np.testing.assert_array_equal(np.asarray(fine), X + 1)
    for failed in (i, y):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no fourth turn") as caught:
            np.asarray(failed)
        assert "turn 4]" in str(caught.value) and "test_loops.py:" in str(caught.value), caught.value
    i, y, _ = pw.program(lambda x: pw.while_loop(lambda c: c[0] < 3, lambda c: (step(c[0], c[1]), add(c[1])), (np.int32(0), x)) + (x,))(X)
    assert int(i) == 3, "the hosts are as before"
    np.testing.assert_array_equal(np.asarray(y), X + 3)


def test_an_argument_that_is_an_error_fails_the_loop(devices):
    bad = jax.jit(lambda x: jax.pure_callback(lambda v: 1 / 0, jax.ShapeDtypeStruct((8,), np.float32), x), in_shardings=on(devices[0]),
                  out_shardings=on(devices[0]))
    add = jax.jit(lambda x: x + 1, in_shardings=on(devices[0]), out_shardings=on(devices[0]))
    f = pw.program(lambda x: pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, add(c[1])), (0, bad(x))))
    for leaf in f(X):
        with pytest.raises(jax.errors.JaxRuntimeError, match="division by zero"):
            np.asarray(leaf)


def test_two_loops_at_once_and_other_work_between_their_turns(slices):
    """Loops of one client over the same devices take turns; so does a computation that is called meanwhile."""
    first, _ = (NamedSharding(mesh, P("x")) for mesh in slices)
    add = jax.jit(lambda x: x + jnp.sum(x) * 0 + 1, in_shardings=first, out_shardings=first)
    f = pw.program(lambda n, x: pw.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, add(c[1])), (np.int32(0), x)))
    x = jax.device_put(X, first)
    both = [f(np.int32(300 + k), x) for k in range(2)]
    between = add(x)
    np.testing.assert_array_equal(np.asarray(between), X + 1)
    for k, (turns, value) in enumerate(both):
        assert int(turns) == 300 + k
        np.testing.assert_array_equal(np.asarray(value), X + 300 + k)
