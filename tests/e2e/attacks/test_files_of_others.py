"""A user with a token attacks the files of others and of the operator, by the requests of pathwaysutils that make hosts save and load arrays
(docs/security.md)."""

import importlib.util
import os

import pytest
from cli import PATIENCE, User, operator_at

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pathwaysutils") is None, reason="pathwaysutils is not installed")

PRELUDE = """
import datetime, sys
import jax, numpy as np, pathwaysutils
from pathwaysutils.persistence import helper

TIMEOUT = datetime.timedelta(seconds=120)
pathwaysutils.initialize()
ones = jax.device_put(np.ones(1024, np.float32), jax.devices()[0])

def save(location, name="x"):
    helper.write_arrays(location, [name], [ones], TIMEOUT).result()

def load(location, name="x"):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    arrays, done = helper.read_arrays(location, [name], [ones.dtype], [ones.shape], [where], mesh.devices, TIMEOUT)
    done.result()
    return np.asarray(arrays[0])

def error_of(function, *args):
    try:
        function(*args)
    except Exception as error:
        return str(error)
    raise AssertionError(f"{function} {args} went through")
"""


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def operator(tmp_path_factory, storage):
    home = tmp_path_factory.mktemp("operator")
    with operator_at(home, PATHWAYS_PERSISTENCE_DIRECTORY=str(storage / "{user}"), XDG_CACHE_HOME=str(home / "cache")) as command:
        command.env.setdefault("PATHWAYS_COMPILE_CACHE", str(home / "programs"))
        yield command


@pytest.fixture(scope="module")
def cluster(operator):
    return operator("up", "--devices", "1", "--listen-proxy", "none")


@pytest.fixture
def user(operator, cluster, tmp_path):
    """Returns a function that makes a user who has logged in."""

    def make(name):
        token = tmp_path / f"{name}.token"
        operator("token", "create", "--user", name, "--output", str(token))
        found = User(tmp_path / name)
        found.login(cluster["address"], token)
        return found

    return make


def test_nobody_reads_or_writes_what_another_has_saved(cluster, storage, user):
    ada, bob = user("ada"), user("bob")
    saves = f"""
save({str(storage / "ada")!r})
save("gs://bucket/run")
print(load({str(storage / "ada")!r}).sum(), load("gs://bucket/run").sum())
"""
    assert ada.run(cluster["address"], PRELUDE + saves) == "1024.0 1024.0\n"
    before = {path: path.read_bytes() for path in (storage / "ada").rglob("*") if path.is_file()}
    assert before
    attacks = f"""
for attack in (save, load):
    for location in ({str(storage / "ada")!r}, {str(storage)!r}, "/tmp", "/etc"):
        print(error_of(attack, location))
    print(error_of(attack, {str(storage / "bob")!r}, "../ada/x"))
    print(error_of(attack, {str(storage / "bob/../ada")!r}))
print(error_of(load, "gs://bucket/run"))
print(error_of(load, "gs://../users/ada/gs/bucket/run"))
"""
    lines = bob.run(cluster["address"], PRELUDE + attacks)
    assert lines.count("user 'bob' may not use") == 8 and str(storage / "bob") in lines, lines
    assert {path: path.read_bytes() for path in (storage / "ada").rglob("*") if path.is_file()} == before


def test_links_and_pipes_in_a_users_folder_lead_nowhere(operator, cluster, storage, user, tmp_path):
    """A user of the hosts' machine prepares a folder of links and pipes, and makes the hosts, which have other rights, use it."""
    eve, folder = user("eve"), storage / "eve"
    secret = tmp_path / "secret"
    (secret / "x").mkdir(parents=True)
    (secret / "x" / "0").write_text("theirs")
    (folder / "pipe" / "x").mkdir(parents=True)
    os.mkfifo(folder / "pipe" / "x" / ".zarray")
    (folder / "file" / "x").mkdir(parents=True)
    (folder / "file" / "x" / ".zarray").symlink_to("/etc/passwd")
    (folder / "chunk").mkdir()
    eve.run(cluster["address"], PRELUDE + f"save({str(folder / 'chunk')!r})")
    chunk = next(path for path in (folder / "chunk" / "x").iterdir() if path.name != ".zarray")
    chunk.unlink()
    chunk.symlink_to(secret / "x" / "0")
    (folder / "link").symlink_to(secret)
    attacks = f"""
folder = {str(folder)!r}
print(error_of(save, folder + "/link"))
print(error_of(load, folder + "/link"))
print(error_of(load, folder + "/file"))
print(error_of(load, folder + "/chunk"))
print(error_of(load, folder + "/pipe"))
save(folder + "/file")
save(folder + "/chunk")
print(load(folder + "/file").sum() + load(folder + "/chunk").sum())
"""
    lines = eve.run(cluster["address"], PRELUDE + attacks)
    assert lines.count("symbolic link") == 4 and "no regular file" in lines and lines.endswith("2048.0\n"), lines
    assert (secret / "x" / "0").read_text() == "theirs" and sorted(path.name for path in secret.rglob("*")) == ["0", "x"]
    # The pipe blocks neither requests nor the end of the workers.
    assert operator.run(cluster["address"], "import jax; print(float(jax.jit(lambda: jax.numpy.ones(3).sum())()))", timeout=PATIENCE) == "3.0\n"
    assert operator("down", timeout=PATIENCE) is not None
