"""Splits a state into parts, and joins parts. A part is one replica's share of each array, as arrays on that replica's devices alone.

An array over several replicas is lost when one of them is lost; the parts of the other replicas are not. Splitting and joining make new arrays over
the same memory, and copy nothing.
"""

import jax

from pathways._elastic.replicas import scattered_dimension


class Layout:
    """The shapes of a state's arrays, and the specs of their shardings. Immutable."""

    def __init__(self, replicas, leaves, specs):
        self.replicas, self.specs = replicas, specs
        self.shapes = [leaf.shape for leaf in leaves]
        self.dimensions = [scattered_dimension(spec, replicas.axis) for spec in specs]

    @property
    def scattered(self):
        """Whether an array is cut along the axis of the replicas, so that no other replica has the same part."""
        return any(dimension is not None for dimension in self.dimensions)

    def shardings(self, present, memory_kind=None):
        return [self.replicas.sharding(present, spec, memory_kind) for spec in self.specs]

    def take_apart(self, leaves, present):
        """Returns {replica: its parts}, as lists of arrays on single devices."""
        parts = {r: [] for r in present}
        for leaf in leaves:
            by_device = {shard.device: shard.data for shard in leaf.addressable_shards}
            for r in present:
                parts[r].append([by_device[device] for device in self.replicas.devices(r)])
        return parts

    def put_together(self, parts, present):
        """Returns the arrays over these replicas."""
        return [self._join(i, [array for r in present for array in parts[r][i]], present, self.shapes[i]) for i in range(len(self.specs))]

    def of_replica(self, parts, replica, scale):
        """Returns the parts of one of `scale` replicas as arrays on its own mesh."""
        return [self._join(i, parts[replica][i], (replica,), self._part_shape(i, scale)) for i in range(len(self.specs))]

    def _join(self, i, arrays, present, shape):
        return jax.make_array_from_single_device_arrays(shape, self.replicas.sharding(present, self.specs[i]), arrays)

    def _part_shape(self, i, scale):
        shape, dimension = list(self.shapes[i]), self.dimensions[i]
        if dimension is not None:
            shape[dimension] //= scale
        return tuple(shape)
