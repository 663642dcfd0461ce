"""One jax process that trains a large Transformer as a pipeline on simulated hosts: `_flow.py ADDRESS DEVICES`. A JSON line a request on standard input, one
a result on standard output.

Nothing large is ever made on this machine: parameters and batches are zeros that the simulated devices make, and steps go through the whole of
the real control path.
"""

import functools
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import _answers  # noqa: E402
import _client  # noqa: E402


def _spec(path, parameter):
    """Where a stage's mesh has a parameter: heads, hidden units and words are spread over "model"."""
    from jax.sharding import PartitionSpec as P

    return {"q": P(None, "model"), "k": P(None, "model"), "v": P(None, "model"), "o": P("model"), "up": P(None, "model"), "down": P("model"),
            "embed": P("model"), "head": P(None, "model")}.get(path[-1].key, P())


def _zeros(shapes):
    """A tree of arrays on their devices, one computation for each set of these."""
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


def _spread(spec, shape, mesh):
    """The spec with the axis "data" added where it divides a dimension that has none yet."""
    from jax.sharding import PartitionSpec as P

    spec = [*spec, *[None] * (len(shape) - len(spec))]
    free = [i for i, axis in enumerate(spec) if axis is None and shape[i] % mesh.shape["data"] == 0]
    if free:
        spec[free[0]] = "data"
    return P(*spec)


def _alone(sharding):
    from jax.sharding import NamedSharding, PartitionSpec as P

    return NamedSharding(sharding.mesh, P())


