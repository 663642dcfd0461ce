"""The build backend of our wheel: scikit-build-core, which runs CMake, after making sure of the one thing CMake needs from PyPI.

The CPU plugin is compiled against the headers and libraries of the tensorflow-cpu wheel. Of that wheel nothing else is used, so it is
installed without its dependencies, into build/tensorflow, unless PW_TENSORFLOW_DIR names one or this interpreter or build/venv has it.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

from scikit_build_core.build import *  # the hooks that pip calls; one of them is replaced below
from scikit_build_core.build import build_wheel as _build_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]


def _pinned():
    lines = (ROOT / "tools" / "requirements-nodeps.txt").read_text().splitlines()
    return next(line.strip() for line in lines if re.match(r"tensorflow-cpu==", line))


def _tensorflow():
    named = os.environ.get("PW_TENSORFLOW_DIR")
    if named:
        return pathlib.Path(named)
    spec = importlib.util.find_spec("tensorflow")
    candidates = [pathlib.Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    candidates += sorted((ROOT / "build" / "venv").glob("lib/python*/site-packages/tensorflow"))
    candidates.append(ROOT / "build" / "tensorflow" / "tensorflow")
    for folder in candidates:
        if (folder / "libtensorflow_cc.so.2").exists():
            return folder
    target = ROOT / "build" / "tensorflow"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), _pinned()], check=True)
    return target / "tensorflow"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = dict(config_settings or {})
    settings.setdefault("cmake.define.PW_TENSORFLOW_DIR", str(_tensorflow()))
    return _build_wheel(wheel_directory, settings, metadata_directory)
