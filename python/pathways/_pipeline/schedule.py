"""Who does what when in a pipeline: pure lists of actions, no jax.

A schedule has one list for each stage: the actions of that stage in the order in which its devices run them. The forward action of
microbatch m in stage s needs the one of stage s - 1; its backward action needs its own forward action and the backward action of
stage s + 1.
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
    """All forward, then all backward. Every stage holds the activations of all microbatches."""
    return [[Action(kind, s, m) for kind in (FORWARD, BACKWARD) for m in range(microbatches)] for s in range(stages)]


def one_forward_one_backward(stages, microbatches):
    """Backward as soon as possible: stage s holds the activations of at most `stages - s` microbatches."""
    schedule = []
    for s in range(stages):
        ahead = min(stages - s - 1, microbatches)
        actions = [Action(FORWARD, s, m) for m in range(ahead)]
        for m in range(microbatches - ahead):
            actions += [Action(FORWARD, s, m + ahead), Action(BACKWARD, s, m)]
        actions += [Action(BACKWARD, s, m) for m in range(microbatches - ahead, microbatches)]
        schedule.append(actions)
    return schedule


SCHEDULES = {"gpipe": gpipe, "1f1b": one_forward_one_backward}


def needs(action, stages):
    """The actions that must have ended before this one."""
    kind, s, m = action
    if kind == FORWARD:
        return [Action(FORWARD, s - 1, m)] if s else []
    return [Action(FORWARD, s, m)] + ([Action(BACKWARD, s + 1, m)] if s + 1 < stages else [])


def timeline(schedule, forward=1.0, backward=2.0):
    """When each action runs if an action takes that long (a number, or one for each stage), sorted by start."""
    stages = len(schedule)
    takes = {kind: list(t) if hasattr(t, "__len__") else [t] * stages for kind, t in ((FORWARD, forward), (BACKWARD, backward))}
    ended, free, following = {}, [0.0] * stages, [0] * stages
    intervals, remaining = [], sum(map(len, schedule))
    while remaining:
        before = remaining
        for s, actions in enumerate(schedule):
            while following[s] < len(actions):
                action = actions[following[s]]
                inputs = needs(action, stages)
                if not all(one in ended for one in inputs):
                    break
                start = max([free[s], *(ended[one] for one in inputs)])
                ended[action] = free[s] = start + takes[action.kind][s]
                intervals.append(Interval(start, ended[action], action))
                following[s] += 1
                remaining -= 1
        if remaining == before:
            stuck = [actions[i] for actions, i in zip(schedule, following) if i < len(actions)]
            raise ValueError(f"a schedule in which nothing can go on: {stuck}")
    return sorted(intervals, key=lambda one: (one.start, one.action.stage))


def order(schedule):
    """All actions in one order that agrees with that of every stage and with what they need."""
    return [interval.action for interval in timeline(schedule)]


def bubble(schedule, forward=1.0, backward=2.0):
    """The share of the stages' time in which they have nothing to do."""
    intervals = timeline(schedule, forward, backward)
    busy = sum(one.end - one.start for one in intervals)
    return 1 - busy / (len(schedule) * max(one.end for one in intervals))


def peak_live(schedule):
    """For each stage: how many microbatches' activations it holds at most."""
    peaks = []
    for actions in schedule:
        live = peak = 0
        for action in actions:
            live += 1 if action.kind == FORWARD else -1
            peak = max(peak, live)
        peaks.append(peak)
    return peaks
