"""Finds our executables and device plugins: in the installed package, or in the build tree that PATHWAYS_BIN_DIR names."""

import importlib.util
import os
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


class MissingError(RuntimeError):
    """A file of the package is missing."""


def _folders(kind):
    override = os.environ.get("PATHWAYS_BIN_DIR")
    if override:
        bin_dir = pathlib.Path(override)
        yield bin_dir
        if kind == "lib":  # a build tree keeps each plugin in its own folder
            yield bin_dir.parent / "plugins" / "pjrt_cpu"
            yield bin_dir.parent / "plugins" / "pathways_pjrt"
            yield bin_dir.parent / "plugins" / "pathways_profiler"
            yield bin_dir.parent / "lib"
    yield PACKAGE / kind


def find(name, kind="bin"):
    """Returns the path of one of our files; raises MissingError, which lists the folders searched."""
    looked = []
    for folder in _folders(kind):
        path = folder / name
        if path.exists():
            return path
        looked.append(str(folder))
    raise MissingError(
        f"{name} is missing (looked in {', '.join(looked)}). Reinstall the package with 'pip install .', or set "
        "PATHWAYS_BIN_DIR to the bin folder of a build tree.")


def has(name, kind="bin"):
    return any((folder / name).exists() for folder in _folders(kind))


def page_files():
    """Returns the folder of the operators' page, which only installed packages have."""
    if not (PACKAGE / "page" / "index.html").exists():
        raise MissingError("this installation has no page for operators: it was built where node and npm were missing, or by 'make demo'. Install them (on Debian: "
                           "apt-get install nodejs npm) and build the package again, by 'make wheel' or 'pip install .'. 'pathways top' shows the same in a terminal")
    return PACKAGE / "page"


def _in_site_packages(package, file_name):
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = pathlib.Path(folder) / file_name
        if path.exists():
            return path
    return None


def device_plugin(platform):
    """Returns the path of the PJRT plugin for a platform: "cpu", "cuda", or the path of any plugin."""
    if platform == "cpu":
        return find("libpjrt_cpu.so", "lib")
    if platform == "cuda":
        for package in ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"):
            try:
                path = _in_site_packages(package, "xla_cuda_plugin.so")
            except ModuleNotFoundError:
                path = None
            if path:
                return path
        raise MissingError("platform 'cuda' needs NVIDIA's device plugin: pip install 'pathways[cuda13]'")
    path = pathlib.Path(platform)
    if not path.exists():
        raise MissingError(f"no device plugin '{platform}': name a platform (cpu, cuda) or the path of a PJRT plugin")
    return path
