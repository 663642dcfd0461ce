"""Hosts save arrays to an object store and load them from there: moto's S3 server, which verifies every signature. Its bytes are read in process by
TensorStore's own client of S3. `make test-s3` installs moto."""

import os
import signal
import subprocess
import sys
import threading

import certificates
import numpy as np
import pytest
import s3
from conftest import clean_environment
from test_persistence import IN_PROCESS, ORBAX, SAVED, end, go_on, program, run, wait_until, worker

from pathways._cluster import admin, local
from pathways._cluster.shape import Shape

pytest.importorskip("pathwaysutils", reason="pathwaysutils is not installed")
pytestmark = pytest.mark.skipif(not s3.PYTHON.exists(), reason="moto is not installed: 'make test-s3' does that (140 MB)")

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = s3.Server(tmp_path_factory.mktemp("moto"))
    yield server
    server.stop()


@pytest.fixture
def gate(server):
    gate = s3.Gate(server)
    yield gate
    gate.stop()


@pytest.fixture
def credentials(tmp_path, server):
    path = tmp_path / "keys"
    path.touch(0o600)
    path.write_text(server.credentials())
    return path


@pytest.fixture
def cluster(tmp_path, monkeypatch, gate, credentials):
    """A cluster of two islands, with one host of two devices each, whose hosts reach the store through the gate."""
    monkeypatch.setenv("PATHWAYS_OBJECT_STORES", f"s3={gate.url}")
    monkeypatch.setenv("PATHWAYS_OBJECT_CREDENTIALS", str(credentials))
    cluster = local.Cluster(Shape.parse("2x1x2"), tmp_path, heartbeat="100s").start()
    yield cluster
    cluster.stop()


@pytest.fixture
def location(request):
    """A place in the bucket for each test."""
    return f"s3://bucket/{request.node.name}/step1"


def stored(server, location, name, monkeypatch):
    """Reads an array in this process, by TensorStore."""
    tensorstore = pytest.importorskip("tensorstore")
    for variable, value in server.environment().items():
        monkeypatch.setenv(variable, value)
    bucket, _, path = location.removeprefix("s3://").partition("/")
    kvstore = {"driver": "s3", "bucket": bucket, "path": f"{path}/{name}/", "endpoint": server.url, "aws_region": "us-east-1"}
    return tensorstore.open({"driver": "zarr", "kvstore": kvstore}).result().read().result()


def test_arrays_of_two_hosts_come_back_in_another_mesh_and_in_process(cluster, server, gate, location, monkeypatch):
    run(cluster, location, SAVED + """
arrays = {name: jax.device_put(value, WHERE[name]) for name, value in VALUES.items()}
save(**arrays)
turned = over(P("x"), DEVICES[::-1])
others = {"rows": over(P(None, "x"), DEVICES[::-1]), "both": over(P(), DEVICES[::-1]), "uneven": over(P(), DEVICES[::-1]), "deep.name": turned,
          "scalar": over(P(), DEVICES[::-1]), "empty": over(P(), DEVICES[::-1])}
loaded = dict(zip(VALUES, load(**{name: like(arrays[name], others[name]) for name in VALUES})))
for name, value in VALUES.items():
    assert loaded[name].sharding == others[name], name
    np.testing.assert_array_equal(np.asarray(loaded[name]), value)
""")
    assert admin.status(cluster.address)["array_bytes"] < 100_000
    assert gate.bodies < 17 * MIB, "each tile is sent once"
    prefix = location.removeprefix("s3://bucket/") + "/"
    keys = {key.removeprefix(prefix) for key in server.list(prefix)}
    assert {f"rows/{i}.0" for i in range(4)} | {"rows/.zarray", "both/0.0", "both/0.1", "scalar/0", "empty/.zarray"} <= keys
    assert not [key for key in keys if "pathways-save" in key], "nothing else stays"
    np.testing.assert_array_equal(stored(server, location, "rows", monkeypatch), np.arange(4 << 20, dtype=np.float32).reshape(1024, -1))
    np.testing.assert_array_equal(stored(server, location, "uneven", monkeypatch), np.arange(35, dtype=np.uint8).reshape(7, 5))
    assert stored(server, location, "scalar", monkeypatch) == np.float32(2.5)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the newest Orbax needs Python 3.12")
