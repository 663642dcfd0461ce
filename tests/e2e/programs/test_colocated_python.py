"""Colocated Python: functions run on the hosts of their devices, in one process for each host and session, and never in the client.

The cluster has two hosts of four devices.
"""

import os
import pathlib
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
from conftest import PATIENCE, ROOT, clean_environment, eventually
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pathways._cluster import admin, command_lines, local, records
from pathways._cluster.shape import Shape

colocated_python = pytest.importorskip("jax.experimental.colocated_python")
if jax.__version_info__ < (0, 9, 1):
    pytest.skip("hosts run colocated functions with jax 0.9.1 or newer", allow_module_level=True)
if os.environ.get("PATHWAYS_DOOR") == "pjrt":
    pytest.skip("colocated functions do not go through the PJRT door", allow_module_level=True)


def on(devices, spec=P("x")):
    return NamedSharding(Mesh(np.array(devices), ("x",)), spec)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


@colocated_python.colocated_python
def pids(x):
    """Returns the process's id on each shard."""
    import os

    import jax
    import numpy as np

    shards = [jax.device_put(np.full(s.data.shape, os.getpid(), np.int32), s.device) for s in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, shards)


def pids_of(x):
    return sorted({int(n) for n in np.asarray(pids.specialize(out_specs_fn=like)(x))})


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_each_host_has_one_process_that_its_worker_started(devices):
    x = jax.device_put(np.zeros(8, np.int32), on(devices))
    found = np.asarray(pids.specialize(out_specs_fn=like)(x))
    assert len(set(found[:4])) == 1 and len(set(found[4:])) == 1 and found[0] != found[4]
    assert os.getpid() not in found
    for pid in set(found.tolist()):
        assert b"pathways-worker" in pathlib.Path(f"/proc/{parent_of(pid)}/cmdline").read_bytes()
    assert pids_of(x) == sorted(set(found.tolist())), "they stay for the life of the session"


def test_a_function_without_specs_runs_once_to_learn_them_and_then_asynchronously(devices):
    x = jax.device_put(np.arange(4, dtype=np.float32), devices[0])
    calls = []

    @colocated_python.colocated_python
    def count(x):
        import builtins

        builtins.counted = getattr(builtins, "counted", 0) + 1
        return {"sum": x + builtins.counted, "pid": x * 0 + os.getpid()}

    for i in (1, 2, 3):
        calls.append(count(x))
        np.testing.assert_array_equal(np.asarray(calls[-1]["sum"]), np.arange(4) + i)
    assert {float(c["pid"][0]) for c in calls} == {float(p) for p in pids_of(jax.device_put(np.zeros(1, np.int32), on(devices[:1])))}


def test_computations_and_colocated_functions_feed_each_other(devices):
    x = jax.device_put(np.arange(8, dtype=np.float32), on(devices[:4]))
    add = colocated_python.colocated_python(
        lambda x: jax.make_array_from_single_device_arrays(x.shape, x.sharding, [s.data + 1 for s in x.addressable_shards]))
    add = add.specialize(out_specs_fn=like)
    twice = jax.jit(lambda x: x * 2)
    expected = np.arange(8, dtype=np.float32)
    for _ in range(10):
        x, expected = twice(add(x)), (expected + 1) * 2
    np.testing.assert_array_equal(np.asarray(x), expected)


def test_types_and_sizes_keep_their_bytes(devices):
    arrays = [np.arange(24, dtype=np.int8).reshape(2, 3, 4), np.array(7, np.uint32), np.array([], np.float32), np.array([True, False]),
              np.array([1, 2], jax.numpy.bfloat16), np.array([1 + 2j], np.complex64), np.arange(3 << 20, dtype=np.float32)]
    placed = jax.device_put(arrays, devices[5])
    out = colocated_python.colocated_python(lambda *xs: xs).specialize(out_specs_fn=lambda *specs: specs)(*placed)
    for sent, came in zip(arrays, out, strict=True):
        assert came.devices() == {devices[5]}
        np.testing.assert_array_equal(np.asarray(came), sent)


