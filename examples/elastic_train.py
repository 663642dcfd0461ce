"""Trains a small network on every island of a cluster at once, and goes on while hosts die and return.

    pathways up --devices 2
    pathways worker --join ADDRESS --island b --host b --devices 2 &        # ADDRESS: as `pathways up` prints it
    pathways worker --join ADDRESS --island c --host c --devices 2 &
    JAX_PLATFORMS=pathways PATHWAYS_ADDRESS=ADDRESS python examples/elastic_train.py

Kill a worker (kill -9) and watch: the next line says that a replica has left, and the loss goes on as if nothing had happened. Start the worker
again, and its replica is back. docs/elastic.md explains it.

With --cut each island holds one part of the optimizer's state, and none holds it all; snapshots in the hosts' memory replace a lost part.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import pathways as pw

WIDTH, ROWS = 48, 48  # both divide by one, two and three replicas of two devices


def make_batch(step):
    """Returns the data of a step. They depend on its number alone, so that runs can be compared."""
    x = np.random.default_rng(step).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return x, np.sin(x[:, :1] * 2) + x[:, 1:2] * x[:, 2:3]


def make_state():
    rng = np.random.default_rng(7)
    weights = {"in": rng.normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5, "out": rng.normal(size=(WIDTH, 1)) * WIDTH**-0.5}
    weights = jax.tree.map(lambda w: w.astype(np.float32), weights)
    return {"weights": weights, "momentum": jax.tree.map(np.zeros_like, weights)}


def loss_of(weights, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(x @ weights["in"]) @ weights["out"] - y) ** 2)


def step(state, batch):
    loss, gradients = jax.value_and_grad(loss_of)(state["weights"], batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
    weights = jax.tree.map(lambda w, m: w - 0.02 * m, state["weights"], momentum)
    return {"weights": weights, "momentum": momentum}, loss


def meshes_of_islands():
    """Returns two meshes of one row for each island: of all, and of those whose hosts are there now."""
    islands = {}
    for device in pw.seats():
        islands.setdefault(device.slice_index, []).append(device)
    there = [island for island in islands.values() if set(island) <= set(jax.devices())]
    return (Mesh(np.array(rows), ("replica", "data")) for rows in (list(islands.values()), there))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.05, metavar="S", help="seconds of rest after each step, to watch")
    parser.add_argument("--cut", action="store_true", help="cut the momentum into one part for each island")
    args = parser.parse_args()

    everything, mesh = meshes_of_islands()
    cut = P("replica") if args.cut else P()
    specs = {"weights": {"in": P(), "out": P()}, "momentum": {"in": cut, "out": cut}}
    state = jax.device_put(make_state(), jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs))

    def changed(replicas, error):
        print(f"REPLICAS {list(replicas)} {'came' if error is None else 'after ' + str(error).splitlines()[0]}", flush=True)

    train = pw.elastic(step, state, batch=P(("replica", "data")), mesh=everything, snapshot_every=5, on_change=changed)
    print(f"REPLICAS {list(train.replicas)} at the start", flush=True)
    for number in range(args.steps):
        begun = time.monotonic()
        loss = train(make_batch(number))
        print(f"STEP {number} LOSS {float(loss):.6f} ON {len(train.replicas)} SECONDS {time.monotonic() - begun:.3f}", flush=True)
        time.sleep(args.pause)
    train.close()


if __name__ == "__main__":
    main()
