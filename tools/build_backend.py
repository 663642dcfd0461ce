"""The build backend of our wheel: provides the tensorflow-cpu wheel, then calls scikit-build-core, which runs CMake.

The CPU plugin is compiled against the headers and libraries of tensorflow-cpu. PW_TENSORFLOW_DIR may name a copy; else this interpreter or
build/venv may have one. If not, the wheel is installed into build/tensorflow, without its dependencies, which are not used.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

from scikit_build_core.build import *  # the hooks that pip calls; one of them is replaced below
from scikit_build_core.build import build_wheel as _build_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]


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
    lock = ROOT / "tools" / "locks" / "requirements-nodeps.txt"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(target), "-r", str(lock)], check=True)
    return target / "tensorflow"


def _missing_packages():
    """Returns the Debian packages of tools/packages.txt that are not installed; none if the machine has no dpkg."""
    if shutil.which("dpkg-query") is None:
        return []
    listed = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Abbrev}${Package}\\n"], capture_output=True, text=True, check=False).stdout
    installed = {line[3:].strip() for line in listed.splitlines() if line.startswith("ii")}
    lines = map(str.strip, (ROOT / "tools" / "packages.txt").read_text().splitlines())
    return sorted({line for line in lines if line and not line.startswith("#")} - installed)


def _share_objects_with_make():
    """Uses the Makefile's compiler cache, unless the user names one. So objects of the Makefile, or of an earlier wheel, are not compiled again."""
    for name, value in (("CCACHE_DIR", ROOT / "build" / "ccache"), ("CCACHE_BASEDIR", ROOT), ("CCACHE_NOHASHDIR", "1")):
        os.environ.setdefault(name, str(value))
    if shutil.which("c++"):
        os.environ.setdefault("CXX", "c++")  # the name that CMake uses in make's trees: the cache tells compilers apart by name


def _build_page():
    """Builds the operators' page. The package works without it: a machine without node or npm's registry only gets a warning."""
    if subprocess.run([ROOT / "tools" / "page.sh"], check=False).returncode != 0:
        print("pathways: the operators' page was not built; all but 'pathways up --page' works without it", file=sys.stderr, flush=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _share_objects_with_make()
    print("pathways: compiling controller, worker, agent and CPU plugin: minutes, or seconds with a warm ccache", flush=True)
    settings = dict(config_settings or {})
    if "build-dir" not in settings:  # else tools/wheel.sh builds, and make has built the page if it is wanted
        _build_page()
    settings.setdefault("cmake.define.PW_TENSORFLOW_DIR", str(_tensorflow()))
    try:
        return _build_wheel(wheel_directory, settings, metadata_directory)
    except BaseException:
        if missing := _missing_packages():
            print(f"pathways: these Debian packages are missing; as root: apt-get install {' '.join(missing)}", file=sys.stderr, flush=True)
        raise
