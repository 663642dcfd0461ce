"""The other end of _sides.Side: a process that is asked by JSON lines on standard input, and answers by a line each on standard output."""

import json
import os
import sys


def channel():
    """Standard output, for answers alone: what libraries print goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve(side, out, greeting, keep_errors=False):
    """Says that it is ready, then does what it is asked, a method of `side` a line. keep_errors: what a method raises is its answer, and part of
    the figure; else it ends the process."""
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
