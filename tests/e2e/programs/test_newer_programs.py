"""Programs of a jax newer than the devices' runtime are translated to the version that it reads, and compute the same as jax's own cpu.

The runtime reads the same programs of an older jax without translation. jaxlib's version decides which case the tests expect.
"""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

import newer_programs
import pathways as pw
from conftest import clean_environment, eventually
from pathways._client import connection, doors
from pathways._cluster import admin, records
from pathways._cluster.local import Cluster
from pathways._cluster.shape import Shape

PROGRAM = pathlib.Path(newer_programs.__file__)


def writes_newer_programs():
    """Whether jaxlib sends programs that the CPU plugin cannot read, as it does since 0.11."""
    return jax.version.__version_info__ >= (0, 11)


def translated(address):
    return admin.status(address)["translated_programs"]


@pytest.fixture
def address(devices):
    return connection.connected()[0][0]


@pytest.mark.parametrize("name", newer_programs.CASES)
def test_equal_to_jax_itself(name, devices):
    reference = jax.devices("cpu")
    assert not (problem := newer_programs.problem(newer_programs.CASES[name], devices, reference)), problem


def test_a_program_is_translated_once_and_one_that_is_read_never(devices, address):
    before = translated(address)
    jax.jit(lambda x: x * 3 - 1)(np.arange(5.0)).block_until_ready()
    assert translated(address) == before
    x = jax.device_put(newer_programs.X, devices[1])
    for _ in range(2):
        jax.clear_caches()  # otherwise jax compiles it only once
        jax.jit(lambda x: jax.nn.gelu(x / 5, approximate=False) + 1)(x).block_until_ready()
    # Both compilations use a translated program. C++ tests check that the client is asked for the translation only once. By the PJRT door, jax writes
    # the version that the devices read.
    assert translated(address) == before + (2 if writes_newer_programs() and doors.chosen() == "ifrt" else 0)


def test_inside_a_program_of_many_nodes(devices):
    mesh = newer_programs.mesh_of(devices)
    psum, out = newer_programs.COLLECTIVE["psum"]
    first = jax.jit(newer_programs.ELEMENTWISE["gelu"])
    second = jax.jit(newer_programs.shard_map(psum, mesh, out))

    @pw.program
    def both(x):
        return second(first(x))

    x = jax.device_put(newer_programs.X, jax.sharding.NamedSharding(mesh, newer_programs.GRID))
    reference = newer_programs.mesh_of(jax.devices("cpu"))
    expected = jax.jit(newer_programs.shard_map(psum, reference, out))(
        first(jax.device_put(newer_programs.X, jax.sharding.NamedSharding(reference, newer_programs.GRID))))
    np.testing.assert_allclose(np.asarray(both(x)), np.asarray(expected), rtol=2e-5, atol=1e-6)


# ---- clients without our package ----
@pytest.fixture
def own_cluster(tmp_path):
    cluster = Cluster(Shape.parse("2x1x4"), tmp_path, listen_proxy="127.0.0.1:0").start()
    yield cluster
    cluster.stop()


def proxy_client(cluster, *options):
    if importlib.util.find_spec("pathwaysutils") is None:
        pytest.skip("pathwaysutils is not installed")
    env = clean_environment(JAX_PLATFORMS="proxy", JAX_BACKEND_TARGET=f"grpc://{cluster.proxy_address}",
                            XLA_FLAGS="--xla_force_host_platform_device_count=8",
                            IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true", TF_CPP_MIN_LOG_LEVEL="2")
    return subprocess.Popen([sys.executable, str(PROGRAM), *options], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def helpers_of(cluster):
    """Returns the processes that translate programs for the agent."""
    agent = next(process.pid for process in cluster.processes if process.name == "pathways-agent")
    children = pathlib.Path(f"/proc/{agent}/task")
    pids = {int(pid) for task in children.iterdir() for pid in (task / "children").read_text().split()}
    return [pid for pid in pids if b"pathways._translator" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]


def has_ended(pid):
    """Returns True also for a process that its parent has not waited for yet: its sockets are closed. Its command line disappears before them."""
    return records.start_time(pid) is None


def test_a_client_without_our_package_is_served_by_the_helper(own_cluster):
    client = proxy_client(own_cluster, "--pause")
    first = client.stdout.readline()
    assert first, client.communicate()[1]
    assert not any(json.loads(first).values()), first
    helpers = helpers_of(own_cluster)
    if writes_newer_programs():
        assert len(helpers) == 1
        os.kill(helpers[0], signal.SIGKILL)  # between two compilations: the next one restarts it
        assert eventually(lambda: has_ended(helpers[0])), "a compilation before its end would be lost with it"
    else:
        assert not helpers
    out, err = client.communicate("go on\n", timeout=240)
    assert client.returncode == 0, err
    assert not any(json.loads(out).values()), out
    assert (translated(own_cluster.address) > 0) == writes_newer_programs()
    assert helpers_of(own_cluster) != helpers or not helpers


def test_without_a_python_the_error_names_versions_and_remedy(tmp_path, monkeypatch):
    if not writes_newer_programs():
        pytest.skip(f"jax {jax.__version__} writes no programs that the devices cannot read")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    cluster = Cluster(Shape.parse("1x1x8"), tmp_path, listen_proxy="127.0.0.1:0").start()
    monkeypatch.undo()
    try:
        out, err = proxy_client(cluster).communicate(timeout=240)
        problem = json.loads(out)["gelu"]
        assert "written for StableHLO" in problem and "reads up to 1.1" in problem and "/no/such/python" in problem, problem
        assert "Install the client's jaxlib" in problem, problem
    finally:
        cluster.stop()
