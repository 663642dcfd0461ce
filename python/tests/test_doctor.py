"""Tests the checks of `pathways doctor` on reports that a healthy machine cannot produce; tests/e2e/cluster/test_doctor.py has real causes."""

import collections
import os
import socket

import pytest

from pathways._commands import cluster_checks, doctor, findings, machine_checks
from pathways._commands.findings import ERROR, OK, WARNING, Finding

Usage = collections.namedtuple("Usage", "total used free")


def host(name="h0", state="up", ops=0, **more):
    return {"id": 1, "name": name, "state": state, "pid": 1, "seconds_since_heard": 5.0, "ops_in_flight": ops, "metrics": {},
            "health": {"seconds_since": 7.0, "memory_waits": 0}, **more}


def levels(found):
    return [finding.level for finding in found]


def test_every_finding_has_a_remedy_and_what_is_well_has_none():
    with pytest.raises(AssertionError):
        Finding(ERROR, "a", "b", "c")
    with pytest.raises(AssertionError):
        Finding(OK, "a", "b", "c", "needless")


def test_the_exit_status_is_that_of_the_worst():
    fine, bad, worse = Finding(OK, "a", "b", "c"), Finding(WARNING, "a", "b", "c", "d"), Finding(ERROR, "a", "b", "c", "d")
    assert [findings.exit_status(found) for found in ([], [fine], [fine, bad], [bad, worse, fine])] == [0, 0, 1, 2]


def test_the_table_shows_the_worst_first_with_its_remedy():
    text = findings.table([Finding(OK, "disk", "/", "fine"), Finding(ERROR, "hosts", "host h0", "silent", "look")]).splitlines()
    assert text[0].startswith("error ") and text[1].endswith("-> look") and text[2].startswith("ok ") and text[-1].startswith("1 error(s), 0 warning(s), 1 check")


@pytest.mark.parametrize("one, level, said", [
    (host(), OK, "answers"),
    (host(state="silent"), ERROR, "nothing heard from it for 5.0 s"),
    (host(state="away", seconds_away=2.0), ERROR, "its connection broke 2.0 s ago"),
    (host(state="busy"), ERROR, "has not for 7.0 s"),
    ({key: value for key, value in host().items() if key != "metrics"}, WARNING, "within half a second"),
    (host(health={"memory_waits": 3}), WARNING, "3 command(s) wait for device memory"),
])
def test_a_host_that_does_not_do_its_work_is_found(one, level, said):
    (found,) = cluster_checks.hosts({"hosts": [one]})
    assert found.level == level and said in found.text and "h0" in found.where


def test_a_host_that_lags_behind_the_others_is_found():
    others = [host(f"h{i}", ops=10) for i in range(1, 5)]
    assert levels(cluster_checks.hosts({"hosts": [host(ops=500), *others]})) == [WARNING, OK, OK, OK, OK]
    assert levels(cluster_checks.hosts({"hosts": [host(ops=60), *others]})) == [OK] * 5  # few commands are no lag
    assert levels(cluster_checks.hosts({"hosts": [host(ops=500)] * 3})) == [OK] * 3  # all have much to do


def test_a_cluster_without_hosts_is_found():
    assert levels(cluster_checks.formed({"state": "formed", "joined_hosts": 1, "hosts": [host()]})) == [OK]
    assert levels(cluster_checks.formed({"state": "formed", "joined_hosts": 0, "hosts": []})) == [ERROR]
    (forming,) = cluster_checks.formed({"state": "forming", "joined_hosts": 1, "expected_hosts": 4})
    assert forming.level == ERROR and "1 of 4" in forming.text


def test_another_release_is_found():
    assert levels(cluster_checks.versions({"version": "1"}, "1")) == [OK]
    assert levels(cluster_checks.versions({"version": "1"}, "2")) == [WARNING]


def test_memory_that_is_nearly_full_is_found():
    device = {"id": 3, "host": 1, "memory": {"used_bytes": 96, "limit_bytes": 100}}
    report = {"hosts": [host()], "devices": [device, {"id": 4, "host": 1}, {"id": 5, "host": 1, "memory": {"used_bytes": 9, "limit_bytes": 0}}]}
    (found,) = cluster_checks.memory(report)
    assert found.level == WARNING and found.where == "device 3 of host h0"
    device["memory"]["used_bytes"] = 50
    assert levels(cluster_checks.memory(report)) == [OK]


def test_slices_that_wait_or_are_broken_are_found():
    report = {"slices": [{"id": 1, "client": 2, "state": "broken"}, {"id": 2, "client": 2, "state": "placed"},
                         {"id": 3, "client": 2, "state": "waiting", "position": 1, "waits_for": "4 devices"}]}
    assert levels(cluster_checks.slices(report)) == [ERROR, WARNING]


def test_a_hang_is_an_error_that_names_program_and_hosts():
    hang = {"computation": 9, "client": 2, "program": "jit_step", "seconds": 31.0, "predicted_seconds": 0.2,
            "hosts": [{"name": "h0", "state": "launched, not finished"}, {"name": "h1", "state": "does not answer"}]}
    (found,) = cluster_checks.hangs({"hangs": [hang]})
    assert found.level == ERROR and "9 of client 2" in found.where
    for said in ("31.0 s", "0.2 s were predicted", "jit_step", "host h0: launched, not finished", "host h1: does not answer"):
        assert said in found.text
    hang["stacks"] = [{"host": "h0", "process": "the worker", "text": "  pw-executor 7:\n    Run  (pathways-worker)\n"},
                      {"host": "h0", "process": "the program of client 2", "text": "  MainThread at train.py:7 in <module>: loss.item()\n    File \"train.py\", line 7\n"}]
    text = cluster_checks.hangs({"hangs": [hang]})[0].text
    assert "the program of client 2: MainThread at train.py:7 in <module>: loss.item()" in text and "pw-executor" not in text and "File" not in text
    del hang["predicted_seconds"]
    assert "first run" in cluster_checks.hangs({"hangs": [hang]})[0].text
    assert levels(cluster_checks.hangs({})) == [OK]


