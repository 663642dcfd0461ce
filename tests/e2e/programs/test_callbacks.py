"""Tests callbacks: Python functions that programs on the cluster call."""

import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import E2E
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

X = np.arange(6, dtype=np.float32)
LONG = 600  # seconds: only a failing test waits that long
SCALAR = jax.ShapeDtypeStruct((), np.float32)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def sine(x):
    return jax.pure_callback(lambda v: np.sin(v), like(x), x, vmap_method="sequential")


# ------------------------------------------------------------------------------------------------ pure_callback
def test_pure_callback_inside_jit():
    np.testing.assert_allclose(jax.jit(lambda x: sine(x * 2) + 1)(X), np.sin(X * 2) + 1, rtol=1e-6)


def test_pure_callback_eagerly():
    np.testing.assert_allclose(sine(jnp.asarray(X)), np.sin(X), rtol=1e-6)


def test_several_operands_and_results_of_all_kinds():
    def function(a, b, flag):
        return {"sum": np.asarray(a + b), "flag": ~np.asarray(flag), "count": np.int32(a.size), "empty": np.zeros((0, 3), np.float32)}

    result = {"sum": jax.ShapeDtypeStruct((6,), np.float32), "flag": jax.ShapeDtypeStruct((2,), np.bool_),
              "count": jax.ShapeDtypeStruct((), np.int32), "empty": jax.ShapeDtypeStruct((0, 3), np.float32)}
    out = jax.jit(lambda a, b, f: jax.pure_callback(function, result, a, b, f))(X, X, np.array([True, False]))
    np.testing.assert_array_equal(out["sum"], X + X)
    assert out["flag"].tolist() == [False, True] and int(out["count"]) == 6 and out["empty"].shape == (0, 3)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "bfloat16", "float16", "complex64", "int4", "float8_e4m3fn"])
def test_types_go_in_and_come_out(dtype):
    x = jnp.asarray(np.arange(6) % 2, dtype)
    seen = []
    y = jax.jit(lambda v: jax.pure_callback(lambda a: seen.append(a.dtype) or a, like(v), v))(x)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))  # the call has run once its result is here
    assert seen[0] == x.dtype


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_every_vmap_method(method):
    def function(x, y):
        return np.asarray(x) + np.asarray(y)

    def call(x, y):
        return jax.pure_callback(function, like(x), x, y, vmap_method=method)

    np.testing.assert_array_equal(jax.jit(jax.vmap(call, in_axes=(0, None)))(X, np.float32(2)), X + 2)


def test_inside_scan_cond_and_while():
    _, ys = jax.jit(lambda x: jax.lax.scan(lambda c, v: (c + 1, sine(v)), 0, x))(X)
    np.testing.assert_allclose(ys, np.sin(X), rtol=1e-6)
    assert float(jax.jit(lambda x: jax.lax.cond(x > 0, sine, lambda v: v, x))(np.float32(1))) == pytest.approx(np.sin(1), rel=1e-6)
    total = jax.jit(lambda x: jax.lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] + sine(s[1])), (0, x)))(np.float32(1))
    expected = 1.0
    for _ in range(4):
        expected += np.sin(expected)
    assert float(total[1]) == pytest.approx(expected, rel=1e-5)


def test_with_a_custom_gradient():
    @jax.custom_jvp
    def f(x):
        return sine(x)

    f.defjvp(lambda primals, tangents: (f(primals[0]), jnp.cos(primals[0]) * tangents[0]))
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: f(x).sum()))(X), np.cos(X), rtol=1e-6)


def test_no_derivative_is_jax_s_error():
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(lambda x: sine(x).sum())(X)


def test_the_function_may_use_jax_and_the_cluster(devices):
    def function(v):
        return np.asarray(jax.jit(jnp.cos)(jax.device_put(np.asarray(v), devices[1])))

    np.testing.assert_allclose(jax.jit(lambda x: jax.pure_callback(function, like(x), x))(X), np.cos(X), rtol=1e-6)


