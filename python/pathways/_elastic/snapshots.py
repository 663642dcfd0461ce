"""Copies of parts in the host memory of other replicas, for state that is cut along the axis of the replicas.

A snapshot is taken in the background: its copies are requested, and it is used once they have arrived. Each replica's parts go to the memory of
its own hosts and of the next replica's, directly from host to host. So the loss of a replica leaves a copy of everything.
"""

import jax
import jax.numpy as jnp

HOST_MEMORY = "pinned_host"


def works(arrays):
    """Waits for these arrays; returns False if one is lost."""
    try:
        jax.block_until_ready(arrays)
    except jax.errors.JaxRuntimeError:
        return False
    return True


class Snapshot:
    def __init__(self, layout, parts, present, step):
        self._layout, self._present, self.step = layout, present, step
        self._copies = {r: {} for r in present}  # {replica: {where: its parts}}
        for at, r in enumerate(present):
            own = layout.of_replica(parts, r, len(present))
            for where in {r, present[(at + 1) % len(present)]}:
                self._copies[r][where] = jax.device_put(own, layout.shardings((where,), HOST_MEMORY))

    def arrived(self):
        """Whether no copy is in flight any more. Asks for every array, since a client learns that an array is ready only after it has asked."""
        return all([array.is_ready() for copies in self._copies.values() for arrays in copies.values() for array in arrays])

    def sound(self):
        """Whether all copies have arrived."""
        return works(self._copies)

    def forget_all_but(self, alive):
        """Drops the copies in the memory of other replicas: they are lost, even if those replicas come back."""
        for copies in self._copies.values():
            for where in set(copies) - set(alive):
                del copies[where]

    def copies_at(self, replica):
        return [copies[replica] for copies in self._copies.values() if replica in copies]

    def complete(self):
        return all(self._copies.values())

    def restore(self, present):
        """Returns the arrays over these replicas. Raises a JaxRuntimeError if one of their hosts is lost meanwhile."""
        kept = [next(iter(copies.values())) for copies in self._copies.values()]
        return [self._whole(i, [arrays[i] for arrays in kept], present) for i in range(len(self._layout.specs))]

    def _whole(self, i, parts, present):
        layout, dimension = self._layout, self._layout.dimensions[i]
        placed = layout.replicas.sharding(present, layout.specs[i])
        if dimension is None:
            return jax.device_put(parts[0], placed)
        spec = list(layout.specs[i])
        within = spec[dimension] if isinstance(spec[dimension], tuple) else (spec[dimension],)
        spec[dimension] = within[1:] or None
        spread = layout.replicas.sharding(present, jax.sharding.PartitionSpec(*spec))  # each replica gets each part, for a moment
        parts = jax.device_put(parts, [spread] * len(parts))
        return jax.jit(lambda parts: jnp.concatenate(parts, dimension), out_shardings=placed)(parts)
