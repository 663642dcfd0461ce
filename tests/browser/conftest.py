"""Tests of the operators' page in a real browser, for `make test-page`: a cluster, programs that use it, and Debian's chromium."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

import pytest  # noqa: E402

import devtools  # noqa: E402
from clusters import Cluster  # noqa: E402


@pytest.fixture
def start(tmp_path):
    """Returns a function that starts a cluster with a page. The cluster ends with the test."""
    started = []

    def start(*words):
        started.append(Cluster(tmp_path / f"home{len(started)}", *words))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def browser(tmp_path):
    with devtools.Browser(tmp_path / "browser") as one:
        yield one
        assert one.complaints == []
