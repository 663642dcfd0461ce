"""`pw.route` in programs: rows travel from host to host to the experts that they name, and back. The cluster has two islands of one host each, and
four devices per host. Values are compared with those of the same function outside of programs, on jax's own cpu, and with numpy."""

import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import PATIENCE, ROOT, assert_same, clean_environment
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from route_reference import reference  # noqa: E402

ROWS, WIDTH = 24, 3
RNG = np.random.default_rng(7)


def rows_of(devices, *axes):
    return NamedSharding(Mesh(np.array(devices), ("rows",)), P("rows", *axes))


def random_rows(*shape, dtype=np.float32):
    if np.dtype(dtype).kind in "iub":
        return RNG.integers(0, 2 if dtype == bool else 100, shape).astype(dtype)
    return RNG.normal(size=shape).astype(dtype)


def random_keys(experts, count=ROWS):
    return RNG.integers(-1, experts, count).astype(np.int32)


def whole(arrays):
    return np.concatenate([np.asarray(array) for array in arrays]) if isinstance(arrays, (tuple, list)) else np.asarray(arrays)


def check(program, x, where, experts, capacity):
    for ours, theirs in zip(program(x, where), reference(np.asarray(x), np.asarray(where), experts, capacity)):
        np.testing.assert_array_equal(whole(ours), theirs)


def routed(experts, capacity, **options):
    @pw.program
    def program(x, where):
        found = pw.route(x, where, experts, capacity=capacity, **options)
        return found.rows, found.slots, found.count, found.back(found.rows)

    return program


@pytest.mark.parametrize("capacity", [0, 1, 3, 24])
def test_rows_go_to_experts_on_two_islands_and_back(islands, capacity):
    experts = [islands[1][0], islands[0][3], islands[1][2], islands[0][0]]
    x = jax.device_put(random_rows(ROWS, WIDTH), rows_of(islands[0][:2]))
    program = routed(experts, capacity)
    for _ in range(3):  # the same program, whatever the values
        where = jax.device_put(random_keys(4), rows_of(islands[0][:2]))
        check(program, x, where, 4, capacity)
    rows, _, _, back = program(x, where)
    assert [one.sharding.device_set for one in rows] == [{device} for device in experts]
    assert back.sharding.is_equivalent_to(x.sharding, 2)


def test_one_array_over_a_mesh_of_both_islands(islands):
    mesh = Mesh(np.array([islands[0][1], islands[1][1], islands[1][3]]), ("expert",))
    x = jax.device_put(random_rows(ROWS, WIDTH), rows_of([islands[0][0], islands[1][0], islands[0][1], islands[1][1]]))
    program = routed(mesh, 4, per_shard=2)
    check(program, x, random_keys(6), 6, 4)
    assert program(x, random_keys(6))[0].sharding.is_equivalent_to(NamedSharding(mesh, P("expert")), 3)


def test_experts_and_sources_with_several_copies(islands):
    both = Mesh(np.array([*islands[0][:2], *islands[1][:2]]).reshape(2, 2), ("copy", "part"))  # each part on both islands
    x = jax.device_put(random_rows(ROWS, WIDTH), NamedSharding(both, P("part")))
    check(routed(NamedSharding(both, P("part")), 5), x, random_keys(2), 2, 5)
    check(routed(NamedSharding(both, P(("copy", "part"))), 5), x, random_keys(4), 4, 5)
    check(routed(NamedSharding(both, P()), 5, per_shard=3), x, random_keys(3), 3, 5)


def test_rows_that_are_cut_along_another_dimension_are_put_together_first(islands):
    mesh = Mesh(np.array([*islands[0][:2], *islands[1][:2]]).reshape(2, 2), ("a", "b"))
    x = jax.device_put(random_rows(ROWS, 4), NamedSharding(mesh, P("a", "b")))
    check(routed([islands[1][0], islands[0][0]], 9), x, random_keys(2), 2, 9)


def test_rows_without_a_place_and_keys_elsewhere(devices, islands):
    x, where = random_rows(ROWS, WIDTH), random_keys(2)
    check(routed([islands[1][0], islands[0][1]], 9), x, where, 2, 9)
    check(routed([islands[1][0], islands[0][1]], 9), jax.device_put(x, rows_of(islands[1])), jax.device_put(where, islands[0][2]), 2, 9)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.int8, np.uint32, bool, np.complex64, np.float16])
@pytest.mark.parametrize("shape", [(), (2, 0), (2, 3, 2)])
def test_rows_of_any_type_and_shape(islands, dtype, shape):
    x = jax.device_put(random_rows(ROWS, *shape, dtype=np.float32 if dtype == jnp.bfloat16 else dtype).astype(dtype), rows_of(islands[0]))
    check(routed([islands[1][0], islands[0][0]], 7), x, random_keys(2), 2, 7)


