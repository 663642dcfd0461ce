"""Compares `pw.cond` and `pw.switch` in programs, where hosts choose, with `jax.lax.switch` on jax's own cpu, and counts the controller's messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

import pathways as pw
from conftest import assert_same
from test_loops import commands, sent, slices  # noqa: F401: a fixture
from test_program_tracer import on

X = np.arange(8, dtype=np.float32)


def place(function, sharding):
    return jax.jit(function, in_shardings=sharding, out_shardings=sharding)


def check(cpu, ours, index, branches, *operands):
    """Compares with jax's own choice among these functions."""
    with jax.default_device(cpu):
        theirs = jax.jit(lambda i, args: jax.lax.switch(i, branches, *args))(index, operands)
    assert_same(jax.block_until_ready(ours), theirs, rtol=1e-5)


def test_each_branch_on_its_own_slice(cpu, slices):
    first, second = (NamedSharding(mesh, P("x")) for mesh in slices)
    plain = [lambda x: x * 2 + 1, lambda x: jnp.roll(x, 1) - x, lambda x: jnp.tanh(x)]
    placed = [place(f, s) for f, s in zip(plain, (first, second, second))]
    back = place(lambda x: x, first)
    index_of = jax.jit(lambda i, x: i + jnp.int32(0 * x.sum()), in_shardings=(None, second))

    @pw.program
    def f(i, x):
        chosen = pw.switch(index_of(i, x), [lambda v, g=g: back(g(v)) for g in placed], x)
        return chosen, back(chosen + 1)

    for i in (0, 1, 2, -7, 9, 1):
        ours, more = f(np.int32(i), jax.device_put(X, first))
        check(cpu, ours, i, plain, X)
        np.testing.assert_array_equal(np.asarray(more), np.asarray(ours) + 1)


def test_choices_in_branches_and_one_after_another(cpu, devices):
    plain = [lambda x: x + 1, lambda x: x * 3, lambda x: x - x.sum()]
    add, triple, center = (place(f, on(d)) for f, d in zip(plain, (devices[0], devices[3], devices[5])))

    def inner(functions):
        f, g, h = functions
        return lambda v: pw.cond(v[1] > 3, lambda v: g(f(v)), lambda v: pw.switch(jnp.int32(v[2]), [f, g, h], v), v)

    def outer(functions):
        f, g, h = functions
        def run(v):
            for _ in range(3):
                v = pw.cond(v.sum() > 40, inner(functions), lambda v: f(g(v)), v)
            return h(v), v
        return run

    ours = pw.program(outer((add, triple, center)))
    for scale in (-1.0, 0.1, 0.5, 1.0, 2.0):
        x = X * np.float32(scale)
        with jax.default_device(cpu):
            theirs = jax.jit(outer(plain))(x)
        assert_same(jax.block_until_ready(ours(x)), theirs, rtol=1e-5)


def test_random_nests_of_choices(cpu, devices):
    """Each program chooses in branches of branches, among functions on random devices of both hosts. The oracle is the same program compiled for one device."""
    def made(seed, placed):
        rng = np.random.default_rng(seed)
        operations = [lambda x: x + 1, lambda x: x * 0.5 - 2, lambda x: jnp.roll(x, 1)]

        def function():
            f, device = operations[rng.integers(3)], devices[rng.integers(len(devices))]
            return place(f, on(device)) if placed else f

        def level(depth):
            steps = [function() for _ in range(rng.integers(1, 3))]
            choices = [(int(rng.integers(8)), [level(depth + 1) for _ in range(rng.integers(1, 4))]) for _ in range(rng.integers(0, 3) if depth < 3 else 0)]
            end = function()

            def run(x):
                for step in steps:
                    x = step(x)
                for position, branches in choices:
                    x = pw.switch(jnp.int32(x[position]) % 3, branches, x)
                return end(x)

            return run

        return level(0)

    for seed in range(8):
        ours, plain = pw.program(made(seed, True)), jax.jit(made(seed, False))
        for scale in (1, -3):
            with jax.default_device(cpu):
                theirs = plain(X * np.float32(scale))
            assert_same(jax.block_until_ready(ours(X * np.float32(scale))), theirs, rtol=1e-5)


