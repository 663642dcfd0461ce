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


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with operator_at(tmp_path_factory.mktemp("operator")) as command:
        yield command


@pytest.fixture(scope="module")
def cluster(operator):
    return operator("up", "--devices", "2", "--listen-proxy", "none")


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
