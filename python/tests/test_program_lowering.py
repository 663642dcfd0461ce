"""Tests how a program's computations are lowered: from the existing jaxpr if nothing must be traced again. Nothing runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import pathways as pw
from pathways._program import lowering, meshes

TABLE = np.arange(4, dtype=np.float32)


def computations():
    """Returns {name: (function, arguments, whether its existing jaxpr is lowered)}."""
    first = SingleDeviceSharding(jax.devices()[0])
    rows = NamedSharding(Mesh(np.array(jax.devices()[:4]), ("x",)), P("x"))
    x, n = np.ones(4, np.float32), np.int32(3)
    return {
        "plain": (jax.jit(lambda x: jnp.sin(x) * 2, in_shardings=first), (x,), True),
        "an argument that it does not use": (jax.jit(lambda x, y: y + 1), (x, x), True),
        "donation": (jax.jit(lambda x, y: (x + y, y), donate_argnums=0), (x, x), True),
        "a table": (jax.jit(lambda x: x + TABLE), (x,), True),
        "several devices": (jax.jit(lambda x: x + 1, in_shardings=rows, out_shardings=rows), (x,), True),
        "a result where the compiler says": (jax.jit(lambda x: x[::-1], in_shardings=rows), (x,), False),
        "a number from Python": (lambda x: jax.jit(lambda x, k: x * k)(x, 3.0), (x,), False),
        "an operation alone": (lambda x, n: x * n, (x, n), False),
    }


@pytest.mark.parametrize("name", computations())
def test_both_ways_give_the_same(name, monkeypatch):
    function, args, direct = computations()[name]
    found = []
    ordinary = lowering.as_traced
    monkeypatch.setattr(lowering, "as_traced", lambda *given: (found.append(ordinary(*given)), found[-1])[1])
    ours = pw.program(function).lower(*args)._graph
    jax.clear_caches()
    monkeypatch.setattr(lowering, "as_traced", lambda *given: None)
    anew = pw.program(function).lower(*args)._graph
    assert any(one is not None for one in found) == direct
    assert ours.to_bytes().count(b"StableHLO") == anew.to_bytes().count(b"StableHLO") == len(found)
    assert [len(node.inputs) for node in ours.nodes] == [len(node.inputs) for node in anew.nodes]
    assert [node.donated == () for node in ours.nodes] == [node.donated == () for node in anew.nodes]
    assert ours.executable_flops == anew.executable_flops
    for mine, theirs in zip(ours.results, anew.results, strict=True):
        assert mine.sharding == theirs.sharding and mine.aval.strip_weak_type() == theirs.aval.strip_weak_type()


def test_jax_says_what_is_wrong():
    there = SingleDeviceSharding(jax.devices()[1])
    inside = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, there) + 1, in_shardings=SingleDeviceSharding(jax.devices()[0]))
    with pytest.raises(ValueError, match="incompatible devices"):
        pw.program(lambda x: inside(x)).lower(TABLE)


def test_the_devices_of_a_mesh_are_looked_at_once(monkeypatch):
    """The number of computations and arrays on a mesh does not matter. A mesh, or the machine, may have thousands of devices."""
    rows = NamedSharding(Mesh(np.array(jax.devices()[2:6]), ("x",)), P("x"))
    packed, listed = [], []
    pack, devices = meshes.wire.packed, jax.devices
    monkeypatch.setattr(meshes.wire, "packed", lambda numbers: (packed.append(numbers := list(numbers)), pack(numbers))[1])
    monkeypatch.setattr(jax, "devices", lambda *of: (listed.append(of), devices(*of))[1])

    def lists(nodes):
        functions = [jax.jit(lambda x, k=k: x * k + 1, in_shardings=rows, out_shardings=rows) for k in range(nodes)]

        def chain(x):
            for function in functions:
                x = function(x)
            return x

        listed.clear()
        assert len(pw.program(chain).lower(TABLE)._graph.to_bytes().split(b"StableHLO")) == nodes + 1
        return len(listed)

    assert lists(3) == lists(9)
    assert packed.count([2, 3, 4, 5]) == 1
