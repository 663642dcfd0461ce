"""What a program on the cluster does wrong in a callback is said once: at the next read of a result, or at the next barrier.

jax's own cpu calls back while a program is being started, and raises there. On a cluster the program runs later, and its error travels in
the tokens that `jax.effects_barrier()` waits for. jax keeps a token that has failed: every later barrier, and every later program with
ordered effects, would fail with the same error. And it keeps the token of the last program of each device only: the error of an
earlier one, whose callback has no result to read, would be lost. Both are put right here. What a read has raised is told: tokens that failed with
the same error are dropped there and then. At the end of the process only errors are told that nobody could have read: a script may have handled
the others.
"""

import functools
import sys


AT_EXIT = "wait_for_tokens"  # jax's function that the interpreter calls at its end


def _wait(tokens):
    """Waits for all; the first error."""
    error = None
    for token in tokens:
        try:
            token.block_until_ready()
        except Exception as failure:
            error = error or failure
    return error


def _error_of(token):
    try:
        token.block_until_ready()
    except Exception as error:
        return error
    return None


def _is_told(error):
    """A read has raised it: no token of this thread's programs shall raise it again."""
    from jax._src import dispatch

    tokens = dispatch.runtime_tokens
    for kind in (tokens.current_tokens, tokens.output_runtime_tokens):
        held = dict(kind)
        kind.clear()  # what fails below is a read as well
        kind.update({key: token for key, token in held.items() if str(_error_of(token)) != str(error)})


def _telling(read):
    """`read`, whose errors need not be told again."""

    import jax

    @functools.wraps(read, assigned=("__name__", "__doc__"))
    def telling(*args, **named):
        try:
            return read(*args, **named)
        except jax.errors.JaxRuntimeError as error:
            _is_told(error)
            raise

    return telling


def _watch_reads():
    from jax._src import api
    from jax._src import array as jax_array

    array = jax_array.ArrayImpl
    array.block_until_ready = _telling(array.block_until_ready)
    array._value = property(_telling(array._value.fget))
    api.xc.batched_block_until_ready = _telling(api.xc.batched_block_until_ready)


def install(registry):
    """registry: of the functions that programs call. Idempotent."""
    import jax
    from jax._src import dispatch

    kind = dispatch.RuntimeTokenSet
    ordinary = kind.block_until_ready
    if getattr(ordinary, "_pathways", False):
        return

    @functools.wraps(ordinary)
    def block_until_ready(self):
        tokens = [*self.current_tokens.values(), *self.output_runtime_tokens.values()]
        self.clear()
        error = _wait(tokens)
        unread = registry.take_unread()
        if error is not None and (unread is not None or sys._getframe(1).f_code.co_name != AT_EXIT):
            raise error
        if unread is not None:
            raise jax.errors.JaxRuntimeError(f"INTERNAL: {unread}")

    block_until_ready._pathways = True
    kind.block_until_ready = block_until_ready
    _watch_reads()
