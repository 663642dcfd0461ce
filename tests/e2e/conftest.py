"""Runs stock jax on a local cluster of two islands, and compares it with jax's own cpu backend in the same process.

The pytest process is the client: its first use of a device starts the cluster, and one cluster serves all modules. Tests that
need separate processes or clusters start them (run_script). TEST_ON_CLUSTER=address uses that cluster, of the same shape, instead.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

os.environ["JAX_PLATFORMS"] = "pathways"
os.environ.setdefault("PATHWAYS_LOCAL", "2x1x4")
os.environ.pop("PATHWAYS_ADDRESS", None)
if "TEST_ON_CLUSTER" in os.environ:
    os.environ["PATHWAYS_ADDRESS"] = os.environ.pop("TEST_ON_CLUSTER")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"  # the reference: jax's own cpu

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

E2E = pathlib.Path(__file__).resolve().parent
ROOT = E2E.parents[1]
PER_ISLAND = 4


@pytest.fixture(scope="session")
def devices():
    """Returns all devices of the cluster: the first four are island0's, the others island1's."""
    found = jax.devices()
    assert len(found) == 2 * PER_ISLAND
    return found


@pytest.fixture(scope="session")
def islands(devices):
    return devices[:PER_ISLAND], devices[PER_ISLAND:]


@pytest.fixture(scope="session")
def cpu():
    """Returns jax's own cpu device."""
    return jax.devices("cpu")[0]


def assert_same(ours, reference, rtol=1e-6, atol=0.0):
    """Asserts that two pytrees have equal structure, types, shapes and, within rounding, values."""
    assert jax.tree.structure(ours) == jax.tree.structure(reference)
    for mine, theirs in zip(jax.tree.leaves(ours), jax.tree.leaves(reference)):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if mine.dtype.kind in "biu" or mine.dtype == bool:
            np.testing.assert_array_equal(mine, theirs)
        else:
            wide = np.complex128 if mine.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), rtol=rtol, atol=atol)


@pytest.fixture(scope="session")
def same(cpu):
    """Returns same(f, *args), which asserts that f returns the same on the cluster as on jax's own cpu. The arguments are numpy arrays."""

    def check(function, *args, jit=True, rtol=1e-6, atol=0.0):
        compiled = jax.jit(function) if jit else function
        ours = compiled(*args)
        with jax.default_device(cpu):
            reference = compiled(*args)
        assert all(cpu not in leaf.devices() for leaf in jax.tree.leaves(ours) if isinstance(leaf, jax.Array))
        assert_same(ours, reference, rtol, atol)
        return ours

    return check


PATIENCE = 240  # seconds; enough on a busy machine


def eventually(condition, seconds=PATIENCE):
    """Whether the condition becomes true in time. Only failing tests reach the limit."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def clean_environment(**env):
    """Returns the environment for a separate program."""
    dropped = ("PATHWAYS_ADDRESS", "PATHWAYS_LOCAL", "XLA_FLAGS", "JAX_PLATFORMS", "TF_CPP_MIN_LOG_LEVEL")
    clean = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith("IFRT_PROXY")}
    return {**clean, "JAX_PLATFORMS": "pathways", "PATHWAYS_LOCAL": "1x1x2", **env}


@pytest.fixture
def command(tmp_path):
    """Returns the command line with a private folder; its cluster ends with the test."""
    from cli import CommandLine  # imports this module

    command = CommandLine(tmp_path / "home")
    yield command
    command("down", check=False)


class Recorder:
    """Records the events of a cluster of its own (`pathways trace`) while programs run on it."""

    def __init__(self, command, folder):
        self.command, self.path, self.programs = command, folder / "trace.json", []

    def start(self, shape, code, *options, programs=1):
        """Starts a cluster of islands x hosts x devices and programs on it, and returns when each of them has printed "ready"."""
        sizes = zip(("--islands", "--hosts", "--devices"), shape.split("x"))
        address = self.command("up", *(word for pair in sizes for word in pair), *options)["address"]
        self.programs = [self.command.program(address, code) for _ in range(programs)]
        for program in self.programs:
            assert program.stdout.readline() == "ready\n", program.stderr.read()

    def record(self, seconds, *options):
        """Records, and returns what the command says about the recording."""
        summary = self.command("trace", "--seconds", str(seconds), "-o", str(self.path), *options)
        self.trace = json.loads(self.path.read_text())
        self.events = self.trace["traceEvents"]
        self.processes = {e["pid"]: e["args"]["name"] for e in self.events if e["name"] == "process_name"}
        self.tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.events if e["name"] == "thread_name"}
        return summary

    def end_programs(self):
        for program in self.programs:
            program.kill()
            program.communicate()


@pytest.fixture
def recorder(command, tmp_path):
    """Returns a Recorder, whose programs and cluster end with the test."""
    recorder = Recorder(command, tmp_path)
    yield recorder
    recorder.end_programs()


@pytest.fixture
def run_script(tmp_path):
    """Returns a function that runs a Python program as a user would, in a separate process."""

    def run(code, timeout=120, enter=(), **env):  # `enter`: the words of a command that starts it elsewhere
        path = tmp_path / "script.py"
        path.write_text(code)
        return subprocess.run([*enter, sys.executable, str(path)], env=clean_environment(**env), cwd=tmp_path, capture_output=True, text=True,
                              timeout=timeout)

    return run


@pytest.fixture
def run_as_operator(run_script, tmp_path):
    """Returns a function that runs a Python program with an operator's token on a cluster of this shape that listens on an address."""
    from pathways._cluster import command_lines, local
    from pathways._cluster.shape import Shape

    def run(code, shape):
        security = command_lines.Security(tmp_path / "identity", tmp_path)
        cluster = local.Cluster(Shape.parse(shape), tmp_path, listen="127.0.0.1:0", security=security).start()
        try:
            return run_script(code, timeout=PATIENCE, PATHWAYS_ADDRESS=cluster.address, PATHWAYS_TOKEN_FILE=tmp_path / "operator.token")
        finally:
            cluster.stop()

    return run


def pytest_sessionstart(session):
    # An installed package's pathways.pth does this before a script imports jax; here jax is already imported.
    from pathways import _bootstrap

    _bootstrap.main()
