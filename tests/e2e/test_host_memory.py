"""Large arrays between a process and a cluster on its machine go through shared memory, so that their bytes cross no socket."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import clean_environment, eventually
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from test_device_put import client_bytes

from pathways import _cluster, _host_memory
from pathways._shape import Shape

RELAY = {"PATHWAYS_LOCAL": "2x1x1", "PATHWAYS_AGENT": "off"}  # as before clusters of other machines
COUNT = 3 << 20  # more than either limit for every type below
FOLDER = pathlib.Path(f"/dev/shm/pathways-{os.getuid()}")

pytestmark = pytest.mark.skipif(_host_memory.server_folder() is None, reason="/dev/shm is too small here for the default")


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
    process = subprocess.Popen([sys.executable, "-c", PROGRAM + code], env=clean_environment(**env), stdout=subprocess.PIPE, text=True)
    try:
        return process, process.communicate(timeout=120)[0]
    finally:
        process.kill()


def test_a_process_leaves_nothing_behind():
    process, output = run("print(len(os.listdir(os.environ['IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY'])))")
    assert process.returncode == 0 and output == "0\n"
    assert not left_by(process.pid)


@pytest.mark.parametrize("way", ["on", "relay"])
def test_nor_does_one_that_is_killed(way):
    victim = subprocess.Popen([sys.executable, "-c", PROGRAM + "print('ready', flush=True)\nwhile True: jax.device_put(host, jax.devices()[0])"],
                              env=clean_environment(PATHWAYS_SHARED_MEMORY=way, **RELAY), stdout=subprocess.PIPE, text=True)
    assert victim.stdout.readline() == "ready\n"
    assert left_by(victim.pid)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert eventually(lambda: not left_by(victim.pid))


def test_from_another_machine_arrays_come_through_the_relay():
    """The library's own transfer is not used: client_bytes() would count it."""
    process, output = run("""
import sys
sys.path.insert(0, %r)
from test_device_put import client_bytes
from pathways import _host_memory
y = jax.block_until_ready(x * 2)
before = client_bytes()
y.copy_to_host_async()
np.testing.assert_array_equal(np.asarray(y), host * 2)
print(client_bytes() - before < 1 << 16, _host_memory.Uploads._number > 0)
""" % os.path.dirname(__file__), PATHWAYS_SHARED_MEMORY="relay", **RELAY)
    assert process.returncode == 0 and output == "True True\n"
    assert not left_by(process.pid)


def test_from_another_machine_large_arrays_go_through_the_relay_as_files():
    process, output = run("""
from pathways import _client
import jax.extend
assert _client._endpoint.relay_takes_files
for dtype in (np.float32, np.int8, np.complex64):
    big = np.arange(5 << 20).astype(dtype)
    np.testing.assert_array_equal(np.asarray(jax.device_put(big, jax.devices()[1])), big)
    np.testing.assert_array_equal(np.asarray(jax.device_put(big.reshape(2, -1).T, jax.devices()[1])), big.reshape(2, -1).T)
jax.clear_caches(); jax.extend.backend.clear_backends()
np.testing.assert_array_equal(np.asarray(jax.device_put(host, jax.devices()[0]) * 2), host * 2)
print("same")""", PATHWAYS_SHARED_MEMORY="relay", **RELAY)
    assert process.returncode == 0 and output == "same\n"
    assert not left_by(process.pid)


def test_from_another_machine_many_large_arrays_are_sent_while_they_are_written():
    """Sends more arrays than may be sent ahead at one time, and one of 400 MiB."""
    process, output = run("""
arrays = [np.full((6 << 20) + i, i, np.int32) + np.arange((6 << 20) + i, dtype=np.int32) for i in range(7)]
arrays.append(np.arange(100 << 20, dtype=np.uint32).T)
put = [jax.device_put(array, jax.devices()[1]) for array in arrays]
for array, there in zip(arrays, put):
    np.testing.assert_array_equal(np.asarray(there + 1), array + 1)
print("same")""", PATHWAYS_SHARED_MEMORY="relay", **RELAY)
    assert process.returncode == 0 and output == "same\n"
    assert not left_by(process.pid)


@pytest.mark.parametrize("bulk", ["127.0.0.1:0", "none"])
def test_from_another_machine_large_arrays_take_a_line_of_their_own(tmp_path, monkeypatch, bulk):
    """Large arrays use a separate connection unless it is disabled. When that connection ends, the controller logs the bytes that it carried."""
    monkeypatch.setenv("PATHWAYS_LISTEN_BULK", bulk)
    cluster = _cluster.Cluster(Shape(1, 1, 2), tmp_path).start()
    try:
        process, output = run("""
import time
from pathways import _client
said = lambda: (_client._endpoint.folder / "relay.log").read_text()
deadline = time.monotonic() + 60
while %r and "over a line of their own" not in said() and time.monotonic() < deadline:
    time.sleep(0.01)
big = np.arange(5 << 20, dtype=np.float32)
np.testing.assert_array_equal(np.asarray(jax.device_put(big, jax.devices()[1]) + 1), big + 1)
print("same")""" % (bulk != "none"), PATHWAYS_SHARED_MEMORY="relay", PATHWAYS_ADDRESS=cluster.address, PATHWAYS_AGENT="off")
        assert process.returncode == 0 and output == "same\n"
    finally:
        cluster.stop()
    carried = re.findall(r"bulk line of .*: (\d+) bytes in, (\d+) bytes out", (tmp_path / "controller.log").read_text())
    assert [min(int(n) for n in pair) >= 20 << 20 for pair in carried] == ([True] if bulk != "none" else [])


def test_it_can_be_switched_off():
    process, output = run("from pathways import _host_memory as m; print(m._readers, m.Uploads._number)", PATHWAYS_SHARED_MEMORY="off")
    assert process.returncode == 0 and output == "{} None\n"


def test_a_connection_after_another_and_a_program_started_by_this_one():
    process, output = run(f"""
import jax.extend, subprocess, sys
subprocess.run([sys.executable, "-c", {PROGRAM!r}], check=True)
jax.clear_caches(); jax.extend.backend.clear_backends()
np.testing.assert_array_equal(np.asarray(jax.device_put(host, jax.devices()[0]) * 2), host * 2)
print("same")""")
    assert process.returncode == 0 and output == "same\n"


def test_a_cluster_that_runs_by_itself_is_found_by_its_address(tmp_path):
    cluster = _cluster.Cluster(Shape.parse("1x1x1"), tmp_path).start()
    try:
        process, output = run("from pathways import _host_memory as m; print(len(m._readers), m.Uploads._number > 0)",
                              PATHWAYS_ADDRESS=cluster.address)
        assert process.returncode == 0 and output == "1 True\n"
        assert _host_memory.served(FOLDER, cluster.address)
        assert not _host_memory.served(FOLDER, cluster.address.replace("127.0.0.1", "192.0.2.1"))
    finally:
        cluster.stop()
    assert not _host_memory.served(FOLDER, cluster.address), "the file that tells of it does not count once the controller is gone"


def test_from_a_controller_here_to_one_elsewhere_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(_host_memory.Uploads, "_number", 100)
    with pytest.raises(RuntimeError, match="192.0.2.1:5.*PATHWAYS_SHARED_MEMORY=off"):
        _host_memory.uploads_to("192.0.2.1:5", relay_takes_files=False)
