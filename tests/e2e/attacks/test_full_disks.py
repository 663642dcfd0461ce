"""A user fills the disks on which hosts keep compiled programs and checkpoints, and the memory for files of a program's machine (docs/security.md)."""

import contextlib
import importlib.util
import os
import subprocess

import pytest
from cli import User, operator_at
from test_files_of_others import PRELUDE

MIB = 1 << 20
PROGRAM = "import jax, numpy as np; print(float(jax.jit(lambda v: (v * {n}).sum())(np.ones(8, np.float32))))"


@contextlib.contextmanager
def disk(path, size):
    """Mounts a small disk at the path."""
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,size={size}", "none", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this user may not mount a file system: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path):
    """Writes a file until the disk is full."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert os.statvfs(path).f_bavail == 0


@pytest.fixture
def programs(tmp_path):
    with disk(tmp_path / "programs", "2m") as path:
        yield path


@pytest.fixture
def storage(tmp_path):
    with disk(tmp_path / "storage", "4m") as path:
        yield path


@pytest.fixture
def eve(tmp_path, programs, storage):
    """Returns a user of a cluster whose hosts keep programs and checkpoints on small disks, and the cluster."""
    with operator_at(tmp_path / "op", PATHWAYS_COMPILE_CACHE=str(programs / "cache"), PATHWAYS_PERSISTENCE_DIRECTORY=str(storage / "{user}")) as operator:
        cluster = operator("up", "--devices", "1", "--listen-proxy", "none")
        operator("token", "create", "--user", "eve", "--output", str(tmp_path / "token"))
        user = User(tmp_path / "eve")
        user.login(cluster["address"], tmp_path / "token")
        user.cluster = cluster["address"]
        yield user


def cached(programs):
    return sorted(path.name for path in (programs / "cache").iterdir())


def test_programs_are_compiled_without_a_disk_and_kept_again_when_there_is_room(eve, programs):
    assert eve.run(eve.cluster, PROGRAM.format(n=2)) == "16.0\n"
    assert cached(programs)
    fill(programs / "others")
    assert eve.run(eve.cluster, PROGRAM.format(n=3)) == "24.0\n"
    assert not [name for name in cached(programs) if not name.endswith(".program")], "half a file stays"
    (programs / "others").unlink()
    before = cached(programs)
    assert eve.run(eve.cluster, PROGRAM.format(n=4)) == "32.0\n"
    assert set(cached(programs)) - set(before), "the cache has not recovered"


@pytest.mark.skipif(importlib.util.find_spec("pathwaysutils") is None, reason="pathwaysutils is not installed")
def test_a_checkpoint_that_does_not_fit_is_an_error_and_leaves_nothing(eve, storage):
    folder = storage / "eve" / "run"
    attack = f"""
save({str(folder)!r})
ones = jax.device_put(np.ones(2 << 20, np.float32), jax.devices()[0])  # 8 MiB
for name in ("x", "y"):
    print(error_of(save, {str(folder)!r}, name))
ones = jax.device_put(np.full(1024, 2, np.float32), jax.devices()[0])
print(load({str(folder)!r}).sum())
save({str(folder)!r}, "z")
print(load({str(folder)!r}, "z").sum())
"""
    out = eve.run(eve.cluster, PRELUDE + attack)
    assert out.count("No space left on device") == 2 and out.endswith("1024.0\n2048.0\n"), out
    assert sorted(path.name for path in folder.iterdir()) == ["x", "z"], "a part of the failed save stays"
    assert not list(storage.rglob("*.unfinished"))


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_a_full_memory_for_files_does_not_end_a_program(run_script, door):
    """The stock client ends its process if /dev/shm is full when it hands an array over there. So nothing is handed over that way."""
    code = """
import jax, numpy as np
x = np.arange(2 << 20, dtype=np.float32)
print(bool((np.asarray(jax.device_put(x, jax.devices()[0]) * 2) == x * 2).all()))
"""
    full = "mount -t tmpfs -o size=1m none /dev/shm && head -c 1048576 /dev/zero > /dev/shm/others; exec \"$@\""
    if subprocess.run(["unshare", "--mount", "sh", "-c", full, "sh", "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a file system")
    done = run_script(code, enter=["unshare", "--mount", "sh", "-c", full, "sh"], PATHWAYS_DOOR=door)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
