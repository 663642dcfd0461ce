"""Transfers arrays to the cluster and back."""

import gc
import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from conftest import eventually
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pathways._client import doors

DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64, ml_dtypes.bfloat16,
          ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz]
WIDE = [np.int64, np.uint64, np.float64, np.complex128]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (4, 5), (2, 3, 4)]


def sample(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(0, 2 if dtype == np.bool_ else 7, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * values[::-1] if values.ndim else values + 2j
    return np.asarray(values).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: np.dtype(t).name)
def test_every_type_and_shape_comes_back_as_it_went(dtype, shape):
    value = sample(shape, dtype)
    array = jax.device_put(value)
    assert array.dtype == value.dtype and array.shape == shape
    np.testing.assert_array_equal(np.asarray(array), value)


@pytest.mark.parametrize("dtype", WIDE, ids=lambda t: np.dtype(t).name)
def test_64_bit_types(dtype):
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        value = sample((3, 2), dtype)
        array = jax.device_put(value)
        assert array.dtype == value.dtype
        np.testing.assert_array_equal(np.asarray(array), value)
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x + x)(array)), value + value)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: np.dtype(t).name)
def test_programs_take_and_give_every_type(dtype, same):
    same(lambda x: (x, jnp.reshape(x, (-1,)), x[::-1]), sample((4, 3), dtype))


@pytest.mark.parametrize("value", [
    np.asfortranarray(np.arange(12.0, dtype=np.float32).reshape(3, 4)), np.arange(24.0, dtype=np.float32)[::2], np.arange(24)[::-1],
    np.arange(24.0, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1), np.broadcast_to(np.float32(3), (4, 5)),
    np.arange(20, dtype=np.int32).reshape(4, 5)[1:3, ::-2]], ids=["fortran", "step", "backwards", "transposed", "broadcast", "window"])
def test_strided_buffers(value):
    np.testing.assert_array_equal(np.asarray(jax.device_put(value)), value)


def test_layouts_of_the_device_do_not_show(devices, islands):
    from jax.experimental.layout import Format, Layout

    value = np.arange(32, dtype=np.float32).reshape(4, 8)
    mesh = jax.sharding.Mesh(np.array(islands[1]), ("x",))
    for sharding in (jax.sharding.SingleDeviceSharding(devices[2]), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))):
        by_column = Format(Layout((1, 0)), sharding)
        made = jax.jit(lambda x: x * 2, out_shardings=by_column)(value)
        assert made.format.layout.major_to_minor == (1, 0)
        np.testing.assert_array_equal(np.asarray(made), value * 2)
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x + 1, in_shardings=by_column)(made)), value * 2 + 1)
        put = jax.device_put(value, by_column)
        assert put.format.layout.major_to_minor == (1, 0)
        np.testing.assert_array_equal(np.asarray(put), value)


def test_python_numbers_keep_their_weak_types(same):
    assert jnp.asarray(1.0).dtype == jnp.float32
    same(lambda x: x * 2 + 1.5, np.int32(3))


def test_every_device_takes_an_array(devices):
    arrays = [jax.device_put(np.full(3, i, np.float32), device) for i, device in enumerate(devices)]
    for i, (array, device) in enumerate(zip(arrays, devices)):
        assert array.devices() == {device}
        np.testing.assert_array_equal(array, np.full(3, i, np.float32))


def test_a_large_array_survives_chunking():
    value = np.random.default_rng(1).integers(0, 255, 9_000_001, dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(jax.device_put(value)), value)


def test_the_caller_may_change_its_buffer_once_the_put_is_ready():
    value = np.arange(1000.0, dtype=np.float32)
    array = jax.device_put(value).block_until_ready()
    value[:] = -1
    assert float(array.sum()) == 499500


def test_indexing_iterating_and_converting(same):
    x = jnp.arange(6).reshape(2, 3)
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    assert int(x[1, 2]) == 5 and x.tolist() == [[0, 1, 2], [3, 4, 5]] and bool((x >= 0).all())
    same(lambda a: a.at[1].set(9).at[0, 1].add(4), np.arange(6).reshape(2, 3))


def test_a_deleted_array_says_so():
    x = jnp.arange(3)
    x.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_live_arrays_come_and_go():
    before = len(jax.live_arrays())
    kept = [jnp.ones(3) + i for i in range(5)]
    assert len(jax.live_arrays()) >= before + 5
    del kept
    gc.collect()
    assert len(jax.live_arrays()) <= before + 1


def test_keys_copies_and_pickles():
    import copy
    import pickle

    key = jax.random.key(3)
    assert jnp.array_equal(jax.random.key_data(key), jax.random.key_data(copy.copy(key)))
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), x)
    np.testing.assert_array_equal(copy.deepcopy(x), x)


def test_memory_stats_tell_what_arrays_take(devices):
    before = devices[2].memory_stats()
    x = jax.block_until_ready(jax.device_put(np.ones(4 << 20, np.uint8), devices[2]))  # its memory counts once its bytes have arrived
    taken = devices[2].memory_stats()
    assert taken["bytes_in_use"] - before["bytes_in_use"] == x.nbytes
    assert taken["peak_bytes_in_use"] >= taken["bytes_in_use"]
    del x  # the client's library sends deletions from a separate thread, so the status request may overtake this one
    assert eventually(lambda: devices[2].memory_stats()["bytes_in_use"] == before["bytes_in_use"])
    after = devices[2].memory_stats()
    assert after["peak_bytes_in_use"] == taken["peak_bytes_in_use"]
    assert after["bytes_limit"] > taken["bytes_in_use"]


