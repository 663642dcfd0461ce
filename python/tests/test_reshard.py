"""Tests resharding by copies of whole arrays and by programs, as older clients need it, on eight of jax's cpu devices."""

import itertools

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

from pathways._patches import reshard


def shardings():
    devices = np.array(jax.devices())
    rows, left, right = Mesh(devices, "x"), Mesh(devices[:4].reshape(2, 2), ("x", "y")), Mesh(devices[4:], "x")
    back = Mesh(devices[::-1], "x")
    return {"8 split": NamedSharding(rows, P("x")), "8 whole": NamedSharding(rows, P()), "8 reversed": NamedSharding(back, P("x")),
            "4a 2x2": NamedSharding(left, P("x", "y")), "4a part": NamedSharding(left, P(None, "y")),
            "4b split": NamedSharding(right, P("x")), "4b columns": NamedSharding(right, P(None, "x")),
            "one": SingleDeviceSharding(devices[0]), "last": SingleDeviceSharding(devices[7])}


NAMES = ["8 split", "8 whole", "8 reversed", "4a 2x2", "4a part", "4b split", "4b columns", "one", "last"]


@pytest.mark.parametrize("pair", list(itertools.permutations(NAMES, 2)), ids=" to ".join)
def test_every_pair_keeps_the_values(pair):
    source, target = (shardings()[name] for name in pair)
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    result = reshard._in_steps(jax.device_put(value, source), target)
    assert result.sharding.is_equivalent_to(target, 2)
    np.testing.assert_array_equal(np.asarray(result), value)
