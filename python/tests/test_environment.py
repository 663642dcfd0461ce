"""Tests that docs/environment.md lists every environment variable that the code reads, and no other."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"\bPATHWAYS_[A-Z]+(?:_[A-Z]+)*\b")
NO_VARIABLE = re.compile(r"PATHWAYS_IR_.*")  # include guards of MLIR's definitions


def test_the_list_is_complete():
    files = subprocess.run(["git", "ls-files", "python/pathways", "pathways", "plugins", "bench"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [(ROOT / file).read_text(errors="ignore") for file in files if file.endswith((".py", ".cc", ".h", ".td"))]
    used = {name for text in texts for name in NAME.findall(text) if not NO_VARIABLE.fullmatch(name)}
    listed = set(NAME.findall((ROOT / "docs/environment.md").read_text()))
    assert used == listed
