"""Tests effects of programs: `jax.effects_barrier`, ordered callbacks, random keys in callbacks and choices."""

import threading

import jax
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import pathways as pw
from test_program_tracer import on
from test_program_values import LONG, SHAPE, X, steps  # noqa: F401 (steps is a fixture)

CALLS = 12


@pytest.fixture(autouse=True)
def nothing_is_left():
    jax.effects_barrier()
    yield
    jax.effects_barrier()


class Seen(list):
    """The arguments of the calls of a slow callback."""

    __hash__ = object.__hash__  # jax requires hashable functions

    def __call__(self, value):
        threading.Event().wait(0.01)
        self.append(np.asarray(value).tolist())
        return ()


def ordered(seen, x):
    io_callback(seen, (), x, ordered=True)


@pytest.mark.parametrize("inside", [False, True], ids=["between compiled functions", "inside of one"])
def test_the_barrier_waits_for_the_effects_of_all_calls(steps, devices, inside):
    add, triple, _ = steps
    seen = Seen()
    tell = lambda x: (io_callback(seen, (), x[0]), x * 2)[1]
    if inside:
        tell = jax.jit(tell, in_shardings=on(devices[3]), out_shardings=on(devices[3]))

    @pw.program
    def step(x):
        return triple(tell(add(x)))

    for i in range(CALLS):
        y = step(X + i)
    jax.effects_barrier()
    assert sorted(seen) == [i + 1 for i in range(CALLS)]
    np.testing.assert_array_equal(np.asarray(y), (X + CALLS) * 6)


