"""Installs the wheel into a new environment, away from the checkout: programs and the command line work there without any path set.

The environment gets links to the packages that the wheel depends on, and to nothing of Pathways. The packages are those of the environment
that runs the tests. The CPU device's runtime (the wheel's extra `cpu`) is in build/venv.
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
        """Runs a command in an empty folder with a minimal environment; returns its output."""
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **more}
        done = subprocess.run([self.bin / command, *arguments], cwd=self.work, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_a_program_finds_everything(environment, door):
    assert environment.run("python", "-c", SCRIPT, JAX_PLATFORMS="pathways", PATHWAYS_DOOR=door).split()[-2:] == ["4", "140.0"]


@pytest.mark.parametrize("file", ["lib/libpathways_pjrt.so", "lib/libpathways_profiler.so", *(f"bin/pathways-{name}" for name in ("agent", "controller", "local", "worker"))])
def test_nothing_takes_a_library_of_the_machine_s_but_those_of_every_linux(environment, file):
    package = environment.packages / "pathways"
    found = subprocess.run(["ldd", package / file], capture_output=True, text=True, check=True).stdout
    elsewhere = {line.split()[0].partition(".so")[0] for line in found.splitlines() if str(package / "lib") not in line}
    assert elsewhere <= {"linux-vdso", "libstdc++", "libm", "libgcc_s", "libc", "libz", "/lib64/ld-linux-x86-64"}, found


def test_the_command_line_finds_everything(environment):
    def pathways(*arguments):
        return json.loads(environment.run("pathways", *arguments, "--json"))

    up = pathways("up", "--islands", "2", "--devices", "2")
    try:
        status = pathways("status")
        assert (status["state"], len(status["devices"])) == ("formed", 4)
        # `pathways run` sets the cluster's address and the platform.
        said = environment.run("pathways", "run", "--", environment.bin / "python", "-c", SCRIPT)
        assert said.split()[1:] == ["4", "140.0"], up
    finally:
        pathways("down")
    assert not list(environment.work.iterdir())
