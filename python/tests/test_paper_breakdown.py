"""Tests parts of `make paper` on made-up recordings and reports: where the time goes, which targets were reached, and that a failure of one figure
spares the others. Nothing is measured."""

import contextlib
import json
import os
import pathlib
import statistics
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "paper"))
sys.path.insert(0, str(ROOT / "bench"))
import _answers  # noqa: E402
import _breakdown  # noqa: E402
import _paper  # noqa: E402
import _pipelines  # noqa: E402
import _provenance  # noqa: E402
import _render  # noqa: E402
import _rows  # noqa: E402
import _setup  # noqa: E402
import _sides  # noqa: E402
import _systems  # noqa: E402
import _tables  # noqa: E402
import _targets  # noqa: E402
import _where  # noqa: E402
import clients  # noqa: E402
import program_chain  # noqa: E402
import run as paper_run  # noqa: E402


def named(names):
    return [{"name": "process_name" if tid is None else "thread_name", "pid": pid, "tid": tid or 0, "args": {"name": name}} for (pid, tid), name in names.items()]


NAMES = named({(1, None): "controller", (1, 5): "scheduler", (2, None): "host0", (3, None): "host1", (2, 2): "device 0", (3, 2): "device 0"})


def call(op, gangs, at):
    """Returns the events of a call that runs these computations one after another, each about 100 us on both hosts."""
    events = [{"cat": "prepare", "pid": 2, "tid": 1, "ts": at + 30, "args": {"op": op}}, {"cat": "prepare", "pid": 3, "tid": 1, "ts": at + 35, "args": {"op": op}}]
    for place, gang in enumerate(gangs):
        then = at + 200 * place
        events += [{"cat": "request", "pid": 1, "tid": 1, "ts": at + place, "args": {"op": op, "gang": gang}},
                   {"cat": "grant", "name": "g", "pid": 1, "tid": 5, "ts": then + 10, "args": {"gang": gang}},
                   {"cat": "run", "name": "f", "pid": 2, "tid": 2, "ts": then + 40, "dur": 100, "args": {"gang": gang}},
                   {"cat": "run", "name": "f", "pid": 3, "tid": 2, "ts": then + 42, "dur": 103, "args": {"gang": gang}},
                   {"cat": "end", "name": "done", "pid": 1, "tid": 5, "ts": then + 160, "args": {"gang": gang}}]
    return events


def test_the_way_of_a_call():
    unfinished = [event for event in call(90, [9], 7) if event["cat"] != "end"]
    events = NAMES + call(10, [1], 0) + call(20, [2], 1000) + unfinished
    assert _breakdown.way(events, 400) == dict(zip(_breakdown.WAY, (240, 10, 25, 5, 105, 15)))
    assert _breakdown.way(NAMES + unfinished, 400) == {}


def test_the_way_of_a_call_of_several_computations():
    assert _breakdown.way(NAMES + call(10, [1, 2, 3], 0), 600) == dict(zip(_breakdown.WAY, (40, 10, 25, 5, 505, 15)))


def test_how_busy_devices_are():
    assert _breakdown.devices_busy(NAMES) is None
    # Within 305 us one device is busy for 2 x 100 us, the other for 2 x 103 us.
    assert _breakdown.devices_busy(NAMES + call(10, [1, 2], 0)) == pytest.approx(406 / (2 * 305))


def pipeline_events():
    """Returns a recording of three steps of two microbatches on two places, gpipe, in us: forward 10, backward 20, update 5."""
    names = {(1, None): "controller", (2, None): "host0", (2, 1): "device 0", (2, 2): "device 1", (2, 3): "device 0 (2)", (3, None): "host1", (3, 1): "device 0"}
    events = named(names)

    def run(pid, tid, ts, dur, name):
        events.append({"cat": "run", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name})

    for step in range(3):
        at = step * 200
        for m in range(2):
            for tid in (1, 2):  # both devices of the place run the same
                run(2, tid if m == 0 else tid + 2 if tid == 1 else tid, at + 10 * m, 11, "jit_stage0_forward")  # the end is noticed 1 us late
            run(3, 1, at + 10 + 10 * m, 10, "jit_stage1_forward")
            run(3, 1, at + 30 + 20 * m, 20, "jit_stage1_backward")
            run(2, 1, at + 50 + 20 * m, 20, "jit_stage0_backward")
        run(2, 1, at + 100, 5, "jit_stage0_optimizer")
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
    assert _breakdown.replica_steps([]) == {} and _breakdown.replica_runs([]) == []


