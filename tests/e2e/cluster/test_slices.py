"""Tests virtual slices: uses their devices wherever jax takes devices, shares them, and waits for them from several clients."""

import json
import os
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import pathways as pw
from conftest import ROOT, clean_environment


@pytest.fixture
def slices():
    with pw.make_virtual_device_set() as made:
        yield made


def test_jax_lists_the_machines_own_devices_alone(devices, slices):
    one = slices.add_slice(devices=2)
    assert jax.devices() == devices and jax.device_count() == len(devices)
    assert not set(one.devices) & set(devices)
    for device in one.devices:
        assert (device.platform, device.device_kind) == (devices[0].platform, devices[0].device_kind)
        assert device.default_memory().kind == devices[0].default_memory().kind
        assert [m.kind for m in device.addressable_memories()] == [m.kind for m in devices[0].addressable_memories()]
    x = jax.block_until_ready(jax.device_put(np.ones(1 << 20, np.uint8), one.devices[1]))  # its memory counts once its bytes have arrived
    stats = [device.memory_stats() for device in one.devices]
    assert stats[1]["bytes_in_use"] >= stats[0]["bytes_in_use"] + (1 << 20) and stats[1]["peak_bytes_in_use"] >= x.nbytes


def test_in_a_mesh_with_jit_and_shardings_of_all_kinds(slices):
    mesh = slices.add_slice(shape=(2, 2)).mesh("x", "y")
    x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    for spec in (P("x", "y"), P("x"), P(None, "y"), P(), P(("x", "y"))):
        placed = jax.device_put(x, NamedSharding(mesh, spec))
        result = jax.jit(lambda v: (v @ v.T).sum(axis=0))(placed)
        np.testing.assert_allclose(np.asarray(result), (x @ x.T).sum(axis=0), rtol=1e-5)
        assert result.sharding.device_set == set(mesh.devices.flat)
        assert {shard.device for shard in placed.addressable_shards} == set(mesh.devices.flat)


def test_in_shard_map(slices):
    mesh = slices.add_slice(devices=4).mesh("x")
    f = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x") + jax.lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    assert list(np.asarray(f(np.arange(4.0)))) == [6.0, 7.0, 8.0, 9.0]


def test_in_pmap(slices):
    f = jax.pmap(lambda v: v / jax.lax.psum(v, "i"), axis_name="i", devices=slices.add_slice(tpu_devices=2).tpus)
    np.testing.assert_allclose(np.asarray(f(np.array([1.0, 3.0], np.float32))), [0.25, 0.75])


def test_device_put_between_slices_and_the_machines_devices(slices, devices):
    one, two = slices.add_slice(devices=2), slices.add_slice(devices=2)
    x = jax.device_put(np.arange(4.0), NamedSharding(one.mesh("x"), P("x")))
    for target in (NamedSharding(two.mesh("x"), P("x")), NamedSharding(two.mesh("x"), P()), two.devices[1], devices[5],
                   NamedSharding(Mesh(np.array(devices[:4]), ("x",)), P("x"))):
        np.testing.assert_array_equal(np.asarray(jax.device_put(x, target)), np.arange(4.0))
    x.delete()
    assert x.is_deleted()


def test_more_virtual_devices_than_physical_ones(slices, devices):
    made = [slices.add_slice(devices=4) for _ in range(6)]
    assert len(slices.devices) > len(devices)
    results = [jax.jit(lambda v: v * 2)(jax.device_put(np.arange(4.0) + i, NamedSharding(one.mesh("x"), P("x")))) for i, one in enumerate(made)]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(np.asarray(result), 2 * (np.arange(4.0) + i))
    load = {}
    for one in made:
        for physical in one.placement()["physical"]:
            load[physical] = load.get(physical, 0) + 1
    assert len(load) == len(devices) and max(load.values()) - min(load.values()) <= 1


def test_in_a_program(slices):
    first, second = slices.add_slice(devices=2, island="island0"), slices.add_slice(devices=4, island="island1")
    double = jax.jit(lambda v: v * 2, in_shardings=NamedSharding(first.mesh("x"), P("x")))
    total = jax.jit(lambda v: v.sum(), in_shardings=NamedSharding(second.mesh("x"), P("x")))

    @pw.program
    def f(v):
        v = double(v)
        return v, total(v)

    for i in range(3):
        doubled, summed = f(np.arange(8.0, dtype=np.float32) + i)
        np.testing.assert_array_equal(np.asarray(doubled), 2 * (np.arange(8.0) + i))
        assert float(summed) == 2 * (28 + 8 * i)
        assert doubled.sharding.device_set == set(first.devices)


