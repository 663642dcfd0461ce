"""Choices of programs whose hosts are killed while the predicate is computed: the results tell which host was lost, and the devices are free."""

import pytest

from pathways._cluster import local
from pathways._cluster.shape import Shape

CHOICE = """
import os, signal
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import SingleDeviceSharding as on
import pathways as pw

first, second = on(jax.devices()[0]), on(jax.devices()[-1])

def kill(x):
    if x[0] < 0:
        os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)
    return x

is_large = jax.jit(lambda x: jax.pure_callback(kill, jax.ShapeDtypeStruct((4,), np.float32), x).sum() > 6, in_shardings=first)
here, there = (jax.jit(lambda x: x + 1, in_shardings=s, out_shardings=s) for s in (first, second))
f = pw.program(lambda x: pw.cond(is_large(x), here, lambda v: here(there(v)), x))

np.testing.assert_array_equal(np.asarray(f(np.ones(4, np.float32))), np.full(4, 3))
np.testing.assert_array_equal(np.asarray(f(np.full(4, 2, np.float32))), np.full(4, 3))
try:
    jax.block_until_ready(f(np.full(4, -1, np.float32)))
    print("NOT RAISED")
except jax.errors.JaxRuntimeError as error:
    print("TEXT", str(error).splitlines()[0])
rest = second if os.environ["KEPT"] == "1" else first
np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x * 2, in_shardings=rest, out_shardings=rest)(np.ones(4))), np.full(4, 2.0))
print("FREE")
"""


@pytest.mark.parametrize("victim", [0, 1], ids=["the one that decides", "that of the branch"])
def test_a_host_of_the_choice_is_killed(run_script, tmp_path, victim):
    cluster = local.Cluster(Shape.parse("2x1x2"), tmp_path, heartbeat="1h", client_grace=0.5).start()
    try:
        (pid,) = [process.pid for process in cluster.processes if process.name.endswith(f"host{victim}")]
        done = run_script(CHOICE, PATHWAYS_ADDRESS=cluster.address, VICTIM=str(pid), KEPT=str(1 - victim))
    finally:
        cluster.stop()
    assert done.returncode == 0, done.stderr
    (text,) = [line for line in done.stdout.splitlines() if line.startswith("TEXT")]
    assert f"island{victim}" in text and "FREE" in done.stdout, done.stdout + done.stderr
