"""Clients' Python functions run as the user that the operator names, within the operator's limits."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import pytest
from conftest import PATIENCE, eventually

from pathways._cluster import command_lines, local
from pathways._cluster.shape import Shape

MEMORY = 6 << 30

PROGRAM = """
import os, stat
import jax, numpy as np
from jax.experimental import colocated_python

x = jax.device_put(np.zeros(8, np.int32), jax.devices()[0])

def seen(x):
    import os, pwd, stat, tempfile
    import jax, numpy as np
    def allowed(what, error):
        try:
            what()
        except error:
            return 0
        return 1
    folder = os.stat(tempfile.gettempdir())
    found = [os.getuid(), len(os.getgroups()), folder.st_uid, stat.S_IMODE(folder.st_mode),
             allowed(lambda: os.listdir("/root"), PermissionError), allowed(lambda: os.setuid(0), PermissionError),
             allowed(lambda: np.zeros(%d, np.uint8), MemoryError), allowed(lambda: np.zeros(1 << 20, np.uint8), MemoryError)]
    return jax.device_put(np.array(found, np.int32), list(x.devices())[0])

print(np.asarray(colocated_python.colocated_python(seen)(x)).tolist())
""" % MEMORY


@pytest.fixture
def interpreter():
    """Makes an interpreter with all packages that every user can read, as an operator would install it. This process's may be below root's folder."""
    if os.getuid() != 0:
        pytest.skip("only root can start processes as another user")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pathways-readable-python-"))
    folder.chmod(0o755)
    packages = sysconfig.get_path("platlib")
    below = folder / pathlib.Path(sysconfig.get_path("stdlib")).relative_to(sys.base_prefix) / "site-packages"
    try:
        for source, target in ((sys.base_prefix, folder), (packages, below)):
            target.mkdir(parents=True, exist_ok=True)
            linked = subprocess.run(["cp", "-alf", f"{source}/.", target], capture_output=True, check=False)
            if linked.returncode != 0:  # on another file system
                subprocess.run(["cp", "-af", f"{source}/.", target], check=True)
        yield folder / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    finally:
        shutil.rmtree(folder)


def test_functions_have_the_rights_that_the_operator_gives(run_script, interpreter, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(interpreter.parents[1] / "lib"))
    before = set(pathlib.Path(tempfile.gettempdir()).glob("pathways-python-*"))
    rights = command_lines.HostPython(str(interpreter), user="nobody", memory=MEMORY, processes=1000)
    cluster = local.Cluster(Shape.parse("1x1x1"), tmp_path, host_python=rights).start()
    try:
        done = run_script(PROGRAM, timeout=PATIENCE, PATHWAYS_ADDRESS=cluster.address)
        assert eventually(lambda: set(pathlib.Path(tempfile.gettempdir()).glob("pathways-python-*")) <= before), "temporary files are left"
    finally:
        cluster.stop()
    assert done.returncode == 0, done.stderr + (tmp_path / "host0.log").read_text()
    nobody = 65534
    assert done.stdout == f"{[nobody, 1, nobody, 0o700, 0, 0, 0, 1]}\n"


@pytest.mark.parametrize("options, said", [
    (("--python-user", "no-such-user"), "this machine has no user 'no-such-user'"),
    (("--python-user", "root"), "name another user"),
    (("--python-processes", "5", "--host-python"), "needs --python-user"),
])
def test_rights_that_cannot_be_given_are_told_at_once(command, options, said):
    done = command("up", "--devices", "1", *options, check=False)
    assert done.returncode != 0 and said in done.stderr