def test_orbax_saves_and_restores_and_its_objects_are_a_checkpoint_in_process(tmp_path, monkeypatch, server, gate, credentials, location):
    """The hosts write the arrays, and Orbax in the program its own small files, by s3fs. Restored here, by jax alone, from a copy: Orbax in process
    does not read arrays from S3."""
    monkeypatch.setenv("PATHWAYS_OBJECT_STORES", f"s3={gate.url}")
    monkeypatch.setenv("PATHWAYS_OBJECT_CREDENTIALS", str(credentials))
    cluster = local.Cluster(Shape.parse("2x1x2"), tmp_path, listen_proxy="127.0.0.1:0").start()
    try:
        run(cluster, location, f"sys.path.append({str(s3.packages())!r})" + ORBAX + """
from orbax.checkpoint._src.path import atomicity
with ocp.Checkpointer(handler, temporary_path_class=atomicity.CommitFileTemporaryPath) as saver:
    saver.save(LOCATION, state)
reader = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=False))
columns = jax.tree.map(lambda a: ocp.ArrayRestoreArgs(sharding=NamedSharding(mesh, P("b") if a.ndim == 1 else P("b", "a")),
                                                      global_shape=a.shape, dtype=a.dtype), state)
again = reader.restore(LOCATION, args=ocp.args.PyTreeRestore(restore_args=columns))
for mine, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(state)):
    np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
""", JAX_PLATFORMS="proxy", JAX_BACKEND_TARGET=f"grpc://{cluster.proxy_address}", IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true",
            ENABLE_PATHWAYS_PERSISTENCE="1", AWS_ENDPOINT_URL=server.url, **server.environment())
        assert admin.status(cluster.address)["array_bytes"] < 100_000
    finally:
        cluster.stop()
    assert ("PUT", f"/{location.removeprefix('s3://')}/w/1.1") in gate.seen, "a host wrote it"
    server.download(location.removeprefix("s3://bucket/"), tmp_path / "copy")
    done = subprocess.run([sys.executable, "-c", IN_PROCESS, str(tmp_path / "copy")], env=clean_environment(JAX_PLATFORMS="cpu"), capture_output=True,
                          text=True, timeout=240)
    assert done.returncode == 0, done.stderr


SAVE_TWO = """
a, b = (jax.block_until_ready(jax.device_put(np.full(64, value, np.float32), over(P('x')))) for value in (1.0, 2.0))
print("ready", flush=True)
sys.stdin.readline()
try:
    save(a=a, b=b)
    print("saved")
except Exception as error:
    print(error)
"""


def test_a_host_that_is_killed_in_a_save_leaves_the_last_checkpoint(cluster, server, gate, location):
    last, stopped = location, worker(cluster, "host1")
    run(cluster, last, "save(a=jax.device_put(np.full(64, 7.0, np.float32), over(P('x'))))")
    following = location.replace("step1", "step2")
    child = program(cluster, following, SAVE_TWO)
    assert child.stdout.readline() == "ready\n"
    os.kill(stopped.pid, signal.SIGSTOP)
    go_on(child)
    wait_until(lambda: any(method == "PUT" and "/step2/" in path and "/hosts/" in path for method, path in list(gate.seen)), "host0 wrote nothing")
    os.kill(stopped.pid, signal.SIGKILL)
    error = end(child)
    assert "nothing was saved" in error and "host1" in error, error
    assert server.list(following.removeprefix("s3://bucket/")) == [], "the host that is left removes what was written"
    value = run(cluster, last, "print(float(load(a=like(np.zeros(64, np.float32), over(P('x'), DEVICES[:2])))[0].sum()))")
    assert float(value) == 7.0 * 64


def test_a_host_that_is_killed_while_it_commits_leaves_all_arrays_or_none(cluster, server, gate, location):
    """The gate holds the description of the second array: the save is committed, and the first array is there."""
    reached, going_on = threading.Event(), threading.Event()

    def rule(method, path):
        if method == "PUT" and path.endswith("/b/.zarray") and not reached.is_set():
            reached.set()
            going_on.wait(120)
            return 503  # the process that asked is gone

    gate.rule = rule
    child = program(cluster, location, SAVE_TWO)
    assert child.stdout.readline() == "ready\n"
    go_on(child)
    assert reached.wait(120)
    keys = server.list(location.removeprefix("s3://bucket/"))
    assert any(key.endswith("/commit") for key in keys) and not any(key.endswith("/b/.zarray") for key in keys)
    owners = [p for p in (worker(cluster, "host0"), worker(cluster, "host1")) if connected(p.pid, gate)]
    assert len(owners) == 1, "one host commits"
    os.kill(owners[0].pid, signal.SIGKILL)
    out = end(child)
    going_on.set()
    value = run(cluster, location, """
left = [d for d in DEVICES if d.id in {e.id for e in jax.devices()}][:2]
one = over(P(), left[:1])
print(sum(float(x.sum()) for x in load(a=like(np.zeros(64, np.float32), one), b=like(np.zeros(64, np.float32), one))))
""")
    assert float(value) == 3.0 * 64, out
    keys = server.list(location.removeprefix("s3://bucket/"))
    assert not [key for key in keys if "pathways-save" in key], keys


def connected(pid, gate):
    """Returns whether the process has a connection to the gate."""
    port = f":{int(gate.url.rpartition(':')[2]):04X}"
    sockets = {line.split()[9] for line in open("/proc/net/tcp").readlines()[1:] if line.split()[2].endswith(port) and line.split()[3] == "01"}
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass  # closed meanwhile
    return any(link.removeprefix("socket:[").removesuffix("]") in sockets for link in links)