def test_many_bytes_go_in_pieces(islands):
    x = jax.device_put(random_rows(16384, 512), rows_of(islands[0]))  # 32 MiB, more than the engine keeps on the way to a host
    where = jax.device_put(random_keys(3, 16384), rows_of(islands[0]))
    check(routed([islands[1][0], islands[1][1], islands[0][0]], 8000), x, where, 3, 8000)


def test_compiled_functions_around_it(islands, cpu):
    """A layer with experts, as a user writes it: scores, the best expert, expert functions on their devices."""
    place = rows_of(islands[0])
    experts = [islands[0][1], islands[1][0], islands[1][1]]
    score = jax.jit(lambda w, x: (jnp.argmax(x @ w, axis=1).astype(jnp.int32), jax.nn.softmax(x @ w).max(axis=1)), in_shardings=(None, place))
    forward = [jax.jit(lambda w, x: jnp.tanh(x @ w), in_shardings=SingleDeviceSharding(one), out_shardings=SingleDeviceSharding(one)) for one in experts]
    join = jax.jit(lambda x, p, y: x + p[:, None] * y, in_shardings=place, out_shardings=place)

    def layer(gate, weights, x):
        where, weight = score(gate, x)
        found = pw.route(x, where, experts, capacity=ROWS)
        return join(x, weight, found.back(tuple(f(w, r) for f, w, r in zip(forward, weights, found.rows)))), found.count

    x, gate, weights = random_rows(ROWS, 8), random_rows(8, 3), [random_rows(8, 8) for _ in experts]
    ours, count = pw.program(layer)(gate, weights, jax.device_put(x, place))
    where = np.argmax(x @ gate, axis=1)
    weight = np.asarray(jax.nn.softmax(jax.device_put(x @ gate, cpu))).max(axis=1)
    theirs = x + weight[:, None] * np.stack([np.tanh(x[i] @ weights[e]) for i, e in enumerate(where)])
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(whole(count), np.bincount(where, minlength=3))


