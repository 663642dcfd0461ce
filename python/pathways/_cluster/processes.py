"""Starts child processes that end with this one, and reports why a child ended early.

One thread, which lives as long as this process, starts all children. Linux ties "end with the parent" to the thread that forked, and
the first jax call of a program may come from a short-lived thread. Children get their own process session, so that Ctrl-C reaches
only the user's program.
"""

import concurrent.futures
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

TAIL_LINES = 15


class StartError(RuntimeError):
    """A child process did not start; the text has the end of its log."""


class _Spawner:
    """Starts processes on one long-lived thread. Each process has its own spawner; a forked child makes a new one."""

    def __init__(self):
        self.pid = os.getpid()
        self._requests = queue.SimpleQueue()
        threading.Thread(target=self._run, name="pathways-spawner", daemon=True).start()

    def _run(self):
        while True:
            future, args, kwargs = self._requests.get()
            try:
                future.set_result(subprocess.Popen(args, **kwargs))
            except BaseException as error:  # raised in the caller
                future.set_exception(error)

    def start(self, args, **kwargs):
        future = concurrent.futures.Future()
        self._requests.put((future, args, kwargs))
        return future.result()


_spawner = None
_spawner_lock = threading.Lock()


def _get_spawner():
    global _spawner
    with _spawner_lock:
        if _spawner is None or _spawner.pid != os.getpid():
            _spawner = _Spawner()
        return _spawner


def ends_with_this_one():
    """Returns the flag of our programs that ends them with the process that starts them, this one."""
    return f"--exit-with-parent={os.getpid()}"


ENDS_THE_CLUSTER = signal.SIGINT  # to a controller; SIGTERM stops it for now, and programs wait for another one


class Process:
    """One child process and its log. `stop_signal`: tells it to end."""

    def __init__(self, name, args, log, env=None, pass_fds=(), stop_signal=signal.SIGTERM):
        self.name = name
        self.stop_signal = stop_signal
        self.log = pathlib.Path(log)
        self.args = [str(a) for a in args]
        with open(self.log, "ab") as output:
            self.popen = _get_spawner().start(
                self.args, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=env, pass_fds=pass_fds)

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def failure(self):
        """Describes how the process ended, with its command line and the end of its log."""
        code = self.popen.poll()
        how = "is still running" if code is None else f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        return f"{self.name} (pid {self.pid}) {how}.\n  command: {' '.join(self.args)}\n  log: {self.log}\n{tail(self.log)}"

    def stop(self, grace=2.0):
        stop_all([self], grace)

    def leave(self):
        """Leaves the child to end by itself, at the end of this process, which the child watches. Prevents Popen's warning about a running child."""
        if self.alive():
            self.popen.returncode = 0


def stop_all(processes, grace=2.0):
    """Sends SIGTERM to all, or each one's own signal, then SIGKILL to those that have not ended within `grace` seconds."""
    for process in processes:
        if process.alive():
            process.popen.send_signal(process.stop_signal)
    deadline = time.monotonic() + grace
    for process in processes:
        try:
            process.popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.popen.kill()
            process.popen.wait()


def tail(path, lines=TAIL_LINES):
    """Returns the last lines of a log, indented."""
    try:
        text = pathlib.Path(path).read_text(errors="replace").splitlines()
    except OSError as error:
        return f"  | (no log: {error})"
    return "\n".join("  | " + line for line in text[-lines:]) or "  | (the log is empty)"


def wait_for(condition, processes, seconds, what):
    """Waits until condition() is not None and returns its value. Raises StartError if a process ends first or time runs out."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while True:
        result = condition()
        if result is not None:
            return result
        for process in processes:
            if not process.alive():
                raise StartError(f"{what}: {process.failure()}")
        if time.monotonic() > deadline:
            raise StartError(f"{what}: not ready after {seconds:.0f} s.\n" + "\n".join(p.failure() for p in processes))
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def read_port_file(path):
    """Returns the first address in a port file, or None while the file is missing (the writer renames it into place)."""
    try:
        text = pathlib.Path(path).read_text().strip()
    except OSError:
        return None
    return text.splitlines()[0] if text else None
