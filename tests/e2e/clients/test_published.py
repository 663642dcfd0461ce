"""Tests `pw.publish` and `pw.published`: a learner and samplers are separate processes on one cluster."""

import os

import pytest
from conftest import E2E, PATIENCE

# All arrays of a version are equal to its number, which reveals a mixture of two versions.
COMMON = """
import json, os, signal, subprocess, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import pathways as pw

devices = np.array(jax.devices())
half = len(devices) // 2
def of(devices, *spec):
    return NamedSharding(Mesh(devices, ("x",)), P(*spec))
"""

SAMPLER = COMMON + """
last, seen = int(sys.argv[1]), []
version = 0
while version < last:
    like = {"b": of(devices[half:]), "w": jax.ShapeDtypeStruct((64, 128), jnp.float32, sharding=of(devices[half:], None, "x"))}
    version, params = pw.published("weights", like, newer_than=version, timeout=100)
    assert params["w"].sharding == like["w"].sharding and params["b"].sharding == like["b"]
    values = set(np.unique(np.asarray(params["w"])).tolist()) | set(np.unique(np.asarray(params["b"])).tolist())
    assert values == {float(version)}, (version, values)
    seen.append(version)
print(json.dumps(seen))
"""

LEARNER = COMMON + """
from pathways._client import connection
from pathways._cluster import admin
from conftest import eventually

STEPS = 40
def sampler(last):
    return subprocess.Popen([sys.executable, SAMPLER, str(last)], env=dict(os.environ, PATHWAYS_ADDRESS=address), stdout=subprocess.PIPE, text=True)

step = jax.jit(lambda params: jax.tree.map(lambda leaf: leaf + 1, params), donate_argnums=0)
params = {"b": jax.device_put(jnp.zeros(8, jnp.bfloat16), of(devices[:1])), "w": jax.device_put(jnp.zeros((64, 128)), of(devices[:half], "x"))}
params = {"b": jax.device_put(params["b"], of(devices[:half])), "w": params["w"]}
params = step(params)
address = connection._endpoint.controller
samplers = [sampler(STEPS), sampler(STEPS), sampler(10 * STEPS)]
assert pw.publish("weights", params) == 1
for _ in range(STEPS // 2 - 1):
    params = step(params)
    version = pw.publish("weights", params)
    jax.block_until_ready(params)
assert version == STEPS // 2
samplers[2].kill()   # while it may be reading
samplers[2].wait()
for _ in range(STEPS - version):
    params = step(params)
    version = pw.publish("weights", params)
    jax.block_until_ready(params)
for one in samplers[:2]:
    seen = json.loads(one.communicate(timeout=200)[0])
    assert one.returncode == 0 and seen == sorted(set(seen)) and seen[-1] == STEPS, seen
# The cluster keeps the learner's own arrays and the last version of them, and nothing else.
most = 2 * (64 * 128 * 4 + half * 8 * 2)
held = eventually(lambda: sum(client["array_bytes"] for client in admin.status(address)["clients"]) <= most)
pw.withdraw("weights")
np.testing.assert_array_equal(params["w"], STEPS)
print("fine", held)
"""


@pytest.mark.parametrize("door", ["pjrt", "ifrt"])
def test_samplers_read_whole_versions_while_a_learner_publishes(run_script, tmp_path, door):
    sampler = tmp_path / "sampler.py"
    sampler.write_text(SAMPLER)
    done = run_script(LEARNER.replace("SAMPLER", repr(str(sampler))), timeout=PATIENCE, PATHWAYS_LOCAL="2x1x2", PATHWAYS_DOOR=door,
                      PYTHONPATH=os.pathsep.join([str(E2E), os.environ.get("PYTHONPATH", "")]))
    assert done.returncode == 0 and done.stdout == "fine True\n", done.stderr


FAULTS = COMMON + """
address = None
def says(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("it does not fail")

x = jax.device_put(np.arange(8.0, dtype=np.float32), of(devices, "x"))
assert "within 0.2 s" in says(lambda: pw.published("nobody's", of(devices), timeout=0.2), TimeoutError)
assert "put it there first" in says(lambda: pw.publish("numbers", np.zeros(3)), TypeError)
assert "key_data" in says(lambda: pw.publish("numbers", jax.random.key(0)), TypeError)
assert "no arrays" in says(lambda: pw.publish("numbers", {}), ValueError)
assert pw.publish("numbers", {"x": x, "y": x + 1}) == 1
assert "lacks ['y']" in says(lambda: pw.published("numbers", {"x": of(devices)}), ValueError)
assert "['z'] is not published" in says(lambda: pw.published("numbers", {"x": of(devices), "z": of(devices)}), ValueError)
assert "float32[8], where `like` has int32[8]" in says(lambda: pw.published("numbers", {"x": x.astype(int), "y": x}), ValueError)
assert "where to put" in says(lambda: pw.published("numbers", {"x": 3, "y": x}), TypeError)
version, mine = pw.published("numbers", {"x": of(devices), "y": x})
assert version == 1
np.testing.assert_array_equal(mine["x"], np.arange(8))
np.testing.assert_array_equal(mine["y"], np.arange(8) + 1)
other = subprocess.run([sys.executable, "-c", OTHER], env=dict(os.environ, PATHWAYS_ADDRESS=controller()), capture_output=True, text=True)
assert other.returncode == 0, other.stderr
assert "publishes 'numbers': choose another name" in other.stdout, other.stdout
pw.withdraw("numbers")
assert "within" in says(lambda: pw.published("numbers", {"x": x, "y": x}, timeout=0.1), TimeoutError)
assert pw.publish("numbers", x) == 2, "numbers go on"
print("fine")
"""

OTHER = """
import jax, numpy as np, pathways as pw
try:
    pw.publish("numbers", jax.device_put(np.zeros(3)))
except pw.PublishError as error:
    print(error)
"""


@pytest.mark.parametrize("door", ["pjrt", "ifrt"])
def test_mistakes_are_named(run_script, door):
    script = f"from pathways._client import connection\ncontroller = lambda: connection._endpoint.controller\nOTHER = {OTHER!r}\n" + FAULTS
    done = run_script(script, timeout=PATIENCE, PATHWAYS_LOCAL="2x1x2", PATHWAYS_DOOR=door)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
