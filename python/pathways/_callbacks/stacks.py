"""The stacks of this process's Python threads, as text for people who look for the cause of a computation that hangs.

Each thread has a heading, which is not indented: its name, and the innermost line of the user's own program. Below it are its frames, the innermost
last. Threads that run code of this package and of Python's library alone are left out; the main thread is always there, and comes first.
"""

import os
import sys
import threading
import traceback

_MOST_FRAMES = 40  # of a thread, the innermost ones
_MOST_THREADS = 64
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = os.sep + "site-packages" + os.sep


def _is_machinery(frame):
    """Whether a frame is of this package, of Python's library or of Python itself (<frozen ...>)."""
    file = frame.filename
    return file.startswith((_PACKAGE, "<")) and not file.startswith("<stdin>") or (file.startswith(_LIBRARY) and _PACKAGES not in file)


def _is_users(frame):
    return not _is_machinery(frame) and _PACKAGES not in frame.filename


def _heading(name, frames):
    users = next((frame for frame in reversed(frames) if _is_users(frame)), None)
    if users is None:
        return f"{name}:"
    line = f": {users.line}" if users.line else ""
    return f"{name} at {users.filename}:{users.lineno} in {users.name}{line}"


def text(limit):
    """Returns the stacks, in at most `limit` bytes of UTF-8. The calling thread is left out."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main, own = threading.main_thread().ident, threading.get_ident()
    lines, told = [], 0
    for ident, top in sorted(sys._current_frames().items(), key=lambda item: (item[0] != main, item[0])):
        frames = list(traceback.extract_stack(top))[-_MOST_FRAMES:]
        if ident == own or told == _MOST_THREADS or (ident != main and all(map(_is_machinery, frames))):
            continue
        told += 1
        lines.append(_heading(names.get(ident, f"thread {ident}"), frames) + "\n")
        lines += ("  " + line.replace("\n", "\n  ").rstrip(" ") for line in traceback.format_list(frames))
    return "".join(lines).encode(errors="replace")[:limit].decode(errors="ignore")
