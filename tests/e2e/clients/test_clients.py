"""Runs several programs on one cluster, and the command line that manages it."""

import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT, clean_environment, eventually


def pathways(*arguments, env=None, timeout=120):
    command = [sys.executable, "-m", "pathways", *arguments]
    return subprocess.run(command, env=env or clean_environment(), capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Starts a cluster of two islands for this module; yields (environment, address)."""
    env = clean_environment(PATHWAYS_HOME=str(tmp_path_factory.mktemp("home")))
    env.pop("PATHWAYS_LOCAL")
    done = pathways("up", "--islands", "2", "--hosts", "1", "--devices", "2", "--json", env=env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["devices"] == 4
    yield env, report["address"]
    down = pathways("down", "--json", env=env)
    assert down.returncode == 0 and json.loads(down.stdout)["stopped"] == ["controller", "host0", "host1", "agent"]


def test_status_counts_islands_hosts_devices(cluster):
    env, address = cluster
    report = json.loads(pathways("status", "--json", env=env).stdout)
    assert [len(report[key]) for key in ("islands", "hosts", "devices")] == [2, 2, 4]
    text = pathways("status", env=env).stdout
    assert address in text and "2 island(s), 2 host(s), 4 device(s)" in text


def test_a_second_up_is_refused_with_the_way_out(cluster):
    done = pathways("up", env=cluster[0])
    assert done.returncode == 2 and "already up" in done.stderr and "--name" in done.stderr


def test_logs_show_every_process(cluster):
    logs = json.loads(pathways("logs", "--json", env=cluster[0]).stdout)
    assert set(logs) == {"controller", "host0", "host1", "agent"}


def test_run_uses_the_cluster_that_is_up(cluster):
    done = pathways("run", "--", sys.executable, "-c", "import jax; print(len(jax.devices()))", env=cluster[0])
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_run_with_a_shape_brings_a_cluster_of_its_own(cluster):
    done = pathways("run", "--devices", "3", "--", sys.executable, "-c", "import jax; print(len(jax.devices()))", env=cluster[0])
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_run_returns_the_program_s_status(cluster):
    assert pathways("run", "--", sys.executable, "-c", "raise SystemExit(5)", env=cluster[0]).returncode == 5


PROGRAM = """
import sys, jax, jax.numpy as jnp
seed = int(sys.argv[1])
x = jnp.full((64,), float(seed))
f = jax.jit(lambda v: v * 1.0 + 1)
for _ in range(50):
    x = f(x)
print(float(x[0]) - seed)
"""


def test_clients_at_the_same_time_do_not_disturb_each_other(cluster, tmp_path):
    env, address = cluster
    path = tmp_path / "client.py"
    path.write_text(PROGRAM)
    clients = [subprocess.Popen([sys.executable, str(path), str(i)], env={**env, "PATHWAYS_ADDRESS": address}, stdout=subprocess.PIPE, text=True)
               for i in range(3)]
    assert [c.communicate(timeout=120)[0] for c in clients] == ["50.0\n"] * 3


def status_of(env):
    return json.loads(pathways("status", "--json", env=env).stdout)


def clients_of(env):
    return status_of(env)["clients"]


def test_files_that_a_client_s_environment_names_are_no_matter_of_the_hosts(cluster, tmp_path):
    """jax writes their names into the options of every program: a folder of CUDA that it finds, and files in XLA_FLAGS, which MaxText sets."""
    env, address = cluster
    assert not address.startswith("unix:")
    program = "import jax\nprint(float(jax.jit(lambda x: x + 1)(1.0)))"
    files = {"CUDA_ROOT": "/home/ada/cuda", "XLA_FLAGS": f"--xla_dump_to={tmp_path}/dump"}
    done = subprocess.run([sys.executable, "-c", program], env={**env, "PATHWAYS_ADDRESS": address, **files}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "2.0\n"), done.stderr
    assert not (tmp_path / "dump").exists()


def test_a_client_s_end_frees_what_it_owned(cluster, tmp_path):
    env, address = cluster
    program = "import jax, jax.numpy as jnp, time\nx = jnp.ones((1 << 20,)).block_until_ready()\nprint('ready', flush=True)\ntime.sleep(100)\n"
    client = subprocess.Popen([sys.executable, "-c", program], env={**env, "PATHWAYS_ADDRESS": address}, stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "ready\n"
    assert len(clients_of(env)) == 1
    assert sum(device["memory"]["used_bytes"] for device in status_of(env)["devices"]) >= 4 << 20
    client.kill()
    client.wait()
    assert eventually(lambda: not clients_of(env))
    assert eventually(lambda: sum(device["memory"]["used_bytes"] for device in status_of(env)["devices"]) == 0)


def test_the_example_trains_on_both_islands(cluster):
    done = pathways("run", "--", sys.executable, str(ROOT / "examples" / "train_transformer.py"), "--steps", "20", env=cluster[0], timeout=280)
    assert done.returncode == 0, done.stderr
    assert "4 devices on 2 island(s)" in done.stdout and "tokens/s" in done.stdout
    first, last = (float(x) for x in done.stdout.splitlines()[-1].split()[1::2])
    assert last < first - 1


def test_hello(run_script):
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "hello.py")], env=clean_environment(PATHWAYS_LOCAL="2x1x2"), capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 x cpu, sum of squares 1240\n") == 2, done.stdout


def test_foreground_up_ends_with_its_terminal(tmp_path):
    env = clean_environment(PATHWAYS_HOME=str(tmp_path), PATHWAYS_LOCAL="1x1x1")
    up = subprocess.Popen([sys.executable, "-m", "pathways", "up", "--foreground", "--json"], env=env, stdout=subprocess.PIPE, text=True)
    assert json.loads(up.stdout.readline())["devices"] == 1
    up.terminate()
    assert up.wait(30) == 0
    assert pathways("status", env=env).returncode == 3
    assert os.listdir(tmp_path / "clusters")
