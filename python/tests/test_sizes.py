"""Tests how sizes on the command line are read."""

import argparse

import pytest

from pathways import cli
from pathways._commands import sizes


@pytest.mark.parametrize("text, expected", [
    ("8000000", 8_000_000), ("0", 0), ("1e9", 10**9), ("16GB", 16 * 10**9), ("16gb", 16 * 10**9), ("1.5GiB", 3 << 29), ("512 MiB", 512 << 20), ("2Gi", 2 << 30), ("7kB", 7000),
    ("3B", 3), ("9007199254740993", 9007199254740993)])
def test_sizes(text, expected):
    assert sizes.bytes_of(text) == expected


@pytest.mark.parametrize("text", ["16G", "512m", "-1", "many", "", "GB", "1 x", "1e", "0x10", "inf", "nan"])
def test_others_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        sizes.bytes_of(text)
    assert f"'{text}'" in str(refused.value)


def test_a_bare_letter_is_refused_with_both_its_meanings(capsys):
    with pytest.raises(SystemExit):
        cli.main(["up", "--memory-limit", "16G"])
    assert "argument --memory-limit: '16G' can mean two sizes: write 16GB (powers of 1000) or 16GiB (powers of 1024)" in capsys.readouterr().err


def test_limits_that_none_removes():
    assert sizes.bytes_or_none("none") == "none" and sizes.bytes_or_none("2GiB") == str(2 << 30)
