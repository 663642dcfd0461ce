"""Virtual slices: devices requested by their properties, not by name.

    with pw.make_virtual_device_set().add_slice(devices=4) as slice:
        mesh = slice.mesh("x")
        ...

The devices of a slice are ordinary jax devices. The resource manager maps each to one of the least loaded physical devices, and may remap it
later. `jax.devices()` does not list them. See docs/slices.md.
"""

import math
import sys
import time

import numpy as np

from pathways._client import connection, questions

_POLL_SECONDS = 0.5
_MOST = 1 << 53  # bytes: more than any device has, and the largest integer that JSON represents exactly
_SILENT_SECONDS = 2.0


class SliceError(RuntimeError):
    """A slice is unavailable, or was released or lost."""


class InfeasibleSlice(SliceError):
    """This cluster can never satisfy the request, even if all other slices are released. The text names the slices that would fit."""


class SliceTimeout(SliceError, TimeoutError):
    """The slice did not become available in time."""


def make_virtual_device_set():
    """Returns an empty set of slices."""
    return VirtualDeviceSet()


def _our_client():
    import jax

    client = jax.devices()[0].client
    if not connection.is_ours(client):
        raise SliceError("virtual slices need a Pathways cluster, and this program does not use one: set JAX_PLATFORMS=pathways")
    return client


def _ask(client, what):
    """Sends a request to the resource manager; returns its answer."""
    return questions.ask(client, {"sliceRequest": what})


def _count(tpu_devices, devices, gpu_devices, shape):
    """Returns (count or None, platform or None)."""
    given = {name: n for name, n in (("tpu_devices", tpu_devices), ("devices", devices), ("gpu_devices", gpu_devices)) if n is not None}
    if len(given) > 1:
        raise TypeError(f"a slice has devices of one kind: give only one of {', '.join(given)}")
    if not given and shape is None:
        raise TypeError("how many devices? Give devices=n, tpu_devices=n or gpu_devices=n, or a shape")
    for name, n in given.items():
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")
        if shape is not None and math.prod(shape) != n:
            raise ValueError(f"{name}={n} does not match the shape {tuple(shape)}, which has {math.prod(shape)} devices")
        return n, {"tpu_devices": "tpu", "gpu_devices": "gpu"}.get(name)
    return None, None


class VirtualDeviceSet:
    """A set of slices that are released together."""

    def __init__(self):
        self.slices = []

    def add_slice(self, tpu_devices=None, *, devices=None, gpu_devices=None, shape=None, kind=None, island=None, same_island_as=None,
                  memory_per_device=0, spread=False, pack=False, exclusive=False, timeout=None):
        """Adds a slice of that many devices of one island, or of a mesh of that shape.

        kind: a `device_kind`. island: a name. same_island_as: another slice. memory_per_device: bytes to reserve. spread, pack: use many hosts,
        or few; by default the least loaded devices, then few hosts. exclusive: use devices without other slices. timeout: seconds to wait for
        devices held by others (0: do not wait; None: no limit).

        Raises InfeasibleSlice if the cluster can never satisfy the request, SliceTimeout if it did not satisfy it in time.
        """
        if shape is not None:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
            if not 1 <= len(shape) <= 3 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape):
                raise ValueError(f"a shape has 1 to 3 extents of at least 1, not {shape!r}")
        if spread and pack:
            raise ValueError("spread=True and pack=True exclude each other: choose one")
        if isinstance(memory_per_device, bool) or not isinstance(memory_per_device, int) or memory_per_device < 0:
            raise ValueError(f"memory_per_device is a number of bytes, not {memory_per_device!r}")
        count, platform = _count(tpu_devices, devices, gpu_devices, shape)
        request = {"count": count, "shape": shape, "platform": platform, "kind": kind, "island": island,
                   "memory_per_device": min(memory_per_device, _MOST), "hosts": "spread" if spread else "pack" if pack else "any", "exclusive": exclusive,
                   "beside": None if same_island_as is None else same_island_as._number()}
        made = VirtualSlice(_our_client(), {key: value for key, value in request.items() if value is not None}, shape, timeout)
        self.slices.append(made)
        return made

    @property
    def devices(self):
        """Returns the devices of all slices, in order."""
        return [device for one in self.slices for device in one.devices]

    def release(self):
        for one in self.slices:
            one.release()
        self.slices = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()


