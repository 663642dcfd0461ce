"""An input pipeline on the hosts: each host reads its part of every batch from its own disk, ahead of its use. No batch passes through this process.

    JAX_PLATFORMS=pathways PATHWAYS_LOCAL=1x2x2 python examples/input_pipeline.py
"""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import pathways as pw

BATCH, WIDTH, STEPS = 32, 16, 20


def read(part, parts):
    """Runs on each host: writes a file with its rows once, then yields its part of each batch, for ever."""
    import tempfile

    rows = BATCH // parts
    with tempfile.TemporaryFile() as file:
        for number in range(part * rows, 10 * BATCH, BATCH):
            x = np.random.default_rng(number).normal(size=(rows, WIDTH)).astype(np.float32)
            np.concatenate([x, x.sum(1, keepdims=True)], axis=1).tofile(file)
        while True:
            file.seek(0)
            for _ in range(10):
                table = np.fromfile(file, np.float32, rows * (WIDTH + 1)).reshape(rows, WIDTH + 1)
                yield {"x": table[:, :WIDTH], "y": table[:, WIDTH:]}


@jax.jit
def step(weights, batch):
    loss, gradient = jax.value_and_grad(lambda w: ((batch["x"] @ w - batch["y"]) ** 2).mean())(weights)
    return weights - 0.2 * gradient, loss


def main():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    batches = pw.data(read, NamedSharding(mesh, P("data")), prefetch=2)
    weights = jax.device_put(np.zeros((WIDTH, 1), np.float32), NamedSharding(mesh, P()))
    for number, batch in zip(range(STEPS), batches):
        weights, loss = step(weights, batch)
        if number % 5 == 0:
            print(f"step {number}: loss {float(loss):.4f}")
    print(f"{STEPS} batches of {BATCH} rows: every weight is {float(weights.mean()):.2f}, and should be 1; saved at {batches.state()['batches']}")


if __name__ == "__main__":
    main()
