"""Tests Google's elastic manager and Orbax's Snapshotter, unchanged, with jax.devices(). A host is killed and returns; the losses are those of
undisturbed training from the last restored state."""

import re

import numpy as np
import pytest
from cli import PATIENCE
from seats import Host, hosts_of

pytest.importorskip("pathwaysutils.elastic.manager", reason="pathwaysutils is not installed")
pytest.importorskip("orbax.checkpoint.experimental.v1._src.training.pathways.snapshotter", reason="this Orbax has no Snapshotter")

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from orbax.checkpoint.experimental.v1._src.training.pathways.snapshotter import Snapshotter
from pathwaysutils.elastic import manager as m

manager, snapshotter = m.Manager(), Snapshotter()
story = []

def batch(step):
    x = np.random.default_rng(step).normal(size=(12, 4)).astype(np.float32)
    return x, x @ np.arange(4, dtype=np.float32)

@jax.jit
def update(w, x, y):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.05 * gradient, loss

@manager.RETRY
def train():
    slices = sorted(manager.active_slice_indices)
    mesh = Mesh(np.array([manager.slice_to_devices[i] for i in slices]), ("replica", "data"))
    held, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P(("replica", "data")))
    story.append(len(slices))
    if snapshotter.latest is None:
        w, first = jax.device_put(np.zeros(4, np.float32), held), 0
    else:
        w, first = snapshotter.load(jax.ShapeDtypeStruct((4,), np.float32, sharding=held)), snapshotter.latest.step
    print("RESTORED", first, "ON", len(slices), flush=True)
    for step in range(first, 1_000_000):
        if manager.available_inactive_slices:
            snapshotter.save(step, w)
            snapshotter.join()
            raise m.ScaleUpSignalError("a slice is back")
        w, loss = update(w, *(jax.device_put(part, cut) for part in batch(step)))
        print("LOSS", step, float(loss), flush=True)
        if (step + 1) % 4 == 0:
            snapshotter.save(step + 1, w)
        if story[-LIFE:] == STORY and step > first + 8:
            return

train()
snapshotter.join()  # its thread would die at the end of the process in the middle of jax's code
print("DONE", story, flush=True)
"""


def undisturbed(steps):
    """Returns the loss of each step."""
    w, losses = np.zeros(4), []
    for step in range(steps):
        x = np.random.default_rng(step).normal(size=(12, 4))
        error = x @ w - x @ np.arange(4)
        losses.append((error**2).mean())
        w = w - 0.05 * 2 * x.T @ error / len(x)
    return losses


@pytest.fixture
def hosts(command):
    hosts = {}
    yield hosts
    for host in hosts.values():
        host.end()


RETRY, PAUSE = "elastic_retry(minimum_slice_count=2, poll_interval=0.05)", "pause_resume(max_retries=9, poll_interval=0.05)"


@pytest.mark.parametrize("retry, story, hosts_of_c", [(RETRY, [3, 2, 3], 1), (RETRY, [3, 2, 3], 2), (PAUSE, [3, 3], 1)],
                         ids=["elastic_retry", "elastic_retry, an island of two hosts", "pause_resume"])
def test_training_goes_on_from_a_snapshot(command, hosts, tmp_path, retry, story, hosts_of_c):
    up = command("up", "--devices", "2")
    hosts["b"] = Host(command, up["address"], "b", "b", tmp_path)
    for name in ("d", "c")[-hosts_of_c:]:  # one of them is killed
        hosts[name] = Host(command, up["address"], name, "c", tmp_path, devices=2 // hosts_of_c)
    hosts_of(command, 1 + len(hosts))
    code = PROGRAM.replace("RETRY", retry).replace("STORY", str(story)).replace("LIFE", str(len(story)))
    program = command.program(up["address"], code)
    said, killed = [], False
    for line in program.stdout:
        said.append(line)
        if line.startswith("LOSS 10 ") and not killed:  # the line comes again after a restore
            hosts["c"].kill()
            killed = True
            if len(story) == 2:
                hosts["c"].start()
        if line.startswith("RESTORED") and line.endswith("ON 2\n"):
            hosts["c"].start()
    out, err = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0 and said[-1] == f"DONE {story}\n", "".join(said) + err
    restored = [int(found[1]) for found in map(re.compile(r"RESTORED (\d+)").match, said) if found]
    assert restored[0] == 0 and restored[1] in (4, 8), restored
    losses = [(int(found[1]), float(found[2])) for found in map(re.compile(r"LOSS (\d+) (\S+)").match, said) if found]
    expected = undisturbed(max(step for step, _ in losses) + 1)
    for step, loss in losses:
        assert loss == pytest.approx(expected[step], rel=1e-3, abs=1e-6), step
