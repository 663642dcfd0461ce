"""Tests `pw.data`: compares input pipelines on the hosts with two processes of jax that read the same parts."""

import json
import subprocess
import sys

import pytest
from cli import free_ports
from conftest import PATIENCE, ROOT, clean_environment

SHAPES = ["2x1x2", "1x2x2"]

# Defines the data that both sides read, and the text form of each shard of a batch.
COMMON = """
import json, os, sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def make(part, parts):
    for batch in range(3):
        rows = np.arange(4, dtype=np.float32)[:, None] + 100 * part + 1000 * batch
        yield {"x": np.broadcast_to(rows, (4, 3)), "weight": np.full(4, part + batch, np.int32)}

def written(number, batch):
    return {f"{number} {name} {shard.index}": np.asarray(shard.data).tolist() for name, leaf in batch.items() for shard in leaf.addressable_shards}
"""

PROCESS = COMMON + """
number = int(sys.argv[1])
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)
jax.distributed.initialize(sys.argv[2], 2, number)
sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
seen = {}
for at, parts in enumerate(make(number, 2)):
    seen |= written(at, {name: jax.make_array_from_process_local_data(sharding, part) for name, part in parts.items()})
print(json.dumps(seen))
"""

OURS = COMMON + """
import pathways as pw
sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
seen = {}
for at, batch in enumerate(pw.data(make, sharding)):
    seen |= written(at, batch)
print(json.dumps(seen))
"""


def jax_reads(tmp_path):
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    env = {name: value for name, value in clean_environment().items() if name != "JAX_PLATFORMS"}
    both = [subprocess.Popen([sys.executable, script, str(number), address], env=env, stdout=subprocess.PIPE, text=True) for number in range(2)]
    seen = {}
    for process in both:
        seen |= json.loads(process.communicate(timeout=PATIENCE)[0])
    return seen


@pytest.mark.parametrize("shape", SHAPES)
def test_shards_are_those_of_two_processes_of_jax(run_script, tmp_path, shape):
    done = run_script(OURS, timeout=PATIENCE, PATHWAYS_LOCAL=shape)
    assert done.returncode == 0, done.stderr
    ours = json.loads(done.stdout)
    assert ours == jax_reads(tmp_path)
    assert len(ours) == 3 * 2 * 4, "three batches of two arrays on four devices"


def test_in_a_cluster_of_one_host_it_is_one_part(run_script):
    done = run_script(OURS, timeout=PATIENCE, PATHWAYS_LOCAL="1x1x2")  # the cluster is in the program's process
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["2 weight (slice(0, 2, None),)"] == [2, 2]


ONE_DEVICE = COMMON + """
import pathways as pw
where = jax.sharding.SingleDeviceSharding(jax.devices()[-1])
batch = next(pw.data(make, where))
assert {leaf.sharding.device_set == where.device_set for leaf in batch.values()} == {True}
assert np.asarray(batch["x"])[:, 0].tolist() == [0, 1, 2, 3], "the device's host is the only one, and so the first"
try:
    pw.data(make, "x")
except TypeError as error:
    print(error)
"""