def test_constraints(slices):
    named = slices.add_slice(devices=2, island="island1")
    assert named.placement()["island"] == "island1"
    beside = slices.add_slice(devices=1, same_island_as=named)
    assert beside.island == "island1"
    assert slices.add_slice(gpu_devices=1, kind=jax.devices()[0].device_kind).gpus
    assert "slice" in repr(beside) and "island1" in repr(beside)


@pytest.mark.parametrize("wanted, error, text", [
    (dict(devices=5), pw.InfeasibleSlice, "nearest fit is 4 devices of kind cpu in island"),
    (dict(devices=1, island="atlantis"), pw.InfeasibleSlice, "island0"),
    (dict(devices=1, kind="abacus"), pw.InfeasibleSlice, "of kind cpu.* in island 'island0'"),
    (dict(devices=0), ValueError, "at least 1"),
    (dict(shape=(2, 2), devices=5), ValueError, "the shape .2, 2., which has 4 devices"),
    (dict(shape=(1, 1, 1, 1)), ValueError, "1 to 3"),
    (dict(devices=1, spread=True, pack=True), ValueError, "choose one"),
    (dict(devices=1, tpu_devices=1), TypeError, "only one of"),
    (dict(), TypeError, "how many"),
    (dict(devices=1, memory_per_device=-1), ValueError, "memory_per_device"),
])
def test_what_cannot_be(slices, wanted, error, text):
    with pytest.raises(error, match=text):
        slices.add_slice(**wanted)
    assert slices.slices == []


def test_a_released_slice(slices):
    one = slices.add_slice(devices=2)
    mesh, device = one.mesh("x"), one.devices[0]
    x = jax.device_put(np.arange(4.0), NamedSharding(mesh, P("x")))
    kept = jax.device_put(x, NamedSharding(slices.add_slice(devices=2).mesh("x"), P("x")))
    f = jax.jit(lambda v: v + 1)
    f(x).block_until_ready()
    one.release()
    one.release()
    released = f"slice {one.number} was released"
    for use in (lambda: np.asarray(f(x)), lambda: jax.block_until_ready(x), lambda: jax.device_put(np.ones(2), device).block_until_ready(),
                lambda: jax.jit(lambda v: v - 1)(x).block_until_ready(),
                lambda: jax.jit(lambda: jnp.zeros(3), out_shardings=NamedSharding(mesh, P()))().block_until_ready()):
        with pytest.raises(jax.errors.JaxRuntimeError, match=released):
            use()
    with pytest.raises(pw.SliceError, match=released):
        one.devices
    with pytest.raises(pw.SliceError, match=released):
        slices.add_slice(devices=1, same_island_as=one)
    np.testing.assert_array_equal(np.asarray(kept), np.arange(4.0))


