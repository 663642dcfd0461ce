"""Tests partitioned programs and collectives over eight devices, and loops that jax's own cpu backend does not survive."""
import base64
import concurrent.futures
import re
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.lib import xla_client
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

X = np.random.default_rng(0).standard_normal((16, 24)).astype(np.float32)


def close(a, b, tol=1e-4):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tol, atol=tol)


@pytest.fixture
def grid(devices):
    return Mesh(np.array(devices).reshape(4, 2), ("a", "b"))


@pytest.mark.parametrize("shardy", [True, False])
@pytest.mark.parametrize("left", [P("a", "b"), P("b", None), P(None, "a"), P(("a", "b"), None), P()])
@pytest.mark.parametrize("right", [P("b", None), P(None, "a"), P()])
def test_partitioned_matmul(grid, left, right, shardy):
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        a, b = jax.device_put(X, NamedSharding(grid, left)), jax.device_put(X.T, NamedSharding(grid, right))
        out = jax.jit(lambda a, b: jnp.tanh(a @ b), out_shardings=NamedSharding(grid, P("a", "b")))(a, b)
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)
    assert out.sharding.spec == P("a", "b") and len(out.addressable_shards) == 8
    close(out, np.tanh(X @ X.T))


def test_training_step(grid):
    def loss(w, x, y):
        return jnp.mean((jax.nn.relu(x @ w["in"]) @ w["out"] - y) ** 2)

    rng = np.random.default_rng(1)
    w = {"in": rng.standard_normal((24, 32)), "out": rng.standard_normal((32, 8))}
    x, y = rng.standard_normal((16, 24)), rng.standard_normal((16, 8))
    want_value, want = jax.value_and_grad(loss)(w, x, y)
    placed = {"in": jax.device_put(w["in"], NamedSharding(grid, P(None, "b"))),
              "out": jax.device_put(w["out"], NamedSharding(grid, P("b", None)))}
    batch = [jax.device_put(v, NamedSharding(grid, P("a"))) for v in (x, y)]
    value, got = jax.jit(jax.value_and_grad(loss))(placed, *batch)
    close(value, want_value)
    jax.tree.map(close, got, want)


def over(mesh, f, out=P("x"), **kwargs):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out, check_vma=False, **kwargs))


def test_collectives(mesh):
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    parts = X.reshape(8, 2, 24)
    close(over(mesh, lambda v: lax.psum(v, "x"), P())(x), parts.sum(0))
    close(over(mesh, lambda v: lax.pmax(v, "x"), P())(x), parts.max(0))
    close(over(mesh, lambda v: lax.pmin(v, "x"), P())(x), parts.min(0))
    close(over(mesh, lambda v: lax.pmean(v, "x"), P())(x), parts.mean(0))
    close(over(mesh, lambda v: lax.all_gather(v, "x", tiled=True), P())(x), X)
    close(over(mesh, lambda v: lax.ppermute(v, "x", [(i, (i + 1) % 8) for i in range(8)]))(x), np.roll(parts, 1, 0).reshape(16, 24))
    close(over(mesh, lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True), P(None, "x"))(x), parts.sum(0))
    close(over(mesh, lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True), P(None, "x"))(x), X)
    close(over(mesh, lambda v: v + lax.axis_index("x"))(x), (parts + np.arange(8)[:, None, None]).reshape(16, 24))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64",
                                   "complex64", "complex128"])
def test_all_reduce_of_types(mesh, dtype):
    x = jnp.arange(16).astype(dtype)
    got = over(mesh, lambda v: lax.psum(v, "x"), P())(jax.device_put(x, NamedSharding(mesh, P("x"))))
    close(got.astype("complex128"), np.arange(16).reshape(8, 2).sum(0))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("width", [1, 100, 3000, 40_000])
def test_all_reduces_have_the_bits_of_jax(mesh, dtype, width):
    """Small ones run with all devices on one thread, medium ones in the plugin's own code, large ones in XLA's code."""
    x = np.random.default_rng(width).normal(size=(8, width)) * 50
    want, got = (
        [np.asarray(r) for r in over(m, lambda v: (lax.psum(v, "x"), lax.pmax(v, "x")), P())(
            jax.device_put(jnp.asarray(x).astype(dtype), NamedSharding(m, P("x"))))]
        for m in (Mesh(np.array(jax.devices("cpu")), ("x",)), mesh))
    for w, g in zip(want, got):
        assert w.tobytes() == g.tobytes()


