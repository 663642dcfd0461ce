"""Hooks compilation, so that passes can change modules and inspect executables.

jax passes a lowered module to one private function, which looks for it in jax's persistent compilation cache and then asks the client to compile it. A
pass gets the module before that, and the executable or the error after it. Passes run in the order in which they were added, for our backends only.
"""

import functools

from pathways._jax import seams


class Pass:
    """Base class of passes around compilation; it does nothing."""

    def before(self, backend, module):
        """Called before compilation; may change the module, and so its place in the cache. Its result is passed to after()."""

    def after(self, executable, known):
        """Called after compilation. known: the result of before()."""

    def retry(self, module, error):
        """Called when compilation fails; may change the module. Returns whether to compile it again."""
        return False

    def takes_callback(self, callback):
        """Whether to remove this entry from jax's list of the module's host callbacks before compilation."""
        return False


_passes = []


def add(one, is_ours):
    """Adds a pass. Returns False if this jax lacks the private function: then no pass runs. Idempotent.
    is_ours(client): whether the client is a Pathways backend."""
    compile_or_get_cached = seams.COMPILE.find()
    if compile_or_get_cached is None:
        return False
    if not getattr(compile_or_get_cached, "_pathways", False):
        seams.COMPILE.replace(_hooked(compile_or_get_cached, is_ours))
    if one not in _passes:
        _passes.append(one)
    return True


def _hooked(ordinary, is_ours):
    @functools.wraps(ordinary)
    def compile_or_get_cached(backend, module, devices, options, host_callbacks, *others, **named):
        call = functools.partial(ordinary, backend, module, devices, options)
        if not is_ours(backend):
            return call(host_callbacks, *others, **named)
        call = functools.partial(call, [c for c in host_callbacks if not any(one.takes_callback(c) for one in _passes)], *others, **named)
        known = [one.before(backend, module) for one in _passes]
        executable = _call(call, module)
        for one, what in zip(_passes, known):
            one.after(executable, what)
        return executable

    compile_or_get_cached._pathways = True
    return compile_or_get_cached


def _call(call, module):
    try:
        return call()
    except Exception as error:
        if not any(one.retry(module, error) for one in _passes):
            raise
    return call()


def computation_of(lowered):
    """Returns the computation that a jax.stages.Lowered compiles. REQUIRES: seams.LOWERING is found."""
    return lowered._lowering
