"""Tests agents, the IFRT proxy servers of clusters. The package starts one for each program, and `pathways up` one beside the controller, for
programs without our package. Users may start more."""

import os
import signal
import socket
import subprocess
import sys

import pytest
from cli import CommandLine, alive, check_that_it_outlives_its_door, end
from conftest import PATIENCE, clean_environment, eventually

from pathways._cluster import binaries

# Stock jax with its own proxy client.
STRANGER = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.extend.backend import ifrt_proxy, register_backend_factory
from jax.sharding import NamedSharding, PartitionSpec as P

address = os.environ["ADDRESS"]
register_backend_factory("proxy", lambda: ifrt_proxy.get_client(f"grpc://{address}", ifrt_proxy.ClientConnectionOptions()), priority=-1)
mesh = jax.make_mesh((4,), ("x",))
x = jax.device_put(np.arange(64.0, dtype=np.float32), NamedSharding(mesh, P("x")))
there = jax.device_put(jax.jit(lambda v: v * 2)(x), jax.devices()[-1])
print(len(jax.devices()), float(jax.jit(jnp.sum)(x)), float(np.asarray(there)[5]), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def pathways(tmp_path_factory):
    command = CommandLine(tmp_path_factory.mktemp("home"))
    yield command
    command("down", check=False)


@pytest.fixture(scope="module")
def cluster(pathways):
    return pathways("up", "--islands", "2", "--devices", "2")


@pytest.fixture(scope="module")
def agent(pathways, cluster, tmp_path_factory):
    """Starts an agent by the command line; yields its address."""
    folder = tmp_path_factory.mktemp("agent")
    process = pathways.start("agent", "--port-file", str(folder / "port"), log=folder / "log")
    assert eventually((folder / "port").exists), (folder / "log").read_text()
    yield (folder / "port").read_text().splitlines()[0]
    assert end(process, signal.SIGTERM) == 0, (folder / "log").read_text()


def stranger(address):
    env = clean_environment(JAX_PLATFORMS="proxy", ADDRESS=address, IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true")
    return subprocess.Popen([sys.executable, "-c", STRANGER], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("whose", ["the user's", "the cluster's"])
def test_programs_without_our_package_share_an_agent(pathways, cluster, agent, whose):
    address = agent if whose == "the user's" else cluster["proxy_address"]
    programs = [stranger(address) for _ in range(2)]
    for program in programs:
        line = program.stdout.readline()
        assert line == "4 2016.0 10.0\n", line or program.communicate()[1]
    # Each program is a client of the cluster; the agent is not. A client of the previous test may take a moment to disappear.
    assert eventually(lambda: len(pathways("status")["clients"]) == 2)
    for program in programs:
        errors = program.communicate("\n", timeout=PATIENCE)[1]
        # jaxlib's own client may end its connection before its programs are deleted, and logs that.
        assert program.returncode == 0 and (errors == "" or "Disconnected by client" in errors), errors
    assert eventually(lambda: pathways("status")["clients"] == [])


def test_a_stranger_that_is_killed_leaves_nothing(pathways, agent):
    program = stranger(agent)
    assert program.stdout.readline() == "4 2016.0 10.0\n"
    program.kill()
    program.communicate()
    assert eventually(lambda: pathways("status")["clients"] == [])


def test_an_agent_says_which_controller_is_not_there(pathways, tmp_path):
    done = pathways("agent", "--address", "127.0.0.1:9", "--wait", "0", check=False)
    assert done.returncode != 0 and "127.0.0.1:9" in done.stderr


def test_a_cluster_s_agent_listens_where_it_is_told_or_not_at_all(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        wanted = f"127.0.0.1:{probe.getsockname()[1]}"
    for words, address in (("--listen-proxy", wanted), wanted), (("--listen-proxy", "none"), None):
        command = CommandLine(tmp_path)
        try:
            assert command("up", "--devices", "1", *words)["proxy_address"] == address
        finally:
            command("down", check=False)
    done = CommandLine(tmp_path)("up", "--listen-proxy", "nowhere", check=False)
    assert done.returncode == 2 and "--listen-proxy wants HOST:PORT" in done.stderr


def test_a_program_finds_its_cluster_without_asking_in_another_process(run_script, pathways, cluster):
    """The agent is the only process that a program on a cluster starts."""
    done = run_script("""
import subprocess
import jax
started, popen = [], subprocess.Popen
subprocess.Popen = lambda args, **kwargs: (started.append(str(args[0]).rpartition("/")[2]), popen(args, **kwargs))[1]
print(jax.device_count(), started)
""", PATHWAYS_ADDRESS=cluster["address"], PATHWAYS_HOME=pathways.env["PATHWAYS_HOME"])
    assert (done.returncode, done.stdout) == (0, "4 ['pathways-agent']\n"), done.stderr


def test_the_controller_has_no_grpc():
    assert b"grpc" in binaries.find("pathways-agent").read_bytes().lower()
    assert b"grpc" not in binaries.find("pathways-controller").read_bytes().lower()


def test_an_address_of_something_else_is_no_controller(run_script, pathways, cluster):
    token = os.path.join(pathways.env["PATHWAYS_HOME"], "identities", "default", "operator.token")
    for env, why in ((dict(PATHWAYS_TOKEN_FILE=token), "does not speak TLS"), (dict(PATHWAYS_TLS="off"), "is it a controller?")):
        done = run_script("import jax\njax.devices()\n", PATHWAYS_ADDRESS=cluster["proxy_address"], PATHWAYS_CONNECT_TIMEOUT="2", **env)
        assert done.returncode == 1 and cluster["proxy_address"] in done.stderr and why in done.stderr, done.stderr


def test_the_agent_of_a_program_ends_with_it(run_script, tmp_path):
    done = run_script("""
import os, signal
import jax
jax.devices()
from pathways._client import connection
assert "agent" in connection._endpoint.door.name
print(connection._endpoint.door.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""", PATHWAYS_LOCAL="2x1x1")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert eventually(lambda: not alive(int(done.stdout)))


def test_a_program_outlives_its_agent(run_script):
    check_that_it_outlives_its_door(run_script, signal.SIGKILL, PATHWAYS_LOCAL="2x1x1")


def test_large_arrays_are_handed_from_process_to_process(run_script):
    """The worker maps the file that the client has written, and the client maps the memory that the worker has filled."""
    done = run_script("""
import pathlib
import jax, numpy as np
from pathways._client import connection
from pathways._cluster import admin
jax.devices()
worker = connection._endpoint.cluster.processes[1]
maps = lambda pid: pathlib.Path(f"/proc/{pid}/maps").read_text()
x = np.arange(16 << 20, dtype=np.uint8).reshape(16, -1)
y = jax.block_until_ready(jax.device_put(x, jax.devices()[0]))
print("/lt_" in maps(worker.pid))
z = np.asarray(jax.jit(lambda v: v + 1)(y))
assert np.array_equal(x + 1, z)
print("memfd:pathways" in maps("self"), admin.status(connection._endpoint.controller)["array_bytes"] < 1000)
""", PATHWAYS_LOCAL="2x1x1")
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True", "True"]), done.stderr  # the few bytes are the addresses of arrays
