"""Tests the order of callbacks of programs: ordered ones run in their order, prints before their computation's result is reported ready."""

import contextlib
import io
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from conftest import eventually


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def test_ordered_callbacks_keep_their_order():
    seen = []

    @jax.jit
    def f(x):
        for i in range(10):
            io_callback(lambda v, i=i: seen.append((int(v), i)), None, x, ordered=True)
        return x

    for call in range(5):
        f(np.int32(call))
    jax.effects_barrier()
    assert seen == [(call, i) for call in range(5) for i in range(10)]


def test_ordered_callbacks_inside_scan():
    seen = []

    def body(carry, x):
        io_callback(lambda v: seen.append(int(v)), None, x, ordered=True)
        return carry, x

    jax.jit(lambda xs: jax.lax.scan(body, 0, xs))(np.arange(20))
    jax.effects_barrier()
    assert seen == list(range(20))


def test_ordered_debug_print_in_a_loop(capfd):
    jax.jit(lambda: jax.lax.fori_loop(0, 5, lambda i, c: (jax.debug.print("{}", i, ordered=True), c)[1], 0))()
    jax.effects_barrier()
    assert capfd.readouterr().out.split() == list("01234")


def test_ordered_callbacks_over_a_sharded_array(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
    seen = []

    def program(v):
        io_callback(lambda a: seen.append(("first", a.tolist())), None, v, ordered=True)
        y = io_callback(lambda a: seen.append(("second", a.tolist())) or np.asarray(a) + 1, like(v), v * 2, ordered=True)
        return v + y

    np.testing.assert_array_equal(np.asarray(jax.jit(program)(x)), np.arange(8) * 3 + 1)
    jax.effects_barrier()
    assert seen == [("first", np.arange(8.0).tolist()), ("second", (np.arange(8.0) * 2).tolist())]


def test_ordered_effects_over_a_mesh(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    x = jax.device_put(np.arange(4, dtype=np.int32), NamedSharding(mesh, P("x")))
    seen = []
    f = jax.jit(lambda v, i: (io_callback(lambda a, i: seen.append((int(i), np.asarray(a).tolist())), None, v, i, ordered=True), v + 1)[1])
    for i in range(4):
        x = f(x, i)
    jax.effects_barrier()
    assert seen == [(i, [i, i + 1, i + 2, i + 3]) for i in range(4)]


@contextlib.contextmanager
def printed():
    """Captures the lines printed within the block; they are readable after it ends."""
    lines = []
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        yield lines
    lines += out.getvalue().split()


@pytest.mark.parametrize("ordered", [False, True])
def test_a_call_that_only_prints_has_printed_when_it_returns(cpu, ordered):
    """This is as on jax's own cpu: such a call has no result that a reader could wait for."""
    tell = jax.jit(lambda x: jax.debug.print("{}", x, ordered=ordered))
    choose = jax.jit(lambda x: jax.lax.cond(x % 2 == 0, tell, lambda v: None, x))

    def calls():
        seen = []
        for i in range(10):
            for function in (tell, choose):
                with printed() as lines:
                    function(np.int32(i))
                seen.append(lines)
        return seen

    ours = calls()
    assert ours == [lines for i in range(10) for lines in ([str(i)], [str(i)] if i % 2 == 0 else [])]
    with jax.default_device(cpu):
        assert ours == calls()


@pytest.mark.parametrize("ordered", [False, True])
def test_loops_and_choices_outside_of_jit_have_printed_when_they_return(cpu, ordered):
    def tell(v):
        jax.debug.print("{}", v, ordered=ordered)
        return v + 1

    loops = {
        "while": lambda x: jax.lax.while_loop(lambda v: v % 4 != 3, tell, x),
        "scan": lambda x: jax.lax.scan(lambda carry, v: (tell(carry), v), x, jnp.arange(3)),
        "cond": lambda x: jax.lax.cond(x % 8 == 0, tell, lambda v: v, x),
    }

    def calls():
        seen = []
        for i in range(0, 40, 4):
            for loop in loops.values():
                with printed() as lines:
                    loop(jnp.int32(i))
                seen.append(sorted(lines, key=int))
        return seen

    ours = calls()
    assert ours[:6] == [["0", "1", "2"], ["0", "1", "2"], ["0"], ["4", "5", "6"], ["4", "5", "6"], []]
    with jax.default_device(cpu):
        assert ours == calls()


def test_a_print_over_a_mesh_has_printed_when_its_call_returns(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    tell = jax.jit(lambda x: jax.debug.print("{}", x.sum()))
    for i in range(5):
        with printed() as lines:
            tell(jax.device_put(np.full(4, i), NamedSharding(mesh, P("x"))))
        assert lines == [str(4 * i)]


READS = {
    "block": jax.block_until_ready,
    "one": lambda results: results[1].block_until_ready(),
    "asarray": lambda results: np.asarray(results[0]),
    "float": lambda results: float(results[1]),
    "after another computation": lambda results: float(jnp.sin(results[0])),
    "after a copy": lambda results: float(jax.device_put(results[0], results[0].device.client.devices()[-1])),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("ordered", [False, True])
def test_what_is_read_has_been_told(cpu, read, ordered):
    """Each line is printed slowly, so that a reader that does not wait would come first."""

    @jax.jit
    def program(x):
        jax.debug.callback(lambda v: threading.Event().wait(0.01), x, ordered=ordered)
        jax.debug.print("{}", x, ordered=ordered)
        return x * 2, x + 1

    def calls():
        with printed() as lines:
            for i in range(10):
                results = program(np.float32(i))
                read(results)
                print("read", i)
        return lines

    ours = calls()
    if ordered:
        assert ours == [text for i in range(10) for text in (f"{i}.0", "read", str(i))]
    with jax.default_device(cpu):
        assert ours == calls()


def test_what_prints_may_be_donated_or_dropped():
    step = jax.jit(lambda x: (jax.debug.print("{}", x[0]), x + 1)[1], donate_argnums=0)
    with printed() as lines:
        x = jnp.zeros(4)
        for _ in range(20):
            x = step(x)
        step(jnp.full(4, 99.0))  # its result is dropped
        assert float(x[0]) == 20
        jax.effects_barrier()
    assert sorted(lines, key=float) == [f"{i}.0" for i in (*range(20), 99)]


def test_a_function_that_a_program_calls_does_not_wait_for_prints(devices):
    """The program holds the device until the function ends."""
    tell = jax.jit(lambda x: jax.debug.print("{}", x))

    def function(v):
        tell(jax.device_put(v, devices[0]))
        print("called")

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        y = jax.jit(lambda x: (jax.debug.callback(function, x), x + 1)[1])(jax.device_put(np.float32(1), devices[0]))
        assert float(y) == 2 and "called" in out.getvalue()
        assert eventually(lambda: sorted(out.getvalue().split()) == ["1.0", "called"])  # a barrier waits for its own thread's effects only


def test_a_failing_print_is_told_at_the_barrier():
    class Unprintable(str):
        def format(self, *args, **kwargs):
            raise ValueError("this print fails")

    with printed() as lines:
        jax.jit(lambda x: jax.debug.print(Unprintable("{}"), x))(1.0)
    assert lines == []
    with pytest.raises(jax.errors.JaxRuntimeError, match="this print fails"):
        jax.effects_barrier()
