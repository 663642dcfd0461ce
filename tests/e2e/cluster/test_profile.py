"""Profiles: `pathways profile` and jax.profiler.trace write XSpaces of all hosts, which stock jax reads. Users see their own work alone."""

import json
import pathlib
import re
import signal
import subprocess
import sys

import jax.profiler
import pytest
from cli import User, operator_at
from conftest import PATIENCE, ROOT, clean_environment, eventually

XPROF_PYTHON = ROOT / "build" / "venv-xprof" / "bin" / "python"

PROGRAM = """
import jax, jax.numpy as jnp, sys
first, last = jax.devices()[0], jax.devices()[-1]

@jax.jit
def {name}(x):
    return x @ x + 1

x = jax.device_put(jnp.ones((64, 64)), first)
{name}(x).block_until_ready()
print("ready", flush=True)
while True:
    jax.device_put({name}(x), last).block_until_ready()
"""


def planes(path):
    """Returns {plane: {line: [event, ...]}} of a file, as stock jax reads it."""
    data = jax.profiler.ProfileData.from_file(str(path))
    return {plane.name: {line.name: [event.name for event in line.events] for line in plane.lines} for plane in data.planes}


def times(path):
    """Returns when the first event of a file begins and when the last one ends, in seconds."""
    events = [event for plane in jax.profiler.ProfileData.from_file(str(path)).planes for line in plane.lines for event in line.events]
    return min(event.start_ns for event in events) / 1e9, max(event.start_ns + event.duration_ns for event in events) / 1e9


def of_devices(found, host):
    """Returns the names of the computations on a host's devices."""
    return {event for plane, lines in found.items() if re.match(rf"/device:CUSTOM:{host} device \d+$", plane) for events in lines.values() for event in events}


def profile_of_two_hosts(command, tmp_path):
    """Returns the report of `pathways profile` while a program computes on a cluster of two hosts."""
    up = command("up", "--hosts", "2", "--devices", "2")
    program = command.program(up["address"], PROGRAM.format(name="mine"))
    try:
        assert program.stdout.readline() == "ready\n"
        return command("profile", "--seconds", "1", "--out", str(tmp_path / "out"))
    finally:
        program.kill()
        program.communicate()


def test_a_profile_has_a_file_for_each_host_beside_the_trace(command, tmp_path):
    report = profile_of_two_hosts(command, tmp_path)
    folder = pathlib.Path(report["path"])
    assert folder.parent == tmp_path / "out" / "plugins" / "profile"
    assert sorted(path.name for path in folder.iterdir()) == ["host0.xplane.pb", "host1.xplane.pb", "pathways_trace.json"]
    assert [host["missing"] for host in report["hosts"]] == ["", ""]
    assert json.loads((folder / "pathways_trace.json").read_text())["traceEvents"]
    first, second = (planes(folder / host["file"]) for host in report["hosts"])
    assert any("mine" in name for name in of_devices(first, "host0")), first.keys()
    assert first["/host:CPU"], "the device runtime's own events"
    for found in (first, second):  # the arrays go from the first host to the last
        (host,) = (lines for plane, lines in found.items() if re.match(r"/device:CUSTOM:host\d$", plane))
        assert host["transfers"]
    for host in report["hosts"]:
        begin, end = times(folder / host["file"])
        assert 0 <= begin < end < PATIENCE, "times count from the start of the recording, also those of the device runtime"


# Opens the files of a profile as XProf's own server does. Prints what it finds.
XPROF = """
import json, sys
from xprof.convert import raw_to_tool_data
paths = sys.argv[1:]
tools = raw_to_tool_data.xspace_to_tool_names(paths)
shown = {}
for path in paths:
    trace, kind = raw_to_tool_data.xspace_to_tool_data([path], "trace_viewer", {})
    shown[path] = sorted({str(event.get("name")) + " " + str(event.get("args", {}).get("name", "")) for event in json.loads(trace)["traceEvents"]})
print(json.dumps({"tools": tools, "shown": shown}))
"""


@pytest.mark.skipif(not XPROF_PYTHON.exists(), reason="xprof is not installed: 'make test-xprof' does that (200 MB)")
def test_xprof_opens_the_files_of_all_hosts(command, tmp_path):
    report = profile_of_two_hosts(command, tmp_path)
    paths = [str(pathlib.Path(report["path"]) / host["file"]) for host in report["hosts"]]
    done = subprocess.run([XPROF_PYTHON, "-c", XPROF, *paths], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"overview_page", "trace_viewer"} <= {tool.rstrip("@^") for tool in found["tools"]}
    first, second = (found["shown"][path] for path in paths)
    assert any("mine" in name for name in first) and any("/device:CUSTOM:host0 device 0" in name for name in first), first
    assert any("/device:CUSTOM:host1" in name for name in second), second


