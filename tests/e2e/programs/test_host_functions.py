"""Colocated functions as nodes of programs: they run on the hosts of their devices, between compiled functions, within one run of the program.

The cluster has two hosts of four devices. Values are compared with those of jax in this process.
"""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli import operator_at
from colocated_helper import halve, pid
from conftest import PATIENCE, assert_same
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw
from pathways._client import connection
from pathways._cluster import admin

colocated_python = pytest.importorskip("jax.experimental.colocated_python")
if jax.__version_info__ < (0, 9, 1):
    pytest.skip("hosts run colocated functions with jax 0.9.1 or newer", allow_module_level=True)
if os.environ.get("PATHWAYS_DOOR") == "pjrt":
    pytest.skip("colocated functions do not go through the PJRT door", allow_module_level=True)

X = np.arange(16, dtype=np.float32)


def rows(devices):
    return NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def on_hosts(function):
    """Returns a colocated function that applies `function` to each shard, as a numpy array."""
    def each(x):
        import jax
        import numpy as np

        shards = [jax.device_put(np.asarray(function(np.asarray(s.data)), s.data.dtype), s.device) for s in x.addressable_shards]
        return jax.make_array_from_single_device_arrays(x.shape, x.sharding, shards)

    each.__name__ = function.__name__
    return colocated_python.colocated_python(each).specialize(out_specs_fn=like)


def raised(call):
    """Returns the error raised by call(), with its notes."""
    with pytest.raises(Exception) as info:
        jax.block_until_ready(call())
    return info.value, "\n".join([str(info.value), *getattr(info.value, "__notes__", [])])


def test_between_compiled_functions_over_two_hosts(devices, cpu):
    where = rows(devices)
    add, square = jax.jit(lambda x: x + 1, out_shardings=where), jax.jit(lambda x: x * x)
    on_host = on_hosts(halve)

    @pw.program
    def step(x):
        y = on_host(add(x))
        return square(y), add(on_host(y))

    ours = step(jax.device_put(X, where))
    with jax.default_device(cpu):
        y = halve(jnp.asarray(X) + 1)
        theirs = y * y, halve(y) + 1
    assert_same(ours, theirs)
    for _ in range(5):
        ours, theirs = step(ours[1]), ((halve(theirs[1] + 1)) ** 2, halve(halve(theirs[1] + 1)) + 1)
        assert_same(ours, theirs)
    assert all(one.sharding.is_equivalent_to(where, 1) for one in ours)


def test_it_runs_in_the_process_that_calls_outside_of_programs_reach(devices):
    x = jax.device_put(np.zeros(8, np.float32), rows(devices))
    where = on_hosts(pid)
    outside = np.asarray(where(x))
    inside = np.asarray(pw.program(lambda x: where(jax.jit(lambda v: v * 2)(x)))(x))
    np.testing.assert_array_equal(inside, outside)
    assert len(set(inside.tolist())) == 2 and os.getpid() not in inside


def test_no_byte_of_an_array_passes_controller_or_client(devices):
    where = rows(devices)
    make = jax.jit(lambda s: jnp.full(1 << 20, s), out_shardings=where)
    total = jax.jit(lambda x: x.reshape(8, -1).sum(1))
    on_host = on_hosts(halve)
    step = pw.program(lambda s: total(on_host(make(s))))
    np.testing.assert_allclose(np.asarray(step(np.float32(4))), np.full(8, 2 * (1 << 17)))
    before = admin.status(connection._get_endpoint().controller)["array_bytes"]
    np.testing.assert_allclose(np.asarray(step(np.float32(6))), np.full(8, 3 * (1 << 17)))
    assert admin.status(connection._get_endpoint().controller)["array_bytes"] - before < 10_000


def test_a_pipeline_begins_with_a_function_that_has_no_arguments(devices):
    """Each host reads its own part."""
    where = rows(devices)

    def read():
        import jax
        import numpy as np

        mine = [d for d in where.mesh.devices.flat if d.process_index == jax.process_index()]
        shards = [jax.device_put(np.full(2, d.id, np.float32), d) for d in mine]
        return jax.make_array_from_single_device_arrays((16,), where, shards)

    read = colocated_python.colocated_python(read).specialize(devices=devices, out_specs_fn=lambda: jax.ShapeDtypeStruct((16,), np.float32, sharding=where))
    double = jax.jit(lambda x: 2 * x)
    result = pw.program(lambda: double(read()))()
    np.testing.assert_array_equal(np.asarray(result), 2 * np.repeat([d.id for d in devices], 2))


