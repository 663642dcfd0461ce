"""How late the kernel may wake threads that sleep for a time.

jaxlib's client has a thread that sends deletions in batches, and looks for some every 100 us for as long as the process lives: a process that does
nothing wakes 4,000 times a second and more, and sixteen of them on two processors take half of both. A thread inherits how punctually it is woken from
the one that starts it. So the client's are started by one that is in no hurry: arrays are deleted a millisecond later, and what else there goes by the
clock, gRPC's deadlines, is a matter of seconds.
"""

import contextlib
import ctypes
import sys

NANOSECONDS = 1_000_000
_SET, _GET = 29, 30  # PR_SET_TIMERSLACK, PR_GET_TIMERSLACK


@contextlib.contextmanager
def unhurried():
    """Threads started in here by this thread may be woken so much late. Where the system knows no such thing, nothing happens."""
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
