"""What a program on the cluster does wrong in a callback is said once: at the next read of a result, or at the next barrier.

jax's own cpu calls back while a program is being started, and raises there. On a cluster the program runs later, and its error travels in
the tokens that `jax.effects_barrier()` waits for. jax keeps a token that has failed: every later barrier, and every later program with
ordered effects, would fail with the same error. And it keeps the token of the last program of each device only: the error of an
earlier one, whose callback has no result to read, would be lost. Both are put right here. At the end of the process only errors are told
that nobody could have read: a script may have handled the others.
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
