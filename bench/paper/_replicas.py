"""Data parallelism over islands: each island has the whole model and its part of the batch; one program is a step of all islands.

The model is computed in segments. A segment's gradients are summed inside the island, so that each device has one part of them, in one piece. It sends
this piece to its counterpart in every other island while the segment before is differentiated. Then each device updates its part with the pieces from
the other islands, and the new parameters are gathered inside the island.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

EVERYWHERE = P(("data", "model"))


def spread(spec, shape, mesh):
    """Returns the spec with the axis "data" on the first free dimension that it divides."""
    spec = [*spec, *[None] * (len(shape) - len(spec))]
    free = [i for i, axis in enumerate(spec) if axis is None and shape[i] % mesh.shape["data"] == 0]
    if free:
        spec[free[0]] = "data"
    return P(*spec)


def _named(name, function, **options):
    function.__name__ = function.__qualname__ = name
    return jax.jit(function, **options)


class Segment:
    """Some layers on the devices of one island. parameters: their shapes, a list of trees; spec_of: (path, shape) -> the spec of the model's own sharding."""

    def __init__(self, number, mesh, layers, parameters, spec_of, loss, optimizer, islands):
        self.number, self.mesh = number, mesh
        leaves, self.tree = jax.tree_util.tree_flatten_with_path(parameters)
        specs = [spec_of(path, leaf) for path, leaf in leaves]
        self.shapes = [leaf for _, leaf in leaves]
        self.parts = [spread(spec, leaf.shape, mesh) for spec, leaf in zip(specs, self.shapes)]
        self.places = [NamedSharding(mesh, spec) for spec in specs]
        kept = jax.eval_shape(optimizer.init, self.shapes)
        self.kept_specs = optax.tree_utils.tree_map_params(optimizer, lambda _, spec: spec, kept, self.parts, transform_non_params=lambda _: P())
        self.kept = jax.tree.map(lambda leaf, spec: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec)), kept, self.kept_specs)
        self.rows, self.piece = NamedSharding(mesh, P("data")), NamedSharding(mesh, EVERYWHERE)
        self._compile(layers, loss, optimizer, islands)

    def state(self):
        """Returns the shapes of the parameters and of the optimizer's state."""
        placed = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place) for leaf, place in zip(self.shapes, self.places)]
        return placed, self.kept

    def _compile(self, layers, loss, optimizer, islands):
        def run(parameters, x, *targets):
            for layer, own in zip(layers, jax.tree.unflatten(self.tree, parameters)):
                x = layer(own, x)
            return loss(x, *targets) if targets else x

        def backward(parameters, x, given):
            """Returns (the gradients, one piece for each device; [the cotangent for the segment before]). given: the cotangent from the next segment, or
            the targets for the last."""
            targets = (given,) if loss is not None else ()
            back = jnp.float32(1 / islands) if loss is not None else given
            if self.number == 0:  # tokens have no gradient
                _, pull = jax.vjp(lambda p: run(p, x, *targets), parameters)
            else:
                _, pull = jax.vjp(lambda p, x: run(p, x, *targets), parameters, x)
            gradients, *before = pull(back)
            gradients = [jax.lax.with_sharding_constraint(g, NamedSharding(self.mesh, part)) for g, part in zip(gradients, self.parts)]
            return self._in_place(lambda *g: jnp.concatenate([one.ravel() for one in g]), self.parts, EVERYWHERE)(*gradients), before

        def update(parameters, kept, own, *others):
            def here(parameters, kept, piece, *others):
                piece = sum(others, piece)
                ends = np.cumsum([p.size for p in parameters])
                gradients = [g.reshape(p.shape) for g, p in zip(jnp.split(piece, ends[:-1]), parameters)]
                updates, kept = optimizer.update(gradients, kept, parameters)
                return optax.apply_updates(parameters, updates), kept

            given = self.parts, self.kept_specs, EVERYWHERE, *[EVERYWHERE] * len(others)
            return self._in_place(here, given, (self.parts, self.kept_specs))(parameters, kept, own, *others)

        name = f"segment{self.number}"
        self.forward = _named(f"{name}_forward", run, out_shardings=NamedSharding(self.mesh, P()) if loss is not None else self.rows)
        self.backward = _named(f"{name}_backward", backward, out_shardings=(self.piece, [self.rows] * (self.number > 0)))
        self.update = _named(f"{name}_update", update, out_shardings=(self.places, jax.tree.map(lambda leaf: leaf.sharding, self.kept)))

    def _in_place(self, function, given, made):
        """Applies the function to the local part of each device, without communication."""
        return jax.shard_map(function, mesh=self.mesh, in_specs=tuple(given), out_specs=made, check_vma=False)

    def piece_bytes(self):
        """Returns the bytes that one device sends to each counterpart."""
        local = [NamedSharding(self.mesh, part).shard_shape(leaf.shape) for leaf, part in zip(self.shapes, self.parts)]
        return sum(int(np.prod(shape)) * leaf.dtype.itemsize for shape, leaf in zip(local, self.shapes))


def make(layers, parameters, spec_of, loss, optimizer, meshes, segments):
    """Returns (the segments of each island, a step (states, rows) -> (states, losses)). states: a list for each island, with one for each segment. rows: the
    tokens of each island, which are also the targets."""
    import pathways as pw

    cuts = np.array_split(np.arange(len(layers)), segments)
    islands = [[Segment(number, mesh, [layers[i] for i in cut], [parameters[i] for i in cut], spec_of, loss if number == segments - 1 else None, optimizer,
                        len(meshes)) for number, cut in enumerate(cuts)] for mesh in meshes]

    def sent(number, pieces):
        """Returns the pieces that each island gets from the others."""
        return [[jax.device_put(piece, island[number].piece) for j, piece in enumerate(pieces) if j != i] for i, island in enumerate(islands)]

    def updated(number, states, pieces, others):
        for i, island in enumerate(islands):
            states[i][number] = island[number].update(*states[i][number], pieces[i], *others[i])

    def step(states, rows):
        states = [list(state) for state in states]
        inputs = [[x] for x in rows]
        for number in range(segments - 1):
            for given, island, state in zip(inputs, islands, states):
                given.append(island[number].forward(state[number][0], given[-1]))
        losses = [island[-1].forward(state[-1][0], given[-1], x) for island, state, given, x in zip(islands, states, inputs, rows)]
        back, waiting = list(rows), None
        for number in reversed(range(segments)):
            made = [island[number].backward(state[number][0], given[number], what) for island, state, given, what in zip(islands, states, inputs, back)]
            pieces, back = [piece for piece, _ in made], [before[0] if before else None for _, before in made]
            crossing = number, pieces, sent(number, pieces)
            if waiting is not None:  # these pieces crossed while this segment was differentiated
                updated(waiting[0], states, *waiting[1:])
            waiting = crossing
        updated(waiting[0], states, *waiting[1:])
        return states, losses

    return islands, pw.program(step)
