"""Tests memory kinds, donation, deletion, statistics, and running out of memory."""
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding


def on(device, kind):
    return SingleDeviceSharding(device, memory_kind=kind)


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host"])
def test_put_and_get(devices, mesh, kind):
    x = jax.device_put(np.arange(8.0), on(devices[1], kind))
    assert x.sharding.memory_kind == kind and x.devices() == {devices[1]}
    np.testing.assert_array_equal(np.asarray(x), np.arange(8.0))
    back = jax.device_put(x, on(devices[0], "device"))
    assert back.sharding.memory_kind == "device"
    sharded = jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x"), memory_kind=kind))
    assert sharded.sharding.memory_kind == kind
    np.testing.assert_array_equal(np.asarray(jax.device_put(sharded, NamedSharding(mesh, P()))), np.arange(8.0))


def test_results_in_host_memory(devices, mesh):
    f = jax.jit(lambda x: (x * 2, x + 1), out_shardings=(on(devices[0], "pinned_host"), on(devices[0], "device")))
    a, b = f(jax.device_put(np.arange(8.0), devices[0]))
    assert a.sharding.memory_kind == "pinned_host" and b.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(a), np.arange(8.0) * 2)
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    x = jax.device_put(np.arange(16.0), NamedSharding(mesh, P("x")))
    y = jax.jit(lambda v: v * 3, out_shardings=host)(x)
    assert y.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(np.asarray(y), np.arange(16.0) * 3)
    z = jax.jit(lambda v: jax.device_put(v, NamedSharding(mesh, P("x"))) + 1)(y)
    assert z.sharding.memory_kind == "device"
    np.testing.assert_array_equal(np.asarray(z), np.arange(16.0) * 3 + 1)


def test_offload_inside_a_program(devices):
    from jax.ad_checkpoint import checkpoint_name

    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["y"], offload_src="device", offload_dst="pinned_host")
    f = lambda x: jnp.sum(jnp.cos(checkpoint_name(jnp.sin(x), "y")) * x)
    x = np.linspace(0, 1, 8)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.checkpoint(f, policy=policy)))(x), jax.grad(f)(x), rtol=1e-6)


def test_donation_reuses_the_memory(devices):
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jax.jit(lambda: jnp.arange(1000.0))()  # not from numpy: numpy's memory is never overwritten
    pointer = x.unsafe_buffer_pointer()
    y = f(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == pointer
    with pytest.raises((RuntimeError, ValueError), match="deleted|donated"):
        f(x)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_donation_of_a_sharded_array(mesh):
    x = jax.device_put(np.arange(64.0), NamedSharding(mesh, P("x")))
    y = jax.jit(lambda v: v * 2, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(y), np.arange(64.0) * 2)


def test_donated_host_view_is_not_overwritten(devices):
    """A donated array is copied, not overwritten, while numpy has a view of it."""
    x = jax.device_put(np.arange(1000.0), devices[0])
    view = np.asarray(x)
    y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
    jax.block_until_ready(y)
    np.testing.assert_array_equal(view, np.arange(1000.0))


def test_delete(devices):
    x = jax.device_put(np.arange(10.0), devices[0])
    y = x + 1
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(y), np.arange(10.0) + 1)
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def test_device_statistics(devices):
    device = devices[5]
    before = device.memory_stats()["bytes_in_use"]
    x = jax.device_put(np.zeros(1 << 20, np.float32), device)
    jax.block_until_ready(x)
    stats = device.memory_stats()
    assert stats["bytes_in_use"] - before == 4 << 20
    assert stats["peak_bytes_in_use"] >= stats["bytes_in_use"] and stats["bytes_limit"] > 0
    y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
    jax.block_until_ready(y)
    assert device.memory_stats()["bytes_in_use"] - before == 4 << 20
    y.delete()
    assert device.memory_stats()["bytes_in_use"] == before


