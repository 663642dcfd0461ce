"""Shared by the lints: lists the C++ files of the tree, and blanks comments and literals of a file."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


def cpp_files():
    """Returns the paths, relative to the root, of the C++ files that git tracks or would track."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.h", "*.cc"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(p for p in out.split("\n") if p and (ROOT / p).exists())


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def blank(text):
    """Returns `text` with comments and the insides of literals blanked; every line keeps its number."""
    def replace(match):
        token = match.group(0)
        gap = "\n" * token.count("\n")
        return gap if token.startswith("/") else '""' + gap
    return _TOKEN.sub(replace, text)


def waivers(kind):
    """Returns {key: reason} of the lines `kind key reason` in waivers.txt."""
    result = {}
    for line in (ROOT / "tools/lint/waivers.txt").read_text().splitlines():
        parts = line.split(maxsplit=2)
        if not line.startswith("#") and len(parts) == 3 and parts[0] == kind:
            result[parts[1]] = parts[2]
    return result
