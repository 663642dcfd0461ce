"""The checks of `pathways doctor` that look at this machine: disks, shared memory, limits on open files, processes, ports.

Each function returns a list of findings. They read /proc and the file system, and change nothing.
"""

import os
import pathlib
import resource
import shutil
import socket

from pathways._commands.findings import ERROR, OK, WARNING, Finding
from pathways._commands.status_text import amount

MIB = 1 << 20
SHARED_MEMORY = pathlib.Path("/dev/shm")
# A host needs some files for each other host, each client and each array that it shares.
FEW_FILES = 4096
CONNECT_SECONDS = 2.0


def _existing(path):
    """Returns the path, or the nearest folder above it that exists: the file system on which it would be made."""
    path = pathlib.Path(path)
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def space(check, what, path, little, remedy):
    """Checks the free space at `path`. Error: less than a tenth of `little` bytes. Warning: less than `little`, or than 3 % of the disk."""
    try:
        usage = shutil.disk_usage(_existing(path))
    except OSError as error:
        return [Finding(ERROR, check, str(path), f"{what} cannot be looked at: {error.strerror}", "make it readable for this user")]
    text = f"{what}: {amount(usage.free)} of {amount(usage.total)} free"
    if usage.free < little / 10:
        return [Finding(ERROR, check, str(path), text, remedy)]
    if usage.free < little or usage.free < usage.total * 0.03:
        return [Finding(WARNING, check, str(path), text, remedy)]
    return [Finding(OK, check, str(path), text)]


def shared_memory():
    return space("shared memory", "memory for arrays on their way between processes", SHARED_MEMORY, 256 * MIB,
                 "end programs that hold large arrays, remove files that nobody uses from it, or make it larger: mount -o remount,size=... /dev/shm")


def folders(home, cache):
    found = space("disk", "logs and records of clusters", home, 200 * MIB, "free some space, or choose another folder by PATHWAYS_HOME")
    if cache is not None:
        found += space("disk", "compiled programs", cache, 1024 * MIB, "free some space, or choose another folder by PATHWAYS_COMPILE_CACHE")
    return found


def compile_cache(cache, limit):
    """Checks the folder of compiled programs. `cache` None: it is switched off."""
    if cache is None:
        return [Finding(OK, "compile cache", "this machine", "switched off: PATHWAYS_COMPILE_CACHE=off")]
    if not cache.exists():
        return [Finding(OK, "compile cache", str(cache), "empty: nothing has been compiled yet")]
    if not os.access(cache, os.W_OK | os.X_OK):
        return [Finding(WARNING, "compile cache", str(cache), "this user may not write there, so programs are compiled anew in every run",
                        "give the folder to this user, or choose another one by PATHWAYS_COMPILE_CACHE")]
    used = sum(entry.stat().st_size for entry in cache.rglob("*") if entry.is_file())
    text = f"{amount(used)} of at most {amount(limit)}"
    if used > 0.95 * limit:
        return [Finding(WARNING, "compile cache", str(cache), f"full ({text}): programs that were not used for long are deleted, and compiled again",
                        "delete the folder's contents if most of it is of old programs; a worker's --compile-cache-bytes sets the limit")]
    return [Finding(OK, "compile cache", str(cache), text)]


def _file_limit(what, soft, hard, used=None):
    """Checks a limit on open files. `used`: files that are open now; None: unknown."""
    ample = max(soft, hard) if used is None else soft  # our processes raise their own limit to the hard one
    text = f"{what} may open {ample} files" + ("" if used is None else f", and has {used} open")
    remedy = "raise the limit before it is started: ulimit -n 65536, LimitNOFILE= of its service, or /etc/security/limits.conf"
    if used is not None and used > 0.9 * ample:
        return Finding(ERROR, "open files", what, text, remedy)
    if ample < FEW_FILES or (used is not None and used > 0.7 * ample):
        return Finding(WARNING, "open files", what, text, remedy)
    return Finding(OK, "open files", what, text)


def own_file_limit():
    soft, hard = (limit if limit != resource.RLIM_INFINITY else 1 << 62 for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    return [_file_limit("a process started here", soft, hard)]


def process_files(name, pid):
    """Checks the open files of one of our processes on this machine."""
    try:
        line = next(line for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max open files"))
        soft, hard = (1 << 62 if word == "unlimited" else int(word) for word in line.split()[3:5])
        used = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, StopIteration):
        return []  # it has ended, or belongs to another user
    return [_file_limit(f"{name} (pid {pid})", soft, hard, used)]


def state(pid):
    """Returns the state letter of a process of this machine ("T": stopped), or None if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def is_worker_here(pid, host):
    """Whether the process `pid` of this machine is the worker of this host: another machine's process may have the same number."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "pathways-worker" in os.path.basename(words[0]) and any(one == "--host-name" and other == host for one, other in zip(words, words[1:]))


def stopped(name, pid):
    """Reports a process that is stopped (by SIGSTOP, a debugger, a frozen container)."""
    if state(pid) not in ("T", "t"):
        return []
    return [Finding(ERROR, "processes", f"{name} (pid {pid})", "is stopped: it answers nobody, and what needs it waits",
                    f"let it go on: kill -CONT {pid}, or detach the debugger")]


def port(what, address, remedy):
    """Checks that a TCP address accepts a connection; skips Unix sockets."""
    address = address.removeprefix("tcp:")
    if not address or address.startswith("unix:"):
        return []
    host, _, number = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]") or "127.0.0.1", int(number)), CONNECT_SECONDS):
            return [Finding(OK, "ports", address, f"{what} takes connections")]
    except (OSError, ValueError) as error:
        return [Finding(ERROR, "ports", address, f"{what} takes no connection from here: {error}", remedy)]