def test_a_training_pipeline_begins_with_an_input_stage_on_each_host(devices):
    optax = pytest.importorskip("optax")
    where = rows(devices)

    def batch(number, first, count):
        x = np.sin(100 * number + np.arange(4 * first, 4 * (first + count), dtype=np.float32)).reshape(count, 4)
        return x, np.cos(x)

    @colocated_python.colocated_python
    def read(number):
        import jax
        import numpy as np

        parts = [(batch(int(s.data[0]), 2 * s.index[0].start, 2), s.device) for s in number.addressable_shards]
        return tuple(jax.make_array_from_single_device_arrays((16, 4), where, [jax.device_put(part[i], device) for part, device in parts])
                     for i in range(2))

    spec = jax.ShapeDtypeStruct((16, 4), np.float32, sharding=where)
    read = read.specialize(out_specs_fn=lambda number: (spec, spec))
    layer = lambda w, x: jnp.tanh(x @ w)
    pipeline = pw.pipeline([layer, layer], loss=lambda out, y: ((out - y) ** 2).mean(), optimizer=optax.sgd(0.1), stages=[devices[0], devices[4]],
                           microbatches=2, donate=False)
    params = [np.eye(4, dtype=np.float32), np.ones((4, 4), np.float32)]
    state = other = pipeline.init(params, *batch(0, 0, 16))

    @pw.program
    def step(state, number):
        x, y = read(number)
        return pipeline.step(state, x, y)

    for number in range(3):
        state, loss = step(state, jax.device_put(np.full(8, number, np.int32), where))
        other, expected = pipeline.step(other, *batch(number, 0, 16))
        assert_same(loss, expected, rtol=1e-5)
    assert_same(state, other, rtol=1e-5, atol=1e-6)


def test_specified_arguments_are_moved_to_where_the_function_wants_them(devices, islands):
    here, there = rows(islands[0]), rows(islands[1])
    spec = jax.ShapeDtypeStruct((16,), np.float32, sharding=there)
    on_host = on_hosts(pid).specialize(in_specs=((spec,), {}))
    step = pw.program(lambda x: (on_host(x), x + 1))
    pids, more = step(jax.device_put(X, here))
    outside = on_hosts(pid)(jax.device_put(X, there))
    np.testing.assert_array_equal(np.asarray(pids), np.asarray(outside))
    np.testing.assert_array_equal(np.asarray(more), X + 1)
    np.testing.assert_array_equal(np.asarray(on_host(jax.device_put(X, there))), np.asarray(outside), "outside of the program too")


def test_on_slices(devices):
    with pw.make_virtual_device_set() as slices:
        first, second = slices.add_slice(devices=2), slices.add_slice(devices=2)
        a, b = rows(first.devices), rows(second.devices)
        add, square = jax.jit(lambda x: x + 1, out_shardings=a), jax.jit(lambda x: x * x, in_shardings=b)
        on_host = on_hosts(halve)
        step = pw.program(lambda x: square(on_host(jax.device_put(on_host(add(x)), b))))
        result = step(jax.device_put(X, a))
        np.testing.assert_allclose(np.asarray(result), ((X + 1) / 4) ** 2)
        assert result.sharding.device_set == set(second.devices)
        learned = colocated_python.colocated_python(lambda x: x)  # its hosts tell the shardings of its results
        for alone, expected in ((on_host(jax.device_put(X, b)), X / 2), (learned(jax.device_put(X, b)), X),
                                (learned(jax.device_put(X, second.devices[1])), X)):
            np.testing.assert_allclose(np.asarray(alone), expected)
            assert alone.sharding.device_set <= set(second.devices)


MOVES = """
import os, sys, jax, numpy as np
from jax.experimental import colocated_python
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw

one = pw.make_virtual_device_set().add_slice(devices=2)
where = NamedSharding(Mesh(np.array(one.devices), "x"), P("x"))

@colocated_python.colocated_python
def host(x):
    import jax, numpy as np
    shards = [jax.device_put(np.asarray(s.data) + 10 * jax.process_index(), s.device) for s in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, shards)

host = host.specialize(out_specs_fn=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding))
step = pw.program(lambda x: host(jax.jit(lambda v: v + 1)(x)))
x = jax.device_put(np.zeros(2, np.float32), where)
for _ in sys.stdin:
    inside, alone = np.asarray(step(x)), np.asarray(host(x))
    assert (inside == alone + 1).all(), (inside, alone)
    print(int(inside[0]) // 10, *sorted(set(one.placement()["hosts"])), flush=True)
"""


