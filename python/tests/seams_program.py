"""Uses every feature that needs private names of jax: once with all seams, and once without each seam. Argument 1 is a file for the results.

jax is imported once. For each of these runs a child is forked. It connects to the cluster at PATHWAYS_ADDRESS and writes a line of JSON: the
warnings, the features that were on, and the error that ended the run, if any.
"""

import json
import logging
import os
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


AT_ONCE = 3  # children


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        if "are off" in record.getMessage():
            self.texts.append(record.getMessage())


def basics():
    """Asserts that jax's basic features work. They need no seam except those of the connection."""
    import pathways

    assert pathways.__version__
    devices = jax.devices()
    assert len(devices) == 2 and jax.config.jax_platforms.startswith("pathways")
    x = np.arange(8, dtype=np.float32)
    assert float(jax.jit(lambda v: (v * 2).sum())(x)) == 56
    for device in devices:
        assert (np.asarray(jax.device_put(x, device)) == x).all()
    split = NamedSharding(Mesh(np.array(devices), "x"), P("x"))
    spread = jax.device_put(x, split)
    assert spread.sharding == split and (np.asarray(spread + 1) == x + 1).all()
    assert (np.asarray(jax.jit(lambda v: v @ v)(jax.device_put(np.eye(8, dtype=np.float32), split))) == np.eye(8)).all()
    assert float(jax.grad(lambda v: (v ** 2).sum())(x)[3]) == 6


def loads_the_other_door():
    from pathways._client import doors
    from pathways._jax import seams

    if seams.PLUGIN_CLIENT._is_to_come():
        return True  # this jax has one door
    return doors.load().pjrt_plugin_initialized("pathways")


def can_hide_devices():
    from pathways._jax import virtual_devices

    return virtual_devices.can_hide()


def forgets_dropped_connections():
    from pathways._client import connection

    assert len(connection.connected()) == 1
    jax.extend.backend.clear_backends()
    return connection.connected() == []


def has_a_profiler():
    from pathways._client import profiler

    return profiler.registered()


def calls_back():
    return float(jax.jit(lambda v: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), v))(np.float32(0))) == 0


def calls_back_from_several():
    split = NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
    double = jax.jit(lambda v: jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct((8,), np.float32), v), in_shardings=split)
    return float(double(np.ones(8, np.float32)).sum()) == 16


def calls_back_with_buffers():
    from jax.experimental.buffer_callback import buffer_callback

    def fill(context, out, argument):
        out[...] = np.asarray(argument) + 1

    return float(jax.jit(buffer_callback(fill, jax.ShapeDtypeStruct((2,), np.float32)))(np.zeros(2, np.float32))[0]) == 1


def tells_shardings():
    seen, split = [], NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
    jax.jit(lambda v: (jax.debug.inspect_array_sharding(v, callback=seen.append), v + 1)[1], in_shardings=split)(np.ones(4, np.float32)).block_until_ready()
    return len(seen) == 1


def calls_on_hosts():
    if jax.__version_info__ < (0, 9, 1):
        return True  # hosts cannot run functions of this jax
    from jax.experimental import colocated_python

    found = colocated_python.colocated_cpu_devices(jax.devices())
    x = jax.device_put(np.zeros(1, np.float32), found[0])
    call = colocated_python.colocated_python(lambda v: v + os.getpid()).specialize(out_specs_fn=lambda v: v)
    return float(call(x)[0]) != os.getpid()


def calls_on_hosts_in_programs():
    if jax.__version_info__ < (0, 9, 1):
        return True  # hosts cannot run functions of this jax
    from jax.experimental import colocated_python
    import pathways as pw

    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    spec = jax.ShapeDtypeStruct((), np.float32, sharding=device)

    @colocated_python.colocated_python_class
    class Pid:
        def add(self, v):
            return v + os.getpid()

    add, here = Pid().add.specialize(out_specs_fn=lambda v: spec), colocated_python.colocated_python(lambda: jnp.float32(os.getpid()))
    here = here.specialize(devices=jax.devices()[:1], out_specs_fn=lambda: spec)
    added, found = pw.program(lambda v: (add(v), here()))(jax.device_put(np.float32(0), device))
    return float(added) == float(found) != os.getpid()


def runs_programs():
    import pathways as pw

    double, add = jax.jit(lambda v: v * 2), jax.jit(lambda v: v + 1)
    assert float(pw.program(lambda v: add(double(v)))(np.float32(3))) == 7
    return True


