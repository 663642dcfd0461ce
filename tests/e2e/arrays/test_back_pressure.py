"""If a client uploads faster than workers receive, the rest waits at the client's agent, not at the controller. pathways/client/host_buffers_test.cc
tests the agent's limit. One array that is too large for any limit is an error."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import clean_environment
from test_bulk import OPTIMIZATION

from pathways._cluster import admin, local
from pathways._cluster.shape import Shape

LIMIT = 4_000_000
BUFFER = 1_200_000
COUNT = 30  # more than a connection buffers

UPLOAD = f"""
import jax, numpy as np
devices = jax.devices()
hosts = [np.full({BUFFER} // 4, i, np.float32) for i in range({COUNT})]
jax.block_until_ready([jax.device_put(np.float32(0), device) for device in devices])
print("ready", flush=True)
input()
there = [jax.device_put(host, devices[i % 2]) for i, host in enumerate(hosts)]
print("put", flush=True)
for host, x in zip(hosts, there):
    np.testing.assert_array_equal(np.asarray(x + 1), host + 1)
print("same", flush=True)
input()
"""


@pytest.mark.parametrize("files", [False, True])
def test_uploads_wait_at_the_client_and_arrive(tmp_path, monkeypatch, files):
    (tmp_path / "files").mkdir()
    extra = {f"{OPTIMIZATION}_DIRECTORY": str(tmp_path / "files"), f"{OPTIMIZATION}_THRESHOLD_BYTES": "65536"} if files else {"PATHWAYS_SHARED_MEMORY": "off"}
    monkeypatch.setenv("PATHWAYS_STAGED_LIMIT", str(LIMIT))
    cluster = local.Cluster(Shape.parse("1x1x2"), tmp_path, heartbeat="10m").start()
    try:
        program = subprocess.Popen([sys.executable, "-c", UPLOAD], env=clean_environment(PATHWAYS_ADDRESS=cluster.address, **extra), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "ready\n", program.stderr.read()
        worker = cluster.processes[-1].pid
        os.kill(worker, signal.SIGSTOP)  # the worker receives nothing
        try:
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "put\n", program.stderr.read()
        finally:
            os.kill(worker, signal.SIGCONT)
        assert program.stdout.readline() == "same\n", program.stderr.read()
        (report,) = admin.status(cluster.address, 60)["clients"]
        program.communicate("\n", timeout=60)
        assert program.returncode == 0
        assert report["staged_peak_bytes"] < BUFFER and report["stores_held_back"] == 0, report
        assert not list((tmp_path / "files").glob("**/lt_*"))
    finally:
        cluster.stop()


TOO_LARGE = f"""
import jax, numpy as np
small = jax.device_put(np.arange(4.0))
try:
    jax.block_until_ready(jax.device_put(np.zeros({LIMIT} + 1, np.uint8)) + 1)
except jax.errors.JaxRuntimeError as error:
    print("refused:", error, flush=True)
print("then", float(small.sum()), flush=True)
"""


@pytest.mark.parametrize("files", [False, True])
def test_one_buffer_over_the_limit_of_a_cluster_of_one_process_is_an_error_that_says_what_to_do(run_script, files):
    """In the program's own process (PATHWAYS_DOOR=pjrt) nothing is staged."""
    done = run_script(TOO_LARGE, PATHWAYS_DOOR="ifrt", PATHWAYS_STAGED_LIMIT=str(LIMIT), PATHWAYS_SHARED_MEMORY="on" if files else "off")
    assert "refused:" in done.stdout and str(LIMIT) in done.stdout and "--staged-limit" in done.stdout and "PATHWAYS_STAGED_LIMIT" in done.stdout, done
    assert "then 6.0" in done.stdout, done  # nothing else was lost
