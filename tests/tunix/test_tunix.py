"""Trains by unchanged Tunix (GRPO) on our clusters, with actor and rollout on one slice and on two islands: the losses are those on jax's own cpu devices.
`make test-tunix` runs this in build/venv-tunix. Each training is a separate process, as a user starts it.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 900  # seconds for one training, which takes half a minute on an idle machine
pytestmark = pytest.mark.timeout(3 * PATIENCE)
DEVICES_PER_ISLAND = 2


def train(slices, **env):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PATHWAYS_", "XLA_"))}
    # The workers' CPU plugin needs the XLA of a package that only build/venv has.
    clean["LD_LIBRARY_PATH"] = str(next(ROOT.glob("build/venv/lib/python*/site-packages/tensorflow")))
    done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("grpo.py"), slices], env=clean | env, capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def expected():
    return train("one", JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(2 * DEVICES_PER_ISLAND))


@pytest.mark.parametrize("door", ["pjrt", "ifrt"])
@pytest.mark.parametrize("slices", ["one", "two"])
def test_grpo_learns_what_it_learns_on_cpu_devices(expected, slices, door):
    ours = train(slices, JAX_PLATFORMS="pathways", PATHWAYS_LOCAL=f"2x1x{DEVICES_PER_ISLAND}", PATHWAYS_DOOR=door)
    for name in ("loss", "kl"):
        np.testing.assert_allclose(ours[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
    islands = ours["devices"][:DEVICES_PER_ISLAND], ours["devices"][DEVICES_PER_ISLAND:]
    assert set(ours["actor"]) <= set(islands[0])
    assert set(ours["rollout"]) <= set(islands[1] if slices == "two" else islands[0])