READS = {
    "block": lambda results: jax.block_until_ready(results),
    "asarray": lambda results: np.asarray(results[0]),
    "asarray of the other": lambda results: np.asarray(results[1]),
    "asarray of a shard": lambda results: np.asarray(results[1].addressable_shards[0].data),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("inside", [False, True], ids=["between compiled functions", "inside of one"])
def test_what_is_read_is_told_after_the_effects_of_its_call(steps, devices, inside, read):
    add, triple, _ = steps
    seen = Seen()
    tell = lambda x: io_callback(seen, (), x[0])
    if inside:
        tell = jax.jit(tell, in_shardings=on(devices[3]))

    @pw.program
    def step(x):
        y = add(x)
        tell(y)
        return y, triple(x)

    for i in range(CALLS):
        read(step(X + i))
        assert seen == [j + 1 for j in range(i + 1)]


def test_the_barrier_waits_for_effects_of_the_branch_that_runs(steps):
    add, triple, total = steps
    seen = Seen()

    @pw.program
    def step(x):
        return pw.cond(total(x) > 0, lambda v: (io_callback(seen, (), v), triple(v))[1], add, x)

    for sign in (1, -1, 1):
        step(sign * (X + 1))
    jax.effects_barrier()
    assert seen == [(X + 1).tolist()] * 2


def test_a_failing_effect_is_told_at_the_barrier_once(steps):
    add, _, _ = steps
    seen = []

    def fails(x):
        seen.append(float(x[0]))
        if x[0] == 1:
            raise ValueError("no such word")

    step = pw.program(lambda x: (io_callback(fails, None, add(x)), add(x))[1])
    for i in range(3):
        y = step(X + i)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such word"):
        jax.effects_barrier()
    jax.effects_barrier()
    assert sorted(seen) == [1, 2, 3]
    np.testing.assert_array_equal(np.asarray(y), X + 3)


@pytest.mark.parametrize("ordered", [False, True])
def test_reading_an_error_does_not_wait_for_functions_that_wait_for_the_reader(steps, ordered):
    add, triple, _ = steps
    release = threading.Event()

    def fails(x):
        raise ValueError("no such word")

    waits = pw.program(lambda x: (io_callback(lambda v: release.wait(LONG) and None, None, triple(x), ordered=ordered), triple(x))[1])
    bad = pw.program(lambda x: jax.pure_callback(fails, SHAPE, add(x)))
    y = waits(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such word"):
        np.asarray(bad(X))
    release.set()
    jax.effects_barrier()
    np.testing.assert_array_equal(np.asarray(y), X * 3)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_failure_that_a_read_has_raised_is_told(steps, ordered):
    add, triple, _ = steps
    seen = []

    def one(x):
        seen.append(float(x[0]))
        if x[0] < 0:
            raise ValueError("no such word")
        return x

    step = pw.program(lambda x: triple(io_callback(one, SHAPE, add(x), ordered=ordered)))
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no such word"):
            np.asarray(step(X - 9))
        np.testing.assert_array_equal(np.asarray(step(X)), (X + 1) * 3)  # an earlier failure does not affect later calls
        jax.effects_barrier()
    assert seen == [-8, 1] * 2


def test_ordered_effects_keep_their_order_over_islands_and_calls(steps, devices):
    """Effects are in separate nodes, inside compiled functions, on devices of several hosts, and in jit calls between the calls of the program."""
    add, triple, _ = steps
    seen = Seen()
    noisy = jax.jit(lambda x: (ordered(seen, x[1]), x + 1)[1], in_shardings=on(devices[6]), out_shardings=on(devices[6]))
    alone = jax.jit(lambda x: (ordered(seen, x), x)[1], in_shardings=on(devices[1]))

    @pw.program
    def step(x):
        ordered(seen, x[0])       # no node of the program needs any of these
        y = add(x)
        ordered(seen, y[0])
        noisy(y)
        ordered(seen, triple(y)[0])
        return noisy(x)

    wanted = []
    for i in range(0, 50, 10):
        y = step(X + i)
        alone(np.float32(i))
        wanted += [i, i + 1, i + 2, 3 * (i + 1), i + 1, i]
    np.testing.assert_array_equal(np.asarray(y), X + 41)
    jax.effects_barrier()
    assert seen == wanted
    assert "= token" in step.lower(X).as_text()


def test_ordered_effects_in_branches_over_meshes_and_in_loops(steps, islands):
    _, triple, total = steps
    rows = NamedSharding(Mesh(np.array(islands[0]), ("i",)), P("i"))
    seen = Seen()
    spread = jax.jit(lambda x: (ordered(seen, x), x * 2)[1], in_shardings=rows, out_shardings=rows)

    def loop(x):
        jax.lax.fori_loop(0, 3, lambda i, c: (ordered(seen, i), c)[1], 0)
        return triple(x)

    @pw.program
    def step(x, which):
        y = spread(x)
        z = pw.switch(which, [lambda v: v, lambda v: (ordered(seen, v), triple(v))[1], loop], y)
        ordered(seen, total(z))
        return z

    doubled = (X * 2).tolist()
    branch = ([], [doubled], [0, 1, 2])
    wanted = []
    for which in (0, 1, 2, 0):
        step(X, np.int32(which))
        wanted += [X.tolist(), *branch[which], 12.0 if which == 0 else 36.0]
    jax.effects_barrier()
    assert seen == wanted


def test_ordered_prints_come_in_order(steps, capfd):
    add, triple, _ = steps

    @pw.program
    def step(x):
        for i in range(4):
            jax.debug.print("line {i} of {x}", i=i, x=add(x)[0], ordered=True)
        return triple(x)

    for call in range(3):
        step(X + call)
    jax.effects_barrier()
    assert capfd.readouterr().out.splitlines() == [f"line {i} of {call + 1}.0" for call in range(3) for i in range(4)]


def test_a_failing_ordered_effect_is_told_once_and_what_comes_later_runs(steps):
    add, triple, _ = steps
    seen = []

    def one(x):
        seen.append(float(x))
        if x < 0:
            raise ValueError("no such word")

    @pw.program
    def step(x):
        io_callback(one, None, add(x)[0], ordered=True)
        io_callback(one, None, triple(x)[1], ordered=True)
        return triple(x)

    y = step(X - 9)
    np.testing.assert_array_equal(np.asarray(y), (X - 9) * 3)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such word"):
        jax.effects_barrier()
    assert seen == [-8]
    step(X)
    jax.effects_barrier()
    assert seen == [-8, 1, 3]


def test_results_of_ordered_callbacks_and_counters(steps):
    add, triple, _ = steps
    count = [0]

    def number(x):
        count[0] += 1
        return np.float32(count[0]) + x

    @pw.program
    def step(x):
        first = io_callback(number, SHAPE, triple(x), ordered=True)
        second = io_callback(number, SHAPE, add(first), ordered=True)
        return first, second

    for call in range(3):
        first, second = step(X)
        np.testing.assert_array_equal(np.asarray(first), X * 3 + 2 * call + 1)
        np.testing.assert_array_equal(np.asarray(second), np.asarray(first) + 1 + 2 * call + 2)


def test_random_keys_in_callbacks_and_choices(steps, devices):
    """A callback gets the key's integers, as in functions that jax compiles."""
    add, _, total = steps
    draw = jax.jit(lambda key: jax.random.normal(key, (4,)), in_shardings=on(devices[4]), out_shardings=on(devices[4]))
    seen = []

    @pw.program
    def step(key, keys, x):
        first, second = jax.random.split(key)
        numbers = jax.pure_callback(lambda k: (seen.append(np.asarray(k).tolist()), np.asarray(k)[:, 0].astype(np.float32))[1],
                                    jax.ShapeDtypeStruct((3,), np.float32), keys)
        io_callback(lambda k: seen.append(np.asarray(k).tolist()), None, key, ordered=True)
        chosen = pw.cond(total(x) > 0, lambda a, b, v: (a, draw(b)), lambda a, b, v: (b, add(v)), first, second, x)
        return chosen, numbers, draw(pw.switch(1, [lambda k: k, jax.random.clone], chosen[0]))

    key, keys = jax.random.key(5), jax.random.split(jax.random.key(6), 3)
    for x in (X, -X):
        ours, plain = step(key, keys, x), step.__wrapped__(key, keys, x)
        assert ours[0][0].dtype == plain[0][0].dtype == key.dtype
        np.testing.assert_array_equal(jax.random.key_data(ours[0][0]), jax.random.key_data(plain[0][0]))
        for mine, theirs in zip(jax.tree.leaves((ours[0][1], ours[1:])), jax.tree.leaves((plain[0][1], plain[1:]))):
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
    jax.effects_barrier()
    numbers = [jax.random.key_data(keys).tolist(), jax.random.key_data(key).tolist()]
    assert sorted(map(str, seen)) == sorted(map(str, numbers * 4))