def test_batches_of_one_device(run_script):
    done = run_script(ONE_DEVICE, timeout=PATIENCE, PATHWAYS_LOCAL="1x2x1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "pw.data: 'x' is neither a NamedSharding nor a SingleDeviceSharding\n"


WHERE = COMMON + """
import pathways as pw
def make(part, parts):
    while True:
        yield np.full(2, os.getpid(), np.int64)
jax.config.update("jax_enable_x64", True)
batches = pw.data(make, NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data")))
pids = set(np.asarray(next(batches)).tolist())
assert len(pids) == 2 and os.getpid() not in pids, pids
batches.close()
"""


def test_the_hosts_make_the_batches(run_script):
    done = run_script(WHERE, timeout=PATIENCE, PATHWAYS_LOCAL="1x2x1")
    assert done.returncode == 0, done.stderr


# The hosts' data end at different batches. The arguments choose the iterator and the first batch.
STATES = COMMON + """
import pickle
import pathways as pw

class Counts:
    def __init__(self, part, keeps):
        self.at, self.part, self.made = 0, part, 0
        if keeps:
            self.get_state = lambda: {"at": self.at, "of": "x" * 100 * (part + 1)}
            self.set_state = self.go_to
    def go_to(self, state):
        assert state["of"] == "x" * 100 * (self.part + 1), "each host has its own"
        self.at = state["at"]
    def __iter__(self):
        return self
    def __next__(self):
        if self.at == 5 + self.part:
            raise StopIteration
        self.at += 1
        self.made += 1
        return np.array([10 * self.part + self.at, self.made])

keeps = sys.argv[1:] == ["keeps"] or os.environ.get("KEEPS") == "1"
sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
def pipeline(**more):
    return pw.data(lambda part, parts: Counts(part, keeps), sharding, prefetch=3, **more)
def positions(batches):
    return [np.asarray(batch).reshape(-1, 2).tolist() for batch in batches]

first = pipeline()
whole = positions(first)
assert [[row[0] for row in batch] for batch in whole] == [[1, 11], [2, 12], [3, 13], [4, 14], [5, 15]], whole
assert list(first) == [], "it has ended"

again = pipeline()
for _ in range(2):
    next(again)
state = pickle.loads(pickle.dumps(again.state()))
assert state["batches"] == 2 and len(state["hosts"]) == 2 and all(bool(one) == keeps for one in state["hosts"]), state
assert positions(again) == whole[2:], "what was asked for ahead is still there"
rest = positions(pipeline(state=state))
assert [[row[0] for row in batch] for batch in rest] == [[3, 13], [4, 14], [5, 15]], rest
assert rest[0][0][1] == (1 if keeps else 3), "without states of its own, the batches before are made again"
print("fine")
"""


@pytest.mark.parametrize("keeps", ["0", "1"])
def test_it_goes_on_from_a_state(run_script, keeps):
    done = run_script(STATES, timeout=PATIENCE, PATHWAYS_LOCAL="2x1x1", KEEPS=keeps)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


GRAIN = COMMON + """
import grain
import pathways as pw

def read(part, parts):
    data = grain.MapDataset.range(64).shuffle(seed=3)[part::parts].map(lambda number: np.full(3, number, np.float32))
    return data.to_iter_dataset().batch(4, drop_remainder=True)

sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
here = [np.concatenate(parts) for parts in zip(*(read(part, 2) for part in range(2)))]
batches = pw.data(read, sharding)
for expected in here[:3]:
    np.testing.assert_array_equal(next(batches), expected)
state = batches.state()
assert all(state["hosts"]), "grain's iterators keep their own state"
for expected, batch in zip(here[3:], pw.data(read, sharding, state=state), strict=True):
    np.testing.assert_array_equal(batch, expected)
print("fine")
"""


def test_grain_reads_on_the_hosts_what_it_reads_here(run_script):
    """The program ends without closing its pipeline."""
    done = run_script(GRAIN, timeout=PATIENCE, PATHWAYS_LOCAL="1x2x2")
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
    assert done.stderr == ""


FAULTS = COMMON + """
import pathways as pw
sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))

def says(make, **more):
    try:
        list(pw.data(make, sharding, **more))
    except Exception as error:
        return str(error)

def breaks(part, parts):
    yield np.zeros(2)
    yield np.zeros(2)
    if part == 1:
        raise OSError("the disk of this host is gone")
    yield np.zeros(2)
    yield np.zeros(2)
text = says(breaks)
assert "the disk of this host is gone" in text and "host1" in text and "in breaks" in text, text

def shrinks(part, parts):
    yield np.zeros(2)
    yield np.zeros(1)
assert "leave out the incomplete batch" in says(shrinks)
assert "has no batch at all" in says(lambda part, parts: [])
assert "the state is of 3 hosts, and there are 2 now" in says(shrinks, state={"batches": 1, "hosts": [b""] * 3})
assert "is after 7 batches, and the iterator of this host has 2" in says(shrinks, state={"batches": 7, "hosts": [b""] * 2})
print("fine")
"""


def test_a_fault_of_an_iterator_names_its_host(run_script):
    done = run_script(FAULTS, timeout=PATIENCE, PATHWAYS_LOCAL="1x2x1")
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


LOST = COMMON + """
import signal
import pathways as pw

def make(part, parts):
    for number in range(5):
        yield np.array([number, os.getpid()])

sharding = NamedSharding(Mesh(np.array(jax.devices()), "data"), P("data"))
batches = pw.data(make, sharding, prefetch=0)
number, pid, _, other = np.asarray(next(batches)).tolist()
assert number == 0 and pid != other
os.kill(pid, signal.SIGKILL)
seen, expected = [], 1
while expected < 5:
    try:
        seen.append(np.asarray(next(batches)).tolist())
        assert seen[-1][0] == seen[-1][2] == expected, (seen, expected)
    except jax.errors.JaxRuntimeError as error:  # of the batch that was being made
        assert "signal 9" in str(error) and "of island 'island0'" in str(error), error
    expected += 1
assert list(batches) == [] and {row[3] for row in seen} == {other} and pid not in {row[1] for row in seen}, seen
print("fine")
"""


def test_it_goes_on_after_the_process_of_a_host_has_died(run_script):
    done = run_script(LOST, timeout=PATIENCE, PATHWAYS_LOCAL="1x2x1")
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


SLICE = COMMON + """
import pathways as pw
one = pw.make_virtual_device_set().add_slice(devices=4)
sharding = NamedSharding(Mesh(np.array(one.devices), "data"), P("data"))
seen = {}
for at, batch in enumerate(pw.data(make, sharding)):
    assert batch["x"].sharding.device_set == set(one.devices)
    seen |= written(at, batch)
print(json.dumps(seen))
"""


def test_on_a_slice_of_several_hosts_they_are_the_same(run_script, tmp_path):
    done = run_script(SLICE, timeout=PATIENCE, PATHWAYS_LOCAL="1x2x2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == jax_reads(tmp_path)


def test_the_example_trains_from_what_the_hosts_read(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "examples" / "input_pipeline.py"], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
                          env=clean_environment(PATHWAYS_LOCAL="1x2x2"))
    assert done.returncode == 0, done.stderr
    assert "every weight is 1.00" in done.stdout and "saved at 20" in done.stdout, done.stdout
