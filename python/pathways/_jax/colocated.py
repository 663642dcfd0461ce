"""The host's half of jax.experimental.colocated_python. It is private in jax, which uses it only with Google's own runtime."""

import contextlib
import threading

from pathways._jax import seams

_lock = threading.Lock()


def start_backend(local, places):
    """Makes jax's backend "cpu" and returns its local devices. `places`: {device id: its process}. `local`: the ids of the addressable devices.
    Raises AttributeError if this jax is too old. REQUIRES: no backend has been started."""
    import jax
    from jax.extend.backend import register_backend_factory

    make = seams.COLOCATED_CLIENT.find()
    if make is None:
        raise AttributeError(f"jaxlib has no {seams.COLOCATED_CLIENT.name}")
    register_backend_factory("cpu", lambda: make(local, places), priority=0, fail_quietly=False)
    return jax.local_devices()


def unpickle(text):
    """Unpickles a function that jax has pickled: (function, tree of arguments, their specs, tree of results, their specs, devices)."""
    deserialize = seams.COLOCATED_DESERIALIZE.find()
    if deserialize is None:
        raise AttributeError(f"jax has no {seams.COLOCATED_DESERIALIZE.full_name}")
    return deserialize(text)


@contextlib.contextmanager
def options(values):
    """Sets options of jax: jax_enable_x64 for this thread, the others for the process."""
    import jax

    for name, value in values.items():
        if name != "jax_enable_x64" and getattr(jax.config, name, value) != value:
            with _lock:
                jax.config.update(name, value)
    wide = values.get("jax_enable_x64", jax.config.jax_enable_x64)
    with jax.enable_x64(wide):
        yield
