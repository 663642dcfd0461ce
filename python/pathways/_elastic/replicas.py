"""The devices of each data-parallel replica, and the meshes of the replicas that are present."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Replicas:
    """The replicas of a mesh: its slices along one axis, numbered in their order. Immutable."""

    def __init__(self, mesh, axis):
        if axis not in mesh.axis_names:
            raise ValueError(f"pw.elastic: the mesh has the axes {mesh.axis_names}, and none is '{axis}', the axis of the replicas")
        self.axis, self._mesh, self._at = axis, mesh, mesh.axis_names.index(axis)
        self._groups, self._meshes = list(np.moveaxis(mesh.devices, self._at, 0)), {}
        self.all = tuple(range(len(self._groups)))

    def devices(self, replica):
        return list(self._groups[replica].flat)

    def among(self, devices):
        """Returns the replicas whose devices are all among these."""
        devices = set(devices)
        return tuple(r for r in self.all if devices.issuperset(self.devices(r)))

    def mesh(self, present):
        """Returns the mesh of these replicas (one or more), with the axes of the whole mesh."""
        if present not in self._meshes:
            devices = np.moveaxis(np.stack([self._groups[r] for r in present]), 0, self._at)
            self._meshes[present] = Mesh(devices, self._mesh.axis_names, axis_types=self._mesh.axis_types)
        return self._meshes[present]

    def sharding(self, present, spec, memory_kind=None):
        return NamedSharding(self.mesh(tuple(present)), spec, memory_kind=memory_kind)


def scattered_dimension(spec, axis):
    """Returns the dimension that the axis of replicas cuts, or None: then each replica holds the whole array."""
    for dimension, names in enumerate(spec):
        names = names if isinstance(names, tuple) else (names,)
        if axis not in names:
            continue
        if names[0] != axis:
            raise ValueError(f"pw.elastic: dimension {dimension} of an array with {spec} is cut by {names}: '{axis}', the axis of the replicas, must "
                             "come first there, so that each replica holds a contiguous part")
        return dimension
    return None


def mesh_of(leaves):
    """Returns the mesh on which all arrays of a state are."""
    meshes = {leaf.sharding.mesh for leaf in leaves if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding)}
    if len(meshes) != 1:
        raise ValueError(f"pw.elastic: the arrays of the state must be on one mesh (NamedSharding), they are on {len(meshes)}: place them with "
                         "jax.device_put(state, NamedSharding(mesh, spec))")
    return meshes.pop()


def spec_of(leaf):
    sharding = getattr(leaf, "sharding", None)
    return sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
