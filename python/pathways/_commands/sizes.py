"""Numbers of bytes as people write them on a command line: 16GB, 1.5GiB, 8000000."""

import argparse
import re

_UNITS = {"": 1, "B": 1, **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
          **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)}, **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)}}
_BY_NAME = {name.lower(): factor for name, factor in _UNITS.items()}


def bytes_of(text):
    """Returns the number of bytes. Refuses a bare K, M, G, T: it is a power of 1000 for Kubernetes and of 1024 for Slurm."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?) ?([A-Za-z]*)", text.strip())
    unit = found[2].lower() if found else None
    if unit in ("k", "m", "g", "t", "p"):
        raise argparse.ArgumentTypeError(f"'{text}' can mean two sizes: write {found[1]}{unit.upper()}B (powers of 1000) or {found[1]}{unit.upper()}iB (powers of 1024)")
    if unit not in _BY_NAME:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of bytes, such as 16GB, 16GiB or 16000000000")
    number = int(found[1]) if found[1].isdigit() else float(found[1])
    return int(number * _BY_NAME[unit])


def bytes_or_none(text):
    """For a limit that 'none' removes."""
    return text if text == "none" else str(bytes_of(text))