class VirtualSlice:
    """A set of devices held until release(), the end of a `with` block, or the end of the process. Arrays on them are deleted then."""

    def __init__(self, client, request, shape, timeout):
        from pathways._jax import placement

        self._client = client
        self._released = False
        all_devices = placement.all_devices(client)
        if all_devices is None:
            raise SliceError("this jax cannot list the devices of slices: the log names the private function that it lacks")
        with questions.errors_as(SliceError, invalid=ValueError):
            state = self._wait(_ask(client, {"add": request}), timeout)
        self.number = state["slice"]
        self.island = state["island"]
        known = {device.id: device for device in all_devices}
        self._devices = [known[i] for i in state["devices"]]
        self.shape = shape or (len(self._devices),)

    def _wait(self, state, timeout):
        slice = {"slice": state["slice"]}
        started, told = time.monotonic(), None
        try:
            while state["state"] == "waiting":
                waited = time.monotonic() - started
                left = math.inf if timeout is None else timeout - waited
                if left <= 0:
                    raise SliceTimeout(f"no slice of {state['text']} within {timeout} s: position {state['position']} in the queue")
                if waited >= _SILENT_SECONDS and told != state["text"]:
                    told = state["text"]
                    print(f"pathways: waiting for a slice of {told} (position {state['position']} in the queue)", file=sys.stderr, flush=True)
                state = _ask(self._client, {"await": {**slice, "seconds": min(_POLL_SECONDS, left)}})
        except BaseException:
            _ask(self._client, {"release": slice})
            raise
        if state["state"] == "refused":
            raise InfeasibleSlice(f"the cluster cannot give such a slice: {state['text']}")
        return state

    def _number(self):
        self._alive()
        return self.number

    def _alive(self):
        if self._released:
            raise SliceError(f"slice {self.number} was released: add a slice and use its devices")

    @property
    def devices(self):
        """Returns the slice's jax devices, row-major by its shape."""
        self._alive()
        return list(self._devices)

    def _of(self, name, others):
        self._alive()
        platform = self._devices[0].platform
        if platform != "cpu" and platform in others:
            raise SliceError(f"slice {self.number} has {platform} devices, not {name}: use .devices, which returns devices of every kind")
        return list(self._devices)

    @property
    def tpus(self):
        """Returns the slice's devices. CPU devices stand in for TPUs."""
        return self._of("tpus", ("gpu", "cuda", "rocm"))

    @property
    def gpus(self):
        """Returns the slice's devices. CPU devices stand in for GPUs."""
        return self._of("gpus", ("tpu",))

    def mesh(self, *axis_names):
        """Returns a jax Mesh over the slice's devices, of its shape: one axis name for each extent."""
        import jax

        if len(axis_names) != len(self.shape):
            raise ValueError(f"slice {self.number} has the shape {self.shape}: name {len(self.shape)} axes, not {len(axis_names)}")
        return jax.sharding.Mesh(np.array(self.devices, dtype=object).reshape(self.shape), axis_names)

    def placement(self):
        """Returns the current mapping: {"island", "hosts", "physical", "epoch"}, with a host name and a physical device number for each
        device of the slice. The epoch grows when the slice moves."""
        self._alive()
        with questions.errors_as(SliceError, invalid=ValueError):
            state = _ask(self._client, {"await": {"slice": self.number, "seconds": 0}})
        return {key: state[key] for key in ("island", "hosts", "physical", "epoch")}

    def release(self):
        """Returns the devices to the cluster and deletes the arrays on them. Idempotent."""
        if self._released:
            return
        self._released = True
        with questions.errors_as(SliceError, invalid=ValueError):
            _ask(self._client, {"release": {"slice": self.number}})

    def __enter__(self):
        self._alive()
        return self

    def __exit__(self, *exception):
        self.release()

    def __repr__(self):
        if self._released:
            return f"<slice {self.number}, released>"
        return f"<slice {self.number}: {'x'.join(map(str, self.shape))} {self._devices[0].device_kind} devices in island {self.island}>"