def test_an_exception_has_the_remote_traceback_and_poisons_what_depends_on_it(devices):
    x = jax.device_put(np.ones(4, np.float32), devices[4])

    def explode(x):
        raise ZeroDivisionError("on purpose")

    y = colocated_python.colocated_python(explode).specialize(out_specs_fn=like)(x)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        np.asarray(jax.jit(lambda v: v + 1)(y))
    text = str(caught.value)
    assert "ZeroDivisionError: on purpose" in text and "in explode" in text and "test_colocated_python.py" in text
    assert "of island 'island1'" in text, "the host"
    np.testing.assert_array_equal(np.asarray(x), np.ones(4))


def test_streams_run_at_the_same_time_and_each_in_its_order(devices):
    x = jax.device_put(np.ones(1, np.float32), devices[0])

    def meet(x):
        import builtins
        import threading

        if not hasattr(builtins, "meeting"):
            builtins.meeting = threading.Barrier(3)
        builtins.meeting.wait(60)
        return x

    meet = colocated_python.colocated_python(meet).specialize(out_specs_fn=like)
    failed = []

    def call():
        try:
            meet(x).block_until_ready()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failed

    def append(x):
        import builtins

        builtins.order = [*getattr(builtins, "order", []), float(x[0])]
        return x + len(builtins.order)

    append = colocated_python.colocated_python(append).specialize(out_specs_fn=like)
    results = [append(x * i) for i in range(20)]
    assert [float(r[0]) for r in results] == [2 * i + 1 for i in range(20)]


def test_modules_of_the_program_are_there_on_the_hosts(devices):
    import colocated_helper

    x = jax.device_put(np.arange(4, dtype=np.float32), devices[4])
    y = colocated_python.colocated_python(colocated_helper.scaled)(x)
    np.testing.assert_array_equal(np.asarray(y), 3 * np.arange(4))


def test_a_wide_type_stays_wide_and_another_configuration_stays_the_clients(devices):
    with jax.enable_x64(True):
        x = jax.device_put(np.array([1 << 40], np.int64), devices[0])
        y = colocated_python.colocated_python(lambda x: x + 1).specialize(out_specs_fn=like)(x)
        assert int(y[0]) == (1 << 40) + 1


def test_devices_in_another_order_are_taken_as_they_are_named(devices):
    forth, back = on(devices[:4]), on(devices[:4][::-1])
    x, y = jax.device_put(np.arange(4, dtype=np.int32), forth), jax.device_put(np.arange(4, dtype=np.int32), back)
    first, second = colocated_python.colocated_python(lambda x, y: (x, y)).specialize(devices=devices[:4], out_specs_fn=lambda x, y: (x, y))(x, y)
    np.testing.assert_array_equal(np.asarray(first), np.arange(4))
    np.testing.assert_array_equal(np.asarray(second), np.arange(4))
    assert second.sharding.is_equivalent_to(back, 1)


def test_an_object_lives_on_the_hosts_until_its_owner_drops_it(devices, tmp_path):
    x = jax.device_put(np.array([5.0], np.float32), devices[0])
    note = tmp_path / "note"

    @colocated_python.colocated_python_class
    class Counter:
        def __init__(self, path):
            self.path, self.total = path, 0

        def __del__(self):
            with open(self.path, "a") as file:
                file.write(f"gone {os.getpid()}\n")

        def add(self, x):
            self.total += x
            return self.total

    counter = Counter(str(note))
    assert [float(counter.add(x)[0]) for _ in range(3)] == [5, 10, 15]
    assert not note.exists()
    del counter
    assert eventually(lambda: note.exists() and note.read_text().endswith("\n"))
    assert note.read_text().split()[1] != str(os.getpid())


FLAGS = """
import jax, numpy as np
from absl import flags
from jax.experimental import colocated_python
import later, settings
flags.FLAGS(["program", *WORDS])

@colocated_python.colocated_python
def scaled(x):
    import later  # the host has not, until now
    return x * settings.SCALE.value + later.MORE.value + len(flags.FLAGS.names)

print(int(scaled(jax.device_put(np.int32(2), jax.devices()[0]))), int(scaled(jax.device_put(np.int32(3), jax.devices()[0]))))
"""


