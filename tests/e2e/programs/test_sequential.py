"""Runs programs dispatched node by node (`up --dispatch sequential`): programs that wait for values give the same results as in parallel."""

import subprocess
import sys

import pytest
from cli import PATIENCE, CommandLine
from conftest import PER_ISLAND, ROOT

ON_TWO_ISLANDS = """
import sys, jax, jax.numpy as jnp, numpy as np
from jax.sharding import SingleDeviceSharding as on
import pathways as pw

here, there = (on(device) for device in (jax.devices()[0], jax.devices()[-1]))
add = jax.jit(lambda x: x + 1, in_shardings=here, out_shardings=here)
triple = jax.jit(lambda x: x * 3, in_shardings=there, out_shardings=there)
total = jax.jit(lambda x: x.sum(), in_shardings=here, out_shardings=here)
shape = jax.ShapeDtypeStruct((4,), np.float32)
X = np.arange(4, dtype=np.float32)
"""
AGAIN_AND_AGAIN = ON_TWO_ISLANDS + """
@pw.program
def turn(x):
    y = jax.pure_callback(lambda v: v + 1, shape, x)
    return pw.cond(total(y) > 100, lambda v: v / 10, lambda v: add(triple(v)), y), triple(x)

@pw.program
def plain(x):
    return triple(add(x))

ours = theirs = X
for _ in range(12):
    (ours, side), (theirs, other) = turn(ours), turn.__wrapped__(theirs)
    after = plain(side)  # of what is not there yet
    np.testing.assert_allclose(np.asarray(after), (np.asarray(other) + 1) * 3, rtol=1e-6)
np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
print("same")
"""
ON_HOSTS = ON_TWO_ISLANDS + """
from jax.experimental import colocated_python
double = colocated_python.colocated_python(lambda x: x * 2).specialize(out_specs_fn=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding))
def explode(x):
    raise KeyError("on purpose")
explode = colocated_python.colocated_python(explode).specialize(out_specs_fn=lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding))

@pw.program
def turn(x):
    y = double(add(x))
    return pw.cond(total(y) > 30, lambda v: add(double(v)), add, y), triple(double(triple(y)))

ours = X
for _ in range(4):
    y = 2 * (ours + 1)
    expected, beside = (2 * y + 1 if y.sum() > 30 else y + 1) / 10, 18 * y
    first, second = turn(ours)
    np.testing.assert_allclose(np.asarray(second), beside, rtol=1e-6)
    ours = np.asarray(first) / 10
    np.testing.assert_allclose(ours, expected, rtol=1e-6)

failed, fine = pw.program(lambda x: (add(explode(add(x))), triple(x)))(X)
np.testing.assert_array_equal(np.asarray(fine), 3 * X)
try:
    np.asarray(failed)
except jax.errors.JaxRuntimeError as error:
    assert "KeyError: 'on purpose'" in str(error) and "explode on the hosts of device 0" in str(error), error
    print("same")
"""
STUCK = ON_TWO_ISLANDS + """
import threading
def never(x):
    print("inside", flush=True)
    threading.Event().wait()

@pw.program
def f(x):
    return triple(jax.pure_callback(never, shape, add(x)))

big = jax.device_put(np.zeros(1 << 16, np.float32), jax.devices()[-1])
f(X)[0].block_until_ready()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    command = CommandLine(tmp_path_factory.mktemp("home"))
    up = command("up", "--islands", "2", "--hosts", "1", "--devices", str(PER_ISLAND), "--dispatch", "sequential", "--host-python", sys.executable)
    yield command, up["address"]
    command("down")


def test_programs_that_wait_for_values(cluster):
    """Runs their tests, except those that count messages or test that something does not wait, beside other clients."""
    command, address = cluster
    others = [command.program(address, AGAIN_AND_AGAIN) for _ in range(2)]
    tests = [str(ROOT / "tests/e2e/programs/test_program_values.py"), "-k", "not does_not_wait and not only_the_chosen_branch_is_sent"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], env={**command.env, "TEST_ON_CLUSTER": address},
                          capture_output=True, text=True, timeout=2 * PATIENCE, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for other in others:
        out, errors = other.communicate(timeout=PATIENCE)
        assert out == "same\n", errors


def test_programs_that_call_functions_on_hosts(cluster):
    command, address = cluster
    assert command.run(address, ON_HOSTS) == "same\n"


def test_a_client_that_is_killed_in_the_middle_leaves_nothing_behind(cluster):
    command, address = cluster
    client = command.program(address, STUCK)
    line = client.stdout.readline()
    if line != "inside\n":
        pytest.fail(line + client.communicate()[1])
    client.kill()
    client.communicate()
    assert command.run(address, AGAIN_AND_AGAIN) == "same\n"
    for _ in range(PATIENCE):  # each iteration makes a round trip to every host
        report = command("status", "--address", address)
        used = [device["memory"]["used_bytes"] for device in report["devices"] if "memory" in device]
        if not report["clients"] and len(used) == 2 * PER_ISLAND and sum(used) == 0:
            return
    pytest.fail(f"left behind: {report}")