# In the bytecode of programs with shardings, these are types of MLIR's own dialect.
SMALL_FLOATS = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
                "float8_e8m0fnu", "float4_e2m1fn"]


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_small_floats_are_partitioned(mesh, dtype):
    x = np.abs(X[:, 0] + 0.5).astype(jnp.dtype(dtype))
    results = []
    for m in (Mesh(np.array(jax.devices("cpu")), ("x",)), mesh):
        split, whole = NamedSharding(m, P("x")), NamedSharding(m, P())
        constrained = lambda v: lax.with_sharding_constraint(lax.with_sharding_constraint(v * v, whole) + v, split)
        programs = [lambda v: v + v, constrained, lambda v: v.reshape(4, 4).T, lambda v: v.astype(jnp.float32).sum(),
                    over(m, lambda v: lax.all_gather(v, "x", tiled=True), P()), over(m, lambda v: lax.psum(v, "x"), P()),
                    over(m, lambda v: lax.ppermute(v, "x", [(i, (i + 1) % 8) for i in range(8)]))]
        results.append([np.asarray(jax.jit(f)(jax.device_put(x, split))) for f in programs])
    for want, got in zip(*results):
        assert want.dtype == got.dtype and want.tobytes() == got.tobytes()


@pytest.mark.parametrize("shape", [(8,), (2, 4), (4, 2)], ids=str)
def test_shardings_that_are_left_open_are_those_of_jax(devices, shape):
    """Reshapes may split an axis of the mesh. Arguments and results may not: jax has no name for such a sharding."""
    y = np.ones((2, 4, 6), np.float32)
    programs = {
        "split": (lambda v: v.reshape(2, 192) + 1, 1), "split in three": (lambda v: v.reshape(4, 2, 48).transpose(2, 0, 1), 1),
        "joined": (lambda v: v.reshape(-1), 1),
        "several": (lambda v: (v, v.reshape(2, 192), v.reshape(2, 192).T, v.reshape(2, 8, 24).sum(1)), 1),
        "product": (lambda v: jnp.einsum("abc,dc->adb", v.reshape(2, 8, 24), v), 1),
        "argument": (lambda v, w: v.reshape(2, 4, 48)[:, :, :6] * w, 2),
        "gradient": (jax.grad(lambda v: (v.reshape(2, 192) ** 3).sum()), 1),
        "sharded inside": (lambda: lax.with_sharding_constraint(jnp.arange(16), NamedSharding(mesh, P("a"))).reshape(2, 8), 0),
    }
    results = []
    for platform in (jax.devices("cpu"), devices):
        mesh = Mesh(np.array(platform).reshape(shape), ("a", "b")[:len(shape)])
        for spec in (P(mesh.axis_names), P(None, "a")):
            arguments = jax.device_put(X, NamedSharding(mesh, spec)), y
            for name, (f, count) in programs.items():
                program = jax.jit(f).lower(*arguments[:count]).compile()
                out = jax.tree.leaves(program(*jax.device_put(arguments[:count], program.input_shardings[0])))
                shardings = jax.tree.leaves(program.input_shardings) + [v.sharding for v in out]
                results.append((name, spec, [s.spec for s in shardings], [np.asarray(v) for v in out]))
    half = len(results) // 2
    for (name, spec, want, values), (_, _, got, ours) in zip(results[:half], results[half:]):
        assert got == want, (name, spec)
        for a, b in zip(ours, values):
            close(a, b)


def test_a_donated_argument_beside_a_result_that_is_left_open(mesh):
    x, y = (jax.device_put(v, NamedSharding(mesh, P("x"))) for v in (X, X))
    first, second = jax.jit(lambda v, w: (v.reshape(2, 192) + 1, w * 2), donate_argnums=1)(x, y)
    close(first, X.reshape(2, 192) + 1)
    close(second, X * 2)
    assert y.is_deleted() and first.sharding.is_fully_replicated and second.sharding.spec == P("x")


