"""Tests tokens and roles of a cluster that listens on an address, by the command line and stock jax. docs/security.md has the table of roles;
tests/session/roles_test.cc tests its cells."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest
from cli import CommandLine, User, operator_at, processes_that_show, secrets_in
from conftest import PATIENCE, eventually

WAITS = """
import jax, sys
x = jax.jit(lambda v: v * 2)(jax.numpy.arange(8.0))
print(float(x.sum()), flush=True)
sys.stdin.readline()
print(float((x + 1).sum()), flush=True)
"""


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with operator_at(tmp_path_factory.mktemp("operator")) as command:
        yield command


@pytest.fixture(scope="module")
def cluster(operator):
    return operator("up", "--devices", "2", "--listen-proxy", "none")


@pytest.fixture
def token(operator, cluster, tmp_path):
    """Returns a function that makes a token and returns the path of its file."""

    def make(user, role="user"):
        operator("token", "create", "--user", user, "--role", role, "--output", str(tmp_path / f"{user}.token"))
        return tmp_path / f"{user}.token"

    return make


@pytest.fixture
def ada(cluster, token, tmp_path):
    user = User(tmp_path / "ada")
    user.login(cluster["address"], token("ada"))
    return user


def test_whoever_has_the_cluster_up_needs_nothing_more(operator, cluster):
    assert operator.run(cluster["address"], "import jax; print(len(jax.devices()))") == "2\n"
    assert operator("status", "--address", cluster["address"])["state"] == "formed"


def test_a_stranger_is_told_what_is_missing(cluster, tmp_path):
    stranger = User(tmp_path / "stranger")
    program = stranger.program(cluster["address"], "import jax; jax.devices()")
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode != 0 and "pathways login" in err, err
    for words in (("status",), ("drain", "h0"), ("token", "list"), ("trace", "-s", "0.1", "-o", os.devnull)):
        done = stranger(*words, "--address", cluster["address"], check=False)
        assert done.returncode == 1 and "there is no token for it" in done.stderr, done.stderr
    # A client without encryption is refused too.
    stranger.env["PATHWAYS_TLS"] = "off"
    assert stranger("status", "--address", cluster["address"], check=False).returncode == 1


def test_what_is_no_greeting_gets_no_answer(cluster):
    host, _, port = cluster["address"].rpartition(":")
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"PWF1" + bytes(12), b"\x16\x03\x01\xff\xff" + bytes(70000)):
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as stranger:
            try:
                stranger.sendall(words)
                answer = stranger.recv(4096)
                while stranger.recv(4096):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                continue
            assert len(answer) < 100  # a TLS alert
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as silent:
        assert silent.recv(1) == b""  # closed in time


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_a_user_computes_and_sees_only_his_own(operator, cluster, ada, token, tmp_path, door):
    bob = User(tmp_path / "bob")
    bob.login(cluster["address"], token("bob"))
    for user in (ada, bob):
        user.env["PATHWAYS_DOOR"] = door
    programs = [user.program(cluster["address"], WAITS) for user in (ada, bob)]
    for program in programs:
        assert program.stdout.readline() == "56.0\n", program.communicate()[1]
    assert {client["user"] for client in operator("status")["clients"]} == {"ada", "bob"}
    (mine,) = ada("status", "--address", cluster["address"])["clients"]
    (other,) = bob("status", "--address", cluster["address"])["clients"]
    assert (mine["user"], other["user"]) == ("ada", "bob")
    for words in (("share", str(other["id"]), "-w", "2"), ("suspend", str(other["id"])), ("drain", "h0"), ("token", "list"), ("trace", "-s", "0.1", "-o", os.devnull)):
        done = ada(*words, "--address", cluster["address"], check=False)
        assert done.returncode == 1 and "only an operator may" in done.stderr, done.stderr
    assert ada("share", str(mine["id"]), "-w", "2", "--address", cluster["address"])["weight"] == 2
    for program in programs:
        assert program.communicate("\n", timeout=PATIENCE)[0] == "64.0\n" and program.returncode == 0


def test_revoking_a_token_ends_its_programs(operator, cluster, ada, tmp_path):
    program = ada.program(cluster["address"], WAITS)
    assert program.stdout.readline() == "56.0\n", program.communicate()[1]
    token = re.search("pw-([0-9a-f]{8})-", (tmp_path / "ada.token").read_text()).group(1)
    assert token in [one["id"] for one in operator("token", "list")]
    operator("token", "revoke", token)
    assert token not in [one["id"] for one in operator("token", "list")]
    assert eventually(lambda: operator("status")["clients"] == [])
    out, err = program.communicate("\n", timeout=PATIENCE)
    assert program.returncode != 0 and "revoked" in err, err
    done = ada("status", "--address", cluster["address"], check=False)
    assert done.returncode == 1 and "was revoked" in done.stderr
    ada.env["PATHWAYS_DOOR"] = "ifrt"  # jax's client shows a refusal only after PATHWAYS_CONNECT_TIMEOUT: the agent says it at once
    with ada.program(cluster["address"], "import jax; jax.devices()") as late:
        assert any("has refused this program" in line and "was revoked" in line for line in late.stderr)
        late.kill()


def test_no_secret_is_where_others_can_read_it(operator, cluster, ada, token):
    program = ada.program(cluster["address"], WAITS)
    assert program.stdout.readline() == "56.0\n", program.communicate()[1]
    homes = [pathlib.Path(operator.env["PATHWAYS_HOME"]), ada.home]
    files = [path for home in homes for path in home.rglob("*") if path.is_file()]
    secrets = secrets_in(*homes)
    assert len(secrets) >= 3  # the operator's, the workers' and ada's
    for path in files:
        if any(secret in path.read_bytes() for secret in secrets) or path.suffix == ".key":
            assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o077 == 0, path
            assert path.suffix != ".log"
    assert not processes_that_show(secrets)
    program.communicate("\n", timeout=PATIENCE)


def test_a_file_that_others_can_read_is_refused(cluster, ada):
    stored = ada.home / ".config" / "pathways" / "tokens" / cluster["address"]
    assert stored.stat().st_mode & 0o777 == 0o600
    stored.chmod(0o644)
    done = ada("status", "--address", cluster["address"], check=False)
    assert done.returncode == 1 and f"chmod 600 {stored}" in done.stderr


def test_login_stores_nothing_that_does_not_work(operator, cluster, token, tmp_path):
    eve = User(tmp_path / "eve")
    file = token("eve")
    file.write_text(re.sub("[0-9a-f]{64}\n$", "0" * 64 + "\n", file.read_text()))
    done = eve("login", cluster["address"], "--token-file", str(file), check=False)
    assert done.returncode == 1 and "not one of this cluster" in done.stderr
    assert not list((eve.home / ".config" / "pathways" / "tokens").iterdir())
    done = subprocess.run([sys.executable, "-m", "pathways", "login", cluster["address"]], input="nonsense", env=eve.env, capture_output=True, text=True)
    assert done.returncode == 2 and "no token file" in done.stderr and "nonsense" not in done.stderr


def test_with_tls_off_everybody_enters_and_that_is_shouted(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("tls-off")  # a short name: the path of the workers' socket must fit
    command = User(tmp_path / "open")
    try:
        done = command("up", "--devices", "1", "--tls", "off", "--listen-proxy", "none", check=False)
        assert done.returncode == 0 and "TLS IS OFF" in done.stderr, done.stderr
        address = re.search(r"PATHWAYS_ADDRESS=(\S+)", done.stdout).group(1)
        assert "TLS IS OFF" in command("logs", check=False).stdout
        assert command.run(address, "import jax; print(len(jax.devices()))") == "1\n"
        stranger = User(tmp_path / "stranger")
        assert stranger("status", "--address", address, check=False).returncode == 1, "a client must ask for it too"
        stranger.env["PATHWAYS_TLS"] = "off"
        assert stranger.run(address, "import jax; print(len(jax.devices()))") == "1\n"
    finally:
        command("down", check=False)


def test_hosts_and_programs_of_a_network_speak_tls_to_each_other(tmp_path):
    """The cluster listens on all addresses, and two hosts joined by a token. Its controller, its lanes and its hosts' links are on TCP."""
    operator = CommandLine(tmp_path / "operator")
    workers = []
    try:
        up = operator("up", "--no-workers", "--hosts", "2", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1", "--listen-proxy", "none")
        operator("token", "create", "--user", "rack1", "--role", "worker", "--uses", "2", "--output", str(tmp_path / "rack1.token"))
        for name in ("a", "b"):
            host = User(tmp_path / name)
            workers.append(host.start("worker", "--join", up["address"], "--devices", "1", "--host", name, "--island", name, "--advertise", "127.0.0.1",
                                      "--token-file", str(tmp_path / "rack1.token"), log=tmp_path / f"{name}.log"))
        assert eventually(lambda: operator("status")["state"] == "formed"), [path.read_text() for path in tmp_path.glob("*.log")]
        assert all(host["data_address"].startswith("tcp:") for host in operator("status")["hosts"])
        ada = User(tmp_path / "ada")
        operator("token", "create", "--user", "ada", "--output", str(tmp_path / "ada.token"))
        ada.login(up["address"], tmp_path / "ada.token")
        moves = """
import jax, numpy as np
a, b = jax.devices()
x = np.arange(1 << 20, dtype=np.float32)
there = jax.device_put(jax.device_put(x, a), b)
print(bool((np.asarray(there) == x).all()))
"""
        assert ada.run(up["address"], moves) == "True\n"
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait(PATIENCE)
        operator("down", check=False)
