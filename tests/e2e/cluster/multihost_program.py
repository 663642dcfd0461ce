"""Computations over devices of several hosts, from a stock client, against jax in process. The command line names the sections to run."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map

DEVICES = jax.devices()
REFERENCE = jax.devices("cpu")[: len(DEVICES)]
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "int4"]
SOME_DTYPES = ["bool", "int4", "float8_e5m2", "bfloat16", "int32", "float32", "complex128"]  # one of each kind, and one of each width


def mesh_of(devices, shape, names):
    return Mesh(np.array(devices).reshape(shape), names)


def on_both(f, shape, names, spec_in, spec_out, *arrays, wrap=True):
    """Runs f over the cluster's devices and over jax's own; returns both results."""
    results = []
    for devices in (DEVICES, REFERENCE):
        mesh = mesh_of(devices, shape, names)
        sharding = NamedSharding(mesh, spec_in)
        inner = f
        if wrap:
            try:
                inner = shard_map(f, mesh=mesh, in_specs=spec_in, out_specs=spec_out, check_vma=False)
            except TypeError:
                inner = shard_map(f, mesh=mesh, in_specs=spec_in, out_specs=spec_out, check_rep=False)
        results.append(jax.jit(inner)(*jax.device_put(arrays, sharding)))
        assert all(leaf.devices() == set(devices) for leaf in jax.tree.leaves(results[-1]))
    return results


def same(ours, theirs, exact, what):
    for mine, reference in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)):
        mine, reference = np.asarray(mine), np.asarray(reference)
        assert mine.dtype == reference.dtype and mine.shape == reference.shape, what
        if exact or mine.dtype.kind in "biu":
            assert mine.tobytes() == reference.tobytes(), (what, mine, reference)
        else:
            wide = np.complex128 if mine.dtype.kind == "c" else np.float64
            # Elements near 0 are differences of numbers near 1, which float32 represents to 1e-8.
            np.testing.assert_allclose(mine.astype(wide), reference.astype(wide), rtol=2e-6, atol=1e-8, err_msg=what)


def values(dtype, count):
    """Returns numbers whose sums are exact in every type and in every order."""
    most = 1 if dtype.startswith("float8") else 3
    numbers = np.random.default_rng(7).integers(-most, most + 1, count)
    if dtype == "bool":
        return numbers > 0
    if dtype.startswith("complex"):
        return (numbers + 1j * numbers[::-1]).astype(dtype)
    return jnp.asarray(np.abs(numbers) if dtype.startswith("uint") else numbers).astype(dtype)


def moving(x, axis, n):
    ring = [(i, (i + 1) % n) for i in range(n)]
    half = [(i, n - 1 - i) for i in range(n // 2)]
    return {"gathered": jax.lax.all_gather(x, axis), "joined": jax.lax.all_gather(x, axis, tiled=True),
            "passed on": jax.lax.ppermute(x, axis, ring), "half of them": jax.lax.ppermute(x, axis, half),
            "exchanged": jax.lax.all_to_all(x, axis, 0, 0, tiled=True), "shuffled": jax.lax.pshuffle(x, axis, list(range(n))[::-1])}


def summing(x, axis, n):
    del n
    results = {}
    if x.dtype != bool:
        results |= {"sum": jax.lax.psum(x, axis), "sum in parts": jax.lax.psum_scatter(x, axis, tiled=True)}
    if not jnp.issubdtype(x.dtype, jnp.complexfloating):
        results |= {"largest": jax.lax.pmax(x, axis), "smallest": jax.lax.pmin(x, axis)}
    return results


def collectives(dtypes=DTYPES):
    """Runs every collective with every type of `dtypes`, among all devices, and among groups within hosts and across hosts.

    One program has all types, because compiling it takes most of the time, here and in process."""
    n = len(DEVICES)
    groups = {"all": ((n,), ("x",), "x"), "across": ((2, n // 2), ("x", "y"), "x"), "inside": ((2, n // 2), ("x", "y"), "y")}
    arrays = {dtype: values(dtype, n * n * 4) for dtype in dtypes}
    for group, (shape, names, axis) in groups.items():
        size = dict(zip(names, shape))[axis]
        for kind in (moving, summing):
            f = lambda xs: {dtype: kind(x, axis, size) for dtype, x in xs.items()}
            ours, theirs = on_both(f, shape, names, P(names), P(names), arrays)
            for dtype in dtypes:
                for what in theirs[dtype]:
                    same(ours[dtype][what], theirs[dtype][what], True, f"{what}: {dtype}, {group}")


def some_collectives():
    collectives(SOME_DTYPES)


def large():
    """Runs collectives over arrays that are too large to be sent whole; their float sums associate by hosts."""
    n = len(DEVICES)
    for dtype in ("float32", "bfloat16", "int32", "complex64"):
        x = values(dtype, n * n * 8192)
        f = lambda v: (jax.lax.psum(v, "x"), jax.lax.psum_scatter(v, "x", tiled=True), jax.lax.all_gather(v, "x", tiled=True))
        same(*on_both(f, (n,), ("x",), P("x"), (P("x"),) * 3, x), dtype != "float32", f"large {dtype}")
    odd = values("float32", n * 12345)
    same(*on_both(lambda v: jax.lax.psum(v, "x"), (n,), ("x",), P("x"), P(), odd), False, "odd size")


def special():
    """Runs collectives with NaN, infinities and empty arrays, and many rounds of one operation."""
    n = len(DEVICES)
    x = np.tile(np.array([1.0, np.nan, np.inf, -np.inf], np.float32), n)
    x[5] = np.nan
    f = lambda v: (jax.lax.pmax(v, "x"), jax.lax.pmin(v, "x"), jax.lax.psum(v, "x"))
    for ours, theirs in zip(*on_both(f, (n,), ("x",), P("x"), (P(),) * 3, x)):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert np.isnan(ours[1])  # as HLO specifies; XLA's max and min within one process lose NaN
        np.testing.assert_array_equal(ours[[0, 2, 3]], theirs[[0, 2, 3]])
    loop = lambda v: jax.lax.fori_loop(0, 50, lambda i, a: jax.lax.ppermute(a, "x", [(k, (k + 1) % n) for k in range(n)]) + jax.lax.pmean(a, "x"), v)
    same(*on_both(loop, (n,), ("x",), P("x"), P("x"), np.arange(2.0 * n)), False, "loop")


def partitioned():
    """Runs matrix products, gradients and a change of sharding as XLA partitions them."""
    n = len(DEVICES)
    x = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32)

    def step(w, x):
        loss = lambda w: (jnp.tanh(x @ w) ** 2).mean()
        value, grad = jax.value_and_grad(loss)(w)
        return w - 0.1 * grad, value

    for wspec, xspec in ((P(), P("d")), (P("m"), P("d", "m")), (P(None, "m"), P("d")), (P("m", "d"), P())):
        results = []
        for devices in (DEVICES, REFERENCE):
            mesh = mesh_of(devices, (2, n // 2), ("d", "m"))
            a, b = jax.device_put(w, NamedSharding(mesh, wspec)), jax.device_put(x, NamedSharding(mesh, xspec))
            compiled = jax.jit(step, donate_argnums=0, out_shardings=(NamedSharding(mesh, wspec), NamedSharding(mesh, P())))
            losses = []
            for _ in range(5):
                a, value = compiled(a, b)
                losses.append(value)
            results.append((a, losses))
        same(*results, False, f"training {wspec} {xspec}")
    whole = jax.device_put(x, NamedSharding(mesh_of(DEVICES, (n,), ("d",)), P("d")))
    turned = jax.device_put(whole, NamedSharding(mesh_of(DEVICES[::-1], (n,), ("d",)), P(None, "d")))
    np.testing.assert_array_equal(np.asarray(turned), x)


def errors():
    """A failure on one host fails the whole computation without a hang, and later computations work."""
    mesh = mesh_of(DEVICES, (len(DEVICES),), ("x",))
    x = jax.device_put(np.arange(float(len(DEVICES))), NamedSharding(mesh, P("x")))

    def body(v):
        def fail(i):
            if i == len(DEVICES) - 1:
                raise ValueError("this part fails")
            return np.float64(i)
        y = jax.pure_callback(fail, jax.ShapeDtypeStruct((), np.float64), jax.lax.axis_index("x"))
        return jax.lax.psum(v + y, "x")

    for _ in range(3):
        try:
            jax.block_until_ready(jax.jit(shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P()))(x))
            raise SystemExit("it did not fail")
        except jax.errors.JaxRuntimeError as error:
            assert "this part fails" in str(error), error
    total = jax.jit(shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(x)
    assert float(np.asarray(total)[0]) == sum(range(len(DEVICES)))


def messages():
    """Each call sends one command to each host, for any number of devices."""
    from pathways._client import connection
    from pathways._cluster import admin

    def executes():
        return [host["commands"].get("execute", 0) for host in admin.status(connection._get_endpoint().controller)["hosts"]]

    mesh = mesh_of(DEVICES, (len(DEVICES),), ("x",))
    y = jax.device_put(np.arange(float(len(DEVICES))), NamedSharding(mesh, P("x")))
    step = jax.jit(lambda v: v + v.sum(), out_shardings=y.sharding)
    y = jax.block_until_ready(step(y))
    before = executes()
    for _ in range(50):
        y = step(y) * 0
    y.block_until_ready()
    counts = [after - b for after, b in zip(executes(), before)]
    assert len(set(counts)) == 1 and counts[0] <= 100, counts


def host_lost():
    """After a host is lost, its arrays raise an error that names it. New programs run on the other hosts, and so do old programs of other clients."""
    import signal

    def loop_over(devices):
        mesh = Mesh(np.array(devices), ("x",))
        x = jax.device_put(np.arange(float(len(devices))), NamedSharding(mesh, P("x")))
        return jax.jit(shard_map(lambda v: jax.lax.psum(v, "x") / len(devices) + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"))), x

    f, x = loop_over(DEVICES)
    pair, kept = loop_over(DEVICES[:4])
    kept = jax.block_until_ready(pair(kept))
    for _ in range(20):
        x = f(x)
    x.block_until_ready()
    for _ in range(200):  # in flight when the host dies
        x = f(x)
    os.kill(int(os.environ["HOST2"]), signal.SIGKILL)
    try:
        for _ in range(100):
            x = f(x)
        jax.block_until_ready(x)
        raise SystemExit("it did not raise")
    except jax.errors.JaxRuntimeError as error:
        assert any(code in str(error) for code in ("DATA_LOSS", "UNAVAILABLE")) and "host2" in str(error) and "nothing heard" not in str(error), error
    np.testing.assert_array_equal(np.asarray(kept), np.full(4, 2.5))
    for _ in range(50):
        kept = pair(kept)
    np.testing.assert_array_equal(np.asarray(kept), np.full(4, 52.5))
    g, y = loop_over([DEVICES[i] for i in (3, 0, 2)])
    np.testing.assert_array_equal(np.asarray(g(y)), np.full(3, 2.0))


for section in sys.argv[1:]:
    globals()[section]()
    print("OK", section, flush=True)
