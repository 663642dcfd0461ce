"""`pathways up --on ray` on a real Ray cluster of four nodes, all on this machine. `make test-ray` installs Ray and runs it."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from cli import CommandLine, alive
from conftest import ROOT, eventually

PYTHON = ROOT / "build" / "venv-ray" / "bin" / "python"
WAIT_SECONDS = 180
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="Ray is not installed: 'make test-ray' does that (300 MB)")

PROGRAM = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
devices = jax.devices()
x = jax.device_put(np.arange(8.0), NamedSharding(jax.sharding.Mesh(np.array(devices), ("x",)), P("x")))
print(len(devices), float(jax.jit(lambda v: v.sum())(x)))
"""


def ray_environment():
    # The workers' CPU plugin uses the XLA of a package that is in our environment, not in Ray's.
    libraries = next(ROOT.glob("build/venv/lib/python*/site-packages/tensorflow"))
    return {"LD_LIBRARY_PATH": str(libraries), "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT / "python"),
            "PATHWAYS_BIN_DIR": os.environ.get("PATHWAYS_BIN_DIR", str(ROOT / "build" / "release" / "bin"))}


class RayCluster:
    def __init__(self, folder):
        self.env = dict(os.environ, **ray_environment())
        with open(folder / "ray.log", "w") as log:
            self.popen = subprocess.Popen([PYTHON, pathlib.Path(__file__).with_name("ray_cluster.py"), "3"], env=self.env, text=True,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.address = self.popen.stdout.readline().strip()
        assert self.address, (folder / "ray.log").read_text()[-3000:]

    def look(self, namespace, *other):
        done = subprocess.run([PYTHON, pathlib.Path(__file__).with_name("ray_look.py"), self.address, namespace, *other], env=self.env,
                              capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def remove(self, node):
        self.popen.stdin.write(f"remove {node}\n")
        self.popen.stdin.flush()
        assert self.popen.stdout.readline() == "removed\n"

    def stop(self):
        self.popen.stdin.close()
        self.popen.wait(240)


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    ray = RayCluster(tmp_path_factory.mktemp("ray"))
    yield ray
    ray.stop()


@pytest.fixture(scope="module")
def command(ray, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    command = CommandLine(home, RAY_ADDRESS=ray.address, **ray_environment())
    command.python = PYTHON
    yield command
    command("down", check=False)


@pytest.fixture(scope="module")
def programs(command):
    """Returns a command line in an environment with jax, which Ray's environment lacks."""
    return CommandLine(command.env["PATHWAYS_HOME"], **ray_environment())


@pytest.fixture(scope="module")
def up(command):
    return command("up", "--on", "ray", "--hosts", "2", "--devices", "2", "--memory-limit", "1000000000", "--spill")


def namespace(command):
    return json.loads(pathlib.Path(command.env["PATHWAYS_HOME"], "clusters", "default", "state.json").read_text())["handle"]["namespace"]


def wait_for(command, condition):
    """Waits until the condition holds for {host name: pid}, and returns it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        done = command("status", "--json", check=False)
        hosts = {host["name"]: host["pid"] for host in json.loads(done.stdout).get("hosts", [])} if done.returncode == 0 else {}
        if condition(hosts):
            return hosts
        assert time.monotonic() < deadline, f"{hosts} {done.stderr}"
        time.sleep(0.1)


def test_a_cluster_of_actors(ray, command, programs, up):
    assert (up["islands"], up["hosts_per_island"], up["devices"]) == (1, 2, 4)
    assert programs.run(up["address"], PROGRAM) == "4 28.0\n"
    found = ray.look(namespace(command))
    assert set(found["places"]) == {"controller", "host0", "host1"} and found["groups"] == [namespace(command)]
    assert found["places"]["host0"]["node"] != found["places"]["host1"]["node"]
    assert {host["pid"] for host in command("status")["hosts"]} == {found["places"][name]["child"] for name in ("host0", "host1")}
    report = command("status")
    assert {device["memory"]["limit_bytes"] for device in report["devices"]} == {1000000000}
    assert b"--spill" in pathlib.Path(f"/proc/{report['pid']}/cmdline").read_bytes()
    logs = command("logs", "host1")
    assert any("joined the controller" in line for line in logs["host1"]["lines"])


@pytest.mark.parametrize("process", ["child", "pid"])
def test_a_worker_or_its_actor_that_dies_is_started_again(ray, command, programs, up, process):
    before = ray.look(namespace(command))["places"]["host1"]
    os.kill(before[process], signal.SIGKILL)
    wait_for(command, lambda hosts: hosts.get("host1", before["child"]) != before["child"] and len(hosts) == 2)
    assert eventually(lambda: not alive(before["child"]))  # it ends by itself once its actor is gone
    assert programs.run(up["address"], PROGRAM) == "4 28.0\n"


def test_a_controller_that_dies_is_started_again_where_it_was(ray, command, programs, up):
    before = ray.look(namespace(command))["places"]
    os.kill(before["controller"]["child"], signal.SIGKILL)
    assert eventually(lambda: not alive(before["controller"]["child"]))
    wait_for(command, lambda hosts: set(hosts.values()) == {before["host0"]["child"], before["host1"]["child"]})  # they have outlived it
    assert programs.run(up["address"], PROGRAM) == "4 28.0\n"


def test_a_node_that_dies_is_replaced_by_another(ray, command, programs, up):
    before = ray.look(namespace(command))["places"]
    (name,) = [name for name in ("host0", "host1") if before[name]["node"] != before["controller"]["node"]]
    ray.remove(before[name]["node"])
    wait_for(command, lambda hosts: hosts.get(name, before[name]["child"]) != before[name]["child"] and len(hosts) == 2)
    after = ray.look(namespace(command))["places"]
    assert after[name]["node"] not in (before["host0"]["node"], before["host1"]["node"])
    assert programs.run(up["address"], PROGRAM) == "4 28.0\n"


def test_down_ends_what_up_started_and_nothing_else(ray, command, up):
    mine = namespace(command)
    ray.look(mine, "neighbour")
    places = ray.look(mine)["places"]
    assert set(command("down")["stopped"]) == {"controller", "host0", "host1"}
    left = ray.look(mine)
    assert left["places"] == {} and left["groups"] == [] and left["named"] == [["theirs", "neighbour"]]
    assert not any(alive(place["child"]) for place in places.values())
    assert command("status", check=False).returncode == 3


def test_without_room_or_without_a_cluster_the_error_says_so(ray, command):
    done = command("up", "--on", "ray", "--hosts", "9", "--wait", "1", check=False)
    assert done.returncode == 1 and "no room for 9 x {'CPU': 1.0}" in done.stderr and "ray status" in done.stderr
    assert ray.look("anyone")["groups"] == []
    command.env["RAY_ADDRESS"] = "127.0.0.1:9"
    done = command("up", "--on", "ray", check=False)
    assert done.returncode == 1 and "no Ray cluster at '127.0.0.1:9'" in done.stderr and "RAY_ADDRESS" in done.stderr
