"""Trains a Switch Transformer whose experts are on slices of several islands, and compares it with the same model compiled whole.

    JAX_PLATFORMS=pathways PATHWAYS_LOCAL=2x1x4 python examples/moe.py

Attention and everything else outside of the experts is on one slice. Each token goes to one expert of each layer, chosen by a small network: its row
travels to the expert's host alone, and back (`pw.route`). The gradients travel the same ways. A step is one program, with `jax.value_and_grad` inside.
The other model sends no rows. It makes one-hot matrices of the choices, and multiplies, in one function compiled for jax's own cpu.
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import pathways as pw

VOCABULARY, CONTEXT, WIDTH, HIDDEN, HEADS, LAYERS = 64, 16, 32, 64, 4, 2
BATCH = 16
TOKENS = BATCH * CONTEXT


# ---------------------------------------------------------------------------------------------------------- model
def init(seed, experts):
    """Returns the parameters outside of the experts, and those of all experts for each layer."""
    rng = np.random.default_rng(seed)
    matrix = lambda *shape: (rng.normal(size=shape) * shape[-2]**-0.5).astype(np.float32)
    layers = [{"qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH), "gate": matrix(WIDTH, experts)} for _ in range(LAYERS)]
    inner = [{"up": matrix(experts, WIDTH, HIDDEN), "down": matrix(experts, HIDDEN, WIDTH)} for _ in range(LAYERS)]
    return {"embed": matrix(VOCABULARY, WIDTH), "place": matrix(CONTEXT, WIDTH), "layers": layers, "head": matrix(WIDTH, VOCABULARY)}, inner


def normalize(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def embed(params, tokens):
    return params["embed"][tokens[:, :-1]] + params["place"]


def attend(layer, x):
    q, k, v = jnp.split((normalize(x) @ layer["qkv"]).reshape(*x.shape[:2], HEADS, -1), 3, axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1]**-0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[2:], bool)), scores, -1e9)
    return x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ layer["out"]


def choose(layer, x):
    """Returns for each token its row, its expert and that expert's weight; and how unevenly the experts are chosen."""
    rows = normalize(x).reshape(-1, WIDTH)
    chances = jax.nn.softmax(rows @ layer["gate"])
    where = jnp.argmax(chances, axis=-1).astype(jnp.int32)
    share = jax.nn.one_hot(where, chances.shape[-1]).mean(axis=0)
    return rows, where, chances.max(axis=-1), chances.shape[-1] * jnp.sum(share * chances.mean(axis=0))


def expert(weights, rows):
    """Returns what each expert makes of its rows, [experts, capacity, WIDTH]."""
    return jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", rows, weights["up"])), weights["down"])


def add(x, weight, made):
    return x + (weight[:, None] * made).reshape(x.shape)


def loss_of(params, x, tokens, unevenness):
    scores = jax.nn.log_softmax(normalize(x) @ params["head"])
    return -jnp.mean(jnp.take_along_axis(scores, tokens[:, 1:, None], axis=-1)) + 0.01 * sum(unevenness) / LAYERS


def descend(params, gradients):
    return jax.tree.map(lambda p, g: p - 0.3 * g, params, gradients)


# ------------------------------------------------------------------------------------------------------- in one piece
def one_hot(weights, rows, where, capacity):
    """Passes each row through its expert by multiplying with one-hot matrices."""
    chosen = jax.nn.one_hot(where, weights["up"].shape[0], dtype=jnp.int32)
    place = jnp.sum((jnp.cumsum(chosen, axis=0) - 1) * chosen, axis=1)
    to = chosen[:, :, None] * jax.nn.one_hot(place, capacity)[:, None, :]
    return jnp.einsum("tec,ecd->td", to, expert(weights, jnp.einsum("tec,td->ecd", to, rows)))


@functools.partial(jax.jit, static_argnames="capacity")
def whole_step(params, inner, tokens, capacity):
    def loss(params, inner):
        x, unevenness = embed(params, tokens), []
        for layer, weights in zip(params["layers"], inner):
            x = attend(layer, x)
            rows, where, weight, uneven = choose(layer, x)
            x = add(x, weight, one_hot(weights, rows, where, capacity))
            unevenness.append(uneven)
        return loss_of(params, x, tokens, unevenness)

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(params, inner)
    return value, *descend((params, inner), gradients)


