"""The controller sees no byte of the arrays of a program that makes, moves and reads a gigabyte."""

import importlib.util
import subprocess
import sys

import pytest
from conftest import clean_environment

from pathways._cluster import admin, local
from pathways._cluster.shape import Shape

MIB = 1 << 20
PROGRAM = """
import datetime, sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from pathwaysutils.persistence import helper

folder, timeout = sys.argv[1], datetime.timedelta(seconds=300)
devices = jax.devices()
rows, columns = (NamedSharding(Mesh(np.array(devices), "x"), spec) for spec in (P("x"), P(None, "x")))
host = np.arange(48 << 20, dtype=np.float32).reshape(1024, -1)  # 192 MiB

x = jax.device_put(host, rows)                                                             # put
assert np.array_equal(np.asarray(x), host)                                                 # fetched
y = jax.device_put(x, columns)                                                             # half of it copied between the hosts
like = jax.ShapeDtypeStruct(host.shape, host.dtype)
z = jax.jit(lambda v: jax.pure_callback(lambda a: np.asarray(a) + 1, like, v))(jax.device_put(x, devices[0]))  # to a call and back
assert np.array_equal(np.asarray(z[0]), host[0] + 1)
helper.write_arrays(folder, ["y"], [y], timeout).result()                                  # saved
(again,), done = helper.read_arrays(folder, ["y"], [y.dtype], [y.shape], [rows], devices, timeout)  # restored
done.result()
assert np.array_equal(np.asarray(again), host)
"""


@pytest.mark.skipif(importlib.util.find_spec("pathwaysutils") is None, reason="pathwaysutils is not installed")
def test_a_gigabyte_passes_the_controller_by(tmp_path, monkeypatch):
    monkeypatch.setenv("PATHWAYS_PERSISTENCE_DIRECTORY", str(tmp_path))
    cluster = local.Cluster(Shape.parse("2x1x1"), tmp_path).start()
    try:
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint")], capture_output=True, text=True, timeout=300,
                              env=clean_environment(PATHWAYS_ADDRESS=cluster.address, JAX_PLATFORMS="pathways"))
        assert done.returncode == 0, done.stderr
        saved = sum(file.stat().st_size for file in (tmp_path / "checkpoint").rglob("*") if file.is_file())
        assert saved >= 192 * MIB  # by the hosts
        assert admin.status(cluster.address)["array_bytes"] < 10_000  # the few bytes are the addresses of arrays
    finally:
        cluster.stop()
