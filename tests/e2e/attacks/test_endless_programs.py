"""A user's programs and Python functions never end (docs/security.md). Their device is theirs until an operator ends them; nothing else waits for them."""

import re

import pytest
from cli import PATIENCE, User, alive, operator_at
from conftest import eventually

# {device} is a place in jax.devices().
ENDLESS = """
import sys
import jax, numpy as np
x = jax.device_put(np.float32(1), jax.devices()[{device}])
y = jax.jit(lambda v: jax.lax.while_loop(lambda c: c > 0, lambda c: (c + 1) % 7 + 1, v))(x)
print("ready", flush=True)
sys.stdin.readline()
"""
SILENT = """
import sys, threading
import jax, numpy as np
x = jax.device_put(np.float32(1), jax.devices()[{device}])
y = jax.jit(lambda v: jax.pure_callback(lambda v: threading.Event().wait(), jax.ShapeDtypeStruct((), np.float32), v))(x)
print("ready", flush=True)
sys.stdin.readline()
"""
COMPUTE = """
import jax, numpy as np
x = jax.device_put(np.arange(8, dtype=np.float32), jax.devices()[{device}])
print(float(jax.jit(lambda v: v.sum())(x)))
"""


@pytest.fixture
def operator(tmp_path):
    with operator_at(tmp_path / "op") as command:
        command.up = command("up", "--devices", "2", "--listen-proxy", "none", "--hang-limit", "1")
        yield command


@pytest.fixture
def user(operator, tmp_path):
    """Returns a function that makes a user who has logged in."""

    def make(name):
        operator("token", "create", "--user", name, "--output", str(tmp_path / f"{name}.token"))
        found = User(tmp_path / name)
        found.login(operator.up["address"], tmp_path / f"{name}.token")
        found.token = re.search("pw-([0-9a-f]{8})-", (tmp_path / f"{name}.token").read_text()).group(1)
        return found

    return make


def launched(operator):
    """Returns whether the operator has been told of a computation that hangs."""
    return any(host["state"] == "launched, not finished" for hang in operator("status")["hangs"] for host in hang["hosts"])


def test_an_endless_program_keeps_its_device_and_nobody_elses(operator, user):
    eve, bob = user("eve"), user("bob")
    attack = eve.program(operator.up["address"], ENDLESS.format(device=0))
    assert attack.stdout.readline() == "ready\n", attack.communicate()[1]
    assert bob.run(operator.up["address"], COMPUTE.format(device=1)) == "28.0\n"
    assert eventually(lambda: launched(operator)), "the operator is not told which program it is"
    operator("token", "revoke", eve.token)
    assert eventually(lambda: not operator("status")["clients"])
    assert bob.run(operator.up["address"], COMPUTE.format(device=1)) == "28.0\n"
    attack.kill()
    attack.communicate()
    # The computation cannot be interrupted. A worker that is stopped ends all the same.
    (host,) = operator("status")["hosts"]
    assert operator("down", timeout=PATIENCE) is not None
    assert eventually(lambda: not alive(host["pid"]))


def test_a_function_that_does_not_return_is_ended_with_its_token(operator, user):
    """The program's process lives on and does not answer. Its device is free for others at once."""
    eve, bob = user("eve"), user("bob")
    attack = eve.program(operator.up["address"], SILENT.format(device=0))
    try:
        assert attack.stdout.readline() == "ready\n", attack.communicate()[1]
        waits = bob.program(operator.up["address"], COMPUTE.format(device=0))
        assert eventually(lambda: launched(operator))
        operator("token", "revoke", eve.token)
        out, err = waits.communicate(timeout=PATIENCE)
        assert (waits.returncode, out) == (0, "28.0\n"), err
        assert attack.poll() is None
    finally:
        attack.kill()
        attack.communicate()
