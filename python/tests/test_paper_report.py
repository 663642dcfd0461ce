"""Tests the report of `make paper`, from the results of a quick run: its tables and its page. Nothing is measured."""

import html.parser
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORED = pathlib.Path(__file__).with_name("data") / "paper_report.json"
sys.path.insert(0, str(ROOT / "bench" / "paper"))
sys.path.insert(0, str(ROOT / "bench"))
import _found  # noqa: E402
import _paper  # noqa: E402
import _plots  # noqa: E402
import _render  # noqa: E402
import _setup  # noqa: E402
import _summary  # noqa: E402
import _targets  # noqa: E402
import _where  # noqa: E402
import fairness  # noqa: E402
import run as paper_run  # noqa: E402


@pytest.fixture
def report():
    return json.loads(STORED.read_text())


class Page(html.parser.HTMLParser):
    """Collects headings, the number of cells of each row, and images. Fails if tags do not pair."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.rows, self.images = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        elif tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def test_every_figure_has_a_table_with_full_rows(report):
    tables = _render.tables(report)
    assert list(tables) == list(_paper.FIGURES)
    for head, rows in tables.values():
        assert rows and all(len(row) == len(head) for row in rows)
    text = _render.text(report)
    assert "2.3 ms" in text and "35 ms" in text  # the paper's values
    assert "0.429 ms" in text and "simulated" in text
    assert "for the test" in text and "not measured" in text  # a failed cell, and a row that was not measured
    assert "Figure 11" in text, "which figure 8 has measured"
    assert [row[2] for row in tables["11"][1]] == ["33.0 %", "33.2 %"], "what the clients saw, of two seconds"


def test_the_page_has_tables_plots_the_paper_s_words_and_what_failed(report):
    page = Page(_render.page(report, {number: b"\x89PNG" for number in ("5", "9")}))
    assert [heading.split(":")[0] for heading in page.headings] == [
        "In short", "Verdicts", "Missed targets, and where the time goes", *map(_paper.name, _paper.FIGURES), "Not all there"]
    assert page.images == ["data:image/png;base64,iVBORw=="] * 2 and min(page.rows) > 1
    text = _render.page(report, {})
    assert "MISSED" in text and "Where the time goes: one recorded step" in text and "processor time: agent" in text and "from the controller to the workers" in text
    assert "Figure 5: 512 x 4, simulated: no time left for it" in text
    assert all(about["paper"].split("'")[0] in text for about in _paper.FIGURES.values())
    assert "Figure 7: FAILED: CalledProcessError: for the test" in text and "A quick run" in text
    assert "<script" not in _render.page({**report, "failed": {"5": "<script>"}}, {})


def test_the_page_of_the_repository_says_when_where_and_how_it_was_measured(report):
    page = _render.markdown(report, ("5", "11"))
    (table,) = [table for table in page.split("\n\n") if table.startswith("| started |")]
    for what in ("2026-11-21 19:50 UTC", "a processor, 2 cores of a virtual machine, 24 GiB; jax 0.10.2, tensorflow-cpu 2.20.0, ray 2.60.0", "0123456789ab", "bench/paper/run.py --quick", "0.20", "Figure 5; Figure 6; Figure 7; "):
        assert what in table
    assert page.count("Measured in 70 s, until 2026-11-21 19:52 UTC.") == len(_paper.FIGURES)
    assert "A quick run" in page and all(about["here"] in page for about in _paper.FIGURES.values())
    assert "![Figure 5](paper/figure5.png)" in page and "![Figure 11](paper/figure11.png)" in page and page.count("](paper/") == 2
    for table in page.split("\n\n"):
        if table.startswith("|"):
            cells = {line.replace("\\|", "").count("|") for line in table.splitlines()}
            assert len(cells) == 1, table


def test_the_page_says_where_its_words_are_of_another_commit(report):
    of = lambda words: "The words around the numbers are of commit" in _render.markdown({**report, "words": words})
    assert of("fedcba987654") and not of(report["began"][0]["commit"])


def test_a_side_that_fails_is_a_failed_row_and_a_failed_verdict(report):
    table = _render.tables(report)["5"][1]
    assert ["1 x 4", "chained", "ray, our plugin", 48, "FAILED, before: 10 (10 to 11)", "-", "-", "-", "FAILED: ray, our plugin: XlaRuntimeError: for the test"] in table
    failed = {(row[1], row[2]): row[7] for row in _render.targets_table(report)[1] if row[7].startswith(_setup.FAILED)}
    assert failed["ours, chained / ray, our plugin, chained", "1 x 4"] == "FAILED: ray, our plugin: XlaRuntimeError: for the test"
    assert failed["ours, fused / jax, our plugin, fused", "1 x 4"] == "FAILED: pathways: XlaRuntimeError: for the test"


def test_the_page_of_the_repository_is_as_it_was_published():
    assert paper_run.edited(ROOT) is None


def test_a_page_or_a_quotation_that_was_edited_by_hand_is_found(tmp_path):
    (tmp_path / "docs").mkdir()
    page, readme = tmp_path / "docs" / "paper.md", tmp_path / "README.md"
    text = f"## {_render.IN_SHORT}\n\n| equal |\n\nMedians.\n\n## {_render.VERDICTS_TITLE}\n\n1 missed."
    page.write_text(text)
    readme.write_text(f"before\n{paper_run.QUOTED}\n{paper_run.END}\nafter")
    paper_run.quote(readme, text)
    assert readme.read_text() == f"before\n{paper_run.QUOTED}\n| equal |\n\n1 missed.\n\nMedians.\n{paper_run.END}\nafter"
    (tmp_path / "docs" / "paper.json").write_text(json.dumps({"page": paper_run.digest_of(text)}))
    assert paper_run.edited(tmp_path) is None
    readme.write_text(readme.read_text().replace("equal", "faster"))
    assert "README.md quotes other results" in paper_run.edited(tmp_path)
    page.write_text("a page")
    assert "docs/paper.md is not what run.py --publish wrote" in paper_run.edited(tmp_path)


COMMIT = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")


def test_the_words_name_no_commit_and_no_coming_run():
    """Words stand beside the numbers of any run. So what one run found must not be in them."""
    assert COMMIT.search("of commit 62aebcd,") and not COMMIT.search("the decade, 1234567, effaced")
    words = [_render.ABOUT, _render.VERDICTS, *(text for about in _paper.FIGURES.values() for text in about.values())]
    for text in [*words, *(path.read_text() for path in (ROOT / "bench" / "paper").glob("*.py"))]:
        assert not COMMIT.search(text), COMMIT.search(text)[0]
    for text in words:
        assert not re.search(r"next run on|run after|[Ii]n the run of", text), text


def found_in(report, number):
    return _found.said(number, report)


def test_what_a_run_found_is_said_from_its_report(report):
    """Each sentence says the opposite, or is not there, where the report does."""
    figures = report["figures"]
    by_length = figures["8"]["rows"]["simulated"]["simulated"]["330"]
    assert "One client keeps the simulated devices busy for 97 % (simulated, 0.33 ms) of the time." in found_in(report, "8") and "4 clients reach less than 1 with: none" in found_in(report, "8")
    by_length["4"]["per_s"] = 10.0
    assert "4 clients reach less than 1 with: simulated, 0.33 ms." in found_in(report, "8")
    assert "97 % with 1 client (here 33 %)" in found_in(report, "11")
    assert "below 16 GiB for 1 of 1 models; not for: none." in found_in(report, "large")
    figures["large"]["rows"]["T5-Base"]["temporary_bytes"] = 2**34
    assert "below 16 GiB for 0 of 1 models; not for: T5-Base (17.0 GiB)." in found_in(report, "large")
    assert "ratio of parallel to sequential is 1.000 from 1. Farther from 1 than that are the rows of this many stages: none." in found_in(report, "7")
    figures["7"]["rows"]["2"]["ratio_rounds"] = [3.0] * 3
    assert "of this many stages: 2." in found_in(report, "7")
    assert "takes 1.0 % of a step" in found_in(report, "islands")
    figures["islands"]["rows"]["two islands of 128 cores, in segments"]["sent_bytes"] *= 10
    assert "takes 9.9 % of a step" in found_in(report, "islands")
    sixteen = figures["pipelines"]["rows"]["16 stages, gpipe"]
    figures["pipelines"]["rows"]["8 stages, gpipe"] = {**sixteen, "processors_s": {**sixteen["processors_s"], "hosts": 0.1}}
    grown = sixteen["processors_s"]["hosts"] / 0.1
    assert f"grows {grown:.1f} times" in found_in(report, "pipelines")
    assert all(found_in(report, number) in page for number in _found.SAID for page in (_render.text(report), _render.markdown(report)))


def test_calls_of_several_hosts_are_compared_by_their_processor_time(report):
    entry = lambda who, kind, used: {"who": who, "kind": kind, "processors_us": {"client": 1.0, "workers": used}, "idle_us": 5.0}
    row = lambda name, rival, mine, theirs: {"name": name, "hosts": 2, "rates": {}, "where": [entry(_setup.OURS, "fused", mine), entry(rival, "fused", theirs)]}
    report["figures"]["5"]["rows"] = [row("1 x 4", _setup.PLUGIN, 9.0, 2.0), row("2 x 4", _setup.MULTI_PLUGIN, 9.0, 19.0)]
    said = found_in(report, "5")
    assert "takes more processor time than one of jax, our plugin in 1 of 1 comparisons" in said and "TensorFlow" not in said
    assert "On 2 x 4, a fused call of ours takes 10 us of processor time, 9 us of it in the workers, and one of jax 20 us; processors are idle for 5 us of ours and 5 us of jax's." in said


def test_a_figure_that_failed_has_no_findings(report):
    report["figures"] = {number: {"rows": [] if number in "56" else {}} for number in _found.SAID if number != "11"}
    assert not any(found_in(report, number) for number in _found.SAID)


def test_words_end_with_a_full_stop_and_say_nothing_between_braces():
    for about in _paper.FIGURES.values():
        for paragraph in about["here"].split("\n\n"):
            assert paragraph.endswith(".") and "{" not in paragraph, paragraph


def test_rates_have_the_middle_half_of_their_rounds_beside_them(report):
    (one, _) = _render.tables(report)["7"][1]
    assert one == ["1", "800 (760 to 840)", "400 (380 to 420)", "1,600 (1,550 to 1,650)", "2.000 (1.950 to 2.050)", "0.500 (0.490 to 0.510)", "2.00 (2.00 to 2.50)", "4.00 (4.00 to 5.00)",
                   "1.00 (1.00 to 1.00)"]
    assert [row[2] for row in _render.tables(report)["8"][1] if row[0] == "CPU, 45 loops"] == ["1,000 (900 to 1,100)", "1,400 (1,260 to 1,540)", "2,000 (1,800 to 2,200)", "1,000 (950 to 1,050)"]
    assert [row[7] for row in _render.tables(report)["8"][1]][0] == "0.25 (0.23 to 0.27)", "the processors, too"
    assert [row[5] for row in _render.tables(report)["pipelines"][1]][1].count(" to ") == 1, "the schedule against the step, too"


def test_the_model_of_table_2_is_one_jit_too_ours_and_jax_s(report):
    rows = {row[0]: row for row in _render.tables(report)["table2"][1]}
    assert rows[f"{_setup.ONE_JIT}, jax, our plugin"][1:] == ["800 (800 to 800)", "to the last bit"]
    verdicts = lambda: {row[1]: row[4:] for row in _render.targets_table(report)[1] if row[0] == "Table 2"}
    assert verdicts() == {"tokens/s, SPMD, ours / jax, our plugin": [">= 0.97", "0 of 5", "our reading of the paper", "MISSED", ""]}, "rows with other numbers of devices have no verdict"
    (said,) = [row[-1] for row in _where.missed(report) if row[1] == "tokens/s, SPMD, ours / jax, our plugin"]
    assert said == f"{_setup.ONE_JIT}, pathways: a round of ours, setup included, takes 2.00 s of processor time: workers 75 %, client 25 %; the other side's was not measured, so this does not say why"
    report["figures"]["table2"]["rows"][_setup.ONE_JIT]["sides"]["jax, our plugin"] = {"error": "it aborted (after 1 rounds)", "rounds": [800.0]}
    assert verdicts()["tokens/s, SPMD, ours / jax, our plugin"][-2] == f"FAILED: {_setup.ONE_JIT}, jax, our plugin: it aborted (after 1 rounds)"
    (row,) = [row for row in _render.tables(report)["table2"][1] if row[0].endswith("our plugin")]
    assert row[1:] == ["FAILED: it aborted (after 1 rounds); before: 800", "-"]
    assert not any("it aborted" in why for _, why in _render.missing(report)), "a rival that fails is a row of the page, which may be published"


def test_targets_are_counted_and_so_are_the_comparisons_behind_them(report):
    found = _targets.targets(report)
    same = [one for one in found if one.number == "5" and one.limit == 3.0]
    assert same and f"{len(found)} targets of {len(found) - len(same)} comparisons" in _render.count(report)


def test_sides_with_another_device_runtime_are_shown_and_have_no_verdict(report):
    rows = [row for row in _render.tables(report)["5"][1] if row[2] in _setup.OTHER_RUNTIME]
    assert {row[2] for row in rows} == set(_setup.OTHER_RUNTIME) and all(row[6] for row in rows)
    said = " ".join(word for row in _render.targets_table(report)[1] for word in row[1:3])
    assert "tensorflow" not in said and "our plugin" in said
    assert all(not target.rival or _setup.has_verdict(target.rival) for target in _targets.targets(report))


@pytest.mark.parametrize("quick, load, count", [(False, 0.1, 0), (True, 0.1, 1), (False, 3.0, 1), (True, 3.0, 2)])
def test_figures_that_are_not_to_be_relied_on_say_so(report, quick, load, count):
    report["quick"] = quick
    report["began"][0]["machine"] |= {"cores": 2, "load": load}
    found = _render.warnings(report)
    assert len(found) == count and all(warning in _render.text(report) and warning in _render.page(report, {}) for warning in found)


@pytest.mark.parametrize("whose, words", [("stolen", "other guests"), ("others", "other processes")])
def test_processors_that_others_took_are_told(report, whose, words):
    report["quick"] = False
    for number, share in (("5", 0.013), ("6", 0.17)):
        report["runs"][number][0][whose] = share
    (told,) = _render.warnings(report)
    assert "17% (Figure 6)" in told and "Figure 5" not in told and told in _render.text(report) and words in told


def test_clients_that_reach_less_together_are_explained_by_the_processors(report):
    found = [row for row in _where.missed(report) if "clients together" in row[1]]
    assert [row[1:5] for row in found] == [["4 clients together / jax, our plugin, one program", "CPU, 45 loops", "0.700 (0.700 to 0.700)", ">= 0.97"]]
    assert "4 clients: 1,400/s, processors busy 0.78: worker 36 %, clients 32 %" in found[0][5] and "jax, our plugin, one program: 2,000/s" in found[0][5]
    verdicts = {row[1]: row[7] for row in _render.targets_table(report)[1] if row[2] == "CPU, 45 loops"}
    assert verdicts["4 clients together / jax, our plugin, 4 programs"] == "met"


def test_a_rival_of_the_clients_that_fails_is_a_row(report):
    cpu = report["figures"]["8"]["rows"]["CPU"]["cpu"]["45"]
    cpu["jax"] = {"error": "it aborted (after 1 rounds)", "per_s_rounds": [2000.0]}
    for row in cpu.values():
        row.pop("of_jax_rounds", None)
    verdicts = {row[1]: row[7] for row in _render.targets_table(report)[1] if row[2] == "CPU, 45 loops"}
    assert verdicts["4 clients together / jax, our plugin, one program"] == "FAILED: it aborted (after 1 rounds)" and verdicts["4 clients together / jax, our plugin, 4 programs"] == "met"
    assert "FAILED: it aborted" in _render.text(report) and list(_render.tables(report)) == list(_paper.FIGURES), "the other rows are there, and figure 11"
    report["figures"]["8"]["rows"]["CPU"] = {"error": "RuntimeError: the cluster ended"}
    assert ["several clients together", "CPU", "-", "-"] == [row[1:5] for row in _render.targets_table(report)[1] if row[2] == "CPU"][0]
    assert "Figure 11" in _render.text(report)


def test_ours_on_several_islands_is_to_reach_the_papers_ratio_to_one(report):
    of = lambda *rounds: {"tokens_per_s": rounds[0], "rounds": list(rounds), "losses": ["0x1p+0"], "processors_s": {"client": 1.0, "hosts": 3.0}}
    verdict = lambda: [row[2:] for row in _render.targets_table(report)[1] if row[0] == "Figure 10"]
    for rate, word in ((77.7, "MISSED"), (100.0, "met")):
        report["figures"]["10"] = {"stages": 16, "rows": {"one island": of(*[100.0] * 5), "four islands": of(*[rate] * 5)}}
        assert verdict() == [["CPU devices", f"{rate / 100:.3f} ({rate / 100:.3f} to {rate / 100:.3f})", ">= 0.97", f"{5 * (rate >= 97)} of 5", "our reading of the paper", word, ""]]
        said = [row[-1] for row in _where.missed(report) if row[0] == "Figure 10"]
        assert all("four islands: a round of ours, setup included, takes 4.00 s of processor time: workers 75 %, client 25 %" in words for words in said)
        assert len(said) == (word == "MISSED")
    report["figures"]["10"]["rows"]["four islands"] = {"error": "RuntimeError: no"}
    assert verdict()[0][-2] == "FAILED: four islands: RuntimeError: no"


def test_what_a_side_uses_in_the_turns_of_others_is_told(report):
    text = _render.text(report)
    assert "processors in use on 1 x 4" in text
    (table,) = [rows for title, _, rows in _where.tables("5", report["figures"]["5"]) if "processors in use" in title]
    assert table == [["pathways", "1.250", "0.004"], ["ray, our plugin", "1.500", "0.000"], ["tensorflow", "-", "0.010"]]


def test_losses_are_compared_to_the_last_bit(report):
    of = lambda rate, *losses: {"tokens_per_s": rate, "rounds": [rate], "losses": [loss.hex() for loss in losses]}
    report["figures"]["10"] = {"stages": 4, "rows": {"one": of(200.0, 2.0, 1.5), "same": of(100.0, 2.0, 1.5), "other": of(50.0, 2.0, 1.5 * (1 + 2.0 ** -20)),
                                                     "broken": {"error": "RuntimeError: no"}}}
    head, rows = _render.tables(report)["10"]
    assert [row[2:4] for row in rows] == [["1.000", "to the last bit"], ["0.500", "to the last bit"], ["0.250", "to 9.5e-07"], ["-", "-"]]
    assert rows[3][1] == "FAILED: RuntimeError: no"


def test_where_a_step_over_islands_goes(report):
    spent = {"forward": 1.5, "backward": 3.0, "waiting": 0.01}
    rows = {name: {"tokens_per_s": 100.0, "rounds": [100.2, 99.8], "step_s": 4.51, "step_rounds_s": [4.5, 4.52], "spent_s": spent, "sent_bytes": sent, "processors_s": {"client": 0.1, "hosts": 0.25}}
            for name, sent in (("one island of 256 cores, in segments", 0), ("two islands of 128 cores, in segments", 29.8e6))}
    report["figures"] = {"islands": {"rows": rows}}
    text = _render.text(report)
    assert "1,500.0" in text and "29.8" in text and "processor time of this machine" in text and "250" in text
    assert min(Page(_render.page(report, {})).rows) > 1
    rows["two islands of 128 cores, in segments"] = {"error": "RuntimeError: no (after 2 rounds)", "rounds": [100.2, 99.8]}
    assert "FAILED: RuntimeError: no (after 2 rounds); before: 100 (100 to 100)" in _render.text(report)


def test_a_figure_that_was_not_measured_is_left_out(report):
    del report["figures"]["5"]
    assert "Figure 5" not in _render.text(report)
    assert not any(h.startswith("Figure 5") for h in Page(_render.page(report, {})).headings)


def test_figures_become_plots(tmp_path):
    python = ROOT / "build" / "venv-paper" / "bin" / "python"
    if not python.exists():
        pytest.skip("matplotlib is not installed: 'make paper' does that")
    (tmp_path / "report.json").write_text(STORED.read_text())
    subprocess.run([python, ROOT / "bench" / "paper" / "run.py", "--render", "--out", tmp_path], check=True)
    for number in _plots.PLOTS:
        assert (tmp_path / "paper" / f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
    assert len(Page((tmp_path / "report.html").read_text()).images) == len(_plots.PLOTS)
    assert (tmp_path / "paper.md").read_text().count("](paper/figure") == len(_plots.PLOTS)
    text = (tmp_path / "report.txt").read_text()
    assert all(f"{_paper.name(number)}: " in text for number in _paper.FIGURES)


def test_what_the_device_ran_is_found_in_a_trace_by_who_asked_for_it():
    def event(category, process, thread, op, ts, dur=0):
        return {"cat": category, "pid": process, "tid": thread, "ts": ts, "dur": dur, "args": {"op": op}}

    names = [{"name": "thread_name", "pid": 1, "tid": i, "args": {"name": name}} for i, name in enumerate(["client 7", "client 3", "client 9"])]
    names += [{"name": "thread_name", "pid": 2, "tid": i, "args": {"name": name}} for i, name in enumerate(["device 0", "device 0 (2)", "device 1"])]
    asked = [event("request", 1, 0, 50, 1), event("request", 1, 1, 51, 2), event("request", 1, 2, 52, 3), event("request", 1, 0, 53, 4)]
    end = 10 + fairness.SHOWN_US
    ran = [event("run", 2, 0, 50, 5, 4), event("run", 2, 1, 51, 10, 6), event("run", 2, 2, 51, 10, 5), event("run", 2, 0, 52, 20, 1), event("run", 2, 0, 99, 30, 1), event("run", 2, 0, 53, end, 8)]
    # Client 9 is not compared, 99 was requested before the recording, and 50 ran too early to be shown.
    assert fairness.runs_of(names + ran + asked, [3, 7]) == [[0, 0, 6], [1, fairness.SHOWN_US, 8]]
    assert fairness.runs_of(names + asked, [3, 7]) == []
    late = [event("run", 2, 0, 51, 10, 9), event("run", 2, 1, 53, 15, 4)]
    assert fairness.runs_of(names + late + asked, [3, 7]) == [[0, 0, 5], [1, 5, 4]], "one ends before the next begins, also where it was noticed late"


@pytest.mark.parametrize("ratios, smallest", [
    ([0.5, 0.96, 0.98, 1.1], 3.0),
    ([0.98, 0.5, 1.0, 1.0], 3.0),  # a larger one is not equal, so the first was equal by chance
    ([1.0, 1.0, 1.0, 1.0], 1.0),
    ([1.0, 1.0, 1.0, 0.5], None),
    ([], None)])
def test_throughputs_are_equal_from_the_smallest_computation_on_after_which_they_always_are(ratios, smallest):
    points = [{"ms": float(i), "ratios": [ratio] * 4} for i, ratio in enumerate(ratios, 1)]
    assert _setup.parity(points) == smallest


def test_what_the_pictures_show_is_as_busy_as_the_recording_and_of_one_step():
    runs = [[0, at, 10_000] for at in range(0, 100_000, 10_000)] + [[0, at, 5_000] for at in range(100_000, 400_000, 10_000)]  # first all busy, then half
    begin, whole = _plots.typical(runs, length=100_000)
    assert whole == pytest.approx(250 / 395) and _setup.busy(runs, begin, begin + 100_000) == pytest.approx(whole, abs=0.01)
    steps = [[0, "forward", 0, 40], [0, "update", 90, 5], [1, "forward", 1, 40], [1, "update", 98, 5], [1, "forward", 110, 40]]
    assert [_targets.of_next_step(steps, *run[:3]) for run in steps] == [False, False, False, False, True]


def test_results_in_short_say_the_verdict_and_the_losses(report):
    head, rows = _summary.table(report)
    assert all(re.fullmatch(r"|\d+\.\d\d \((met|MISSED|none)(, \d+ of \d+)?\)", cell) for row in rows for cell in row[1:]), rows
    said = "\n".join(_summary.sentences(report))
    assert "MISSED" in said and "in the worst" in said and "without a verdict" in said