def _profile_in_background(command, folder):
    """Starts a long `pathways profile`, which SIGINT ends."""
    return subprocess.Popen([sys.executable, "-m", "pathways", "profile", "--seconds", "300"], env=command.env, cwd=folder, stderr=subprocess.PIPE, text=True,
                            # a shell starts background jobs with SIGINT ignored, and children inherit that
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_what_a_host_may_not_keep_is_missing_and_said(command, tmp_path):
    up = command("up", "--devices", "1")
    program = command.program(up["address"], PROGRAM.format(name="mine"))
    try:
        assert program.stdout.readline() == "ready\n"
        for words, text in ((["--limit", "0"], "--limit wants 1 to 1024 MiB"), (["--seconds", "600"], "--seconds wants")):
            done = command("profile", *words, check=False)
            assert done.returncode == 2 and text in done.stderr, done.stderr
        waiting = _profile_in_background(command, tmp_path)

        def is_refused():
            nonlocal waiting
            short = command("profile", "--seconds", "0.1", "--out", str(tmp_path / "b"), check=False)
            refused = "another trace or profile" in short.stderr
            assert refused or short.returncode == 0, short.stderr
            if waiting.poll() is not None:  # the short profile began first, and the long one was refused
                waiting.communicate()
                waiting = _profile_in_background(command, tmp_path)
            return refused

        busy, kept = eventually(is_refused), set((tmp_path / "b").rglob("*.pb"))
        assert busy and is_refused() and set((tmp_path / "b").rglob("*.pb")) == kept, "a profile that is refused writes nothing"
        waiting.send_signal(signal.SIGINT)
        waiting.communicate()
        assert eventually(lambda: command("profile", "--seconds", "0.1", "--out", str(tmp_path / "c"), check=False).returncode == 0), "it ends with its command"
    finally:
        program.kill()
        program.communicate()


JAX_PROFILE = """
import jax, jax.numpy as jnp, pathlib, sys

@jax.jit
def traced_here(x):
    return x @ x

with jax.profiler.trace(sys.argv[1]):
    traced_here(jax.device_put(jnp.ones((64, 64)), jax.devices()[0])).block_until_ready()
    jax.device_put(jnp.ones(8), jax.devices()[-1]).block_until_ready()
"""


@pytest.mark.parametrize("door, shape", [("ifrt", "2x1x2"), ("pjrt", "1x1x2"), ("ifrt", "1x1x2")])
def test_jax_s_own_profiler_has_the_hosts_by_both_doors(door, shape, tmp_path):
    done = subprocess.run([sys.executable, "-c", JAX_PROFILE, str(tmp_path / "out")], env=clean_environment(PATHWAYS_DOOR=door, PATHWAYS_LOCAL=shape),
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "the cluster's hosts" not in done.stderr, done.stderr
    (path,) = (tmp_path / "out").rglob("*.xplane.pb")
    assert path.parent.parent == tmp_path / "out" / "plugins" / "profile"
    found = planes(path)
    hosts = {plane.removeprefix("/device:CUSTOM:").split(" device ")[0] for plane in found if plane.startswith("/device:CUSTOM:")}
    assert len(hosts) == (2 if shape == "2x1x2" else 1), found.keys()
    assert any("traced_here" in name for host in hosts for name in of_devices(found, host)), found
    assert any(plane.startswith("/host:pjrt_cpu of ") for plane in found), "the own user's profile has the device runtime's events"
    assert found["/host:CPU"], "this process's own events"


def test_it_shows_own_work(tmp_path):
    """A user's profile shows this user's program alone. The short name keeps the paths of the cluster's sockets short."""
    with operator_at(tmp_path / "op") as operator:
        address = operator("up", "--devices", "2", "--listen-proxy", "none")["address"]
        users = []
        for name in ("ada", "bob"):
            operator("token", "create", "--user", name, "-o", str(tmp_path / f"{name}.token"))
            users.append(User(tmp_path / name))
            users[-1].login(address, tmp_path / f"{name}.token")
        ada, bob = users
        program = bob.program(address, PROGRAM.format(name="secret_of_bob"))
        try:
            assert program.stdout.readline() == "ready\n"
            done = subprocess.run([sys.executable, "-c", JAX_PROFILE, str(tmp_path / "out")], env=dict(ada.env, PATHWAYS_ADDRESS=address),
                                  capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stderr
            refused = ada("profile", "--address", address, "--seconds", "0.2", "--out", str(tmp_path / "hers"), check=False)
        finally:
            program.kill()
            program.communicate()
        (path,) = (tmp_path / "out").rglob("*.xplane.pb")
        assert any("traced_here" in name for name in of_devices(planes(path), "host0")), planes(path).keys()
        assert b"secret_of_bob" not in path.read_bytes()
        assert not any("pjrt_cpu" in plane for plane in planes(path))
        assert refused.returncode == 1 and "only an operator may record what all clients do" in refused.stderr, refused.stderr
        assert not [file for file in (tmp_path / "hers").rglob("*") if file.is_file()]
