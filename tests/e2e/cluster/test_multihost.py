"""Tests computations over the devices of several hosts: all collectives, partitioned programs, faults and message counts."""

import pathlib
import signal
import subprocess
import sys

import pytest
from cli import PATIENCE, CommandLine, end
from conftest import clean_environment
from test_join import wait_for_hosts

from pathways._cluster import local
from pathways._cluster.shape import Shape

PROGRAM = pathlib.Path(__file__).with_name("multihost_program.py")
SHAPES = {"two hosts of an island": "1x2x4", "two islands of two hosts": "2x2x2"}


def check(shape, section, **env):
    env = clean_environment(PATHWAYS_LOCAL=shape, XLA_FLAGS="--xla_force_host_platform_device_count=8", **env)
    done = subprocess.run([sys.executable, str(PROGRAM), section], env=env, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0 and f"OK {section}" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("section", ["large", "special", "partitioned", "errors", "messages"])
def test_equal_to_jax_in_process(shape, section):
    check(SHAPES[shape], section)


@pytest.mark.parametrize("shape, section", [("two hosts of an island", "some_collectives"), ("two islands of two hosts", "collectives")])
def test_collectives_are_equal_to_jax_in_process(shape, section):
    check(SHAPES[shape], section)


@pytest.mark.parametrize("section", ["some_collectives", "partitioned", "errors"])
def test_an_island_that_is_one_world_is_equal_to_jax_in_process(section):
    """Its hosts find each other as those with GPUs do: before they have devices, through the controller's key-value store."""
    check("1x2x4", section, PATHWAYS_FIXED_ISLANDS="1")


OVER_ISLANDS = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices()
double = jax.jit(lambda x: x * 2)
def use(devices):
    return double(jax.device_put(np.arange(4.0), NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))))
first, second = use(devices[:2]), jax.device_put(use(devices[:2]), NamedSharding(Mesh(np.array(devices[2:]), ("x",)), P("x")))
np.testing.assert_array_equal(np.asarray(double(second)), np.arange(4.0) * 4)
try:
    use(devices)
except jax.errors.JaxRuntimeError as error:
    print(error)
"""


def test_a_computation_over_two_worlds_is_refused_with_the_remedy(run_script):
    done = run_script(OVER_ISLANDS, timeout=PATIENCE, PATHWAYS_LOCAL="2x2x1", PATHWAYS_FIXED_ISLANDS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one computation over hosts of several worlds" in done.stdout and "a mesh over the devices of one island" in done.stdout, done.stdout


def test_islands_of_different_sizes(tmp_path):
    """One island has two hosts of three devices, the other one host of two devices."""
    command = CommandLine(tmp_path / "home")
    up = command("up", "--hosts", "2", "--devices", "3")
    far = None
    try:
        far = command.start("worker", "--island", "far", "--devices", "2", log=tmp_path / "far.log")
        wait_for_hosts(command, 3)
        env = dict(command.env, PATHWAYS_ADDRESS=up["address"], XLA_FLAGS="--xla_force_host_platform_device_count=8")
        done = subprocess.run([sys.executable, str(PROGRAM), *(sections := ("some_collectives", "large", "special"))], env=env, capture_output=True, text=True,
                              timeout=2 * PATIENCE)
        assert done.returncode == 0 and all(f"OK {section}" in done.stdout for section in sections), done.stdout[-4000:] + done.stderr[-4000:]
        assert end(far, signal.SIGTERM) == 0
    finally:
        if far is not None and far.poll() is None:
            far.kill()
        command("down")


def test_a_host_that_dies_in_the_middle_of_a_loop(tmp_path):
    """The heartbeat limit is an hour, so only the closed connection can end the computations that need the host. pathways/sim tests the
    delay (RF-2)."""
    cluster = local.Cluster(Shape.parse("1x3x2"), tmp_path, heartbeat="1h").start()
    try:
        (victim,) = [process.pid for process in cluster.processes if process.name.endswith("host2")]
        check("1x3x2", "host_lost", PATHWAYS_ADDRESS=cluster.address, HOST2=str(victim))
    finally:
        cluster.stop()
