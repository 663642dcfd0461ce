"""Identifies the code that is measured: the commit of the sources, the programs in bench/, and the installed package with its binaries.

`make paper` builds the package and then writes a stamp: the commit it was built of, and a digest of all its files. So a package that was built of other sources
than those of the present commit is noticed.

    python3 bench/paper/_code.py commit            prints the commit of the sources
    python bench/paper/_code.py stamp COMMIT       writes the stamp for the package of this Python, which was built of COMMIT; fails if that is no longer the commit
"""

import hashlib
import importlib.util
import json
import pathlib
import subprocess
import sys

import _provenance

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, RECORD, PICTURES, README = "docs/paper.md", "docs/paper.json", "docs/paper", "README.md"  # what `run.py --publish` writes, of README a part
STAMP = "build/wheel-of.json"


def commit(root=ROOT):
    """Returns the commit of the sources, marked if there are changes or new files other than the page itself and README, which quotes it; "unknown" without git."""
    git = lambda *words: subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False).stdout.strip()
    name = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=all", "--", ".", *(f":!{path}" for path in (PAGE, RECORD, PICTURES, README)))
    return name + _provenance.DIRTY * bool(changed) if name else _provenance.UNKNOWN


def digest(folder, pattern="*"):
    """Returns a digest of the names and contents of the files below a folder, or "none" if it is not there."""
    found = hashlib.sha256()
    paths = sorted(path for path in folder.rglob(pattern) if path.is_file() and "__pycache__" not in path.parts) if folder.is_dir() else []
    for path in paths:
        found.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16] if paths else "none"


def package():
    """Returns the folder of the installed package."""
    spec = importlib.util.find_spec("pathways")
    return pathlib.Path(spec.origin).parent if spec and spec.origin else pathlib.Path("none")


def built_of(stamp, installed):
    """Returns the commit of which the package with this digest was built, or "unknown"."""
    known = json.loads(stamp.read_text()) if stamp.exists() else {}
    return known["commit"] if known.get("package") == installed else _provenance.UNKNOWN


def identity(root=ROOT, folder=None):
    """Returns what identifies the code. folder: of the package, if it is not the installed one."""
    installed = digest(folder or package())
    return {"commit": commit(root), "bench": digest(root / "bench", "*.py"), "package": installed, "built": built_of(root / STAMP, installed),
            "floor": digest(root / "build" / "release" / "bin", "floor_server")}


def changed(before, after):
    """Returns the parts of the code that differ."""
    return [part for part in before if before[part] != after[part]]


def main():
    if sys.argv[1:] == ["commit"]:
        return print(commit())
    if sys.argv[1:2] != ["stamp"] or len(sys.argv) != 3:
        sys.exit(__doc__)
    if commit() != sys.argv[2]:
        sys.exit(f"the sources changed while the package was built: {sys.argv[2]}, now {commit()}")
    (ROOT / STAMP).write_text(json.dumps({"commit": sys.argv[2], "package": digest(package())}))


if __name__ == "__main__":
    main()
