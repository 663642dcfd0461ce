"""The wheel in an environment of its own, away from the checkout: programs and the command line work there with no path set.

What the wheel depends on is lent to the environment from those that have it, nothing of ours is: the packages of the one that runs the tests,
and the CPU device's runtime (the wheel's extra `cpu`), which only build/venv holds.
"""

import json
import pathlib
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
import jax, jax.numpy as jnp, pathways
assert pathways.__file__.startswith(sys.prefix), pathways.__file__
x = jax.device_put(jnp.arange(8.0), jax.devices()[-1])
print(jax.devices()[0].client.platform_version.split()[0], len(jax.devices()), float(jax.jit(lambda v: (v * v).sum())(x)))
"""


class Environment:
    def __init__(self, folder):
        self.home = folder / "home"
        self.work = folder / "empty"
        self.bin = folder / "venv" / "bin"
        self.home.mkdir()
        self.work.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        (wheel,) = (ROOT / "build" / "wheel").glob("*.whl")
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "-q", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--no-index", "--no-deps", wheel], check=True)
        self.packages = pathlib.Path(self.run("python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
        for entry in pathlib.Path(sysconfig.get_paths()["purelib"]).iterdir():
            if not entry.name.startswith("pathways") and entry.suffix != ".pth":
                self._lend(entry)
        (runtime,) = (ROOT / "build" / "venv").glob("lib/python3*/site-packages/tensorflow")
        self._lend(runtime)

    def _lend(self, entry):
        if not (self.packages / entry.name).exists():
            (self.packages / entry.name).symlink_to(entry)

    def run(self, command, *arguments, **more):
        """In a folder that has nothing, with an environment that says nothing; the output."""
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **more}
        done = subprocess.run([self.bin / command, *arguments], cwd=self.work, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("wheel"))


def test_a_program_finds_everything(environment):
    assert environment.run("python", "-c", SCRIPT, JAX_PLATFORMS="pathways").split()[1:] == ["4", "140.0"]


def test_the_command_line_finds_everything(environment):
    def pathways(*arguments):
        return json.loads(environment.run("pathways", *arguments, "--json"))

    up = pathways("up", "--islands", "2", "--devices", "2")
    try:
        status = pathways("status")
        assert (status["state"], len(status["devices"])) == ("formed", 4)
        # `pathways run` says where the cluster is, and for which platform to look.
        said = environment.run("pathways", "run", "--", environment.bin / "python", "-c", SCRIPT)
        assert said.split()[1:] == ["4", "140.0"], up
    finally:
        pathways("down")
    assert not list(environment.work.iterdir())
