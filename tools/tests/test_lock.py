"""Tests the locks: every Python package of every environment is pinned by hash."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import lock  # noqa: E402
import sbom  # noqa: E402


@pytest.mark.parametrize("file", lock.requirement_files(), ids=lambda path: path.stem)
def test_each_lock_has_what_is_required_with_hashes(file):
    assert lock.stale(file) is None, "run make locks"


@pytest.mark.parametrize("text, fault", [
    ("jax==1.0 \\\n    --hash=sha256:0a\n", None),
    ("jax==1.0\n", "jax in locks/requirements-x.txt has no hash"),
    ("jax==2.0 \\\n    --hash=sha256:0a\n", "locks/requirements-x.txt and requirements-x.txt differ in jax"),
    ("jax==1.0 \\\n    --hash=sha256:0a\nother==1 \\\n    --hash=sha256:0b\n", "locks/requirements-x.txt and requirements-x.txt differ in other"),
])
def test_a_stale_lock_is_found(text, fault, tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "LOCKS", tmp_path)
    requirements = tmp_path.parent / "requirements-x.txt"
    requirements.write_text("# why\njax==1.0\n")
    (tmp_path / requirements.name).write_text(text)
    assert lock.stale(requirements) == fault


def test_setup_installs_by_locks():
    lines = [line for line in (lock.TOOLS / "setup.sh").read_text().splitlines() if "pip\" install" in line or "bin/pip install" in line]
    others = [line for line in lines if "--require-hashes" not in line]
    assert len(lines) > len(others) and all("build/venv-lock/" in line or "build/venv-unpinned/" in line for line in others), others


def test_the_bill_names_the_packages_of_linked_libraries():
    owned = {one["name"] for one in sbom.debian(["/usr/include/openssl/ssl.h"])}
    assert owned == {"libssl-dev"}
    (one,) = sbom.locked("requirements-nodeps.txt")
    assert one["name"] == "tensorflow-cpu" and len(one["hashes"]) > 3 and one["version"] == "2.21.0"


def test_every_npm_package_of_the_page_has_its_hash_and_one_is_part_of_it():
    found = list(sbom.npm())
    assert len(found) > 10 and all(one["hashes"][0]["alg"] == "SHA-512" and len(one["hashes"][0]["content"]) == 128 for one in found)
    assert [one["name"] for one in found if one["scope"] == "required"] == ["uplot"]
    assert "resolved" not in (ROOT / "web" / "package-lock.json").read_text(), "registries are the machine's own choice"
