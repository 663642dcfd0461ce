"""Cuts a sequence of units (layers, equations) into stages. Pure, no jax.

The cost of the most expensive stage matters most, since all others wait for it. Among cuts that are nearly as good, the one that sends the fewest
bytes between stages wins. So a cut does not fall into the middle of a block, where three arrays are live instead of one.
"""

import bisect
import collections
import itertools
import math


def split(costs, stages, crossing=None, slack=0.1):
    """Returns the first unit of each stage: [0, ...]. crossing[i]: the bytes that a cut before unit i sends. No stage costs more than 1 + slack
    times the least possible cost of the most expensive stage."""
    if stages < 1:
        raise ValueError(f"a pipeline has at least one stage, not {stages}")
    if len(costs) < stages:
        raise ValueError(f"{len(costs)} layers cannot fill {stages} stages: use fewer stages")
    crossing = crossing or [0] * len(costs)
    sums = [0.0, *itertools.accumulate(map(float, costs))]
    limit = _least(sums, stages) * (1 + slack) * (1 + 1e-9)
    return _cheapest(sums, stages, crossing, limit)


def _least(sums, stages):
    """Returns the least possible cost of the most expensive of `stages` stages, within 0.1 %."""
    low, high = max(sums[-1] / stages, max(b - a for a, b in zip(sums, sums[1:]))), sums[-1]
    while high - low > 1e-3 * low + 1e-12 * high:
        middle = (low + high) / 2
        if _fits(sums, stages, middle):
            high = middle
        else:
            low = middle
    return high


def _fits(sums, stages, limit):
    at = 0
    for _ in range(stages):
        at = bisect.bisect_right(sums, sums[at] + limit * (1 + 1e-12)) - 1
        if at >= len(sums) - 1:
            return True
    return False


def _cheapest(sums, stages, crossing, limit):
    """Returns the cuts that send the fewest bytes with no stage above the limit. It goes from stage to stage with a sliding window. After a stage,
    `best[j]` is the fewest bytes for the first j units."""
    units = len(sums) - 1
    best = [0.0] + [math.inf] * units
    came = []
    for _ in range(stages):
        following, back, window, i = [math.inf] * (units + 1), [-1] * (units + 1), collections.deque(), 0
        for j in range(1, units + 1):
            while i < j:
                value = best[i] + (crossing[i] if i else 0)
                while window and window[-1][0] > value:
                    window.pop()
                window.append((value, i))
                i += 1
            while window and sums[j] - sums[window[0][1]] > limit:
                window.popleft()
            if window and window[0][0] < math.inf:
                following[j], back[j] = window[0]
        best = following
        came.append(back)
    starts, j = [], units
    for back in reversed(came):
        j = back[j]
        starts.append(j)
    return starts[::-1]