def test_compiled_statistics(devices):
    x = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    stats = jax.jit(lambda x: jnp.tanh(x @ x) @ x, donate_argnums=0).lower(x).compile().memory_analysis()
    assert stats.argument_size_in_bytes == stats.output_size_in_bytes == 128 * 128 * 4
    assert stats.alias_size_in_bytes == 128 * 128 * 4 and stats.temp_size_in_bytes > 0


def test_too_large_for_the_machine(devices):
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED.*Out of memory"):
        jax.block_until_ready(jnp.zeros((1 << 20, 1 << 20)))
    np.testing.assert_array_equal(np.asarray(jnp.arange(3)), [0, 1, 2])


def test_a_petabyte_that_takes_one_byte_of_the_host(devices):
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        jax.device_put(np.broadcast_to(np.uint8(1), (1 << 50,)), devices[0]).block_until_ready()
    np.testing.assert_array_equal(np.asarray(jax.device_put(np.broadcast_to(np.uint8(1), (1 << 20,)), devices[0])), np.ones(1 << 20, np.uint8))


@pytest.mark.parametrize("value", [np.broadcast_to(np.arange(1024.0), (256, 1024)), np.broadcast_to(np.arange(512)[:, None], (512, 256)),
                                   np.arange(1 << 18)[::-1], np.broadcast_to(np.arange(1 << 12)[::-2], (64, 1 << 11)),
                                   np.arange(64 * 32 * 16.0).reshape(64, 32, 16)[::-1, :, ::-3].T])
def test_host_arrays_of_any_strides(devices, value):
    np.testing.assert_array_equal(np.asarray(jax.device_put(value, devices[1])), value)


@pytest.mark.timeout(120)
def test_memory_limit(plugin):
    """An array that does not fit fails, and nothing else does; freed memory can be used again."""
    program = f"""
        import os
        os.environ.update(JAX_PLATFORMS="pwcpu", PJRT_NAMES_AND_LIBRARY_PATHS="pwcpu:{plugin}",
                          PJRT_CPU_MEMORY_LIMIT_BYTES=str(64 << 20))
        import jax, jax.numpy as jnp, numpy as np
        f = jax.jit(lambda x: x + 1)
        assert jax.devices()[0].memory_stats()["bytes_limit"] == 64 << 20
        x = jnp.zeros(10 << 18); held = [f(x) for _ in range(4)]          # 50 of 64 MiB
        try: jax.block_until_ready([f(x), f(x)]); raise SystemExit("fitted")
        except Exception as e: assert "RESOURCE_EXHAUSTED" in str(e) and "memory_limit_bytes" in str(e), e
        bad = f(f(f(x)))
        try: np.asarray(f(bad)); raise SystemExit("fitted")
        except Exception as e: assert "RESOURCE_EXHAUSTED" in str(e), e
        try: jax.device_put(np.ones(32 << 18, np.float32)).block_until_ready(); raise SystemExit("fitted")
        except Exception as e: assert "RESOURCE_EXHAUSTED" in str(e), e
        del held, bad
        assert float(f(f(x))[0]) == 2
        print("right")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100)
    assert "right" in done.stdout, done.stdout + done.stderr[-3000:]


def test_layouts_of_their_own_keep_their_values(devices):
    """XLA's own CPU copies move the bytes and lose their order: in uploads, and between devices and memories."""
    from jax.experimental.layout import Format, Layout

    x = np.arange(24.0).reshape(2, 3, 4)
    columns = Layout((2, 0, 1))
    made = jax.jit(lambda v: v + 0, out_shardings=Format(columns, jax.sharding.SingleDeviceSharding(devices[0])))(x)
    assert made.format.layout.major_to_minor == (2, 0, 1)
    moved = jax.device_put(made, devices[3])
    assert moved.format.layout.major_to_minor == (2, 0, 1)
    np.testing.assert_array_equal(moved, x)
    np.testing.assert_array_equal(jax.jit(lambda v: v * 2)(moved), x * 2)
    np.testing.assert_array_equal(jax.device_put(x, Format(columns, jax.sharding.SingleDeviceSharding(devices[1]))), x)
