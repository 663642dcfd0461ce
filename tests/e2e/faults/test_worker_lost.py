"""A worker process dies: its arrays raise an error that names the host, and everything else stays usable.

pathways/sim checks for all scenarios that this takes at most a second (RF-2). Here the heartbeat limit is an hour, so that only the closed
connection can reveal the loss."""

import pytest

from pathways._cluster import local
from pathways._cluster.shape import Shape

PROGRAM = """
import os, signal, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = jax.devices()
first, second = (Mesh(np.array(d), ("x",)) for d in (devices[:2], devices[2:]))
lost = jax.device_put(np.arange(8.0), NamedSharding(first, P("x")))
kept = jax.device_put(np.arange(8.0), NamedSharding(second, P("x")))
jax.block_until_ready((lost, kept))
{before}

os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)
try:
    {read}
    print("NOT RAISED")
except jax.errors.JaxRuntimeError as error:
    print("TEXT", str(error).splitlines()[0])
np.testing.assert_array_equal(np.asarray(kept), np.arange(8.0))
np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x + 1)(kept)), np.arange(8.0) + 1)
try:
    jax.device_put(np.ones(4), devices[0]).block_until_ready()
    print("NOT RAISED")
except jax.errors.JaxRuntimeError as error:
    print("LATER", str(error).splitlines()[0])
"""

CASES = {
    "an array that lived there": ("", "jax.block_until_ready(jax.jit(lambda x: x * 2)(lost))"),
    # The read waits for a callback of this process, so it is under way when the worker dies.
    "a computation under way": (
        "import threading; started = threading.Event()\n"
        "slow = lambda x: (started.set(), time.sleep(60)) and np.asarray(x)\n"
        "running = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct((), np.float32), x))(jax.device_put(np.float32(1), devices[1]))\n"
        "started.wait()", "running.block_until_ready()"),
}


@pytest.fixture
def cluster(tmp_path):
    running = local.Cluster(Shape.parse("2x1x2"), tmp_path, heartbeat="1h").start()
    yield running
    running.stop()


@pytest.mark.parametrize("case", CASES)
def test_what_lived_there_raises_and_the_rest_goes_on(run_script, cluster, case):
    before, read = CASES[case]
    (victim,) = [process.pid for process in cluster.processes if process.name.endswith("host0")]
    done = run_script(PROGRAM.format(before=before, read=read), PATHWAYS_ADDRESS=cluster.address, VICTIM=str(victim))
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for text in (said["TEXT"], said["LATER"]):
        assert text.startswith("DATA_LOSS") and "island0" in text and "host0" in text and "nothing heard" not in text, done.stdout
    assert "NOT" not in said
