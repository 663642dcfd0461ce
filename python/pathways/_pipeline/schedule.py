"""Schedules of a pipeline's actions. Pure, no jax.

A place is the set of devices of one or more stages. A schedule has one list for each place: its actions in the order in which its devices run
them. The forward action of microbatch m in stage s needs the forward action of m in stage s - 1. Its backward action needs its own forward action
and the backward action of stage s + 1.
"""

from typing import NamedTuple

FORWARD, BACKWARD = "forward", "backward"


class Action(NamedTuple):
    kind: str
    stage: int
    microbatch: int


class Interval(NamedTuple):
    start: float
    end: float
    action: Action


def gpipe(stages, microbatches):
    """Runs all forward actions, then all backward actions. Every stage holds the activations of all microbatches."""
    return [[Action(kind, s, m) for kind in (FORWARD, BACKWARD) for m in range(microbatches)] for s in range(stages)]


def one_forward_one_backward(stages, microbatches):
    """Runs backward actions as early as possible: stage s holds the activations of at most `stages - s` microbatches."""
    schedule = []
    for s in range(stages):
        ahead = min(stages - s - 1, microbatches)
        actions = [Action(FORWARD, s, m) for m in range(ahead)]
        for m in range(microbatches - ahead):
            actions += [Action(FORWARD, s, m + ahead), Action(BACKWARD, s, m)]
        actions += [Action(BACKWARD, s, m) for m in range(microbatches - ahead, microbatches)]
        schedule.append(actions)
    return schedule


def interleaved(stages, microbatches, places):
    """Runs all forward, then all backward actions, over places that have several stages each: stage s is at place s % places. All microbatches go
    through one round of stages, then through the next. So a place idles only before its first microbatch and after its last. If there are
    more microbatches than places, a transfer to the next round may take as long as a place needs for the difference before a place waits."""
    rounds = stages // places
    forward = [(r, m) for r in range(rounds) for m in range(microbatches)]
    # The backward order mirrors the forward order: the last microbatch to leave the last stage is the first to return.
    return [[Action(FORWARD, r * places + p, m) for r, m in forward] + [Action(BACKWARD, r * places + p, m) for r, m in reversed(forward)]
            for p in range(places)]


SCHEDULES = {"gpipe": gpipe, "1f1b": one_forward_one_backward}
INTERLEAVED = "interleaved"


def make(name, places, microbatches):
    """Returns the schedule of that name. `places`: for each stage a key that is equal for stages at the same place."""
    apart = list(dict.fromkeys(places))
    if name != INTERLEAVED:
        return SCHEDULES[name](len(places), microbatches)
    if [apart[i % len(apart)] for i in range(len(places))] != list(places) or len(places) % len(apart):
        raise ValueError(f"the stages of an interleaved schedule must go through their {len(apart)} sets of devices in the same order in every round, not "
                         f"{[apart.index(place) for place in places]}")
    return interleaved(len(places), microbatches, len(apart))


def needs(action, stages):
    """Returns the actions that must end before this one starts."""
    kind, s, m = action
    if kind == FORWARD:
        return [Action(FORWARD, s - 1, m)] if s else []
    return [Action(FORWARD, s, m)] + ([Action(BACKWARD, s + 1, m)] if s + 1 < stages else [])


def timeline(schedule, forward=1.0, backward=2.0):
    """Returns the interval of each action, sorted by start. forward, backward: the duration of an action, a number or one for each stage."""
    stages = 1 + max(action.stage for actions in schedule for action in actions)
    takes = {kind: list(t) if hasattr(t, "__len__") else [t] * stages for kind, t in ((FORWARD, forward), (BACKWARD, backward))}
    ended, free, following = {}, [0.0] * len(schedule), [0] * len(schedule)
    intervals, remaining = [], sum(map(len, schedule))
    while remaining:
        before = remaining
        for p, actions in enumerate(schedule):
            while following[p] < len(actions):
                action = actions[following[p]]
                inputs = needs(action, stages)
                if not all(one in ended for one in inputs):
                    break
                start = max([free[p], *(ended[one] for one in inputs)])
                ended[action] = free[p] = start + takes[action.kind][action.stage]
                intervals.append(Interval(start, ended[action], action))
                following[p] += 1
                remaining -= 1
        if remaining == before:
            stuck = [actions[i] for actions, i in zip(schedule, following) if i < len(actions)]
            raise ValueError(f"the schedule is stuck, each of these actions waits for one that comes later: {stuck}")
    return sorted(intervals, key=lambda one: (one.start, one.action.stage))


def order(schedule):
    """Returns all actions in one order that respects every place's order and all dependencies."""
    return [interval.action for interval in timeline(schedule)]


def bubble(schedule, forward=1.0, backward=2.0):
    """Returns the fraction of time in which places are idle."""
    intervals = timeline(schedule, forward, backward)
    busy = sum(one.end - one.start for one in intervals)
    return 1 - busy / (len(schedule) * max(one.end for one in intervals))


def peak_live(schedule):
    """Returns, for each place, the most activations that it holds at once, counted in (stage, microbatch) pairs."""
    peaks = []
    for actions in schedule:
        live = peak = 0
        for action in actions:
            live += 1 if action.kind == FORWARD else -1
            peak = max(peak, live)
        peaks.append(peak)
    return peaks
