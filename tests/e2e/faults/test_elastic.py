"""Tests `pw.elastic`: a training whose hosts are killed and return makes the same steps as undisturbed training."""

import pathlib
import re
import subprocess
import sys
import threading

import pytest
from cli import PATIENCE
from conftest import ROOT, clean_environment, eventually
from seats import Host, Program, hosts_of

EXAMPLE = pathlib.Path(ROOT) / "examples" / "elastic_train.py"
STEP = re.compile(r"STEP (\d+) LOSS ([\d.]+) ON (\d)")

# Makes a step for each line; prints its result, and the replicas that are present.
BY_HAND = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw

islands = {}
for device in jax.devices():
    islands.setdefault(device.slice_index, []).append(device)
mesh = Mesh(np.array([islands[i] for i in sorted(islands)]), ("replica", "data"))
state = {"large": jax.device_put(np.ones((512, 512), np.float32), NamedSharding(mesh, P("data"))),
         "sum": jax.device_put(np.float32(0), NamedSharding(mesh, P()))}

def step(state, batch):
    return {"large": state["large"] * 1, "sum": state["sum"] + batch.mean()}, state["sum"] + batch.mean() + state["large"].max() - 1

train = pw.elastic(step, state, poll_seconds=0.05)
for line in sys.stdin:
    want, result = line.strip(), train(np.full(12, train.steps + 1, np.float32))
    print(f"{train.steps} {float(result)} {list(train.replicas)}", flush=True)
assert float(train.state["large"].min()) == 1
train.close()
"""


@pytest.fixture
def cluster(command, tmp_path):
    """Starts three islands of one host each; two of the hosts can be killed."""
    up = command("up", "--devices", "2")
    hosts = {name: Host(command, up["address"], name, name, tmp_path) for name in "bc"}
    hosts_of(command, 3)
    yield up["address"], hosts
    for host in hosts.values():
        host.end()


class Training:
    """The example as a process; its lines are read in the background."""

    def __init__(self, command, address, *options):
        words = [sys.executable, str(EXAMPLE), "--steps", "100000", "--pause", "0.02", *options]
        self.process = subprocess.Popen(words, env=dict(command.env, PATHWAYS_ADDRESS=address), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.losses, self.replicas = {}, []  # by step; of each step
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if found := STEP.match(line):
                assert self.losses.setdefault(int(found[1]), found[2]) == found[2], "a step is made once"
                self.replicas.append(int(found[3]))

    def goes_on_with(self, replicas, steps=5):
        """Waits until the next `steps` steps are made with `replicas` replicas."""
        done = len(self.replicas)
        went = eventually(lambda: self.process.poll() is not None or self.replicas[done:].count(replicas) >= steps)
        assert went and self.process.poll() is None, (self.replicas[-20:], self.process.poll() and print(self.process.stderr.read()))

    def end(self):
        self.process.kill()
        self.process.communicate()
        return {step: float(loss) for step, loss in self.losses.items()}


@pytest.mark.parametrize("options", [(), ("--cut",)], ids=["each replica has the state", "no replica has all of it"])
def test_losses_are_those_of_an_undisturbed_training(command, cluster, options):
    address, hosts = cluster
    training = Training(command, address, *options)
    training.goes_on_with(3)
    for name in "bcb":
        hosts[name].kill()
        training.goes_on_with(2)
        hosts[name].start()
        training.goes_on_with(3)
    losses = training.end()
    undisturbed = subprocess.run([sys.executable, str(EXAMPLE), "--steps", str(len(losses)), "--pause", "0", *options], capture_output=True, text=True,
                                 env=clean_environment(PATHWAYS_LOCAL="3x1x2"), timeout=PATIENCE)
    assert undisturbed.returncode == 0, undisturbed.stderr
    expected = {int(found[1]): float(found[2]) for found in STEP.finditer(undisturbed.stdout)}
    assert losses.keys() == expected.keys()
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-5)


def moves(command):
    """Returns the number of commands to move arrays that each host has received."""
    return {name: host["commands"].get("move", 0) for name, host in hosts_of(command, len(command("status")["hosts"])).items()}


def test_the_state_of_those_that_stay_is_not_touched(command, cluster):
    address, hosts = cluster
    program = Program(command, address, BY_HAND)
    assert program.says("step") == "1 1.0 [0, 1, 2]"
    before = moves(command)
    hosts["c"].kill()
    hosts_of(command, 2)
    said = program.says("step")
    two = "[0, 1]" if said.endswith("[0, 1]") else "[0, 2]"  # the hosts joined in either order
    assert said == f"2 3.0 {two}"
    assert moves(command) == {name: before[name] for name in before if name != "c"}, "nothing has moved"
    hosts["c"].start()
    number, total = 2, 3
    while True:  # steps, until the replica is back
        number, total = number + 1, total + number + 1
        said = program.says("step")
        if said == f"{number} {float(total)} [0, 1, 2]":
            break
        assert said == f"{number} {float(total)} {two}"
    after = moves(command)
    gave = sorted(after[name] - before[name] for name in before if name != "c")
    assert gave == [0, 2], "one survivor gave the new one its state; which one follows the order of joining"
    assert after["c"] == 2, "as many moves as the state has arrays, directly from host to host"
    program.end()


def test_with_too_few_replicas_a_step_waits(command, cluster):
    address, hosts = cluster
    program = Program(command, address, BY_HAND.replace("poll_seconds", "min_replicas=3, poll_seconds"))
    assert program.says("step") == "1 1.0 [0, 1, 2]"
    hosts["b"].kill()
    hosts_of(command, 2)
    program.tell("step")
    hosts["b"].start()
    assert program.answer() == "2 3.0 [0, 1, 2]"
    program.end()


def test_an_error_of_the_step_itself_is_raised(command, cluster):
    address, _ = cluster
    failing = BY_HAND.replace("state[\"large\"].max() - 1", "jax.pure_callback(lambda: 1 // 0, jax.ShapeDtypeStruct((), np.float32))")
    program = command.program(address, failing)
    out, err = program.communicate("step\n", timeout=PATIENCE)
    assert program.returncode != 0 and "ZeroDivisionError" in err, out + err