def test_it_follows_a_slice_that_moves(tmp_path):
    with operator_at(tmp_path) as command:
        address = command("up", "--hosts", "2", "--devices", "2", "--host-python", sys.executable)["address"]
        client = command.program(address, MOVES)

        def ask():
            client.stdin.write("\n")
            client.stdin.flush()
            line = client.stdout.readline().split()
            assert line, client.communicate()
            return line

        number, host = ask()
        assert host == f"host{number}"
        assert command("drain", host)["stuck"] == []
        after, other = ask()
        assert other == f"host{after}" != host
        client.communicate(timeout=PATIENCE)
        assert client.returncode == 0


def test_an_object_keeps_its_state_from_run_to_run(devices):
    x = jax.device_put(np.float32(1), devices[0])

    @colocated_python.colocated_python_class
    class Counter:
        def __init__(self):
            self.total = 0

        def add(self, x):
            self.total = self.total + x
            return self.total

    counter = Counter()
    add = counter.add.specialize(out_specs_fn=like)
    step = pw.program(lambda x: add(jax.jit(lambda v: v * 2)(add(x))))
    assert [float(step(x)) for _ in range(3)] == [3, 12, 39]
    assert float(counter.add(x)) == 40


def test_functions_of_runs_and_calls_of_one_thread_run_in_order(devices):
    x = jax.device_put(np.float32(0), devices[0])

    def note(x):
        import builtins

        builtins.notes = getattr(builtins, "notes", 0) + 1
        return x * 0 + builtins.notes

    note = colocated_python.colocated_python(note).specialize(out_specs_fn=like)
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 2000, lambda _, v: jnp.sin(v), x + jnp.zeros(1000)).sum() * 0)
    step = pw.program(lambda x: (note(slow(x)), note(x)))
    first, second, third = step(x), note(x), step(x)
    assert [float(n) for n in (*first, second, *third)] == [1, 2, 3, 4, 5]


def test_in_a_branch(devices):
    here = SingleDeviceSharding(devices[0])
    on_host, total = on_hosts(halve), jax.jit(lambda x: x.sum(), in_shardings=here)
    add = jax.jit(lambda x: x + 1, in_shardings=here, out_shardings=here)

    @pw.program
    def step(x):
        y = on_host(add(x))
        return on_host(pw.cond(total(y) > 30, lambda v: add(on_host(v)), add, y))

    def expected(x):
        y = (x + 1) / 2
        return (y / 2 + 1 if y.sum() > 30 else y + 1) / 2

    for scale in (1, 0):
        np.testing.assert_allclose(np.asarray(step(scale * X)), expected(scale * X))


def test_a_function_without_results_runs_too(devices, tmp_path):
    note = tmp_path / "note"

    def write(x):
        with open(note, "w") as file:
            file.write(str(float(x[0])))

    write = colocated_python.colocated_python(write).specialize(out_specs_fn=lambda x: ())

    @pw.program
    def step(x):
        y = jax.jit(lambda v: v + 1)(x)
        write(y)
        return y

    x = jax.device_put(X, devices[0])
    jax.block_until_ready(step(x))
    np.asarray(on_hosts(halve)(x))  # after it, in the order of this thread's calls
    assert note.read_text() == "1.0"


def test_an_exception_fails_the_run_with_its_traceback_its_host_and_the_line_of_the_call(devices):
    where = SingleDeviceSharding(devices[4])

    def explode(x):
        raise ZeroDivisionError("on purpose")

    explode = colocated_python.colocated_python(explode).specialize(out_specs_fn=like)
    add = jax.jit(lambda x: x + 1, in_shardings=where)

    @pw.program
    def step(x):
        y = add(x)
        return add(explode(y)), y * 2  # the line

    failed, fine = step(X)
    _, text = raised(lambda: failed)
    line = next(i for i, one in enumerate(open(__file__), 1) if one.endswith("# the line\n"))
    assert "ZeroDivisionError: on purpose" in text and "in explode" in text, text
    assert text.count("test_host_functions.py") >= 2 and "of island 'island1'" in text and "in process" in text, text
    assert f"test_host_functions.py:{line} in step, explode on the hosts of device 4]" in text, text
    np.testing.assert_array_equal(np.asarray(fine), 2 * (X + 1), "what does not depend on it")
    np.testing.assert_array_equal(np.asarray(pw.program(lambda x: add(x))(X)), X + 1)


