"""`pathways doctor` names real causes: a stopped host, a lost host, a full file system, few open files, a full compile cache, no controller."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess

import pytest

from cli import CommandLine
from conftest import eventually

from pathways._commands import machine_checks

GIB = 1 << 30


@pytest.fixture
def pathways(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    command_line = CommandLine(tmp_path / "home", PATHWAYS_COMPILE_CACHE=str(cache))
    yield command_line
    command_line("down", check=False)


def examine(pathways, *words, enter=lambda words: words, **options):
    """Runs the doctor; returns its exit status and the findings that are not OK, as {check: [finding, ...]}."""
    done = subprocess.run(enter([pathways.python, "-m", "pathways", "doctor", "--json", *words]), env=pathways.env, capture_output=True, text=True, timeout=60,
                          **options)
    report = json.loads(done.stdout)
    assert {"ok": 0, "warning": 1, "error": 2}[report["worst"]] == done.returncode, done.stderr
    found = {}
    for finding in report["findings"]:
        assert bool(finding["remedy"]) == (finding["level"] != "ok")
        if finding["level"] != "ok":
            found.setdefault(finding["check"], []).append(finding)
    return done.returncode, found


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: machine_checks.state(pid) == "T")  # a process that waits for a processor stops once it has one
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def pids(pathways):
    return {host["name"]: host["pid"] for host in pathways("status")["hosts"]}


def test_a_machine_without_a_cluster_is_looked_at(pathways):
    done = pathways("doctor", check=False)
    assert done.returncode in (0, 1), done.stdout  # the machine that runs the tests may have few files or little space
    assert "none is up" in done.stdout and "shared memory" in done.stdout


def test_a_cluster_that_is_well_has_no_errors(pathways):
    pathways("up", "--hosts", "2", "--devices", "1")
    done = pathways("doctor", check=False)
    assert done.returncode in (0, 1) and "error(s)" in done.stdout and done.stdout.count("error ") == 0, done.stdout
    for said in ("formed, 2 host(s)", "answers; up for", "answers; 0 command(s) in flight", "as this package"):
        assert said in done.stdout


def test_a_stopped_host_is_named_at_once_and_as_silent_later(pathways):
    pathways("up", "--hosts", "2", "--devices", "1")
    name, pid = max(pids(pathways).items())
    with stopped(pid):
        status, found = examine(pathways)
        assert status == 2 and f"{name} (pid {pid})" == found["processes"][0]["where"] and f"kill -CONT {pid}" in found["processes"][0]["remedy"]
        silent = eventually(lambda: [one for one in examine(pathways)[1].get("hosts", []) if "nothing heard" in one["text"]], seconds=60)
        assert silent and silent[0]["where"] == f"host {name}"
    assert eventually(lambda: not {"processes", "hosts"} & set(examine(pathways)[1]), seconds=60)


def test_a_host_whose_process_has_ended_is_named_with_its_log(pathways):
    pathways("up", "--hosts", "2", "--devices", "1")
    name, pid = max(pids(pathways).items())
    os.kill(pid, signal.SIGKILL)
    status, found = examine(pathways)
    assert status == 2 and "has ended" in found["processes"][0]["text"] and f"{name}.log" in found["processes"][0]["text"]


def test_a_cluster_that_has_ended_by_itself_is_an_error(pathways):
    started = pathways("up", "--devices", "1")
    for member in json.loads(pathlib.Path(started["logs"], "state.json").read_text())["members"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member["pid"], signal.SIGKILL)
    assert eventually(lambda: "cluster" in examine(pathways)[1])
    status, found = examine(pathways)
    assert status == 2 and "not running any more" in found["cluster"][0]["text"]


def test_a_controller_that_does_not_answer_is_an_error(pathways):
    status, found = examine(pathways, "--address", "127.0.0.1:9")
    assert status == 2 and found["controller"][0]["where"] == "127.0.0.1:9"


def test_a_cluster_that_waits_for_hosts_says_for_how_many(pathways):
    pathways("up", "--hosts", "3", "--no-workers")
    status, found = examine(pathways)
    assert status == 2 and "0 of 3 have joined" in found["cluster"][0]["text"]


def test_few_open_files_are_found(pathways):
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))  # noqa: E731
    status, found = examine(pathways, preexec_fn=few)
    assert status == 1 and "may open 256 files" in found["open files"][0]["text"]


def test_a_process_of_the_cluster_with_few_open_files_is_found(pathways):
    subprocess.run([pathways.python, "-m", "pathways", "up", "--devices", "1", "--json"], env=pathways.env, check=True, capture_output=True,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)))
    found = examine(pathways)[1]["open files"]
    assert any(one["where"].startswith("controller (pid") and "may open 300 files" in one["text"] for one in found)


def test_a_full_compile_cache_is_found(pathways):
    with open(os.path.join(pathways.env["PATHWAYS_COMPILE_CACHE"], "program"), "wb") as file:
        file.truncate(4 * GIB)  # takes no space
    status, found = examine(pathways)
    assert status >= 1 and "full" in found["compile cache"][0]["text"]


def own_mounts():
    """Returns whether this user may mount file systems in a separate namespace."""
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not own_mounts(), reason="this user may not mount file systems")
def test_a_full_disk_of_a_host_is_found_from_another_machine(pathways):
    """The mount is seen by the cluster's processes alone."""
    cache = pathways.env["PATHWAYS_COMPILE_CACHE"]
    script = 'mount -t tmpfs -o size=4m tmpfs "$0" && { cat /dev/zero >"$0/full" 2>/dev/null; exec "$@"; }'
    subprocess.run(["unshare", "-m", "sh", "-c", script, cache, pathways.python, "-m", "pathways", "up", "--devices", "1", "--json"], env=pathways.env, check=True,
                   capture_output=True, timeout=120)
    (host,) = pathways("status")["hosts"]
    found = eventually(lambda: [one for one in examine(pathways)[1].get("disk", []) if one["where"] == f"host {host['name']}"])
    assert found[0]["level"] == "error" and cache in found[0]["text"] and "0 B of 4.0 MiB" in found[0]["text"]


