"""Executables that outlive their process, by the PJRT door: jax's own persistent compilation cache, and jax.experimental.serialize_executable."""

import pytest

SETUP = """
import collections, pickle, sys
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import serialize_executable
from jax.sharding import NamedSharding, PartitionSpec as P

devices = jax.devices()
rows = NamedSharding(jax.make_mesh((len(devices),), ("x",), axis_types=(jax.sharding.AxisType.Auto,)), P("x"))
events = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event.rpartition("/")[2]]))
"""

CACHED = SETUP + """
jax.config.update("jax_compilation_cache_dir", "programs")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_raise_persistent_cache_errors", True)

def show(v):
    jax.debug.callback(lambda x: print("callback", x), v)
    return v + 1

def inspect(v):
    jax.debug.inspect_array_sharding(v * 2, callback=lambda sharding: print("inspected", sharding.is_equivalent_to(rows, 2)))
    return v

donating = jax.jit(lambda v: v + 1, donate_argnums=0)
x = jax.device_put(np.arange(16.0, dtype=np.float32).reshape(8, 2), rows)
print(float(jax.jit(lambda v: jnp.sin(v).sum())(np.ones(3, np.float32))))
print(np.asarray(jax.jit(lambda v: (v.T @ v, v * 2), out_shardings=(None, rows))(x)[0]).tolist())
y = donating(x)
print(x.is_deleted(), y.sharding == rows)
print(float(jax.jit(show)(np.float32(3))))
jax.effects_barrier()
jax.jit(inspect)(y)
print(events["cache_hits"], events["cache_misses"], file=sys.stderr)
"""


@pytest.mark.parametrize("cluster", [
    {"PATHWAYS_LOCAL": "1x1x4"},
    {"PATHWAYS_LOCAL": "1x1x4", "PATHWAYS_LOCAL_PROCESS": "separate"},
    {"PATHWAYS_LOCAL": "2x1x2"},
], ids=["in this process", "in another", "in several"])
def test_jax_s_compilation_cache_finds_what_an_earlier_process_compiled(run_script, cluster):
    """Includes a program that calls Python: it contains the function's number, which must mean the next process's own function."""
    runs = [run_script(CACHED, PATHWAYS_DOOR="pjrt", PATHWAYS_COMPILE_CACHE="off", **cluster) for _ in range(2)]
    for run in runs:
        assert run.returncode == 0, run.stderr
    assert runs[0].stdout == runs[1].stdout and "callback 3.0" in runs[0].stdout and "inspected True" in runs[0].stdout
    (hits, misses), again = [[int(number) for number in run.stderr.split()] for run in runs]
    assert hits == 0 and misses >= 5
    assert again == [misses, 0]


def test_an_executable_in_a_file_is_loaded_by_another_process(run_script):
    kept = run_script(SETUP + """
f = jax.jit(lambda v: (v * 2, v.sum())).lower(jax.ShapeDtypeStruct((8,), np.float32, sharding=rows)).compile()
with open("executable", "wb") as file:
    pickle.dump(serialize_executable.serialize(f), file)
""", PATHWAYS_DOOR="pjrt", PATHWAYS_LOCAL="1x1x4")
    assert kept.returncode == 0, kept.stderr
    loaded = run_script(SETUP + """
with open("executable", "rb") as file:
    f = serialize_executable.deserialize_and_load(*pickle.load(file))
doubled, total = f(jax.device_put(np.arange(8, dtype=np.float32), rows))
print(np.asarray(doubled).tolist(), float(total), doubled.sharding == rows)
""", PATHWAYS_DOOR="pjrt", PATHWAYS_LOCAL="1x1x4")
    assert (loaded.returncode, loaded.stdout) == (0, "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0] 28.0 True\n"), loaded.stderr


def test_what_cannot_be_loaded_is_refused_and_the_program_goes_on(run_script):
    done = run_script(SETUP + """
f = jax.jit(lambda v: v * 2).lower(np.float32(1)).compile()
kept = f.runtime_executable().serialize()
changed = bytearray(kept)
changed[len(kept) // 2] ^= 1
later = kept.replace(b"pathways-executable-1", b"pathways-executable-2", 1)
for wrong in kept[:-1], bytes(changed), later:
    try:
        devices[0].client.deserialize_executable(wrong, f.runtime_executable().local_devices(), None)
    except Exception as error:
        print(error)
print(float(f(np.float32(4))))
""", PATHWAYS_DOOR="pjrt", PATHWAYS_LOCAL="1x1x1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and lines[-1] == "8.0", lines
    assert all(line.startswith("INVALID_ARGUMENT: this is not an executable that Pathways serialized: ") for line in lines[:2]), lines
    assert lines[2].startswith("FAILED_PRECONDITION: another version of Pathways serialized this executable"), lines
