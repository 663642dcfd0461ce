"""Tests the parts of the command line that need no cluster."""

import json
import os
import sys

import pytest

from pathways import cli
from pathways._cluster import records
from pathways._commands import status_text
from pathways._launchers import join


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PATHWAYS_HOME", str(tmp_path))
    monkeypatch.delenv("PATHWAYS_ADDRESS", raising=False)
    return tmp_path


@pytest.mark.parametrize("command", ["up", "worker", "agent", "run", "status", "share", "drain", "trace", "bench", "down", "logs"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["status", "down", "logs"])
def test_without_a_cluster_the_answer_says_how_to_start_one(command, capsys):
    assert cli.main([command, "--json"]) == cli.EXIT_NOT_RUNNING
    out = capsys.readouterr()
    assert "pathways up" in json.loads(out.out)["error"]
    assert "pathways up" in out.err


@pytest.mark.parametrize("arguments", [["up", "--islands", "-1"], ["up", "--devices", "100000"], ["up", "--name", "../x"], ["run"], ["run", "--"]])
def test_bad_arguments_are_named(arguments, capsys):
    assert cli.main(arguments) == cli.EXIT_USAGE
    assert capsys.readouterr().err.startswith(f"pathways {arguments[0]}: ")


def test_a_missing_binary_is_named_with_the_remedy(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("pathways._cluster.binaries.PACKAGE", tmp_path)
    monkeypatch.delenv("PATHWAYS_BIN_DIR", raising=False)
    assert cli.main(["up"]) == cli.EXIT_FAILED
    assert "pathways-controller is missing" in capsys.readouterr().err


def test_run_passes_the_address_and_the_status(capfd):
    # If our package is installed, its start-up code in the program appends jax's cpu backend to ours.
    code = "import os; print(os.environ['PATHWAYS_ADDRESS'], os.environ['JAX_PLATFORMS'].removesuffix(',cpu')); raise SystemExit(7)"
    assert cli.main(["run", "--address", "host:1", "--", sys.executable, "-c", code]) == 7
    assert capfd.readouterr().out == "host:1 pathways\n"


def test_run_of_a_program_that_does_not_exist(capsys):
    assert cli.main(["run", "--address", "host:1", "--", "/no/such/program"]) == cli.EXIT_USAGE
    assert "/no/such/program" in capsys.readouterr().err


def test_a_process_is_known_by_pid_and_start_time():
    pid = os.getpid()
    assert records.Member("me", pid, records.start_time(pid), "log").alive()
    assert not records.Member("another", pid, records.start_time(pid) - 1, "log").alive()


def test_a_stale_state_is_not_running(home):
    folder = records.fresh_folder("default")
    records.State("default", "127.0.0.1:1", "1x1x1", "cpu", [records.Member("controller", os.getpid(), 1, "log")]).save()
    with pytest.raises(records.NotRunning, match=str(folder)):
        records.load("default")


def test_a_controller_that_has_ended_is_told_with_its_log(home, capsys, tmp_path):
    """Its address is one at which nobody listens; another process of the cluster still runs."""
    (tmp_path / "log").write_text("E it has failed 5 times\n")
    pid = os.getpid()
    members = [records.Member("controller", pid, 1, str(tmp_path / "log")), records.Member("host0", pid, records.start_time(pid), "")]
    records.fresh_folder("default")
    records.State("default", "127.0.0.1:1", "1x1x1", "cpu", members).save()
    assert cli.main(["status"]) == cli.EXIT_FAILED
    told = capsys.readouterr().err
    assert "The controller of cluster 'default' has ended" in told and "it has failed 5 times" in told
    assert cli.main(["status", "--address", "127.0.0.1:1"]) == cli.EXIT_FAILED
    assert "has ended. 'pathways down'" not in capsys.readouterr().err


def test_status_for_people_names_islands_hosts_and_clients():
    report = {"state": "formed", "uptime_seconds": 3.2, "islands": [{"id": 0, "name": "island0", "hosts": [0]}],
              "hosts": [{"id": 0, "name": "host0", "island": 0, "state": "up", "pid": 77}],
              "devices": [{"id": 0, "host": 0, "kind": "cpu", "memory": {"used_bytes": 2048, "limit_bytes": 1 << 30}},
                          {"id": 1, "host": 0, "kind": "cpu"}],
              "clients": [{"id": 3, "description": "jax at 127.0.0.1", "arrays": 2, "array_bytes": 100, "executables": 1, "seconds_connected": 9,
                   "weight": 2.5, "priority": -1, "device_seconds": 1.5, "completed": 70, "running": 2, "waiting": 40}]}
    text = status_text.render(report, "127.0.0.1:5")
    for part in ["1 island(s), 1 host(s), 2 device(s), 1 client(s)", "island0", "host0", "2 x cpu", "2.0 KiB of 1.0 GiB", "memory unknown",
                 "jax at 127.0.0.1", "2 arrays", "weight 2.5, priority -1; device time 1.50 s, 70 computations done, 2 running, 40 waiting"]:
        assert part in text


@pytest.mark.parametrize("asked, listens, joins", [
    ("head:8470", "tcp:0.0.0.0:41", "tcp:head:41"),          # every address of the controller's machine
    ("head:8470", "tcp:10.0.0.7:41", "tcp:10.0.0.7:41"),
    ("tcp:head:41", "tcp:0.0.0.0:41", "tcp:head:41"),
    ("127.0.0.1:8470", "unix:@abstract", "unix:@abstract")])
def test_a_worker_joins_where_it_reaches_the_controller(asked, listens, joins):
    assert join.workers_address(asked, {"workers_address": listens}) == joins


def test_a_worker_of_another_machine_is_told_what_the_controller_needs():
    with pytest.raises(ValueError, match="--listen HOST:PORT"):
        join.workers_address("head:8470", {"workers_address": "unix:/not/of/this/machine"})


def test_hosts_of_one_machine_get_names_of_their_own(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    report = {"hosts": [{"name": "box"}, {"name": "box-2"}]}
    assert join.host_name(None, {}) == "box" and join.host_name(None, report) == "box-3" and join.host_name("mine", report) == "mine"


def test_the_paper_is_measured_from_a_checkout(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", "paper"]) == cli.EXIT_USAGE
    assert "not in a checkout" in capsys.readouterr().err
    (tmp_path / "bench" / "paper").mkdir(parents=True)
    (tmp_path / "python" / "pathways").mkdir(parents=True)
    (tmp_path / "bench" / "paper" / "run.py").write_text("import sys; print(sys.argv[1:]); sys.exit(4)")
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    assert cli.main(["bench", "paper", "--quick", "--figures", "5", "7"]) == 4  # the benchmark's own status
