"""Runs Google's pathwaysutils against our server, as a separate program; prints the result of each step as one line of JSON.

    JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://HOST:PORT python pathwaysutils_program.py FOLDER STEP...
    JAX_PLATFORMS=pathways PATHWAYS_ADDRESS=HOST:PORT python pathwaysutils_program.py FOLDER STEP...
"""

import datetime
import json
import sys
import traceback

import jax
import numpy as np
import pathwaysutils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

pathwaysutils.initialize()

FOLDER = sys.argv[1]
DEVICES = jax.devices()
FIRST = Mesh(np.array(DEVICES[:4]).reshape(2, 2), ("a", "b"))
SECOND = Mesh(np.array(DEVICES[4:]), ("x",))
X = np.arange(64, dtype=np.float32).reshape(8, 8)
TIMEOUT = datetime.timedelta(seconds=60)


def array():
    return jax.device_put(X, NamedSharding(FIRST, P("a", "b")))


def check(result, sharding, value=X):
    assert result.sharding == sharding, (result.sharding, sharding)
    np.testing.assert_array_equal(np.asarray(result), value)


def initialize():
    assert pathwaysutils.is_pathways_backend_used() or jax.default_backend() == "cpu"
    assert len(DEVICES) == 8
    assert float(jax.jit(lambda x: x.sum())(array())) == X.sum()


def reshard():
    from pathwaysutils.reshard import reshard

    target = NamedSharding(SECOND, P(None, "x"))
    check(reshard(array(), target), target)
    donated = array()
    tree = reshard({"p": donated, "q": [array()]}, target, donate=True)
    check(tree["p"], target)
    check(tree["q"][0], target)
    assert donated.is_deleted()


def experimental_reshard():
    from pathwaysutils.experimental.reshard import reshard

    target = NamedSharding(SECOND, P("x"))
    check(reshard(array(), target), target)
    for _ in range(2):
        check(reshard(array(), target, cache_resharding_plans=True), target)


def intermediate_sharding():
    from pathwaysutils.reshard import reshard_with_intermediate_sharding

    x, target = array(), NamedSharding(SECOND, P("x"))
    check(reshard_with_intermediate_sharding(x, x.sharding, target), target)


def split_and_concatenate_by_mesh_axis():
    from pathwaysutils.experimental.concatenate_by_mesh_axis import concatenate_by_mesh_axis
    from pathwaysutils.experimental.split_by_mesh_axis import split_by_mesh_axis

    x = array()
    upper, lower = split_by_mesh_axis({"w": x}, "a", 2)
    np.testing.assert_array_equal(np.asarray(upper["w"]), X[:4])
    np.testing.assert_array_equal(np.asarray(lower["w"]), X[4:])
    check(concatenate_by_mesh_axis([upper, lower], "a")["w"], x.sharding)


def split_and_concatenate_unevenly():
    """Splits arrays into parts of unequal size, in another order, several at a time, with and without replication along the axis."""
    from pathwaysutils.experimental.concatenate_by_mesh_axis import concatenate_by_mesh_axis
    from pathwaysutils.experimental.split_by_mesh_axis import split_by_mesh_axis

    mesh = Mesh(np.array(DEVICES).reshape(4, 2), ("a", "b"))
    split, whole = NamedSharding(mesh, P("b", "a")), NamedSharding(mesh, P("b"))
    tree = {"split": jax.device_put(X, split), "whole": jax.device_put(X, whole)}
    first, middle, last = split_by_mesh_axis(tree, "a", [1, 3])
    for part, devices, columns in ((first, DEVICES[:2], X[:, :2]), (middle, DEVICES[2:6], X[:, 2:6]), (last, DEVICES[6:], X[:, 6:])):
        assert part["split"].sharding.device_set == part["whole"].sharding.device_set == set(devices)
        np.testing.assert_array_equal(np.asarray(part["split"]), columns)
        np.testing.assert_array_equal(np.asarray(part["whole"]), X)
    del tree
    turned = concatenate_by_mesh_axis([last, first, middle], "a")
    np.testing.assert_array_equal(np.asarray(turned["split"]), np.concatenate([X[:, 6:], X[:, :2], X[:, 2:6]], axis=1))
    np.testing.assert_array_equal(np.asarray(turned["whole"]), X)
    assert list(turned["whole"].sharding.mesh.devices.flat) == [*DEVICES[6:], *DEVICES[:6]]


def snapshotter():
    """Saves and loads Orbax's copies of a state in host memory, one for each island."""
    from orbax.checkpoint.experimental.v1._src.training.pathways.snapshotter import Snapshotter

    mesh = Mesh(np.array(DEVICES).reshape(2, 4), ("replica", "x"))
    state = {"w": jax.device_put(X, NamedSharding(mesh, P(None, "x"))), "b": jax.device_put(X[0], NamedSharding(mesh, P())), "step": 3}
    kept = Snapshotter()
    kept.save(3, state)
    kept.join()
    assert kept.latest.step == 3
    for expected in range(2):  # the second load uses the copy that the first one kept
        loaded = kept.load(state)
        check(loaded["w"], state["w"].sharding)
        check(loaded["b"], state["b"].sharding, X[0])
        assert loaded["step"] == 3 and loaded["w"].sharding.memory_kind == "device", expected


def persistence():
    from pathwaysutils.persistence import helper

    where, target = f"{FOLDER}/checkpoint", NamedSharding(SECOND, P("x"))
    helper.write_arrays(where, ["w"], [array()], TIMEOUT).result()
    arrays, done = helper.read_arrays(where, ["w"], [X.dtype], [X.shape], [target], list(DEVICES[4:]), TIMEOUT)
    done.result()
    check(arrays[0], target)


def profiling():
    from pathwaysutils import profiling

    request = profiling._create_profile_request("gs://bucket/profile", jax.profiler.ProfileOptions(), max_num_hosts=1)
    profiling._start_pathways_trace_from_profile_request(request)
    jax.jit(lambda v: v @ v)(array()).block_until_ready()
    profiling._profile_state.call_profile_executable()


def elastic_slices():
    from pathwaysutils.elastic import elastic, manager

    by_slice = elastic.get_slice_to_devices(DEVICES)
    assert {s: [d.id for d in ds] for s, ds in by_slice.items()} == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}, by_slice
    assert elastic.get_active_slice_indices() == {0, 1}
    assert elastic.wait_for_slices(2, timeout=30) == {0, 1}
    with_manager = manager.Manager()
    assert (with_manager.total_slice_count, with_manager.active_slice_indices) == (2, {0, 1})
    with_manager.close()


STEPS = [initialize, reshard, experimental_reshard, intermediate_sharding, split_and_concatenate_by_mesh_axis,
         split_and_concatenate_unevenly, snapshotter, persistence, profiling, elastic_slices]


def outcome(step):
    try:
        step()
    except Exception:
        return traceback.format_exc()
    return "ok"


if __name__ == "__main__":
    print(json.dumps({step.__name__: outcome(step) for step in STEPS if step.__name__ in sys.argv[2:]}))
