"""deploy/Dockerfile: what it copies is there, every package is pinned by hash, and the last stage has no build tools and no root.

tests/image builds it (`make test-image`). This test only reads it."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "image"))
import builders  # noqa: E402

WHEEL = "build/wheel/pathways-*-py3-none-*.whl"  # of `make wheel`


@pytest.fixture(scope="module")
def stages():
    """Returns the instructions of each stage: [[(instruction, rest)]]. The first list has those before the first FROM."""
    found = [[]]
    for instruction, rest in builders.instructions():
        if instruction == "FROM":
            found.append([])
        found[-1].append((instruction, rest))
    return found


def rests(stage, instruction):
    return [rest for name, rest in stage if name == instruction]


def test_what_it_copies_is_there(stages):
    copied = [path for stage in stages for rest in rests(stage, "COPY") if not rest.startswith("--from=") for path in rest.split()[:-1]]
    assert WHEEL in copied
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    assert [path for path in copied if path != WHEEL and path not in tracked] == []


def test_every_package_is_pinned(stages):
    (base,) = rests(stages[0], "ARG")
    assert re.fullmatch(r"BASE=[a-z./]+(:\d+\.\d+-slim|@sha256:[0-9a-f]{64})", base)
    assert [rest.split()[0] for stage in stages[1:] for rest in rests(stage, "FROM")] == ["${BASE}"] * 2
    installs = [one for stage in stages for rest in rests(stage, "RUN") for one in re.findall(r"pip --python \S+ install [^&;]*", rest)]
    assert len(installs) == 4 and all(
        "--require-hashes --no-deps -r /locks/" in one or "--no-index --no-deps /wheel/*.whl" in one for one in installs
    )


def test_the_lock_of_the_image_has_what_the_wheel_wants(stages):
    pinned = dict(re.findall(r"^([A-Za-z0-9_-]+)==(\S+)", (ROOT / "tools" / "requirements-image.txt").read_text(), re.MULTILINE))
    built = dict(re.findall(r"^([A-Za-z0-9_-]+)==(\S+)", (ROOT / "tools" / "requirements.txt").read_text(), re.MULTILINE))
    assert {"jax", "jaxlib"} <= pinned.keys() and {name: built[name] for name in pinned} == pinned, (
        "the image has the jax that the build's environment has"
    )


def test_the_last_stage_has_no_build_tools_and_no_root(stages):
    last = stages[-1]
    (run,) = rests(last, "RUN")
    (installed,) = re.findall(r"apt-get install -y --no-install-recommends ([^&]*)&&", run)
    assert installed.split() == ["python3"]
    assert rests(last, "USER") == ["10001:10001"] and [name for name, _ in last].index("USER") > [name for name, _ in last].index("COPY")
    assert "uid 10001" in run and (ROOT / "python/pathways/_launchers/k8s_objects.py").read_text().count("USER = 10001") == 1
