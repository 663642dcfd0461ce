"""Large arrays between a process and the door of its cluster go through shared memory, so that their bytes cross no socket."""

import os
import pathlib
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import clean_environment, eventually
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from test_device_put import client_bytes

from pathways._client import host_memory
from pathways._cluster import local
from pathways._cluster.shape import Shape

COUNT = 3 << 20  # more than either limit for every type below
FOLDER = pathlib.Path(f"/dev/shm/pathways-{os.getuid()}")

pytestmark = pytest.mark.skipif(host_memory.folder() is None, reason="/dev/shm is too small here for the default")


def crossed(function):
    before = client_bytes()
    result = function()
    return result, client_bytes() - before


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.int8, np.bool_, np.complex64, jnp.float8_e4m3fn, jnp.int4])
def test_values_of_every_kind_arrive_and_cross_no_socket(devices, dtype):
    host = (np.arange(COUNT) % 7 == 3).astype(dtype).reshape(3, -1)
    same = jax.jit(lambda v: v.T.T)
    np.asarray(same(jax.device_put(host, devices[5])))
    x, up = crossed(lambda: jax.block_until_ready(jax.device_put(host, devices[5])))
    y = jax.block_until_ready(same(x))  # an array that this process has never held
    back, down = crossed(lambda: np.asarray(y))
    assert back.dtype == host.dtype and not back.flags.writeable
    np.testing.assert_array_equal(back, host)
    assert up < 1 << 16 and down < 1 << 16


@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P()], ids=str)
def test_sharded_arrays_too(islands, spec):
    host = np.random.default_rng(0).random((2048, 2048), np.float32)
    sharding = NamedSharding(Mesh(np.array(islands[0]), "x"), spec)
    jax.device_get(jax.device_put(host, sharding) + 1)
    x, up = crossed(lambda: jax.block_until_ready(jax.device_put(host, sharding)))
    y = jax.block_until_ready(x + 1)
    back, down = crossed(lambda: jax.device_get(y))
    np.testing.assert_array_equal(back, host + 1)
    assert up < 1 << 17 and down < 1 << 17


def test_other_layouts_and_views(devices):
    host = np.arange(4 * COUNT, dtype=np.float32).reshape(4, -1)
    for view in (np.asfortranarray(host), host[:, ::2]):
        np.testing.assert_array_equal(np.asarray(jax.device_put(view, devices[0]) * 1), view)


def test_what_was_read_outlives_the_array(devices):
    x = jax.device_put(np.ones(COUNT, np.float32), devices[0]) + 1
    x.copy_to_host_async()
    host = np.asarray(x)
    assert np.asarray(x) is host or np.shares_memory(np.asarray(x), host), "jax keeps what it has read"
    x.delete()
    del x
    jax.block_until_ready(jax.device_put(np.zeros(COUNT, np.float32), devices[0]) + 1)
    assert (host == 2).all()


def test_an_error_is_the_computation_s_own(devices):
    def fail(v):
        raise ValueError("the reason")

    x = jax.device_put(np.ones(COUNT, np.float32), devices[0])
    y = jax.jit(lambda v: jax.pure_callback(fail, jax.ShapeDtypeStruct(v.shape, v.dtype), v))(x)
    with pytest.raises(Exception, match="the reason"):
        np.asarray(y)


PROGRAM = """
import jax, numpy as np, os
host = np.arange(4 << 20, dtype=np.float32)
x = jax.device_put(host, jax.devices()[0])
np.testing.assert_array_equal(np.asarray(x + 1), host + 1)
"""


def left_by(pid):
    return list(FOLDER.glob(f"client-{pid}-*"))


def run(code, **env):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM + code], env=clean_environment(PATHWAYS_DOOR="ifrt", **env),
                               stdout=subprocess.PIPE, text=True)
    try:
        return process, process.communicate(timeout=120)[0]
    finally:
        process.kill()


def test_a_process_leaves_nothing_behind():
    process, output = run("print(len(os.listdir(os.environ['IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY'])))")
    assert process.returncode == 0 and output == "0\n"
    assert not left_by(process.pid)


@pytest.mark.parametrize("shape", ["1x1x2", "2x1x1"])  # its door is the cluster; an agent
def test_nor_does_one_that_is_killed(shape):
    victim = subprocess.Popen([sys.executable, "-c", PROGRAM + "print('ready', flush=True)\nwhile True: jax.device_put(host, jax.devices()[0])"],
                              env=clean_environment(PATHWAYS_DOOR="ifrt", PATHWAYS_LOCAL=shape), stdout=subprocess.PIPE, text=True)
    try:
        assert victim.stdout.readline() == "ready\n"
        assert left_by(victim.pid)
    finally:
        victim.kill()
        victim.wait()
    assert eventually(lambda: not left_by(victim.pid))


UPLOADS = "import pathlib, sys; from pathways._client import host_memory as m; u = m.Uploads(pathlib.Path(sys.argv[1])); print(u.path.name, flush=True); "


@pytest.mark.skipif(os.getuid() != 0, reason="this user may not make namespaces of processes")
def test_folders_of_others_stay_where_their_processes_are_not_seen(tmp_path):
    """Containers of one user may share this memory without seeing each other's processes."""
    command = [sys.executable, "-c", UPLOADS + "sys.stdin.read()", str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        held = tmp_path / holder.stdout.readline().strip()
        other = ["unshare", "--pid", "--mount-proc", "--fork", *command]
        assert subprocess.run(other, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True).stdout
        assert held.is_dir()
    finally:
        holder.kill()
        holder.wait()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)
    assert not held.exists(), "its process has ended"


def test_it_can_be_switched_off():
    process, output = run("from pathways._client import host_memory as m; print(m._readers, m.Uploads._number)", PATHWAYS_SHARED_MEMORY="off")
    assert process.returncode == 0 and output == "{} None\n"


def test_a_connection_after_another_and_a_program_started_by_this_one():
    process, output = run(f"""
import jax.extend, subprocess, sys
subprocess.run([sys.executable, "-c", {PROGRAM!r}], check=True)
jax.clear_caches(); jax.extend.backend.clear_backends()
np.testing.assert_array_equal(np.asarray(jax.device_put(host, jax.devices()[0]) * 2), host * 2)
print("same")""")
    assert process.returncode == 0 and output == "same\n"


def test_so_do_programs_on_a_cluster_that_runs_by_itself(tmp_path):
    cluster = local.Cluster(Shape.parse("1x1x1"), tmp_path).start()
    try:
        process, output = run("from pathways._client import host_memory as m; print(len(m._readers), m.Uploads._number > 0)",
                              PATHWAYS_ADDRESS=cluster.address)
        assert process.returncode == 0 and output == "1 True\n"
    finally:
        cluster.stop()


def test_memory_that_is_small_or_nearly_full_is_not_used(monkeypatch):
    found = os.statvfs("/dev/shm")
    fields = {name: getattr(found, name) for name in dir(found) if name.startswith("f_")}
    for changed in ({"f_bavail": 0}, {"f_blocks": 16}):
        monkeypatch.setattr(host_memory.os, "statvfs", lambda path, changed=changed: types.SimpleNamespace(**{**fields, **changed}))
        assert host_memory.folder() is None
    monkeypatch.undo()
    assert host_memory.folder() == FOLDER


def test_a_folder_that_is_lost_is_explained(monkeypatch):
    monkeypatch.setattr(host_memory.Uploads, "_number", 100)
    with pytest.raises(RuntimeError, match="/dev/shm.*PATHWAYS_SHARED_MEMORY=off"):
        host_memory.uploads_into(None)
