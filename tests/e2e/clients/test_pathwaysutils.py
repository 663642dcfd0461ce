"""Google's pathwaysutils, unchanged, drives our server."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from conftest import clean_environment
from pathways._cluster.local import Cluster
from pathways._cluster.shape import Shape

PROGRAM = pathlib.Path(__file__).with_name("pathwaysutils_program.py")
STEPS = ["initialize", "reshard", "experimental_reshard", "intermediate_sharding", "split_and_concatenate_by_mesh_axis",
         "split_and_concatenate_unevenly", "snapshotter", "persistence", "profiling", "elastic_slices"]
# pathwaysutils recognises Pathways only under the platform name "proxy".
OF_BOTH = [step for step in STEPS if step not in ("profiling", "elastic_slices")]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pathwaysutils") is None, reason="pathwaysutils is not installed")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Runs all steps as "proxy", and OF_BOTH as "pathways", on a separate cluster of two islands of four devices; returns both results."""
    folder = tmp_path_factory.mktemp("pathwaysutils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATHWAYS_PERSISTENCE_DIRECTORY", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        cluster = Cluster(Shape.parse("2x1x4"), folder, listen_proxy="127.0.0.1:0").start()
    try:
        proxy = run(folder, STEPS, JAX_PLATFORMS="proxy", JAX_BACKEND_TARGET=f"grpc://{cluster.proxy_address}",
                    IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="true")
        ours = run(folder / "ours", OF_BOTH, JAX_PLATFORMS="pathways", PATHWAYS_ADDRESS=cluster.address)
    finally:
        cluster.stop()
    return folder, proxy, ours


def run(folder, steps, **env):
    folder.mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, str(PROGRAM), str(folder), *steps], env=clean_environment(TF_CPP_MIN_LOG_LEVEL="2", **env), cwd=folder,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("step", STEPS)
def test_step(outcomes, step):
    assert outcomes[1][step] == "ok", outcomes[1][step]


@pytest.mark.parametrize("step", OF_BOTH)
def test_step_on_our_own_platform(outcomes, step):
    assert outcomes[2][step] == "ok", outcomes[2][step]


def test_every_step_is_looked_at(outcomes):
    assert (set(outcomes[1]), set(outcomes[2])) == (set(STEPS), set(OF_BOTH))


def test_what_is_written_is_where_the_operator_allows(outcomes):
    folder, _, _ = outcomes
    assert list((folder / "checkpoint" / "w").iterdir())
    assert list((folder / "cache" / "pathways" / "objects" / "gs" / "bucket" / "profile").rglob("*.json"))