def test_a_large_operand():
    x = np.random.default_rng(0).random(1 << 20, np.float32)
    np.testing.assert_array_equal(jax.jit(lambda v: jax.pure_callback(lambda a: np.asarray(a)[::-1], like(v), v))(x), x[::-1])


# ------------------------------------------------------------------------------------------------ errors
def test_an_exception_reaches_the_user():
    def fails(x):
        raise KeyError("text of the user's exception")

    with pytest.raises(Exception, match="text of the user's exception") as error:
        jax.jit(lambda x: jax.pure_callback(fails, SCALAR, x))(np.float32(1)).block_until_ready()
    assert "KeyError" in str(error.value) and "in fails" in str(error.value)


def test_a_wrong_shape_or_type_reaches_the_user():
    for wrong, text in [(np.zeros(3, np.float32), "Incorrect output shape"), (np.int32(1), "Incorrect output dtype")]:
        with pytest.raises(Exception, match=text):
            np.asarray(jax.jit(lambda x: jax.pure_callback(lambda v: wrong, SCALAR, x))(np.float32(1)))


def test_the_cluster_works_after_a_failure():
    test_an_exception_reaches_the_user()
    test_pure_callback_inside_jit()


# ------------------------------------------------------------------------------------------------ io_callback
def test_io_callback_returns_and_has_its_effect():
    seen = []

    def record(x):
        seen.append(float(x))
        return np.float32(len(seen))

    f = jax.jit(lambda x: io_callback(record, SCALAR, x))
    assert [float(f(np.float32(i))) for i in range(3)] == [1, 2, 3]
    assert seen == [0, 1, 2]


def test_an_effect_happens_although_nobody_reads_the_result():
    seen = []
    jax.jit(lambda x: (io_callback(lambda v: seen.append(int(v)), None, x), x)[1])(np.int32(5)).block_until_ready()
    jax.effects_barrier()
    assert seen == [5]


def test_a_failing_effect_surfaces_at_the_barrier_or_the_result():
    def fails(x):
        raise RuntimeError("effect failed 99")

    with pytest.raises(Exception, match="effect failed 99"):
        jax.jit(lambda x: io_callback(fails, SCALAR, x))(np.float32(1)).block_until_ready()
        jax.effects_barrier()
    try:
        jax.effects_barrier()
    except Exception:
        pass


# ------------------------------------------------------------------------------------------------ debug
def fails(*args):
    raise ValueError("this callback fails")


@pytest.mark.parametrize("ordered", [False, True])
def test_a_failure_is_told_once(ordered):
    failing = jax.jit(lambda x: jax.debug.callback(fails, x, ordered=ordered))
    failing(1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="this callback fails"):
        jax.effects_barrier()
    jax.effects_barrier()
    seen = []
    jax.jit(lambda x: jax.debug.callback(lambda a: seen.append(float(a)), x, ordered=ordered))(2.0)
    jax.effects_barrier()
    assert seen == [2.0]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("read", [jax.block_until_ready, float, lambda y: jax.block_until_ready([y, y])], ids=["block", "float", "block_all"])
def test_a_failure_that_a_read_has_raised_is_told(ordered, read):
    """Later programs run, and no barrier raises the error again."""
    seen = []

    def program(function):
        def body(x):
            jax.debug.callback(lambda a: seen.append(float(a)), x, ordered=ordered)
            return function(x)
        return jax.jit(body)

    failing, good = program(lambda x: jax.pure_callback(fails, SCALAR, x)), program(lambda x: x + 1)
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="this callback fails"):
            read(failing(1.0))
        assert float(good(2.0)) == 3
        jax.effects_barrier()
        assert 2.0 in seen
        seen.clear()


