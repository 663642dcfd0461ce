"""Tests `pathways check`: a sound recording passes, and each planted violation is found under the name of its rule."""

import copy

import pytest

from pathways._commands import check_trace

CONTROLLER, HOST0, HOST1 = 1, 2, 3
SCHEDULER, CLIENT, DEVICE = 1, 2, 1


def instant(process, thread, kind, name, at, **args):
    return {"ph": "i", "pid": process, "tid": thread, "cat": kind, "name": name, "ts": at, "s": "t", "args": args}


def run(process, at, gang, op, needs=(), makes=()):
    return {"ph": "X", "pid": process, "tid": DEVICE, "cat": "run", "name": f"f{gang}", "ts": at, "dur": 5,
            "args": {"op": op, "gang": gang, "needs": list(needs), "makes": list(makes)}}


def name(process, thread, what, text):
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": text}}


def sound():
    """Returns a recording of two hosts without violations. Computations 1 and 3 run on both hosts. Computation 2 runs on the first, and reads the result
    of 1 there. Computation 3 still runs when the recording ends."""
    events = [name(CONTROLLER, 0, "process_name", "controller"), name(HOST0, 0, "process_name", "host h0"),
              name(HOST1, 0, "process_name", "host h1"), name(CONTROLLER, SCHEDULER, "thread_name", "scheduler"),
              name(CONTROLLER, CLIENT, "thread_name", "client 1"), name(HOST0, DEVICE, "thread_name", "device 0"),
              name(HOST1, DEVICE, "thread_name", "device 0")]
    for gang, ops, at in ((1, (11, 12), 0), (2, (21,), 1), (3, (31, 32), 2)):
        events += [instant(CONTROLLER, CLIENT, "request", f"f{gang}", at, op=op, gang=gang) for op in ops]
        events.append(instant(CONTROLLER, SCHEDULER, "grant", "granted", 10 + at, gang=gang))
    events += [run(HOST0, 20, 1, 11, needs=[100], makes=[101]), run(HOST1, 21, 1, 12, needs=[100], makes=[101]),
               run(HOST0, 30, 2, 21, needs=[101], makes=[102]), run(HOST0, 40, 3, 31), run(HOST1, 40, 3, 32)]
    events += [instant(CONTROLLER, SCHEDULER, "end", "done", 50, gang=1), instant(CONTROLLER, SCHEDULER, "end", "done", 51, gang=2),
               instant(CONTROLLER, SCHEDULER, "end", "under way", 60, gang=3)]
    return {"traceEvents": events, "otherData": {"events_not_recorded": 0, "clock_error_us": 0, "silent_hosts": []}}


def rules(trace):
    return {rule for rule, _ in check_trace.check(trace).findings}


def pick(trace, kind, gang, process=None):
    return [e for e in trace["traceEvents"] if e.get("cat") == kind and e["args"].get("gang") == gang and process in (None, e["pid"])]


def test_a_sound_recording_passes():
    report = check_trace.check(sound())
    assert not report.findings
    assert report.counts == {"devices": 2, "launches": 5, "grants": 3, "dependencies": 2}
    assert "all in order" in report.text()


def swap_launches(trace):
    (first,), (third,) = pick(trace, "run", 1, HOST1), pick(trace, "run", 3, HOST1)
    first["ts"], third["ts"] = third["ts"], first["ts"]


def launch_before_grant(trace):
    pick(trace, "run", 1, HOST0)[0]["ts"] = 5


def never_granted(trace):
    trace["traceEvents"].remove(pick(trace, "grant", 2)[0])


def granted_twice(trace):
    trace["traceEvents"].append(copy.deepcopy(pick(trace, "grant", 2)[0]))


def never_ended(trace):
    trace["traceEvents"].remove(pick(trace, "end", 1)[0])


def ended_twice(trace):
    trace["traceEvents"].append(copy.deepcopy(pick(trace, "end", 1)[0]))


def missed_a_host(trace):
    trace["traceEvents"].remove(pick(trace, "run", 1, HOST1)[0])


def consumer_first(trace):
    pick(trace, "run", 2)[0]["args"].update(makes=[100], needs=[])


def consumer_granted_first(trace):
    # On another host, where the order of one device does not show it.
    (reader,) = pick(trace, "run", 3, HOST1)
    reader["args"]["makes"] = [777]
    reader["ts"] = 25
    pick(trace, "run", 2)[0]["args"]["needs"] = [777]


@pytest.mark.parametrize("plant, rule", [
    (swap_launches, "order"), (launch_before_grant, "grant"), (never_granted, "grant"), (granted_twice, "grant"), (never_ended, "completion"),
    (ended_twice, "completion"), (missed_a_host, "completion"), (consumer_first, "producers"), (consumer_granted_first, "producers")])
def test_a_planted_violation_is_found(plant, rule):
    trace = sound()
    plant(trace)
    assert rules(trace) == {rule}
    assert "VIOLATION" in check_trace.check(trace).text()


def test_runs_may_be_recorded_long_after_they_ended():
    trace = sound()
    first, second, third = (pick(trace, "run", gang, HOST0)[0] for gang in (1, 2, 3))
    first["ts"] = second["ts"] = third["ts"] = 30  # equal begins: only the ends show the order
    del first["dur"], second["dur"]
    trace["traceEvents"].remove(third)
    trace["traceEvents"].insert(0, third)
    assert not check_trace.check(trace).findings
    third["dur"], second["dur"] = 4, 5
    assert rules(trace) == {"order"}


def test_what_is_not_in_the_recording_is_not_held_against_it():
    trace = sound()
    missed_a_host(trace)
    trace["otherData"]["silent_hosts"] = ["host h1"]
    assert not rules(trace)
    trace = sound()
    never_ended(trace)
    trace["otherData"]["events_not_recorded"] = 3
    report = check_trace.check(trace)
    assert not report.findings and "completion cannot be judged" in report.text()
    trace = sound()
    launch_before_grant(trace)
    trace["otherData"]["clock_error_us"] = 10
    assert not rules(trace)


def test_launches_of_a_lease_from_before_the_recording_are_left_out():
    trace = sound()
    last = pick(trace, "run", 3, HOST0)[0]
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("cat") != "grant" or e["args"]["gang"] != 1]
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("cat") != "end" or e["args"]["gang"] != 1]
    assert rules(trace) == set(), "gang 1, before all that were granted"
    last["args"]["gang"] = 9
    assert "grant" in rules(trace)


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    (tmp_path / "a").write_text("{")
    (tmp_path / "b").write_text('{"traceEvents": [{"ph": "i"}]}')
    for name in "ab":
        with pytest.raises(check_trace.NotATrace):
            check_trace.check_file(tmp_path / name)
