"""Hosts save arrays to files and load them, by the requests of Google's pathwaysutils and Orbax. Each host writes its own tiles; one commit makes
them visible. No array byte passes through the controller or the client's agent."""

import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import clean_environment

from pathways._cluster import admin, command_lines, local
from pathways._cluster.shape import Shape

MIB = 1 << 20
pytestmark = pytest.mark.skipif(importlib.util.find_spec("pathwaysutils") is None, reason="pathwaysutils is not installed")

PRELUDE = """
import datetime, sys
import jax, numpy as np, jax.numpy as jnp, pathwaysutils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from pathwaysutils.persistence import helper

LOCATION, TIMEOUT = sys.argv[1], datetime.timedelta(seconds=120)
pathwaysutils.initialize()  # recognises JAX_PLATFORMS=proxy alone
DEVICES = jax.devices()

def over(spec, devices=DEVICES, shape=None, names=("x",)):
    return NamedSharding(Mesh(np.array(devices).reshape(shape or (len(devices),)), names), spec)

def save(location=LOCATION, **arrays):
    helper.write_arrays(location, list(arrays), list(arrays.values()), TIMEOUT).result()

def start_load(location=LOCATION, **like):
    devices = next(iter(like.values())).sharding.mesh.devices
    return helper.read_arrays(location, list(like), [a.dtype for a in like.values()], [a.shape for a in like.values()],
                              [a.sharding for a in like.values()], devices, TIMEOUT)

def load(location=LOCATION, **like):
    arrays, done = start_load(location, **like)
    done.result()
    return arrays

def like(array, sharding):
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

def error_of(function):
    try:
        function()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Starts a cluster of two islands, with one host of two devices each."""
    monkeypatch.setenv("PATHWAYS_PERSISTENCE_DIRECTORY", str(tmp_path))
    cluster = local.Cluster(Shape.parse("2x1x2"), tmp_path, heartbeat="100s").start()
    yield cluster
    cluster.stop()


def program(cluster, location, code, **env):
    """Starts a program; `end` reads its standard output and errors."""
    return subprocess.Popen([sys.executable, "-c", PRELUDE + code, str(location)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=clean_environment(PATHWAYS_ADDRESS=cluster.address, **env))


def go_on(child):
    """Lets a program that waits for a line go on."""
    child.stdin.write("\n")
    child.stdin.flush()


def end(child):
    out, err = child.communicate(timeout=240)
    assert child.returncode == 0, err
    return out


def run(cluster, location, code, **env):
    return end(program(cluster, location, code, **env))


def worker(cluster, host):
    (process,) = [p for p in cluster.processes if p.name == f"pathways-worker {host}"]
    return process


def wait_until(condition, what):
    limit = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.05)


SAVED = """
VALUES = {
    "rows": np.arange(4 << 20, dtype=np.float32).reshape(1024, -1),
    "both": np.arange(36, dtype=np.int32).reshape(6, 6),
    "uneven": np.arange(35, dtype=np.uint8).reshape(7, 5),
    "deep.name": np.arange(16).astype(jnp.bfloat16),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 4), np.float32),
}
MESH = dict(shape=(2, 2), names=("a", "b"))
WHERE = {"rows": over(P(("a", "b")), **MESH), "both": over(P(None, "b"), **MESH), "uneven": over(P(), **MESH), "deep.name": over(P("a"), **MESH),
         "scalar": over(P(), **MESH), "empty": over(P(), **MESH)}
"""


def test_arrays_of_two_islands_come_back_in_another_mesh(cluster, tmp_path):
    location = tmp_path / "checkpoint"
    out = run(cluster, location, SAVED + """
import json
from pathways._client import questions

def bytes_so_far():
    report = questions.ask(DEVICES[0].client, {"statusRequest": {}})
    return report["client_array_bytes"], report["array_bytes"]

arrays = {name: jax.device_put(value, WHERE[name]) for name, value in VALUES.items()}
jax.block_until_ready(arrays)
before = bytes_so_far()
save(**arrays)
turned = over(P("x"), DEVICES[::-1])
others = {"rows": over(P(None, "x"), DEVICES[::-1]), "both": over(P(), DEVICES[::-1]), "uneven": over(P(), DEVICES[::-1]), "deep.name": turned,
          "scalar": over(P(), DEVICES[::-1]), "empty": over(P(), DEVICES[::-1])}
loaded = dict(zip(VALUES, load(**{name: like(arrays[name], others[name]) for name in VALUES})))
jax.block_until_ready(loaded)
after = bytes_so_far()
for name, value in VALUES.items():
    assert loaded[name].sharding == others[name], name
    np.testing.assert_array_equal(np.asarray(loaded[name]), value)
print(json.dumps([before, after]))
""")
    (client_before, controller_before), (client_after, controller_after) = json.loads(out)
    assert client_before >= 16 * MIB  # the agent has put them
    assert client_after - client_before < 100_000  # the answers to the status requests
    assert controller_after - controller_before < 100_000
    files = {name: sorted(f.name for f in (location / name).iterdir() if f.name != ".zarray") for name in ("rows", "both", "uneven", "scalar", "empty")}
    assert files == {"rows": ["0.0", "1.0", "2.0", "3.0"], "both": ["0.0", "0.1"], "uneven": ["0.0"], "scalar": ["0"], "empty": []}
    assert sorted(f.name for f in location.iterdir()) == sorted(["rows", "both", "uneven", "deep.name", "scalar", "empty"])  # nothing else stays


