import argparse
import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")


@pytest.fixture
def arguments(tmp_path):
    """The arguments of a full run of bench/paper/run.py."""
    return argparse.Namespace(out=tmp_path, quick=False, figures=None, resume=False, limit=5, minutes=None)
