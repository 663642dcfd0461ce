"""`pathways up --simulated`: a stock jax client on a cluster whose hosts are simulated. Results are zeros of the right shape."""

import json
import pathlib

import pytest
from cli import CommandLine

# Features of real hosts must work here too: one jit over all devices, parts of it, moves, programs, slices.
ALL = """
import jax, jax.numpy as jnp, numpy as np, pathways as pw
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices()
n = len(devices)
mesh = Mesh(np.array(devices), ("x",))
rows = NamedSharding(mesh, P("x"))
given = np.arange(2.0 * n, dtype=np.float32).reshape(n, 2)
x = jax.device_put(given, rows)
np.testing.assert_array_equal(np.asarray(x), given)  # what is uploaded keeps its contents

total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(x)
assert total.shape == (1, 2) and total.sharding.is_fully_replicated and not np.asarray(total).any()

half = Mesh(np.array(devices).reshape(2, n // 2), ("data", "model"))
a = jax.device_put(jnp.ones((4, 8 * n), jnp.bfloat16), NamedSharding(half, P("data", "model")))
b = jax.device_put(jnp.ones((8 * n, 6), jnp.bfloat16), NamedSharding(half, P("model", None)))
product = jax.jit(lambda a, b: a @ b, out_shardings=NamedSharding(half, P("data", None)))(a, b)
assert product.shape == (4, 6) and product.dtype == jnp.bfloat16 and not np.asarray(product).any()
assert jax.jit(lambda a, b: a @ b)(a, b).addressable_shards[0].data.shape == (2, 6)  # as XLA's partitioner chooses

grown = jax.jit(lambda v: (v * 2, v.sum()))
y, s = grown(x)
assert y.sharding.is_equivalent_to(rows, 2) and s.shape == ()

turned = Mesh(np.array(devices[::-1]), ("x",))
np.testing.assert_array_equal(np.asarray(jax.device_put(x, NamedSharding(turned, P("x")))), given)  # each shard to another host
last = jax.device_put(given[0], devices[-1])
np.testing.assert_array_equal(np.asarray(jax.device_put(last, devices[0])), given[0])

step = jax.jit(lambda v: v + 1, in_shardings=rows, out_shardings=rows)
@pw.program
def chain(v):
    for _ in range(8):
        v = step(v)
    return v
out = chain(x)
assert out.shape == x.shape and not np.asarray(out).any()

big = jax.jit(lambda: jnp.zeros((n, 1 << 28), jnp.float32), out_shardings=rows)()  # 1 GiB on each device
big.block_until_ready()
assert big.nbytes == n << 30
if n < 100:  # n * n pieces
    other = jax.device_put(x, NamedSharding(mesh, P(None, None)))
    np.testing.assert_array_equal(np.asarray(other.addressable_data(n - 1)), given)
print(n, len({d.host for d in devices}), len({d.island for d in devices}))
"""


@pytest.fixture
def command(tmp_path):
    command = CommandLine(tmp_path / "home")
    yield command
    command("down", check=False)


def test_a_stock_client_on_simulated_hosts(command):
    up = command("up", "--simulated", "2x3x2", "--simulated-device", "instant")
    assert (up["islands"], up["hosts_per_island"], up["devices"]) == (2, 3, 12)
    assert command.run(up["address"], ALL).split() == ["12", "6", "2"]
    status = command("status")
    assert len(status["hosts"]) == 6 and {d["kind"] for d in status["devices"]} == {"simulated"}
    assert command("down")["stopped"] == ["controller", "hosts", "agent"]


