"""Tests limits of users (`pathways quota`) with the command line and stock jax, by both doors."""

import pytest
from cli import User, operator_at
from conftest import PATIENCE, eventually

HOLDS = """
import jax, sys
print(float(jax.jit(lambda v: v * 2)(jax.numpy.ones(3)).sum()), flush=True)
sys.stdin.readline()
"""
COMPUTES = """
import jax
import numpy as np
x = jax.numpy.arange(8.0)
kept = jax.jit(lambda v: v + 1)(x)
kept.block_until_ready()
print("ready", flush=True)
import sys
sys.stdin.readline()
try:
    jax.jit(lambda v: v * 2)(x).block_until_ready()
    print("computed", flush=True)
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0], flush=True)
print(float(np.asarray(kept).sum()), flush=True)
"""
KEEPS = """
import jax, sys
import numpy as np
kept = jax.block_until_ready(jax.device_put(np.arange(3 << 16, dtype=np.float32)))
print("kept", flush=True)
sys.stdin.readline()
"""
FILLS = """
import jax
import numpy as np
host = np.arange(1 << 16, dtype=np.float32)
kept = jax.block_until_ready(jax.device_put(host))
try:
    jax.block_until_ready(jax.device_put(np.ones(1 << 20, np.float32)))
    print("more than the quota")
except Exception as error:
    print(str(error).splitlines()[0])
step = jax.jit(lambda v: v * 0.5 + 1)
for _ in range(30):  # more than the quota in all, but not at a time
    kept = jax.block_until_ready(step(kept))
expected = host
for _ in range(30):
    expected = expected * np.float32(0.5) + np.float32(1)
print(np.allclose(np.asarray(kept), expected, rtol=1e-6))
"""
CARRIES = """
import jax
import numpy as np
try:
    jax.block_until_ready(jax.device_put(np.ones(1 << 21, np.float32)))
    print("more than the quota")
except Exception as error:
    print(str(error).splitlines()[0])
hosts = [np.full(1 << 19, i, np.float32) for i in range(12)]  # more than the quota in all, but not at a time
there = [jax.device_put(host) for host in hosts]
print(all(np.array_equal(np.asarray(x + 1), host + 1) for x, host in zip(there, hosts)))
"""
SPREADS = """
import jax
import numpy as np
first, second = jax.devices()
x = jax.device_put(np.arange(4.0), first)
try:
    jax.block_until_ready(jax.device_put(x, second))
    print("another device")
except Exception as error:
    print(str(error).splitlines()[0])
print(float((x * 2).sum()))
"""
SLICES = """
import jax
import numpy as np
import pathways as pw
with pw.make_virtual_device_set() as slices:
    one = slices.add_slice(devices=1)
    print(float(jax.device_put(np.arange(4.0), one.devices[0]).sum()))
    for devices in SIZES:
        try:
            slices.add_slice(devices=devices, timeout=0.5)
        except pw.SliceError as error:
            print(type(error).__name__, error)
    one.release()
    print(len(slices.add_slice(devices=1).devices))
"""
CALLS = """
import jax, sys
import numpy as np
from jax.experimental import colocated_python
x = jax.device_put(np.arange(4.0, dtype=np.float32), jax.devices()[0])
try:
    print(float(np.asarray(colocated_python.colocated_python(lambda v: v)(x)).sum()), flush=True)
except Exception as error:
    print(str(error).splitlines()[0], flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with operator_at(tmp_path_factory.mktemp("operator")) as command:
        yield command


@pytest.fixture(scope="module")
def cluster(operator):
    return operator("up", "--devices", "2", "--listen-proxy", "none", "--host-python")


@pytest.fixture(params=["ifrt", "pjrt"])
def user(request, operator, cluster, tmp_path):
    """Returns (a user whose programs enter by this door, the name)."""
    name = f"ada-{request.param}"
    token = tmp_path / "token"
    operator("token", "create", "--user", name, "--output", str(token))
    found = User(tmp_path / "home")
    found.login(cluster["address"], token)
    found.env["PATHWAYS_DOOR"] = request.param
    yield found, name
    operator("quota", "set", "--user", name, "--remove")


def waiting(operator):
    return operator("status")["waiting_clients"]


def test_one_session_more_than_the_quota_waits_for_another_to_end(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--sessions", "1")
    first = ada.program(cluster["address"], HOLDS)
    assert first.stdout.readline() == "6.0\n"
    ada.env["PATHWAYS_CONNECT_TIMEOUT"] = "5"  # it waits longer than for a controller
    second = ada.program(cluster["address"], HOLDS)
    queued = eventually(lambda: waiting(operator))
    assert queued[0]["user"] == name and queued[0]["position"] == 1 and "the quota is 1" in queued[0]["why"]
    assert "waiting for one of them to end" in operator("status", check=False).stdout
    assert [one["sessions"] for one in ada("quota", "list", "--address", cluster["address"])["users"]] == [1]
    eventually(lambda: waiting(operator) and second.poll() is None)
    first.communicate("\n", timeout=PATIENCE)
    out, err = second.communicate("\n", timeout=PATIENCE)
    assert second.returncode == 0 and out == "6.0\n", out + err
    assert f"user '{name}' has 1 sessions, and the quota is 1" in err


def test_a_program_that_gives_up_waiting_leaves_the_queue(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--sessions", "0")
    program = ada.program(cluster["address"], HOLDS)
    eventually(lambda: waiting(operator))
    program.kill()
    program.communicate(timeout=PATIENCE)
    eventually(lambda: not waiting(operator))


def test_a_larger_quota_lets_the_waiting_in(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--sessions", "0")
    program = ada.program(cluster["address"], HOLDS)
    eventually(lambda: waiting(operator))
    operator("quota", "set", "--user", name, "--sessions", "none")
    out, err = program.communicate("\n", timeout=PATIENCE)
    assert program.returncode == 0 and out == "6.0\n", out + err


def test_who_has_used_up_a_day_reads_arrays_and_computes_no_more(operator, cluster, user):
    ada, name = user
    program = ada.program(cluster["address"], COMPUTES)
    assert program.stdout.readline() == "ready\n"
    operator("quota", "set", "--user", name, "--device-seconds", "0")
    out, err = program.communicate("\n", timeout=PATIENCE)
    assert program.returncode == 0, out + err
    refused, kept = out.splitlines()
    assert "RESOURCE_EXHAUSTED" in refused and "device seconds today, and the quota is 0.0" in refused and "00:00 UTC" in refused
    assert kept == "36.0"


def test_a_user_has_no_more_memory_than_the_quota(operator, cluster, user, tmp_path):
    ada, name = user
    operator("quota", "set", "--user", name, "--device-memory", str(1 << 20))
    refused, right = ada.run(cluster["address"], FILLS).splitlines()
    assert f"user '{name}' has used up the memory quota on local device 0 of host 'host0'" in refused, refused
    assert "4.0 MiB more are needed, 256.0 KiB of 1.0 MiB are in use" in refused and "pathways quota set --device-memory" in refused
    assert right == "True"
    keeper = ada.program(cluster["address"], KEEPS)
    assert keeper.stdout.readline() == "kept\n"
    (shown,) = eventually(lambda: [one for one in operator("quota", "list")["users"] if one.get("device_memory") == 3 << 18])
    assert shown["user"] == name
    second = ada.program(cluster["address"], KEEPS)
    out, err = second.communicate("\n", timeout=PATIENCE)
    assert second.returncode != 0 and "RESOURCE_EXHAUSTED" in err and f"user '{name}'" in err, out + err
    token = tmp_path / "bob"
    operator("token", "create", "--user", "bob", "--output", str(token))
    bob = User(tmp_path / "bobs")
    bob.login(cluster["address"], token)
    bob.env["PATHWAYS_DOOR"] = ada.env["PATHWAYS_DOOR"]
    bobs, right = bob.run(cluster["address"], FILLS).splitlines()
    assert (bobs, right) == ("more than the quota", "True")
    keeper.communicate("\n", timeout=PATIENCE)
    third = ada.program(cluster["address"], KEEPS)
    assert third.stdout.readline() == "kept\n", "what the first has held is free again"
    third.kill()
    third.communicate(timeout=PATIENCE)
    eventually(lambda: not operator("status")["clients"])  # the controller waits a moment for a client to return
    fourth = ada.program(cluster["address"], KEEPS)
    assert fourth.stdout.readline() == "kept\n", "also after a kill"
    fourth.communicate("\n", timeout=PATIENCE)


def test_a_user_uses_no_more_devices_than_the_quota(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--devices", "1")
    refused, right = ada.run(cluster["address"], SPREADS).splitlines()
    assert f"user '{name}' has 1 devices in use and would have 2 with device 1; the quota is 1" in refused
    assert right == "12.0"


def test_a_slice_beyond_the_quota_waits(operator, cluster, user):
    ada, name = user
    # By the first door, answers to questions about slices are arrays on the first device, which is then in use.
    most, sizes = (2, "(1,)") if ada.env["PATHWAYS_DOOR"] == "ifrt" else (1, "(1, 2)")
    operator("quota", "set", "--user", name, "--devices", str(most))
    right, waited, *refused, placed = ada.run(cluster["address"], SLICES.replace("SIZES", sizes)).splitlines()
    assert right == "6.0" and placed == "1"
    assert waited.startswith("SliceTimeout") and f"1 device of the {most} that user '{name}' may have at a time, of which {most} are in use" in waited
    for text in refused:
        assert text.startswith("InfeasibleSlice") and f"user '{name}' may have 1 devices at a time, and this slice has 2" in text
    assert len(refused) == 2 - most


def test_uploads_and_reads_take_no_more_host_memory_than_the_quota(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--host-memory", str(1 << 22))
    refused, right = ada.run(cluster["address"], CARRIES).splitlines()
    assert f"user '{name}'" in refused and "8.0 MiB" in refused and "4.0 MiB" in refused and "--host-memory" in refused
    assert right == "True"


@pytest.mark.parametrize("user", ["ifrt"], indirect=True)  # colocated functions do not go through the other door
def test_a_user_has_no_more_python_processes_on_a_host_than_the_quota(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--host-processes", "1")
    first = ada.program(cluster["address"], CALLS)
    assert first.stdout.readline() == "6.0\n"
    second = ada.program(cluster["address"], CALLS)
    out, err = second.communicate("\n", timeout=PATIENCE)
    assert f"user '{name}' has 1 Python processes on host 'host0' of island 'island0', and the quota is 1" in out, out + err
    first.communicate("\n", timeout=PATIENCE)
    third = ada.program(cluster["address"], CALLS)
    assert third.stdout.readline() == "6.0\n"
    third.communicate("\n", timeout=PATIENCE)


def test_users_may_have_smaller_shares_and_no_larger_ones(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--weight", "0.5", "--priority", "0")
    ada.env["PATHWAYS_WEIGHT"] = "4"
    program = ada.program(cluster["address"], HOLDS)
    assert program.stdout.readline() == "6.0\n"
    (client,) = operator("status")["clients"]
    assert client["weight"] == 0.5
    done = ada("share", str(client["id"]), "--address", cluster["address"], "--weight", "1", check=False)
    assert done.returncode != 0 and "at most 0.5 and 0" in done.stderr
    assert ada("share", str(client["id"]), "--address", cluster["address"], "--weight", "0.25")["weight"] == 0.25
    assert operator("share", str(client["id"]), "--weight", "2")["weight"] == 2, "an operator may give more"
    _, err = program.communicate("\n", timeout=PATIENCE)
    assert "a weight of 4 and a priority of 0 is more than" in err


def test_users_see_their_own_limits_and_change_none(operator, cluster, user):
    ada, name = user
    operator("quota", "set", "--user", name, "--sessions", "3", "--device-seconds", "1e6")
    operator("quota", "set", "--user", "somebody", "--sessions", "7")
    assert ada("quota", "list", "--address", cluster["address"])["quotas"] == [{"user": name, "sessions": 3, "device_seconds": 1000000}]
    done = ada("quota", "set", "--user", name, "--sessions", "9", "--address", cluster["address"], check=False)
    assert done.returncode != 0 and "only an operator may change quotas" in done.stderr
    assert {one["user"] for one in operator("quota", "list")["quotas"]} == {name, "somebody"}
    operator("quota", "set", "--user", "somebody", "--remove")
    done = operator("quota", "set", "--user", name, "--sessions", "-2", check=False)
    assert done.returncode != 0 and "a number of sessions is 0 or more" in done.stderr
    assert f"{name} " in operator("quota", "list", check=False).stdout
