"""`pathways worker --join`: hosts join a running cluster and leave it, while programs use it."""

import re
import signal
import time

import pytest
from cli import PATIENCE, CommandLine, end

WAIT_SECONDS = 180

# Computes on the devices found at its start until it is told to stop, and checks every result.
STEADY = """
import jax, jax.numpy as jnp, sys, threading
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
f = jax.jit(lambda x: x + 1)
x = jax.device_put(jnp.zeros(4), jax.devices()[1])
count = 0
print(len(jax.devices()), flush=True)
while not stop.is_set():
    x, count = f(x), count + 1
    if count % 16 == 0:
        assert float(x[0]) == count
print(float(x[3]) == count, len(jax.devices()))
"""

# Runs one computation over all devices; hosts may have different numbers of devices.
ALL = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
devices = jax.devices()
mesh = jax.sharding.Mesh(np.array(devices), ("x",))
x = jax.device_put(np.arange(2.0 * len(devices)), NamedSharding(mesh, P("x")))
total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))(x)
n = len(devices)
np.testing.assert_array_equal(np.asarray(total), [n * (n - 1), n * n])
np.testing.assert_array_equal(np.asarray(jax.jit(lambda v: v * 2)(x)), np.arange(0, 4.0 * n, 2))
each = [np.asarray(jax.device_put(np.float32(d.id), d) + 1) for d in devices]
assert each == [d.id + 1 for d in devices]
print(n)
"""


# Makes more arrays than fit on the device: they must move to host memory and back.
MORE = """
import jax, numpy as np
hosts = [np.full(500_000, i, np.float32) for i in range(8)]  # 16 MB where 8 fit
xs = [jax.device_put(host) for host in hosts]
add = jax.jit(lambda a, b: a + b)
for a, b in zip(xs, reversed(xs)):
    np.testing.assert_array_equal(np.asarray(add(a, b)), np.full(500_000, 7, np.float32))
print("same")
"""


@pytest.fixture
def command(tmp_path):
    command = CommandLine(tmp_path / "home")
    yield command
    command("down", check=False)


def wait_for_hosts(command, count, state="formed"):
    """Waits until `count` hosts have joined; returns the status report."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        report = command("status")
        if report["joined_hosts"] == count and report["state"] == state:
            return report
        assert time.monotonic() < deadline, report
        time.sleep(0.05)


def test_hosts_join_and_leave_while_programs_run(command, tmp_path):
    up = command("up", "--devices", "2")
    steady = command.program(up["address"], STEADY)
    assert steady.stdout.readline() == "2\n", steady.communicate()
    first = command.start("worker", "--join", up["address"], "--host", "extra", "--devices", "3", log=tmp_path / "first.log")
    second = command.start("worker", "--island", "far", "--devices", "2", log=tmp_path / "second.log")  # joins the running cluster
    report = wait_for_hosts(command, 3)
    names = {host["name"]: host for host in report["hosts"]}
    assert {"host0", "extra"} < set(names) and [island["name"] for island in report["islands"]] == ["island0", "far"]
    assert names["extra"]["pid"] == first.pid  # the command has replaced itself by the worker
    assert command.run(up["address"], ALL) == "7\n"

    assert end(first, signal.SIGINT) == 0 and end(second, signal.SIGTERM) == 0
    left = wait_for_hosts(command, 1)
    assert [host["name"] for host in left["hosts"]] == ["host0"] and len(left["devices"]) == 2
    assert command.run(up["address"], ALL) == "2\n"
    out, err = steady.communicate("stop\n", timeout=PATIENCE)
    assert out == "True 2\n", err
    log = (tmp_path / "first.log").read_text()
    assert "Host 'extra' joins island 'island0' of the cluster at " + up["address"] in log
    assert re.search(r"joined the controller at \S+ as host \d+ of island 0 with 3 cpu devices", log)


def test_a_controller_alone_serves_when_its_hosts_have_joined(command, tmp_path):
    up = command("up", "--no-workers", "--hosts", "2", "--listen-workers", "127.0.0.1:0")
    assert up["workers_address"].startswith("tcp:127.0.0.1:") and up["devices"] is None
    workers = [command.start("worker", "--join", where, "--devices", "2", log=tmp_path / f"{i}.log")
               for i, where in enumerate((up["address"], up["workers_address"]))]
    report = wait_for_hosts(command, 2)
    assert report["workers_address"] == up["workers_address"]
    assert command.run(up["address"], ALL) == "4\n"
    # `down` ends only the processes that `up` started. The workers wait for the next controller, and join it.
    assert command("down")["stopped"] == ["controller", "agent"]
    again = command("up", "--no-workers", "--hosts", "2", "--listen", up["address"], "--listen-workers", up["workers_address"])
    wait_for_hosts(command, 2)
    assert command.run(again["address"], ALL) == "4\n"
    assert [end(worker, signal.SIGTERM) for worker in workers] == [0, 0]


