"""Tests a program's own cluster of one host beside it (PATHWAYS_DOOR=ifrt): front door, controller and host are one process.
test_own_cluster.py tests the cluster in the program's own process."""

import os
import signal

import pytest
from cli import alive, check_that_it_outlives_its_door
from conftest import E2E, eventually
from test_lifecycle import processes_of


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.setenv("PATHWAYS_DOOR", "ifrt")


_PID = "from pathways._client import connection\npid = connection._endpoint.door.pid\n"


def test_it_is_one_process_that_ends_with_the_program(run_script):
    done = run_script(f"""
import os, signal
import jax
print(jax.device_count(), flush=True)
{_PID}
print(os.getpid(), pid, flush=True)
from test_lifecycle import processes_of
assert processes_of(os.getpid()) == [pid], processes_of(os.getpid())
os.kill(os.getpid(), signal.SIGKILL)
""", PATHWAYS_LOCAL="1x1x3", PYTHONPATH=os.pathsep.join([str(E2E), str(E2E / "cluster")]))
    assert done.returncode == -signal.SIGKILL, done.stderr
    devices, numbers = done.stdout.splitlines()
    root, pid = map(int, numbers.split())
    assert devices == "3"
    assert eventually(lambda: not alive(pid)) and not processes_of(root)


def test_a_program_outlives_it_and_gets_another(run_script):
    """This also holds if the device runtime, which is in the same process, takes the cluster down."""
    check_that_it_outlives_its_door(run_script, signal.SIGSEGV)


def test_operators_see_it(run_script):
    done = run_script("""
import jax.numpy as jnp
x = jnp.ones(1000).block_until_ready()
from pathways._client import connection
from pathways._cluster import admin
[(address, number)] = connection.connected()
report = admin.status(address)
print(report["joined_hosts"], [host["name"] for host in report["hosts"]], [client["id"] for client in report["clients"]] == [number])
""")
    assert (done.returncode, done.stdout) == (0, "1 ['host0'] True\n"), done.stderr


def test_a_plugin_that_cannot_be_loaded_is_named(run_script, tmp_path):
    plugin = tmp_path / "libnothing.so"
    plugin.write_text("not a library")
    done = run_script("import jax\njax.devices()\n", PATHWAYS_PLATFORM=str(plugin))
    assert done.returncode == 1 and str(plugin) in done.stderr and "the local cluster did not start" in done.stderr, done.stderr


def test_large_arrays_are_read_where_the_process_has_put_them(run_script):
    done = run_script("""
import pathlib
import jax, numpy as np
x = np.arange(64 << 20, dtype=np.uint8).reshape(64, -1)
y = np.asarray(jax.device_put(x, jax.devices()[0]))
assert np.array_equal(x, y)
print("memfd:pathways" in pathlib.Path("/proc/self/maps").read_text())
""")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