@pytest.mark.parametrize("machine, check, level", [
    ({}, "machines", OK), ({"clock_ahead_seconds": 0.9}, "machines", OK), ({"clock_ahead_seconds": -7.5}, "clocks", WARNING), ({"release": "0"}, "versions", WARNING),
    ({"files_open": 75, "files_limit": 100}, "open files", WARNING), ({"files_open": 95, "files_limit": 100}, "open files", ERROR),
    ({"disk": "/home", "disk_free_bytes": 500 << 20, "disk_total_bytes": 9 << 30}, "disk", WARNING), ({"disk_free_bytes": 5 << 20, "disk_total_bytes": 9 << 30}, "disk", ERROR),
    ({"disk_free_bytes": 2 << 30, "disk_total_bytes": 100 << 30}, "disk", WARNING), ({"disk_free_bytes": 2 << 30, "disk_total_bytes": 9 << 30}, "machines", OK),
    ({"certificate_seconds": 86400.0 * 29}, "machines", OK), ({"certificate_seconds": 86400.0}, "certificates", WARNING), ({"certificate_seconds": -9.0}, "certificates", ERROR),
    ({"shared_memory_free_bytes": 100 << 20}, "shared memory", WARNING), ({"shared_memory_free_bytes": 0}, "shared memory", ERROR),
])
def test_what_is_wrong_with_a_hosts_machine_is_found(machine, check, level):
    well = {"release": "1", "clock_ahead_seconds": 0.0, "files_open": 10, "files_limit": 1000, "shared_memory_free_bytes": 1 << 30, "shared_memory_total_bytes": 1 << 31}
    (found,) = cluster_checks.machines({"version": "1", "hosts": [host(machine={**well, **machine})]})
    assert (found.check, found.level) == (check, level) and found.where == "host h0"


@pytest.mark.parametrize("certificates, level, where", [
    ({}, None, None), ({"authority": 86400.0 * 3650, "controller": 86400.0 * 6.5, "page": 86400.0 * 7}, OK, "controller"),
    ({"authority": 86400.0 * 80, "controller": 86400.0 * 7}, WARNING, "authority"), ({"authority": 1e9, "controller": 86400.0 * 2}, WARNING, "controller"),
    ({"authority": 1e9, "page": -1.0}, ERROR, "page"),
])
def test_a_certificate_that_is_about_to_end_is_found(certificates, level, where):
    found = cluster_checks.controller_machine({"certificates": certificates})
    assert [(one.check, one.level, one.where) for one in found] == ([] if level is None else [("certificates", level, where)])


def test_a_full_disk_of_the_controller_is_found():
    (found,) = cluster_checks.controller_machine({"machine": {"disk": "/home", "disk_free_bytes": 1, "disk_total_bytes": 100}})
    assert (found.check, found.level, found.where) == ("disk", ERROR, "controller") and "/home" in found.text


@pytest.mark.parametrize("free, total, level", [(900, 1000, OK), (90, 1000, WARNING), (150, 10000, WARNING), (9, 1000, ERROR)])
def test_little_space_is_found(monkeypatch, tmp_path, free, total, level):
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda path: Usage(total, total - free, free))
    assert levels(machine_checks.space("disk", "logs", tmp_path / "not" / "there", 100, "free some")) == [level]


def test_a_compile_cache_that_is_full_or_forbidden_is_found(tmp_path):
    assert levels(machine_checks.compile_cache(tmp_path / "none", 1000)) == [OK]
    assert levels(machine_checks.compile_cache(None, 1000)) == [OK]
    (tmp_path / "program").write_bytes(b"x" * 940)
    assert levels(machine_checks.compile_cache(tmp_path, 1000)) == [OK]
    (tmp_path / "more").write_bytes(b"x" * 20)
    assert levels(machine_checks.compile_cache(tmp_path, 1000)) == [WARNING]


def test_a_port_that_takes_no_connection_is_found():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp:127.0.0.1:{server.getsockname()[1]}"
        assert levels(machine_checks.port("it", address, "open it")) == [OK]
    assert levels(machine_checks.port("it", address, "open it")) == [ERROR]
    assert machine_checks.port("it", "unix:/tmp/x", "open it") == []


def test_a_process_is_not_taken_for_another_machines_worker():
    assert not machine_checks.is_worker_here(os.getpid(), "h0")
    assert not machine_checks.is_worker_here(1 << 30, "h0")


@pytest.mark.parametrize("listens, tried", [("tcp:0.0.0.0:8471", False), ("tcp:[::]:8471", False), ("tcp:127.0.0.1:1", True)])
def test_a_wildcard_address_is_not_tried(monkeypatch, listens, tried):
    monkeypatch.setattr(doctor.admin, "status", lambda *args, **kwargs: {"workers_address": listens, "hosts": []})
    monkeypatch.setattr(doctor.cluster_checks, "all_checks", lambda report, release: [])
    found = doctor._cluster("127.0.0.1:8470", None, "0.1.0")
    assert any("port for workers" in one.text + one.where for one in found) == tried