def test_all_reduces_in_loops_and_branches(grid):
    """Groups of devices meet in turn: in two directions, inside loops, and inside a branch that half of the devices take."""
    def body(v):
        inner = lambda i, c: lax.psum(c, "a") / 4 + lax.psum(c, "b") / 2 - c * 0.5
        looped = lax.fori_loop(0, 40, lambda i, c: lax.fori_loop(0, 3, inner, c) * 0.9, v)
        return lax.cond(lax.axis_index("a") < 2, lambda c: lax.psum(c, "b"), lambda c: c * 2, looped)

    want, got = (
        np.asarray(jax.jit(jax.shard_map(body, mesh=m, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False))(
            jax.device_put(X[:4, :2], NamedSharding(m, P("a", "b")))))
        for m in (Mesh(np.array(jax.devices("cpu")).reshape(4, 2), ("a", "b")), grid))
    close(got, want)


def test_collectives_whose_arguments_are_late(mesh):
    """Some arguments come from running work, some are donated. Such a launch uses a thread for each device, other launches one thread."""
    slow = over(mesh, lambda v: v + 0 * lax.fori_loop(0, 300, lambda i, c: c @ c * 0.01, jnp.ones((64, 64), jnp.float32))[0, 0])
    step = over(mesh, lambda v: lax.psum(v, "x") * 0.125)
    given = jax.jit(step, donate_argnums=0)
    x = jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("x")))
    for i in range(60):
        x = step(slow(x)) if i % 7 == 0 else given(x) if i % 3 == 0 else step(x)
    close(x, np.ones(8))


def test_many_threads_launch_collectives(mesh):
    step = over(mesh, lambda v: lax.psum(v, "x") * 0.125)

    def chain(start):
        x = jax.device_put(np.full(8, start, np.float32), NamedSharding(mesh, P("x")))
        for _ in range(300):
            x = step(x)
        return float(x[0])

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(chain, range(6))) == list(range(6))


def test_logical_all_reduce(mesh):
    x = jax.device_put(np.array([True] * 7 + [False]), NamedSharding(mesh, P("x")))
    assert jax.jit(lambda v: (v.all(), v.any()))(x) == (False, True)


def test_groups_of_devices(grid):
    f = jax.shard_map(lambda v: (lax.psum(v, "a"), lax.psum(v, "b")), mesh=grid, in_specs=P("a", "b"),
                      out_specs=(P(None, "b"), P("a", None)))
    over_a, over_b = jax.jit(f)(jax.device_put(X, NamedSharding(grid, P("a", "b"))))
    close(over_a, X.reshape(4, 4, 24).sum(0))
    close(over_b, X.reshape(16, 2, 12).sum(1))


def test_programs_on_disjoint_meshes(devices):
    left, right = Mesh(np.array(devices[:4]), ("x",)), Mesh(np.array(devices[4:]), ("x",))
    a, b = (jax.device_put(X, NamedSharding(m, P("x"))) for m in (left, right))
    for _ in range(20):
        a, b = (over(m, lambda v: v + lax.psum(v, "x") * 0.001)(v) for m, v in ((left, a), (right, b)))
    close(a, b)
    close(jax.device_put(a, NamedSharding(right, P(None, "x"))), b)


def test_reshard(grid, devices):
    x = jax.device_put(X, NamedSharding(grid, P("a", "b")))
    for spec in (P(), P("b", "a"), P(("a", "b"),), P(None, "b")):
        close(jax.device_put(x, NamedSharding(grid, spec)), X)
    small = Mesh(np.array(devices[:2]), ("x",))
    close(jax.device_put(x, NamedSharding(small, P("x"))), X)
    assert all(s.data.shape == (4, 12) for s in x.addressable_shards)
    close(jax.make_array_from_callback(X.shape, x.sharding, lambda i: X[i]), X)
    close(jax.make_array_from_single_device_arrays(X.shape, x.sharding, [s.data for s in x.addressable_shards]), X)


def test_random_and_sort_are_partitioned(grid):
    sharding = NamedSharding(grid, P("a", "b"))
    f = jax.jit(lambda: jax.random.normal(jax.random.key(3), (16, 24)), out_shardings=sharding)
    close(f(), jax.random.normal(jax.random.key(3), (16, 24)))
    close(jax.jit(lambda x: jnp.sort(x, 0))(jax.device_put(X, sharding)), np.sort(X, 0))