@pytest.mark.parametrize("ordered", [False, True])
def test_reading_an_error_does_not_wait_for_functions_that_wait_for_the_reader(devices, ordered):
    release = threading.Event()
    waiting = jax.jit(lambda x: jax.debug.callback(lambda a: release.wait(LONG), x, ordered=ordered))
    failing = jax.jit(lambda x: jax.pure_callback(fails, SCALAR, x))
    waiting(jax.device_put(1.0, devices[0]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="this callback fails"):
        float(failing(jax.device_put(1.0, devices[5])))
    release.set()
    jax.effects_barrier()


def test_a_failure_is_told_although_a_later_program_succeeded():
    def function(x):
        if x == 1:
            fails()

    program = jax.jit(lambda x: jax.debug.callback(function, x))
    for x in (1.0, 2.0, 3.0):
        program(x)
    with pytest.raises(jax.errors.JaxRuntimeError, match="this callback fails"):
        jax.effects_barrier()
    jax.effects_barrier()


def test_a_failure_whose_result_nobody_reads_is_told_at_the_barrier():
    jax.jit(lambda x: jax.pure_callback(fails, SCALAR, x))(1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="this callback fails"):
        jax.effects_barrier()


def test_debug_print(capfd):
    jax.jit(lambda x: jax.debug.print("x = {x}, sum = {}", x.sum(), x=x))(np.arange(3))
    jax.effects_barrier()
    assert capfd.readouterr().out == "x = [0 1 2], sum = 3\n"


def test_debug_print_eagerly(capfd):
    jax.debug.print("value {}", jnp.arange(2))
    jax.effects_barrier()
    assert "value [0 1]" in capfd.readouterr().out


def test_debug_callback_in_grad_vmap_and_remat():
    seen = []

    def f(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x)
        return x * x

    jax.jit(jax.grad(f))(np.float32(3))
    jax.jit(jax.vmap(f))(np.array([1, 2], np.float32))
    jax.jit(jax.grad(jax.checkpoint(f)))(np.float32(7))
    jax.effects_barrier()
    assert 3.0 in seen and {1.0, 2.0} <= set(seen) and 7.0 in seen


def test_a_failing_checkify_assertion():
    from jax.experimental import checkify

    def f(x):
        checkify.check(x > 0, "must be positive, got {x}", x=x)
        return x

    error, _ = jax.jit(checkify.checkify(f))(np.float32(-2))
    assert "must be positive, got -2" in error.get()


# ------------------------------------------------------------------------------------------------ sharded
def test_over_a_sharded_array_the_function_sees_the_whole(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
    shapes = []
    y = jax.jit(lambda v: jax.pure_callback(lambda a: shapes.append(a.shape) or np.asarray(a) * 2, like(v), v))(x)
    np.testing.assert_array_equal(np.asarray(y), np.arange(8) * 2)
    assert shapes == [(8,)]
    for shard in y.addressable_shards:  # every device has the result
        np.testing.assert_array_equal(np.asarray(shard.data), np.arange(8) * 2)
    np.testing.assert_array_equal(np.asarray(jax.device_put(y, islands[1][3])), np.arange(8) * 2)
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v, w: v + w)(x, y)), np.arange(8) * 3)


def test_inside_shard_map_it_is_called_for_every_shard(islands):
    mesh = Mesh(np.array(islands[1]), ("x",))
    lock, seen = threading.Lock(), []

    def function(v):
        with lock:
            seen.append(np.asarray(v).tolist())
        return np.asarray(v) + 1

    body = lambda v: jax.pure_callback(function, jax.ShapeDtypeStruct((2,), np.float32), v)
    y = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(y), np.arange(8) + 1)
    assert sorted(seen) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_debug_callback_inside_shard_map_and_over_a_mesh(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    seen = []

    def body(v):
        jax.debug.callback(lambda a: seen.append(np.asarray(a).tolist()), v)
        return v

    jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(np.arange(4)).block_until_ready()
    jax.effects_barrier()
    assert sorted(seen) == [[0], [1], [2], [3]]
    seen.clear()
    jax.jit(body)(jax.device_put(np.arange(4), NamedSharding(mesh, P("x")))).block_until_ready()
    jax.effects_barrier()
    assert seen == [[0, 1, 2, 3]]


def test_devices_that_have_called_back_meet_in_a_collective(islands):
    """The program continues on the thread that gets a call's answer, and waits there for other devices: their answers must not queue behind it."""
    mesh = Mesh(np.array(islands[0]), ("x",))
    seen = []

    def body(v):
        jax.debug.callback(lambda a: seen.append(int(a[0])), v)
        y = jax.pure_callback(lambda a: np.asarray(a) + 1, like(v), v)
        return jax.lax.psum(y, "x") + jax.lax.psum(v, "x")

    y = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P()))(np.arange(4, dtype=np.float32))
    assert np.asarray(y).tolist() == [16]
    jax.effects_barrier()
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.skipif(not hasattr(jax.sharding, "AxisType"), reason="meshes have no explicit axes in this jax")
def test_a_partitioned_callback_sees_shards(islands):
    explicit = (jax.sharding.AxisType.Explicit,)
    mesh = Mesh(np.array(islands[0]), ("x",), axis_types=explicit)
    x = jax.device_put(np.arange(8), NamedSharding(mesh, P("x")))
    seen = []

    @jax.jit
    def program(v):
        jax.debug.callback(lambda a: seen.append(np.asarray(a).tolist()), v * 2, partitioned=True)
        return v.sum()

    assert int(program(x)) == 28
    jax.effects_barrier()
    assert sorted(seen) == [[0, 2], [4, 6], [8, 10], [12, 14]]


