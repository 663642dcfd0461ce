"""The other end of _sides.Side: a process that is asked by JSON lines on standard input, and answers by a line each on standard output."""

import collections
import json
import os
import sys
import time


def channel():
    """Standard output, for answers alone: what libraries print goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve_and_exit(side, out, greeting, keep_errors=False, end=lambda: None):
    """Says that it is ready, then does what it is asked, a method of `side` a line, until nobody is there any more. keep_errors: what a method raises is
    its answer, and part of the figure; else it ends the process. end: what is to be done before it exits."""
    print(json.dumps(greeting), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            result = getattr(side, request.pop("do"))(**request)
        except Exception as error:
            if not keep_errors:
                raise
            result = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        print(json.dumps(result), file=out, flush=True)
    end()
    os._exit(0)  # without the client's farewell on standard error


# Calls under way, of every side of every comparison. Deeper queues of collectives can stop stock jax's own CPU runtime for good (it has room for 32).
DEPTH = 16


def timed_calls(function, value, calls, depth, wait, finish=None):
    """{per_s, calling_us, waiting_us} of calls value = function(value), the last two of each call at the caller, with `depth` of them under way: once there
    are so many the older half is waited for, and the others go on. A queue that is emptied each time would tell how long an answer takes, and not how
    many calls there can be. All is done when this returns: the last value is waited for by `finish`, which is `wait` where that says enough."""
    pending, waited, begin = collections.deque(), 0.0, time.perf_counter()
    for _ in range(calls):
        value = function(value)
        pending.append(value)
        if len(pending) >= depth:
            for _ in range(max(1, depth // 2) - 1):
                pending.popleft()
            before = time.perf_counter()
            wait(pending.popleft())
            waited += time.perf_counter() - before
    before = time.perf_counter()
    (finish or wait)(value)
    end = time.perf_counter()
    waited += end - before
    return {"per_s": calls / (end - begin), "calling_us": (end - begin - waited) / calls * 1e6, "waiting_us": waited / calls * 1e6}
