"""Tests the versions that `make newest` reports."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import newest  # noqa: E402


def test_only_what_differs_from_the_supported_version_is_marked():
    found = dict.fromkeys(newest.LIBRARIES, "1.0") | {"jax": "2.0"}
    marked = [line.split()[0] for line in newest.compare(dict.fromkeys(newest.LIBRARIES, "1.0"), found) if line.endswith("supported")]
    assert marked == ["jax"]


def test_every_library_has_a_supported_version():
    assert set(newest.LIBRARIES) <= set(newest.pinned())