def threads_allowed():
    """Returns this container's limit on threads; infinity if it has none."""
    found = [path.read_text().strip() for path in map(pathlib.Path, ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")) if path.exists()]
    return min((int(limit) for limit in found if limit != "max"), default=float("inf"))


@pytest.mark.skipif(threads_allowed() < 4096, reason="XLA's compiler makes a thread for each of 2,048 devices")
def test_two_thousand_devices(command):
    up = command("up", "--simulated", "512x4")
    assert up["devices"] == 2048
    assert command.run(up["address"], ALL).split() == ["2048", "512", "1"]
    assert "2048 x simulated" in command("status", check=False).stdout


LOOP = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
rows = NamedSharding(mesh, P("x"))
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
y = jax.block_until_ready(total(jax.device_put(np.zeros(len(jax.devices()), np.float32), rows)))
for _ in range(CALLS):
    y = total(y)
y.block_until_ready()
"""


def test_a_computation_is_one_message_to_each_host(command):
    """The number of messages per frame depends on thread timing: pathways/controller/cluster/frames_test.cc and pathways/sim/reports_test.cc
    count frames, each with its own clock."""
    up = command("up", "--simulated", "64x1", "--simulated-device", "instant")
    executes = lambda: [host["commands"].get("execute", 0) for host in command("status")["hosts"]]
    calls, before = 400, executes()
    command.run(up["address"], LOOP.replace("CALLS", str(calls)))
    assert [now - then for now, then in zip(executes(), before)] == [calls + 1] * 64


TIMED = """
import jax, jax.numpy as jnp, json, os, time
from pathways._cluster import admin
def device_seconds():  # of this client, as its devices report them
    return admin.status(os.environ["PATHWAYS_ADDRESS"], 60)["clients"][0]["device_seconds"]
device = jax.devices()[0]
a = jax.jit(lambda: jnp.zeros((1000, 1000), jnp.float32), out_shardings=jax.sharding.SingleDeviceSharding(device))()
f = jax.jit(lambda a: a @ a)
f(a).block_until_ready()
before, begin = device_seconds(), time.monotonic()
for _ in range(10):
    a = f(a)
a.block_until_ready()
print(json.dumps([time.monotonic() - begin, device_seconds() - before]))
"""

RING = """
import jax, json, numpy as np, os, time
from pathways._cluster import admin
def device_seconds():
    return admin.status(os.environ["PATHWAYS_ADDRESS"], 60)["clients"][0]["device_seconds"]
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
x = jax.block_until_ready(total(jax.device_put(np.zeros(4, np.float32), NamedSharding(mesh, P("x")))))
before, begin = device_seconds(), time.monotonic()
for _ in range(5):
    x = total(x)
x.block_until_ready()
print(json.dumps([time.monotonic() - begin, device_seconds() - before]))
"""

TOO_MUCH = """
import jax, jax.numpy as jnp
make = jax.jit(lambda: jnp.zeros((1 << 20,), jnp.float32))
try:
    kept = [make().block_until_ready() for _ in range(20)]
except Exception as error:
    print("RESOURCE_EXHAUSTED" in str(error))
"""


def test_devices_take_their_time_and_have_their_memory(command):
    up = command("up", "--simulated", "1x1", "--simulated-device", "4e10:0:64e6")  # 2e9 operations: 50 ms
    took, devices_took = json.loads(command.run(up["address"], TIMED))
    assert devices_took == pytest.approx(0.5) and took >= 0.5
    assert command.run(up["address"], TOO_MUCH).strip() == "True"


def test_a_recorded_run_ends_when_its_devices_do(command, tmp_path):
    """The worker notices the end later, on a busy machine much later."""
    up = command("up", "--simulated", "1x1", "--simulated-device", "4e10:0:64e6")
    program = command.program(up["address"], TIMED.partition("before, begin")[0] + "print('ready', flush=True)\nwhile True:\n    a = f(a).block_until_ready()\n")
    assert program.stdout.readline() == "ready\n"
    path = tmp_path / "trace.json"
    command("trace", "--seconds", "2", "--check", "-o", str(path))
    program.kill()
    program.communicate()
    _, *runs = sorted((e["ts"], e["dur"]) for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "run" and "dur" in e)  # the first may be cut
    assert runs and [took for _, took in runs] == pytest.approx([50e3] * len(runs), abs=1)


@pytest.mark.parametrize("shape, step_seconds", [("1x2x2", 5e-3), ("2x1x2", 20e-3)])
def test_a_ring_of_devices_takes_its_steps_and_waits_for_its_slowest_link(command, shape, step_seconds):
    up = command("up", "--simulated", shape, "--simulated-device", "0:0:0:20e-3:0:0:5e-3")
    took, devices_took = json.loads(command.run(up["address"], RING))
    seconds = 5 * 2 * 3 * step_seconds
    assert devices_took == pytest.approx(4 * seconds) and took >= seconds
