"""What pw.route returns, by its definition: for the tests of programs (tests/e2e) and of compiled functions (python/tests)."""

import numpy as np


def reference(x, where, experts, capacity):
    """Returns rows, slots, counts and the rows that come back."""
    rows, back = np.zeros((experts, capacity, *x.shape[1:]), x.dtype), np.zeros_like(x)
    slots, count = np.full((experts, capacity), -1, np.int32), np.zeros(experts, np.int32)
    for i, expert in enumerate(where):
        if not 0 <= expert < experts:
            continue
        if count[expert] < capacity:
            rows[expert, count[expert]] = back[i] = x[i]
            slots[expert, count[expert]] = i
        count[expert] += 1
    return rows, slots, count, back
