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


def test_a_trace_shows_the_way_of_each_call(recorder):
    recorder.start("2x1x2", PROGRAM)
    asked = time.time()
    summary = recorder.record(1)
    events = recorder.events
    assert summary["events"] == len([e for e in events if e["ph"] in "iX"]) > 0
    assert summary["silent_hosts"] == []
    assert asked - 1 < recorder.trace["otherData"]["began_unix_us"] / 1e6 < time.time() + 1

    assert len(recorder.processes) == 3 and recorder.processes[1] == "controller"
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


def test_a_cluster_at_work_keeps_its_promises(recorder, command):
    recorder.start("2x1x2", TWO_CLIENTS, programs=2)
    for seconds in (1, 4, 16, 64):  # longer on a slow machine
        check = recorder.record(seconds, "--check")["check"]
        if check["checked"]["launches"] >= 200:
            break
    assert check["ok"] and check["checked"]["devices"] >= 2 and check["checked"]["launches"] >= 100
    assert check["checked"]["dependencies"] >= 50 and check["checked"]["grants"] > 20
    again = command("check", str(recorder.path), check=False)
    assert again.returncode == 0 and "all in order" in again.stdout
    # A swap planted into a real recording is found.
    trace = recorder.trace
    grants = [e for e in trace["traceEvents"] if e.get("cat") == "grant" and e["pid"] == 1]
    ran = {e["args"]["gang"] for e in trace["traceEvents"] if e.get("cat") == "run" and e.get("args", {}).get("gang")}
    early, late = [g for g in grants if g["args"]["gang"] in ran][::len(ran) - 1][:2]
    early["args"]["gang"], late["args"]["gang"] = late["args"]["gang"], early["args"]["gang"]
    recorder.path.write_text(json.dumps(trace))
    broken = command("check", str(recorder.path), check=False)
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


def test_two_decoders_run_at_the_same_time(recorder):
    def run_spans(seconds):
        recorder.record(seconds)
        events = [e for e in recorder.events if e.get("cat") == "run"]
        return {name: sorted((e["ts"], e["ts"] + e["dur"], e["pid"]) for e in events if e["name"] == f"jit_{name}")
                for name in ("encode", "decode_first", "decode_second")}

    recorder.start("3x1x1", DECODERS)
    for seconds in (1, 5, 25, 100):  # until the recording has some whole calls, even on a busy machine
        spans = run_spans(seconds)
        if min(map(len, spans.values())) >= 4:
            break
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


def test_a_trace_of_a_loop_shows_turns_without_the_controller(recorder):
    """Between two turns on the hosts the controller does nothing: its events are those of leases of many turns."""
    recorder.start("2x1x2", LOOP)
    recorder.record(1, "--check")
    events, tracks = recorder.events, recorder.tracks
    controller = [e for e in events if e["ph"] in "iX" and e["pid"] == 1]
    turns = [e["name"] for e in events if e["ph"] == "i" and e["pid"] != 1 and e["cat"] == "prepare" and tracks[e["pid"], e["tid"]] == "loops"]
    of_one_host = len(set(turns))
    assert of_one_host > 20, "the loop ran"
    assert len(turns) >= 2 * of_one_host - 64, "on both hosts"
    # A lease takes some milliseconds, even if that is one turn of a busy machine: two events each.
    assert len(controller) < max(of_one_host, 1500), f"{len(controller)} events of the controller for {of_one_host} turns"
    decisions = [e for e in events if e["ph"] == "i" and e["cat"] == "grant" and e["name"].endswith(" follows")]
    assert len({e["pid"] for e in decisions}) == 1, "one host decides"


CHOICE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import SingleDeviceSharding
import pathways as pw
first, last = SingleDeviceSharding(jax.devices()[0]), SingleDeviceSharding(jax.devices()[-1])

def predicate(x):  # takes a while
    return jax.lax.fori_loop(0, 200, lambda _, y: jnp.tanh(y @ y / 64) / 2 + x[0], jnp.ones((64, 64))).sum() > 0

score = jax.jit(predicate, in_shardings=first)
here, there = (jax.jit(lambda x: x + 1, in_shardings=s, out_shardings=s) for s in (first, last))
f = pw.program(lambda x: pw.cond(score(x), there, lambda x: there(here(x)), x))
inputs = [jax.device_put(np.full(4, v, np.float32), first) for v in (1, -1)]
for x in inputs: f(x).block_until_ready()
print("ready", flush=True)
while True:
    for x in inputs: f(x).block_until_ready()
"""


def test_a_trace_of_choices_shows_none_of_the_controllers_events_between_predicate_and_branch(recorder):
    recorder.start("2x1x2", CHOICE)
    for seconds in (1, 4, 16, 64):  # longer on a slow machine
        recorder.record(seconds, "--check")
        at = lambda event: recorder.tracks.get((event["pid"], event["tid"]))
        chosen = [e for e in recorder.events if e["ph"] == "i" and at(e) == "choices" and e["name"].endswith(" is chosen")]
        if len(chosen) >= 8:
            break
    assert len({e["pid"] for e in chosen}) == 1, "one host decides"
    assert {e["name"] for e in chosen} == {"branch 0 is chosen", "branch 1 is chosen"}
    begun = {}  # by gang: when each host begins its part of the branch
    for e in recorder.events:
        if e["ph"] == "i" and at(e) == "choices" and e["cat"] == "prepare":
            begun.setdefault(e["args"]["gang"], []).append(e["ts"])
    whole = [(e["ts"], max(begun[e["args"]["gang"]])) for e in chosen if len(begun.get(e["args"]["gang"], ())) == 2]
    assert len(whole) >= 6
    # The controller hears meanwhile that the predicate's computation has ended, and does nothing then.
    between = [e for e in recorder.events if e["ph"] in "iX" and e["pid"] == 1 and any(first < e["ts"] < last for first, last in whole)]
    assert {(e["cat"], e["name"]) for e in between} <= {("end", "done")}, between
