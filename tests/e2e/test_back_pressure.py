"""If a client uploads faster than workers receive, the rest waits at the client: the controller holds at most its limit. Behind an agent it holds
nothing (pathways/client/host_buffers_test.cc)."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import clean_environment, eventually
from test_bulk import OPTIMIZATION

from pathways import _cluster
from pathways._shape import Shape

LIMIT = 4_000_000
BUFFER = 1_200_000
MOST = LIMIT + BUFFER  # if a request overtakes its store, that store is admitted before others, over the limit (SR-1)
COUNT = 30  # nine times the limit, and more than a connection buffers


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv(f"{OPTIMIZATION}_DIRECTORY", str(files))
    monkeypatch.setenv("PATHWAYS_STAGED_LIMIT", str(LIMIT))
    running = _cluster.Cluster(Shape.parse("1x1x2"), tmp_path, heartbeat="10m").start()
    try:
        running.files = files
        yield running
    finally:
        running.stop()


def client(cluster, code, **env):
    return subprocess.Popen([sys.executable, "-c", code], env=clean_environment(PATHWAYS_ADDRESS=cluster.address, PATHWAYS_AGENT="off", **env), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def only_client(cluster):
    (report,) = _cluster.status(cluster.address, 60)["clients"]
    return report


UPLOAD = f"""
import jax, numpy as np
devices = jax.devices()
hosts = [np.full({BUFFER} // 4, i, np.float32) for i in range({COUNT})]
print("ready", flush=True)
input()
there = [jax.device_put(host, devices[i % 2]) for i, host in enumerate(hosts)]
print("put", flush=True)
for host, x in zip(hosts, there):
    np.testing.assert_array_equal(np.asarray(x + 1), host + 1)
print("same", flush=True)
input()
"""


@pytest.mark.parametrize("shared_directory", [False, True])
def test_uploads_of_many_times_the_limit_wait_and_arrive(cluster, shared_directory):
    extra = {f"{OPTIMIZATION}_DIRECTORY": str(cluster.files), f"{OPTIMIZATION}_THRESHOLD_BYTES": "65536"} if shared_directory else {}
    program = client(cluster, UPLOAD, **extra)
    assert program.stdout.readline() == "ready\n", program.stderr.read()
    worker = cluster.processes[-1].pid
    os.kill(worker, signal.SIGSTOP)  # the worker receives nothing, so a fast worker cannot hide a missing limit
    try:
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "put\n", program.stderr.read()
        assert eventually(lambda: only_client(cluster)["stores_waiting"] > 0), only_client(cluster)
        assert only_client(cluster)["staged_bytes"] <= MOST
    finally:
        os.kill(worker, signal.SIGCONT)
    assert program.stdout.readline() == "same\n", program.stderr.read()
    report = only_client(cluster)
    program.communicate("\n", timeout=60)
    assert program.returncode == 0
    assert report["stores_held_back"] > 0 and report["stores_waiting"] == 0
    assert BUFFER <= report["staged_peak_bytes"] <= MOST
    assert not list(cluster.files.glob("**/lt_*"))


TOO_LARGE = f"""
import jax, numpy as np
small = jax.device_put(np.arange(4.0))
try:
    jax.block_until_ready(jax.device_put(np.zeros({LIMIT} + 1, np.uint8)) + 1)
except jax.errors.JaxRuntimeError as error:
    print("refused:", error, flush=True)
print("then", float(small.sum()), flush=True)
"""


@pytest.mark.parametrize("shared_directory", [False, True])
def test_one_buffer_over_the_limit_is_an_error_that_says_what_to_do(cluster, shared_directory):
    extra = {f"{OPTIMIZATION}_DIRECTORY": str(cluster.files), f"{OPTIMIZATION}_THRESHOLD_BYTES": "65536"} if shared_directory else {}
    out, err = client(cluster, TOO_LARGE, **extra).communicate(timeout=120)
    assert "refused:" in out and str(LIMIT) in out and "--staged-limit" in out and "PATHWAYS_STAGED_LIMIT" in out, (out, err)
    assert "then 6.0" in out, (out, err)  # nothing else was lost
