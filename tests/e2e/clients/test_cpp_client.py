"""Runs a C++ program on a cluster, without Python or gRPC: examples/cpp/two_islands.cc over the session protocol."""

import os
import pathlib
import subprocess

import pytest

from pathways._cluster import addresses, command_lines, processes

ROOT = pathlib.Path(__file__).resolve().parents[3]
TREE = ROOT / os.environ.get("PATHWAYS_TREE", "build/release")
SECONDS = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Starts a cluster of two islands, each of one host with one device; yields its address for clients."""
    folder = tmp_path_factory.mktemp("cluster")
    port_file, address = folder / "port", f"unix:{folder}/clients.sock"
    args = command_lines.controller(address, f"unix:{folder}/workers.sock", 2, port_file)
    running = [processes.Process("controller", args, folder / "controller.log")]
    try:
        _, workers = processes.wait_for(lambda: addresses.read_ports(port_file), running, SECONDS, "the controller did not start")
        for island in ("north", "south"):
            command = command_lines.worker(workers, f"host-{island}", island, "cpu", devices=1)
            running.append(processes.Process(island, command, folder / f"{island}.log"))
        processes.wait_for(lambda: "has formed" in (folder / "controller.log").read_text() or None, running, SECONDS, "the cluster did not form")
        yield address
    finally:
        processes.stop_all(running[::-1])


def run(*args):
    return subprocess.run([TREE / "examples/two_islands", *args], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_computation_on_one_island_uses_the_result_of_one_on_the_other(address):
    done = run(address)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4 8 12 16\n", "")


def test_programs_come_one_after_another(address):
    for _ in range(3):
        assert run(address).stdout == "4 8 12 16\n"


def test_a_program_is_told_how_to_be_called():
    done = run()
    assert done.returncode == 2 and "usage: two_islands ADDRESS" in done.stderr
