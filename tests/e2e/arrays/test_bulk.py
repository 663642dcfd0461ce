"""Large arrays between a client, its agent and the workers of one machine travel in shared memory. None of that memory stays
behind when a process is killed during a transfer."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from conftest import PATIENCE, clean_environment, eventually

from pathways._cluster import local
from pathways._cluster.shape import Shape

OPTIMIZATION = "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Starts a cluster of two islands of one device, with a directory in memory for files of clients."""
    files = pathlib.Path(f"/dev/shm/pathways-test-{os.getpid()}")
    files.mkdir()
    monkeypatch.setenv(f"{OPTIMIZATION}_DIRECTORY", str(files))
    running = local.Cluster(Shape.parse("2x1x1"), tmp_path, heartbeat="10m").start()
    try:
        running.files = files
        yield running
    finally:
        running.stop()
        for left in files.iterdir():
            left.unlink()
        files.rmdir()


def pids(cluster):
    return [p.process.pid if hasattr(p, "process") else p.pid for p in cluster.processes]


def files_in_memory():
    """Returns the files in shared memory, except those of other test runs, which come and go."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("pathways-test-", "sem."))}


def shared_memories(cluster):
    """Returns the numbers of shared memories that the cluster's processes have open and mapped; each process has one as its probe."""
    opened, mapped = 0, 0
    for pid in pids(cluster):
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                opened += "memfd:pathways" in os.readlink(fd)
            except FileNotFoundError:
                continue
        mapped += len(re.findall(r"memfd:pathways|/lt_", pathlib.Path(f"/proc/{pid}/maps").read_text()))
    return opened, mapped


def client(cluster, code, **env):
    return subprocess.Popen([sys.executable, "-c", code], env=clean_environment(PATHWAYS_ADDRESS=cluster.address, **env),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


ROUND_TRIP = """
import jax, numpy as np
host = np.arange(3 << 20, dtype=np.float32).reshape(3, -1)
a, b = jax.devices()
for layout in (host, np.asfortranarray(host), host[:, ::2]):
    x = jax.device_put(layout, a)
    y = jax.device_put(x, b)  # from worker to worker
    np.testing.assert_array_equal(np.asarray(y), layout)
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v + 1, donate_argnums=0)(x)), layout + 1)
print("same")
"""


@pytest.mark.parametrize("shared_directory", [False, True])
def test_large_arrays_arrive_and_are_freed(cluster, shared_directory):
    before = shared_memories(cluster)
    assert before == (3, 3)
    extra = {f"{OPTIMIZATION}_DIRECTORY": str(cluster.files), f"{OPTIMIZATION}_THRESHOLD_BYTES": "65536"} if shared_directory else {}
    done = client(cluster, ROUND_TRIP, **extra)
    assert done.communicate(timeout=120)[0] == "same\n"
    assert eventually(lambda: shared_memories(cluster) == before), shared_memories(cluster)
    assert not list(cluster.files.iterdir())


TRANSFER = """
import sys
import jax, numpy as np
host = np.ones(32 << 20, np.float32)
near, far = jax.devices()
f = jax.jit(lambda v: v + 1)
here = jax.device_put(host, near)
there = f(jax.device_put(here, far))
np.testing.assert_array_equal(np.asarray(there), host + 1)  # now nothing is there for the first time
there = f(there).block_until_ready()
start = {"up": lambda: jax.device_put(host, far), "across": lambda: jax.device_put(here, far), "down": there.copy_to_host_async}
print("ready", flush=True)
begun = start[sys.stdin.readline().strip()]()
# The controller carries requests out in their order: where a later one has its answer, this one has been taken up.
assert float(f(jax.device_put(np.float32(1), near))) == 2
print("begun", flush=True)
jax.block_until_ready(begun)
"""


class Stopped:
    """Stops a process within the block, so that data sent to it stays in flight."""

    def __init__(self, pid):
        self._pid = pid

    def __enter__(self):
        os.kill(self._pid, signal.SIGSTOP)

    def __exit__(self, *error):
        try:
            os.kill(self._pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def wait_until_it_says(victim, word):
    if victim.stdout.readline() != f"{word}\n":
        raise AssertionError(f"the client has ended with status {victim.wait()}")


def begin(victim, transfer):
    """Makes the client begin a transfer. REQUIRES: the transfer's worker is stopped."""
    victim.stdin.write(f"{transfer}\n")
    victim.stdin.flush()
    wait_until_it_says(victim, "begun")


@pytest.mark.parametrize("way", ["on", "off"])  # off: from the client to its agent over a socket
@pytest.mark.parametrize("transfer", ["up", "across", "down"])
def test_a_client_killed_in_the_middle_leaves_nothing(cluster, transfer, way):
    before = shared_memories(cluster)
    victim = client(cluster, TRANSFER, PATHWAYS_SHARED_MEMORY=way)
    wait_until_it_says(victim, "ready")
    with Stopped(pids(cluster)[2]):
        begin(victim, transfer)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    assert eventually(lambda: shared_memories(cluster) == before), shared_memories(cluster)


def test_a_worker_killed_in_the_middle_leaves_nothing(cluster):
    on_disk = files_in_memory()
    victim = client(cluster, TRANSFER)
    wait_until_it_says(victim, "ready")
    with Stopped(pids(cluster)[2]):
        begin(victim, "across")
        os.kill(pids(cluster)[2], signal.SIGKILL)
        assert victim.wait(PATIENCE) != 0  # with the error of the lost host
    cluster.processes[:] = cluster.processes[:2]
    assert eventually(lambda: shared_memories(cluster) == (2, 2)), shared_memories(cluster)
    assert files_in_memory() == on_disk
