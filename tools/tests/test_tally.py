"""Tests the counts at the end of `make test`: reasons of skipped tests, and the list of expected skips."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from tally import ExpectedSkips, Report, Tally, read_junit  # noqa: E402


@pytest.fixture
def junit(tmp_path):
    """Returns junit(cases): the Report of a file with these test cases."""

    def read(cases):
        path = tmp_path / "report.xml"
        path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return read_junit(path)

    return read


def test_passed_failed_and_skipped_are_told_apart(junit):
    report = junit('<testcase classname="a" name="good"/><testcase classname="a" name="bad"><failure/></testcase>'
                   '<testcase classname="a" name="late" status="timeout"/>'
                   '<testcase classname="a" name="off"><skipped message="no disk"/></testcase>')
    assert report == Report(passed=1, failures=["a::bad", "a::late"], skipped=["no disk"])


@pytest.mark.parametrize("case, reason", [
    ('<skipped message="this jax has none">/somewhere/test_a.py:7: this jax has none</skipped>', "this jax has none"),
    ('<skipped message="collection skipped">(\'/x/test_a.py\', 9, "Skipped: could not import \'optax\': none")</skipped>',
     "could not import 'optax': none"),
    ('<skipped message="tests/a_test.cc:12&#x0A;too few processors"/>', "too few processors"),
    ("<skipped/>", "no reason is given"),
])
def test_the_reason_of_a_skip_is_one_line(junit, case, reason):
    assert junit(f'<testcase name="t">{case}</testcase>').skipped == [reason]


def test_a_case_that_the_runner_switched_off_is_skipped(junit):
    assert junit('<testcase name="t" status="notrun"/>').skipped == ["the runner says 'notrun'"]


def test_a_run_that_wrote_nothing_has_no_report(tmp_path):
    assert read_junit(tmp_path / "none.xml") is None


LIST = """
# a comment
e2e | 2 | not installed: * does that
plugin | 1 | this jax has no pmap
"""


def tally(*skips):
    result = Tally()
    for step, count, reason in skips:
        result.add(step, Report(passed=1, skipped=[reason] * count))
    return result


def test_skips_on_the_list_pass():
    result = tally(("e2e", 2, "not installed: this does that"), ("plugin", 1, "this jax has no pmap"))
    result.compare_skips(ExpectedSkips(LIST), strict=True)
    assert result.failed == 0
    assert result.summary()[-1] == "3 passed, 0 failed, 3 skipped"


@pytest.mark.parametrize("skips, said", [
    ([("e2e", 3, "not installed: this does that")], "e2e: 3, and 2 are on the list"),
    ([("e2e", 2, "not installed: this does that"), ("e2e", 1, "not installed: that does that")], "e2e: 3, and 2 are on the list"),
    ([("e2e", 1, "the moon is full")], "e2e: 1 not on the list: the moon is full"),
    ([("wire", 1, "this jax has no pmap")], "wire: 1 not on the list: this jax has no pmap"),
])
def test_a_list_that_grows_fails_in_ci_and_is_noted_elsewhere(skips, said):
    strict, lenient = tally(*skips), tally(*skips)
    strict.compare_skips(ExpectedSkips(LIST), strict=True)
    lenient.compare_skips(ExpectedSkips(LIST), strict=False)
    assert (strict.failed, lenient.failed) == (1, 0)
    assert any(said in line for line in strict.summary()) and any(said in line for line in lenient.summary())


def test_what_is_left_out_as_a_whole_counts_too():
    result = tally()
    result.not_run("the newest jax", "install a Python")
    result.compare_skips(ExpectedSkips(LIST), strict=True)
    assert result.failed == 1
    assert "  the newest jax: install a Python" in result.summary()


def test_an_entry_that_nothing_fits_is_noted_and_no_failure():
    result = tally(("e2e", 1, "not installed: this does that"))
    result.compare_skips(ExpectedSkips(LIST), strict=True)
    assert result.failed == 0
    assert any("plugin | 1 | this jax has no pmap" in line for line in result.summary())


def test_the_list_of_the_checkout_is_well_formed():
    entries = ExpectedSkips((pathlib.Path(__file__).parents[1] / "expected_skips.txt").read_text()).entries
    assert entries and all(step and most > 0 and reason for step, most, reason in entries)
