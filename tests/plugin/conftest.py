"""Runs stock jax with the CPU plugin, loaded as any jax_plugins package would load it.

Every test runs on eight devices of libpjrt_cpu.so, which is jax's default backend here. jax's own cpu backend is the reference:
`both(f, *args)` runs f on each and compares.
"""
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "pwcpu,cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax
import numpy as np
import pytest
from jax._src import xla_bridge

DEVICES = 8
ROOT = pathlib.Path(__file__).resolve().parents[2]


def plugin_path():
    """Returns PW_PJRT_CPU_PLUGIN, or the installed plugin, or the newest one built in this tree."""
    if path := os.environ.get("PW_PJRT_CPU_PLUGIN"):
        return path
    installed = [pathlib.Path(p) / "pathways/lib/libpjrt_cpu.so" for p in sys.path]
    built = [*ROOT.glob("build/*/libpjrt_cpu.so"), *ROOT.glob("build/*/plugins/pjrt_cpu/libpjrt_cpu.so")]
    found = [p for p in installed + built if p.is_file()]
    if not found:
        pytest.exit("libpjrt_cpu.so is not built: cmake -S plugins/pjrt_cpu -B build/plugin -G Ninja && ninja -C build/plugin", 2)
    return str(max(found, key=lambda p: p.stat().st_mtime))


xla_bridge.register_plugin("pwcpu", library_path=plugin_path(), priority=500, options={"num_devices": DEVICES})
jax.config.update("jax_num_cpu_devices", DEVICES)
jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="session")
def devices():
    return jax.devices("pwcpu")


@pytest.fixture(scope="session")
def mesh(devices):
    return jax.sharding.Mesh(np.array(devices), ("x",))


@pytest.fixture(scope="session")
def plugin():
    return plugin_path()


def run_on(platform, f, *args):
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        args = jax.tree.map(lambda x: jax.device_put(x, device), args)
        return jax.tree.map(np.asarray, jax.jit(f)(*args))


@pytest.fixture(scope="session")
def both():
    """Runs a function on the plugin and on jax's own backend, asserts equal results, returns the plugin's."""

    def compare(f, *args, rtol=1e-6, atol=0.0):
        ours = run_on("pwcpu", f, *args)
        reference = run_on("cpu", f, *args)
        assert jax.tree.structure(ours) == jax.tree.structure(reference)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(reference)):
            assert a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind in "fc":
                np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
            elif a.dtype.kind in "biu":
                np.testing.assert_array_equal(a, b)
            else:  # ml_dtypes: compare in a wider type
                np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), rtol=rtol, atol=atol)
        return ours

    return compare
