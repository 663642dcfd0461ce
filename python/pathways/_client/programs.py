"""Sends programs of many nodes (pathways/v1/program.proto) to the cluster, through the door of this process, and calls them.

By the proxy, a program is one executable. An executable of the PJRT door has all its arrays on one list of devices. So a program is compiled there as
several executables (ports), one for each list (plugins/pathways_pjrt/ports.h).
"""

import base64
import dataclasses
import functools
import itertools
import threading
from typing import Any

from pathways._client import doors, wire
from pathways._jax import placement, seams


@dataclasses.dataclass(frozen=True)
class Type:
    """The type of an argument or a result, and the devices that hold it."""
    dtype: Any
    shape: tuple
    devices: tuple  # in the sharding's order


def load(client, program, arguments, results):
    """Compiles a program. `arguments`, `results`: their types. Returns call(arrays, handlers), which takes a handler for each result."""
    return _Ports(client, program, arguments, results).call if doors.chosen() == "pjrt" else _load_whole(client, program)


def handler(aval, sharding, committed):
    """Returns the function that makes an array from the shards that a call returns."""
    import jax

    make = seams.RESULT_HANDLER.find()
    if make is not None:
        return make(aval, sharding, committed)
    return functools.partial(jax.make_array_from_single_device_arrays, aval.shape, sharding)


def _load_whole(client, program):
    from jax.extend.ifrt_programs import ifrt_programs

    executable = client.compile_and_load_ifrt_program(ifrt_programs.make_plugin_program(wire.MAGIC + program), ifrt_programs.make_plugin_compile_options())

    def call(arrays, handlers):
        run = executable.execute_sharded(arrays)
        return run.consume_with_handlers(handlers) if handlers else []

    return call


_keys = itertools.count(1)


class _Ports:
    def __init__(self, client, program, arguments, results):
        lists = list(dict.fromkeys(one.devices for one in [*arguments, *results])) or [(client.local_devices()[0],)]
        key = f"{next(_keys)}"
        self._count = len(results)
        self._lock = threading.Lock()  # a call executes each port once before another call does
        self._ports = []  # (executable, its arguments, its results)
        for number, devices in enumerate(lists):
            takes = [i for i, one in enumerate(arguments) if one.devices == devices]
            gives = [i for i, one in enumerate(results) if one.devices == devices]
            options = {"pathways_port": ":".join([key, str(len(lists)), str(number), ",".join(map(str, takes)), ",".join(map(str, gives))])}
            if number == 0:
                options["pathways_program"] = base64.b64encode(program).decode()
            module = _module([arguments[i] for i in takes], [results[i] for i in gives], len(devices))
            self._ports.append((_compile(client, module, devices, options), takes, gives))

    def call(self, arrays, handlers):
        results = [None] * self._count
        with self._lock:
            for executable, takes, gives in self._ports:
                run = executable.execute_sharded([arrays[i] for i in takes])
                if gives:
                    for i, result in zip(gives, run.consume_with_handlers([handlers[i] for i in gives])):
                        results[i] = result
        return results


def _compile(client, module, devices, options):
    import numpy as np
    from jax.extend.backend import get_compile_options

    compile_options = get_compile_options(num_replicas=1, num_partitions=len(devices), device_assignment=np.array([[device.id for device in devices]]),
                                          env_options_overrides=options, backend=client)
    return client.compile_and_load(module, placement.device_list(devices), compile_options)


def _module(arguments, results, partitions):
    """Returns a module with these arguments and results, from which the client library learns their types. It is never executed."""
    takes, gives = [[_tensor(one) for one in types] for types in (arguments, results)]
    names = [f"%arg{i}" for i in range(len(takes))]
    given = ", ".join(f"%0#{i}" for i in range(len(gives))) if len(gives) > 1 else "%0"
    call = f'"stablehlo.custom_call"({", ".join(names)}) {{call_target_name = "pathways_port", has_side_effect = true}}'
    return "\n".join([
        f"module @port attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32}} {{",
        f"func.func public @main({', '.join(map(': '.join, zip(names, takes)))}) -> ({', '.join(gives)}) {{",
        f"{f'%0:{len(gives)} = ' if gives else ''}{call} : ({', '.join(takes)}) -> ({', '.join(gives)})",
        f"return {given} : {', '.join(gives)}" if gives else "return",
        "}", "}"])


def _tensor(one):
    return f"tensor<{''.join(f'{extent}x' for extent in one.shape)}{_element(str(one.dtype))}>"


def _element(name):
    """Returns MLIR's name of an element type."""
    if name == "bool":
        return "i1"
    if name.startswith("complex"):
        return f"complex<f{int(name.removeprefix('complex')) // 2}>"
    for theirs, mine in (("bfloat", "bf"), ("uint", "ui"), ("int", "i"), ("float", "f")):
        if name.startswith(theirs):
            return mine + name.removeprefix(theirs).replace("_", "").upper()
    raise NotImplementedError(f"arrays of type {name} cannot be passed to a program")


# ------------------------------------------------------------------------------------------------------------------ resharding
class _Moves:
    """The programs that move arrays from one sharding to another, of the client that was used last."""

    def __init__(self):
        self._client = None
        self._compiled = {}

    def find(self, x, sharding, donate):
        client = placement.client_of(sharding)
        if client is not self._client:  # the first client, or a new one after jax's clear_backends
            self._client, self._compiled = client, {}
        compiled, key = self._compiled, (x.shape, x.dtype, x.sharding, sharding, donate)
        if key not in compiled:
            compiled[key] = _load_move(client, x, sharding, donate)
        return compiled[key]


_moves = _Moves()


def move(x, sharding, donate):
    """Returns the array in another sharding, over any devices of its client. Its bytes do not pass through this process."""
    execute, make = _moves.find(x, sharding, donate)
    [result] = execute([x], [make])
    if donate:
        x.delete()
    return result


def _load_move(client, x, sharding, donate):
    shardings = [encoded(one, x.ndim) for one in (x.sharding, sharding)]
    nodes = [wire.arg("argument 0", (wire.DTYPES[str(x.dtype)], x.shape, 0), donate, False), wire.transfer("jax.device_put", 0, 1),
             wire.result("result 0", 1)]
    program = wire.program("device_put", [], shardings, nodes)
    types = [[Type(x.dtype, x.shape, placement.devices_of(one))] for one in (x.sharding, sharding)]
    return load(client, program, *types), handler(x.aval, sharding, True)


def encoded(sharding, rank):
    partition = placement.partition(sharding, rank).to_proto().SerializeToString()
    return wire.sharding(wire.packed(device.id for device in placement.devices_of(sharding)), partition, sharding.memory_kind or "")
