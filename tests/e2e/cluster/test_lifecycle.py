"""A local cluster starts with the program and ends with it, however the program ends."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
from unittest import mock

import pytest

from conftest import clean_environment, eventually
from pathways._client import connect, timer_slack


def processes_of(root):
    """Returns the pids of our binaries whose command line names a run folder of the process `root`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if "pathways-" in os.path.basename(words[0]) and any(f"/run-{root}-" in word for word in words):
                found.append(int(entry.name))
    return found


def assert_gone(root):
    assert eventually(lambda: not processes_of(root)), "processes are left behind"


class Program:
    """A user's program, watched from outside. When it has a device, it prints "ready" and its run's folder."""

    PROLOGUE = ("import jax, jax.numpy as jnp, os, sys, time, signal\nx = jnp.arange(4.0) + 1\nx.block_until_ready()\n"
                "from pathways._client import connection\nprint('ready', connection._endpoint.folder, flush=True)\n")

    def __init__(self, tmp_path, code, **env):
        path = tmp_path / "program.py"
        path.write_text(self.PROLOGUE + code)
        # A shell starts background jobs with SIGINT ignored, and children inherit that.
        self.popen = subprocess.Popen([sys.executable, str(path)], env=clean_environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        line = self.popen.stdout.readline()
        assert line.startswith("ready "), self.popen.communicate()[1]
        self.folder = pathlib.Path(line.split(maxsplit=1)[1].strip())
        self.processes = processes_of(self.popen.pid)

    def end(self):
        out, err = self.popen.communicate(timeout=60)
        return self.popen.returncode, out, err


@pytest.fixture(params=["ifrt", "pjrt"])
def place(request, monkeypatch):
    """Selects a local cluster of one host beside the program, or in the program's own process."""
    monkeypatch.setenv("PATHWAYS_DOOR", request.param)
    return "beside" if request.param == "ifrt" else "inside"


QUIET = re.compile(r"Traceback|terminate called|\*\*\* |Check failed|Aborted|core dumped|WARNING|E0000|W0000|F0000|disconnected", re.IGNORECASE)


def assert_quiet(text):
    assert not QUIET.search(text), text


def test_only_threads_of_the_client_library_are_in_no_hurry(devices):
    """Tests timer_slack.py: only the client library's threads, which poll for deletions, have a large timer slack."""
    slack = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            slack[int(task.name)] = int(pathlib.Path(f"/proc/{task.name}/timerslack_ns").read_text())
    assert timer_slack.NANOSECONDS in slack.values()
    assert slack[threading.get_native_id()] < timer_slack.NANOSECONDS


def test_the_normal_end_is_clean(tmp_path, place):
    program = Program(tmp_path, "print(float((x * 2).sum()))\n")
    assert bool(program.processes) == (place == "beside")
    code, out, err = program.end()
    assert (code, out) == (0, "20.0\n"), err
    assert_quiet(err)
    assert_gone(program.popen.pid)
    assert not program.folder.exists(), "the run folder is left behind"


def test_arrays_and_work_under_way_at_the_end_do_no_harm(tmp_path, place):
    program = Program(tmp_path, "f = jax.jit(lambda v: v + 1)\nfor _ in range(200): x = f(x)\n")
    code, _, err = program.end()
    assert code == 0
    assert_quiet(err)
    assert_gone(program.popen.pid)


def test_an_exception_shows_only_itself(tmp_path, place):
    program = Program(tmp_path, "raise ValueError('the user\\'s own')\n")
    code, _, err = program.end()
    assert code == 1 and err.count("Traceback") == 1 and err.rstrip().endswith("ValueError: the user's own")
    assert_gone(program.popen.pid)


@pytest.mark.parametrize("code, status", [("sys.exit(7)", 7), ("os._exit(8)", 8), ("os.abort()", -signal.SIGABRT)])
def test_other_ends(tmp_path, place, code, status):
    program = Program(tmp_path, code)
    assert program.end()[0] == status
    assert_gone(program.popen.pid)


def test_an_interrupt_ends_the_program_with_its_cluster(tmp_path, place):
    program = Program(tmp_path, "while True: time.sleep(1)\n")
    program.popen.send_signal(signal.SIGINT)
    code, _, err = program.end()
    assert code in (1, 130, -signal.SIGINT) and "KeyboardInterrupt" in err
    assert_gone(program.popen.pid)


def test_an_interrupt_that_is_caught_leaves_the_cluster_usable(tmp_path, place):
    code = "try:\n  signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n  print(float((x * 3).sum()))\n"
    status, out, err = Program(tmp_path, code).end()
    assert (status, out) == (0, "30.0\n"), err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_program_ends_the_cluster(tmp_path, place, number):
    program = Program(tmp_path, "time.sleep(100)\n")
    program.popen.send_signal(number)
    assert program.end()[0] == -number
    assert_gone(program.popen.pid)


def test_the_first_use_may_come_from_a_thread_that_ends(run_script):
    """When a thread ends, Linux signals the children that it started; once the thread is no longer listed, the signals have been sent."""
    done = run_script("""
import os, threading, jax.numpy as jnp
box = []
thread = threading.Thread(target=lambda: box.append(jnp.arange(3.0) + 1))
thread.start()
number = thread.native_id
thread.join()
while os.path.exists(f"/proc/self/task/{number}"):
    os.sched_yield()
print(float(box[0].sum()))
""")
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr


def test_a_forked_child_does_not_end_its_parent_s_cluster(run_script):
    done = run_script(
        "import os, warnings, jax.numpy as jnp\nwarnings.simplefilter('ignore')\nx = jnp.ones(3) + 1\n"
        "pid = os.fork()\nif pid == 0:\n  import sys; sys.exit(0)\nos.waitpid(pid, 0)\nprint(float((x + 1).sum()))\n")
    assert (done.returncode, done.stdout) == (0, "9.0\n"), done.stderr


def test_a_subprocess_may_have_a_cluster_of_its_own(run_script):
    done = run_script(
        "import subprocess, sys, jax.numpy as jnp\nx = jnp.ones(2)\nx.block_until_ready()\n"
        "inner = 'import jax.numpy as jnp; print(float(jnp.ones(4).sum()))'\n"
        "print(subprocess.run([sys.executable, '-c', inner], capture_output=True, text=True).stdout.strip(), float(x.sum()))\n")
    assert (done.returncode, done.stdout) == (0, "4.0 2.0\n"), done.stderr


def test_the_child_of_a_process_that_imported_jax_ends_without_a_word(run_script):
    done = run_script("""
import os, subprocess, sys
import jax
child = [sys.executable, "-c", "import jax; print(jax.numpy.ones(2).sum())"]
subprocess.run(child, env={**os.environ, "JAX_PLATFORMS": "pathways"}, check=True)
""", JAX_PLATFORMS="cpu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n", "")


def test_the_shape_is_what_the_environment_says(run_script):
    done = run_script("import jax\nprint(len(jax.devices()), sorted({str(d.island) for d in jax.devices()}))\n", PATHWAYS_LOCAL="2x2x3")
    assert done.stdout.split()[0] == "12", done.stderr


def test_a_bad_shape_is_named(run_script):
    done = run_script("import jax\njax.devices()\n", PATHWAYS_LOCAL="many")
    assert done.returncode == 1 and "PATHWAYS_LOCAL: 'many' is not a cluster shape" in done.stderr


def test_without_the_selection_nothing_starts(run_script):
    code = "import jax, jax.numpy as jnp, os\njnp.ones(3).sum()\nprint(jax.default_backend(), len(jax.devices()), os.getpid())\n"
    for platforms in ("cpu", ""):
        done = run_script(code, JAX_PLATFORMS=platforms)
        name, count, pid = done.stdout.split()
        assert (name, count) == ("cpu", "1"), done.stderr
        assert not processes_of(pid)


@pytest.mark.parametrize("platforms", ["pathways", "pathways,cpu", "cpu,pathways"])
def test_the_local_cpu_backend_comes_along(run_script, platforms):
    done = run_script("import jax\nprint(len(jax.devices('pathways')), len(jax.devices('cpu')), len(jax.devices()))\n", JAX_PLATFORMS=platforms)
    assert done.stdout.split() == ["2", "1", "1" if platforms.startswith("cpu") else "2"], done.stderr


def test_a_script_may_select_it_through_jax_config(run_script):
    done = run_script("import jax\njax.config.update('jax_platforms', 'pathways')\nprint(len(jax.devices()))\n", JAX_PLATFORMS="")
    assert done.stdout == "2\n", done.stderr


def test_an_address_where_nobody_listens_is_named(run_script):
    # The attempt must end soon: trying for the whole PATHWAYS_CONNECT_TIMEOUT would exceed this test's limit.
    done = run_script("import jax\njax.devices()\n", PATHWAYS_ADDRESS="127.0.0.1:9", PATHWAYS_CONNECT_TIMEOUT="100000")
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr and "refused" in done.stderr and "pathways status" in done.stderr


@pytest.mark.parametrize("address, text", [("nowhere.invalid:1", "nowhere.invalid:1"), ("myhost", "HOST:PORT"), ("myhost:http", "HOST:PORT")])
def test_an_address_that_is_none_is_named(run_script, address, text):
    done = run_script("import jax\njax.devices()\n", PATHWAYS_ADDRESS=address, PATHWAYS_CONNECT_TIMEOUT="100000")
    assert done.returncode == 1
    assert address in done.stderr and text in done.stderr


def test_a_controller_that_is_just_starting_is_waited_for():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    refused = threading.Event()

    def listen():
        refused.wait()
        listener.listen()

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        with mock.patch.object(connect.time, "sleep", lambda _: refused.set()):  # called only between two attempts
            connect.check_listening(f"127.0.0.1:{port}")
        assert refused.is_set()
    finally:
        refused.set()
        thread.join()
        listener.close()


def test_backends_can_be_cleared_and_come_back(run_script):
    done = run_script(
        "import jax, jax.numpy as jnp, jax.extend\nprint(float(jnp.ones(3).sum()))\njax.clear_caches()\njax.extend.backend.clear_backends()\n"
        "print(float(jnp.ones(5).sum()))\n")
    assert (done.returncode, done.stdout) == (0, "3.0\n5.0\n"), done.stderr


def test_a_start_waits_for_its_processes_alone(run_script):
    """A start never sleeps a whole second: the pauses between two checks of the started processes are much shorter."""
    done = run_script("""
import time
asked, sleep = [], time.sleep
time.sleep = lambda seconds: (asked.append(seconds), sleep(seconds))
import jax
jax.devices()
print(max(asked, default=0))
""", PATHWAYS_LOCAL="1x1x4")
    assert float(done.stdout) <= 0.1, done.stdout + done.stderr


def test_settings_of_jax_do_not_change_when_the_first_device_is_used(run_script):
    done = run_script("""
import jax
before = dict(jax.config.values)
jax.jit(lambda x: x + 1)(1.0)
assert jax.config.values == before, {k: (v, jax.config.values[k]) for k, v in before.items() if jax.config.values[k] != v}
assert jax.devices("cpu")[0].client is not jax.devices()[0].client
""")
    assert done.returncode == 0, done.stderr


def test_a_program_under_strict_warnings_ends_in_silence(run_script):
    """Under strict warnings, files, sockets and processes left open are errors."""
    done = run_script("""
import jax, jax.numpy as jnp
jax.jit(lambda x: jax.debug.callback(lambda a: None, x))(jnp.ones(3))
jax.effects_barrier()
print(int(jnp.ones(1 << 20).sum()))
""", PYTHONWARNINGS="error", PYTHONDEVMODE="1")
    assert done.returncode == 0 and done.stdout == f"{1 << 20}\n" and done.stderr == ""