def test_the_controller_sends_one_message_for_a_choice_and_hears_no_value(slices):
    first, second = (NamedSharding(mesh, P("x")) for mesh in slices)
    here, there = place(lambda x: x + 1, first), place(lambda x: x * 2, second)
    is_large = jax.jit(lambda x: x.sum() > 40, in_shardings=second)
    f = pw.program(lambda x: pw.cond(is_large(x), lambda v: here(v), lambda v: here(there(v)), x))
    run = lambda scale, expected: np.testing.assert_array_equal(np.asarray(f(jax.device_put(X * np.float32(scale), first))), expected)
    run(1, X * 2 + 1)
    calls = 10

    def commands_of_a_round():
        before = commands()
        for k in range(calls):
            run(1 + k % 2, X * 2 + 1)
        return sent(before, commands())

    # If another process delays a branch, its next calls are expected to take long, and are left to the controller. It measures them anew.
    rounds = (commands_of_a_round() for _ in range(50))
    for host in next(hosts for hosts in rounds if all(host.get("begin_choice") == calls for host in hosts)):
        assert host.get("fulfil", 0) == 0 and host.get("begin_loop", 0) == 0, host
        assert host.get("execute", 0) == 0, "the hosts begin what is chosen"


def test_who_else_waits_for_values_is_chosen_by_the_controller(devices):
    """Callbacks and loops in a branch; the choice beside it is the hosts'."""
    add = place(lambda x: x + 1, on(devices[5]))

    @pw.program
    def f(x):
        callback = lambda v: jax.pure_callback(lambda a: a * 10, jax.ShapeDtypeStruct((8,), np.float32), add(v))
        loop = lambda v: pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, add(c[1])), (0, v))[1]
        chosen = pw.switch(jnp.int32(x[1]), [loop, callback], x)
        return chosen, pw.cond(x[1] > 0, add, lambda v: v, x)

    before = commands()
    for scale, expected in ((0, X * 0 + 3), (1, (X + 1) * 10)):
        chosen, beside = f(X * np.float32(scale))
        np.testing.assert_array_equal(np.asarray(chosen), expected)
        np.testing.assert_array_equal(np.asarray(beside), X * scale + (1 if scale else 0))
    assert sum(host.get("begin_choice", 0) for host in sent(before, commands())) >= 2


def test_errors_of_a_predicate_and_of_a_branch(devices):
    def fails(v):
        raise ValueError("no number today")

    raising = lambda kind: lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((8,), np.float32), x).astype(kind)
    bad = place(raising(np.float32), on(devices[5]))
    good = place(lambda x: x + 1, on(devices[0]))

    @pw.program
    def f(x, which):
        by_error = pw.cond(bad(x)[0] > 0, good, lambda v: v, x)
        in_branch = pw.cond(which, bad, good, x)
        return by_error, in_branch, good(x)

    by_error, in_branch, fine = f(X, True)
    np.testing.assert_array_equal(np.asarray(fine), X + 1)
    for failed in (by_error, in_branch):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no number today") as caught:
            np.asarray(failed)
        assert "test_choices.py:" in str(caught.value), caught.value
    by_error, in_branch, fine = f(X, False)
    np.testing.assert_array_equal(np.asarray(in_branch), X + 1)
    np.testing.assert_array_equal(np.asarray(fine), X + 1)


def test_the_argument_of_a_choice_may_be_donated_meanwhile(devices):
    double = jax.jit(lambda x: x * 2, in_shardings=on(devices[0]), out_shardings=on(devices[0]), donate_argnums=0)
    add = place(lambda x: x + 1, on(devices[5]))
    f = pw.program(lambda x, i: pw.switch(jnp.int32(i), [add, lambda v: v * 3], x))
    for i, expected in ((0, X + 1), (1, X * 3)):
        x = jax.device_put(X, devices[0])
        chosen, doubled = f(x, np.int32(i)), double(x)
        np.testing.assert_array_equal(np.asarray(chosen), expected)
        np.testing.assert_array_equal(np.asarray(doubled), X * 2)
        assert x.is_deleted()
