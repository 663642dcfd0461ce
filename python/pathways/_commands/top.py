"""`pathways top`: shows the load of a cluster, and refreshes it until q or Ctrl-C (docs/operators.md)."""

import json
import os
import select
import shutil
import sys
import termios
import time
import tty

from pathways._cluster import admin, records
from pathways._commands import load_view, screen

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # to the alternate screen, without a cursor; back to the normal one
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"


class _Terminal:
    """The screen and the keyboard; restores both at the end."""

    def __enter__(self):
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before = termios.tcgetattr(self._input) if self._input is not None else None
        if self._input is not None:
            tty.setcbreak(self._input)
        sys.stdout.write(_ENTER)
        return self

    def __exit__(self, *_):
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        if self._input is not None:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    def show(self, lines):
        sys.stdout.write(_HOME + "".join(line + _CLEAR_LINE + "\r\n" for line in lines[:-1]) + lines[-1] + _CLEAR_LINE + _CLEAR_REST)
        sys.stdout.flush()

    def wants_to_leave(self, seconds):
        """Waits for `seconds`. Returns True as soon as q is pressed or the input ends, else False."""
        if self._input is None:
            time.sleep(seconds)
            return False
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._input], [], [], left)[0] and os.read(self._input, 1) in (b"q", b"Q", b""):
                return True
        return False


def _size():
    size = shutil.get_terminal_size((120, 40))
    return max(20, size.columns), max(5, size.lines)


def _once(args, address):
    before = admin.status(address)
    time.sleep(args.interval)
    view = load_view.compare(admin.status(address), before)
    if args.json:
        print(json.dumps(view.fields(), indent=2))
    else:
        print("\n".join(screen.draw(view, address, width=200, height=10_000)))
    return 0


def top(args):
    address = records.address_of(args)
    if not 0.1 <= args.interval <= 3600:
        raise ValueError(f"--interval wants 0.1 to 3600 seconds, not {args.interval:g}")
    if args.once or args.json or not sys.stdout.isatty():
        return _once(args, address)
    before = admin.status(address)
    with _Terminal() as terminal:
        terminal.show(screen.draw(load_view.compare(before, before), address, *_size(), colors=True))
        while not terminal.wants_to_leave(args.interval):
            try:
                now = admin.status(address)
            except admin.StatusError as error:
                terminal.show([f"{screen.RED}{str(error).splitlines()[0][:_size()[0]]}{screen.PLAIN}", "asking again; q ends this"])
                continue
            terminal.show(screen.draw(load_view.compare(now, before), address, *_size(), colors=True))
            before = now
    return 0