def test_the_program_shows_the_node_its_devices_and_its_costs(devices):
    where = rows(devices[:2])
    on_host = on_hosts(halve)

    @pw.program
    def step(x):
        return jax.jit(lambda v: v + 1)(on_host(x))

    view = step.lower(jax.device_put(X, where))
    text = view.as_text()
    assert "1 computations (1 different), 0 transfers, 1 functions on hosts, 1 results" in text, text
    assert "= function halve(%0)  # on the hosts of its devices, 128 B, test_host_functions.py:" in text, text
    use = view.per_device()[devices[1]]
    assert (use.host_functions, use.host_bytes, use.computations) == (1, 64, 1)
    assert "1 functions on its host with 64 B" in text
    assert 'data-kind="function"' in view.as_svg()


def test_a_call_that_cannot_be_a_node_says_why(devices):
    x = jax.device_put(X, devices[0])
    bare = colocated_python.colocated_python(lambda x: x)
    _, text = raised(lambda: pw.program(lambda x: bare(x))(x))
    assert "whose results are not known" in text and "specialize(out_specs_fn=...)" in text, text
    on_host = on_hosts(halve)
    _, text = raised(lambda: pw.program(lambda x: jax.jit(lambda v: on_host(v))(x))(x))
    assert "inside of jax.jit" in text and "Call it in the program itself" in text, text
    elsewhere = bare.specialize(out_specs_fn=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(devices[1])))
    _, text = raised(lambda: pw.program(lambda x: elsewhere(x))(x))
    assert "result 0 of" in text and "is to be on device 1, and the function runs on device 0" in text, text
    by_mesh = bare.specialize(out_specs_fn=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(x.sharding.mesh, P())))
    _, text = raised(lambda: pw.program(lambda x: by_mesh(x))(x))
    assert "the shardings of its arguments are None" in text, text
    wide = bare.specialize(in_specs=((jax.ShapeDtypeStruct((3,), np.float32, sharding=SingleDeviceSharding(devices[0])),), {}), out_specs_fn=like)
    _, text = raised(lambda: pw.program(lambda x: wide(x))(x))
    assert "is specialized for float32[3], and a program calls it with float32[16]" in text, text
    _, text = raised(lambda: pw.program(lambda k: on_host(k))(jax.device_put(jax.random.key(1), devices[0])))
    assert "jax.random.key_data" in text, text


TRACED = """
import jax, numpy as np
from jax.experimental import colocated_python
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw
where = NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
def tokenize(x):
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, [s.data + 1 for s in x.addressable_shards])
tokenize = colocated_python.colocated_python(tokenize).specialize(out_specs_fn=lambda x: x)
step = pw.program(lambda x: jax.jit(lambda v: v * 2)(tokenize(x)))
x = jax.device_put(np.zeros(2, np.float32), where)
step(x).block_until_ready()
print("ready", flush=True)
while True:
    step(x).block_until_ready()
"""


def test_a_trace_shows_the_node_on_each_of_its_hosts(recorder):
    recorder.start("2x1x1", TRACED, "--host-python", sys.executable)
    recorder.record(1, "--check")
    events = recorder.events
    runs = [event for event in events if event["ph"] == "X" and event["cat"] == "host" and event["name"] == "tokenize"]
    assert len({event["pid"] for event in runs}) == 2, "on both hosts"
    asked = {event["args"]["op"] for event in events if event["ph"] in "iX" and event["cat"] == "request" and event["name"] == "tokenize"}
    assert asked & {event["args"]["op"] for event in runs}, "the controller's events have the same ops"


def test_where_the_operator_refuses_functions_the_program_names_the_node(run_as_operator):
    done = run_as_operator(TRACED, "2x1x1")
    assert done.returncode != 0
    said = done.stderr
    assert "PERMISSION_DENIED" in said and "runs no Python functions" in said and "tokenize on the hosts of devices 0-1" in said, said
