"""An input pipeline on the hosts: each host writes its part of a data set to its own disk once, then reads batches from there. No batch passes the client.

    JAX_PLATFORMS=pathways PATHWAYS_LOCAL=1x2x2 python examples/host_data.py
"""

import jax
import numpy as np
from jax.experimental import colocated_python
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

BATCH, WIDTH, STEPS = 32, 16, 5
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
batch_like = jax.ShapeDtypeStruct((BATCH, WIDTH), np.float32, sharding=sharding)


@colocated_python.colocated_python_class
class Reader:
    """One object on each host, with an open file."""

    def __init__(self, rows):
        import tempfile

        import jax
        import numpy as np

        self._file = tempfile.TemporaryFile()
        first = jax.process_index() * rows
        np.arange(first * WIDTH, (first + rows) * WIDTH, dtype=np.float32).tofile(self._file)
        self._rows = rows

    def batch(self, step):
        """Returns the rows of this step: each host its own, a part on each of its devices."""
        shards = []
        for place, shard in enumerate(step.addressable_shards):
            rows = BATCH // len(step.sharding.device_set)
            at = (int(shard.data[0]) * len(step.addressable_shards) + place) * rows % self._rows
            self._file.seek(at * WIDTH * 4)
            data = np.fromfile(self._file, np.float32, rows * WIDTH).reshape(rows, WIDTH)
            shards.append(jax.device_put(data, shard.device))
        return jax.make_array_from_single_device_arrays((BATCH, WIDTH), step.sharding, shards)


def main():
    reader = Reader(1024)
    reader.batch = reader.batch.specialize(out_specs_fn=lambda step: batch_like)
    mean = jax.jit(lambda batch: batch.mean())
    total = 0.0
    for i in range(STEPS):
        step = jax.device_put(np.full(len(jax.devices()), i, np.int32), sharding)
        total += float(mean(reader.batch(step)))
    print(f"{STEPS} batches of {BATCH} rows from {len(jax.devices())} devices: mean {total / STEPS:.1f}")


if __name__ == "__main__":
    main()
