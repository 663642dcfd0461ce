"""Tests how `make jax-matrix` judges the results of jax's tests, and the sections that it writes into docs/compatibility.md."""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import jax_matrix  # noqa: E402
from jax_matrix import KnownFailures, Outcome, Stop  # noqa: E402

KNOWN = """
# a comment
0.10.2, 0.12.0.1 | a_test.py::A::test_far* | the compiler runs elsewhere
* | a_test.py::A::test_pointer | arrays are another machine's memory
0.8.3 | a_test.py::A::test_old | not in the old one
*/pjrt | a_test.py::A::test_door | this door has none
"""


def row(passed=(), ours=(), **more):
    values = {"file": "a_test", "collected": 9, "chosen": len(passed) + len(ours), "passed": list(passed), "skipped": 0, "failed_on_both": 0,
              "failed_on_ours_only": {test: f"some lines\nE  ValueError: {test}" for test in ours}, "unfinished": False}
    return values | more


def outcome(rows, version="0.10.2"):
    return Outcome(rows, KnownFailures(KNOWN).of(version))


def test_the_list_is_read_for_a_version():
    assert set(KnownFailures(KNOWN).of("0.8.3")) == {"a_test.py::A::test_pointer", "a_test.py::A::test_old"}
    assert KnownFailures(KNOWN).of("0.12.0.1")["a_test.py::A::test_far*"] == "the compiler runs elsewhere"


def test_the_list_is_read_for_a_door():
    assert set(KnownFailures(KNOWN).of("0.8.3", "pjrt")) - set(KnownFailures(KNOWN).of("0.8.3", "ifrt")) == {"a_test.py::A::test_door"}


def test_failures_on_the_list_are_counted_with_their_reasons_and_do_not_fail_the_run():
    found = outcome([row(["a_test.py::A::test_x"], ["a_test.py::A::test_far0", "a_test.py::A::test_far1"])])
    assert found.good()
    counts = found.counts(found.rows)
    assert (counts["passed"], counts["known"], counts["failed"]) == (1, 2, 0)
    assert found.reasons() == {"the compiler runs elsewhere": ["a_test.py::A::test_far0", "a_test.py::A::test_far1"]}


def test_a_failure_beyond_the_list_fails_the_run_and_is_named():
    found = outcome([row(ours=["a_test.py::A::test_old"])])
    assert not found.good()
    assert "- `a_test.py::A::test_old`: ValueError: a_test.py::A::test_old" in jax_matrix.section("0.10.2", found, "said")


def test_a_test_on_the_list_that_passes_fails_the_run():
    found = outcome([row(["a_test.py::A::test_pointer"])])
    assert found.mended == ["a_test.py::A::test_pointer"] and not found.good()


def test_a_section_says_what_did_not_run():
    uncollected = row(file="b_test", collected=0, collection_error="E   ImportError: no name 'x' in 'y' (/home/me/y.py)")
    lines = jax_matrix.section("0.10.2", outcome([row(unfinished=True), uncollected]), "said")
    assert any(line.endswith("was not run: a_test.") for line in lines) and "- `b_test`: ImportError: no name 'x' in 'y'" in lines


def test_only_the_section_of_the_version_is_replaced_and_the_newest_comes_first():
    document = f"above\n{jax_matrix.BEGIN}\n\n{jax_matrix.END}\nbelow\n"
    pjrt = jax_matrix.titled("0.12.0.1", "pjrt")
    for version, text in (("0.9.2", "nine"), (pjrt, "another door"), ("0.12.0.1", "twelve"), ("0.9.2", "nine again")):
        document = jax_matrix.put_section(document, version, [f"### jax {version}", "", text])
    assert document == (f"above\n{jax_matrix.BEGIN}\n\n### jax 0.12.0.1\n\ntwelve\n\n### jax 0.12.0.1, by the PJRT door\n\nanother door\n\n### jax 0.9.2\n\nnine again\n\n{jax_matrix.END}\nbelow\n")


@pytest.mark.parametrize("files", [[], ["--files", "a_test"]])
def test_only_a_run_of_all_files_replaces_a_section(files, tmp_path, monkeypatch):
    document, before = tmp_path / "document.md", f"{jax_matrix.BEGIN}\n\n### jax 0.10.2\n\nwhole\n\n{jax_matrix.END}\n"
    document.write_text(before)
    monkeypatch.setattr(jax_matrix, "DOCUMENT", document)
    monkeypatch.setattr(jax_matrix, "run_version", lambda version, args: (outcome([row(["a_test.py::A::test_x"])]), "said"))
    monkeypatch.setattr(sys, "argv", ["jax_matrix.py", "--versions", "0.10.2", *files])
    assert jax_matrix.main() == 0
    assert (document.read_text() == before) == bool(files)


def test_the_document_and_the_list_of_the_checkout_are_well_formed():
    document = jax_matrix.DOCUMENT.read_text()
    assert document.count(jax_matrix.BEGIN) == document.count(jax_matrix.END) == 1
    known = KnownFailures(jax_matrix.KNOWN.read_text())
    for version in ("0.8.3", "0.10.2", "0.12.0.1"):
        assert all("_test.py::" in test and reason for test, reason in known.of(version).items())


def test_tests_come_from_a_revision_of_a_checkout_and_its_absence_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(jax_matrix, "PLACE", tmp_path / "place")
    checkout = tmp_path / "jax"
    (checkout / "tests").mkdir(parents=True)
    (checkout / "tests" / "fft_test.py").write_text("pass\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all"],
                    ["tag", "jax-v1.2.3"]):
        subprocess.run(["git", "-C", checkout, *command], check=True)
    folder, commit = jax_matrix.tests_of("1.2.3", checkout, "jax-v1.2.3")
    assert (folder / "fft_test.py").read_text() == "pass\n" and len(commit) == 40
    with pytest.raises(Stop, match=r"'jax-v9\.9\.9' of .*(.|\n)*--revision"):
        jax_matrix.tests_of("9.9.9", checkout, "jax-v9.9.9")