@pytest.mark.parametrize("words, printed", [((), "21 31"), (("--scale=5", "--names=a b", "--names=c"), "13 18"), (("--more=4",), "24 34")])
def test_flags_of_the_program_have_its_values_on_the_hosts(run_script, tmp_path, words, printed):
    (tmp_path / "settings.py").write_text('from absl import flags\nSCALE = flags.DEFINE_integer("scale", 10, "")\nflags.DEFINE_multi_string("names", [], "")\n')
    (tmp_path / "later.py").write_text('from absl import flags\nMORE = flags.DEFINE_integer("more", 1, "")\n')
    done = run_script(FLAGS.replace("WORDS", repr(words)), timeout=PATIENCE, PATHWAYS_LOCAL="1x2x1", PATHWAYS_DOOR="ifrt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == printed, done.stdout


PRINTS = """
import os, sys, jax, numpy as np
from jax.experimental import colocated_python
x = jax.device_put(np.zeros(2, np.float32), jax.devices()[0])
def speak(x):
    print("spoken on the host by", os.getpid())
    return x + os.getpid()
y = colocated_python.colocated_python(speak).specialize(out_specs_fn=lambda x: x)(x)
print("pid", int(y[0]), os.getpid(), flush=True)
sys.stdin.read()
"""


def test_what_a_function_prints_reaches_the_clients_terminal_and_its_end_ends_the_processes(tmp_path):
    program = subprocess.Popen([sys.executable, "-c", PRINTS], env=clean_environment(PATHWAYS_LOCAL="1x1x2"), cwd=tmp_path, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    theirs, own = (int(n) for n in program.stdout.readline().split()[1:])
    assert theirs != own
    line = next(line for line in program.stderr if "spoken" in line)
    assert line.startswith("(host 'host0'") and line.strip().endswith(f"spoken on the host by {theirs}")
    program.kill()  # kill -9
    program.wait()
    program.stderr.close()
    assert eventually(lambda: records.start_time(theirs) is None)


BYTES = """
import jax, numpy as np
from jax.experimental import colocated_python
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
zeros = jax.jit(lambda: jax.numpy.zeros((64 << 20,), np.float32), out_shardings=sharding)()
def fill(x):
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, [s.data + 1 for s in x.addressable_shards])
x = colocated_python.colocated_python(fill).specialize(out_specs_fn=lambda x: x)(zeros)
total = jax.jit(lambda x: x.reshape(-1, 1 << 20).sum(1), out_shardings=NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x")))(x)
assert np.array_equal(np.asarray(total), np.full(64, 1 << 20)), total
"""


def test_no_byte_of_an_array_passes_controller_or_client(run_script, tmp_path):
    cluster = local.Cluster(Shape.parse("2x1x1"), tmp_path, host_python=command_lines.HostPython(sys.executable)).start()
    try:
        done = run_script(BYTES, timeout=PATIENCE, PATHWAYS_ADDRESS=cluster.address)
        assert done.returncode == 0, done.stderr
        status = admin.status(cluster.address)
        assert status["array_bytes"] < 10_000
    finally:
        cluster.stop()


IDENTITY = """
import jax, numpy as np
from jax.experimental import colocated_python
x = jax.device_put(np.zeros(2), jax.devices()[0])
colocated_python.colocated_python(lambda x: x)(x)
"""


def test_a_cluster_at_an_address_refuses_functions_unless_its_operator_allows_them(run_as_operator):
    done = run_as_operator(IDENTITY, "1x1x1")
    assert done.returncode != 0
    assert "PERMISSION_DENIED" in done.stderr and "host 'host0' of island 'island0' runs no Python functions" in done.stderr
    assert "--host-python" in done.stderr


def test_the_other_door_says_which_one_to_take(run_script):
    done = run_script(IDENTITY, timeout=PATIENCE, PATHWAYS_DOOR="pjrt")
    assert done.returncode != 0 and "set PATHWAYS_DOOR=ifrt" in done.stderr
