"""`pathways trace` while a program runs records requests, preparation, runs and moves on one clock."""

import json
import subprocess
import sys
import time

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
        asked = time.time()
        done = subprocess.run([*cli, "trace", "--seconds", "1", "--json", "-o", "trace.json"], env=env, cwd=tmp_path, capture_output=True, text=True)
        program.kill()
        program.wait()
    finally:
        subprocess.run([*cli, "down"], env=env, check=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    recording = json.loads((tmp_path / "trace.json").read_text())
    events = recording["traceEvents"]
    assert summary["events"] == len([e for e in events if e["ph"] in "iX"]) > 0
    assert summary["silent_hosts"] == []
    assert asked - 1 < recording["otherData"]["began_unix_us"] / 1e6 < time.time() + 1

    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert len(processes) == 3 and processes[1] == "controller"
    by_op = {}
    for e in events:
        if e["ph"] in "iX" and "op" in e.get("args", {}):
            by_op.setdefault(e["args"]["op"], {})[e["cat"]] = e
    whole = [op for op in by_op.values() if {"request", "prepare", "run"} <= op.keys()]
    assert whole, "no call was seen from its request to its run"
    for op in whole:  # on one machine's clock, causes precede effects
        assert op["request"]["ts"] <= op["prepare"]["ts"] <= op["run"]["ts"] + op["run"]["dur"]
    moves = [e for e in events if e["ph"] == "X" and e["cat"] == "transfer"]
    assert moves and all(e["args"]["bytes"] == 4096 for e in moves)


# Run by two clients: moves arrays between devices of two hosts, and runs a program of many nodes.
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
        for seconds in (1, 4, 16, 64):  # longer on a slow machine
            done = subprocess.run([*cli, "trace", "--seconds", str(seconds), "--check", "--json", "-o", "trace.json"], env=env, cwd=tmp_path,
                                  capture_output=True, text=True)
            if done.returncode != 0 or json.loads(done.stdout)["check"]["checked"]["launches"] >= 200:
                break
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
    # A swap planted into a real recording is found.
    trace = json.loads((tmp_path / "trace.json").read_text())
    grants = [e for e in trace["traceEvents"] if e.get("cat") == "grant" and e["pid"] == 1]
    ran = {e["args"]["gang"] for e in trace["traceEvents"] if e.get("cat") == "run" and e.get("args", {}).get("gang")}
    early, late = [g for g in grants if g["args"]["gang"] in ran][::len(ran) - 1][:2]
    early["args"]["gang"], late["args"]["gang"] = late["args"]["gang"], early["args"]["gang"]
    (tmp_path / "broken.json").write_text(json.dumps(trace))
    broken = subprocess.run([*cli, "check", "broken.json"], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert broken.returncode == 1 and "VIOLATION" in broken.stdout


# Like examples/heterogeneous.py. Each decoder calls a function that returns once the other decoder has called it too, so both must run
# concurrently to end.
DECODERS = """
import threading
import jax, jax.numpy as jnp, numpy as np
import pathways as pw

slices = pw.make_virtual_device_set()
islands = list(dict.fromkeys(device.island for device in jax.devices()))
encoder, first, second = (slices.add_slice(devices=1, island=island) for island in islands)
both = threading.Barrier(2)
weights = np.eye(64, dtype=np.float32)

def on(slice, function):
    where = jax.sharding.SingleDeviceSharding(slice.devices[0])
    return jax.jit(function, in_shardings=where, out_shardings=where)

def decoder(x):
    x = jnp.tanh(x @ weights)
    return jnp.tanh(jax.pure_callback(lambda v: (both.wait(300), v)[1], jax.ShapeDtypeStruct(x.shape, x.dtype), x) @ weights)

def decode_first(x): return decoder(x)
def decode_second(x): return decoder(x)
def encode(x): return jnp.tanh(x @ weights)

encode, decode_first, decode_second = on(encoder, encode), on(first, decode_first), on(second, decode_second)

@pw.program
def forward(x):
    code = encode(x)
    return decode_first(code), decode_second(code)

x = np.ones((8, 64), np.float32)
jax.block_until_ready(forward(x))
print("ready", flush=True)
while True:
    jax.block_until_ready(forward(x))
"""


def test_two_decoders_run_at_the_same_time(tmp_path):
    env = clean_environment(PATHWAYS_HOME=str(tmp_path), PATHWAYS_LOCAL="3x1x1")
    cli = [sys.executable, "-m", "pathways"]
    up = json.loads(subprocess.run([*cli, "up", "--json"], env=env, check=True, capture_output=True, text=True).stdout)
    spans = {}

    def run_spans(seconds):
        subprocess.run([*cli, "trace", "--seconds", str(seconds), "-o", "trace.json"], env=env, cwd=tmp_path, check=True, capture_output=True)
        events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("cat") == "run"]
        return {name: sorted((e["ts"], e["ts"] + e["dur"], e["pid"]) for e in events if e["name"] == f"jit_{name}")
                for name in ("encode", "decode_first", "decode_second")}

    try:
        program = subprocess.Popen([sys.executable, "-c", DECODERS], env=dict(env, PATHWAYS_ADDRESS=up["address"]), stdout=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "ready\n"
        for seconds in (1, 5, 25, 100):  # until the recording has some whole calls, even on a busy machine
            spans = run_spans(seconds)
            if min(map(len, spans.values())) >= 4:
                break
        program.kill()
        program.communicate()
    finally:
        subprocess.run([*cli, "down"], env=env, check=True, capture_output=True)
    overlap = lambda a, b: a[0] < b[1] and b[0] < a[1]
    together = [(a, b) for a in spans["decode_first"] for b in spans["decode_second"] if overlap(a, b)]
    assert len({pid for one in spans.values() for _, _, pid in one}) == 3, "three hosts"
    # The first and the last call may be recorded in part.
    assert all(any(a == one for one, _ in together) for a in spans["decode_first"][1:-1])
    assert all(any(b == one for _, one in together) for b in spans["decode_second"][1:-1])
    assert len(together) >= 2


def test_nobody_there_is_said(tmp_path):
    done = subprocess.run([sys.executable, "-m", "pathways", "trace", "--address", "127.0.0.1:9", "-s", "0.1"], cwd=tmp_path,
                          env=clean_environment(PATHWAYS_HOME=str(tmp_path)), capture_output=True, text=True)
    assert done.returncode != 0 and "127.0.0.1:9" in done.stderr


LOOP = """
import jax, numpy as np, sys
from jax.sharding import SingleDeviceSharding
import pathways as pw
first, last = SingleDeviceSharding(jax.devices()[0]), SingleDeviceSharding(jax.devices()[-1])
here, there = (jax.jit(lambda x: x + 1, in_shardings=s, out_shardings=s) for s in (first, last))
f = pw.program(lambda n, x: pw.while_loop(lambda c: c[0] != n, lambda c: (c[0] + 1, here(there(c[1]))), (np.int32(0), x)))
x = jax.device_put(np.zeros(4, np.float32), first)
jax.block_until_ready(f(np.int32(200), x))
result = f(np.int32(-1), x)  # as good as no end
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_trace_of_a_loop_shows_turns_without_the_controller(tmp_path):
    """Between two turns on the hosts the controller does nothing: its events are those of leases of many turns."""
    env = clean_environment(PATHWAYS_HOME=str(tmp_path), PATHWAYS_LOCAL="2x1x2")
    cli = [sys.executable, "-m", "pathways"]
    up = json.loads(subprocess.run([*cli, "up", "--json"], env=env, check=True, capture_output=True, text=True).stdout)
    try:
        (tmp_path / "script.py").write_text(LOOP)
        program = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], env=dict(env, JAX_PLATFORMS="pathways", PATHWAYS_ADDRESS=up["address"]),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "ready\n"
        done = subprocess.run([*cli, "trace", "--seconds", "1", "--check", "-o", "trace.json"], env=env, cwd=tmp_path, capture_output=True, text=True)
        program.kill()
        program.wait()
    finally:
        subprocess.run([*cli, "down"], env=env, check=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    controller = [e for e in events if e["ph"] in "iX" and e["pid"] == 1]
    turns = [e["name"] for e in events if e["ph"] == "i" and e["pid"] != 1 and e["cat"] == "prepare" and tracks[e["pid"], e["tid"]] == "loops"]
    of_one_host = len(set(turns))
    assert of_one_host > 20, "the loop ran"
    assert len(turns) >= 2 * of_one_host - 64, "on both hosts"
    # A lease takes some milliseconds, even if that is one turn of a busy machine: two events each.
    assert len(controller) < max(of_one_host, 1500), f"{len(controller)} events of the controller for {of_one_host} turns"
    decisions = [e for e in events if e["ph"] == "i" and e["cat"] == "grant" and e["name"].endswith(" follows")]
    assert len({e["pid"] for e in decisions}) == 1, "one host decides"