def test_a_partitioned_callback_sees_shards_where_xla_decides_on_them(islands):
    mesh = Mesh(np.array(islands[0]).reshape(2, 2), ("x", "y"))
    x = jax.device_put(np.arange(16).reshape(4, 4), NamedSharding(mesh, P("x", "y")))
    seen = []

    @jax.jit
    def program(v):
        jax.debug.callback(lambda a, b: seen.append((np.asarray(a).tolist(), np.asarray(b).tolist())), v * 2, v.sum(1), partitioned=True)
        return v.sum()

    assert int(program(x)) == 120
    jax.effects_barrier()
    values = np.arange(16).reshape(4, 4)
    blocks = [values[i : i + 2, j : j + 2] * 2 for i in (0, 2) for j in (0, 2)]
    sums = [values.sum(1)[i : i + 2] for i in (0, 2) for j in (0, 2)]
    assert sorted(seen) == sorted((b.tolist(), s.tolist()) for b, s in zip(blocks, sums))


@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P("x", "y"), P(("x", "y")), P()])
def test_the_sharding_of_a_value_inside_jit(islands, spec):
    mesh = Mesh(np.array(islands[0]).reshape(2, 2), ("x", "y"))
    sharding = NamedSharding(mesh, spec)
    seen = []

    @jax.jit
    def program(v):
        jax.debug.inspect_array_sharding(v, callback=lambda s: seen.append(("argument", s)))
        w = jax.lax.with_sharding_constraint(v + 1, NamedSharding(mesh, P("y", "x")))
        jax.debug.inspect_array_sharding(w, callback=lambda s: seen.append(("constrained", s)))
        return w

    y = program(jax.device_put(np.zeros((4, 4), np.float32), sharding))
    found = dict(seen)
    assert found["argument"].is_equivalent_to(sharding, 2) and found["constrained"].is_equivalent_to(NamedSharding(mesh, P("y", "x")), 2)
    assert np.asarray(y).sum() == 16
    program(y * 0)
    assert len(seen) == 4  # once for each compilation


@pytest.mark.parametrize("aliases", [{}, {0: 0}], ids=["fresh", "aliased"])
def test_a_callback_writes_into_buffers(devices, aliases):
    from jax.experimental import buffer_callback

    seen = []

    def add(ctx, out, x, y):
        seen.append((ctx.stage, x.writeable, out.writeable, np.asarray(out).tolist()))
        np.asarray(out)[...] = np.asarray(x) + np.asarray(y)

    x = np.arange(3, dtype=np.float32)
    function = buffer_callback.buffer_callback(add, jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases=aliases)
    assert np.asarray(jax.jit(lambda v: function(v, v * 2))(x)).tolist() == [0, 3, 6]
    assert seen == [(buffer_callback.ExecutionStage.EXECUTE, False, True, [0, 1, 2] if aliases else [0, 0, 0])]