def test_scan_with_collectives(mesh):
    def body(v):
        return lax.scan(lambda c, _: (lax.ppermute(c, "x", [(i, (i + 1) % 8) for i in range(8)]) + lax.psum(c, "x") * 0, None),
                        v, None, length=24)[0]

    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    close(over(mesh, body)(x), X)


def test_pmap(devices):
    if not hasattr(jax, "pmap"):
        pytest.skip("this jax has no pmap")
    got = jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i", devices=devices)(X.reshape(8, 2, 24))
    close(got[0], X.reshape(8, 2, 24).sum(0))


@pytest.mark.parametrize("spec, parts", [(P("a", "b"), [4, 2]), (P("b"), [2, 1, 4])])
def test_a_sharding_is_reported_as_one_over_tiles(grid, spec, parts):
    """Clients of any jaxlib read the report, also where XLA writes shardings over the axes of a mesh."""
    def reported(x):
        jax.ffi.ffi_call("pathways_sharding_report", (), has_side_effect=True)(x)
        return x + 1

    sharding = NamedSharding(grid, spec)
    text = jax.jit(reported, in_shardings=sharding, out_shardings=sharding).lower(X).compile().as_text()
    proto = xla_client.OpSharding()
    proto.ParseFromString(base64.b64decode(re.search('pathways_sharding="?([^",}]+)', text).group(1)))
    assert proto.tile_assignment_dimensions == parts


def test_hints_of_order_cost_nothing(grid, mesh):
    """Operands are not gathered for jax.experimental.control_deps. Whether the call is still there afterwards depends on the version of XLA."""
    def ordered(x):
        a, b = jnp.sin(x), jnp.cos(x)
        jax.ffi.ffi_call("control_dep", (), has_side_effect=True)(b, a)
        return a - b

    for program, v in ((jax.jit(ordered), X), (jax.jit(ordered), jax.device_put(X, NamedSharding(grid, P("a", "b")))),
                       (over(mesh, ordered), jax.device_put(X, NamedSharding(mesh, P("x"))))):
        text = program.lower(v).compile().as_text()
        assert "sine" in text and "all-gather" not in text and "collective" not in text
        close(program(v), np.sin(X) - np.cos(X))


def run_apart(plugin, program, seconds):
    """Runs a program in a new process, because a failure ends the process or never returns."""
    prelude = f"""
        import os
        os.environ.update(JAX_PLATFORMS="pwcpu", PJRT_NAMES_AND_LIBRARY_PATHS="pwcpu:{plugin}", PJRT_CPU_DEVICES="8")
        import jax, jax.numpy as jnp, numpy as np
        from jax import lax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()), ("x",))
        def over(f): return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        x = jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("x")))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(program)], timeout=seconds,
                          capture_output=True, text=True)
    assert done.returncode == 0 and "right" in done.stdout, done.stdout + done.stderr[-3000:]


@pytest.mark.timeout(240)
def test_twenty_thousand_collectives(plugin):
    run_apart(plugin, """
        step = over(lambda v: lax.psum(v, "x") * 0.125)
        for _ in range(20_000): x = step(x)
        print("right" if np.allclose(x, 1) else x)
    """, 200)


@pytest.mark.timeout(240)
def test_deep_queue_of_unequal_work(plugin):
    """Collectives are queued behind slow work on one device, in two interleaved chains."""
    run_apart(plugin, """
        step = over(lambda v: lax.psum(v, "x") * 0.125)
        skew = over(lambda v: v + 0 * lax.cond(lax.axis_index("x") == 0, lambda: lax.fori_loop(0, 200, lambda i, c: c @ c * 0.01,
                    jnp.ones((64, 64), jnp.float32))[0, 0], lambda: jnp.float32(0)))
        y = x
        for i in range(1000):
            x = step(skew(x)) if i % 50 == 0 else step(x)
            y = step(y)
        print("right" if np.allclose(x, 1) and np.allclose(y, 1) else (x, y))
    """, 200)
