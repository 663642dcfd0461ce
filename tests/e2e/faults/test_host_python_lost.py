"""A process of colocated functions dies, or its worker does: their calls fail with host and cause, and everything else goes on."""

import os
import signal
import sys

import jax
import numpy as np
import pytest
from conftest import eventually

import pathways as pw
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


def test_a_process_that_dies_in_the_middle_of_a_programs_run_fails_that_run_alone(devices, tmp_path):
    here = jax.sharding.SingleDeviceSharding(devices[0])
    x = jax.device_put(np.zeros(1, np.int32), devices[0])
    pid = pid_on(x)
    add = jax.jit(lambda v: v + 1, in_shardings=here, out_shardings=here)

    note = tmp_path / "note"

    def maybe_wait(x):
        import threading

        if x[0] == 1:
            note.touch()
            threading.Event().wait()
        return x + os.getpid()

    maybe_wait = colocated_python.colocated_python(maybe_wait).specialize(out_specs_fn=like)

    @pw.program
    def step(x):
        y = add(x)
        return add(maybe_wait(y)), y

    assert int(step(x + 1)[0][0]) == pid + 3
    failed, fine = step(x)
    assert int(fine[0]) == 1 and eventually(note.exists)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        failed.block_until_ready()
    text = str(caught.value)
    assert "the Python process of host" in text and "of island 'island0'" in text and "signal 9" in text and f"(pid {pid})" in text, text
    assert "test_host_python_lost.py:" in text and "in step, maybe_wait on the hosts of device 0" in text, text
    after = int(step(x + 1)[0][0]) - 3
    assert after not in (pid, os.getpid()) and after == pid_on(x), "the same program goes on with a new process"


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


LATE = """
import os, jax, numpy as np
from jax.experimental import colocated_python
import pathways as pw

like = dict(out_specs_fn=lambda x: x)
def pid_on(x):
    return int(colocated_python.colocated_python(lambda x: x + os.getpid()).specialize(**like)(x)[0])
def never(x):
    import threading
    threading.Event().wait()
never = colocated_python.colocated_python(never).specialize(**like)
first, second = (jax.device_put(np.zeros(1, np.int32), device) for device in jax.devices())
before = pid_on(first), pid_on(second)
inside = pw.program(lambda x: (never(x), x + 1))
for call in (lambda: never(first), lambda: inside(first)[0]):
    try:
        call().block_until_ready()
        print("NO ERROR")
    except jax.errors.JaxRuntimeError as error:
        print("TEXT", str(error).replace(chr(10), " "))
print("SAME", pid_on(first) == before[0], pid_on(second) == before[1])
"""


@pytest.mark.parametrize("operator, program, setting", [
    (2.0, None, "within 2s (--python-seconds of the host)"),
    (None, "2", "within 2s (PATHWAYS_FUNCTION_SECONDS of the program)"),
    (60.0, "1.5", "within 1.5s (PATHWAYS_FUNCTION_SECONDS of the program)"),
])
def test_a_function_that_does_not_answer_is_ended_with_its_process(run_script, tmp_path, operator, program, setting):
    python = command_lines.HostPython(sys.executable, seconds=operator)
    cluster = local.Cluster(Shape.parse("2x1x1"), tmp_path, host_python=python).start()
    try:
        limit = {} if program is None else {"PATHWAYS_FUNCTION_SECONDS": program}
        done = run_script(LATE, PATHWAYS_ADDRESS=cluster.address, **limit)
    finally:
        cluster.stop()
    assert done.returncode == 0, done.stderr
    alone, inside, same = done.stdout.splitlines()
    for text in (alone, inside):
        assert "DEADLINE_EXCEEDED" in text and "the Python function never did not answer" in text and setting in text, text
        assert "host 'host0' of island 'island0' (pid " in text and "was ended" in text, text
    assert "script.py:" in inside and "never on the hosts of device 0" in inside, inside
    assert same == "SAME False True", "the other host's process goes on"


def test_a_limit_that_is_no_time_is_refused(run_script):
    done = run_script(LATE, PATHWAYS_LOCAL="2x1x1", PATHWAYS_FUNCTION_SECONDS="soon")
    assert done.returncode != 0 and "PATHWAYS_FUNCTION_SECONDS is 'soon', and must be a number of seconds" in done.stderr
