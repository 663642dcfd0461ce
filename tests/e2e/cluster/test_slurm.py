"""`pathways up --on slurm` on a real Slurm: a controller daemon and four nodes, all on this machine."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from cli import CommandLine, end, processes_that_show, secrets_in
from slurm import Slurm, missing

WAIT_SECONDS = 180

PROGRAM = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
devices = jax.devices()
x = jax.device_put(np.arange(8.0), NamedSharding(jax.sharding.Mesh(np.array(devices), ("x",)), P("x")))
print(len(devices), len({d.island for d in devices}), float(jax.jit(lambda v: v.sum())(x)))
"""

HOLDING = """
import sys
import jax, numpy as np
x = jax.block_until_ready(jax.jit(lambda v: v + 1)(np.arange(8.0)))
print("ready", flush=True)
sys.stdin.readline()
print(float(jax.jit(lambda v: v.sum())(x)), flush=True)
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if absent := missing():
        pytest.skip(f"{absent} is not installed: tools/setup.sh installs Slurm on Debian")
    if os.getuid() != 0:
        pytest.skip("Slurm's daemons want to be root")
    slurm = started(tmp_path_factory)
    yield slurm
    slurm.stop()


def started(tmp_path_factory, attempts=3):
    """Starts Slurm, with retries: another process may take a port between its choice and its use."""
    for left in reversed(range(attempts)):
        slurm = Slurm(tmp_path_factory.mktemp("slurm"))
        try:
            return slurm.start()
        except BaseException:
            slurm.stop()
            if not left:
                raise


@pytest.fixture
def command(slurm, tmp_path):
    command = CommandLine(tmp_path / "home", **slurm.env)
    yield command
    command("down", check=False)


def wait_for_hosts(command, names):
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := [host["name"] for host in command("status")["hosts"]]) != names:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_a_job_of_its_own(slurm, command):
    up = command("up", "--on", "slurm", "--islands", "2", "--hosts", "2", "--gres", "accel:2", "--memory-limit", "1000000000", "--spill", "--host-python",
                 "--listen-proxy", "0.0.0.0:0")
    assert (up["islands"], up["hosts_per_island"], up["devices"]) == (2, 2, 8)
    (job,) = slurm.jobs()
    assert slurm.ask("squeue", "-h", "-j", job, "-o", "%D %b %j") == "4 gres:accel:2 pathways-default"
    wait_for_hosts(command, ["n0", "n1", "n2", "n3"])
    assert command.run(up["address"], PROGRAM) == "8 2 28.0\n"
    report = command("status")
    assert {device["memory"]["limit_bytes"] for device in report["devices"]} == {1000000000}
    assert b"--spill" in pathlib.Path(f"/proc/{report['pid']}/cmdline").read_bytes()
    assert all(b"--host-python" in pathlib.Path(f"/proc/{host['pid']}/cmdline").read_bytes() for host in report["hosts"])
    assert set(command("logs")) == {"controller", "agent", "job", "n0", "n1", "n2", "n3"}
    secrets = secrets_in(command.env["PATHWAYS_HOME"])
    assert len(secrets) >= 2 and not processes_that_show(secrets)  # the operator's and the workers'
    described = [slurm.ask("scontrol", *words, check=False) for words in (("show", "job", "-d", job), ("write", "batch_script", job, "-"))]
    assert not any(secret.decode() in text for secret in secrets for text in described)
    assert "already up" in command("up", "--on", "slurm", check=False).stderr
    assert command("down")["stopped"] == [f"job {job}"]
    assert slurm.jobs() == {}
    assert command("status", check=False).returncode == 3


def test_a_step_of_the_job_that_we_are_in(slurm, tmp_path):
    slurm.ask("salloc", "-N2", "--gres=accel:2", "--no-shell")
    (job,) = slurm.jobs()
    try:
        other = subprocess.Popen(["srun", f"--jobid={job}", "--overlap", "-N1", "-n1", "sleep", "1000"], env=CommandLine(tmp_path, **slurm.env).env)
        command = CommandLine(tmp_path / "home", **slurm.env, SLURM_JOB_ID=job, SLURM_JOB_NUM_NODES="2")
        up = command("up", "--on", "slurm")  # as many hosts as the job has nodes, as many devices as it got
        assert (up["islands"], up["hosts_per_island"], up["devices_per_host"]) == (1, 2, 2)
        assert command.run(up["address"], PROGRAM) == "4 1 28.0\n"
        stopped = command("down")["stopped"]
        assert len(stopped) == 1 and stopped[0].endswith(f" of job {job}") and stopped[0].startswith("step ")
        assert slurm.jobs() == {job: "RUNNING"} and other.poll() is None  # `down` must end neither
    finally:
        slurm.ask("scancel", job)
    end(other)


@pytest.mark.parametrize("ended_by", ["us", "someone else"])
def test_in_the_foreground_it_ends_with_the_job_and_the_job_with_it(slurm, command, tmp_path, ended_by):
    up = command.start("up", "--on", "slurm", "--devices", "1", "--foreground", log=tmp_path / "log")
    deadline = time.monotonic() + WAIT_SECONDS
    while "is up at" not in (tmp_path / "log").read_text():
        assert time.monotonic() < deadline and up.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.05)
    (job,) = slurm.jobs()
    if ended_by == "us":
        assert end(up, signal.SIGTERM) == 0
    else:
        slurm.ask("scancel", job)
        assert end(up) == 1
        assert f"job {job} has ended; logs in " in (tmp_path / "log").read_text()
    assert slurm.jobs() == {}
    assert command("status", check=False).returncode == 3


def test_what_cannot_be_is_refused(slurm, command, tmp_path):
    within = CommandLine(tmp_path / "home", **slurm.env, SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="2")
    done = within("up", "--on", "slurm", "--hosts", "3", check=False)
    assert done.returncode == 2 and "job 1 has 2" in done.stderr
    done = command("up", "--on", "slurm", "--gres", "nothing:1", check=False)
    assert done.returncode == 1 and "sbatch" in done.stderr and "nvalid" in done.stderr
    assert command("up", "--gres", "accel:1", check=False).returncode == 2
    assert slurm.jobs() == {}


def test_a_worker_that_crashes_comes_back_and_a_node_that_dies_does_not_take_the_job_along(slurm, command):
    up = command("up", "--on", "slurm", "--hosts", "4", "--devices", "2")
    (job,) = slurm.jobs()
    before = {host["name"]: host for host in command("status")["hosts"]}
    subprocess.run(["kill", "-9", str(before["n1"]["pid"])], check=True)
    deadline = time.monotonic() + WAIT_SECONDS
    while {host["name"]: host["pid"] for host in command("status")["hosts"]}.get("n1") in (None, before["n1"]["pid"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert command.run(up["address"], PROGRAM) == "8 1 28.0\n"

    slurm.kill_node("n3")
    assert slurm.jobs() == {job: "RUNNING"}
    wait_for_hosts(command, ["n0", "n2", "n1"])  # in order of ids: n1 has a new id
    assert command.run(up["address"], PROGRAM.replace("devices()", "devices()[:4]")) == "4 1 28.0\n"
    command("down")
    assert slurm.jobs() == {}


def test_a_controller_that_crashes_comes_back_and_programs_go_on(slurm, command):
    up = command("up", "--on", "slurm", "--hosts", "2", "--devices", "2")
    jobs = slurm.jobs()
    before = command("status")
    program = command.program(up["address"], HOLDING)
    assert program.stdout.readline() == "ready\n", program.communicate()[1]
    subprocess.run(["kill", "-9", str(before["pid"])], check=True)
    out, err = program.communicate("\n", timeout=WAIT_SECONDS)
    assert (program.returncode, out) == (0, "36.0\n"), err
    after = command("status")
    assert after["pid"] != before["pid"] and slurm.jobs() == jobs
    assert {host["name"]: host["pid"] for host in after["hosts"]} == {host["name"]: host["pid"] for host in before["hosts"]}
    command("down")
    assert slurm.jobs() == {}
