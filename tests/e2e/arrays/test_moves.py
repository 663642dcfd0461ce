"""Moves arrays between any two shardings of a cluster: by jax.device_put, and by a program of one transfer, which is the only way of some clients."""

import itertools

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

from pathways._client import programs


def shardings(devices):
    devices = np.array(devices)
    rows, left, right = Mesh(devices, "x"), Mesh(devices[:4].reshape(2, 2), ("x", "y")), Mesh(devices[4:], "x")
    back = Mesh(devices[::-1], "x")
    return {"8 split": NamedSharding(rows, P("x")), "8 whole": NamedSharding(rows, P()), "8 reversed": NamedSharding(back, P("x")),
            "4a 2x2": NamedSharding(left, P("x", "y")), "4a part": NamedSharding(left, P(None, "y")),
            "4b split": NamedSharding(right, P("x")), "4b columns": NamedSharding(right, P(None, "x")),
            "one": SingleDeviceSharding(devices[0]), "last": SingleDeviceSharding(devices[7])}


NAMES = ["8 split", "8 whole", "8 reversed", "4a 2x2", "4a part", "4b split", "4b columns", "one", "last"]


def by_a_program(x, target):
    return programs.move(x, target, donate=False)


@pytest.mark.parametrize("move", [jax.device_put, by_a_program])
@pytest.mark.parametrize("source", NAMES)
def test_every_target_keeps_the_values(devices, source, move):
    all_of_them = shardings(devices)
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    x = jax.device_put(value, all_of_them[source])
    for name, target in all_of_them.items():
        result = move(x, target)
        assert result.sharding == target, name
        np.testing.assert_array_equal(np.asarray(result), value)
        for shard in result.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])


def test_a_donated_array_is_gone(devices):
    source, target = itertools.islice(shardings(devices).values(), 2)
    x = jax.device_put(np.arange(16.0).reshape(8, 2), source)
    y = programs.move(x, target, donate=True)
    assert x.is_deleted() and float(np.asarray(y).sum()) == 120
    kept = jax.device_put(np.arange(16.0).reshape(8, 2), source)
    assert float(np.asarray(jax.device_put(kept, target, donate=True)).sum()) == 120 and kept.is_deleted()
