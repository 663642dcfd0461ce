"""A program reads the same words wherever it meets the loss of a host: the host, the time of the loss, and the next event."""

import re

from seats import Host, Program, hosts_of

WORDS = re.compile(r"DATA_LOSS: host 'victim' of island 'island0' is gone since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; waiting for a host to take its seat\b")

# Runs on an island of two hosts, of which one is lost. Reads the names of ways to meet the loss, and prints for each "well" or its error.
PROGRAM = """
import sys, threading
import jax, numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = pw.seats()
here, lost = ([d for d in devices if (d.host == "victim") == at_victim] for at_victim in (False, True))
assert len(here) == len(lost) == 2
mesh, mesh_here = Mesh(np.array(here + lost), ("x",)), Mesh(np.array(here), ("x",))
spread = NamedSharding(mesh, P("x"))
double = jax.jit(lambda x: x * 2)
giving = jax.jit(lambda x: x * 2, donate_argnums=0)
total = jax.jit(jax.shard_map(lambda v: v + jax.lax.psum(v, "x") * 0.5, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
replicated = jax.jit(lambda v: v.sum(), out_shardings=NamedSharding(mesh, P()))
call = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v), jax.ShapeDtypeStruct((), np.float32), x))
started, go_on = threading.Event(), threading.Event()
slow = jax.jit(lambda x: jax.pure_callback(lambda v: (started.set(), go_on.wait(), np.asarray(v))[2], jax.ShapeDtypeStruct((), np.float32), x))
first = jax.device_put(np.float32(6), here[0])

def prepare():
    global there, given, rows, calling, program_of_two
    there, given = (jax.device_put(np.float32(5), lost[0]) for _ in range(2))
    rows = jax.device_put(np.arange(8, dtype=np.float32), spread)
    jax.block_until_ready((there, given, rows, double(there), giving(jax.device_put(np.float32(5), lost[0])), total(rows), replicated(rows), call(there)))
    started.clear(), go_on.clear()
    calling = slow(there)
    started.wait()
    print("prepared", flush=True)

def run():  # many collectives and transfers, one after the other, under which the host is killed
    print("running", flush=True)
    value = rows
    for _ in range(100_000):
        value = total(value)
        moved = jax.device_put(value, NamedSharding(mesh, P()))
        alone = double(jax.device_put(moved.addressable_shards[0].data, here[0]))
        np.asarray(alone)

ways = {
    "fetch": lambda: np.asarray(there),
    "wait": lambda: there.block_until_ready(),
    "copy from there": lambda: np.asarray(jax.device_put(there, here[0])),
    "copy to there": lambda: np.asarray(jax.device_put(first, lost[0])),
    "put": lambda: np.asarray(jax.device_put(np.float32(1), lost[1])),
    "reshard": lambda: np.asarray(jax.device_put(rows, NamedSharding(mesh_here, P("x")))),
    "a shard": lambda: np.asarray([s for s in rows.addressable_shards if s.device in lost][0].data),
    "compute": lambda: np.asarray(double(there)),
    "collective": lambda: np.asarray(total(rows)),
    "collective on new data": lambda: np.asarray(total(jax.device_put(np.arange(8, dtype=np.float32), spread))),
    "what is derived": lambda: float(double(jax.device_put(replicated(rows), here[0]))),
    "donate": lambda: np.asarray(giving(given)),
    "call Python": lambda: np.asarray(call(there)),
    "a call under way": lambda: np.asarray(calling),
    "a new program": lambda: np.asarray(jax.jit(lambda x: x + 7)(there)),
    "run": run,
    "kept": lambda: float(double(first)),
}
for line in sys.stdin:
    line = line.strip()
    if line == "prepare":
        prepare()
        continue
    if line == "how many are listed":
        print(len(jax.devices()), flush=True)
        continue
    try:
        ways[line]()
        print("well", flush=True)
    except jax.errors.JaxRuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
    if line == "kept":
        go_on.set()
"""

WAYS = ["fetch", "wait", "copy from there", "copy to there", "put", "reshard", "a shard", "compute", "collective", "collective on new data",
        "what is derived", "donate", "call Python", "a call under way", "a new program"]


def test_all_ways_to_meet_a_loss_say_the_same_words(command, tmp_path):
    up = command("up", "--devices", "2")
    victim = Host(command, up["address"], "victim", "island0", tmp_path)
    hosts_of(command, 2)
    program = Program(command, up["address"], PROGRAM)
    assert program.says("prepare") == "prepared"
    victim.kill()
    wrong = {way: said for way in WAYS if not WORDS.match(said := program.says(way))}
    assert program.says("kept") == "well"
    assert not wrong
    late = Program(command, up["address"], PROGRAM)  # opened while the seat is empty
    assert late.says("how many are listed") == "2", "those that work, for a program that is not elastic"
    assert WORDS.match(late.says("put"))
    assert WORDS.match(late.says("collective on new data"))
    victim.start()
    for one in (program, late):
        one.comes_to_say("put", "well")
        assert one.says("collective on new data") == "well"
        one.end()
    victim.end()


def test_a_collective_that_ends_with_a_host_says_the_same_words(command, tmp_path):
    """Here the other host of the collective often notices the loss before the controller does."""
    up = command("up", "--devices", "2")
    victim = Host(command, up["address"], "victim", "island0", tmp_path)
    hosts_of(command, 2)
    program = Program(command, up["address"], PROGRAM)
    for _ in range(5):
        program.comes_to_say("collective on new data", "well")
        assert program.says("prepare") == "prepared"
        assert program.says("run") == "running"
        victim.kill()
        assert WORDS.match(said := program.answer()), said
        assert program.says("kept") == "well"
        victim.start()
    program.end()
    victim.end()
