"""One hook on compilation.

jax hands a lowered module to the client's compiler in one private function. A pass sees the module before that, the executable after it, or an
error instead of it. Passes run in the order in which they were added, for our backends only.
"""

import functools

from pathways._jax import seams


class Pass:
    """What may be done around a compilation. Does nothing itself."""

    def before(self, backend, module):
        """May change the module. Gives what after() wants to know."""

    def after(self, executable, known):
        """known: what before() gave."""

    def retry(self, module, error):
        """Whether the module, changed by this call, may be compiled after this error."""
        return False

    def takes_callback(self, callback):
        """Whether this entry of jax's list of a module's host callbacks is not for the compiler."""
        return False


_passes = []


def add(one, is_ours):
    """False where jax has no such function: then no pass runs. Idempotent. is_ours(client) tells our backends from others."""
    compile_and_load = seams.COMPILE.find()
    if compile_and_load is None:
        return False
    if not getattr(compile_and_load, "_pathways", False):
        seams.COMPILE.replace(_hooked(compile_and_load, is_ours))
    if one not in _passes:
        _passes.append(one)
    return True


def _hooked(ordinary, is_ours):
    @functools.wraps(ordinary)
    def backend_compile_and_load(backend, module, executable_devices, options, host_callbacks, *others, **named):
        call = functools.partial(ordinary, backend, module, executable_devices, options)
        if not is_ours(backend):
            return call(host_callbacks, *others, **named)
        call = functools.partial(call, [c for c in host_callbacks if not any(one.takes_callback(c) for one in _passes)], *others, **named)
        known = [one.before(backend, module) for one in _passes]
        executable = _call(call, module)
        for one, what in zip(_passes, known):
            one.after(executable, what)
        return executable

    backend_compile_and_load._pathways = True
    return backend_compile_and_load


def _call(call, module):
    try:
        return call()
    except Exception as error:
        if not any(one.retry(module, error) for one in _passes):
            raise
    return call()
