"""jax.device_put between shardings and meshes is correct, and the bytes do not pass through the client."""

import itertools
import os
import socket
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

SIDE = 512  # 1 MiB of float32


def shardings(devices):
    left, right, everything = np.array(devices[:4]), np.array(devices[4:]), np.array(devices)
    line, square, other = Mesh(left, "x"), Mesh(left.reshape(2, 2), ("x", "y")), Mesh(right, "x")
    return {"rows": NamedSharding(line, P("x")), "columns": NamedSharding(line, P(None, "x")), "whole": NamedSharding(line, P()),
            "tiles": NamedSharding(square, P("x", "y")), "partly": NamedSharding(square, P(None, "y")),
            "reversed": NamedSharding(Mesh(left[::-1], "x"), P("x")), "other rows": NamedSharding(other, P("x")),
            "other whole": NamedSharding(other, P()), "pair": NamedSharding(Mesh(right[:2], "x"), P("x")),
            "all rows": NamedSharding(Mesh(everything, "x"), P("x")), "all whole": NamedSharding(Mesh(everything, "x"), P()),
            "one": SingleDeviceSharding(left[0]), "another": SingleDeviceSharding(right[3])}


NAMES = ["rows", "columns", "whole", "tiles", "partly", "reversed", "other rows", "other whole", "pair", "all rows", "all whole", "one", "another"]


def client_bytes():
    """Returns the bytes that this process has sent and received over all its TCP connections."""
    total = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(fd))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
                total += sum(struct.unpack_from("<QQ", info, 120))  # tcpi_bytes_acked, tcpi_bytes_received
        except OSError:
            continue
    return total


@pytest.mark.parametrize("pair", list(itertools.product(NAMES, NAMES)), ids=" to ".join)
def test_values_arrive_and_bytes_stay_between_the_workers(devices, pair):
    source, target = (shardings(devices)[name] for name in pair)
    value = np.random.default_rng(0).random((SIDE, SIDE), np.float32)
    x = jax.device_put(value, source).block_until_ready()
    jax.device_put(jnp.zeros((8, 8)), target).block_until_ready()
    before = client_bytes()
    y = jax.device_put(x, target).block_until_ready()
    crossed = client_bytes() - before
    assert y.sharding.is_equivalent_to(target, 2)
    np.testing.assert_array_equal(np.asarray(y), value)
    np.testing.assert_array_equal(np.asarray(x), value)
    assert crossed < 64 * 1024, f"{crossed} bytes crossed the client"


def test_the_counter_counts():
    before = client_bytes()
    np.asarray(jax.device_put(np.ones(1 << 19, np.uint8)))  # larger arrays go through shared memory
    assert client_bytes() - before > 1 << 19


def test_a_pytree_moves_as_one_call(devices):
    targets = shardings(devices)
    tree = {"a": np.arange(16.0, dtype=np.float32), "b": [np.ones((8, 8), np.int32), np.float32(3)]}
    placed = jax.device_put(tree, targets["whole"])
    moved = jax.device_put(placed, targets["other whole"])
    jax.tree.map(np.testing.assert_array_equal, moved, tree)


def test_arguments_of_jit_are_placed_without_the_client(devices):
    split = shardings(devices)["rows"]
    x = jax.device_put(np.ones((SIDE, SIDE), np.float32), devices[0])  # uncommitted arrays move to the other arguments' devices
    y = jnp.ones((SIDE, SIDE))
    f = jax.jit(lambda a: a * 2, in_shardings=split)
    f(y).block_until_ready()
    before = client_bytes()
    f(y + 1).block_until_ready()
    assert client_bytes() - before < 64 * 1024
    assert x.devices() == {devices[0]}


def test_donation_deletes_the_source(devices):
    targets = shardings(devices)
    x = jax.device_put(np.ones((8, 8), np.float32), targets["rows"])
    y = jax.device_put(x, targets["other whole"], donate=True)
    np.testing.assert_array_equal(np.asarray(y), np.ones((8, 8)))
    assert x.is_deleted()


def test_a_deleted_source_is_an_error(devices):
    targets = shardings(devices)
    x = jax.device_put(np.ones((8, 8), np.float32), targets["rows"])
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jax.device_put(x, targets["other whole"])


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "int4", "float8_e4m3fn"])
def test_types_move_too(devices, dtype):
    targets = shardings(devices)
    value = np.arange(64).reshape(8, 8) % 5
    x = jax.device_put(jnp.asarray(value, dtype), targets["tiles"])
    np.testing.assert_array_equal(np.asarray(jax.device_put(x, targets["pair"])).astype(np.float32).real, np.asarray(x).astype(np.float32).real)


def test_keys_move(devices):
    targets = shardings(devices)
    keys = jax.random.split(jax.random.key(0), 8)
    moved = jax.device_put(jax.device_put(keys, targets["rows"]), targets["pair"])
    np.testing.assert_array_equal(jax.random.key_data(moved), jax.random.key_data(keys))


def test_to_and_from_jax_s_own_cpu(devices, cpu):
    x = jax.device_put(jnp.arange(4.0), cpu)
    assert x.devices() == {cpu}
    y = jax.device_put(x, devices[5])
    assert y.devices() == {devices[5]}
    np.testing.assert_array_equal(y, np.arange(4.0))


