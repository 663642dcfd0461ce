import os
import signal
import subprocess
import sys
import threading

import pytest

from pathways._cluster import processes


def test_the_text_of_an_early_end_has_command_status_and_log(tmp_path):
    process = processes.Process("helper", [sys.executable, "-c", "print('what went wrong'); raise SystemExit(3)"], tmp_path / "log")
    with pytest.raises(processes.StartError) as error:
        processes.wait_for(lambda: None, [process], 20, "the helper did not start")
    for part in ["the helper did not start", "ended with status 3", "what went wrong", str(tmp_path / "log"), sys.executable]:
        assert part in str(error.value)


def test_a_limit_on_waiting_names_the_log_of_what_hangs(tmp_path):
    process = processes.Process("helper", ["sleep", "60"], tmp_path / "log")
    with pytest.raises(processes.StartError, match="not ready after"):
        processes.wait_for(lambda: None, [process], 0.05, "waiting")
    process.stop()
    assert not process.alive()


def test_what_ignores_the_request_to_end_is_killed(tmp_path):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    process = processes.Process("stubborn", [sys.executable, "-c", code], tmp_path / "log")
    processes.wait_for(lambda: "on" in (tmp_path / "log").read_text() or None, [process], 20, "start")
    process.stop(grace=0.1)
    assert process.popen.returncode == -signal.SIGKILL


def test_children_started_from_a_thread_that_ends_live_on(tmp_path):
    """Linux sends the parent-death signal when the thread that forked ends, before the thread disappears from /proc. So the child gets it before the
    signal that the test sends then."""
    code = """
import signal
both = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
print("listening", flush=True)
raise SystemExit({signal.SIGUSR1: "the parent is dead", signal.SIGUSR2: 0}[signal.sigwait(both)])
"""
    started = []
    program = ["setpriv", "--pdeathsig", "USR1", sys.executable, "-c", code]
    thread = threading.Thread(target=lambda: started.append(processes.Process("child", program, tmp_path / "log")))
    thread.start()
    number = thread.native_id
    thread.join()
    (child,) = started
    processes.wait_for(lambda: "listening" in (tmp_path / "log").read_text() or None, [child], 240, "start")
    while os.path.exists(f"/proc/self/task/{number}"):
        os.sched_yield()
    child.popen.send_signal(signal.SIGUSR2)
    assert child.popen.wait() == 0, child.failure()


def test_children_are_out_of_reach_of_the_terminal_s_interrupt(tmp_path):
    process = processes.Process("child", ["sleep", "60"], tmp_path / "log")
    assert os.getpgid(process.pid) != os.getpgid(0)
    process.stop()


def test_a_forked_child_can_start_processes_of_its_own(tmp_path):
    code = (
        "import os, sys\nfrom pathways._cluster import processes\n"
        "processes.Process('one', ['true'], sys.argv[1] + '/a').popen.wait()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "  os._exit(processes.Process('two', ['true'], sys.argv[1] + '/b').popen.wait())\n"
        "raise SystemExit(os.waitpid(pid, 0)[1])\n")
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60).returncode == 0


def test_a_process_ends_by_its_own_signal(tmp_path):
    code = "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: exit(7))\nprint('on', flush=True)\ntime.sleep(60)"
    child = processes.Process("child", [sys.executable, "-c", code], tmp_path / "log", stop_signal=processes.ENDS_THE_CLUSTER)
    processes.wait_for(lambda: True if "on" in child.log.read_text() else None, [child], 60, "it")
    child.stop(grace=60)
    assert child.popen.returncode == 7
