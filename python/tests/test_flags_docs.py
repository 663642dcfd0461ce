"""Tests that docs/flags.md agrees with the --help of the programs."""

import pathlib
import sys

from pathways._cluster import binaries

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import flags_docs  # noqa: E402


def test_the_page_is_fresh():
    fresh = flags_docs.page(pathlib.Path(binaries.find("pathways-controller")).parent)
    assert (ROOT / "docs/flags.md").read_text() == fresh, "make it anew: build/venv/bin/python tools/flags_docs.py > docs/flags.md"
