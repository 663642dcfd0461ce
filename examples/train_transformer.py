"""Trains a small Transformer on every island of the cluster at once. Plain JAX.

    pathways run --islands 2 --hosts 1 --devices 4 -- python examples/train_transformer.py
    python examples/train_transformer.py          # the same on jax's own devices

Each island holds a copy of the parameters and takes its part of the batch, split over its devices. After the backward pass the
islands exchange gradients with jax.device_put, from one island's mesh to the other's, and every island makes the same step.
The text is the source of Python's own standard library, read byte by byte.
"""

import argparse
import pathlib
import sysconfig
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 256, 64, 128, 4, 2


# ---------------------------------------------------------------------------------------------------------- model
def init(key):
    def matrix(key, *shape):
        return jax.random.normal(key, shape) * shape[0] ** -0.5

    keys = iter(jax.random.split(key, 3 + 4 * LAYERS))
    layers = [{"qkv": matrix(next(keys), WIDTH, 3 * WIDTH), "out": matrix(next(keys), WIDTH, WIDTH),
               "up": matrix(next(keys), WIDTH, 4 * WIDTH), "down": matrix(next(keys), 4 * WIDTH, WIDTH),
               "norm1": jnp.ones(WIDTH), "norm2": jnp.ones(WIDTH)} for _ in range(LAYERS)]
    return {"embed": matrix(next(keys), VOCABULARY, WIDTH), "place": matrix(next(keys), CONTEXT, WIDTH), "layers": layers,
            "norm": jnp.ones(WIDTH), "head": matrix(next(keys), WIDTH, VOCABULARY)}


def normalize(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x, layer):
    batch, length, _ = x.shape
    q, k, v = jnp.split((x @ layer["qkv"]).reshape(batch, length, HEADS, -1), 3, axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(batch, length, WIDTH) @ layer["out"]


def logits(params, tokens):
    x = params["embed"][tokens] + params["place"]
    for layer in params["layers"]:
        x = x + attention(normalize(x, layer["norm1"]), layer)
        x = x + jax.nn.gelu(normalize(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
    return normalize(x, params["norm"]) @ params["head"]


def loss(params, tokens):
    scores = jax.nn.log_softmax(logits(params, tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(scores, tokens[:, 1:, None].astype(jnp.int32), axis=-1))


# ------------------------------------------------------------------------------------------------------- training
@jax.jit
def gradients(params, tokens):
    return jax.value_and_grad(loss)(params, tokens)


@jax.jit
def adam(state, gradients, rate):
    """Makes a step of Adam with the mean of the islands' gradients."""
    mean = jax.tree.map(lambda *g: sum(g) / len(g), *gradients)
    count = state["count"] + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], mean)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], mean)
    scale = rate * jnp.sqrt(1 - 0.99 ** count) / (1 - 0.9 ** count)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), state["params"], m, v)
    return {"params": params, "m": m, "v": v, "count": count}


def islands(devices):
    """Returns the devices by island. jax's own devices have no islands, and are returned by host."""
    groups = {}
    for device in devices:
        groups.setdefault(getattr(device, "island", device.process_index), []).append(device)
    return groups


class Island:
    """A mesh over an island's devices, a copy of the parameters, and the island's share of every batch."""

    def __init__(self, name, devices, state):
        mesh = Mesh(np.array(devices), ("data",))
        self.name, self.devices = name, devices
        self.replicated = NamedSharding(mesh, P())
        self.split = NamedSharding(mesh, P("data"))
        self.state = jax.device_put(state, self.replicated)

    def backward(self, tokens):
        self.loss, self.gradients = gradients(self.state["params"], jax.device_put(tokens, self.split))

    def step(self, everyone, rate):
        # From the other islands' meshes to this one's: jax.device_put moves each gradient between the islands.
        received = [island.gradients if island is self else jax.device_put(island.gradients, self.replicated) for island in everyone]
        self.state = adam(self.state, received, rate)


def corpus():
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = b"".join(path.read_bytes() for path in sorted(library.glob("*.py"))[:40])
    return np.frombuffer(text, np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4, help="sequences per device")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--every", type=int, default=10, help="steps between two lines of progress")
    args = parser.parse_args()

    state = {"params": init(jax.random.key(0)), "count": jnp.zeros(())}
    state["m"] = state["v"] = jax.tree.map(jnp.zeros_like, state["params"])
    everyone = [Island(name, devices, state) for name, devices in islands(jax.devices()).items()]
    for island in everyone:
        print(f"island {island.name}: {len(island.devices)} x {island.devices[0].device_kind}, "
              f"devices {', '.join(str(d.id) for d in island.devices)}", flush=True)
    count = sum(p.size for p in jax.tree.leaves(state["params"]))
    print(f"{count:,} parameters, {args.batch * len(jax.devices())} sequences of {CONTEXT} bytes a step", flush=True)

    data, random = corpus(), np.random.default_rng(0)
    first, begun, tokens = None, None, 0
    for step in range(args.steps + 1):
        for island in everyone:
            starts = random.integers(0, len(data) - CONTEXT - 1, args.batch * len(island.devices))
            island.backward(data[starts[:, None] + np.arange(CONTEXT + 1)])
        for island in everyone:
            island.step(everyone, args.rate)
        if step % args.every == 0:
            mean = float(np.mean([float(island.loss) for island in everyone]))
            first = first or mean
            speed = "compiled" if begun is None else f"{tokens / (time.perf_counter() - begun):8,.0f} tokens/s"
            print(f"step {step:4d}   loss {mean:6.3f}   {speed}   {len(jax.devices())} devices on {len(everyone)} island(s)", flush=True)
        if begun is None:
            begun = time.perf_counter()  # the first step compiles
        else:
            tokens += args.batch * len(jax.devices()) * CONTEXT
    print(f"loss {first:.3f} -> {mean:.3f}")
    assert mean < first, "the loss did not fall"


if __name__ == "__main__":
    main()
