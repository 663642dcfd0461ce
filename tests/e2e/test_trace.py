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


def test_nobody_there_is_said(tmp_path):
    done = subprocess.run([sys.executable, "-m", "pathways", "trace", "--address", "127.0.0.1:9", "-s", "0.1"], cwd=tmp_path,
                          env=clean_environment(PATHWAYS_HOME=str(tmp_path)), capture_output=True, text=True)
    assert done.returncode != 0 and "127.0.0.1:9" in done.stderr