def test_a_step_over_islands_is_drawn_from_a_device_of_each():
    events = named({(host, None): f"host{host}" for host in (2, 9, 10)} | {(host, 1): "device 0" for host in (2, 9, 10)})
    for host in (2, 9, 10):
        for step in range(3):
            for at, (name, took) in enumerate((("forward", 40), ("backward", 50), ("update", 5))):
                events.append({"cat": "run", "pid": host, "tid": 1, "ts": 100 * step + 30 * at * (at + 1) // 2 + host, "dur": took, "name": f"jit_segment0_{name}"})
    drawn = _breakdown.replica_runs(events)
    assert [run for run in drawn if run[0] == 0] == [[0, "forward", 0, 30], [0, "backward", 30, 50], [0, "update", 90, 5]]
    assert {place for place, *_ in drawn} == {0, 1} and [run[2] for run in drawn if run[0] == 1] == [8, 38, 98], "of host10, which comes after host9"


def test_calls_under_way_are_kept_and_waited_for_by_the_oldest():
    waited, made = [], []

    def call(value):
        made.append(value + 1)
        assert len(made) - max(waited, default=0) <= 8
        return value + 1

    timed = _answers.timed_calls(call, 0, 20, 8, waited.append)
    assert timed["per_s"] > 0 and timed["calling_us"] + timed["waiting_us"] == pytest.approx(1e6 / timed["per_s"])
    assert made == list(range(1, 21)) and waited == [4, 8, 12, 16, 20]


def rounds(*ratios):
    return {"per_s": ratios[0], "rounds": list(ratios)}


def test_a_verdict_needs_rounds_and_most_of_them():
    spread = _setup.Spread.of
    assert _setup.verdict(spread([1.0] * 3), 0.9).startswith("none: 3 round(s)"), "too few"
    assert _setup.verdict(spread([0.5, 1.0, 1.1, 1.2, 1.3]), 1.0) == "met"
    assert _setup.verdict(spread([0.5, 0.6, 0.7, 0.8, 1.3]), 1.0) == "MISSED"
    assert _setup.verdict(spread([0.8, 0.9, 1.0, 1.1, 1.2]), 1.0).startswith("none: within the spread")
    assert _setup.verdict(spread([0.98, 0.99, 1.0, 1.0, 1.0, 1.0, 1.0]), 1.0).startswith("none: within the spread"), "five of seven, although the middle half is 0.995 to 1"
    assert _setup.verdict(spread([0.5, 0.6, 0.7, 0.8, 1.3]), 1.0, at_most=True) == "met"
    assert _setup.verdict(spread([float("inf")] * 4), 2.3, at_most=True) == "MISSED", "parity that was not reached"


def test_the_bubble_in_closed_form_is_that_of_the_schedules():
    from pathways._pipeline import schedule

    for name in ("gpipe", "1f1b"):
        assert schedule.bubble(schedule.make(name, range(4), 16)) == pytest.approx(_setup.closed_form_idle(name, 4, 16)) == pytest.approx(3 / 19)
    several = schedule.make("interleaved", [0, 1, 2, 3] * 4, 16)
    assert schedule.bubble(several) == pytest.approx(_setup.closed_form_idle("interleaved", 4, 16, 4)) == pytest.approx(3 / 67)


def test_rivals_have_as_many_processes_as_the_row():
    assert _setup.TENSORFLOW in _setup.rivals(1) and _setup.TENSORFLOW not in _setup.rivals(2)
    for hosts in (1, 2):
        assert any(_setup.has_verdict(name) for name in _setup.rivals(hosts)), "one with the same device runtime at least"


def test_a_system_that_fails_at_one_kind_is_asked_for_the_others_anew(capsys):
    opened, asked = [], []

    class Fragile:
        def ask(self, do, **arguments):
            asked.append(arguments)
            if any(value.startswith("bad") for value in arguments.values()):
                raise RuntimeError("stuck\nits last words")
            return {"per_s": 1}

    @contextlib.contextmanager
    def start():
        opened.append(True)
        yield Fragile()

    def broken():
        raise OSError("not there")

    with contextlib.ExitStack() as stack:
        one, none = _systems.Guarded(stack, start), _systems.Guarded(stack, broken)
        for kind in ("kind", "model"):
            assert one.ask("rate", **{kind: f"bad {kind}"}) == {"error": "stuck its last words"} == one.ask("rate", **{kind: f"bad {kind}"})
            assert one.ask("rate", **{kind: "good"}) == {"per_s": 1}
            assert none.ask("rate", **{kind: "good"}) == {"error": "not there"}
    assert len(opened) == 3 and len(asked) == 4, "what has failed is not asked for again"


def test_a_side_at_its_target_meets_it_by_chance():
    assert [_setup.by_chance(rounds) for rounds in (4, 5, 7)] == [5 / 16, 6 / 32, 8 / 128]


def test_more_clients_than_one_that_leaves_devices_idle_prove_nothing():
    def verdict(share, ratio, jax=None):
        one, four = ({"per_s": rate, "of_device": share, "of_device_rounds": [share] * 5, "of_one_rounds": [of] * 5} for rate, of in ((10.0, 1.0), (10.0 * ratio, ratio)))
        row = {"1": one, "4": four} if jax is None else {name: {"per_s": each["per_s"], "of_one_rounds": each["of_one_rounds"]} for name, each in (("1", one), ("4", four))} | {"jax": {"per_s": jax}}
        kind = "simulated" if jax is None else "cpu"
        found = _targets.targets({"figures": {"8": {"rows": {kind: {kind: {"330": row}}}}}})
        return next(one.verdict for one in found if one.what.endswith("one client"))

    assert verdict(1.0, 1.0) == "met" and verdict(0.4, 1.2) == "none: one client reaches only 40 % of what the devices can do"
    assert verdict(0.4, 0.8) == "MISSED", "fewer results with more clients are a loss in any case"
    assert verdict(1.0, 1.0, jax=40.0) == "none: one client reaches only 25 % of what jax can do" and verdict(1.0, 1.0, jax=10.0) == "met"


def parity_at(**ratios):
    """Returns the points of a comparison, with the ratios at each length ("ms1" is 1 ms), and their parity."""
    points = [{"ms": float(name[2:]), "ratio": statistics.median(some), "low": min(some), "high": max(some), "rounds": len(some), "ratios": some} for name, some in ratios.items()]
    return {"points": points, "parity_ms": _setup.parity(points)}


SLOW, EQUAL, MIXED = [0.5] * 5, [1.0] * 5, [0.9, 0.9, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("found, reached, verdict", [
    (parity_at(ms1=EQUAL, ms3=EQUAL), "at most 1", "met"),
    (parity_at(ms1=SLOW, ms2=EQUAL, ms3=EQUAL), "between 1 and 2", "met"),
    (parity_at(ms1=SLOW, ms3=EQUAL), "between 1 and 3", "none: parity lies between 1 and 3 ms"),
    (parity_at(ms1=SLOW, ms3=SLOW, ms9=EQUAL), "between 3 and 9", "MISSED"),
    (parity_at(ms1=SLOW, ms3=MIXED, ms9=EQUAL), "between 3 and 9", "none: within the spread of the rounds"),
    (parity_at(ms1=SLOW, ms3=SLOW), "not in the range", "MISSED"),
    (parity_at(ms19=SLOW, ms30=EQUAL), "between 19 and 30", "MISSED"),  # equal from 2.3 ms on would be equal at 19 ms
    (parity_at(ms19=EQUAL, ms30=EQUAL), "at most 19", "none: equal from the shortest computation on that was measured, which takes 19 ms")])
def test_parity_is_missed_only_where_a_computation_says_so(found, reached, verdict):
    report = {"figures": {"6": {"rows": [{"name": "16 x 8", "hosts": 16, "devices": 128, "against": {_setup.MULTI_PLUGIN: found}}]}}}
    (target,) = _targets.targets(report)
    assert (target.reached, target.verdict) == (reached, verdict)


def test_a_parity_of_a_side_that_failed_is_a_failure_whatever_was_measured_before():
    found = {"error": "it aborted, at 30 ms", "points": [{"ms": 1.0, "ratio": 1.0, "low": 1.0, "high": 1.0, "rounds": 5}]}
    report = {"figures": {"6": {"rows": [{"name": "16 x 8", "hosts": 16, "devices": 128, "against": {_setup.MULTI_PLUGIN: found}}]}}}
    (target,) = _targets.targets(report)
    assert target.verdict == "FAILED: it aborted, at 30 ms" and target.reached == "-"
    assert "it aborted, at 30 ms; before: 1.00 (1.00 to 1.00) at 1.000 ms" in _render.tables(report)["6"][1][0]


def test_a_turn_has_several_times_as_many_calls_as_are_under_way():
    few = [(name, kind) for hosts in (1, 2) for name in (_setup.OURS, *_setup.rivals(hosts)) for kind in _setup.KINDS if _setup.fewest(name, kind, False) < _setup.LEAST]
    assert few and _setup.LEAST > 2 * _setup.DEPTH and not any(_setup.has_verdict(name) for name, _ in few)


def test_verdicts_are_met_missed_or_none():
    rates = {"pathways, opbyop": rounds(*[1200.0] * 4), "jax, our plugin, opbyop": rounds(*[1000.0] * 4), "jax, opbyop": rounds(*[1.0] * 4),
             "pathways, chained": rounds(*[2000.0] * 4), "ray, our plugin, opbyop": rounds(*[10.0] * 4), "jax, our plugin, fused": {"error": "stuck"},
             "pathways, fused": rounds(*[9.0] * 4)}
    step = lambda took, **more: {"step_rounds_s": [took] * 4, "rounds": [1 / took] * 4, "step_s": took, **more}
    rows = {"4 stages": step(2.0, planned_s=1.98), "16 stages, gpipe": step(2.0, planned_s=1.5), "16 stages, gpipe, on four islands": {"error": "no"}}
    slow = {"points": [{"ms": 3.0, "rounds": 9, "ratios": [0.5] * 9}], "parity_ms": None}
    never = {"points": [{"ms": 1.0, "rounds": 9, "ratios": [1.0] * 9}], "parity_ms": 40.0}
    six = [{"name": "16 x 8", "hosts": 16, "devices": 128, "against": {_setup.MULTI_PLUGIN: slow, _setup.MULTI: never}},
           {"name": "512 x 4, simulated", "hosts": 512, "devices": 2048, "against": {"never idle": {**never, "parity_ms": 9.0}}}]
    report = {"figures": {"5": {"rows": [{"name": "1 x 8", "hosts": 1, "devices": 8, "rates": rates}, {"name": "s", "hosts": 16, "devices": 64, "simulated": True, "rates": {}}]},
                          "6": {"rows": six}, "pipelines": {"rows": rows}}}
    found = {(one.what, one.where, one.limit): one for one in _targets.targets(report)}
    of = lambda *key: (found[key].reached, found[key].verdict)
    assert of("ours, opbyop / jax, our plugin, opbyop", "1 x 8", 1.0) == ("1.200 (1.200 to 1.200)", "met")
    assert of("ours, chained / jax, our plugin, opbyop", "1 x 8", 3.0)[1] == "MISSED" and of("ours, chained / jax, our plugin, opbyop", "1 x 8", 1.0)[1] == "met"
    assert of("ours, fused / jax, our plugin, fused", "1 x 8", 0.97) == ("-", "FAILED: jax, our plugin: stuck")
    assert of("ours, fused / ray, our plugin, fused", "1 x 8", 1.0) == ("-", "not measured")
    assert not [one for one in found.values() if one.rival == _setup.RAY and one.mine != _setup.OURS], "Ray has more processes than these sides of ours"
    assert {one.claim for one in found.values() if one.rival == _setup.RAY or one.number == "pipelines"} == {_targets.READING, _targets.OWN_AIM}
    assert of("equal from, ms of device time, against jax multi-controller, our plugin", "16 x 8", 2.3) == ("not in the range", "MISSED")
    assert of("equal from, ms of device time, against never idle", "512 x 4, simulated", 35.0)[1] == "met"
    assert of("schedule / step, 4 stages", "simulated devices", 0.95)[1] == "met"
    assert of("schedule / step, 16 stages, gpipe", "simulated devices", 0.95) == ("0.750 (0.750 to 0.750)", "MISSED")
    assert of("tokens/s, 16 stages, gpipe, on four islands / 16 stages, gpipe", "simulated devices", 0.97) == ("-", "FAILED: 16 stages, gpipe, on four islands: no")
    assert not [what for what, _, _ in found if "/ jax, opbyop" in what or what.endswith(_setup.MULTI)], "no verdict where the device runtime is another"


ENTRY = {"wall_us": 400.0, "calling_us": 90.0, "waiting_us": 310.0, "idle_us": 440.0, "devices_busy": 0.25}


def test_every_target_that_is_missed_says_where_the_time_goes():
    """Applies to all targets, including those added later."""
    same = lambda rate: {"per_s": rate, "rounds": [rate] * 5}
    kinds = tuple(_setup.KINDS)
    rates = {f"{mine}, {kind}": same(1.0) for mine in _setup.ours(1) for kind in kinds} | {f"{rival}, {kind}": same(1e6) for hosts in (1, 2) for rival in _setup.rivals(hosts) for kind in kinds}
    where = [{"who": "pathways", "kind": kind, **ENTRY, "processors_us": {"client": 120.0, "controller": 60.0, "workers": 1.0}, "alone_us": {"devices": 30.0, "wire back": 90.0}}
             for kind in kinds]
    where += [{"who": _setup.OURS_ONE, "kind": kind, **ENTRY, "processors_us": {"client": 50.0, _breakdown.ONE_PROCESS: 150.0}} for kind in kinds]
    where += [{"who": _setup.OURS_INSIDE, "kind": kind, **ENTRY, "processors_us": {_breakdown.INSIDE: 40.0}} for kind in kinds]
    where += [{"who": _setup.PLUGIN, "kind": "opbyop", **ENTRY, "wall_us": 7.0, "processors_us": {"client": 6.0}}]
    where += [{"who": "jax's client for Pathways, against a server that discards", "kind": "a call", "wall_us": 69.0, "processors_us": {"client": 72.0}}]
    five = [{"name": f"{hosts} x {devices}", "hosts": hosts, "devices": hosts * devices, "rates": rates, "where": where} for hosts, devices in ((1, 1), (1, 8), (2, 4))]
    late = {"points": [{"ms": 100.0, "rounds": 9, "ratios": [0.5] * 9}], "parity_ms": None}
    six = [{"name": name, "hosts": hosts, "devices": hosts * each, "against": {"somebody": late}, "where": where}
           for name, hosts, each in (("16 x 8", 16, 8), ("512 x 4, simulated", 512, 4))]
    seven = {"rows": {stages: {"ratio_rounds": [0.5] * 5, "parallel": {"call_ms": 2.0}, "sequential": {"call_ms": 1.0}} for stages in ("1", "16")}}
    processors = {f"{whose}_processors": 0.1 for whose in ("clients", "agents", "controller", "worker")}
    eight = {"rows": {"simulated": {"simulated": {"330": {"1": {"per_s": 1.0, "of_device_rounds": [0.1] * 5, "of_one_rounds": [0.1] * 5, **processors}}}}}}
    nine = {"mixes": {"1:1": {"weights": [1, 1], "done": [1, 3], "worst_rounds": [0.5] * 5, "devices": 32}}}
    trained = {"sides": {"pathways": {**same(1.0), "processors_s": {"client": 1.0}}, _setup.PLUGIN: same(2.0)}}
    step = {"planned_s": 1.0, "spent_s": {"forward": 0.5, "waiting": 1.5}, "processors_s": {"client": 0.1, "hosts": 0.3}}
    steps = lambda *names: {name: {**step, "step_s": place + 1.0, "step_rounds_s": [place + 1.0] * 4, "rounds": [1 / (place + 1.0)] * 4} for place, name in enumerate(names, 1)}
    islands = steps("one island of 256 cores, one SPMD jit", "one island of 256 cores, in segments", "two islands of 128 cores, in segments")
    alone = lambda *names: {"rows": {name: {**same(100.0 / place), "processors_s": {"client": 1.0}} for place, name in enumerate(names, 1)}}
    report = {"figures": {"5": {"rows": five}, "6": {"rows": six}, "7": seven, "8": eight, "9": nine, "table1": {"rows": {"small": trained}},
                          "table2": {"rows": {**alone("4", "8", "16")["rows"], _setup.ONE_JIT: {"sides": {_setup.OURS: {**same(150.0), "processors_s": {"client": 1.0}},
                                                                                                          _setup.PLUGIN: same(200.0)}}}}, "10": alone("one island", "four islands"),
                          "12": {"rows": {_setup.ONE_ISLAND: {"sides": {_setup.OURS: {**same(150.0), "processors_s": {"client": 1.0}}, _setup.MULTI_PLUGIN: same(200.0)}}, **alone("two islands", "no islands")["rows"]}},
                          "pipelines": {"rows": steps("SPMD", "4 stages, gpipe", "16 stages, gpipe", "16 stages, gpipe, on four islands")}, "islands": {"rows": islands}}}
    targets = [one for one in _targets.targets(report) if not one.none]
    assert set(_targets.FIGURES) == {one.number for one in targets} and all(one.verdict == _setup.MISSED for one in targets)
    missed = _where.missed(report)
    assert len(missed) == len(targets) and all(len(row) == len(_where.MISSED_HEAD) for row in missed)
    assert not [row for row in missed if _where.UNKNOWN in row[-1]]
    words = {(row[1], row[2]): row[-1] for row in missed}
    opbyop = words["ours, opbyop / jax, our plugin, opbyop", "1 x 8"]
    assert "181 us of processor time: client 66 %, controller 33 %" in opbyop and "jax, our plugin: a call every 7.0 us" in opbyop
    assert "client 25 %" in words["ours in one process, opbyop / jax, our plugin, opbyop", "1 x 8"]
    inside = words["ours by the PJRT door, opbyop / jax, our plugin, opbyop", "1 x 1"]
    assert "client with the cluster in it 100 %" in inside and "to a server that discards" not in inside, "that door has no proxy client"
    assert "to a server that discards" in words["ours in one process, opbyop / jax, our plugin, opbyop", "1 x 1"]
    assert "alone, a call of ours takes 120 us: the end noticed, and back to the controller 75 %, devices 25 %" in opbyop and "workers" not in opbyop, "what is next to nothing is left out"
    assert words["calls/s, parallel / sequential", "16 stages"] == "a call that is alone takes 2.00 ms in parallel, 1.00 ms in sequence; the reason is not known"
    assert words["tokens/s, 16 stages, gpipe / 4 stages, gpipe", "simulated devices"].count("waiting 75 %, forward 25 %") == 2
    del five[0]["where"]
    assert any(_where.UNKNOWN in row[-1] for row in _where.missed(report)), "what was not recorded is said, too"


def test_a_figure_that_fails_costs_no_other_and_can_be_had_later(arguments, monkeypatch):
    monkeypatch.setattr(paper_run, "NUMBERS", ("5", "6", "7"))
    asked = []

    def measure(number, quick, path, limit, known):
        asked.append(number)
        if number == "6" and len(asked) < 4:
            return None, "stuck"
        on_disk = arguments.out / "report.json"
        assert not on_disk.exists() or number not in json.loads(on_disk.read_text())["figures"] or arguments.figures
        return {"of": number, "turn": len(asked)}, None

    monkeypatch.setattr(paper_run, "in_own_process", measure)
    report = paper_run.measure(arguments)
    assert list(report["figures"]) == ["5", "7"] == list(report["runs"]) and report["failed"] == {"6": "stuck"}
    assert not paper_run.unfinished(report, "6"), "it failed, so it has been measured"
    assert json.loads((arguments.out / "report.json").read_text()) == report
    arguments.resume = True
    report = paper_run.measure(arguments)
    assert asked == ["5", "6", "7", "6"] and list(report["figures"]) == ["5", "6", "7"] and report["failed"] == {}
    assert [(one["figure"], one["failures"]) for one, _ in _provenance.attempts(report)] == [("6", {"all": "stuck"})], "the attempt that failed is not forgotten"
    arguments.resume, arguments.figures = False, ["7"]
    report = paper_run.measure(arguments)
    assert report["figures"]["7"]["turn"] == 5 and report["figures"]["5"]["turn"] == 1, "what is known of the others stays"
    assert len(report["attempts"]) == 5
    arguments.quick = True
    assert list(paper_run.measure(arguments)["figures"]) == ["7"], "but not what another kind of run knows"


def test_rows_that_a_figure_has_are_kept_and_a_later_run_measures_the_others_alone(arguments, monkeypatch, capsys):
    monkeypatch.setattr(paper_run, "NUMBERS", ("10", "12"))
    given = []

    def measure(number, quick, path, limit, known):
        given.append((number, known))
        rows = _rows.Rows(known=known, seconds=1000)
        rows.begin(stages=16)
        rows.row("one", lambda: {"turn": len(given)})
        rows.row("two", lambda: {"turn": len(given)}, needs=float("inf") if number == "12" and len(given) < 3 else 0)
        return rows.figure(), f"{paper_run.LATE} 5 s" if number == "10" and len(given) < 3 else None

    monkeypatch.setattr(paper_run, "in_own_process", measure)
    report = paper_run.measure(arguments)
    assert report["failed"] == {"10": f"{_rows.NO_TIME}: not done within 5 s"} and report["figures"]["10"]["rows"]["two"] == {"turn": 1}, "what it had by then"
    assert paper_run.say_what_is_missing(report, ("10", "12"))
    said = capsys.readouterr().out
    assert "Figure 12's ratio is not all there: two: no time left" in said and "RESUME=1" in said and 'FIGURES="10 12"' in said
    arguments.resume = True
    report = paper_run.measure(arguments)
    assert [number for number, _ in given] == ["10", "12", "10", "12"] and given[3][1]["rows"]["one"] == {"turn": 2}
    assert [one["failures"] for one in report["attempts"]] == [{}, {}, {}], "out of time is no failure"
    assert report["figures"]["12"] == {"stages": 16, "rows": {"one": {"turn": 2}, "two": {"turn": 4}}} and not paper_run.say_what_is_missing(report, ("10", "12"))
    again = paper_run.measure(arguments)
    assert {**again, "began": report["began"]} == report and _provenance.runs(again) == _provenance.runs(report), "nothing is left"
    assert len(given) == 4


def test_rows_are_written_down_one_by_one_and_errors_cost_only_their_row(tmp_path):
    path = tmp_path / "figure.partial"
    rows = _rows.Rows(path, seconds=1000)
    rows.begin(as_list=True, depth=16)
    rows.row("a", lambda: {"per_s": 1})
    assert json.loads(path.read_text()) == {"depth": 16, "rows": [{"name": "a", "per_s": 1}]}

    def fails():
        raise RuntimeError("it is stuck\nand more")

    assert rows.row("b", fails) == {"error": "RuntimeError: it is stuck"}
    assert _rows.NO_TIME in rows.row("c", fails, needs=2000)["error"]
    left = json.loads(path.read_text())
    assert _rows.missing(left).keys() == {"c"} and _rows.missing({"clients": {}}) == {}, "what failed has been measured"
    assert _rows.failures(left) == {"b": "RuntimeError: it is stuck"}
    again = _rows.Rows(path, left)
    again.begin(as_list=True, depth=16)
    assert [again.row(name, lambda: {"per_s": 2}).get("per_s") for name in "abc"] == [1, None, 2], "a failure of ours stays as one of a rival's does"


def test_failures_of_all_sides_are_listed():
    figure = {"rows": {"one": {"sides": {"ours": {"rounds": [1.0]}, "jax": {"error": "it aborted"}}}, "two": {"error": "no room"}, "three": {"error": f"{_rows.NO_TIME}: it needs 9 s"},
                       "CPU": {"cpu": {"20": {"1": {"per_s": 1.0}, "jax": {"error": "stuck"}}}}, "four": {"error": f"{_rows.NOT_ALL} (after 2 rounds)"}}}
    assert _rows.failures(figure) == {"one, jax": "it aborted", "two": "no room", "CPU, 20, jax": "stuck"}
    assert _rows.missing(figure).keys() == {"three", "four"} and _rows.failures(None) == {} == _rows.missing(None)


def test_the_rounds_before_a_failure_are_kept():
    rounds = [{"per_s": rate, "losses": [1]} for rate in (3.0, 1.0, 2.0)]
    assert _systems.in_rounds(rounds, "per_s") == {"per_s": 2.0, "rounds": [3.0, 1.0, 2.0], "losses": [1]}
    failed = [*rounds[:2], {"error": "it aborted"}, {"error": "it aborted"}]
    assert _systems.in_rounds(failed, "per_s") == {"error": "it aborted (after 2 rounds)", "rounds": [3.0, 1.0]}
    timed = [{"per_s": 1.0, "waiting_us": wait} for wait in (9.0, 1.0, 2.0)]
    assert _systems.in_rounds(timed, "per_s", "waiting_us") == {"per_s": 1.0, "waiting_us": 2.0, "rounds": [1.0] * 3}


class Turns(_pipelines.Row):
    """A row that makes up its steps, and fails in one of its turns."""

    def __init__(self, name, said, fails_at=None):
        self.name, self.said, self.fails_at = name, said, fails_at
        self.prepared, self._rounds, self._more = {"parameters": 3}, [], lambda row: {"planned_s": 0.5}

    def turn(self):
        self.said.append(self.name)
        if len(self._rounds) == self.fails_at:
            raise RuntimeError("it aborted")
        self._rounds.append({"tokens_per_s": 10.0 * (1 + len(self._rounds)), "step_s": 1.0, "asked_s": 0.1, "took_s": 3.0, "processors_s": {"client": 1.0}})
        return self._rounds[-1]


def test_rows_of_simulated_training_take_turns_and_keep_the_rounds_before_a_failure(tmp_path):
    path, said = tmp_path / "figure.partial", []
    rows = _rows.Rows(path, seconds=1000)
    rows.begin()
    makes = {"sound": lambda: Turns("sound", said), "aborts": lambda: Turns("aborts", said, fails_at=2), "absent": lambda: {}["no such cluster"]}
    _pipelines._in_turn(rows, makes, 4, needs=0)
    assert said == ["sound", "aborts"] * 3 + ["sound"]
    found = rows.figure()["rows"]
    assert found == json.loads(path.read_text())["rows"] and list(found) == ["sound", "aborts", "absent"]
    assert found["sound"]["rounds"] == [10.0, 20.0, 30.0, 40.0] and found["sound"]["planned_s"] == 0.5 and "error" not in found["sound"]
    assert found["aborts"]["error"] == "RuntimeError: it aborted (after 2 rounds)" and found["aborts"]["rounds"] == [10.0, 20.0] and "planned_s" not in found["aborts"]
    assert found["absent"]["error"] == "KeyError: 'no such cluster' (after 0 rounds)"


def test_every_second_round_has_the_turns_backwards():
    said = []
    results = _sides.take_turns(3, {name: lambda name=name: said.append(name) or len(said) for name in "abc"}, warm=False)
    assert "".join(said) == "abccbaabc" and results == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}
    said.clear()
    assert _sides.take_turns(1, {"a": lambda: said.append("a")}) == {"a": [None]} and said == ["a", "a"], "the first round warms up"


def test_several_clients_keep_the_rounds_of_their_rates():
    found = clients.summary([{"per_s": rate, "of_one": 1.0, "clients_processors": 0.5} for rate in (3.0, 1.0, 2.0)])
    assert found == {"per_s": 2.0, "of_one": 1.0, "clients_processors": 0.5, "per_s_rounds": [3.0, 1.0, 2.0], "of_one_rounds": [1.0] * 3, "clients_processors_rounds": [0.5] * 3}
    assert clients.summary([{"per_s": 3.0}, {"error": "stuck"}]) == {"error": "stuck (after 1 rounds)", "per_s_rounds": [3.0]}


def test_ratios_to_a_side_that_failed_are_left_out():
    turns = {"1": [{"per_s": 2.0}, {"per_s": 3.0}], "jax": [{"per_s": 4.0}, {"error": "stuck"}]}
    assert clients.in_turn({name: lambda one=iter(rows): next(one) for name, rows in turns.items()}, 2)["jax"] == [{"per_s": 4.0, "of_one": 2.0}, {"error": "stuck"}]
    clients._put_ratios(turns, "of_jax", "jax")
    assert "of_jax" not in turns["1"][0], "one round without it, and no ratio is of all rounds"


def test_stages_of_a_side_that_failed_keep_the_rounds_before():
    good = {"per_s": 2.0, "call_ms": 1.0}
    assert program_chain.rounds_of([good, good]) == {"per_s": 2.0, "call_ms": 1.0, "per_s_rounds": [2.0, 2.0], "call_ms_rounds": [1.0, 1.0]}
    assert program_chain.rounds_of([good, {"error": "it aborted"}]) == {"error": "it aborted (after 1 rounds)", "per_s_rounds": [2.0]}


def test_a_rival_that_fails_is_a_side_of_its_row(monkeypatch):
    answers = {"4": {"tokens_per_s": 9.0, "losses": []}, "one": {"tokens_per_s": 5.0, "losses": []}, "jax": {"error": "it aborted"}}
    monkeypatch.setattr(_tables, "_watched", lambda one, ask: ask())
    rows = _rows.Rows()
    rows.begin()
    of = lambda name: (None, lambda: answers[name])
    figure = _tables._in_turn({"4": of("4"), "jit": {"ours": of("one"), "jax": of("jax")}}, True, rows)
    assert figure["rows"]["4"]["rounds"] == [9.0] and figure["rows"]["jit"]["sides"]["ours"]["rounds"] == [5.0]
    assert figure["rows"]["jit"]["sides"]["jax"] == {"error": "it aborted (after 0 rounds)", "rounds": []} and not _rows.missing(figure)
    again = _rows.Rows(known=figure)
    again.begin()
    assert _tables._in_turn({"4": of("4"), "jit": {"ours": of("jax")}}, True, again) == figure, "known from an earlier run"


def test_rows_that_targets_compare_take_turns():
    assert sorted(sum(_pipelines.GROUPS, ())) == sorted([_pipelines.SPMD, *_pipelines.ROWS])
    rows = {name: {"rounds": [1.0] * 4} for name in sum(_pipelines.GROUPS, ())}
    found = _targets.targets({"figures": {"pipelines": {"rows": rows}}})
    assert len(found) == 3 and all(set(one.rows) <= set(_pipelines.GROUPS[0]) for one in found)
    assert [one.limit for one in found] == [1.064, 0.983, _setup.EQUAL], "the paper's own numbers, and equal"


def test_rows_that_take_turns_are_measured_anew_together():
    known = {"rows": {"a": {"rounds": [1.0]}, "b": {"rounds": [2.0]}}}
    rows = _rows.Rows(known=known)
    rows.begin()
    assert rows.together(["a", "b"]) and rows.figure() == known and _rows.kept(known, rows.figure())
    rows = _rows.Rows(known=known)
    rows.begin()
    assert not rows.together(["a", "b", "c"]) and rows.row("a", lambda: {"rounds": [3.0]}) == {"rounds": [3.0]}
    assert not _rows.kept(known, rows.figure())


def test_progress_says_how_long_it_has_taken_and_is_expected_to(monkeypatch):
    monkeypatch.setattr(paper_run, "SECONDS", {"5": 300, "6": 100})
    assert paper_run.progress(["5", "6"], 0, 0, 2400, False) == "1 of 2: Figure 5 ... (0 s so far, of about 400; about 300 s for this one, at most 2400 s)"
    assert paper_run.progress(["5", "6"], 1, 350, 2400, False) == "2 of 2: Figure 6 ... (350 s so far, of about 450; about 100 s for this one, at most 2400 s)"
    assert paper_run.progress(["5"], 0, 0, 2400, True) == "1 of 1: Figure 5 ... (0 s so far; at most 2400 s)"


def test_minutes_are_shared_out_over_what_is_left(arguments, monkeypatch):
    assert set(paper_run.SECONDS) == set(paper_run.NUMBERS)
    monkeypatch.setattr(paper_run, "SECONDS", {"5": 300, "6": 100})
    arguments.limit, arguments.minutes = 1000, 2
    assert paper_run.limit_of("5", ["5", "6"], arguments, 0) == 90
    assert paper_run.limit_of("6", ["6"], arguments, 50) == 70, "what one does not take is the others'"
    assert paper_run.limit_of("6", ["6"], arguments, 500) == 0
    arguments.minutes = None
    assert paper_run.limit_of("5", ["5", "6"], arguments, 0) == 1000


def test_what_a_figure_s_process_says_when_it_fails_or_is_not_done(tmp_path, monkeypatch):
    script = tmp_path / "figure.py"
    monkeypatch.setattr(paper_run, "__file__", str(script))
    monkeypatch.setattr(paper_run, "FAREWELL_SECONDS", 0)
    answer = "import json, sys; path = sys.argv[sys.argv.index('--result') + 1]; open(path, 'w').write(json.dumps({answer}))"
    partial = "import json, sys; path = sys.argv[sys.argv.index('--result') + 1].replace('.json', '.partial'); open(path, 'w').write(json.dumps({rows}))\n"
    run = lambda limit=240, known=None: paper_run.in_own_process("5", True, tmp_path / "answer.json", limit, known)
    script.write_text(answer.format(answer={"figure": {"rows": []}}))
    assert run() == ({"rows": []}, None) and not list(tmp_path.glob("answer*"))
    script.write_text(answer.format(answer={"failed": "OSError: no room"}))
    assert run() == (None, "OSError: no room")
    assert run(known={"rows": {"a": {}}}) == ({"rows": {"a": {}}}, "OSError: no room"), "what was known stays"
    script.write_text(partial.format(rows={"rows": {"a": {}}}) + "import os; os._exit(7)")
    figure, why = run()
    assert figure == {"rows": {"a": {}}} and "status 7" in why and not list(tmp_path.glob("answer*"))
    script.write_text(f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
                      f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\nchild.wait()")
    assert "not done within" in run(limit=5)[1]
    if (tmp_path / "child").exists():  # the script got that far
        child, deadline = (tmp_path / "child").read_text(), time.monotonic() + 240
        while child and _sides.tree(int(child)):  # it has been killed; on a busy machine it ends later
            assert time.monotonic() < deadline, "nothing of it is left"
            time.sleep(0.02)