# Makes the clock of a process seven seconds fast.
FAST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t which, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == 0) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int failed = real(which, now);
  if (which == CLOCK_REALTIME) now->tv_sec += 7;
  return failed;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_clock_that_is_off_is_found(pathways, tmp_path):
    (tmp_path / "fast.c").write_text(FAST)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "fast.so", tmp_path / "fast.c", "-ldl"], check=True)
    started = pathways("up", "--no-workers", "--hosts", "1", "--tls", "off")
    worker = pathways.start("worker", "--join", started["workers_address"], "--devices", "1", log=tmp_path / "worker.log",
                            enter=lambda *words: ("env", f"LD_PRELOAD={tmp_path / 'fast.so'}", *words))
    try:
        assert eventually(lambda: pathways("status")["joined_hosts"] == 1)
        (found,) = examine(pathways)[1]["clocks"]
        assert found["level"] == "warning" and "ahead of the controller's" in found["text"] and "its clock is 7." in found["text"] or "6.9" in found["text"]
    finally:
        worker.terminate()
        worker.wait()


def test_certificates_are_looked_at(pathways):
    pathways("up", "--devices", "1", "--listen", "127.0.0.1:0")
    report = pathways("status")
    year = 365 * 86400
    assert 9 * year < report["certificates"]["authority"] < 11 * year and 6 * 86400 < report["certificates"]["controller"] < 8 * 86400
    assert 29 * 86400 < report["hosts"][0]["machine"]["certificate_seconds"] < 31 * 86400
    done = pathways("doctor", check=False)
    assert "the first to end is that of the controller" in done.stdout


@pytest.mark.skipif(not own_mounts(), reason="this user may not mount file systems")
@pytest.mark.parametrize("check, where", [("shared memory", "/dev/shm"), ("disk", "home")])
def test_a_full_file_system_is_found(pathways, check, where):
    folder = where if where.startswith("/") else pathways.env["PATHWAYS_HOME"]
    script = 'mkdir -p "$0" && mount -t tmpfs -o size=4m tmpfs "$0" && { cat /dev/zero >"$0/full" 2>/dev/null; shift 0; exec "$@"; }'
    status, found = examine(pathways, enter=lambda words: ["unshare", "-m", "sh", "-c", script, folder, *words])
    assert status == 2 and found[check][0]["where"] == folder and "0 B of 4.0 MiB free" in found[check][0]["text"]
