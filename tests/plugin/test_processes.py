"""Runs computations over the devices of several processes, each stock jax with the plugin. They find each other through jax's own key-value store."""
import pathlib
import socket
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("processes_program.py")


WORLDS = ["elastic", "key_value"]


def run(plugin, processes, world, *words):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = [subprocess.Popen([sys.executable, PROGRAM, f"127.0.0.1:{port}", str(i), str(processes), plugin, world, *words],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(processes)]
    try:
        return [(process.communicate(timeout=300)[0], process.returncode) for process in running]
    finally:
        for process in running:
            process.kill()


@pytest.mark.parametrize("processes, world", [(2, "elastic"), (3, "elastic"), (3, "key_value")])
def test_collectives_and_partitioned_programs(plugin, processes, world):
    for said, status in run(plugin, processes, world):
        assert status == 0 and all(word in said for word in ("DEVICES", "COLLECTIVES", "PARTITIONED", "LOOP")), said[-3000:]


@pytest.mark.parametrize("world", WORLDS)
def test_when_one_dies_the_others_are_told_and_live(plugin, world):
    (first, status), (_, killed) = run(plugin, 2, world, "die")
    assert killed == -9
    assert status == 0 and "ERROR UNAVAILABLE" in first and "ALONE [0.0, 2.0, 4.0]" in first, first[-3000:]
