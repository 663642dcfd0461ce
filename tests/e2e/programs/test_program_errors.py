"""Passes bad input to programs: each error is raised at the user's line, names the function and the remedy, and leaves nothing behind."""

import gc
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw
from pathways._client import connection
from pathways._cluster import admin

X = np.ones(4, np.float32)


def raised(call):
    """Returns the error raised by call(), its text with notes, and the lines of this file in its traceback."""
    with pytest.raises(Exception) as info:
        call()
    lines = [frame.line for frame in traceback.extract_tb(info.value.__traceback__) if frame.filename == __file__]
    return info.value, "\n".join([str(info.value), *getattr(info.value, "__notes__", [])]), lines


def held():
    """Returns the number of arrays in this process, and of those that the controller holds for this client."""
    gc.collect()
    probe = jax.device_put(X, jax.devices()[0]).block_until_ready()  # earlier drops have arrived then
    report = admin.status(connection._get_endpoint().controller)
    del probe
    return len(jax.live_arrays()), max(client["arrays"] for client in report["clients"])


@pytest.fixture(autouse=True)
def nothing_stays_behind(devices):
    before = held()
    yield
    after = held()
    assert after[0] <= before[0] and after[1] <= before[1]


def test_devices_of_a_released_slice():
    slices = pw.make_virtual_device_set()
    one = slices.add_slice(devices=1)
    double = jax.jit(lambda x: x * 2, in_shardings=SingleDeviceSharding(one.devices[0]))

    @pw.program
    def step(x):
        return double(x)

    np.testing.assert_array_equal(np.asarray(step(X)), X * 2)
    slices.release()
    for call in (lambda: np.asarray(step(X)), lambda: np.asarray(pw.program(step)(X))):
        _, text, lines = raised(call)
        assert "released" in text and "add a slice" in text and "device 1048" in text and "of step: " in text, text
        assert any("step" in line for line in lines)
    with pytest.raises(pw.SliceError, match="add a slice"):
        one.devices


def test_a_slice_that_cannot_fit():
    error, text, _ = raised(lambda: pw.make_virtual_device_set().add_slice(devices=1000))
    assert isinstance(error, pw.InfeasibleSlice) and "the nearest fit is 4 devices" in text


def test_a_value_of_one_call_kept_for_the_next(devices):
    kept = []

    @pw.program
    def step(x):
        kept.append(x + 1)
        return x + kept[0]

    step(X)
    error, text, lines = raised(lambda: step(np.ones(4, np.int32)))  # traced again, with the state that the first trace left
    assert isinstance(error, jax.errors.UnexpectedTracerError), text
    assert "program step uses a traced value of an earlier call" in text and "test_program_errors.py:" in text and "pass it as an argument" in text
    assert any("step(" in line for line in lines)
    kept.clear()


def test_a_program_that_calls_itself(devices):
    left = [2]

    @pw.program
    def step(x):
        if left[0] == 0:
            return x
        left[0] -= 1
        return step(X) + x  # part of this program, though it is no argument

    np.testing.assert_array_equal(np.asarray(step(X)), X * 3)

    @pw.program
    def endless(x):
        return endless(X) + x

    error, text, lines = raised(lambda: endless(X))
    assert isinstance(error, RecursionError) and "program endless calls itself" in text, text
    assert any("endless(X)" in line for line in lines)


def test_a_tracer_that_leaked(devices):
    leaked = []

    @pw.program
    def step(x):
        leaked.append(x * 2)
        return x

    step(X)
    error, text, lines = raised(lambda: np.asarray(leaked[0] + 1))
    assert isinstance(error, jax.errors.UnexpectedTracerError) and "step" in text
    leaked.clear()


def test_shapes_and_types_that_do_not_fit(devices):
    product = jax.jit(lambda a, b: a @ b)

    @pw.program
    def step(a, b):
        return product(a, b)

    error, text, lines = raised(lambda: step(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)))
    assert isinstance(error, TypeError) and "(3,) and (2,)" in text
    assert any("product(a, b)" in line for line in lines)
    error, text, _ = raised(lambda: step(np.ones((2, 3), np.float32), np.array(["text"])))
    assert isinstance(error, TypeError) and "U4" in text, text
    error, text, _ = raised(lambda: step(object(), X))
    assert isinstance(error, TypeError) and "object" in text


def test_arrays_of_another_backend_are_brought_and_deleted_ones_refused(devices, cpu):
    @pw.program
    def step(x):
        return x * 2

    with jax.default_device(cpu):
        theirs = jnp.asarray(X) + 1
    for one in (theirs, jax.device_put(theirs, cpu)):
        doubled = step(one)
        np.testing.assert_array_equal(np.asarray(doubled), (X + 1) * 2)
        assert doubled.devices() == {devices[0]}
    gone = jax.device_put(X, devices[0])
    gone.delete()
    error, text, lines = raised(lambda: step(gone))
    assert "deleted" in text and any("step(gone)" in line for line in lines)


def test_an_exception_inside_leaves_the_program_usable(devices):
    angry = [True]

    @pw.program
    def step(x):
        y = jnp.sin(x)
        if angry[0]:
            raise KeyError("mine")
        return y

    error, _, lines = raised(lambda: step(X))
    assert isinstance(error, KeyError) and any("mine" in line for line in lines)
    angry[0] = False
    np.testing.assert_allclose(np.asarray(step(X)), np.sin(X), rtol=1e-6)