BACKWARDS = [X[::-1] for X in (np.arange(6, dtype=np.float32), np.arange(6), np.ones((3, 2), bool))] + [
    np.flip(np.arange(6.0).reshape(2, 3)), np.broadcast_to(np.float32(3), (2, 3)), np.broadcast_to(np.arange(3), (2, 3))]


@pytest.mark.parametrize("x", BACKWARDS, ids=lambda x: f"{x.dtype}{x.strides}")
def test_numpy_views_that_run_backwards_or_repeat(x, islands):
    np.testing.assert_array_equal(jnp.asarray(x), x)
    mesh = Mesh(np.array(islands[0][:1]), ("x",))
    np.testing.assert_array_equal(jax.device_put(x, NamedSharding(mesh, P())), x)
    function = jax.jit(lambda unused, v, w: (v, w))
    for argument in (np.ascontiguousarray(x), x, x):  # jax's C++ fast path serves the second and later calls
        first, second = function(1, argument, jnp.ones(2))
        np.testing.assert_array_equal(first, x)
        np.testing.assert_array_equal(second, np.ones(2))


SCALARS = [4.0, np.float32(1), np.array(2, np.float32), 3.0, np.float64(2), np.array(2.0), 3, np.int32(2), np.array(7), True, np.bool_(True)]
VECTORS = [np.arange(4.0), np.arange(4.0)[::-1], np.broadcast_to(2.0, 4), np.arange(8.0)[::2]]
# Pairs (gradient, expected function). Their steps share the same programs of one operation each.
GRADIENTS = [(jax.grad(lambda x: (jnp.sin(x), x), has_aux=True), np.cos),
             (jax.grad(lambda x: (jnp.tanh(x), x), has_aux=True), lambda x: 1 - np.tanh(x) ** 2),
             (jax.grad(lambda x: (x**2, x), has_aux=True), lambda x: 2 * x)]


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
def test_numbers_and_numpy_values_after_one_another(x64):
    """Sends values in every order through the same programs, since jax decides at the first value of a kind how to send the others."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", x64)
    try:
        function = jax.jit(lambda x: x + x)
        for first, second in [*itertools.product(SCALARS, repeat=2), *itertools.product(VECTORS, repeat=2)]:
            for x in (first, second):
                doubled = function(x)
                np.testing.assert_array_equal(doubled, np.add(x, x))
                assert doubled.dtype == jnp.result_type(x) and doubled.weak_type == (type(x) in (int, float)), repr(x)
        real = [x for x in SCALARS if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
        for gradient, expected in GRADIENTS:
            for x in [*real, *reversed(real)]:
                slope, aux = gradient(x)
                assert float(slope) == pytest.approx(expected(x), rel=1e-3) and slope.dtype == jnp.result_type(x), repr(x)
                assert float(jnp.sin(aux)) == pytest.approx(np.sin(x), rel=1e-5)
    finally:
        jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64], ids=lambda t: np.dtype(t).name)
def test_arrays_go_to_other_libraries_as_copies(devices, dtype):
    value = sample((3, 4), dtype)
    array = jax.device_put(value, devices[3])
    taken = np.from_dlpack(array)
    np.testing.assert_array_equal(taken, value)
    back = jax.dlpack.from_dlpack(value.copy())  # this process owns the memory, so the array stays on its cpu
    assert next(iter(back.devices())).client is not devices[0].client
    np.testing.assert_array_equal(np.asarray(jax.device_put(back, devices[1])), value)
    del back
    np.testing.assert_array_equal(np.asarray(array), value)


def test_without_a_copy_no_library_gets_an_array(devices):
    array = jax.device_put(np.ones(3, np.float32), devices[0])
    assert not hasattr(array, "__cuda_array_interface__")
    with pytest.raises(ValueError, match="copy=True"):
        array.__dlpack__(copy=False)


def test_strings_that_are_dropped_while_they_are_read(islands):
    """jaxlib 0.12 drops an array's shards as soon as it has requested their contents, which may still be in flight to the cluster."""
    words = np.array([["pathways", ""], ["naïve", "x" * 70000]], dtype=np.dtypes.StringDType())
    places = [islands[1][0]]
    if doors.chosen() == "ifrt":  # by PJRT, jaxlib supports strings on one device only, as on its own cpu
        places.append(NamedSharding(Mesh(np.array(islands[0]), ("x",)), P()))
    for _ in range(20):
        for place in places:
            np.testing.assert_array_equal(np.asarray(jax.device_put(words, place)), words)


def test_numbers_that_are_dropped_while_they_are_read(islands):
    rows = NamedSharding(Mesh(np.array(islands[0]), ("x",)), P("x"))
    for n in (8, 1 << 18):
        value = np.arange(n, dtype=np.float32)
        for _ in range(5):
            np.testing.assert_array_equal(np.asarray(jax.device_put(value, rows)), value)
            reading = jax.device_put(value, rows)
            reading.copy_to_host_async()
            shard = reading.addressable_shards[1].data
            del reading
            np.testing.assert_array_equal(np.asarray(shard), value[n // 4 : n // 2])
