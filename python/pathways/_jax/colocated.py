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


def unpickle(text):
    """Unpickles a function that jax has pickled: (function, tree of arguments, their specs, tree of results, their specs, devices)."""
    deserialize = seams.COLOCATED_DESERIALIZE.find()
    if deserialize is None:
        raise AttributeError(f"jax has no {seams.COLOCATED_DESERIALIZE.full_name}")
    return deserialize(text)


_thread = threading.local()  # `bound` of the block that this thread is in


@contextlib.contextmanager
def binding(bound):
    """Makes ids stand for devices of other ids in the pickles that jax reads and writes in the block. `bound`: {id: id of this process's jax}, of the
    client's devices of virtual slices."""
    if bound:
        _bind_pickles()
    _thread.bound = bound
    try:
        yield
    finally:
        _thread.bound = {}


def _bind_pickles():
    """Changes jax's functions that look for devices, and those that write them. Idempotent."""
    with _lock:
        for seam, changed in ((seams.COLOCATED_DEVICES, _finding), (seams.COLOCATED_MESH, _writing), (seams.COLOCATED_DEVICE_LIST, _writing),
                              (seams.COLOCATED_ONE_DEVICE, _writing)):
            ordinary = seam.find()
            if ordinary is None:
                raise AttributeError(f"jax has no {seam.full_name}")
            if not getattr(ordinary, "_pathways", False):
                new = functools.wraps(ordinary)(changed(ordinary))
                new._pathways = True
                seam.replace(new)


def _finding(ordinary):
    def find():
        devices, bound = ordinary(), getattr(_thread, "bound", {})
        for other in bound.values():
            if other not in devices:
                raise ValueError(f"device {other} has joined the cluster after this process had started: use functions on its host from a new program")
        return {**devices, **{one: devices[other] for one, other in bound.items()}} if bound else devices

    return find


def _writing(ordinary):
    def reduce(thing):
        rebuild, args = ordinary(thing)
        bound = getattr(_thread, "bound", {})
        if not bound or len(args) != 3:  # one that is in the pickle already
            return rebuild, args
        number, make, (ids, *rest) = args
        return rebuild, (number, make, (_renamed(ids, {other: one for one, other in bound.items()}), *rest))

    return reduce


def _renamed(ids, names):
    """Returns an id, a list of ids or an array of ids, with other names."""
    import numpy as np

    if np.ndim(ids) == 0:
        return names.get(int(ids), ids)
    renamed = [names.get(int(one), int(one)) for one in np.ravel(ids)]
    return renamed if isinstance(ids, list) else np.reshape(renamed, np.shape(ids))


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
