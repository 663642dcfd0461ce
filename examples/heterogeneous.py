"""A heterogeneous program: an encoder on one slice, two decoders on slices of other islands, running at the same time.

    JAX_PLATFORMS=pathways PATHWAYS_LOCAL=3x1x2 python examples/heterogeneous.py

The slices have different sizes, and the runtime moves the data from the encoder's slice to the decoders'. The whole function is one program: a call
is one message from here. `pathways trace` shows the decoders side by side.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import pathways as pw

BATCH, WIDTH, DEPTH = 8, 256, 8


def layers(seed, count):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5 for _ in range(count)]


def network(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return x


def on(mesh, function):
    """Compiles `function(weights, x)` for a slice: each device has the weights and a part of the batch."""
    rows, everywhere = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    return jax.jit(function, in_shardings=(everywhere, rows), out_shardings=rows), everywhere


slices = pw.make_virtual_device_set()
islands = list(dict.fromkeys(device.island for device in jax.devices()))
encoder_slice = slices.add_slice(devices=2, island=islands[0])
decoder_slices = [slices.add_slice(devices=n, island=islands[i % len(islands)]) for i, n in ((1, 2), (2, 1))]
for name, one in zip(("encoder", "decoder 1", "decoder 2"), (encoder_slice, *decoder_slices)):
    print(f"{name}: {one}")

encode, place = on(encoder_slice.mesh("batch"), network)
encoder = jax.device_put(layers(0, DEPTH), place)
decoders = []
for seed, one in enumerate(decoder_slices, start=1):
    decode, place = on(one.mesh("batch"), network)
    decoders.append((decode, jax.device_put(layers(seed, DEPTH), place)))


@pw.program
def forward(x):
    code = encode(encoder, x)
    return [decode(weights, code) for decode, weights in decoders]


x = np.random.default_rng(9).normal(size=(BATCH, WIDTH)).astype(np.float32)
outputs = forward(x)
for seed, output in enumerate(outputs, start=1):
    with jax.default_device(jax.devices("cpu")[0]):
        expected = network(layers(seed, DEPTH), network(layers(0, DEPTH), jnp.asarray(x)))
    np.testing.assert_allclose(np.asarray(output), np.asarray(expected), rtol=1e-4, atol=1e-5)
    print(f"decoder {seed}: {output.shape} on {len(output.sharding.device_set)} device(s), as on one machine")
slices.release()