def test_a_compile_error_in_node_37(devices):
    good = jax.jit(lambda x: x + 1.0)
    bad = jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))

    @pw.program
    def step(x):
        for _ in range(36):
            x = good(x)
        return bad(x)

    x = jax.device_put(X, devices[0])
    error, text, lines = raised(lambda: step(x))
    assert isinstance(error, jax.errors.JaxRuntimeError) and "no_such_target" in text
    assert "[at node 37 of step: test_program_errors.py:" in text and "in step, <lambda> on device 0]" in text
    assert any("step(x)" in line for line in lines)
    np.testing.assert_array_equal(np.asarray(pw.program(lambda x: good(x))(x)), X + 1)


@pytest.mark.parametrize("inside", ["branch", "mesh"])
def test_a_compile_error_in_a_branch_and_over_a_mesh_whose_results_are_where_the_compiler_says(devices, inside):
    rows = NamedSharding(Mesh(np.array(devices[4:6]), ("x",)), P("x"))
    where = SingleDeviceSharding(devices[5]) if inside == "branch" else rows
    bad = jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x), in_shardings=where)

    @pw.program
    def step(x):
        return pw.cond(x[0] > 0, bad, jnp.sin, x) if inside == "branch" else bad(x)

    _, text, lines = raised(lambda: step(X))
    assert "no_such_target" in text and "test_program_errors.py:" in text and any("step(X)" in line for line in lines)
    assert ("<lambda> on device 5" if inside == "branch" else "in program step") in text, text
    assert "device 5" in text if inside == "branch" else "on devices 4-5" in text, text


def test_what_is_wrong_with_an_argument_is_said(devices):
    @pw.program(static_argnums=1)
    def step(x, how):
        return x

    for call, said in ((lambda: step(X, [1]), "static argument 1 of program step, [1]"),
                       (lambda: step({"a": [X, "text"]}, 1), "argument 0['a'][1] of program step, 'text'"),
                       (lambda: step(x=np.array(["text"]), how=1), "argument 'x' of program step")):
        error, text, lines = raised(call)
        assert isinstance(error, TypeError) and said in text, text
        assert any("step(" in line for line in lines)


def test_what_is_donated_is_one_array_that_is_there(devices):
    @pw.program(donate_argnums=(0, 1))
    def step(a, b):
        return a + b

    one, two = (jax.device_put(X, devices[0]) for _ in range(2))
    step(one, two)
    error, text, lines = raised(lambda: step(one, jax.device_put(X, devices[0])))
    assert "deleted" in text and "argument 0 of program step: an earlier call took it" in text and any("step(one" in line for line in lines)

    @pw.program(donate_argnums=0)
    def twice(a, b):
        return a * b

    one = jax.device_put(X, devices[0])
    error, text, lines = raised(lambda: twice(one, one))
    assert isinstance(error, ValueError) and "the same array is argument 1 too: pass a copy" in text, text


def test_what_it_closes_over_has_to_be_there(devices):
    gone = jax.device_put(X, devices[0])
    gone.delete()

    @pw.program
    def step(x):
        return x + gone

    _, text, lines = raised(lambda: step(X))
    assert "deleted" in text and "program step uses it from the surrounding code" in text and any("step(X)" in line for line in lines)


def test_what_is_no_program_is_refused_where_it_is_decorated(devices):
    def generator(x):
        yield x

    for call, said in ((lambda: pw.program(generator), "a function that returns arrays"), (lambda: pw.program(3), "a function that returns arrays"),
                       (lambda: pw.program(lambda x: x, static_argnums=2), "static_argnums=(2,)"),
                       (lambda: pw.program(lambda x: x, static_argnames="y"), "'y'")):
        error, text, lines = raised(call)
        assert isinstance(error, (TypeError, ValueError)) and said in text and any("pw.program(" in line for line in lines), text


def test_arrays_and_devices_of_a_client_that_jax_has_forgotten(run_script):
    done = run_script("""
import jax, jax.extend.backend, numpy as np
import pathways as pw
from jax.sharding import SingleDeviceSharding
there = jax.devices()[0]
old = jax.device_put(np.arange(4, dtype=np.float32), there)
double = pw.program(lambda x: x * 2)
print(np.asarray(double(old)).tolist())
jax.clear_caches()
jax.extend.backend.clear_backends()
others = [jax.device_put(np.ones(4, np.float32), jax.devices()[0]) for _ in range(8)]  # of the numbers that arrays had before
print(np.asarray(double(old)).tolist(), np.asarray(jax.device_put(old, jax.devices()[1])).tolist())
try:
    pw.program(lambda x: jax.jit(lambda y: y, in_shardings=SingleDeviceSharding(there))(x))(others[0])
except ValueError as error:
    print(error)
""")
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "[0.0, 2.0, 4.0, 6.0]" and second == first + " [0.0, 1.0, 2.0, 3.0]"
    assert "of another backend than the program's" in third


def test_a_computation_over_devices_of_two_backends(devices, cpu):
    there = jax.jit(lambda x: x + 1, in_shardings=SingleDeviceSharding(cpu))

    @pw.program
    def step(x):
        return there(x)

    error, text, _ = raised(lambda: step(X))
    assert isinstance(error, ValueError) and "of another backend" in text and "in program step, at test_program_errors.py:" in text, text
