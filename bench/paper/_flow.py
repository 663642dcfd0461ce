"""A jax process that trains a large Transformer on simulated hosts, as a pipeline, as SPMD, or as replicas on islands: `_flow.py ADDRESS DEVICES`.
Requests are JSON lines on standard input; results are JSON lines on standard output.

This machine holds nothing large: parameters and batches are zeros that the simulated devices make. Steps pass through the whole real control path.
"""

import functools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import _answers  # noqa: E402
import _client  # noqa: E402


def _zeros(shapes):
    """Makes a tree of zeros on their devices, with one computation for each set of devices."""
    import jax
    import jax.numpy as jnp

    leaves, tree = jax.tree.flatten(shapes)
    groups, made = {}, [None] * len(leaves)
    for i, leaf in enumerate(leaves):
        groups.setdefault(tuple(sorted(d.id for d in leaf.sharding.device_set)), []).append(i)
    for group in groups.values():
        avals = [(leaves[i].shape, leaves[i].dtype) for i in group]
        make = jax.jit(functools.partial(lambda avals: [jnp.zeros(*aval) for aval in avals], avals), out_shardings=[leaves[i].sharding for i in group])
        for i, array in zip(group, make()):
            made[i] = array
    return jax.tree.unflatten(tree, made)


TENSOR_PARALLEL = 8  # cores over which the model is spread


def _is_shape(value):
    return isinstance(value, tuple)


