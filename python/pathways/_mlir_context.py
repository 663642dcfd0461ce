"""One MLIR context for all computations of a program.

jax makes a context for each function that it lowers, and making it costs more than lowering a small function. Within `shared()` a thread's
lowerings have one in common. jax has no option for this; where it does not have the function that makes contexts nothing changes.
"""

import contextlib
import threading

_mine = threading.local()


@contextlib.contextmanager
def shared():
    """Not for calls that run user code for long: what the context has learnt stays until the end."""
    _install()
    outer, _mine.context = getattr(_mine, "context", None), getattr(_mine, "context", None) or []
    try:
        yield
    finally:
        _mine.context = outer


def _install():
    from jax._src.interpreters import mlir

    ordinary = getattr(mlir, "make_ir_context", None)
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
    mlir.make_ir_context = make_ir_context
