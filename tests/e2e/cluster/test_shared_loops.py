"""Several clients run loops and single computations on overlapping slices of hosts that compute together: all get their turns, in the same order on all hosts."""

import subprocess
import sys

import pytest

from conftest import PATIENCE, clean_environment
from pathways._cluster import local
from pathways._cluster.shape import Shape

CLIENT = """
import random, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw

choice = random.Random(int(sys.argv[1])).choice
place = lambda first, end: NamedSharding(Mesh(np.array(jax.devices()[first:end]), ("x",)), P("x"))
places = [place(0, 4), place(4, 8), place(2, 4), place(1, 3), place(5, 7)]  # island 0 has devices 0 to 3, two on each host
steps = [jax.jit(lambda x: x + jnp.sum(x) * 0 + 1, in_shardings=s, out_shardings=s) for s in places]
X = np.zeros(8, np.float32)
loop = lambda a, b: pw.program(lambda n, x: pw.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, a(b(c[1]))), (np.int32(0), x)))
loops = {(i, j): loop(steps[i], steps[j]) for i in range(5) for j in range(5)}
for _ in range(8):
    pending = []
    for _ in range(3):
        i, j, k = (choice(range(5)) for _ in range(3))
        turns = choice([0, 1, 2, 7, 40, 150])
        pending.append((2 * turns, loops[i, j](np.int32(turns), jax.device_put(X, places[i]))[1]))
        pending.append((1, steps[k](jax.device_put(X, places[k]))))
    for expected, value in pending:
        np.testing.assert_array_equal(np.asarray(value), np.full(8, expected, np.float32))
print("DONE")
"""


@pytest.fixture
def cluster(tmp_path):
    running = local.Cluster(Shape.parse("2x2x2"), tmp_path).start()
    yield running
    running.stop()


def test_all_clients_end(cluster, tmp_path):
    (tmp_path / "client.py").write_text(CLIENT)
    clients = [subprocess.Popen([sys.executable, tmp_path / "client.py", str(seed)], env=clean_environment(PATHWAYS_ADDRESS=cluster.address),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for seed in range(3)]
    try:
        for client in clients:
            out, err = client.communicate(timeout=PATIENCE)
            assert "DONE" in out, err
    finally:
        for client in clients:
            client.kill()