def test_each_tile_is_written_by_one_host_that_has_it(cluster, tmp_path):
    """The hosts divide the replicated tiles among themselves: with one host stopped, only the tiles of the other are on the disk."""
    location, stopped = tmp_path / "checkpoint", worker(cluster, "host1")
    child = program(cluster, location, """
a = jax.device_put(np.zeros((8, 8), np.float32), over(P(None, "b"), shape=(2, 2), names=("a", "b")))
b = jax.device_put(np.ones((8,), np.float32), over(P("x")))
jax.block_until_ready([a, b])
print("ready", flush=True)
sys.stdin.readline()
save(a=a, b=b)
""")
    assert child.stdout.readline() == "ready\n"
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        go_on(child)
        wait_until(lambda: list(location.glob(".pathways-save-*/hosts/*")), "host0 wrote nothing")
        wait_until(lambda: len(list(location.glob(".pathways-save-*/arrays/b/?"))) == 2, "host0 did not write its tiles of b")
        by_first = sorted(f.name for f in location.glob(".pathways-save-*/arrays/a/*.*") if f.suffix != ".unfinished")
        assert by_first == ["0.0"], by_first  # both hosts have 0.0 and 0.1
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    end(child)
    assert sorted(f.name for f in (location / "a").iterdir()) == [".zarray", "0.0", "0.1"]


@pytest.mark.parametrize("victim", ["pathways-worker host1", "pathways-controller"])
def test_a_process_that_is_killed_in_a_save_leaves_the_last_checkpoint(cluster, tmp_path, monkeypatch, victim):
    """Stops one host, so that the save cannot end, and kills a process when the other host has written its part."""
    location, stopped = tmp_path / "checkpoint", worker(cluster, "host1")
    run(cluster, location, "save(w=jax.device_put(np.full(64, 1.0, np.float32), over(P('x'))))")
    child = program(cluster, location, """
w = jax.block_until_ready(jax.device_put(np.full(64, 2.0, np.float32), over(P('x'))))
print("ready", flush=True)
sys.stdin.readline()
print(error_of(lambda: save(w=w)))
""")
    assert child.stdout.readline() == "ready\n"
    os.kill(stopped.pid, signal.SIGSTOP)
    go_on(child)
    wait_until(lambda: list(location.glob(".pathways-save-*/hosts/*")), "host0 wrote nothing")
    (process,) = [p for p in cluster.processes if p.name == victim]
    os.kill(process.pid, signal.SIGKILL)
    if process is not stopped:
        os.kill(stopped.pid, signal.SIGKILL)
    error = end(child)
    if victim == "pathways-worker host1":
        assert "nothing was saved" in error and "host1" in error, error
        assert [f.name for f in location.iterdir()] == ["w"], "the host that is left removes what was written"
        value = run(cluster, location, "print(float(load(w=like(np.zeros(64, np.float32), over(P('x'), DEVICES[:2])))[0].sum()))")
    else:
        again = tmp_path / "again"
        again.mkdir()
        other = local.Cluster(Shape.parse("1x1x2"), again).start()
        try:
            value = run(other, location, "print(float(load(w=like(np.zeros(64, np.float32), over(P('x'))))[0].sum()))")
        finally:
            other.stop()
    assert float(value) == 64.0


def test_hosts_that_do_not_share_the_files_are_named(tmp_path, monkeypatch):
    folders = iter([tmp_path / "a", tmp_path / "b"])
    monkeypatch.setattr(command_lines, "_client_files", lambda here, users=False: ["--object-directory", next(folders)])
    cluster = local.Cluster(Shape.parse("2x1x1"), tmp_path)
    cluster.start()
    try:
        out = run(cluster, "gs://bucket/checkpoint", """
w = jax.device_put(np.arange(4.0, dtype=np.float32), over(P("x")))
print(error_of(lambda: save(w=w)))
one = jax.device_put(w, DEVICES[0])
save(w=jax.device_put(w, over(P("x"), DEVICES[:1])))
arrays, done = start_load(w=like(w, over(P("x"))))
print(error_of(done.result))
print(error_of(lambda: np.asarray(arrays[0])))
np.testing.assert_array_equal(np.asarray(load(w=like(w, over(P("x"), DEVICES[:1])))[0]), np.arange(4.0))
print("and goes on:", float(w.sum()))
""")
    finally:
        cluster.stop()
    saving, loading, array, last = out.splitlines()
    for error in (saving, loading, array):
        assert "host 'host1' of island 'island1'" in error and "gs/bucket/checkpoint" in error and "mount one file system there on all hosts" in error.lower(), error
    assert "do not share" in saving and "nothing was saved" in saving
    assert last == "and goes on: 6.0"
    assert not list(itertools.chain(tmp_path.glob("a/**/.pathways-save-*"), tmp_path.glob("b/**/.pathways-save-*")))


