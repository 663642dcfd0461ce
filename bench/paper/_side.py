"""One jax process of a measurement: `_side.py MODE ADDRESS DEVICES`. MODE is one of bench/_client.py, or "simulated", where all results are zeros. Requests
are JSON lines on standard input; results are JSON lines on standard output. The computation is the paper's: the sum over all devices of a scalar on each,
and an addition.

    opbyop     each computation is a call
    chained    128 calls traced into one program (@pw.program)
    fused      one call with 128 of them inside
    work       each computation is a call, and first keeps each device busy for `size` steps
    busy       the same on simulated devices: `size` operations on each
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import _answers  # noqa: E402
import _client  # noqa: E402
from _setup import NODES  # noqa: E402


class Side:
    def __init__(self, count, simulated=False):
        import jax
        import numpy as np

        self.jax = jax
        self.mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("i",))
        self.spec = jax.sharding.PartitionSpec("i")
        self.sharding = jax.sharding.NamedSharding(self.mesh, self.spec)
        self.count = count
        self.simulated = simulated
        self.start = jax.device_put(np.zeros(count, np.float32), self.sharding)
        self.made = {}

    def _jit(self, function):
        mapped = self.jax.shard_map(function, mesh=self.mesh, in_specs=self.spec, out_specs=self.spec, check_vma=False)
        return self.jax.jit(mapped, in_shardings=self.sharding, out_shardings=self.sharding)

    def _zeros(self, count):
        """Makes zeros on the devices. Simulated devices need no memory for them."""
        return self.jax.jit(lambda: self.jax.numpy.zeros(count, "float32"), out_shardings=self.sharding)()

    def _step(self, y):
        return self.jax.lax.psum(y, "i") * (1 / self.count) + 1

    def function(self, kind, size=0):
        """Returns (the function of this kind, the computations in each of its calls)."""
        jax = self.jax
        if kind == "opbyop":
            return self._jit(self._step), 1
        if kind == "fused":
            return self._jit(lambda y: jax.lax.fori_loop(0, NODES, lambda _, v: self._step(v), y)), NODES
        if kind == "chained":
            import pathways as pw

            step = self._jit(self._step)

            def chain(y):
                for _ in range(NODES):
                    y = step(y)
                return y

            return pw.program(chain), NODES

        if kind == "busy":
            return self._jit(lambda y: y + jax.lax.psum(y[:1] + 1, "i")), 1

        def work(y):  # `busy` adds nothing; the compiler cannot know that
            busy = jax.lax.fori_loop(0, size, lambda _, v: jax.numpy.sin(v) + 1, jax.numpy.broadcast_to(y, (256,)))
            return self._step(y + jax.numpy.minimum(busy[:1], 0))

        return self._jit(work), 1

    def rate(self, kind, calls, depth, size=0):
        """Measures computations a second with at most `depth` calls under way, and the caller's time for making and awaiting a call."""
        if (kind, size) not in self.made:
            f, nodes = self.function(kind, size)
            start = self._zeros(self.count * size) if kind == "busy" else self.start
            y = f(f(start))
            assert float(self.jax.device_get(y.addressable_data(0))[0]) == (0 if self.simulated else 2 * nodes), "a wrong result"
            self.made[kind, size] = f, nodes, start
        f, nodes, start = self.made[kind, size]
        timed = _answers.timed_calls(f, start, calls, depth, self.jax.block_until_ready)
        return {**timed, "per_s": nodes * timed["per_s"]}


def main():
    mode, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    _client.DEVICES = count
    _client.set_environment("package" if mode == "simulated" else mode, address)
    out = _answers.channel()
    _client.join_others(mode, address)
    side = Side(count, mode == "simulated")
    _answers.serve_and_exit(side, out, {"devices": count}, keep_errors=True)


if __name__ == "__main__":
    main()