@pytest.mark.parametrize("door", ["pjrt", "ifrt"])
def test_a_program_waits_for_hosts_that_are_still_joining(command, tmp_path, door):
    command.env["PATHWAYS_DOOR"] = door
    up = command("up", "--no-workers")
    program = command.program(up["address"], "import jax\nprint(len(jax.devices()), float(jax.numpy.arange(4.0).sum()))\n")
    if door == "pjrt":  # jax's own IFRT client keeps silent while it tries again
        while not (line := program.stderr.readline()).startswith("pathways: waiting for the Pathways cluster at "):
            assert line, program.communicate()
        assert "the cluster has not formed yet: 0 of 1 hosts have joined" in line
    worker = command.start("worker", "--join", up["address"], "--devices", "2", log=tmp_path / "worker.log")
    out, err = program.communicate(timeout=PATIENCE)
    assert (program.returncode, out) == (0, "2 6.0\n"), out + err
    assert end(worker, signal.SIGTERM) == 0


def test_idle_arrays_of_a_host_that_joined_make_room(command, tmp_path):
    up = command("up", "--no-workers", "--spill")
    worker = command.start("worker", "--devices", "1", "--memory-limit", "8000000", log=tmp_path / "log")
    wait_for_hosts(command, 1)
    assert command.run(up["address"], MORE) == "same\n"
    (host,) = command("status")["hosts"]
    assert host["metrics"]["moved_out"] > 0 and host["metrics"]["moved_back"] > 0
    assert end(worker, signal.SIGTERM) == 0


def test_with_once_a_worker_ends_with_its_controller(command, tmp_path):
    up = command("up", "--no-workers", "--controller-grace", "0")
    worker = command.start("worker", "--once", "--devices", "1", log=tmp_path / "log")
    wait_for_hosts(command, 1)
    command("down")
    assert end(worker) == 0
    assert "lost the controller at " + up["workers_address"] in (tmp_path / "log").read_text()


def test_a_controller_that_is_not_there_is_named_with_the_remedy(command):
    done = command("worker", "--join", "127.0.0.1:9", "--wait", "0", check=False)
    assert done.returncode == 1
    assert "no controller to join at 127.0.0.1:9" in done.stderr and "pathways up --no-workers" in done.stderr
    assert command("worker", check=False).returncode == 3  # no cluster runs here


@pytest.mark.parametrize("words", [["--join", "nowhere"], ["--join", "host:port"], ["--devices", "0"]])
def test_bad_arguments_are_named(command, words):
    done = command("worker", *words, check=False)
    assert done.returncode == 2 and words[0] in done.stderr and words[1] in done.stderr


def test_without_a_join_token_nobody_joins(command, tmp_path):
    up = command("up", "--no-workers", "--listen-workers", "127.0.0.1:0")
    stranger = CommandLine(tmp_path / "stranger")
    join = ("worker", "--join", up["address"], "--devices", "1", "--host", "stranger", "--wait", "0")
    log = tmp_path / "stranger.log"
    assert end(stranger.start(*join, log=log)) == 1
    assert "there is no token for it" in log.read_text() and "pathways login" in log.read_text()
    command("token", "create", "--user", "ada", "--output", str(tmp_path / "ada"))
    assert end(stranger.start(*join, "--token-file", str(tmp_path / "ada"), log=log)) == 1
    assert "that of a user, not of a worker" in log.read_text()
    command("token", "create", "--user", "rack1", "--role", "worker", "--uses", "1", "--output", str(tmp_path / "rack1"))
    friend = stranger.start(*join, "--token-file", str(tmp_path / "rack1"), log=tmp_path / "friend.log")
    wait_for_hosts(command, 1)
    assert command.run(up["address"], ALL) == "1\n"
    assert end(stranger.start(*join, "--token-file", str(tmp_path / "rack1"), log=log)) == 1
    assert "all uses of the join token" in log.read_text()
    secret = (tmp_path / "rack1").read_text().rpartition("-")[2].strip()
    said = command("logs", check=False).stdout + log.read_text() + (tmp_path / "friend.log").read_text()
    assert secret not in said, "no log has a secret"
    assert command("status")["joined_hosts"] == 1
    assert end(friend, signal.SIGTERM) == 0
    missing = command("worker", "--join", up["address"], "--token-file", str(tmp_path / "none"), check=False)
    assert missing.returncode == 2 and "none" in missing.stderr
