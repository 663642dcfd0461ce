"""The host's half of jax.experimental.colocated_python. It is private in jax, which uses it only with Google's own runtime."""

import contextlib
import functools
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


def unpickle(text, bound):
    """Unpickles a function that jax has pickled: (function, tree of arguments, their specs, tree of results, their specs, devices).

    `bound`: ids that stand for devices of other ids, {id: id}: the client's devices of virtual slices."""
    deserialize = seams.COLOCATED_DESERIALIZE.find()
    if deserialize is None:
        raise AttributeError(f"jax has no {seams.COLOCATED_DESERIALIZE.full_name}")
    if not bound:
        return deserialize(text)
    _find_bound_devices()
    _unpickled.bound = bound
    try:
        return deserialize(text)
    finally:
        _unpickled.bound = {}


_unpickled = threading.local()  # `bound` of the function that this thread unpickles


def _find_bound_devices():
    """Lets jax find the devices that ids in a pickle stand for. Idempotent."""
    with _lock:
        ordinary = seams.COLOCATED_DEVICES.find()
        if ordinary is None:
            raise AttributeError(f"jax has no {seams.COLOCATED_DEVICES.full_name}")
        if getattr(ordinary, "_pathways", False):
            return

        @functools.wraps(ordinary)
        def find():
            devices, bound = ordinary(), getattr(_unpickled, "bound", {})
            for other in bound.values():
                if other not in devices:
                    raise ValueError(f"device {other} has joined the cluster after this process had started: use functions on its host from a new program")
            return {**devices, **{one: devices[other] for one, other in bound.items()}} if bound else devices

        find._pathways = True
        seams.COLOCATED_DEVICES.replace(find)


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