def test_errors_are_values(cluster, tmp_path):
    """Tests names that the operator does not allow, links, and arrays that failed."""
    (tmp_path / "link").symlink_to("/tmp")
    out = run(cluster, tmp_path / "checkpoint", """
w = jax.device_put(np.arange(8.0, dtype=np.float32), over(P("x")))
print(error_of(lambda: save("/etc/checkpoint", w=w)))
print(error_of(lambda: save(LOCATION.replace("checkpoint", "link/x"), w=w)))
print(error_of(lambda: save(**{"../w": w})))
print(error_of(lambda: load(nothing=like(w, w.sharding))))
save(w=w)
print(error_of(lambda: load(w=like(np.zeros(9, np.float32), over(P())))))
np.testing.assert_array_equal(np.asarray(load(w=like(w, w.sharding))[0]), np.arange(8.0))
""")
    outside, link, name, nothing, shape = out.splitlines()
    assert "clients may not use /etc/checkpoint" in outside and "--persistence-directory" in outside
    assert "symbolic link" in link
    assert "'../w' cannot be the name of an array" in name
    assert "does not exist" in nothing
    assert "another type or shape" in shape


ORBAX = """
import os
import orbax.checkpoint as ocp
mesh = Mesh(np.array(DEVICES).reshape(2, 2), ("a", "b"))
state = {"w": jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, P("a", "b"))),
         "deep": {"b": jax.device_put(np.arange(8, dtype=np.int32), NamedSharding(mesh, P()))}}
handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=False)
"""

# Restores the same state in a process of jax alone, without a cluster, onto its own device.
IN_PROCESS = """
import sys, jax, numpy as np, orbax.checkpoint as ocp
here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
like = {"w": ocp.ArrayRestoreArgs(sharding=here), "deep": {"b": ocp.ArrayRestoreArgs(sharding=here)}}
state = ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(sys.argv[1], args=ocp.args.PyTreeRestore(restore_args=like))
assert state["w"].sharding == here and jax.devices()[0].platform == "cpu"
np.testing.assert_array_equal(np.asarray(state["w"]), np.arange(64, dtype=np.float32).reshape(8, 8))
np.testing.assert_array_equal(np.asarray(state["deep"]["b"]), np.arange(8, dtype=np.int32))
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the newest Orbax needs Python 3.12")
def test_orbax_reads_in_process_what_it_had_the_hosts_write(tmp_path, monkeypatch):
    monkeypatch.setenv("PATHWAYS_PERSISTENCE_DIRECTORY", str(tmp_path))
    location = tmp_path / "orbax"
    cluster = local.Cluster(Shape.parse("2x1x2"), tmp_path, listen_proxy="127.0.0.1:0").start()
    try:
        run(cluster, location, ORBAX + """
with ocp.Checkpointer(handler) as saver:
    saver.save(LOCATION, state)
assert not os.path.exists(LOCATION + "/d"), "Orbax wrote by itself"
reader = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=False))
columns = jax.tree.map(lambda a: ocp.ArrayRestoreArgs(sharding=NamedSharding(mesh, P("b") if a.ndim == 1 else P("b", "a")),
                                                      global_shape=a.shape, dtype=a.dtype), state)
again = reader.restore(LOCATION, args=ocp.args.PyTreeRestore(restore_args=columns))
for mine, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(state)):
    np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
""", JAX_PLATFORMS="proxy", JAX_BACKEND_TARGET=f"grpc://{cluster.proxy_address}", IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true",
            ENABLE_PATHWAYS_PERSISTENCE="1")
        assert admin.status(cluster.address)["array_bytes"] < 100_000
    finally:
        cluster.stop()
    done = subprocess.run([sys.executable, "-c", IN_PROCESS, str(location)], env=clean_environment(JAX_PLATFORMS="cpu"), capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == 0, done.stderr


def test_tensorstore_reads_them_as_zarr(cluster, tmp_path):
    tensorstore = pytest.importorskip("tensorstore")
    location = tmp_path / "checkpoint"
    run(cluster, location, SAVED + "save(**{name: jax.device_put(value, WHERE[name]) for name, value in VALUES.items()})")
    for name, value in {"rows": np.arange(4 << 20, dtype=np.float32).reshape(1024, -1), "uneven": np.arange(35, dtype=np.uint8).reshape(7, 5),
                        "scalar": np.float32(2.5)}.items():
        stored = tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(location / name)}}).result().read().result()
        np.testing.assert_array_equal(stored, value)
