"""Counts the processor time of every side's processes while the sides take turns. One result is the time of each call in the turns that give the rates,
another that of each side in the turns of the others."""

import contextlib
import dataclasses
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import _sides  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn. side: whose it was; what: what was asked; used: {side: {part: processor seconds}}, of all sides."""

    side: str
    what: str
    calls: int
    seconds: float
    used: dict


class Meter:
    """Watches the sides of a comparison. parts: {side: a function that returns {part: [process ids]}}. awake: {side: a function that returns a context in which
    it is awake}, for sides that sleep between their turns."""

    def __init__(self, parts, awake=None):
        self._parts, self._awake, self.turns = parts, awake or {}, []

    def turn(self, side, what, calls, ask):
        """Returns what `ask` returns, and keeps the processor time meanwhile. A turn that failed is not kept."""
        with self._awake.get(side, contextlib.nullcontext)():
            before, begin = self._read({name: parts() for name, parts in self._parts.items()}), time.monotonic()
            answer = ask(calls)
            seconds, after = time.monotonic() - begin, self._read(before)
        if "error" not in answer:
            self.turns.append(Turn(side, what, calls, seconds, difference(before, after)))
        return answer

    def _read(self, sides):
        return {name: {part: {pid: _used(pid) for pid in pids} for part, pids in parts.items()} for name, parts in sides.items()}


def _used(pid):
    try:
        return _sides.processor_seconds(pid)
    except OSError:  # it has ended
        return None


def difference(before, after):
    """Returns {side: {part: processor seconds}} between two readings. What a process that ended used is not known, and counts as nothing."""
    between = lambda first, last: sum(last[pid] - used for pid, used in first.items() if used is not None and last[pid] is not None)
    return {name: {part: between(first, after[name][part]) for part, first in parts.items()} for name, parts in before.items()}


def per_call_us(turns, side, what):
    """Returns {part: processor us for a call} of a side, over its turns with these calls; {} if it had none. A turn in which it was started does not count."""
    mine = [turn for turn in turns if (turn.side, turn.what) == (side, what) and turn.used[side]]
    calls = sum(turn.calls for turn in mine)
    return {part: sum(turn.used[side][part] for turn in mine) / calls * 1e6 for part in mine[0].used[side]} if mine else {}


def in_use(turns):
    """Returns {side: {"own": processors that its processes used on average in its own turns, "others": in those of the others}}; None where there were none."""
    sides = dict.fromkeys(name for turn in turns for name in turn.used)
    mean = lambda name, some: sum(sum(turn.used[name].values()) for turn in some) / sum(turn.seconds for turn in some) if some else None
    return {name: {"own": mean(name, [turn for turn in turns if turn.side == name]), "others": mean(name, [turn for turn in turns if turn.side != name])}
            for name in sides}
