"""Folders for sockets and logs, one for each run of a local cluster, below the machine's folder for temporary files."""

import fcntl
import os
import pathlib
import shutil
import tempfile
import time


def _runs():
    return pathlib.Path(tempfile.gettempdir()) / f"pathways-{os.getuid()}"


KEPT_SECONDS = 600  # after the last write to its logs
_held = []  # lock descriptors of this process's run folders; never closed, so the locks last until the process ends


def new_run_folder():
    """Makes a private folder for sockets and logs, and removes old folders of processes that have ended, KEPT_SECONDS after their last log line.
    A folder whose lock is free has no process; this test also works across containers, where process ids are invisible."""
    runs = _runs()
    runs.mkdir(mode=0o700, exist_ok=True)
    if runs.stat().st_uid != os.getuid():
        raise PermissionError(f"{runs} belongs to another user; set TMPDIR to a folder of your own")
    for old in [*runs.glob("run-*"), *runs.glob(".run-*")]:
        if _abandoned(old):
            shutil.rmtree(old, ignore_errors=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f".run-{os.getpid()}-", dir=runs))
    _held.append(os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    fcntl.flock(_held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder.rename(runs / folder.name[1:])  # other processes test the lock of folders with such names only


def _abandoned(folder):
    try:
        if not folder.name.startswith("."):
            with open(folder / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return time.time() - max(path.stat().st_mtime for path in folder.iterdir()) > KEPT_SECONDS
    except FileNotFoundError:
        pass  # its process was killed while making it, or belongs to a version without locks
    except OSError:
        return False  # locked: its process lives
    try:
        return time.time() - folder.stat().st_mtime > 86400
    except OSError:
        return False