def test_uneven_shardings_are_jax_s_error(devices):
    x = jax.device_put(np.ones(7, np.float32), devices[0])
    with pytest.raises(ValueError, match="divisible|partitioned 4 times"):
        jax.device_put(x, shardings(devices)["rows"])


def test_to_and_from_the_backend_of_this_process(islands):
    local = jax.devices("cpu")[:4]
    ours, theirs = Mesh(np.array(islands[1]), ("x",)), Mesh(np.array(local), ("x",))
    x = np.arange(8, dtype=np.float32)
    there = jax.device_put(x, NamedSharding(ours, P("x")))
    here = jax.device_put(there, NamedSharding(theirs, P("x")))
    assert here.devices() == set(local)
    back, one = jax.device_put([here, there], [NamedSharding(ours, P()), local[1]])
    assert back.devices() == set(islands[1]) and one.devices() == {local[1]}
    for array in (here, back, one):
        np.testing.assert_array_equal(np.asarray(array), x)
    key = jax.random.key(7)
    assert jax.random.key_data(jax.device_put(key, local[0])).tolist() == jax.random.key_data(key).tolist()


def test_a_layout_of_its_own_travels_within_a_host(islands):
    layout = pytest.importorskip("jax.experimental.layout")
    if not hasattr(layout, "Format"):
        pytest.skip("this jax names layouts otherwise")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    columns = layout.Format(layout.Layout((1, 0)), jax.sharding.SingleDeviceSharding(islands[0][0]))
    made = jax.jit(lambda v: v * 1, out_shardings=columns)(x)
    moved = jax.device_put(made, islands[0][1])
    np.testing.assert_array_equal(moved, x)
    np.testing.assert_array_equal(jax.jit(lambda v: v + 1)(moved), x + 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="has a layout of its own"):  # not values in another order
        jax.device_put(made, islands[1][0]).block_until_ready()
    in_rows = jax.jit(lambda v: v)(made)
    np.testing.assert_array_equal(jax.device_put(in_rows, islands[1][0]), x)


def test_transfer_guards_see_reshards(devices):
    island = devices[:4]
    line, whole = (NamedSharding(Mesh(np.array(island), ("x",)), spec) for spec in (P("x"), P()))
    x = jax.device_put(np.arange(8.0), line)
    implicit = jax.jit(lambda v: v + 1, in_shardings=whole)
    with jax.transfer_guard_device_to_device("disallow"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed device-to-device transfer"):
            implicit(jax.device_put(np.arange(8.0), island[0]))
        np.testing.assert_array_equal(jax.device_put(x, whole), x)
    with jax.transfer_guard_device_to_device("disallow_explicit"), pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed"):
        jax.device_put(x, whole)
    np.testing.assert_array_equal(jax.device_put(x, whole), x)


def ramp(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


STRIDED = {
    "one element everywhere": np.broadcast_to(np.uint8(7), (1 << 20,)),
    "one row many times": np.broadcast_to(ramp(1024), (256, 1024)),
    "one column many times": np.broadcast_to(ramp(512, 1, dtype=np.int32), (512, 256)),
    "in the middle": np.broadcast_to(ramp(8, 1, 128), (8, 64, 128)),
    "backwards": ramp(1 << 18, dtype=np.int32)[::-1],
    "every second, backwards, many times": np.broadcast_to(ramp(1 << 12)[::-2], (64, 1 << 11)),
    "turned and backwards": ramp(64, 32, 16)[::-1, :, ::-3].T,
    "nothing": np.broadcast_to(np.float32(1), (8, 0, 4)),
}


@pytest.mark.parametrize("value", STRIDED.values(), ids=STRIDED)
@pytest.mark.parametrize("where", ["one", "whole", "rows"])
def test_arrays_of_any_strides_arrive(devices, value, where):
    if value.shape[0] % 4:
        value = np.broadcast_to(value, (4, *value.shape))
    x = jax.device_put(value, shardings(devices)[where])
    np.testing.assert_array_equal(np.asarray(x), value)
    np.testing.assert_array_equal(np.asarray(x + x), value + value)


PETABYTE = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
before = jax.device_put(np.arange(4))
everywhere = NamedSharding(Mesh(np.array(jax.devices()), "x"), P())
for value in np.broadcast_to(np.uint8(1), (1 << 50,)), np.broadcast_to(np.arange(1 << 10, dtype=np.int32), (1 << 40, 1 << 10)):
    for where in jax.devices()[1], everywhere:
        try:
            jax.device_put(value, where).block_until_ready()
        except Exception as error:
            print("RESOURCE_EXHAUSTED" in str(error) or error)
print((before + jax.device_put(np.broadcast_to(np.int32(1), 4))).tolist())
"""


def test_a_petabyte_that_takes_one_byte_of_the_client_is_an_error_of_that_array_alone(run_script):
    done = run_script(PETABYTE)
    assert done.stdout.splitlines() == ["True"] * 4 + ["[1, 2, 3, 4]"], done.stdout + done.stderr[-3000:]
