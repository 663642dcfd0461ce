"""Hides each private name of jax in turn: the features that need it are off, a warning says so once, and everything else works.

One cluster serves all names. seams_program.py uses it in a forked process for each name.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from pathways._cluster import local
from pathways._cluster.shape import Shape
from pathways._jax import seams

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 900  # for all seams; each takes about two on an idle machine
pytestmark = pytest.mark.timeout(SECONDS)

# For each seam, the features of seams_program.py that are off without it. The seam's own hook is off too.
OFF = {
    "PLUGIN_CLIENT": {"loads_the_other_door"},
    "BACKENDS": {"forgets_dropped_connections"},
    "PLUGIN_PROFILER": {"has_a_profiler"},
    "COMPILE": {"calls_back", "calls_back_from_several", "calls_back_with_buffers", "tells_shardings", "keeps_order_in_programs"},
    "EMIT_CALLBACK": {"calls_back", "calls_back_from_several", "keeps_order_in_programs"},
    "CONSTRAIN_SHARDING": {"calls_back_from_several"},
    "SHARDY_DIMENSION": {"calls_back_from_several"},
    "BUFFER_CALLBACK": {"calls_back_with_buffers"},
    "BUFFER_CALLBACK_LOWERING": {"calls_back_with_buffers"},
    "INSPECT_SHARDING": {"tells_shardings"},
    "COST_ANALYSIS": {"analyzes_costs"},
    "COLOCATED_SERIALIZE": {"calls_on_hosts_in_programs"},
    "COLOCATED_GET": {"calls_on_hosts_in_programs"},
    "COLOCATED_SPECIALIZED": {"calls_on_hosts_in_programs"},
    "COLOCATED_SPEC": {"calls_on_hosts_in_programs"},
    "ARRAY": {"guards_transfers", "hands_out_memory"},
    "SHARD_ARG": {"guards_transfers"},
    "HLO_SHARDING": {"guards_transfers", "keeps_order_in_programs"},
    "DEVICE_LIST": {"runs_programs_over_other_shardings"},
    "LOWERING": {"keeps_order_in_programs"},
    "ALL_DEVICES": {"has_virtual_slices", "can_hide_devices"},
    "CLIENT_CLASS": {"can_hide_devices"},
    "RUNTIME_TOKENS": {"knows_own_table_of_tokens"},
    "ORDERED_EFFECTS": {"keeps_order_in_programs"},
    "TRANSFER_GUARD": {"guards_transfers"},
    "PUT_MANY": {"takes_odd_strides"},
}
HOOKS = {"COMPILE", "INSPECT_SHARDING", "LOWER", "IR_CONTEXT", "COST_ANALYSIS", "EMIT_CALLBACK", "BUFFER_CALLBACK_LOWERING", "OTHER_ORDER", "READ_ARRAY",
         "START_READ", "READ_WHOLE", "START_MANY", "COLOCATED_SERIALIZE", "COLOCATED_FALLBACK", "COLOCATED_GET", "COLOCATED_SPECIALIZED", "COLOCATED_SPEC", "ARRAY_VALUE", "WAIT_FOR_MANY", "PUT_MANY", "MESHES",
         "HANDLE_TOKENS"}
# Used in the processes of colocated functions, whose errors test_colocated_host.py tests.
ON_HOSTS = {"COLOCATED_CLIENT", "COLOCATED_DESERIALIZE", "COLOCATED_DEVICES"}
# Without one of these, our code gets the same result in another way.
QUIET = {"TRANSFER_TO_SHARDINGS", "RESULT_HANDLER", "SET_SHARDING"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Returns {key of the hidden seam, or "": the line of seams_program.py}."""
    folder = tmp_path_factory.mktemp("seams")
    cluster = local.Cluster(Shape.parse("1x1x2"), folder).start()
    try:
        clean = {k: v for k, v in os.environ.items() if k not in ("PATHWAYS_LOCAL", "XLA_FLAGS") and not k.startswith("IFRT_PROXY")}
        done = subprocess.run([sys.executable, HERE / "seams_program.py", folder / "results"], timeout=SECONDS, capture_output=True, text=True, check=False,
                              env={**clean, "JAX_PLATFORMS": "pathways", "PATHWAYS_ADDRESS": cluster.address})
        assert done.returncode == 0, done.stderr
        return {one["key"]: one for one in map(json.loads, (folder / "results").read_text().splitlines())}
    finally:
        cluster.stop()


def is_expected(seam):
    """Whether this environment's jax is new enough to have the name, and a client uses it."""
    return not seam._is_to_come() and seam.key not in ON_HOSTS


EXPECTED = [seam for seam in seams.SEAMS if is_expected(seam)]


def test_every_seam_is_one_of_its_own_and_says_all():
    assert len({seam.key for seam in seams.SEAMS}) == len({seam.full_name for seam in seams.SEAMS}) == len(seams.SEAMS)
    for seam in seams.SEAMS:
        assert getattr(seams, seam.key) is seam
        assert seam.feature and seam.reason and seam.absent and not seam.absent.endswith("."), seam.key


@pytest.mark.slow
def test_with_all_of_them_everything_is_on_and_nothing_is_said(results):
    result = results[""]
    assert result["error"] is None and result["warnings"] == []
    assert all(result["on"].values()), result
    assert {seam.key for seam in EXPECTED} & HOOKS <= set(result["hooked"])


@pytest.mark.slow
@pytest.mark.parametrize("seam", [seam for seam in EXPECTED if seam is not seams.PROXY_CLIENT], ids=lambda seam: seam.key)
def test_without_one_its_feature_is_off_and_says_so_once(results, seam):
    result = results[seam.key]
    assert result["error"] is None, result["error"]
    (said,) = result["warnings"]
    assert said.startswith(f"{seam.feature} are off: ") and f"has no {seam.full_name}. {seam.absent}." in said
    off = {name for name, on in result["on"].items() if not on}
    assert off == OFF.get(seam.key, set()), result
    assert seam.key not in result["hooked"]
    assert seam.key in OFF or seam.key in HOOKS or seam.key in QUIET


@pytest.mark.slow
def test_without_the_proxy_client_the_error_names_it(results):
    result = results["PROXY_CLIENT"]
    (said,) = result["warnings"]
    assert "jaxlib._ifrt_proxy" in said and "jaxlib._ifrt_proxy" in result["error"] and "docs/compatibility.md" in result["error"]
