"""One jax process that trains the Transformers of _transformer.py: `_train.py MODE ADDRESS DEVICES`, modes as in bench/_client.py. Requests are JSON lines on
standard input; results are JSON lines on standard output.

    spmd       one jit over a mesh of all devices; examples are spread over "data"; heads, hidden units and words over "model"
    pipeline   pw.pipeline with the schedule of GPipe, a device for each stage
    layers     the model of `pipeline`, with the same parameters and batches, as one jit over a mesh of all devices
    lower      compiles a large model for its shapes on simulated hosts and runs one step, whose results are zeros
"""

import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import _answers  # noqa: E402
import _client  # noqa: E402


def _timed(step, state, batches, tokens):
    """Returns the losses to the last bit, and tokens a second over all steps but the first."""
    import jax

    losses = []
    for number, batch in enumerate(batches):
        state, loss = step(state, *batch)
        losses.append(loss)
        if number == 0:
            jax.block_until_ready((state, loss))
            begin = time.perf_counter()
    jax.block_until_ready((state, losses))
    took = time.perf_counter() - begin
    return {"losses": [float(loss).hex() for loss in losses], "tokens_per_s": tokens * (len(losses) - 1) / took}


class Side:
    def __init__(self, count):
        import jax

        self.jax, self.count, self.made = jax, count, {}

    def _batches(self, c, batch, steps):
        import numpy as np

        random = np.random.default_rng(0)
        for _ in range(steps):
            text = random.integers(0, c.vocabulary, (batch, c.length + 1), dtype=np.int32)
            yield {"text": text, "input": text[:, :-1][:, ::-1].copy()} if c.encoders else {"text": text}

    def _spmd(self, model, mesh_shape):
        """Returns (configuration, function that makes a state, step, sharding of the state, sharding of batches) for a jit over all devices."""
        import _transformer as t
        import numpy as np
        import optax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        jax, c = self.jax, t.CONFIGS[model]
        mesh = Mesh(np.array(jax.devices()[: self.count]).reshape(mesh_shape), ("data", "model"))
        optimizer = optax.adam(1e-3)

        def start(key):
            params = t.init(c, key)
            return params, optimizer.init(params)

        shapes = jax.eval_shape(start, jax.random.key(0))
        placed = jax.tree.map(lambda s: NamedSharding(mesh, s), t.specs(shapes[0]), is_leaf=lambda s: isinstance(s, P))
        whole = NamedSharding(mesh, P())
        like = lambda tree: jax.tree.map(lambda _: whole, tree)
        adam = shapes[1][0]._replace(count=whole, mu=placed, nu=placed)
        where = (placed, (adam, *like(shapes[1][1:])))
        rows = NamedSharding(mesh, P("data"))

        def step(state, batch):
            params, kept = state
            value, gradients = jax.value_and_grad(lambda p: t.loss(c, p, batch))(params)
            updates, kept = optimizer.update(gradients, kept, params)
            return (optax.apply_updates(params, updates), kept), value

        return c, jax.jit(start, out_shardings=where), jax.jit(step, out_shardings=(where, whole), donate_argnums=0), where, rows

    def spmd(self, model, mesh, batch, steps):
        import numpy as np

        jax = self.jax
        c, start, step, where, rows = self._spmd(model, mesh)
        with self._on_host():
            import _transformer as t

            params = jax.tree.map(np.asarray, t.init(c, jax.random.key(0)))
        state = start(jax.random.key(0))
        state = jax.device_put(params, where[0]), state[1]
        batches = [(jax.device_put(b, rows),) for b in self._batches(c, batch, steps)]
        if (model, str(mesh), batch) not in self.made:  # compile before measuring
            copy = jax.tree.map(lambda v: v.copy(), state)
            jax.block_until_ready(step(copy, *batches[0]))
            self.made[model, str(mesh), batch] = True
        return _timed(step, state, batches, batch * c.length)

    def _layers(self, model, batch, steps):
        """Returns (configuration, layer functions, their parameters as numpy arrays, batches)."""
        import _transformer as t
        import numpy as np

        jax, c = self.jax, t.CONFIGS[model]
        functions, shapes = t.layers(c)
        if ("layers", model) not in self.made:
            with self._on_host():
                keys = jax.random.split(jax.random.key(0), len(shapes))
                self.made["layers", model] = [jax.tree.map(np.asarray, t.make(key, own)) for key, own in zip(keys, shapes)]
        return c, functions, self.made["layers", model], [(b["text"][:, :-1], b["text"][:, 1:]) for b in self._batches(c, batch, steps)]

    def _on_host(self):
        """Returns a context in which arrays are made on this process's own CPU, so that all sides have the same parameters."""
        return self.jax.default_device(self.jax.local_devices(backend="cpu")[0])

    def pipeline(self, model, stages, microbatches, batch, steps):
        """Trains the model as a pipeline over `stages` devices."""
        import _transformer as t
        import optax

        import pathways as pw

        c, functions, params, batches = self._layers(model, batch, steps)
        if (model, stages, microbatches) not in self.made:
            devices = [self.jax.devices()[i * self.count // stages] for i in range(stages)]
            self.made[model, stages, microbatches] = pw.pipeline(functions, loss=t.cross_entropy, optimizer=optax.adam(1e-3), stages=devices, microbatches=microbatches,
                                                                      schedule="gpipe")  # as the paper's
        pipeline = self.made[model, stages, microbatches]
        found = _timed(pipeline.step, pipeline.init(params, *batches[0]), batches, batch * c.length)
        return {**found, "bubble": pipeline.bubble()}

    def layers(self, model, mesh, batch, steps):
        """Trains the layers of `pipeline` as one jit. Each step uploads its batch, as a pipeline's does."""
        import _spmd
        import _transformer as t
        import numpy as np
        import optax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        jax = self.jax
        c, functions, params, batches = self._layers(model, batch, steps)
        mesh = Mesh(np.array(jax.devices()[: self.count]).reshape(mesh), ("data", "model"))
        optimizer, rows = optax.adam(1e-3), NamedSharding(mesh, P("data"))
        shapes = _spmd.state(params, optimizer, mesh)
        if ("one jit", model) not in self.made:
            self.made["one jit", model] = _spmd.step(functions, t.cross_entropy, optimizer, shapes, mesh, recompute=False)
        step = self.made["one jit", model]
        with self._on_host():
            state = jax.tree.map(np.asarray, (params, optimizer.init(params)))
        return _timed(lambda state, x, y: step(state, *jax.device_put((x, y), rows)), jax.device_put(state, _spmd.places(shapes)), batches, batch * c.length)

    def lower(self, model, mesh, batch):
        """Compiles a step for a mesh of this size; returns the compiler's memory counts for a device. Runs the step once; its results are zeros."""
        import _transformer as t

        jax = self.jax
        c, start, step, _, rows = self._spmd(model, mesh)
        given = jax.device_put(next(self._batches(c, batch, 1)), rows)
        state = start(jax.random.key(0))
        begin = time.perf_counter()
        compiled = step.lower(state, given).compile()
        compile_s = time.perf_counter() - begin
        memory = compiled.memory_analysis()
        _, loss = step(state, given)
        jax.block_until_ready(loss)
        return {"parameters": t.count(c), "compile_s": compile_s, "state_bytes": memory.argument_size_in_bytes, "temporary_bytes": memory.temp_size_in_bytes}


def main():
    mode, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    _client.DEVICES = count
    _client.set_environment(mode, address)
    if mode in ("plugin", "multicontroller-plugin"):
        os.environ["JAX_PLATFORMS"] += ",cpu"  # for the parameters
    out = _answers.channel()
    _client.join_others(mode, address)
    side = Side(count)
    _answers.serve_and_exit(side, out, {"devices": len(side.jax.devices())}, keep_errors=True)


if __name__ == "__main__":
    main()
