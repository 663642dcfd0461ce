"""The process at the other end of a _sides.Side. It reads requests, JSON lines, from standard input and answers each with a line on standard output."""

import collections
import json
import os
import sys
import time


def channel():
    """Reserves standard output for answers and returns it; other output goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve_and_exit(side, out, greeting, keep_errors=False, end=lambda: None):
    """Sends the greeting, then calls a method of `side` for each request line, until standard input ends. Then calls `end` and exits. keep_errors:
    an exception of a method becomes its answer, and part of the figure. Otherwise it ends the process."""
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
    os._exit(0)  # skips the client's last message on standard error


# Calls in flight, for every side of every comparison. Deeper queues of collectives can block stock jax's own CPU runtime forever (its limit is 32).
DEPTH = 16


def latencies(call, calls):
    """Returns the times of single calls, {p50_us, p99_us}."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    return {"p50_us": times[len(times) // 2], "p99_us": times[len(times) * 99 // 100]}


def timed_calls(function, value, calls, depth, wait, finish=None):
    """Times calls value = function(value) with `depth` of them in flight; returns {per_s, calling_us, waiting_us}, the last two per call, at the
    caller. When the queue is full, it waits for the older half. Emptying the queue each time would measure latency instead of throughput. When
    this returns, all calls are complete: it waits for the last value with `finish` (default: `wait`)."""
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
