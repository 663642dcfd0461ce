"""A host is killed and returns while a program runs: the program uses it again, by the same jax.Device objects and the same jitted functions."""

import pytest
from cli import PATIENCE
from seats import Host, Program, hosts_of

# Reads the names of device uses, and prints for each "well" or its error.
PROGRAM = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = jax.devices()
lost = [d for d in devices if d.host == "victim"]
mesh_of_lost, mesh_of_first = (Mesh(np.array(d), ("x",)) for d in (lost, devices[:2]))
mesh = Mesh(np.array([d for d in devices if d.island == lost[0].island]), ("x",))
double = jax.jit(lambda x: x * 2)
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
on_lost = jax.device_put(np.float32(5), lost[0])
on_first = jax.device_put(np.float32(6), devices[0])

def use():
    here = double(jax.device_put(np.arange(4.0), NamedSharding(mesh_of_lost, P("x"))))
    np.testing.assert_array_equal(np.asarray(here), np.arange(4.0) * 2)
    np.testing.assert_array_equal(np.asarray(jax.device_put(here, NamedSharding(mesh_of_first, P("x")))), np.arange(4.0) * 2)
    assert float(total(jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))).sum()) == 28

def new():  # compiles a program that it has not had before
    global constant
    constant += 1
    assert float(jax.jit(lambda x: x + constant)(jax.device_put(np.float32(1), lost[1]))) == 1 + constant

def old():
    assert float(on_lost) == 5

def kept():
    assert float(double(on_first)) == 12

constant = 0
for line in sys.stdin:
    try:
        {"use": use, "new": new, "old": old, "kept": kept}[line.strip()]()
        print("well", flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
"""


@pytest.mark.parametrize("island", ["far", "island0"], ids=["an island of its own", "an island of two hosts"])
def test_a_host_that_returns_is_used_by_the_program_that_lost_it(command, tmp_path, island):
    up = command("up", "--devices", "2")
    victim = Host(command, up["address"], "victim", island, tmp_path)
    hosts_of(command, 2)
    program = Program(command, up["address"], PROGRAM)
    assert program.says("use") == "well"
    for _ in range(2):
        victim.kill()
        hosts_of(command, 1)
        for use in ("use", "old", "new"):
            said = program.says(use)
            assert said.startswith(f"DATA_LOSS: host 'victim' of island '{island}' is gone since "), said
            assert "; waiting for a host to take its seat" in said, said
        assert program.says("kept") == "well"
        victim.start()
        program.comes_to_say("use", "well")
        assert program.says("new") == "well"
        assert program.says("old").startswith("DATA_LOSS: host 'victim'"), "arrays stay lost"
    program.end()
    victim.end()


# pathwaysutils' elastic training, unchanged: one data-parallel replica for each slice, and all state in host memory of the program.
ELASTIC = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from pathwaysutils.elastic import manager as m

manager = m.Manager()
step, state, story = 0, np.zeros(4, np.float32), []

@manager.elastic_retry(minimum_slice_count=2, poll_interval=0.05)
def train():
    global step, state
    devices = [d for i in sorted(manager.active_slice_indices) for d in manager.slice_to_devices[i]]
    mesh = Mesh(np.array(devices), ("data",))
    story.append(len(manager.active_slice_indices))
    print("SLICES", len(manager.active_slice_indices), "at", step, flush=True)

    @jax.jit
    def update(state, batch):
        return state + batch.mean(axis=0)

    while step < 10_000:
        if manager.available_inactive_slices:
            raise m.ScaleUpSignalError("a slice is back")
        batch = np.tile(np.arange(4.0, dtype=np.float32) + step % 3, (12, 1))
        placed = jax.device_put(batch, NamedSharding(mesh, P("data")))
        new = np.asarray(update(jax.device_put(state, NamedSharding(mesh, P())), placed))
        state, step = new, step + 1
        if step % 3 == 0 and story[-3:] == [3, 2, 3]:
            break
    np.testing.assert_allclose(state, sum(np.arange(4.0) + i % 3 for i in range(step)), rtol=1e-5)

train()
print("DONE", story, flush=True)
"""


def test_elastic_training_of_pathwaysutils_outlives_a_host_and_uses_it_again(command, tmp_path):
    pytest.importorskip("pathwaysutils.elastic.manager", reason="pathwaysutils is not installed")
    up = command("up", "--devices", "2")
    hosts = {name: Host(command, up["address"], name, name, tmp_path) for name in "bc"}
    hosts_of(command, 3)
    program = command.program(up["address"], ELASTIC)
    assert program.stdout.readline().startswith("SLICES 3 "), program.communicate()
    hosts["c"].kill()
    assert program.stdout.readline().startswith("SLICES 2 "), program.communicate()
    hosts["c"].start()
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0 and "DONE [3, 2, 3]" in out, out + err
    for host in hosts.values():
        host.end()
