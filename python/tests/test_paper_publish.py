"""Tests which pages `make paper` publishes: of one known code, on a quiet machine, with the failures of all sides, and with what the run before found. Nothing is
measured."""

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "paper"))
sys.path.insert(0, str(ROOT / "bench"))
import _code  # noqa: E402
import _earlier  # noqa: E402
import _provenance  # noqa: E402
import _render  # noqa: E402
import _rows  # noqa: E402
import _setup  # noqa: E402
import _targets  # noqa: E402
import _where  # noqa: E402
import run as paper_run  # noqa: E402


@pytest.mark.parametrize("load, why", [(0.4, None), (0.6, "the machine is busy (load 0.6 on 2 cores): wait until it is quiet, or measure without --publish")])
def test_a_run_that_is_to_be_published_begins_on_a_quiet_machine(load, why):
    assert paper_run.cannot_begin({"load": load, "cores": 2}) == why


CODE = {"commit": "a", "bench": "b", "package": "p", "built": "a", "floor": "f"}


def part_of(run, **more):
    return {"of": run, "time": f"time {run}", "stolen": 0.0, "others": 0.0, "code": CODE, "changed": [], **more}


def measured_by(*commits, machines=("a machine",), load=0.0, **more):
    """Returns a report whose figures 5, 6, ... were measured by a run each, of these commits. more: fields of the last figure's part."""
    figures = {str(5 + place): {} for place, _ in enumerate(commits)}
    began = [{"begun": f"day {place}", "commit": commit, "command": f"run {place}", "machine": {"processor": machines[place % len(machines)], "load": load, "cores": 2}}
             for place, commit in enumerate(commits)]
    runs = {number: [part_of(place, **(more if place == len(commits) - 1 else {}))] for place, number in enumerate(figures)}
    return {"quick": False, "figures": figures, "failed": {}, "began": began, "runs": runs, "attempts": [], "before": None}


def test_a_report_says_which_run_each_figure_is_of():
    report = measured_by("a", "a", "b")
    report["figures"]["8"], report["runs"]["8"] = {}, [{"of": 0}, {"of": 2}]
    assert [(run["commit"], run["command"], figures) for run, figures in _provenance.runs(report)] == [
        ("a", "run 0", ["5", "8"]), ("a", "run 1", ["6"]), ("b", "run 2", ["7", "8"])]
    _provenance.measured(report, "7", {"of": 1}, kept=False)
    _provenance.measured(report, "8", {"of": 1}, kept=True)
    assert [figures for _, figures in _provenance.runs(report)] == [["5", "8"], ["6", "7", "8"], ["8"]]
    _provenance.measured(report, "8", {"of": 1}, kept=False)
    assert [run["command"] for run, _ in _provenance.runs(report)] == ["run 0", "run 1"], "nothing is left of the last"


PAGE = f"# The page\n\n## {_render.IN_SHORT}\n\n| equal to jax |\n\n- slower here\n\nMedians.\n\n## {_render.VERDICTS_TITLE}\n\n1 missed.\n\n| all |\n"
README = f"What it is.\n\n{paper_run.QUOTED}\n- faster than jax\n{paper_run.END}\n\nMore.\n"


@pytest.fixture
def publishable(tmp_path, monkeypatch):
    """A tree whose words are in a commit, and a page to publish there. Returns a function that publishes a report, and the folder docs."""
    monkeypatch.setattr(paper_run, "ROOT", tmp_path)
    monkeypatch.setattr(_code, "commit", lambda root: "a")
    (tmp_path / "docs").mkdir()
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "figure5.png").write_bytes(b"a picture")
    (tmp_path / "paper.md").write_text(PAGE)
    (tmp_path / "README.md").write_text(README)

    def publish(report):
        monkeypatch.setattr(paper_run, "NUMBERS", tuple(report["figures"]))
        monkeypatch.setattr(_targets, "FIGURES", {})
        return paper_run.publish(tmp_path, report)

    return publish, tmp_path / "docs"


