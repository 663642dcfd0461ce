"""Virtual slices: devices by what is needed of them, not by name.

    with pw.make_virtual_device_set().add_slice(devices=4) as slice:
        mesh = slice.mesh("x")
        ...

The devices of a slice are ordinary jax devices. The resource manager maps each to a physical device, where the load of all clients is
least, and may map it elsewhere later. `jax.devices()` does not list them. docs/slices.md says more.
"""

import contextlib
import json
import math
import sys
import time

import numpy as np

from pathways import _client

_POLL_SECONDS = 0.5
_MOST = 1 << 53  # bytes: no device has so many, and JSON no larger numbers
_SILENT_SECONDS = 2.0


class SliceError(RuntimeError):
    """A slice that cannot be had, or is no more."""


class InfeasibleSlice(SliceError):
    """No release and no patience would make room for it: the text says what would fit."""


class SliceTimeout(SliceError, TimeoutError):
    """It could not be had in time."""


def make_virtual_device_set():
    """A set of slices, empty at first."""
    return VirtualDeviceSet()


def _our_client():
    import jax

    client = jax.devices()[0].client
    if not _client.is_ours(client):
        raise SliceError("virtual slices are of a Pathways cluster, and this program does not run on one: set JAX_PLATFORMS=pathways")
    return client


def _ask(client, what):
    """A request to the resource manager. Its answer is JSON in an array of bytes."""
    from jax.extend.ifrt_programs import ifrt_programs as programs

    executable = client.compile_and_load_ifrt_program(
        programs.make_plugin_program(json.dumps({"sliceRequest": what})), programs.make_plugin_compile_options())
    [[answer]] = executable.execute_sharded([]).disassemble_into_single_device_arrays()
    return json.loads(np.asarray(answer).tobytes())


@contextlib.contextmanager
def _our_errors():
    """jax's errors of the request itself, as Python's."""
    import jax

    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        kind, _, text = str(error).partition(": ")
        raise (ValueError(text) if kind == "INVALID_ARGUMENT" else SliceError(text or str(error))) from None


def _count(tpu_devices, devices, gpu_devices, shape):
    """(count or None, platform or None)"""
    given = {name: n for name, n in (("tpu_devices", tpu_devices), ("devices", devices), ("gpu_devices", gpu_devices)) if n is not None}
    if len(given) > 1:
        raise TypeError(f"a slice has one kind of devices: give one of {', '.join(given)}")
    if not given and shape is None:
        raise TypeError("how many devices? Give devices=n, tpu_devices=n or gpu_devices=n, or a shape")
    for name, n in given.items():
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")
        if shape is not None and math.prod(shape) != n:
            raise ValueError(f"{name}={n} and a shape of {math.prod(shape)} devices")
        return n, {"tpu_devices": "tpu", "gpu_devices": "gpu"}.get(name)
    return None, None


class VirtualDeviceSet:
    """Slices that are released together."""

    def __init__(self):
        self.slices = []

    def add_slice(self, tpu_devices=None, *, devices=None, gpu_devices=None, shape=None, kind=None, island=None, same_island_as=None,
                  memory_per_device=0, spread=False, pack=False, exclusive=False, timeout=None):
        """A slice of so many devices of one island, or of a mesh of that shape.

        kind: as `device_kind` calls it. island: by name. same_island_as: a slice. memory_per_device: bytes to set aside. spread, pack: over
        many hosts, or few; else least load decides, then few hosts. exclusive: on devices that carry no other slice. timeout: seconds to wait
        for devices that others hold (0: not at all; None: as long as it takes).

        Raises InfeasibleSlice for what the cluster does not have, SliceTimeout for what it did not have in time.
        """
        if shape is not None:
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
            if not 1 <= len(shape) <= 3 or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in shape):
                raise ValueError(f"a shape has 1 to 3 extents of at least 1, not {shape!r}")
        if spread and pack:
            raise ValueError("spread over many hosts or packed on few: choose one")
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
        """Those of all slices, in order."""
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
    """Devices until it is released, by release(), at the end of a `with`, or at the end of the process. Arrays on them end with it."""

    def __init__(self, client, request, shape, timeout):
        self._client = client
        self._released = False
        with _our_errors():
            state = self._wait(_ask(client, {"add": request}), timeout)
        self.number = state["slice"]
        self.island = state["island"]
        known = {device.id: device for device in client._get_all_devices()}
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
        """Its jax devices, row-major by its shape."""
        self._alive()
        return list(self._devices)

    def _of(self, name, others):
        self._alive()
        platform = self._devices[0].platform
        if platform != "cpu" and platform in others:
            raise SliceError(f"slice {self.number} has {platform} devices, not {name}: `.devices` is whatever there is")
        return list(self._devices)

    @property
    def tpus(self):
        """Its devices. Those of a CPU cluster stand in for TPUs."""
        return self._of("tpus", ("gpu", "cuda", "rocm"))

    @property
    def gpus(self):
        """Its devices. Those of a CPU cluster stand in for GPUs."""
        return self._of("gpus", ("tpu",))

    def mesh(self, *axis_names):
        """A jax Mesh over its devices, of its shape: one name for each extent."""
        import jax

        if len(axis_names) != len(self.shape):
            raise ValueError(f"slice {self.number} has the shape {self.shape}: name {len(self.shape)} axes, not {len(axis_names)}")
        return jax.sharding.Mesh(np.array(self.devices, dtype=object).reshape(self.shape), axis_names)

    def placement(self):
        """Where it is now: {"island", "hosts", "physical", "epoch"}, hosts by name and physical devices by number, for each of its
        devices. The epoch grows when it is moved."""
        self._alive()
        with _our_errors():
            state = _ask(self._client, {"await": {"slice": self.number, "seconds": 0}})
        return {key: state[key] for key in ("island", "hosts", "physical", "epoch")}

    def release(self):
        """Its devices serve others; arrays on them are gone. A second time does nothing."""
        if self._released:
            return
        self._released = True
        with _our_errors():
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