def runs_programs_over_other_shardings():
    import pathways as pw
    from jax.extend.sharding import GSPMDSharding

    x = jax.device_put(np.float32(3), GSPMDSharding.get_replicated(jax.devices()))
    return float(pw.program(jax.jit(lambda v: v * 2))(x)) == 6


def has_virtual_slices():
    import pathways as pw

    with pw.make_virtual_device_set().add_slice(devices=2) as one:
        return float(jnp.sum(jax.device_put(jnp.ones(3), one.devices[1]))) == 3


def keeps_order_in_programs():
    """Whether a function with ordered effects runs as one program: Python calls it only when it is traced, not at each call."""
    import pathways as pw

    said, runs = [], []
    say = jax.jit(lambda v: (jax.experimental.io_callback(lambda a: said.append(int(a)), None, v, ordered=True), v + 1)[1])

    @pw.program
    def twice(v):
        runs.append(None)
        return say(say(v))

    for _ in range(2):
        assert int(twice(np.int32(0))) == 2
    jax.effects_barrier()
    assert said == [0, 1, 0, 1]
    return len(runs) == 1


def knows_own_table_of_tokens():
    from pathways._program import tokens

    return tokens._table() is not tokens._unshared


def moves_between_sets_of_devices():
    devices = np.array(jax.devices())
    rows = NamedSharding(Mesh(devices, "x"), P("x"))
    value = np.arange(16, dtype=np.float32).reshape(4, 4)
    gathered = jax.device_put(jax.device_put(value, rows), devices[1])
    assert (np.asarray(gathered) == value).all() and (np.asarray(jax.device_put(gathered, rows)) == value).all()
    return True


def guards_transfers():
    devices = np.array(jax.devices())
    rows, columns = NamedSharding(Mesh(devices, "x"), P("x")), NamedSharding(Mesh(devices, "x"), P(None, "x"))
    spread = jax.device_put(np.ones((4, 4), np.float32), rows)
    try:
        with jax.transfer_guard_device_to_device("disallow_explicit"):
            jax.device_put(spread, columns)
    except jax.errors.JaxRuntimeError:
        return True
    return False


def analyzes_costs():
    return jax.jit(lambda v: v @ v).lower(jnp.ones((4, 4))).cost_analysis()["flops"] > 0


def takes_odd_strides():
    return float(jnp.asarray(np.arange(4, dtype=np.float32)[::-1])[0]) == 3


def hands_out_memory():
    return float(np.from_dlpack(jnp.ones(3))[0]) == 1


# The last feature drops the connection.
FEATURES = [calls_back, calls_back_from_several, calls_back_with_buffers, tells_shardings, calls_on_hosts, calls_on_hosts_in_programs, runs_programs, runs_programs_over_other_shardings,
            keeps_order_in_programs, has_virtual_slices, knows_own_table_of_tokens, moves_between_sets_of_devices, guards_transfers,
            analyzes_costs, takes_odd_strides, hands_out_memory, loads_the_other_door, can_hide_devices,
            forgets_dropped_connections, has_a_profiler]


def is_hooked(seam):
    """Whether our function has replaced jax's."""
    found = seam.find()
    if seam.key == "MESHES":  # the seam is a module; we add one global to it
        return "hasattr" in vars(found)
    return getattr(getattr(found, "fget", found), "_pathways", False)


def without(key):
    """Returns the results without this seam; "": with all seams."""
    from pathways._jax import seams

    warnings = Warnings()
    logging.getLogger("pathways").addHandler(warnings)
    logging.getLogger("pathways").propagate = False
    if key:
        seams.hidden.add(key)
    result = {"key": key, "error": None, "on": {}, "warnings": warnings.texts}
    try:
        basics()
        for feature in FEATURES:
            try:
                result["on"][feature.__name__] = feature()
            except Exception as error:
                result["on"][feature.__name__] = False
                result[feature.__name__] = f"{type(error).__name__}: {str(error)[:500]}"
    except Exception:
        result["error"] = traceback.format_exc()
    seams.hidden.clear()
    result["hooked"] = [seam.key for seam in seams.SEAMS if is_hooked(seam)]
    return result


def main(path):
    from pathways._jax import seams

    running = set()
    for key in ["", *(seam.key for seam in seams.SEAMS)]:
        if len(running) == AT_ONCE:
            running.remove(os.wait()[0])
        child = os.fork()
        if child == 0:
            with open(path, "a") as file:
                file.write(json.dumps(without(key)) + "\n")
            os._exit(0)
        running.add(child)
    for child in running:
        os.waitpid(child, 0)


main(sys.argv[1])