def test_gradients_in_programs_go_over_the_same_way(islands, cpu):
    place, experts, capacity = rows_of(islands[0][:2]), [islands[0][3], islands[1][0], islands[1][3]], 6
    where = random_keys(3)
    project = jax.jit(lambda w, x: x @ w, out_shardings=place)
    apply = [jax.jit(lambda w, x: jnp.tanh(x @ w), in_shardings=SingleDeviceSharding(one), out_shardings=SingleDeviceSharding(one)) for one in experts]
    loss_of = jax.jit(lambda x, y: ((x + y) ** 2).sum())

    def loss(params, x):
        first, weights = params
        h = project(first, x)
        found = pw.route(h, where, experts, capacity=capacity)
        return loss_of(h, found.back(tuple(f(w, r) for f, w, r in zip(apply, weights, found.rows))))

    step = pw.program(jax.value_and_grad(loss, argnums=(0, 1)))
    params, x = (random_rows(4, 4), [random_rows(4, 4) for _ in experts]), random_rows(ROWS, 4)
    ours = step(params, jax.device_put(x, place))
    text = step.lower(params, jax.device_put(x, place)).as_text()
    assert text.count("route to 3 experts") == 2 and text.count("route back from 3 experts") == 2, text  # forward, and backward
    kept = jnp.asarray((reference(np.ones_like(x), where, 3, capacity)[3] != 0).astype(np.float32))

    def dense(params, x):
        first, weights = params
        h = x @ first
        each = jnp.stack([jnp.tanh(h @ w) for w in weights])
        return ((h + kept * each[np.maximum(where, 0), np.arange(ROWS)]) ** 2).sum()

    with jax.default_device(cpu):
        theirs = jax.jit(jax.value_and_grad(dense, argnums=(0, 1)))(*jax.device_put((params, x), cpu))
    assert_same(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours[1][0][1][1].sharding.device_set == {islands[1][0]}, "gradients of an expert are where it is"


def test_the_same_function_compiled_and_in_gradients_outside(islands, cpu):
    x, where, weights = random_rows(ROWS, WIDTH), random_keys(2), random_rows(2, 1, WIDTH)

    def loss(x, weights):
        found = pw.route(x, where, islands[1][0], capacity=5, per_shard=2)
        return (found.back(found.rows * weights) ** 2).sum()

    kept = (reference(np.ones_like(x), where, 2, 5)[3] != 0) * weights[np.maximum(where, 0), 0]
    for function in (jax.grad(loss), jax.jit(jax.grad(loss)), pw.program(jax.jit(jax.grad(loss))), pw.program(jax.grad(loss))):
        np.testing.assert_allclose(np.asarray(function(x, weights)), 2 * x * kept**2, rtol=1e-5)
    both = [islands[0][1], islands[1][0]]
    found = pw.route(jax.device_put(x, rows_of(islands[0])), where, both, capacity=5)  # no program, nothing compiled
    rows, slots, count, back = reference(x, where, 2, 5)
    for ours, theirs in ((found.rows, rows), (found.slots, slots), (found.count, count), (found.back(found.rows), back), (found.dropped, np.maximum(count - 5, 0))):
        np.testing.assert_array_equal(whole(ours), theirs)
    assert [one.sharding.device_set for one in found.rows] == [{device} for device in both]


def test_other_rows_may_come_back_than_were_sent(islands):
    x, where = random_rows(ROWS, WIDTH), random_keys(2)

    @pw.program
    def program(x):
        found = pw.route(x, where, [islands[1][0], islands[0][0]], capacity=ROWS)
        return found.back(tuple(jax.jit(lambda r: r.sum(axis=2).astype(jnp.int32))(rows) for rows in found.rows)), found.dropped

    ours, dropped = program(jax.device_put(x, rows_of(islands[0])))
    np.testing.assert_array_equal(np.asarray(ours), np.where(where >= 0, x.sum(axis=1).astype(np.int32), 0))
    assert not whole(dropped).any()


def test_two_ways_at_once_and_one_after_another(islands):
    """Three layers, and two routes that do not depend on each other."""
    x = jax.device_put(random_rows(ROWS, WIDTH), rows_of(islands[0]))
    keys = [random_keys(2) for _ in range(5)]

    def program(x):
        for where in keys[:3]:
            found = pw.route(x, where, [islands[1][0], islands[0][0]], capacity=8)
            x = jax.jit(jnp.add)(x, found.back(found.rows))
        sides = [pw.route(x, where, islands[1][2], capacity=9, per_shard=2).rows for where in keys[3:]]
        return x, sides

    ours = pw.program(program)(x)
    y = np.asarray(x)
    for where in keys[:3]:
        y = y + reference(y, where, 2, 8)[3]
    np.testing.assert_array_equal(np.asarray(ours[0]), y)
    for side, where in zip(ours[1], keys[3:]):
        np.testing.assert_array_equal(np.asarray(side), reference(y, where, 2, 9)[0])


def test_in_a_branch(islands):
    x = jax.device_put(random_rows(ROWS, WIDTH), rows_of(islands[0]))
    where = random_keys(2)

    @pw.program
    def program(x, scale):
        def there(x):
            found = pw.route(x, where, [islands[1][0], islands[0][0]], capacity=8)
            return jax.jit(lambda v: v * 2)(found.back(found.rows))

        return pw.cond(jax.jit(lambda s: s > 0)(scale), there, lambda x: x, x)

    np.testing.assert_array_equal(np.asarray(program(x, np.float32(1))), 2 * reference(np.asarray(x), where, 2, 8)[3])
    np.testing.assert_array_equal(np.asarray(program(x, np.float32(-1))), np.asarray(x))


def test_without_a_capacity_no_row_is_dropped_and_nothing_is_compiled_again(islands):
    x = random_rows(ROWS, WIDTH)
    traces = []

    def each(rows):
        traces.append(rows[0].shape[1])
        return [jax.jit(lambda r: r * 2)(rows[0]), jax.jit(lambda r: r * 3)(rows[1])]

    program = pw.program(lambda x, where: pw.route(x, where, [islands[1][0], islands[0][0]], smallest=8).through(each))
    for most in (0, 5, 9, ROWS):
        where = np.array([0] * most + [1] * (ROWS - most), np.int32)
        ours = program(jax.device_put(x, rows_of(islands[0])), jax.device_put(where, rows_of(islands[0])))
        np.testing.assert_array_equal(np.asarray(ours), x * np.array([2, 3], np.float32)[where][:, None])
    assert traces == [8, 16, 32], "once for each capacity"


def test_an_expert_that_does_not_exist_fails_what_depends_on_it_and_names_the_row(islands):
    x = jax.device_put(random_rows(ROWS, WIDTH), rows_of(islands[0]))
    double = jax.jit(lambda v: v * 2)

    @pw.program
    def program(x, where):
        found = pw.route(x, where, [islands[1][0], islands[0][0]], capacity=8)
        return double(found.rows[0]), found.back(found.rows), double(x)

    good = random_keys(2)
    bad = good.copy()
    bad[17] = 2
    first, second, beside = program(x, bad)
    np.testing.assert_array_equal(np.asarray(beside), 2 * np.asarray(x))
    for failed in (first, second):
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            failed.block_until_ready()
        assert "row 17 names expert 2, and there are 2: experts are 0 to 1, or -1" in str(caught.value)
        assert "test_route.py:" in str(caught.value) and "in program, route" in str(caught.value), str(caught.value)
    first, second, _ = program(x, good)
    np.testing.assert_array_equal(np.asarray(second), reference(np.asarray(x), good, 2, 8)[3])


def test_mistakes_are_named_when_the_program_is_traced(islands):
    x, where = random_rows(ROWS, WIDTH), random_keys(2)
    call = lambda *args, **options: pw.program(lambda: pw.route(*args, **{"capacity": 3, **options}).rows)()
    with pytest.raises(ValueError, match=r"an expert for each row: x has the shape \[24, 3\], where \[23\]"):
        call(x, where[:-1], islands[1][0])
    with pytest.raises(TypeError, match=r"float32, and must be int32: use where.astype"):
        call(x, where.astype(np.float32), islands[1][0])
    with pytest.raises(TypeError, match="capacity .* not -1"):
        call(x, where, islands[1][0], capacity=-1)
    with pytest.raises(ValueError, match="per_shard .* not 0"):
        call(x, where, islands[1][0], per_shard=0)
    with pytest.raises(ValueError, match="needs an expert"):
        call(x, where, [])
    with pytest.raises(TypeError, match="experts are shards along the first dimension"):
        call(x, where, NamedSharding(Mesh(np.array(islands[0]), "a"), P(None, "a")))
    with pytest.raises(ValueError, match=r"rows of the shape \[1, 3, ...\]"):
        pw.route(x, where, islands[1][0], capacity=3).back(np.zeros((2, 3, 3), np.float32))
    with pytest.raises(NotImplementedError, match="random keys"):
        call(jax.random.split(jax.random.key(0), ROWS), where, islands[1][0])


def test_its_graph_can_be_shown(islands):
    program = routed([islands[1][0], islands[0][0]], 8)
    view = program.lower(jax.device_put(random_rows(ROWS, WIDTH), rows_of(islands[0])), random_keys(2))
    assert "route to 2 experts of capacity 8(" in view.as_text() and "2 routes" in view.as_text()
    assert 'data-kind="route"' in view.as_svg()


# Routes all rows to the first of two experts, again and again. Each has an island of its own, and so have the rows.
ONE_SIDED = """
import jax, numpy as np
import pathways as pw

home, near, far = jax.devices()
x, where = (jax.device_put(one, home) for one in (np.ones((64, 256), np.float32), np.zeros(64, np.int32)))

@pw.program
def program(x, where):
    routed = pw.route(x, where, [near, far], capacity=64)
    return routed.back(routed.rows), routed.count

def run():
    back, (first, second) = program(x, where)
    assert float(back.sum()) == 64 * 256 and int(first[0]) == 64 and int(second[0]) == 0

run()
print("ready", flush=True)
while True:
    run()
"""


def test_a_host_that_no_row_names_gets_no_rows(recorder):
    """By a trace of the cluster, which tells the bytes that each host sends and receives in a route."""
    recorder.start("3x1x1", ONE_SIDED)
    recorder.record(2)
    events, names = recorder.events, recorder.processes
    bytes_of = {}
    for event in events:
        if event["ph"] == "X" and event["name"] == "route":
            bytes_of.setdefault(names[event["pid"]], set()).add(event["args"].get("bytes", 0))
    rows = 64 * 256 * 4
    assert len(bytes_of) == 3, bytes_of
    (idle,) = [sizes for sizes in bytes_of.values() if sizes == {0}]
    for sizes in bytes_of.values():
        assert sizes is idle or all(rows < size < 1.02 * rows for size in sizes), bytes_of  # the rows, and which they are


SEQUENTIAL = """
import jax, numpy as np
from jax.sharding import SingleDeviceSharding as on
import pathways as pw

first, second = jax.devices()[0], jax.devices()[-1]
triple = jax.jit(lambda x: x * 3, in_shardings=on(second), out_shardings=on(second))
x, where = np.arange(8, dtype=np.float32), np.array([1, 0, 1, -1, 1, 0, 0, 1], np.int32)

@pw.program
def turn(x):
    routed = pw.route(x, where, [first, second], capacity=3)
    return routed.back((routed.rows[0], triple(routed.rows[1]))), routed.count

for _ in range(4):
    ours, count = turn(jax.device_put(x, first))
    np.testing.assert_array_equal(np.asarray(ours), [0, 1, 6, 0, 12, 5, 6, 0])
    assert [int(one[0]) for one in count] == [3, 4]
print("same")
"""


def test_node_by_node(command):
    up = command("up", "--islands", "2", "--hosts", "1", "--devices", "1", "--dispatch", "sequential")
    assert command.run(up["address"], SEQUENTIAL) == "same\n"


def test_the_example_trains_as_the_model_that_is_compiled_whole(tmp_path):
    env = clean_environment(PATHWAYS_LOCAL="2x1x4")
    done = subprocess.run([sys.executable, ROOT / "examples" / "moe.py", "--steps", "4"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 experts on 2 islands") and sum(line.startswith("step ") for line in lines) == 4
    assert lines[-1].startswith("the parameters differ by")