@pytest.mark.parametrize("report, why", [
    (measured_by("a", "a"), None),
    (measured_by("a", "b"), "several commits: a, b"),
    (measured_by("a-dirty"), "a has changes"),
    (measured_by("unknown"), "commit is unknown"),
    (measured_by(), "commit is unknown"),
    (measured_by("a", "a", machines=("one", "another")), "several machines"),
    (measured_by("a", load=0.5), None),
    (measured_by("a", load=0.6), "busy when a run began (load 0.6 on 2 cores)"),
    (measured_by("a", "a", stolen=0.03), "3% (Figure 6)"),
    (measured_by("a", "a", others=0.06), "other processes used this machine's processors: 6% (Figure 6)"),
    (measured_by("a", "a", changed=["bench", "package"]), "the code changed while Figure 6 was measured: bench, package"),
    (measured_by("a", "a", code={**CODE, "package": "another"}), "several states of the code"),
    (measured_by("a", code={**CODE, "built": "unknown"}), "not known to be of the commit, but of unknown")])
def test_only_what_can_be_measured_again_is_published(report, why, publishable, capsys):
    found = _provenance.unfit(report)
    assert found == why or why in found
    publish, docs = publishable
    published = docs / "paper.md"
    for worse in ({"quick": True}, {"failed": {number: f"{_rows.NO_TIME}: late" for number in report["figures"]}}):
        assert not report["figures"] or publish(report | worse) == 1 and not published.exists()
    assert publish(report) == (why is not None) and published.exists() == (why is None)
    assert why is None or why in capsys.readouterr().out


def test_a_page_is_published_with_its_pictures_and_a_record_of_its_verdicts(publishable, monkeypatch):
    publish, docs = publishable
    (docs / "paper").mkdir()
    (docs / "paper" / "figure6.png").write_bytes(b"of an earlier page")
    report = measured_by("a", "a")
    report["failed"] = {"6": "OSError: no room"}
    assert publish(report) == 0, "a failure is a result, whichever side failed"
    assert [picture.name for picture in (docs / "paper").iterdir()] == ["figure5.png"]
    record = json.loads((docs / "paper.json").read_text())
    assert record["commit"] == "a" and record["begun"] == "day 0, day 1" and record["page"] == paper_run.digest_of(PAGE)
    assert paper_run.edited(docs.parent) is None and "\n| equal to jax |\n\n1 missed.\n\nMedians.\n" in (docs.parent / "README.md").read_text()
    monkeypatch.setattr(_code, "commit", lambda root: "a-dirty")
    assert publish(report) == 1, "its words are in no commit"


def test_attempts_that_failed_or_were_replaced_are_told(monkeypatch):
    monkeypatch.setattr(_earlier, "verdicts", lambda report, number: [["ours / jax", "1 x 1", ">= 1", "0.900", "MISSED"]])
    report = measured_by("a", "a")
    rows = lambda **more: {"rows": {"one": {"sides": {"ours": {"rounds": [1.0]}, "jax": {"rounds": [1.0], **more}}}}}
    note = lambda run, figure, why=None, known=None: paper_run.note(report, "5", known, figure, why, part_of(run))
    note(0, rows(error="it aborted"))
    assert [(one["failures"], replaced) for one, replaced in _provenance.attempts(report)] == [({"one, jax": "it aborted"}, False)]
    note(1, rows())
    assert [(one["failures"], replaced) for one, replaced in _provenance.attempts(report)] == [({"one, jax": "it aborted"}, True)]
    note(1, None, "OSError: no room")
    assert [one["failures"] for one, _ in _provenance.attempts(report)] == [{"one, jax": "it aborted"}, {"all": "OSError: no room"}]
    report["figures"] = {}  # this test's figures have made-up rows
    head, told = _render.attempts_table(report)
    assert told == [["Figure 5", "day 0", "time 0", "one, jax: it aborted", "no", "replaced by a later measurement", "ours / jax, 1 x 1: 0.900, MISSED"],
                    ["Figure 5", "day 1", "time 1", "all: OSError: no room", "no", "it had none", ""]]
    report["attempts"][0]["others"] = 0.25
    assert _render.attempts_table(report)[1][0][4] == "other processes used this machine's processors: 25%"
    assert all("it aborted" in page for page in (_render.text(report), _render.page(report, {}), _render.markdown(report)))
    assert len(head) == len(told[0])


