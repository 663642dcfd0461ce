"""Tests computations over several devices of an island."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

X = np.arange(64, dtype=np.float32).reshape(8, 8)


def meshes(devices):
    return {"line": Mesh(np.array(devices), ("x",)), "square": Mesh(np.array(devices).reshape(2, 2), ("x", "y"))}


SPECS = [("line", P("x")), ("line", P(None, "x")), ("line", P()), ("square", P("x", "y")), ("square", P("y", "x")), ("square", P(("x", "y"))),
         ("square", P(None, "y")), ("square", P())]


@pytest.mark.parametrize("island", [0, 1])
@pytest.mark.parametrize("mesh, spec", SPECS, ids=lambda v: str(v))
def test_every_sharding_round_trips_and_computes(islands, island, mesh, spec):
    sharding = NamedSharding(meshes(islands[island])[mesh], spec)
    x = jax.device_put(X, sharding)
    assert x.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_array_equal(np.asarray(x), X)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), X[shard.index])
    y = jax.jit(lambda a: (a @ a.T, a.sum(0), a.max()))(x)
    np.testing.assert_allclose(y[0], X @ X.T)
    np.testing.assert_allclose(y[1], X.sum(0))
    assert float(y[2]) == 63


@pytest.mark.parametrize("source", SPECS, ids=str)
def test_programs_reshard_inside(islands, source):
    targets = meshes(islands[0])
    x = jax.device_put(X, NamedSharding(targets[source[0]], source[1]))
    for name, spec in SPECS:
        if name == source[0]:
            y = jax.jit(lambda a: a + 1, out_shardings=NamedSharding(targets[name], spec))(x)
            np.testing.assert_array_equal(np.asarray(y), X + 1)


COLLECTIVES = {
    "psum": (lambda a: jax.lax.psum(a, "x"), P()), "pmean": (lambda a: jax.lax.pmean(a, "x"), P()),
    "pmax": (lambda a: jax.lax.pmax(a, "x"), P()), "all_gather": (lambda a: jax.lax.all_gather(a, "x", tiled=True), P("x")),
    "psum_scatter": (lambda a: jax.lax.psum_scatter(jnp.tile(a, (4, 1)), "x", tiled=True), P("x")),
    "ppermute": (lambda a: jax.lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]), P("x")),
    "all_to_all": (lambda a: jax.lax.all_to_all(a, "x", 1, 0, tiled=True), P("x")),
    "axis_index": (lambda a: a * 0 + jax.lax.axis_index("x"), P("x")),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_shard_map_with_collectives(islands, cpu, name):
    body, out = COLLECTIVES[name]
    results = []
    for devices in (islands[0], jax.devices("cpu")[:4]):
        mesh = Mesh(np.array(devices), ("x",))
        results.append(np.asarray(jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=out))(X)))
    np.testing.assert_allclose(results[0], results[1])


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="the XLA of this jax splits axes itself")
def test_shardings_left_open_are_those_of_jax(devices):
    """jax cannot express shardings that split a mesh axis, which reshapes may produce."""
    programs = [lambda a: a.reshape(2, 32) + 1, lambda a: (a, a.reshape(2, 32).T, a.reshape(2, 4, 8).sum(1)), lambda a: a.reshape(-1)]
    results = []
    for platform in (devices, jax.devices("cpu")):
        mesh = Mesh(np.array(platform), ("x",))
        x = jax.device_put(X, NamedSharding(mesh, P("x")))
        ones = np.ones((2, 32), np.float32)
        results.append([jax.jit(f)(x) for f in programs] + [jax.jit(lambda a, b: a.reshape(2, 32) * b)(x, ones)])
    for got, want in zip(*map(jax.tree.leaves, results)):
        assert got.sharding.spec == want.sharding.spec
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e8m0fnu", "float4_e2m1fn"])
def test_small_floats_over_a_mesh(islands, dtype):
    if not hasattr(jnp, dtype):
        pytest.skip("this jax has no such type")
    results = []
    for devices in (islands[0], jax.devices("cpu")[:4]):
        mesh = Mesh(np.array(devices), ("x",))
        x = jax.device_put((X[0] / 2 + 1).astype(jnp.dtype(dtype)), NamedSharding(mesh, P("x")))
        gather, add = (jax.shard_map(COLLECTIVES[name][0], mesh=mesh, in_specs=P("x"), out_specs=COLLECTIVES[name][1])
                       for name in ("all_gather", "psum"))
        constrained = lambda a: jax.lax.with_sharding_constraint(a + a, NamedSharding(mesh, P()))
        results.append([np.asarray(jax.jit(f)(x)).tobytes() for f in (constrained, gather, add)])
    assert results[0] == results[1]


def test_pmap(islands):
    y = jax.pmap(lambda a: jax.lax.psum(a, "i"), axis_name="i", devices=islands[1])(X[:4])
    np.testing.assert_array_equal(np.asarray(y), np.tile(X[:4].sum(0), (4, 1)))


def test_gradients_over_a_mesh(islands, same):
    mesh = Mesh(np.array(islands[0]), ("x",))
    loss = lambda w, a: jnp.mean((a @ w) ** 2)
    w = np.ones((8, 2), np.float32)
    ours = jax.jit(jax.grad(loss))(jax.device_put(w, NamedSharding(mesh, P())), jax.device_put(X, NamedSharding(mesh, P("x"))))
    np.testing.assert_allclose(ours, 2 * X.T @ (X @ w) / 16, rtol=1e-5)


def test_sharding_constraints_and_donation(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    split = NamedSharding(mesh, P("x"))
    step = jax.jit(lambda a: jax.lax.with_sharding_constraint(a * 2, split), donate_argnums=0)
    x = jax.device_put(X, split)
    for _ in range(3):
        x = step(x)
    np.testing.assert_array_equal(np.asarray(x), X * 8)
    assert x.sharding.is_equivalent_to(split, 2)


def test_a_deep_queue_of_collectives_runs_through(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    step = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "x") / 4 + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    x = jax.device_put(np.zeros(4, np.float32), NamedSharding(mesh, P("x")))
    for _ in range(2000):
        x = step(x)
    np.testing.assert_array_equal(np.asarray(x), np.full(4, 2000, np.float32))


def test_both_islands_compute_at_the_same_time(islands):
    f = jax.jit(lambda a: jnp.sin(a).sum())
    results = []
    for devices in islands:
        x = jax.device_put(X, NamedSharding(Mesh(np.array(devices), ("x",)), P("x")))
        results.append([f(x + i) for i in range(20)])
    for first, second in zip(*results):
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_one_program_over_both_islands(devices):
    x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(Mesh(np.array(devices), ("x",)), P("x")))
    np.testing.assert_array_equal(np.asarray(x), np.arange(8.0))  # arrays may span islands
    assert float(jax.jit(jnp.sum)(x)) == 28


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
def test_memory_kinds(islands, kind):
    device = islands[0][0]
    if kind not in {m.kind for m in device.addressable_memories()}:
        pytest.skip(f"the device has no memory '{kind}'")
    host = jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
    x = jax.device_put(X, host)
    assert x.sharding.memory_kind == kind
    np.testing.assert_array_equal(np.asarray(x), X)
    back = jax.device_put(x, jax.sharding.SingleDeviceSharding(device, memory_kind="device"))
    np.testing.assert_array_equal(np.asarray(back + 1), X + 1)


def test_make_array_functions(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    x = jax.make_array_from_callback(X.shape, sharding, lambda index: X[index])
    np.testing.assert_array_equal(np.asarray(x), X)
    y = jax.make_array_from_process_local_data(sharding, X)
    np.testing.assert_array_equal(np.asarray(y), X)
    z = jax.make_array_from_single_device_arrays(X.shape, sharding, [s.data for s in y.addressable_shards])
    np.testing.assert_array_equal(np.asarray(z), X)


def test_make_mesh_over_all_devices(devices):
    assert jax.make_mesh((8,), ("x",)).devices.size == 8
    assert jax.make_mesh((2, 4), ("x", "y")).devices.shape == (2, 4)


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="this jax puts nothing into unreduced shardings")
def test_a_result_becomes_unreduced(islands):
    mesh = Mesh(np.array(islands[0][:2]), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    unreduced = NamedSharding(mesh, P(unreduced={"x"}))
    x = np.arange(4)
    with jax.sharding.set_mesh(mesh) if hasattr(jax.sharding, "set_mesh") else jax.set_mesh(mesh):
        whole, split = jax.device_put(x, NamedSharding(mesh, P())), jax.device_put(x, NamedSharding(mesh, P("x")))
        for value, parts in ((whole, [[0, 1, 2, 3], [0, 0, 0, 0]]), (split, [[0, 1, 0, 0], [0, 0, 2, 3]])):
            for result in (jax.device_put(value, unreduced), jax.jit(lambda v: v, out_shardings=unreduced)(value)):
                assert [np.asarray(shard.data).tolist() for shard in result.addressable_shards] == parts
                np.testing.assert_array_equal(jax.sharding.reshard(result, P()), x)


ASYNCHRONOUS = {
    "all_gather": (lambda p, a: p.all_gather_start(a, "x", tiled=True), lambda a: jax.lax.all_gather(a, "x", tiled=True)),
    "psum": (lambda p, a: p.psum_start(a, "x"), lambda a: jax.lax.psum(a, "x")),
    "psum_scatter": (lambda p, a: p.psum_scatter_start(jnp.tile(a, (4, 1)), "x", scatter_dimension=0, tiled=True),
                     lambda a: jax.lax.psum_scatter(jnp.tile(a, (4, 1)), "x", tiled=True)),
    "all_to_all": (lambda p, a: p.all_to_all_start(a, "x", split_axis=1, concat_axis=0, tiled=True),
                   lambda a: jax.lax.all_to_all(a, "x", 1, 0, tiled=True)),
    "ppermute": (lambda p, a: p.ppermute_start(a, "x", [(i, (i + 1) % 4) for i in range(4)]),
                 lambda a: jax.lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)])),
}


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_collectives_that_are_started_and_awaited_apart(islands, name):
    from jax._src import core
    from jax._src.lax import parallel

    if not hasattr(core, "Future"):
        pytest.skip("this jax has none, or only their beginnings")
    start, at_once = ASYNCHRONOUS[name]
    mesh = Mesh(np.array(islands[0]), ("x",))

    def apart(a):
        future = start(parallel, a)
        meanwhile = jnp.sin(a)
        jax.ffi.ffi_call("control_dep", (), has_side_effect=True)(future.x, meanwhile)
        in_a_loop, _ = jax.lax.scan(lambda c, _: (c + start(parallel, a).done(), None), jnp.zeros_like(at_once(a)), None, length=3)
        return future.done(), in_a_loop, meanwhile

    got, looped, meanwhile = jax.jit(jax.shard_map(apart, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))(X)
    want = np.asarray(jax.jit(jax.shard_map(at_once, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))(X))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(looped, want * 3)
    np.testing.assert_allclose(meanwhile, np.sin(X), rtol=1e-5, atol=1e-6)
