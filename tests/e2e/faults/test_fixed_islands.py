"""An island whose hosts are one world from their start, as islands of GPUs are: a host is killed and comes back, and others cannot be started without it."""

import re
import signal

from cli import PATIENCE, end
from conftest import eventually
from seats import Host, Program, hosts_of

# Prints for each line that it reads "well", or the error.
PROGRAM = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
for line in sys.stdin:
    try:
        assert float(total(jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))).sum()) == 28
        print("well", flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
"""
HOSTS = 2
WORLD = re.compile(r"is process \d of 2 of the world of its island \((\w+)\)")


def island(command, up, folder, names):
    return [Host(command, up["address"], name, "island0", folder, more=("--island-hosts", str(HOSTS))) for name in names]


def test_a_host_that_is_killed_comes_back_and_the_island_forms_anew(command, tmp_path):
    up = command("up", "--no-workers", "--hosts", str(HOSTS))
    survivor, victim = island(command, up, tmp_path, ("a", "b"))
    hosts_of(command, HOSTS)
    program = Program(command, up["address"], PROGRAM)
    assert program.says("use") == "well"
    pid = survivor.process.pid
    victim.kill()
    hosts_of(command, 1)
    said = program.says("use")
    assert said.startswith("DATA_LOSS: host 'b' of island 'island0' is gone since "), said
    victim.start()
    program.comes_to_say("use", "well")
    assert survivor.process.poll() is None and survivor.process.pid == pid, "it has started anew as the same process"
    log = (tmp_path / "a.log").read_text()
    assert "this worker frees everything, and starts anew" in log
    assert len(set(WORLD.findall(log))) == 2, log
    program.end()
    survivor.end()
    victim.end()


def test_a_host_that_dies_while_the_world_forms_is_named_with_the_key_that_it_owes(command, tmp_path):
    up = command("up", "--no-workers", "--hosts", str(HOSTS))
    (victim,) = island(command, up, tmp_path, ("b",))
    assert eventually(lambda: "waits for the other hosts of its island" in (tmp_path / "b.log").read_text(), PATIENCE)
    victim.process.send_signal(signal.SIGSTOP)  # it is a host of the world, and puts no value there
    (waiting,) = island(command, up, tmp_path, ("a",))
    log = tmp_path / "a.log"
    assert eventually(lambda: WORLD.search(log.read_text()), PATIENCE), log.read_text()
    victim.kill()
    assert waiting.process.wait(PATIENCE) == 1
    said = log.read_text()
    assert "cannot start its devices: host 'a' of island 'island0' waits in vain: the key 'pathways-cpu/world/1' gets no value any more" in said, said
    assert "host 'b' of island 'island0' is lost" in said, said
    again = island(command, up, tmp_path, ("a", "b"))
    hosts_of(command, HOSTS)
    program = Program(command, up["address"], PROGRAM)
    assert program.says("use") == "well"
    program.end()
    for host in again:
        host.end()


def test_two_workers_of_one_name_are_told_to_take_others(command, tmp_path):
    up = command("up", "--no-workers", "--hosts", str(HOSTS))
    (first,) = island(command, up, tmp_path, ("a",))
    assert eventually(lambda: "waits for the other hosts of its island" in (tmp_path / "a.log").read_text(), PATIENCE)
    (tmp_path / "second").mkdir()
    second = Host(command, up["address"], "a", "island0", tmp_path / "second", more=("--island-hosts", str(HOSTS)))
    assert second.process.wait(PATIENCE) == 1
    assert "another worker waits as host 'a' of island 'island0'" in (tmp_path / "second" / "a.log").read_text()
    assert first.process.poll() is None
    first.end()


def test_hosts_wait_for_the_others_of_their_island_and_can_be_stopped(command, tmp_path):
    up = command("up", "--no-workers", "--hosts", str(HOSTS))
    (alone,) = island(command, up, tmp_path, ("a",))
    log = tmp_path / "a.log"
    assert eventually(lambda: "waits for the other hosts of its island, which has 2" in log.read_text(), PATIENCE)
    assert end(alone.process, signal.SIGTERM) == 0
    disagreeing = [Host(command, up["address"], name, "island0", tmp_path, more=("--island-hosts", hosts)) for name, hosts in (("b", "2"), ("c", "3"))]
    assert eventually(lambda: any(host.process.poll() is not None for host in disagreeing), PATIENCE)
    said = "".join((tmp_path / f"{name}.log").read_text() for name in "bc")
    assert "give all its workers the same --island-hosts" in said, said
    for host in disagreeing:
        host.end()
