"""A process of colocated functions dies, or its worker does: their calls fail with host and cause, and everything else goes on."""

import os
import signal
import sys

import jax
import numpy as np
import pytest
from conftest import eventually

from pathways._cluster import command_lines, local, records
from pathways._cluster.shape import Shape

colocated_python = pytest.importorskip("jax.experimental.colocated_python")
if jax.__version_info__ < (0, 9, 1):
    pytest.skip("hosts run colocated functions with jax 0.9.1 or newer", allow_module_level=True)
if os.environ.get("PATHWAYS_DOOR") == "pjrt":
    pytest.skip("colocated functions do not go through the PJRT door", allow_module_level=True)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def pid_on(x):
    return int(colocated_python.colocated_python(lambda x: x + os.getpid()).specialize(out_specs_fn=like)(x)[0])


def test_a_process_that_dies_fails_its_calls_and_the_next_call_gets_a_new_one(devices):
    x = jax.device_put(np.zeros(1, np.int32), devices[0])
    pid = pid_on(x)

    @colocated_python.colocated_python
    def wait(x):
        import threading

        threading.Event().wait()

    waiting = wait.specialize(out_specs_fn=like)(x)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        waiting.block_until_ready()
    text = str(caught.value)
    assert "the Python process of host" in text and "of island 'island0'" in text and "signal 9" in text and f"(pid {pid})" in text
    assert pid_on(x) not in (pid, os.getpid())

    def crash(x):
        import ctypes

        ctypes.string_at(0)

    with pytest.raises(jax.errors.JaxRuntimeError, match="SIGSEGV"):
        colocated_python.colocated_python(crash).specialize(out_specs_fn=like)(x).block_until_ready()
    np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v + 1)(x)), [1])  # the worker lives


WORKER = """
import os, signal, jax, numpy as np
from jax.experimental import colocated_python
def pid_on(x):
    return int(colocated_python.colocated_python(lambda x: x + os.getpid()).specialize(out_specs_fn=lambda x: x)(x)[0])
first, second = (jax.device_put(np.zeros(1, np.int32), device) for device in jax.devices())
print("PIDS", pid_on(first), pid_on(second))
os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)
try:
    first.block_until_ready()
    print("FAILED", pid_on(first))
except jax.errors.JaxRuntimeError as error:
    print("TEXT", str(error).splitlines()[0])
print("OTHER", pid_on(second))
"""


def test_the_process_of_a_worker_that_is_killed_ends_and_other_hosts_go_on(run_script, tmp_path):
    cluster = local.Cluster(Shape.parse("2x1x1"), tmp_path, host_python=command_lines.HostPython(sys.executable)).start()
    try:
        (victim,) = [process.pid for process in cluster.processes if process.name.endswith("host0")]
        done = run_script(WORKER, PATHWAYS_ADDRESS=cluster.address, VICTIM=str(victim))
        assert done.returncode == 0, done.stderr
        lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        first, second = (int(pid) for pid in lines["PIDS"].split())
        assert "host0" in lines["TEXT"] and int(lines["OTHER"]) == second
        gone = lambda pid: records.start_time(pid) is None
        assert eventually(lambda: gone(first)) and eventually(lambda: gone(second)), "the second with its session"
    finally:
        cluster.stop()
