"""With more arrays than fit on a device, idle arrays move to host memory and back if the cluster was started with --spill."""

import subprocess
import sys

import pytest
from conftest import clean_environment

from pathways._cluster import admin, local
from pathways._cluster.shape import Shape

LIMIT = 8_000_000
PROGRAM = """
import jax, numpy as np
device, other = jax.devices()
hosts = [np.full(500_000, i, np.float32) for i in range(10)]  # 20 MB where 8 fit
xs = [jax.device_put(host, device) for host in hosts]
ys = [jax.jit(lambda v: v + 1)(x) for x in xs]
for host, x, y in zip(hosts, xs, ys):
    np.testing.assert_array_equal(np.asarray(y), host + 1)
    np.testing.assert_array_equal(np.asarray(x), host)
total = jax.jit(lambda a, b: a + b)
for i in range(10):
    np.testing.assert_array_equal(np.asarray(total(xs[i], ys[9 - i])), hosts[i] + hosts[9 - i] + 1)
taken = jax.jit(lambda v: v * 2, donate_argnums=0)(xs[0])
np.testing.assert_array_equal(np.asarray(taken), hosts[0] * 2)
moved = jax.device_put(xs[1], other)
np.testing.assert_array_equal(np.asarray(moved), hosts[1])
print("same", flush=True)
input()
"""


@pytest.fixture
def start(tmp_path):
    clusters = []

    def up(spill):
        clusters.append(local.Cluster(Shape.parse("1x1x2"), tmp_path, heartbeat="10m", memory_limit=LIMIT, spill=spill).start())
        return clusters[-1]

    yield up
    for cluster in clusters:
        cluster.stop()


def run(cluster):
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=clean_environment(PATHWAYS_ADDRESS=cluster.address), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_arrays_that_do_not_fit_wait_in_host_memory(start):
    cluster = start(spill=True)
    client = run(cluster)
    line = client.stdout.readline()
    if line != "same\n":
        pytest.fail(client.communicate()[1])
    report = admin.status(cluster.address, 60)
    (host,) = report["hosts"]
    assert host["metrics"]["moved_out"] > 0 and host["metrics"]["moved_back"] > 0
    assert host["metrics"]["spilled_bytes"] > 0
    assert report["devices"][0]["memory"]["peak_bytes"] <= LIMIT
    _, errors = client.communicate("\n")
    assert client.returncode == 0, errors


def test_without_it_they_are_refused(start):
    client = run(start(spill=False))
    _, errors = client.communicate("\n")
    assert client.returncode != 0
    assert "RESOURCE_EXHAUSTED" in errors


def test_a_program_is_told_the_limit(start):
    code = "import jax; print(*(device.memory_stats()['bytes_limit'] for device in jax.devices()))"
    done = subprocess.run([sys.executable, "-c", code], env=clean_environment(PATHWAYS_ADDRESS=start(spill=False).address), capture_output=True, text=True)
    assert done.stdout == f"{LIMIT} {LIMIT}\n", done.stderr


AHEAD = """
import jax, jax.numpy as jnp, numpy as np
step = jax.jit(lambda x: x + 1)
x = jax.device_put(np.zeros(750_000, np.float32), jax.devices()[0])  # 3 MB: a step's argument and result fit, and nothing else
for _ in range(500):
    x = step(x)
print(float(x[0]))
"""


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_a_program_that_runs_ahead_needs_no_memory_for_what_it_has_dropped(start, door):
    env = clean_environment(PATHWAYS_ADDRESS=start(spill=False).address, PATHWAYS_DOOR=door)
    done = subprocess.run([sys.executable, "-c", AHEAD], env=env, capture_output=True, text=True)
    assert done.stdout == "500.0\n", done.stderr
