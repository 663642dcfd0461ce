"""Where the time goes, from recordings; what was to be reached, from reports; and that one figure costs no other. Nothing is measured."""

import json
import pathlib
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "paper"))
sys.path.insert(0, str(ROOT / "bench"))
import _answers  # noqa: E402
import _breakdown  # noqa: E402
import _targets  # noqa: E402
import run as paper_run  # noqa: E402


def named(names):
    return [{"name": "process_name" if tid is None else "thread_name", "pid": pid, "tid": tid or 0, "args": {"name": name}} for (pid, tid), name in names.items()]


def test_the_way_of_a_computation_by_its_stations():
    names = named({(1, None): "controller", (1, 5): "scheduler", (2, None): "host0", (3, None): "host1"})

    def way(gang, op, at):
        return [{"cat": "request", "pid": 1, "tid": 1, "ts": at, "args": {"op": op, "gang": gang}},
                {"cat": "grant", "name": "g", "pid": 1, "tid": 5, "ts": at + 10, "args": {"gang": gang}},
                {"cat": "prepare", "pid": 2, "tid": 1, "ts": at + 30, "args": {"op": op}}, {"cat": "prepare", "pid": 3, "tid": 1, "ts": at + 35, "args": {"op": op}},
                {"cat": "run", "name": "f", "pid": 2, "tid": 2, "ts": at + 40, "dur": 100, "args": {"gang": gang}},
                {"cat": "run", "name": "f", "pid": 3, "tid": 2, "ts": at + 42, "dur": 103, "args": {"gang": gang}},
                {"cat": "end", "name": "done", "pid": 1, "tid": 5, "ts": at + 160, "args": {"gang": gang}}]

    unfinished = [event for event in way(9, 90, 7) if event["cat"] != "end"]
    events = names + way(1, 10, 0) + way(2, 20, 1000) + unfinished
    assert _breakdown.stations(events) == dict(zip(_breakdown.STATIONS, (10, 35, 5, 105, 15)))
    assert _breakdown.stations(names + unfinished) == {}


def pipeline_events():
    """Two places; two steps of two microbatches (and the beginning of a third), gpipe: forward 10, backward 20, an update of 5."""
    names = {(1, None): "controller", (2, None): "host0", (2, 1): "device 0", (2, 2): "device 1", (2, 3): "device 0 (2)", (3, None): "host1", (3, 1): "device 0"}
    events = named(names)

    def run(pid, tid, ts, dur, name):
        events.append({"cat": "run", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name})

    for step in range(3):
        at = step * 200
        for m in range(2):
            for tid in (1, 2):  # two devices do the same
                run(2, tid if m == 0 else tid + 2 if tid == 1 else tid, at + 10 * m, 11, "jit_stage0_forward")  # noticed 1 late
            run(3, 1, at + 10 + 10 * m, 10, "jit_stage1_forward")
            run(3, 1, at + 30 + 20 * m, 20, "jit_stage1_backward")
            run(2, 1, at + 50 + 20 * m, 20, "jit_stage0_backward")
        run(2, 1, at + 100, 5, "jit_update")
    return events


def test_a_step_of_a_pipeline_by_what_its_devices_did():
    by_place = _breakdown.pipeline_runs(pipeline_events(), 2)
    assert [len(many) for many in by_place] == [15, 12]
    assert by_place[0][0][1] == 10, "the end is before the next begin"
    assert _breakdown.step_of(by_place) == (200, 400)
    forward, backward = _breakdown.stage_seconds(by_place)
    assert backward == {0: pytest.approx(20e-6), 1: pytest.approx(20e-6)} and set(forward) == {0, 1}
    whole = _breakdown.pipeline_step(by_place, 200, 400, planned_s=90e-6)
    spent = whole["spent_s"]
    assert whole["traced_step_s"] == pytest.approx(200e-6) and sum(spent.values()) == pytest.approx(200e-6)
    assert spent["optimizer and the like"] == pytest.approx(2.5e-6)
    assert spent["waiting for the control path and transfers"] == pytest.approx(107.5e-6)
    assert [0, "other", 100, 5] in whole["runs"] and len(whole["runs"]) == 9
    assert _breakdown.step_of([[], []]) is None


def test_a_step_of_data_parallelism_by_what_a_device_did_and_waited_for():
    names = ["segment0_forward", "segment1_forward", "segment1_backward", "segment0_backward", "segment1_update", "segment0_update"]
    many, at = [], 0
    for step in range(3):
        for name, before, took in zip(names, (10, 0, 1, 2, 3, 40), (100, 100, 200, 200, 5, 6)):
            many.append((at + before, at + before + took, f"jit_{name}"))
            at += before + took
    spent = _breakdown.replica_step(many)
    assert spent == pytest.approx({"forward": 200e-6, "backward": 400e-6, "update": 11e-6, _breakdown.EXCHANGE: 43e-6, _breakdown.CONTROL: 13e-6})
    assert sum(spent.values()) == pytest.approx((many[12][0] - many[6][0]) / 1e6), "all of the step"
    assert _breakdown.replica_step(many[:6]) == {}
    assert _breakdown.replica_steps([]) == {}