def test_jax_s_own_cpu_backend_keeps_its_callbacks(cpu):
    with jax.default_device(cpu):
        np.testing.assert_allclose(jax.jit(sine)(X), np.sin(X), rtol=1e-6)


def test_threads_call_back_at_the_same_time():
    failures = []

    def work(seed):
        try:
            f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) + seed, like(x), x))
            for _ in range(10):
                np.testing.assert_array_equal(f(X), X + seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(np.float32(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


# ------------------------------------------------------------------------------------------------ the way
BY_LANE = """
import numpy as np
import jax
import jax.numpy as jnp
import pathways as pw
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from pathways._client import connection
from pathways._cluster import admin

def passed():
    return admin.status(connection._endpoint.controller)["array_bytes"]

def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)

first, last = jax.devices()[0], jax.devices()[-1]
seen = []

@jax.jit
def make():
    return jnp.arange(1 << 20, dtype=jnp.float32)

@jax.jit
def call(x):
    y = jax.pure_callback(lambda v: np.asarray(v) + 1, like(x), x)
    small = jax.pure_callback(lambda v: np.asarray(v) * 2, like(x[:4]), x[:4])
    io_callback(lambda v: seen.append(("ordered", v.nbytes)), None, y, ordered=True)
    jax.debug.callback(lambda v: seen.append(("unordered", v.nbytes)), x)
    return y.sum() + small.sum()

half = jax.jit(lambda v: v / 2)

@pw.program
def between(x):
    y = jax.pure_callback(lambda v: np.asarray(v) * 2, like(x), half(x))
    return half(jax.device_put(y, last)).sum()

arrays = [jax.device_put(make(), device) for device in (first, last)]
whole = jax.jit(make, out_shardings=NamedSharding(Mesh(np.array(jax.devices()[4:]), ("x",)), P("x")))()
jax.block_until_ready([arrays, whole])
before = passed()
results = [call(x) for x in [*arrays, whole]]
results.append(between(arrays[0]))
jax.block_until_ready(results)
jax.effects_barrier()
print(passed() - before)
print(sorted(set(seen)), len(seen))
print(*(float(r) for r in results))
"""


def test_the_controller_sees_no_byte_of_a_callback(run_script):
    done = run_script(BY_LANE, PATHWAYS_LOCAL="2x1x4")
    assert done.returncode == 0, done.stderr
    passed, seen, results = done.stdout.splitlines()
    x = np.arange(1 << 20, dtype=np.float32)
    assert int(passed) == 0
    assert seen == f"[('ordered', {x.nbytes}), ('unordered', {x.nbytes})] 6"
    np.testing.assert_allclose([float(r) for r in results.split()], [(x + 1).sum() + 12] * 3 + [x.sum() / 2], rtol=1e-5)


KILLED = """
import os, signal
import numpy as np
import jax
jax.pure_callback(lambda v: os.kill(os.getpid(), signal.SIGKILL), jax.ShapeDtypeStruct((), np.float32), np.float32(1)).block_until_ready()
"""


def test_a_program_killed_during_a_call_leaves_the_cluster_usable(run_script, tmp_path):
    """The killed program has a device wait for an answer that will not come."""
    killed = tmp_path / "killed.py"
    killed.write_text(KILLED)
    done = run_script(f"""
import os, signal, subprocess, sys
import numpy as np
import jax
from conftest import eventually
from pathways._client import connection
from pathways._cluster import admin

f = jax.jit(lambda v: v + 1)
f(np.float32(1)).block_until_ready()
controller = connection._endpoint.controller
done = subprocess.run([sys.executable, {str(killed)!r}], env=dict(os.environ, PATHWAYS_ADDRESS=controller))
print(done.returncode == -signal.SIGKILL, eventually(lambda: len(admin.status(controller)["clients"]) == 1), float(f(np.float32(2))))
""", PATHWAYS_LOCAL="2x1x1", PYTHONPATH=os.pathsep.join([str(E2E), os.environ.get("PYTHONPATH", "")]))
    assert done.stdout.split() == ["True", "True", "3.0"], done.stderr
