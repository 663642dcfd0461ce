"""Tests run folders, which hold the sockets and logs of a run's processes: folders of killed processes are removed later."""

import os
import subprocess
import sys
import time

import pytest

from pathways._cluster import run_folders

MAKE = "from pathways._cluster import run_folders; import sys; print(run_folders.new_run_folder(), flush=True); sys.stdin.read()"


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Returns a function that starts a process with a run folder; it returns (the process, the folder)."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    started = []

    def make():
        process = subprocess.Popen([sys.executable, "-c", MAKE], env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process, run_folders.pathlib.Path(process.stdout.readline().strip())

    yield make
    for process in started:
        process.kill()
        process.wait()


def age(folder):
    long_ago = time.time() - 2 * run_folders.KEPT_SECONDS
    for path in (*folder.iterdir(), folder):
        os.utime(path, (long_ago, long_ago))


def test_folders_of_processes_that_were_killed_go_at_the_next_start_and_no_others(make):
    killed, lost = make()
    fresh_killed, kept = make()
    alive, used = make()
    for process in (killed, fresh_killed):
        process.kill()
        process.wait()
    (kept / "controller.log").write_text("why it failed")
    for folder in (lost, used):
        age(folder)
    mine = run_folders.new_run_folder()
    assert not lost.exists(), "nobody has it any more"
    assert used.exists(), "its process lives"
    assert (kept / "controller.log").exists(), "somebody may want to read it"
    assert mine.is_dir() and mine.name.startswith(f"run-{os.getpid()}-")
