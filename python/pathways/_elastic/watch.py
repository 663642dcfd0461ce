"""Detects replicas that are back: a thread repeatedly sends a small array to each device of the missing replicas."""

import threading

import jax
import numpy as np


class Watch:
    def __init__(self, replicas, seconds):
        self._replicas, self._seconds = replicas, seconds
        self._lock, self._wake = threading.Condition(), threading.Event()
        self._missing, self._back, self._thread = set(), set(), None

    def expect(self, missing):
        """Sets the replicas that are missing."""
        with self._lock:
            self._missing = set(missing)
            self._back &= self._missing
            if not self._missing or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="pw-elastic", daemon=True)
            self._thread.start()

    def back(self):
        """Returns the missing replicas whose devices work again."""
        with self._lock:
            return sorted(self._back)

    def look_again(self, replica):
        """Checks again a replica that was back: it may be lost again."""
        with self._lock:
            self._back.discard(replica)

    def wait(self, seconds):
        """Waits until a missing replica is back. Returns False if none is after `seconds` (None: no limit)."""
        with self._lock:
            return self._lock.wait_for(lambda: self._back, seconds)

    def close(self):
        self.expect(())
        self._wake.set()

    def _run(self):
        while True:
            with self._lock:
                asked = sorted(self._missing - self._back)
                if not self._missing:
                    self._thread = None
                    return
            for replica in asked:
                if not self._works(replica):
                    continue
                with self._lock:
                    self._back |= {replica} & self._missing
                    self._lock.notify_all()
            self._wake.wait(self._seconds)

    def _works(self, replica):
        try:
            jax.block_until_ready([jax.device_put(np.float32(0), device) for device in self._replicas.devices(replica)])
        except jax.errors.JaxRuntimeError:
            return False
        return True