def test_a_failure_of_ours_is_a_failed_verdict_in_every_figure():
    broken = {"error": "RuntimeError: no room"}
    rows = lambda *names: {"rows": {name: broken for name in names}}
    listed = lambda *names: {"rows": [{"name": name, **broken} for name in names]}
    report = {"figures": {"5": listed("1 x 1", "2 x 4"), "6": listed("16 x 8", "512 x 4, simulated"), "7": rows("4"), "8": rows("simulated", "CPU"),
                          "table1": rows("small decoder-only, one host"), "table2": {"rows": {_setup.ONE_JIT: {"sides": {_setup.OURS: broken, _setup.PLUGIN: {"rounds": [1.0]}}}}},
                          "10": rows("one island", "four islands"), "12": {"rows": {_setup.ONE_ISLAND: {"sides": {_setup.OURS: broken}}}}, "pipelines": rows("16 stages, gpipe"),
                          "islands": rows("two islands of 128 cores, in segments")}, "failed": {"9": "OSError: no room"}}
    found = _targets.targets(report)
    assert {one.number for one in found} == set(_targets.FIGURES) and all(one.verdict.startswith(_setup.FAILED) for one in found)
    assert [row[4:6] for row in _render.targets_table(report)[1] if row[0] == "Figure 9"] == [["-", "-"]] and _where.missed(report) == []
    late = {"figures": {"7": {"rows": {"4": {"error": f"{_rows.NO_TIME}: it needs 9 s"}}}}}
    assert [one.verdict.split(":")[0] for one in _targets.targets(late)] == ["not measured"], "what is still to be measured has not failed"


def rounds(*rates):
    return {"tokens_per_s": rates[0], "rounds": list(rates), "losses": ["0x1p+0"]}


def test_a_verdict_that_was_another_in_the_run_before_says_so():
    of = lambda rate: {"quick": False, "figures": {"10": {"stages": 16, "rows": {"one island": rounds(*[100.0] * 4), "four islands": rounds(*[rate] * 4)}}}, "failed": {}, "attempts": [],
                       "began": [{"begun": f"day {rate:.0f}", "commit": "a", "command": "run", "machine": {"load": 0.0, "cores": 2}}], "runs": {"10": [part_of(0)]}}
    before = json.loads(json.dumps(_earlier.record(of(90.0))))
    assert before["begun"] == "day 90" and [one["verdict"] for one in before["verdicts"]] == ["MISSED"]
    told = lambda report: [row[-2:] for row in _render.targets_table(report)[1]]
    assert told({**of(99.0), "before": before}) == [["met", "MISSED, 0.900 (0.900 to 0.900)"]]
    assert told({**of(80.0), "before": before}) == [["MISSED", ""]], "the same verdict, with other numbers"
    assert told({**of(99.0), "before": None}) == [["met", ""]]
    assert "Of 1 verdicts that both runs have, 1 are others there" in _render.before({**of(99.0), "before": before}) and "none is known" in _render.before({**of(99.0), "before": None})


def test_a_full_run_keeps_the_one_before_it(arguments, monkeypatch, tmp_path):
    monkeypatch.setattr(paper_run, "NUMBERS", ("9",))
    monkeypatch.setattr(paper_run, "ROOT", tmp_path)
    monkeypatch.setattr(paper_run, "in_own_process", lambda *_: ({"mixes": {}}, None))
    monkeypatch.setattr(paper_run, "machine", lambda: {"load": 0.0, "cores": 2})
    monkeypatch.setattr(_code, "identity", lambda root: CODE)
    monkeypatch.setattr(paper_run, "now", lambda: "2026-01-01")
    assert paper_run.measure(arguments)["before"] is None
    monkeypatch.setattr(paper_run, "now", lambda: "2026-01-02")
    second = paper_run.measure(arguments)
    assert second["before"]["begun"] == "2026-01-01" and json.loads((tmp_path / paper_run.PREVIOUS).read_text())["before"] is None
    arguments.resume = True
    assert paper_run.measure(arguments)["before"] == second["before"], "a run that goes on is the same run"
    arguments.resume = False
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "paper.json").write_text(json.dumps({"begun": "2026-03-01", "commit": "p", "verdicts": []}))
    assert paper_run.measure(arguments)["before"]["commit"] == "p", "the published page is of a later run"


def git_at(folder):
    return lambda *words: subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "-C", folder, *words], check=True, capture_output=True)


