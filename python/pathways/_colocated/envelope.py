"""The envelope of a colocated function: a header, the sources of the client's own modules, and the function as jax pickles it.

    pathways-function-1 \\n header as JSON \\n sources, compressed together \\n function

A pickle names modules and does not hold them. Modules of libraries must be installed on the hosts. The program's own modules, those outside the
folders of libraries, are sent as source text, which the hosts import. A function without an envelope comes from a client without this package, and is
used as it is.
"""

import json
import os
import pathlib
import site
import sys
import sysconfig
import zlib

from pathways._colocated import program_flags

MAGIC = b"pathways-function-1\n"
MOST_SOURCE_BYTES = 16 << 20
# Options of jax that change what a function computes.
OPTIONS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_numpy_dtype_promotion",
           "jax_numpy_rank_promotion")


def pack(function):
    """Returns a function of this process, as jax pickles it, in its envelope."""
    modules = own_modules()
    sources = zlib.compress(b"".join(source for _, source in modules), 1)
    header = {"python": list(sys.version_info[:2]), "options": _options(), "flags": program_flags.given(), "seconds": _seconds(),
              "sources": len(sources), "modules": [{**module, "bytes": len(source)} for module, source in modules]}
    return b"".join([MAGIC, json.dumps(header).encode(), b"\n", sources, function])


def unpack(text):
    """Returns (header, [(module, source)], function); the header is None if there is no envelope. Raises ValueError for a damaged one."""
    if not text.startswith(MAGIC):
        return None, [], text
    end = text.index(b"\n", len(MAGIC))
    header = json.loads(text[len(MAGIC):end])
    start = end + 1
    function = text[start + header["sources"]:]
    inflate = zlib.decompressobj()
    sources = inflate.decompress(text[start:start + header["sources"]], MOST_SOURCE_BYTES + 1)
    modules, offset = [], 0
    for module in header["modules"]:
        modules.append((module, sources[offset:offset + module["bytes"]]))
        offset += module["bytes"]
    if offset != len(sources) or not inflate.eof:
        raise ValueError("the sources in the envelope of a function do not have the sizes that it states")
    return header, modules, function


def _seconds():
    """Returns the most seconds that a call of the program's functions may take; 0: no limit."""
    text = os.environ.get("PATHWAYS_FUNCTION_SECONDS")
    if not text:
        return 0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= 1e9:
        raise ValueError(f"PATHWAYS_FUNCTION_SECONDS is '{text}', and must be a number of seconds above 0, at most 1e9")
    return seconds


def _options():
    import jax

    return {name: getattr(jax.config, name) for name in OPTIONS if hasattr(jax.config, name)}


def own_modules():
    """Returns [({name, file, package}, source)] of the imported modules that belong to no library."""
    found, total = [], 0
    libraries = _library_folders()
    for name, module in sorted(sys.modules.items()):
        if name in ("__main__", "__mp_main__") or name.split(".")[0] == "pathways":
            continue
        place = _place(module, libraries)
        if place is None:
            continue
        file, package = place
        try:
            source = pathlib.Path(file).read_bytes() if file.endswith(".py") else b""
        except OSError:
            continue
        total += len(source)
        if total > MOST_SOURCE_BYTES:
            raise ValueError(f"the modules that this program has imported from its own folders are more than {MOST_SOURCE_BYTES} bytes: install them as a "
                             "package here and on the hosts that run its colocated functions")
        found.append(({"name": name, "file": file, "package": package}, source))
    return found


def _place(module, libraries):
    """Returns (file, whether it is a package) of one of the program's own modules; None for others. A package without a file has its folder there."""
    paths = getattr(module, "__path__", None)
    file = getattr(module, "__file__", None)
    if file is None and paths is not None:
        file = next(iter(paths), None)
    elif not isinstance(file, str) or not file.endswith(".py"):
        return None
    if file is None or any(os.path.abspath(file).startswith(folder) for folder in libraries):
        return None
    return file, paths is not None


def _library_folders():
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages(), *filter(None, sysconfig.get_paths().values())}
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    # Another environment's, which a .pth file or PYTHONPATH has added.
    folders.update(folder for folder in sys.path if os.path.basename(folder) in ("site-packages", "dist-packages"))
    return tuple(os.path.abspath(folder) + os.sep for folder in folders if folder and os.path.abspath(folder) != os.sep)