def test_calls_under_way_are_kept_and_waited_for_by_the_oldest():
    waited, made = [], []

    def call(value):
        made.append(value + 1)
        assert len(made) - max(waited, default=0) <= 8
        return value + 1

    assert _answers.calls_per_second(call, 0, 20, 8, waited.append) > 0
    assert made == list(range(1, 21)) and waited == [4, 8, 12, 16, 20]


def test_targets_are_met_missed_or_not_measured():
    rates = {"pathways, opbyop": 900.0, "pathways, opbyop, deep queue": 1200.0, "jax in process, opbyop": 1000.0, "pathways, chained": 2000.0, "ray, opbyop": 10.0}
    rates = {name: {"per_s": rate} for name, rate in rates.items()} | {"jax in process, fused": {"error": "stuck"}}
    rows = {"4 stages": {"tokens_per_s": 100.0, "step_s": 2.0, "planned_s": 1.98}, "16 stages": {"tokens_per_s": 97.0, "step_s": 2.0, "planned_s": 1.5},
            "16 stages on four islands": {"error": "no"}}
    report = {"figures": {"5": {"rows": [{"hosts": 1, "devices": 8, "rates": rates}, {"hosts": 16, "devices": 64, "simulated": True, "rates": {}}]},
                          "6": {"controller": {"16x8": {"us": 100.0}, "512x4": {"us": 9000.0}}}, "pipelines": {"rows": rows}}}
    found = {(what, where): (value, met) for _, what, value, where, _, met in _targets.targets(report)}
    assert found["OpByOp, 8 devices of one host / JAX in process", "1 x 8"] == (1.2, True)
    assert found["Chained, 8 devices of one host / JAX in process OpByOp", "1 x 8"] == (2.0, False)
    assert found["Fused, 8 devices of one host / JAX in process", ""] == found["Fused, one device / JAX in process", ""] == (None, None)
    assert found["opbyop / Ray", "1 x 8"] == (90.0, True)
    assert found["parity from, ms, 16x8 simulated devices", "the controller alone"] == (0.1, True)
    assert found["parity from, ms, 512x4 simulated devices", "the controller alone"] == (9.0, False)
    assert found["16 stages / 4 stages", "simulated devices"] == (0.97, False)
    assert found["four islands / one", "simulated devices"] == (None, None)
    assert found["what the schedule allows / 4 stages", "simulated devices"] == (pytest.approx(0.99), True)


def alive(pid):
    try:
        return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def arguments(tmp_path):
    import argparse

    return argparse.Namespace(out=tmp_path, quick=False, figures=None, resume=False, limit=5)


def test_a_figure_that_fails_costs_no_other_and_can_be_had_later(arguments, monkeypatch, capsys):
    monkeypatch.setattr(paper_run, "NUMBERS", ("5", "6", "7"))
    asked = []

    def measure(number, quick, path, limit):
        asked.append(number)
        if number == "6" and len(asked) < 4:
            raise RuntimeError("stuck")
        on_disk = arguments.out / "report.json"
        assert not on_disk.exists() or number not in json.loads(on_disk.read_text())["figures"] or arguments.figures
        return {"of": number, "turn": len(asked)}

    monkeypatch.setattr(paper_run, "in_own_process", measure)
    report = paper_run.measure(arguments)
    assert list(report["figures"]) == ["5", "7"] and report["failed"] == {"6": "stuck"} and set(report["runs"]) == {"5", "6", "7"}
    assert json.loads((arguments.out / "report.json").read_text()) == report
    arguments.resume = True
    report = paper_run.measure(arguments)
    assert asked == ["5", "6", "7", "6"] and list(report["figures"]) == ["5", "6", "7"] and report["failed"] == {}
    arguments.resume, arguments.figures = False, ["7"]
    report = paper_run.measure(arguments)
    assert report["figures"]["7"]["turn"] == 5 and report["figures"]["5"]["turn"] == 1, "what is known of the others stays"
    arguments.quick = True
    assert list(paper_run.measure(arguments)["figures"]) == ["7"], "but not what another kind of run knows"


def test_what_a_figure_s_process_says_when_it_fails_or_is_not_done(tmp_path, monkeypatch):
    script = tmp_path / "figure.py"
    monkeypatch.setattr(paper_run, "__file__", str(script))
    answer = "import json, sys; path = sys.argv[sys.argv.index('--result') + 1]; open(path, 'w').write(json.dumps({answer}))"
    run = lambda limit=240: paper_run.in_own_process("5", True, tmp_path / "answer.json", limit)
    script.write_text(answer.format(answer={"figure": {"rows": []}}))
    assert run() == {"rows": []} and not (tmp_path / "answer.json").exists()
    script.write_text(answer.format(answer={"failed": "OSError: no room"}))
    with pytest.raises(RuntimeError, match="OSError: no room"):
        run()
    script.write_text("import os; os._exit(7)")
    with pytest.raises(RuntimeError, match="status 7"):
        run()
    script.write_text(f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
                      f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\nchild.wait()")
    with pytest.raises(RuntimeError, match="not done within"):
        run(limit=5)
    if (tmp_path / "child").exists():  # it had come so far
        child, deadline = (tmp_path / "child").read_text(), time.monotonic() + 240
        while child and alive(child):  # it has been killed, and ends when the machine comes to it
            assert time.monotonic() < deadline, "nothing of it is left"
            time.sleep(0.02)
