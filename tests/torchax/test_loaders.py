"""Reads input pipelines of torch and of tf.data on the hosts (`pw.data`): the batches are those that one process reads in order. `make test-torchax` runs
this in build/venv-torchax. Each test is the client of a cluster of two hosts.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

COMMON = """
import os
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw

ROWS, BATCH = 48, 8   # a host reads every second row
X = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)

def expected():
    for begin in range(0, ROWS, BATCH):
        rows = X[begin:begin + BATCH]
        yield np.concatenate([rows[0::2], rows[1::2]])

def check(make, state=None, skip=0):
    sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
    batches = pw.data(make, sharding, state=state)
    read = list(batches)
    wanted = list(expected())[skip:]
    assert len(read) == len(wanted), (len(read), len(wanted))
    for batch, want in zip(read, wanted):
        np.testing.assert_array_equal(np.asarray(batch["x"]), want)
        assert (np.asarray(batch["pid"]) != os.getpid()).all()
"""

TORCH = COMMON + """
def make(part, parts):
    import torch

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return ROWS // parts
        def __getitem__(self, at):
            return {"x": torch.from_numpy(X[at * parts + part]), "pid": torch.tensor(os.getpid(), dtype=torch.int32)}

    return torch.utils.data.DataLoader(Rows(), batch_size=BATCH // parts, num_workers=WORKERS)

check(make)
"""

TF_DATA = COMMON + """
def make(part, parts):
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices(X).shard(parts, part)
    return rows.map(lambda x: {"x": x, "pid": tf.constant(os.getpid())}).batch(BATCH // parts, drop_remainder=True).prefetch(2)

check(make)
sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
first = pw.data(make, sharding)
for _ in range(2):
    next(first)
check(make, first.state(), skip=2)
"""


def run(code):
    env = {name: value for name, value in os.environ.items() if name not in ("PATHWAYS_ADDRESS", "PYTHONPATH")}
    # The workers' CPU plugin needs the XLA of a package that only build/venv has.
    env |= {"JAX_PLATFORMS": "pathways", "PATHWAYS_LOCAL": "2x1x2", "TF_CPP_MIN_LOG_LEVEL": "3",
            "LD_LIBRARY_PATH": str(next(ROOT.glob("build/venv/lib/python*/site-packages/tensorflow")))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("workers", [0, 2])
def test_torch(workers):
    """workers: processes that the loader starts beside the host's Python process."""
    run(TORCH.replace("WORKERS", str(workers)))


def test_tf_data():
    run(TF_DATA)
