"""Files in memory by which results go to the worker. The worker maps them. Those that it does not map any more are written again: their pages exist
already, and making pages takes longer than filling them.

A lock tells whether the worker still maps a file (pathways/net/shared/shared_memory.h, "leased"). The descriptor that is sent has a shared lock. The worker
opens the file, takes a lock of its own, which it keeps while it maps the file, and closes the descriptor. So no moment is without a lock.
"""

import contextlib
import fcntl
import os
import threading

_SEAL = 1033, 0x2  # F_ADD_SEALS, F_SEAL_SHRINK: the worker must not lose pages that it maps


class LentFiles:
    MOST_BYTES = 512 << 20  # of files that are kept

    def __init__(self):
        self._lock = threading.Lock()
        self._kept = []  # (file, size), the one used longest ago first

    @contextlib.contextmanager
    def borrow(self, size):
        """Yields (a file of at least this size to write to, a function that returns a descriptor of it to send). Afterwards the file is kept."""
        file, size = self._take(size)
        lent = []
        try:
            yield file, lambda: self._lend(file, lent)
        except BaseException:
            os.close(file)
            raise
        else:
            self._keep(file, size)
        finally:
            for descriptor in lent:
                os.close(descriptor)

    def trim(self):
        """Closes all files. Those that the worker maps stay as they are."""
        with self._lock:
            kept, self._kept = self._kept, []
        for file, _ in kept:
            os.close(file)

    def _take(self, size):
        with self._lock:
            for at, (file, has) in enumerate(self._kept):
                if size <= has <= 2 * size and _is_free(file):
                    del self._kept[at]
                    return file, has
        file = os.memfd_create("pathways-results", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, size)
        fcntl.fcntl(file, *_SEAL)
        return file, size

    def _lend(self, file, lent):
        lent.append(os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC))
        fcntl.flock(lent[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        return lent[-1]

    def _keep(self, file, size):
        with self._lock:
            self._kept.append((file, size))
            total, closed = sum(has for _, has in self._kept), []
            while total > self.MOST_BYTES:
                closed.append(self._kept.pop(0))
                total -= closed[-1][1]
        for old, _ in closed:
            os.close(old)


def _is_free(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True
