"""64 clients of eight users on one cluster, with TLS and tokens: tests/crowd/crowd.cc. Their shares are tested by the numbers of results that they have
seen, and not by a clock."""

import os
import subprocess

import pytest
from cli import operator_at
from conftest import PATIENCE, ROOT, eventually

CROWD = ROOT / os.environ.get("PATHWAYS_TREE", "build/release") / "crowd" / "crowd"
USERS = {f"user{i}": 1 if i < 4 else 2 for i in range(7)} | {"greedy": 1000}
MOST = 2          # the weight that the operator lets users have
CLIENTS = 8       # of each user
RESULTS = 4800    # of all clients: 50 of one with weight 1
OF_CLIENT = 0.2   # of its results may a client have more or less: a computation that another process delays counts as device time of its client
OF_USER = 0.04


@pytest.fixture
def operator(tmp_path):
    with operator_at(tmp_path / "op") as command:
        yield command


@pytest.fixture
def crowd(operator, tmp_path):
    """Returns a process of all clients, on a cluster whose only device takes 5 ms for each of their computations."""
    address = operator("up", "--simulated", "1x1", "--simulated-device", "1e6:0:0", "--listen-proxy", "none")["address"]
    operator("quota", "set", "--user", "*", "--weight", str(MOST))
    users = []
    for user, weight in USERS.items():
        operator("token", "create", "--user", user, "--output", str(tmp_path / user))
        users.append(f"{tmp_path / user}={weight}")
    process = subprocess.Popen([CROWD, address, str(CLIENTS), str(RESULTS), *users], env=operator.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_64_clients_of_8_users_get_their_shares_and_leave_nothing_behind(operator, crowd):
    line = crowd.stdout.readline()
    counts = [int(word) for word in line.split()]
    assert len(counts) == CLIENTS * len(USERS), line + crowd.communicate(timeout=PATIENCE)[1]
    assert sum(counts) == RESULTS
    weights = {user: min(weight, MOST) for user, weight in USERS.items()}
    one = RESULTS / (CLIENTS * sum(weights.values()))
    of_users = [counts[at:at + CLIENTS] for at in range(0, len(counts), CLIENTS)]
    for (user, weight), results in zip(weights.items(), of_users):
        assert abs(sum(results) / (CLIENTS * one * weight) - 1) <= OF_USER, f"{user}, of weight {weight}: {of_users}"
        assert all(abs(result - one * weight) <= OF_CLIENT * one * weight + 1 for result in results), f"{user}, of weight {weight}: {of_users}"

    clients = operator("status")["clients"]
    assert {client["user"]: client["weight"] for client in clients} == weights
    assert all(client["waiting"] > 0 for client in clients)
    crowd.kill()  # while all of them compute
    assert "may have: at most 2 and" in crowd.communicate(timeout=PATIENCE)[1]

    def is_clean():
        report = operator("status")
        return not report["clients"] and not any(device["memory"]["used_bytes"] for device in report["devices"]) and not report["hosts"][0]["ops_in_flight"]

    assert eventually(is_clean), operator("status")