class Side:
    def __init__(self, count):
        import jax

        self.jax, self.count, self.made = jax, count, {}

    def _meshes(self, places):
        """Equal parts of the devices, each spread over examples two ways and the model as many as are left, at most eight."""
        import numpy as np
        from jax.sharding import Mesh

        cores = self.count // places
        model = min(8, max(1, cores // 2))
        devices = np.array(self.jax.devices()[: cores * places]).reshape(places, cores // model, model)
        return [Mesh(part, ("data", "model")) for part in devices]

    def prepare(self, model, places, rounds, microbatches, batch, schedule):
        """Traces and compiles a step, and runs it once."""
        import _transformer as t
        import optax
        from jax.sharding import NamedSharding, PartitionSpec as P

        import pathways as pw

        jax, c = self.jax, t.CONFIGS[model]
        functions, shapes = t.layers(c)
        meshes = self._meshes(places)
        pipeline = pw.pipeline(functions, loss=t.cross_entropy, optimizer=optax.adam(1e-3), stages=meshes * rounds, microbatches=microbatches,
                               schedule=schedule, remat=True, partition_spec=_spec)
        is_shape = lambda value: isinstance(value, tuple)
        params = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, c.dtype), shapes, is_leaf=is_shape)
        x, y = (jax.ShapeDtypeStruct((batch, c.length), "int32", sharding=NamedSharding(mesh, P("data"))) for mesh in (meshes[0], meshes[-1]))
        begin = time.perf_counter()
        state, x, y = _zeros((pipeline.init(params, x, y), x, y))
        state, loss = pipeline.step(state, x, y)
        jax.block_until_ready((state, loss))
        self.made = {"pipeline": pipeline, "state": state, "batch": (x, y), "tokens": batch * c.length}
        return {"parameters": t.count(c), "prepared_s": time.perf_counter() - begin, "bubble": pipeline.bubble()}

    def steps(self, count):
        """Seconds from one result to the next, all steps asked for at once."""
        jax, made = self.jax, self.made
        begin, losses = time.perf_counter(), []
        for _ in range(count):
            made["state"], loss = made["pipeline"].step(made["state"], *made["batch"])
            losses.append(loss)
        asked, ends = time.perf_counter() - begin, []
        for loss in losses:
            loss.block_until_ready()
            ends.append(time.perf_counter())
        jax.block_until_ready(made["state"])
        whole = time.perf_counter() - begin
        return {"tokens_per_s": made["tokens"] * count / whole, "step_s": whole / count, "asked_s": asked / count}

    def prepare_islands(self, model, islands, segments, batch):
        """A step of data parallelism over islands, each with its part of the batch and all of the model: gradients are summed inside an island, each
        device then has a part of them, which it sends to its like in the other islands, adds up what comes and updates; the next step's forward
        pass gathers the parameters inside its island. The model is computed in segments, so that the gradients of the last cross while
        those of the first are computed. Compiles it and runs it once."""
        import _transformer as t
        import optax
        from jax.sharding import NamedSharding, PartitionSpec as P

        import pathways as pw

        jax, c = self.jax, t.CONFIGS[model]
        functions, shapes = t.layers(c)
        params = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, c.dtype), shapes, is_leaf=lambda value: isinstance(value, tuple))
        optimizer, parts = optax.adam(1e-3), []
        begin = time.perf_counter()
        for mesh in self._meshes(islands):
            pipeline = pw.pipeline(functions, loss=t.cross_entropy, stages=[mesh] * segments, microbatches=1, schedule="gpipe", remat=True,
                                   partition_spec=_spec, donate=False)
            rows = jax.ShapeDtypeStruct((batch // islands, c.length), "int32", sharding=NamedSharding(mesh, P("data")))
            state = pipeline.init(params, rows, rows)
            spread = jax.tree_util.tree_map_with_path(lambda path, p: NamedSharding(mesh, _spread(_spec(path, p), p.shape, mesh)), state.params)
            parts.append({"pipeline": pipeline, "rows": _zeros(rows), "state": _zeros(state), "whole": jax.tree.map(lambda p: p.sharding, state.params), "spread": spread})
        for part in parts:
            self._make_update(part, optimizer)
        self.made = {"parts": parts, "tokens": batch * c.length}
        self._islands_step()
        jax.block_until_ready([(part["state"], part["kept"]) for part in parts])
        return {"parameters": t.count(c), "prepared_s": time.perf_counter() - begin}

    def _make_update(self, part, optimizer):
        """Of one parameter at a time: with its island's gradient, and those of the others."""
        jax = self.jax
        import optax

        def update(own, others, kept, parameter):
            updates, kept = optimizer.update(own + sum(others), kept, parameter)
            return optax.apply_updates(parameter, updates), kept

        part["update"], part["kept"] = [], []
        for p, whole, spread in zip(*map(jax.tree.leaves, (part["state"].params, part["whole"], part["spread"]))):
            shapes = jax.eval_shape(optimizer.init, p)
            placed = jax.tree.map(lambda s, spread=spread: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=spread if s.shape else _alone(spread)), shapes)
            part["kept"].append(_zeros(placed))
            part["update"].append(jax.jit(update, out_shardings=(whole, jax.tree.map(lambda s: s.sharding, placed))))
        part["scatter"] = [jax.jit(lambda g: g, out_shardings=spread) for spread in jax.tree.leaves(part["spread"])]

    def _islands_step(self):
        jax, parts = self.jax, self.made["parts"]
        losses, gradients = [], []
        for part in parts:
            loss, tree = part["pipeline"].value_and_grad(part["state"], part["rows"], part["rows"])
            losses.append(loss)
            gradients.append([scatter(leaf) for scatter, leaf in zip(part["scatter"], jax.tree.leaves(tree))])
        for number, part in enumerate(parts):
            leaves, tree = jax.tree.flatten(part["state"].params)
            spread, new, kept = jax.tree.leaves(part["spread"]), list(leaves), part["kept"]
            for i in reversed(range(len(leaves))):  # as they come
                others = [jax.device_put(gradients[other][i], spread[i]) for other in range(len(parts)) if other != number]
                new[i], kept[i] = part["update"][i](gradients[number][i], others, kept[i], leaves[i])
            part["state"] = part["state"]._replace(params=jax.tree.unflatten(tree, new))
        return losses

    def islands_steps(self, count):
        jax, begin = self.jax, time.perf_counter()
        for _ in range(count):
            losses = self._islands_step()
        asked = time.perf_counter() - begin
        jax.block_until_ready([losses, *((part["state"], part["kept"]) for part in self.made["parts"])])
        whole = time.perf_counter() - begin
        return {"tokens_per_s": self.made["tokens"] * count / whole, "step_s": whole / count, "asked_s": asked / count}

    def timeline(self, forward, backward):
        """Seconds that a step's schedule takes if each stage's functions take these, and the share of them that devices are idle."""
        from pathways._pipeline import schedule

        pipeline = self.made["pipeline"]
        intervals = schedule.timeline(pipeline._schedule, forward, backward)
        return {"seconds": max(one.end for one in intervals), "idle": schedule.bubble(pipeline._schedule, forward, backward)}


def main():
    address, count = sys.argv[1], int(sys.argv[2])
    _client.set_environment("package", address)
    out = _answers.channel()
    side = Side(count)
    _answers.serve(side, out, {"devices": len(side.jax.devices())}, keep_errors=True)
    os._exit(0)  # without the client's farewell on standard error


if __name__ == "__main__":
    main()
