"""Sides of a comparison that may fail without ending the measurement of the others."""

import contextlib
import re
import signal
import sys
import time

import _sides

CATCH_UP_SECONDS = 0.2  # after a pause, for the work of Ray's daemons that has piled up


class Guarded:
    """A system that is asked only until it fails. Once a kind of computation, or a model, has failed or got stuck, that error is the answer for this kind. For
    other kinds the system is started again."""

    def __init__(self, stack, open_side):
        self.error, self.failed, self.side = None, {}, None
        self._open_side, self._opened = open_side, stack.enter_context(contextlib.ExitStack())
        self._open()

    def _open(self):
        try:
            self.side = self._opened.enter_context(self._open_side())
        except (RuntimeError, OSError) as error:
            self.error = self._gave_up(error)

    def _gave_up(self, error):
        print(f"paper: {error}", file=sys.stderr, flush=True)
        self._opened.close()
        self.side = None
        first, *more = [line for line in str(error).splitlines() if line.strip()]
        if killed := re.search(r"ended with status -(\d+)", first):  # its last words came before
            return f"{first[:killed.start()]}ended by {signal.Signals(int(killed[1])).name}"
        return f"{first} {more[-1]}" if more else first  # the last of the last words is the reason

    def awake(self):
        """Returns a context in which it answers without delay."""
        return contextlib.nullcontext()

    def attempt(self, kind, work):
        """Returns what `work` returns, a function of the side, or {"error": why there is nothing of this kind}."""
        if self.side is None and self.error is None and kind not in self.failed:
            self._open()
        if self.error is not None or kind in self.failed:
            return {"error": self.error or self.failed[kind]}
        try:
            return work(self.side)
        except (RuntimeError, OSError) as error:
            self.failed[kind] = self._gave_up(error)
            return {"error": self.failed[kind]}

    def ask(self, do, **arguments):
        return self.attempt(arguments.get("kind") or arguments.get("model"), lambda side: side.ask(do, **arguments))


class Paused(Guarded):
    """A system whose processes work even when nothing is asked of them, as Ray's daemons do. They are stopped while others have their turns. One Side."""

    def __init__(self, stack, open_side):
        self._is_awake = False
        super().__init__(stack, open_side)

    def _open(self):
        super()._open()
        if self.side is not None:
            self._opened.callback(_sides.resume, self.side.process.pid)  # so that it can end, also after an error
            if not self._is_awake:
                _sides.pause(self.side.process.pid)

    @contextlib.contextmanager
    def awake(self):
        if self._is_awake:
            yield
            return
        self._is_awake = True
        if self.side is not None:
            _sides.resume(self.side.process.pid)
            time.sleep(CATCH_UP_SECONDS)
        try:
            yield
        finally:
            self._is_awake = False
            if self.side is not None:
                _sides.pause(self.side.process.pid)

    def ask(self, do, **arguments):
        with self.awake():
            return super().ask(do, **arguments)