def test_a_save_replaces_no_array(cluster, server, location):
    out = run(cluster, location, """
w = jax.device_put(np.arange(8.0, dtype=np.float32), over(P("x")))
save(w=w)
print(error_of(lambda: save(w=w + 1, v=w)))
np.testing.assert_array_equal(np.asarray(load(w=like(w, w.sharding))[0]), np.arange(8.0))
print(error_of(lambda: load(v=like(w, w.sharding))))
""")
    replaced, missing = out.splitlines()
    assert f"{location}/w: the array exists" in replaced and "Save to another location" in replaced, replaced
    assert f"{location}/v/.zarray: it does not exist" in missing
    prefix = location.removeprefix("s3://bucket/") + "/"
    assert not [key for key in server.list(prefix) if not key.startswith(f"{prefix}w/")], "nothing of the save that failed stays"


def test_errors_of_the_store_name_object_and_remedy(cluster, server, gate, credentials, location):
    child = program(cluster, location, """
w = jax.device_put(np.arange(8.0, dtype=np.float32), over(P("x")))
def attempt(location=LOCATION):
    print(error_of(lambda: save(location, w=w)).replace("\\n", " "), flush=True)
    sys.stdin.readline()
attempt("s3://no-such-bucket/x")
attempt("s3://bucket//x")
attempt()
attempt()
attempt()
save(w=w)
np.testing.assert_array_equal(np.asarray(load(w=like(w, w.sharding))[0]), np.arange(8.0))
print("saved")
""")
    bucket, name = child.stdout.readline(), ""
    assert "s3://no-such-bucket/x" in bucket and "404 NoSuchBucket" in bucket and "create the bucket 'no-such-bucket'" in bucket, bucket
    go_on(child)
    name = child.stdout.readline()
    assert "'s3://bucket//x' is not SCHEME://BUCKET/OBJECT" in name
    credentials.write_text(server.credentials("stranger"))
    go_on(child)
    denied = child.stdout.readline()
    assert f"cannot write {location}" in denied and "403 AccessDenied" in denied and "--object-credentials" in denied, denied
    credentials.write_text(server.credentials(SecretAccessKey="0" * 40))
    go_on(child)
    wrong = child.stdout.readline()
    assert "403 SignatureDoesNotMatch" in wrong and "0000" not in wrong, wrong
    credentials.write_text(server.credentials())
    gate.rule = lambda method, path: 503
    go_on(child)
    busy = child.stdout.readline()
    assert "503 SlowDown" in busy and "try again later" in busy, busy
    gate.rule = lambda method, path: None
    go_on(child)
    assert end(child).splitlines()[-1] == "saved"


def test_requests_that_fail_now_and_then_are_repeated(cluster, server, gate, location, monkeypatch):
    """Of each object's writes the first is answered 503, and the answer of the second is lost after it has been stored."""
    tries, lock = {}, threading.Lock()

    def rule(method, path):
        with lock:
            tries[method, path] = tries.get((method, path), 0) + 1
            return {1: 503, 2: "lose"}.get(tries[method, path]) if method == "PUT" else None

    gate.rule = rule
    run(cluster, location, "save(w=jax.device_put(np.arange(64, dtype=np.float32), over(P('x'))))")
    np.testing.assert_array_equal(stored(server, location, "w", monkeypatch), np.arange(64, dtype=np.float32))
    assert max(tries.values()) >= 3


def test_over_https_the_store_must_show_a_certificate_that_is_trusted(tmp_path, monkeypatch, server, credentials, location):
    authority, context = certificates.of_localhost(tmp_path)
    gate = s3.Gate(server, tls=context)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.setenv("PATHWAYS_OBJECT_STORES", f"s3={gate.url}")
    monkeypatch.setenv("PATHWAYS_OBJECT_CREDENTIALS", str(credentials))
    save = "w = jax.device_put(np.arange(64, dtype=np.float32), over(P('x')))\n"
    try:
        cluster = local.Cluster(Shape.parse("2x1x2"), first, heartbeat="100s").start()
        refused = run(cluster, location, save + "print(error_of(lambda: save(w=w)))")
        cluster.stop()
        assert "certificate" in refused and gate.seen == [], refused
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        cluster = local.Cluster(Shape.parse("2x1x2"), second, heartbeat="100s").start()
        run(cluster, location, save + "save(w=w)\nnp.testing.assert_array_equal(np.asarray(load(w=like(w, w.sharding))[0]), np.arange(64))")
        cluster.stop()
    finally:
        gate.stop()
    assert gate.seen
    np.testing.assert_array_equal(stored(server, location, "w", monkeypatch), np.arange(64, dtype=np.float32))
