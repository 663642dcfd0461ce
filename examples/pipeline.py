"""Trains a Transformer in four stages on two islands, and on one device beside it: the losses are the same.

    JAX_PLATFORMS=pathways PATHWAYS_LOCAL=2x1x2 python examples/pipeline.py

The model is Flax's, the optimizer Optax's; pw.pipeline cuts the model into stages. A step of the pipeline is one program, and one message from
here. It has 16 forward and backward passes on each of four devices, and the transfers between them. The text is the source of Python's own standard
library, read byte by byte.
"""

import argparse
import collections
import pathlib
import sysconfig
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

import pathways as pw

VOCABULARY, CONTEXT, WIDTH, HEADS = 256, 32, 64, 4


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + nn.MultiHeadDotProductAttention(HEADS)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))


class Transformer(nn.Module):
    blocks: int

    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCABULARY, WIDTH, name="embed")(tokens)
        x = x + self.param("place", nn.initializers.normal(0.02), (CONTEXT, WIDTH))
        for i in range(self.blocks):
            x = Block(name=f"block_{i}")(x)
        return nn.Dense(VOCABULARY, name="head")(nn.LayerNorm(name="norm")(x))


def loss(logits, targets):
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


def batches(size, seed=0):
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = np.frombuffer(b"".join(path.read_bytes() for path in sorted(library.glob("*.py"))[:40]), np.uint8)
    random = np.random.default_rng(seed)
    while True:
        rows = text[random.integers(0, len(text) - CONTEXT - 1, size)[:, None] + np.arange(CONTEXT + 1)].astype(np.int32)
        yield rows[:, :-1], rows[:, 1:]


def four_devices():
    """Returns two devices of each of two islands, or else the first four devices."""
    islands = collections.defaultdict(list)
    for device in jax.devices():
        islands[getattr(device, "island", 0)].append(device)
    first, *others = islands.values()
    devices = first[:2] + others[0][:2] if others and len(first) > 1 and len(others[0]) > 1 else jax.devices()[:4]
    if len(devices) < 4:
        raise SystemExit("four devices are needed: JAX_PLATFORMS=pathways PATHWAYS_LOCAL=2x1x2")
    return devices


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--microbatches", type=int, default=16)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--every", type=int, default=5, help="steps between two lines of progress")
    args = parser.parse_args()

    model, optimizer = Transformer(args.blocks), optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))
    x, y = next(batches(args.batch))
    params = jax.jit(model.init)(jax.random.key(0), x)

    devices = four_devices()
    pipeline = pw.pipeline(model, loss=loss, optimizer=optimizer, stages=devices, microbatches=args.microbatches, schedule=args.schedule)
    state = pipeline.init(params, x, y)
    stages = pipeline.stage_of(state)["params"]
    for number, device in enumerate(devices):
        parts = [name for name, own in stages.items() if number in jax.tree.leaves(own)]
        print(f"stage {number}: device {device.id} of island {getattr(device, 'island', '-')}: {', '.join(sorted(parts))}")
    print(f"{args.microbatches} microbatches, schedule {args.schedule}: {pipeline.bubble():.1%} of the time a stage waits", flush=True)

    @jax.jit
    def alone(params, opt_state, x, y):
        value, gradients = jax.value_and_grad(lambda p: loss(model.apply(p, x), y))(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    params = jax.device_put(params, devices[0])
    opt_state = optimizer.init(params)
    print(f"{'step':>6} {'pipeline':>10} {'one device':>10}")
    worst, begun = 0.0, None
    for step, (x, y) in zip(range(args.steps + 1), batches(args.batch)):
        state, ours = pipeline.step(state, x, y)
        params, opt_state, theirs = alone(params, opt_state, x, y)
        if step % args.every == 0 or step == args.steps:
            ours, theirs = float(ours), float(theirs)
            worst = max(worst, abs(ours - theirs) / theirs)
            print(f"{step:6d} {ours:10.5f} {theirs:10.5f}", flush=True)
        begun = begun or time.perf_counter()  # the first step compiles
    print(f"largest difference: {worst:.1e} of the loss; {(time.perf_counter() - begun) / max(args.steps, 1) * 1e3:.0f} ms for a step of both")
    assert worst < 1e-3, "the losses differ"


if __name__ == "__main__":
    main()
