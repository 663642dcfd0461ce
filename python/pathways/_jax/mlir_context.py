"""Shares one MLIR context among all computations of a program.

jax makes a context for each function that it lowers, which costs more than lowering a small function. Within `shared()`, all lowerings of a
thread use one context.
"""

import contextlib
import threading

from pathways._jax import seams

_mine = threading.local()


@contextlib.contextmanager
def shared():
    """Shares a context for the block. Do not use it around long-running user code: the context keeps all its types and attributes until the end."""
    _install()
    outer, _mine.context = getattr(_mine, "context", None), getattr(_mine, "context", None) or []
    try:
        yield
    finally:
        _mine.context = outer


def _install():
    ordinary = seams.IR_CONTEXT.find()
    if ordinary is None or getattr(ordinary, "_pathways", False):
        return

    def make_ir_context():
        context = getattr(_mine, "context", None)
        if context is None:
            return ordinary()
        if not context:
            context.append(ordinary())
        return context[0]

    make_ir_context._pathways = True
    seams.IR_CONTEXT.replace(make_ir_context)
