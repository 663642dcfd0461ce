"""Tests the parts of pw.elastic that need no cluster."""

import types

import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from pathways._elastic.replicas import Replicas, scattered_dimension


def replicas(axis="replica"):
    """Returns three replicas of two devices, which are numbers here; the axis of replicas is the second one."""
    mesh = types.SimpleNamespace(axis_names=("data", "replica"), devices=np.array([[0, 2, 4], [1, 3, 5]]))
    return Replicas(mesh, axis)


def test_a_replica_is_a_slice_of_the_mesh_along_its_axis():
    assert replicas().all == (0, 1, 2)
    assert replicas().devices(1) == [2, 3]


def test_a_replica_is_there_if_all_of_its_devices_are():
    assert replicas().among([0, 1, 2, 5, 4]) == (0, 2)
    assert replicas().among(iter([2, 3])) == (1,)


def test_an_axis_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="none is 'rows'"):
        replicas("rows")


@pytest.mark.parametrize("spec, dimension", [(P(), None), (P("data"), None), (P(None, "replica"), 1), (P(("replica", "data")), 0)])
def test_state_is_scattered_where_the_axis_of_replicas_cuts_it(spec, dimension):
    assert scattered_dimension(spec, "replica") == dimension


def test_a_part_that_is_not_contiguous_is_refused():
    with pytest.raises(ValueError, match="must come first"):
        scattered_dimension(P(("data", "replica")), "replica")
