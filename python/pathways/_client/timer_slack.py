"""Raises the kernel's timer slack of the client library's threads: the time by which the kernel may delay a timed wake-up.

jaxlib's client has a thread that sends deletions in batches. It looks for them every 100 us for as long as the process lives. So an idle process
wakes at least 4,000 times a second, and sixteen such processes take half of two processors. A thread inherits its timer slack from its parent
thread. So the client's threads are started by a thread with a slack of 1 ms. Arrays are then deleted up to a millisecond later; the client's other
timers are gRPC's deadlines of seconds.
"""

import contextlib
import ctypes
import sys

NANOSECONDS = 1_000_000
_SET, _GET = 29, 30  # PR_SET_TIMERSLACK, PR_GET_TIMERSLACK


@contextlib.contextmanager
def unhurried():
    """Gives threads that this thread starts within the block a timer slack of NANOSECONDS. Does nothing on systems without timer slack."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    before = prctl(_GET, 0, 0, 0, 0) if prctl is not None else -1
    if before < 0:
        yield
        return
    prctl(_SET, ctypes.c_ulong(NANOSECONDS), 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SET, ctypes.c_ulong(before), 0, 0, 0)
