"""Writes tools/locks: the packages of each tools/requirements*.txt, with the SHA-256 of all their files on the registry. tools/setup.sh installs
only those files (pip's --require-hashes). `make locks` runs this after a requirement has changed. It downloads no package.

tools/requirements-unpinned.txt has no lock: it stands for the newest versions (`make newest`)."""

import pathlib
import re
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parent
LOCKS = TOOLS / "locks"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
# The oldest Python that an environment may have, where it is not that of the build.
PYTHON = {"requirements-newest.txt": "3.12", "requirements-maxtext.txt": "3.12", "requirements-xprof.txt": "3.12", "requirements-tunix.txt": "3.12",
          "requirements-s3.txt": "3.12"}


def requirement_files():
    return sorted(path for path in TOOLS.glob("requirements*.txt") if path.name != "requirements-unpinned.txt")


def pins(text):
    """Returns {package: version} of a requirements file or a lock. Names are compared as pip does."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PIN.findall(text)}


def entries(text):
    """Returns the entries of a lock as (name, version, hashes)."""
    found = ((PIN.match(entry), re.findall(r"--hash=sha256:([0-9a-f]+)", entry)) for entry in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE))
    return [(pin[1], pin[2], hashes) for pin, hashes in found if pin]


def stale(requirements):
    """Returns the fault of a file's lock as text; None if the lock is up to date."""
    lock = LOCKS / requirements.name
    if not lock.exists():
        return f"{lock.name} is missing"
    text = lock.read_text()
    wanted, locked = pins(requirements.read_text()), pins(text)
    if different := sorted(name for name in wanted.keys() | locked.keys() if wanted.get(name) != locked.get(name)):
        return f"locks/{lock.name} and {requirements.name} differ in {', '.join(different)}"
    if bare := [name for name, _, hashes in entries(text) if not hashes]:
        return f"{', '.join(bare)} in locks/{lock.name} has no hash"
    return None


def write(requirements, uv):
    """Writes the lock of a file, by uv. The file lists every requirement, so uv adds no others."""
    python = PYTHON.get(requirements.name, "3.11.7")
    done = subprocess.run([uv, "pip", "compile", "--quiet", "--no-deps", "--generate-hashes", "--no-annotate", "--no-header", "--python-version", python,
                           requirements.name], cwd=TOOLS, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{requirements.name}: {done.stderr}")
    LOCKS.mkdir(exist_ok=True)
    (LOCKS / requirements.name).write_text(f"# Written by `make locks` from tools/{requirements.name}: change that file.\n{done.stdout}")


if __name__ == "__main__":
    for file in requirement_files():
        write(file, sys.argv[1])
        if fault := stale(file):
            sys.exit(fault)
