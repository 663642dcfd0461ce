"""Runs scripts written for multi-controller jax, and jax's tools for programs, such as the profiler."""

import gzip
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def test_one_process_sees_everything(devices):
    assert (jax.process_index(), jax.process_count()) == (0, 1)
    assert jax.local_device_count() == jax.device_count() == len(devices)
    assert jax.local_devices() == devices
    assert all(d.process_index == 0 for d in devices)


def test_multihost_utils(islands):
    mesh = Mesh(np.array(islands[0]), ("x",))
    multihost_utils.sync_global_devices("here")
    np.testing.assert_array_equal(multihost_utils.broadcast_one_to_all(np.arange(3)), np.arange(3))
    assert np.asarray(multihost_utils.process_allgather(np.arange(3))).ravel().tolist() == [0, 1, 2]
    x = multihost_utils.host_local_array_to_global_array(np.arange(8), mesh, P("x"))
    np.testing.assert_array_equal(multihost_utils.global_array_to_host_local_array(x, mesh, P("x")), np.arange(8))
    multihost_utils.assert_equal(np.arange(3), "must be equal")


def test_a_multi_controller_script_runs_as_it_is(run_script):
    done = run_script("""
import jax
jax.distributed.initialize(coordinator_address='localhost:9999', num_processes=2, process_id=0)
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("data",))
sharding = NamedSharding(mesh, P("data"))
local = np.arange(8, dtype=np.float32).reshape(4, 2)
batch = jax.make_array_from_process_local_data(sharding, local)
total = jax.jit(lambda b: b.sum())(batch)
if jax.process_index() == 0:
    print(float(total), jax.distributed.is_initialized())
jax.distributed.shutdown()
""")
    assert (done.returncode, done.stdout) == (0, "28.0 True\n"), done.stderr


def test_the_profiler_writes_a_trace(tmp_path):
    with jax.profiler.trace(str(tmp_path)):
        with jax.profiler.TraceAnnotation("work"):
            (jnp.ones((64, 64)) @ jnp.ones((64, 64))).block_until_ready()
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_the_device_memory_profile_lists_the_arrays_of_each_device(islands):
    x = jax.device_put(np.ones(8), NamedSharding(Mesh(np.array(islands[1]), ("x",)), P("x"))).block_until_ready()
    profile = gzip.decompress(jax.profiler.device_memory_profile())  # pprof's format stores strings in plain text
    assert all(str(device).encode() in profile for device in x.devices())
    assert b"buffer" in profile and pathlib.Path(__file__).name.encode() in profile, "the line that made the array"


def test_what_programs_print_about_devices(devices):
    for device in devices:
        assert str(device) and repr(device) and device.device_kind and device.platform
    assert jax.print_environment_info(return_string=True)
    assert len({d.id for d in devices}) == len(devices)


def test_devices_say_their_island(islands):
    first, second = ({str(d.island) for d in island} for island in islands)
    assert len(first) == len(second) == 1 and first != second


def test_visualizing_a_sharding(islands, capsys):
    sharding = NamedSharding(Mesh(np.array(islands[1]), ("x",)), P("x"))
    x, seen = jax.device_put(np.ones(8), sharding), []
    jax.debug.inspect_array_sharding(x, callback=seen.append)

    @jax.jit
    def inside(v):
        jax.debug.inspect_array_sharding(v, callback=seen.append)
        return v + 1

    np.testing.assert_array_equal(inside(x), np.full(8, 2.0))
    assert len(seen) == 2 and all(found.is_equivalent_to(sharding, 1) for found in seen), seen
    jax.debug.visualize_array_sharding(x)
    shown = capsys.readouterr().out
    places = [shown.find(f"CPU {device.id}") for device in islands[1]]
    assert -1 < places[0] and places == sorted(places), shown
