"""Reports the error of a callback exactly once: at the next read of a result, or at the next barrier.

jax's own cpu backend runs callbacks while it starts a program, and raises there. On a cluster the program runs later, and its error travels in
the tokens that `jax.effects_barrier()` waits for. jax alone would handle these tokens wrongly in two ways:
- It keeps a failed token, so every later barrier and every later program with ordered effects would fail with the same error.
- It keeps only the token of the last program of each device, so the error of an earlier callback without results would be lost.
This module corrects both. After a read has raised an error, the tokens held at that time do not raise it again and are not passed to programs. At
the end of the process, only errors of callbacks without results are raised: the script may have handled the others.
"""

import functools
import sys

from pathways._jax import seams


AT_EXIT = "wait_for_tokens"  # jax's function that the interpreter calls at its end


def _wait(tokens, told):
    """Waits for all tokens; returns the first error not yet reported, or None."""
    first = None
    for token in tokens:
        error = _error_of(token)
        if error is not None and str(error) not in _texts(told, token):
            first = first or error
    return first


def _error_of(token):
    try:
        token.block_until_ready()
    except Exception as error:
        return error
    return None


def _texts(told, token):
    return told.get(id(token), (token, ()))[1]


def _is_told(error):
    """Records that a read has raised `error`, so that no token that this thread holds now raises it again. Does not wait for the tokens: a token may
    depend on a callback that waits for the reader."""
    tokens = seams.RUNTIME_TOKENS.find()
    told = getattr(tokens, "_told", {})
    held = [*tokens.current_tokens.values(), *tokens.output_runtime_tokens.values()]
    tokens._told = {id(token): (token, {*_texts(told, token), str(error)}) for token in held}


def forget_told(tokens, effect):
    """Drops the effect's token if it failed with an error already reported. Called before a program takes the token and would fail as well."""
    token = tokens.current_tokens.get(effect)
    texts = _texts(getattr(tokens, "_told", {}), token)
    if texts and str(_error_of(token)) in texts:
        tokens.current_tokens.pop(effect, None)


def _telling(read):
    """Wraps `read` to record the errors that it raises as reported."""

    import jax

    @functools.wraps(read, assigned=("__name__", "__doc__"))
    def telling(*args, **named):
        try:
            return read(*args, **named)
        except jax.errors.JaxRuntimeError as error:
            _is_told(error)
            raise

    telling._pathways = True
    return telling


def _watch_reads():
    array_class, value, wait_for_many = seams.ARRAY.find(), seams.ARRAY_VALUE.find(), seams.WAIT_FOR_MANY.find()
    if array_class is not None:
        array_class.block_until_ready = _telling(array_class.block_until_ready)
    if value is not None:
        seams.ARRAY_VALUE.replace(property(_telling(value.fget)))
    if wait_for_many is not None:
        seams.WAIT_FOR_MANY.replace(_telling(wait_for_many))


def install(registry):
    """Patches jax's runtime tokens and the reads of arrays. registry: the functions that programs call. Idempotent."""
    import jax

    tokens = seams.RUNTIME_TOKENS.find()
    if tokens is None:
        return
    kind = type(tokens)
    ordinary = kind.block_until_ready
    if getattr(ordinary, "_pathways", False):
        return

    @functools.wraps(ordinary)
    def block_until_ready(self):
        tokens = [*self.current_tokens.values(), *self.output_runtime_tokens.values()]
        told = getattr(self, "_told", {})
        self.clear()
        error = _wait(tokens, told)
        self._told = {}
        unread = registry.take_unread()
        if error is not None and (unread is not None or sys._getframe(1).f_code.co_name != AT_EXIT):
            raise error
        if unread is not None:
            raise jax.errors.JaxRuntimeError(f"INTERNAL: {unread}")

    take = kind.get_token_input

    @functools.wraps(take)
    def get_token_input(self, effect, devices):
        forget_told(self, effect)
        return take(self, effect, devices)

    block_until_ready._pathways = True
    kind.block_until_ready = block_until_ready
    kind.get_token_input = get_token_input
    _watch_reads()
