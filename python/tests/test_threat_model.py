"""Tests that docs/security.md is true about itself: each line of its threat model has a defence and tests, and each test that the page names exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
TEST = re.compile(r"`([\w./-]+(?:_test\.cc|/test_\w+\.py))`(?:: (\w+(?:, \w+)*))?")
COMMAND = re.compile(r"`make (\w+)`")
THREATS = ("a stranger on the network", "a malicious user", "a malicious program; a compromised worker")


def named_tests(text):
    """Returns [(path, names)] of the tests that a text names; paths of sources are those in pathways/."""
    return [(path, names.split(", ") if names else []) for path, names in TEST.findall(text)]


def missing(path, names):
    """Returns what does not exist of the tests that these names are, in the file of this path."""
    found = [folder / path for folder in (ROOT, ROOT / "pathways") if (folder / path).is_file()]
    if not found:
        return [path]
    text = found[0].read_text()
    patterns = [rf"\bTEST\w*\(\w+, {name}\)" if path.endswith(".cc") else rf"^def test_{name}\(" for name in names]
    return [f"{path}: {name}" for name, pattern in zip(names, patterns) if not re.search(pattern, text, re.M)]


def rows(page):
    """Returns the lines of the threat model's tables as [threat, defence, test]."""
    found, inside = [], False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) == 3 and cells[0] in THREATS:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(cells[0]) <= set("-"):
            found.append(cells)
    return found


def test_every_test_that_the_page_names_exists():
    named = named_tests(PAGE.read_text())
    assert len(named) > 40
    assert not [gone for path, names in named for gone in missing(path, names)]


def test_every_line_of_the_threat_model_has_a_defence_and_a_test():
    threats = rows(PAGE.read_text())
    assert len(threats) > 30
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    for threat, defence, shown_by in threats:
        assert defence, threat
        assert named_tests(shown_by) or defence.startswith("**none**"), f"no test for: {threat}"
        assert set(COMMAND.findall(shown_by)) <= targets, threat


def test_what_does_not_exist_is_found():
    text = "`python/tests/test_threat_model.py`: what_does_not_exist_is_found, it_flies; `net/framing_test.cc`: AnythingElseIsNotAFrameOfOurs; `net/no_test.cc`"
    assert [gone for path, names in named_tests(text) for gone in missing(path, names)] == ["python/tests/test_threat_model.py: it_flies", "net/no_test.cc"]
    assert rows("| a malicious user | defence | test |\n|---|---|---|\n| eats | | `x` |\n\n| a | b | c |") == [["eats", "", "`x`"]]
