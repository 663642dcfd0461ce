"""One of several processes of stock jax with libpjrt_cpu.so. test_processes.py starts it with COORDINATOR PROCESS PROCESSES PLUGIN WORLD,
where WORLD is how the processes find each other."""

import os
import sys

os.environ["JAX_PLATFORMS"] = "pwcpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

coordinator, process, processes, plugin, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
LOCAL = 2
xla_bridge.register_plugin("pwcpu", library_path=plugin, priority=500, options={"num_devices": LOCAL, "world": world})
jax.distributed.initialize(coordinator, processes, process)
devices = jax.devices("pwcpu")
n = len(devices)
assert n == LOCAL * processes and len(jax.local_devices(backend="pwcpu")) == LOCAL
assert [d.id for d in devices] == [2048 * p + i for p in range(processes) for i in range(LOCAL)]
print("DEVICES", n, flush=True)

mesh = Mesh(np.array(devices), ("x",))
square = Mesh(np.array(devices).reshape(2, n // 2).T, ("a", "b"))


def array(values, mesh, spec):
    return jax.make_array_from_callback(values.shape, NamedSharding(mesh, spec), lambda index: values[index])


def check(ours, expected):
    for shard in ours.addressable_shards:
        np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-6, atol=1e-5)


def mapped(f, mesh, spec, out):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out, check_vma=False))


for dtype in (np.float32, np.int8, np.complex64, np.bool_, jnp.bfloat16):
    x = (np.arange(n * n * 2) % 5 - 2).astype(dtype)
    blocks = x.reshape(n, -1)
    v = array(x, mesh, P("x"))
    check(mapped(lambda a: jax.lax.all_gather(a, "x", tiled=True), mesh, P("x"), P())(v), x)
    check(mapped(lambda a: jax.lax.ppermute(a, "x", [(i, (i + 1) % n) for i in range(n)]), mesh, P("x"), P("x"))(v), np.roll(blocks, 1, 0).ravel())
    check(mapped(lambda a: jax.lax.all_to_all(a, "x", 0, 0, tiled=True), mesh, P("x"), P("x"))(v),
          blocks.reshape(n, n, -1).swapaxes(0, 1).ravel())
    if dtype is np.bool_:
        check(mapped(lambda a: jax.lax.pmax(a, "x"), mesh, P("x"), P())(v), blocks.any(0))
        continue
    total = blocks.astype(np.complex128).sum(0).astype(dtype)
    check(mapped(lambda a: jax.lax.psum(a, "x"), mesh, P("x"), P())(v), total)
    check(mapped(lambda a: jax.lax.psum_scatter(a, "x", tiled=True), mesh, P("x"), P("x"))(v), total)
print("COLLECTIVES", flush=True)

w = np.random.default_rng(0).standard_normal((12, 24)).astype(np.float32)
for spec in (P("a", "b"), P("b"), P(None, ("a", "b"))):
    product = jax.jit(lambda m: m @ m.T, out_shardings=NamedSharding(square, P("b", "a")))(array(w, square, spec))
    check(product, w @ w.T)
print("PARTITIONED", flush=True)

y = array(np.zeros(n, np.float32), mesh, P("x"))
step = mapped(lambda a: jax.lax.psum(a, "x") / n + 1, mesh, P("x"), P("x"))
for _ in range(300):
    y = step(y)
check(y, np.full(n, 300, np.float32))
print("LOOP", flush=True)

if "die" in sys.argv:
    jax.block_until_ready(step(y))
    if process == processes - 1:
        os.kill(os.getpid(), 9)
    try:
        for _ in range(1000):
            for _ in range(20):
                y = step(y)
            y.block_until_ready()
        print("IT WENT ON", flush=True)
    except Exception as error:
        print("ERROR", str(error).splitlines()[0], flush=True)
    alone = jax.jit(lambda a: a * 2)(jax.device_put(np.arange(3.0), jax.local_devices(backend="pwcpu")[1]))
    print("ALONE", np.asarray(alone).tolist(), flush=True)
    os._exit(0)
jax.distributed.shutdown()