class Side:
    def __init__(self, count):
        import jax

        self.jax, self.count, self.made = jax, count, {}

    def _meshes(self, places):
        """Divides the devices into equal meshes. Each spreads the model over TENSOR_PARALLEL devices at most, and examples over the rest."""
        import numpy as np
        from jax.sharding import Mesh

        cores = self.count // places
        model = min(TENSOR_PARALLEL, cores)
        devices = np.array(self.jax.devices()[: cores * places]).reshape(places, cores // model, model)
        return [Mesh(part, ("data", "model")) for part in devices]

    def prepare(self, model, places, rounds, microbatches, batch, schedule):
        """Traces and compiles a step of a pipeline, and runs it once."""
        import _spmd
        import _transformer as t
        import optax
        from jax.sharding import NamedSharding, PartitionSpec as P

        import pathways as pw

        jax, c = self.jax, t.CONFIGS[model]
        functions, shapes = t.layers(c)
        meshes = self._meshes(places)
        pipeline = pw.pipeline(functions, loss=t.cross_entropy, optimizer=optax.adam(1e-3), stages=meshes * rounds, microbatches=microbatches,
                               schedule=schedule, remat=True, partition_spec=_spmd.spec)
        params = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, c.dtype), shapes, is_leaf=_is_shape)
        x, y = (jax.ShapeDtypeStruct((batch, c.length), "int32", sharding=NamedSharding(mesh, P("data"))) for mesh in (meshes[0], meshes[-1]))
        begin = time.perf_counter()
        state, x, y = _zeros((pipeline.init(params, x, y), x, y))
        state, loss = pipeline.step(state, x, y)
        jax.block_until_ready((state, loss))
        self.made = {"pipeline": pipeline, "state": state, "batch": (x, y), "tokens": batch * c.length}
        return {"parameters": t.count(c), "prepared_s": time.perf_counter() - begin, "bubble": pipeline.bubble()}

    def prepare_spmd(self, model, batch):
        """Compiles a step of one jit over all devices, with the model spread as in a stage, and runs it once."""
        import _spmd
        import _transformer as t
        import optax
        from jax.sharding import NamedSharding, PartitionSpec as P

        jax, c = self.jax, t.CONFIGS[model]
        functions, shapes = t.layers(c)
        (mesh,) = self._meshes(1)
        optimizer = optax.adam(1e-3)
        made = _spmd.state(jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, c.dtype), shapes, is_leaf=_is_shape), optimizer, mesh)
        rows = jax.ShapeDtypeStruct((batch, c.length), "int32", sharding=NamedSharding(mesh, P("data")))
        begin = time.perf_counter()
        state, x, y = _zeros((made, rows, rows))
        step = _spmd.step(functions, t.cross_entropy, optimizer, made, mesh, recompute=True)
        state, value = step(state, x, y)
        jax.block_until_ready((state, value))
        self.made = {"spmd": step, "state": state, "batch": (x, y), "tokens": batch * c.length}
        return {"parameters": t.count(c), "prepared_s": time.perf_counter() - begin}

    def spmd_steps(self, count):
        def step():
            self.made["state"], loss = self.made["spmd"](self.made["state"], *self.made["batch"])
            return loss

        return self._paced(count, step, lambda: self.made["state"])

    def steps(self, count):
        def step():
            self.made["state"], loss = self.made["pipeline"].step(self.made["state"], *self.made["batch"])
            return loss

        return self._paced(count, step, lambda: self.made["state"])

    def prepare_islands(self, model, islands, segments, batch):
        """Compiles a step of data parallelism over islands (_replicas.py), and runs it once."""
        import _replicas
        import _spmd
        import _transformer as t
        import optax
        from jax.sharding import NamedSharding, PartitionSpec as P

        jax, c = self.jax, t.CONFIGS[model]
        functions, shapes = t.layers(c)
        params = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, c.dtype), shapes, is_leaf=_is_shape)
        begin = time.perf_counter()
        meshes = self._meshes(islands)
        parts, step = _replicas.make(functions, params, _spmd.spec, t.cross_entropy, optax.adam(1e-3), meshes, segments)
        rows = [jax.ShapeDtypeStruct((batch // islands, c.length), "int32", sharding=NamedSharding(mesh, P("data"))) for mesh in meshes]
        states, rows = _zeros(([[segment.state() for segment in part] for part in parts], rows))
        self.made = {"step": step, "states": states, "rows": rows, "tokens": batch * c.length}
        self._islands_step()
        jax.block_until_ready(self.made["states"])
        crossing = sum(segment.piece_bytes() for segment in parts[0]) * (islands - 1)
        return {"parameters": t.count(c), "prepared_s": time.perf_counter() - begin, "sent_bytes": crossing}

    def _islands_step(self):
        """Calls a step; returns its losses without waiting for them."""
        self.made["states"], losses = self.made["step"](self.made["states"], self.made["rows"])
        return losses

    def islands_steps(self, count):
        return self._paced(count, self._islands_step, lambda: self.made["states"])

    def _paced(self, count, step, state):
        """Calls `count` steps without waiting, and measures the seconds of a step between the first and the last of them, as in a long training run. The first
        waits for no step before it, and no step is dispatched during the last."""
        jax, begin, losses = self.jax, time.perf_counter(), []
        for _ in range(count):
            losses.append(step())
        asked, ends = time.perf_counter() - begin, []
        for loss in losses:
            jax.block_until_ready(loss)
            ends.append(time.perf_counter())
        jax.block_until_ready(state())
        step_s = (ends[-2] - ends[0]) / (count - 2)
        return {"tokens_per_s": self.made["tokens"] / step_s, "step_s": step_s, "asked_s": asked / count}

    def timeline(self, forward, backward):
        """Returns the seconds of a step's schedule, and its idle share, if the functions of the stages take these times."""
        from pathways._pipeline import schedule

        pipeline = self.made["pipeline"]
        intervals = schedule.timeline(pipeline._schedule, forward, backward)
        return {"seconds": max(one.end for one in intervals), "idle": schedule.bubble(pipeline._schedule, forward, backward)}


def main():
    address, count = sys.argv[1], int(sys.argv[2])
    _client.set_environment("package", address)
    out = _answers.channel()
    side = Side(count)
    _answers.serve_and_exit(side, out, {"devices": len(side.jax.devices())}, keep_errors=True)


if __name__ == "__main__":
    main()
