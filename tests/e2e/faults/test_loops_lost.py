"""Loops of programs end when a host of theirs is killed, and a loop without an end when its client is: the devices are free for the next. Until then
other clients get their turns."""

import subprocess
import sys

import pytest

from conftest import clean_environment
from pathways._cluster import local
from pathways._cluster.shape import Shape

LOOP = """
import os, signal, sys, threading
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw

devices = jax.devices()
first, second = (NamedSharding(Mesh(np.array(d), ("x",)), P("x")) for d in (devices[:2], devices[2:]))
here, there = (jax.jit(lambda x: x + 1, in_shardings=s, out_shardings=s) for s in (first, second))

@pw.program
def f(n, x):
    return pw.while_loop(lambda c: c[0] != n, lambda c: (c[0] + 1, here(there(c[1]))), (np.int32(0), x))

x = jax.device_put(np.zeros(4, np.float32), first)
np.testing.assert_array_equal(np.asarray(f(np.int32(20), x)[1]), np.full(4, 40, np.float32))
"""

KILL_HOST = LOOP + """
turns, y = f(np.int32(-1), x)  # as good as no end
kept = here(x)
np.testing.assert_array_equal(np.asarray(kept), np.ones(4))  # other work gets its turn
os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)
for value in (turns, y):
    try:
        jax.block_until_ready(value)
        print("NOT RAISED")
    except jax.errors.JaxRuntimeError as error:
        print("TEXT", str(error).splitlines()[0])
rest = first if os.environ["KEPT"] == "0" else second
np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x + 1, in_shardings=rest, out_shardings=rest)(np.ones(4))), np.full(4, 2.0))
print("FREE")
"""

ENDLESS = LOOP + """
result = f(np.int32(-1), x)
print("RUNS", flush=True)
{end}
"""


@pytest.fixture
def cluster(tmp_path):
    running = local.Cluster(Shape.parse("2x1x2"), tmp_path, heartbeat="1h", client_grace=0.5).start()
    yield running
    running.stop()


@pytest.mark.parametrize("victim", [0, 1], ids=["the one that decides", "another one"])
def test_a_host_of_the_loop_is_killed(run_script, cluster, victim):
    (pid,) = [process.pid for process in cluster.processes if process.name.endswith(f"host{victim}")]
    done = run_script(KILL_HOST, PATHWAYS_ADDRESS=cluster.address, VICTIM=str(pid), KEPT=str(1 - victim))
    assert done.returncode == 0, done.stderr
    texts = [line for line in done.stdout.splitlines() if line.startswith("TEXT")]
    assert len(texts) == 2 and "FREE" in done.stdout and "NOT RAISED" not in done.stdout, done.stdout + done.stderr
    assert any(f"island{victim}" in text for text in texts), texts


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()"], ids=["killed", "exits"])
def test_the_client_of_a_loop_without_an_end_goes(run_script, cluster, end):
    done = run_script(ENDLESS.format(end=end), PATHWAYS_ADDRESS=cluster.address)
    assert "RUNS" in done.stdout, done.stderr
    after = run_script(LOOP + "print('DONE')", PATHWAYS_ADDRESS=cluster.address)
    assert "DONE" in after.stdout, after.stderr


def test_a_loop_without_an_end_leaves_others_their_turns(run_script, cluster, tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS.format(end="sys.stdin.read()"))
    endless = subprocess.Popen([sys.executable, tmp_path / "endless.py"], env=clean_environment(PATHWAYS_ADDRESS=cluster.address), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        assert endless.stdout.readline() == "RUNS\n"
        other = run_script(LOOP + "for _ in range(100): x = here(x)\nnp.testing.assert_array_equal(np.asarray(x), np.full(4, 100, np.float32))\nprint('DONE')",
                           PATHWAYS_ADDRESS=cluster.address)
        assert "DONE" in other.stdout, other.stderr
        assert endless.poll() is None, "it runs on"
    finally:
        endless.kill()
        endless.wait()