# ------------------------------------------------------------------------------------------------------ over islands
class Spread:
    """The model with its trunk on one slice, and its experts on others."""

    def __init__(self, trunk, experts, capacity):
        self.rows, self.everywhere = NamedSharding(trunk, P("data")), NamedSharding(trunk, P())
        self.groups = [NamedSharding(mesh, P("expert")) for mesh in experts]
        self.count = sum(mesh.size for mesh in experts)
        here = lambda function, *inputs, out: jax.jit(function, in_shardings=inputs, out_shardings=out)
        rows, everywhere = self.rows, self.everywhere
        self.embed = here(embed, everywhere, rows, out=rows)
        self.attend = here(attend, everywhere, rows, out=rows)
        self.choose = here(choose, everywhere, rows, out=(rows, rows, rows, everywhere))
        self.add = here(add, rows, rows, rows, out=rows)
        self.loss_of = here(loss_of, everywhere, rows, rows, everywhere, out=everywhere)
        self.dropped = here(lambda *counts: sum(count.sum() for count in counts), *[everywhere] * len(experts) * LAYERS, out=everywhere)
        self.experts = [here(expert, group, group, out=group) for group in self.groups]
        self.descend = [here(descend, place, place, out=place) for place in (everywhere, *self.groups)]
        self.capacity = capacity
        self.step = pw.program(self._step, donate_argnums=(0, 1))

    def place(self, params, inner):
        """Returns the parameters on their devices; those of the experts as a list for each group."""
        starts = np.cumsum([0, *(group.mesh.size for group in self.groups)])
        parts = [jax.tree.map(lambda w: w[a:b], inner) for a, b in zip(starts, starts[1:])]
        return jax.device_put(params, self.everywhere), [jax.device_put(part, group) for part, group in zip(parts, self.groups)]

    def _loss(self, params, groups, tokens):
        x, unevenness, dropped = self.embed(params, tokens), [], []
        for number, layer in enumerate(params["layers"]):
            x = self.attend(layer, x)
            rows, where, weight, uneven = self.choose(layer, x)
            routed = pw.route(rows, where, self.groups, capacity=self.capacity)
            made = [apply(weights[number], one) for apply, weights, one in zip(self.experts, groups, routed.rows)]
            x = self.add(x, weight, routed.back(made))
            unevenness.append(uneven)
            dropped += jax.device_put(list(routed.dropped), self.everywhere)
        return self.loss_of(params, x, tokens, unevenness), self.dropped(*dropped)

    def _step(self, params, groups, tokens):
        (loss, dropped), gradients = jax.value_and_grad(self._loss, argnums=(0, 1), has_aux=True)(params, groups, tokens)
        of_trunk, *of_groups = self.descend
        return loss, dropped, of_trunk(params, gradients[0]), [f(*both) for f, *both in zip(of_groups, groups, gradients[1])]


def batches(seed):
    """Yields texts in which each number follows from the two before it."""
    rng = np.random.default_rng(seed)
    while True:
        text = rng.integers(0, VOCABULARY, (BATCH, CONTEXT + 1))
        for i in range(2, CONTEXT + 1):
            text[:, i] = (text[:, i - 1] + 3 * text[:, i - 2]) % VOCABULARY
        yield text.astype(np.int32)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--capacity", type=float, default=1.25, help="of an expert, relative to its equal share of the tokens")
    chosen = arguments.parse_args()

    slices = pw.make_virtual_device_set()
    islands = list(dict.fromkeys(device.island for device in jax.devices()))
    trunk = slices.add_slice(devices=2, island=islands[0])
    experts = [slices.add_slice(devices=2, island=island) for island in islands]
    count = 2 * len(experts)
    capacity = int(chosen.capacity * TOKENS / count)
    model = Spread(trunk.mesh("data"), [one.mesh("expert") for one in experts], capacity)
    print(f"{count} experts on {len(islands)} islands, each for up to {capacity} of {TOKENS} tokens")

    params, inner = init(0, count)
    ours = model.place(params, inner)
    cpu = jax.devices("cpu")[0]
    theirs = jax.device_put((params, inner), cpu)
    for step, tokens in zip(range(chosen.steps), batches(1)):
        begin = time.perf_counter()
        loss, dropped, *ours = model.step(*ours, jax.device_put(tokens, model.rows))
        loss = float(loss)
        seconds = time.perf_counter() - begin
        expected, *theirs = whole_step(*theirs, jax.device_put(tokens, cpu), capacity)
        print(f"step {step}: loss {loss:.5f}, compiled whole {float(expected):.5f}, {int(dropped)} rows dropped, {1e3 * seconds:.0f} ms")
        np.testing.assert_allclose(loss, float(expected), rtol=1e-4)
    groups = [jax.tree.map(np.asarray, group) for group in ours[1]]
    inner = jax.tree.map(lambda *parts: np.concatenate(parts), *groups)
    far = max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in zip(jax.tree.leaves((ours[0], inner)), jax.tree.leaves(tuple(theirs))))
    assert far < 1e-3, far
    print(f"the parameters differ by {far:.1e} at most from those of the model that was compiled whole")
    slices.release()


if __name__ == "__main__":
    main()