def test_code_is_identified_by_the_commit_the_benchmarks_and_the_package(tmp_path):
    git, package = git_at(tmp_path), tmp_path / "build" / "package"
    (tmp_path / "bench" / "paper").mkdir(parents=True)
    package.mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "bench" / "paper" / "run.py").write_text("one")
    (package / "worker").write_bytes(b"binary")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    of = lambda: _code.identity(tmp_path, package)
    first = of()
    assert first["built"] == _provenance.UNKNOWN and _provenance.nameless(first["commit"]) is None and _code.changed(first, of()) == []
    (tmp_path / "build" / "wheel-of.json").write_text(json.dumps({"commit": first["commit"], "package": first["package"]}))
    assert of()["built"] == first["commit"]
    (package / "worker").write_bytes(b"another")
    assert _code.changed({**first, "built": first["commit"]}, of()) == ["package", "built"], "the stamp is of the other binary"
    (package / "worker").write_bytes(b"binary")
    new = tmp_path / "bench" / "paper" / "_new.py"
    new.write_text("a module that is in no commit")
    assert _code.changed(first, of()) == ["commit", "bench", "built"] and of()["commit"].endswith(_provenance.DIRTY)
    new.unlink()
    (tmp_path / "docs" / "paper").mkdir(parents=True)
    for name in ("paper.md", "paper.json", "paper/figure5.png"):
        (tmp_path / "docs" / name).write_text("published")
    assert _provenance.nameless(of()["commit"]) is None, "what publishing writes may differ"


def test_code_that_changes_under_a_figure_is_noticed(arguments, monkeypatch):
    monkeypatch.setattr(_targets, "FIGURES", {})  # the figures are made up
    monkeypatch.setattr(paper_run, "NUMBERS", ("7", "9"))
    states = iter([CODE, CODE, {**CODE, "bench": "edited"}])
    monkeypatch.setattr(_code, "identity", lambda root: next(states))
    monkeypatch.setattr(paper_run, "in_own_process", lambda *_: ({"rows": {}}, None))
    report = paper_run.measure(arguments)
    assert report["runs"]["7"][0]["changed"] == [] and report["runs"]["9"][0]["changed"] == ["bench"]
    assert "the code changed while Figure 9 was measured: bench" in _provenance.unfit(report)


def test_a_run_that_is_to_be_published_waits_for_a_quiet_machine(monkeypatch, capsys):
    loads, slept = iter([3.0, 1.0, 0.4]), []
    monkeypatch.setattr(paper_run, "machine", lambda: {"load": next(loads), "cores": 2})
    assert paper_run.wait_until_quiet(60, 10, slept.append) is None and slept == [10, 10]
    monkeypatch.setattr(paper_run, "machine", lambda: {"load": 3.0, "cores": 2})
    slept.clear()
    assert "the machine is busy (load 3.0 on 2 cores)" in paper_run.wait_until_quiet(60, 10, slept.append) and sum(slept) == 60


def test_who_wants_to_publish_what_is_in_no_commit_hears_it_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    git = git_at(tmp_path)
    monkeypatch.setattr(paper_run, "ROOT", tmp_path)
    monkeypatch.setattr(paper_run, "measure", lambda args: pytest.fail("measured"))
    (tmp_path / "docs").mkdir()
    for name in ("docs/paper.md", "source"):
        (tmp_path / name).write_text("first")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "docs" / "paper.md").write_text("another")
    assert _provenance.nameless(_code.commit(tmp_path)) is None, "the page itself may differ"
    (tmp_path / "source").write_text("another")
    for words, why in ((["--publish"], "has changes"), (["--publish", "--quick"], "form only")):
        monkeypatch.setattr(sys, "argv", ["run.py", *words, "--out", str(tmp_path / "out"), "--plot-python", sys.executable])
        with pytest.raises(SystemExit):
            paper_run.main()
        assert why in capsys.readouterr().err


def test_a_page_says_how_far_numbers_are_from_those_of_the_run_before():
    of = lambda rate: {"began": [], "runs": {}, "figures": {"10": {"rows": {"one island": {"rounds": [100.0] * 5}, "four islands": {"rounds": [rate] * 5}}}}}
    before = _earlier.record({**of(50.0), "began": [{"begun": "day 90", "commit": "a", "command": "", "machine": {}}], "runs": {"10": [{"of": 0}]}})
    assert before["verdicts"][0]["rounds"] == [0.5] * 5, "others may compute with the rounds"
    assert "its verdicts follow" not in _render.before({**of(100.0), "before": {**before, "machine": {}}})
    other = _render.before({**of(100.0), "before": {**before, "machine": {"processor": "another"}, "rules": "quartiles"}})
    assert "It was on another machine (another) and its verdicts follow other rules, so the two cannot be compared" in other
    assert "The medians of 1 comparisons differ from that run by a factor of 2.00" in _render.before({**of(100.0), "before": before})
    assert _earlier.scatter(of(100.0)) == ""
