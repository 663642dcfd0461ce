"""The report of `make paper`, from results that a quick run left: its tables and its page. Nothing is measured."""

import html.parser
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORED = pathlib.Path(__file__).with_name("data") / "paper_report.json"
sys.path.insert(0, str(ROOT / "bench" / "paper"))
import _measure  # noqa: E402
import _paper  # noqa: E402
import _render  # noqa: E402
import _where  # noqa: E402


@pytest.fixture
def report():
    return json.loads(STORED.read_text())


class Page(html.parser.HTMLParser):
    """Headings, the number of cells of each row, images; fails where tags do not pair."""

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
    assert "2.3 ms" in text and "35 ms" in text  # the paper's
    assert "0.429 ms" in text and "simulated" in text
    assert "for the test" in text and "not measured" in text  # a cell that failed, and one that nobody tried


def test_the_page_has_tables_plots_the_paper_s_words_and_what_failed(report):
    page = Page(_render.page(report, {number: b"\x89PNG" for number in ("5", "9")}))
    assert [heading.split(":")[0] for heading in page.headings] == [
        "What was to be reached", "What was missed, and where the time goes", *map(_paper.name, _paper.FIGURES), "Not measured"]
    assert page.images == ["data:image/png;base64,iVBORw=="] * 2 and min(page.rows) > 1
    text = _render.page(report, {})
    assert "MISSED" in text and "Where the time goes: A step of a device" in text and "processors: wire (relay)" in text and "wire to the workers" in text
    assert "Figure 5: 512 x 4, simulated: no time left for it" in text and "the busiest of the processes" in text
    assert all(about["paper"].split("'")[0] in text for about in _paper.FIGURES.values())
    assert "Figure 7: CalledProcessError: for the test" in text and "A quick run" in text
    assert "<script" not in _render.page({**report, "failed": {"5": "<script>"}}, {})


@pytest.mark.parametrize("quick, load, count", [(False, 0.1, 0), (True, 0.1, 1), (False, 3.0, 1), (True, 3.0, 2)])
def test_figures_that_are_not_to_be_relied_on_say_so(report, quick, load, count):
    report |= {"quick": quick, "machine": {**report["machine"], "cores": 2, "load": load}}
    found = _render.warnings(report)
    assert len(found) == count and all(warning in _render.text(report) and warning in _render.page(report, {}) for warning in found)


def test_processors_that_others_took_are_told(report):
    report |= {"quick": False, "machine": {**report["machine"], "cores": 2, "load": 0.1}, "runs": {"5": {"stolen": 0.013}, "6": {"stolen": 0.17}, "7": {}}}
    (told,) = _render.warnings(report)
    assert "17% (Figure 6)" in told and "Figure 5" not in told and told in _render.text(report)


def test_clients_that_reach_less_together_are_explained_by_the_device_and_the_processors(report):
    figure = report["figures"]["8"]
    figure["simulated"]["330"]["4"] |= {"per_s": 2900.0, "of_one": 0.957, "device_busy": 0.957}
    (missed,) = [row for row in _where.missed(report) if "clients together" in row[1]]
    assert missed[2:5] == ["0.957", ">= 0.995", "4 clients, simulated device"]
    assert "4 clients: device busy 96 %, processors busy 0.78: worker 36 %, clients 32 %" in missed[5]



def test_losses_are_compared_to_the_last_bit(report):
    report["figures"]["10"] = {"stages": 4, "rows": {
        "one": {"tokens_per_s": 200.0, "losses": [(2.0).hex(), (1.5).hex()]},
        "same": {"tokens_per_s": 100.0, "losses": [(2.0).hex(), (1.5).hex()]},
        "other": {"tokens_per_s": 50.0, "losses": [(2.0).hex(), (1.5 * (1 + 2.0 ** -20)).hex()]},
        "broken": {"error": "RuntimeError: no"}}}
    head, rows = _render.tables(report)["10"]
    assert [row[2:] for row in rows] == [["1.000", "to the last bit"], ["0.500", "to the last bit"], ["0.250", "to 9.5e-07"], ["-", "-"]]
    assert rows[3][1] == "RuntimeError: no"


def test_where_a_step_over_islands_goes(report):
    spent = {"forward": 1.5, "backward": 3.0, "waiting": 0.01}
    rows = {name: {"tokens_per_s": 100.0, "step_s": 4.51, "spent_s": spent, "sent_bytes": sent, "processors_s": {"client": 0.1, "hosts": 0.25}}
            for name, sent in (("one island of 256 cores", 0), ("two islands of 128 cores", 29.8e6))}
    report["figures"] = {"islands": {"rows": rows}}
    text = _render.text(report)
    assert "1,500.0" in text and "29.8" in text and "Of this machine's processors" in text and "250" in text
    assert min(Page(_render.page(report, {})).rows) > 1
    rows["two islands of 128 cores"] = {"error": "RuntimeError: no"}
    assert "RuntimeError: no" in _render.text(report)


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
    for number in _render.PLOTS:
        assert (tmp_path / f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
    assert len(Page((tmp_path / "report.html").read_text()).images) == len(_render.PLOTS)
    text = (tmp_path / "report.txt").read_text()
    assert all(f"{_paper.name(number)}: " in text for number in _paper.FIGURES)


def test_what_the_device_ran_is_found_in_a_trace_by_who_asked_for_it():
    def event(category, process, thread, op, ts, dur=0):
        return {"cat": category, "pid": process, "tid": thread, "ts": ts, "dur": dur, "args": {"op": op}}

    names = [{"name": "thread_name", "pid": 1, "tid": i, "args": {"name": name}} for i, name in enumerate(["client 7", "client 3", "client 9"])]
    asked = [event("request", 1, 0, 50, 1), event("request", 1, 1, 51, 2), event("request", 1, 2, 52, 3), event("request", 1, 0, 53, 4)]
    end = 10 + _measure.SHOWN_US
    ran = [event("run", 2, 0, 50, 5, 4), event("run", 2, 0, 51, 10, 6), event("run", 2, 0, 52, 20, 1), event("run", 2, 0, 99, 30, 1), event("run", 2, 0, 53, end, 8)]
    # Client 9 is not of the comparison, 99 was asked for before the recording, 50 ran too long ago to be shown.
    assert _measure.runs_of(names + ran + asked, [3, 7]) == [[0, 0, 6], [1, _measure.SHOWN_US, 8]]
    assert _measure.runs_of(names + asked, [3, 7]) == []


@pytest.mark.parametrize("ratios, smallest", [
    ([0.5, 0.96, 0.98, 1.1], 3.0),
    ([0.98, 0.5, 1.0, 1.0], 3.0),  # equal once by chance is not yet equal
    ([1.0, 1.0, 1.0, 1.0], 1.0),
    ([1.0, 1.0, 1.0, 0.5], None),
    ([], None)])
def test_throughputs_are_equal_from_the_smallest_computation_on_after_which_they_always_are(ratios, smallest):
    points = [{"ms": float(i), "ratio": ratio} for i, ratio in enumerate(ratios, 1)]
    assert _measure.parity(points) == smallest