def test_one_computation_over_slices_that_share_a_device(slices):
    made = [slices.add_slice(devices=4) for _ in range(3)]
    one, other = next((a, b) for i, a in enumerate(made) for b in made[:i] if set(a.placement()["physical"]) & set(b.placement()["physical"]))
    mesh = Mesh(np.array(one.devices + other.devices), ("x",))
    x = jax.device_put(np.arange(16.0), NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(np.asarray(x), np.arange(16.0))
    with pytest.raises(jax.errors.JaxRuntimeError, match="both on physical device"):
        jax.jit(lambda v: v + 1)(x)


def test_waiting_ends_with_the_timeout_or_with_a_release(slices, capfd):
    held = [slices.add_slice(devices=4, exclusive=True, island=f"island{i}") for i in range(2)]
    with pytest.raises(pw.SliceTimeout, match="1 device in island island0 or island1, held by slice"):
        slices.add_slice(devices=1, timeout=0)
    with pytest.raises(pw.SliceTimeout):
        slices.add_slice(devices=1, timeout=2.6)
    assert "pathways: waiting for a slice of 1 device in island" in capfd.readouterr().err
    held[1].release()
    assert slices.add_slice(devices=1, timeout=0).island == "island1"


OTHER = """
import sys
import pathways as pw
slice = pw.make_virtual_device_set().add_slice(devices=2, exclusive=True)
print("has it", flush=True)
sys.stdin.read()
"""


def test_a_client_that_is_killed_makes_room_for_another(tmp_path):
    env = clean_environment(PATHWAYS_HOME=str(tmp_path))
    env.pop("PATHWAYS_LOCAL")

    def pathways(*arguments):
        return subprocess.run([sys.executable, "-m", "pathways", *arguments], env=env, capture_output=True, text=True, timeout=120)

    up = pathways("up", "--devices", "2", "--json")
    assert up.returncode == 0, up.stderr
    try:
        env["PATHWAYS_ADDRESS"] = json.loads(up.stdout)["address"]
        script = tmp_path / "other.py"
        script.write_text(OTHER)
        first = subprocess.Popen([sys.executable, script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert first.stdout.readline() == "has it\n"
        second = subprocess.Popen([sys.executable, script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = next(line for line in second.stderr if "pathways: waiting" in line)
        assert "2 exclusive devices in island island0, held by slice 1 of client 1 (position 1 in the queue)" in line
        status = pathways("status").stdout
        assert "slice 1       of client 1   2 devices, exclusive   on 0,1 of island island0" in status and "waits at position 1" in status
        os.kill(first.pid, signal.SIGKILL)
        assert second.stdout.readline() == "has it\n"
        second.stdin.close()
        assert second.wait(60) == 0
        first.wait(60)
    finally:
        pathways("down")


WORKING = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import pathways as pw

slice = pw.make_virtual_device_set().add_slice(devices=2)
mesh = slice.mesh("x")
rows = NamedSharding(mesh, P("x"))
step = jax.jit(lambda w: jnp.tanh(w * 1.01 + 0.01), in_shardings=rows, out_shardings=rows)
twice = pw.program(lambda w: step(step(w)))
w = jax.device_put(np.linspace(-1, 1, 64, dtype=np.float32), rows)
for line in sys.stdin:
    for _ in range(10):
        w = step(w)
    w = twice(w)
    where = slice.placement()
    print(repr(float(jnp.sum(w))), *np.asarray(w)[:2], *sorted(set(where["hosts"])), where["epoch"], flush=True)
"""


class Working:
    """A client that does a little work on request."""

    def __init__(self, path, env):
        path.write_text(WORKING)
        self.process = subprocess.Popen([sys.executable, path], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def hear(self):
        total, first, second, host, epoch = self.process.stdout.readline().split()
        return (total, first, second), host, int(epoch)

    def work(self):
        self.ask()
        return self.hear()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.fixture
def two_hosts(tmp_path):
    """Starts a cluster of one island with two hosts of two devices; yields (environment of its clients, the command line)."""
    env = clean_environment(PATHWAYS_HOME=str(tmp_path / "home"))
    env.pop("PATHWAYS_LOCAL")

    def pathways(*arguments, ok=True):
        done = subprocess.run([sys.executable, "-m", "pathways", *map(str, arguments)], env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == ok, done.stdout + done.stderr
        return done.stdout

    env["PATHWAYS_ADDRESS"] = json.loads(pathways("up", "--hosts", "2", "--devices", "2", "--json"))["address"]
    yield env, pathways
    pathways("down")


def test_a_drained_hosts_slices_move_and_the_program_notices_nothing(two_hosts, tmp_path):
    env, pathways = two_hosts
    undisturbed, moved = Working(tmp_path / "a.py", env), Working(tmp_path / "b.py", env)
    values, home, _ = undisturbed.work()
    same, start, epoch = moved.work()
    assert values == same and epoch == 1 and {home, start} == {"host0", "host1"}
    assert json.loads(pathways("drain", start, "--json"))["stuck"] == []
    values, home, epoch = undisturbed.work()
    assert (home, epoch) == ({"host0": "host1", "host1": "host0"}[start], 1)
    assert moved.work() == (values, home, 2)
    assert "stays" in pathways("drain", home, ok=False)
    pathways("drain", start, "--undo")
    assert json.loads(pathways("drain", home, "--json"))["stuck"] == []
    values, _, _ = undisturbed.work()
    assert moved.work() == (values, start, 3)
    undisturbed.end()
    moved.end()


def test_a_suspended_client_goes_on_where_it_was(two_hosts, tmp_path):
    env, pathways = two_hosts
    undisturbed, paused = Working(tmp_path / "a.py", env), Working(tmp_path / "b.py", env)
    values, _, _ = undisturbed.work()
    same, host, _ = paused.work()
    assert same == values
    clients = json.loads(pathways("status", "--json"))["slices"]
    client = next(one["client"] for one in clients if one["devices"] == ([0, 1] if host == "host0" else [2, 3]))
    assert "in host memory" in pathways("suspend", client)
    paused.ask()  # the request waits
    assert "suspended" in pathways("status", "--json")
    pathways("drain", host)
    assert "on devices" in pathways("resume", client)
    values, other, _ = undisturbed.work()
    assert paused.hear() == (values, other, 2) and other != host
    undisturbed.end()
    paused.end()


def run_example(name, shape, tmp_path):
    return subprocess.run([sys.executable, ROOT / "examples" / name], env=clean_environment(PATHWAYS_LOCAL=shape), cwd=tmp_path,
                          capture_output=True, text=True, timeout=180)


def test_figure_2_as_printed(tmp_path):
    done = run_example("figure2.py", "1x1x2", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(array([3., 5.]), array([2., 4.]))\n"


def test_the_heterogeneous_example(tmp_path):
    done = run_example("heterogeneous.py", "2x1x2", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("as on one machine") == 2
