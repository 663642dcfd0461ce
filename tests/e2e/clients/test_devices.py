"""The attributes of devices are the same under JAX_PLATFORMS=pathways and JAX_PLATFORMS=proxy, and suffice to lay out meshes over islands."""

import json

import jax
import numpy as np
import pytest
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pathways._cluster.local import Cluster
from pathways._cluster.shape import Shape

# Prints everything that a program can see of a device. The Python object has the server's attributes, but cannot list their names.
SHOW = """
import json, jax
from jax.extend.backend import ifrt_proxy, register_backend_factory
import os

if "proxy" in os.environ["JAX_PLATFORMS"]:  # as pathwaysutils does
    address = os.environ["ADDRESS"]
    register_backend_factory("proxy", lambda: ifrt_proxy.get_client(f"grpc://{address}", ifrt_proxy.ClientConnectionOptions()), priority=-1)

ATTRIBUTES = ["island", "host", "slice_index", "virtual_task_index", "colocation_id", "process_index", "local_hardware_id", "id", "platform",
              "device_kind", "coords", "core_on_chip", "task_id", "host_id"]

def shown(device):
    seen = {name: getattr(device, name, None) for name in ATTRIBUTES}
    memories = [(memory.kind, memory._id if hasattr(memory, "_id") else str(memory)) for memory in device.addressable_memories()]
    return {**seen, "memories": memories, "default": device.default_memory().kind, "text": [str(device), repr(device)]}

mesh = jax.make_mesh((len(jax.devices()),), ("x",))
print(json.dumps({"devices": [shown(device) for device in jax.devices()], "mesh": [device.id for device in mesh.devices.flat]}))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Starts a cluster of two islands, each of two hosts with two devices."""
    made = Cluster(Shape.parse("2x2x2"), tmp_path_factory.mktemp("devices"), listen_proxy="127.0.0.1:0").start()
    yield made
    made.stop()


def show(run_script, **env):
    done = run_script(SHOW, IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true", TF_CPP_MIN_LOG_LEVEL="2", **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_devices_are_the_same_on_both_platforms(cluster, run_script):
    ours = show(run_script, JAX_PLATFORMS="pathways", PATHWAYS_ADDRESS=cluster.address)
    proxy = show(run_script, JAX_PLATFORMS="proxy", ADDRESS=cluster.proxy_address)
    assert proxy == ours
    places = [(d["slice_index"], d["virtual_task_index"], d["colocation_id"], d["process_index"], d["id"]) for d in ours["devices"]]
    assert places == [(i // 4, i // 2 % 2, i, 0, i) for i in range(8)]
    assert ours["mesh"] == list(range(8)), "a mesh over both islands, in the order of the devices"


def test_a_hybrid_mesh_finds_the_islands(devices, islands):
    for shape, across, rows in (((1, 4), (2, 1), islands), ((2, 2), (1, 2), None), ((4,), (2,), None)):
        laid_out = mesh_utils.create_hybrid_device_mesh(shape, across, devices)
        assert laid_out.shape == tuple(inner * outer for inner, outer in zip(shape, across))
        assert set(laid_out.flat) == set(devices)
        if rows is not None:
            assert [list(row) for row in laid_out] == [list(row) for row in rows]
    mesh = Mesh(mesh_utils.create_hybrid_device_mesh((1, 4), (2, 1), devices), ("island", "x"))
    x = np.arange(16.0).reshape(2, 8)
    placed = jax.device_put(x, NamedSharding(mesh, P("island", "x")))
    assert {shard.device for shard in placed.addressable_shards if shard.index[0] == slice(0, 1, None)} == set(islands[0])
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v * 2)(placed)), x * 2)


def test_too_few_islands_for_a_hybrid_mesh_are_refused_by_jax(devices):
    with pytest.raises(ValueError, match="Number of slices 2"):
        mesh_utils.create_hybrid_device_mesh((2,), (4,), devices)


def test_cpu_devices_are_their_own_partners_for_colocated_python(devices):
    from jax.experimental import colocated_python

    some = [devices[5], devices[2], devices[7]]
    assert list(colocated_python.colocated_cpu_devices(some)) == some
