"""`pathways trace` while a program runs: what was asked, prepared, run and moved, on one clock."""

import json
import subprocess
import sys

from conftest import clean_environment

PROGRAM = """
import jax, jax.numpy as jnp, sys
devices = jax.devices()
f = jax.jit(lambda x: x * 2 + 1)
x = jax.device_put(jnp.arange(1024.0), devices[0])
f(x).block_until_ready()
print("ready", flush=True)
while sys.stdin.readable():
    y = jax.device_put(f(x), devices[-1])
    y.block_until_ready()
"""


def test_a_trace_shows_the_way_of_each_call(tmp_path):
    env = clean_environment(PATHWAYS_HOME=str(tmp_path), PATHWAYS_LOCAL="2x1x2")
    cli = [sys.executable, "-m", "pathways"]
    up = json.loads(subprocess.run([*cli, "up", "--json"], env=env, check=True, capture_output=True, text=True).stdout)
    try:
        script = tmp_path / "script.py"
        script.write_text(PROGRAM)
        program = subprocess.Popen([sys.executable, str(script)], env=dict(env, JAX_PLATFORMS="pathways", PATHWAYS_ADDRESS=up["address"]),
                                   stdout=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "ready\n"
        done = subprocess.run([*cli, "trace", "--seconds", "1", "--json", "-o", "trace.json"], env=env, cwd=tmp_path, capture_output=True, text=True)
        program.kill()
        program.wait()
    finally:
        subprocess.run([*cli, "down"], env=env, check=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert summary["events"] == len([e for e in events if e["ph"] in "iX"]) > 0
    assert summary["silent_hosts"] == []

    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert len(processes) == 3 and processes[1] == "controller"
    by_op = {}
    for e in events:
        if e["ph"] in "iX" and "op" in e.get("args", {}):
            by_op.setdefault(e["args"]["op"], {})[e["cat"]] = e
    whole = [op for op in by_op.values() if {"request", "prepare", "run"} <= op.keys()]
    assert whole, "no call was seen from its request to its run"
    for op in whole:  # one machine, one clock: causes come before effects
        assert op["request"]["ts"] <= op["prepare"]["ts"] <= op["run"]["ts"] + op["run"]["dur"]
    moves = [e for e in events if e["ph"] == "X" and e["cat"] == "transfer"]
    assert moves and all(e["args"]["bytes"] == 4096 for e in moves)


# Two clients that pass arrays between devices of two hosts, and a program of many nodes.
TWO_CLIENTS = """
import jax, jax.numpy as jnp, sys
import pathways as pw
first, second = (jax.sharding.SingleDeviceSharding(d) for d in (jax.devices()[0], jax.devices()[-1]))
a = jax.jit(lambda x: x * 2 + 1, in_shardings=first)
b = jax.jit(lambda x: x - 1, in_shardings=second)

@pw.program
def f(v):
    for _ in range(8):
        v = b(a(v))
    return v

x = jax.device_put(jnp.arange(1024.0), first)
f(x).block_until_ready()
print("ready", flush=True)
while True:
    y = x
    for _ in range(20):
        y = a(y)
    f(y).block_until_ready()
"""


def test_a_cluster_at_work_keeps_its_promises(tmp_path):
    env = clean_environment(PATHWAYS_HOME=str(tmp_path), PATHWAYS_LOCAL="2x1x2")
    cli = [sys.executable, "-m", "pathways"]
    up = json.loads(subprocess.run([*cli, "up", "--json"], env=env, check=True, capture_output=True, text=True).stdout)
    try:
        programs = [subprocess.Popen([sys.executable, "-c", TWO_CLIENTS], env=dict(env, PATHWAYS_ADDRESS=up["address"]), stdout=subprocess.PIPE, text=True)
                    for _ in range(2)]
        for program in programs:
            assert program.stdout.readline() == "ready\n"
        done = subprocess.run([*cli, "trace", "--seconds", "1", "--check", "--json", "-o", "trace.json"], env=env, cwd=tmp_path,
                              capture_output=True, text=True)
        for program in programs:
            program.kill()
            program.communicate()
    finally:
        subprocess.run([*cli, "down"], env=env, check=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    check = json.loads(done.stdout)["check"]
    assert check["ok"] and check["checked"]["devices"] >= 2 and check["checked"]["launches"] >= 100
    assert check["checked"]["dependencies"] >= 50 and check["checked"]["grants"] > 20
    again = subprocess.run([*cli, "check", "trace.json"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0 and "all in order" in again.stdout
    # The file says what it must: planted into a real one, a swap is found.
    trace = json.loads((tmp_path / "trace.json").read_text())
    grants = [e for e in trace["traceEvents"] if e.get("cat") == "grant" and e["pid"] == 1]
    ran = {e["args"]["gang"] for e in trace["traceEvents"] if e.get("cat") == "run" and e.get("args", {}).get("gang")}
    early, late = [g for g in grants if g["args"]["gang"] in ran][::len(ran) - 1][:2]
    early["args"]["gang"], late["args"]["gang"] = late["args"]["gang"], early["args"]["gang"]
    (tmp_path / "broken.json").write_text(json.dumps(trace))
    broken = subprocess.run([*cli, "check", "broken.json"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert broken.returncode == 1 and "VIOLATION" in broken.stdout


def test_nobody_there_is_said(tmp_path):
    done = subprocess.run([sys.executable, "-m", "pathways", "trace", "--address", "127.0.0.1:9", "-s", "0.1"], cwd=tmp_path,
                          env=clean_environment(PATHWAYS_HOME=str(tmp_path)), capture_output=True, text=True)
    assert done.returncode != 0 and "127.0.0.1:9" in done.stderr
