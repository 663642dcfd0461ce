"""Tests which custom call a host callback is lowered to. The local cpu backend stands for ours, and nothing runs."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import callback as jax_callback
from jax.experimental import io_callback

from pathways._callbacks import callbacks, host_calls

X = np.ones((2,), np.float32)
RESULT = jax.ShapeDtypeStruct((2,), np.float32)


@pytest.fixture
def as_ours(monkeypatch):
    """Makes every backend count as ours."""
    monkeypatch.setattr(jax_callback, "emit_python_callback", getattr(
        jax_callback.emit_python_callback, "__wrapped__", jax_callback.emit_python_callback))
    callbacks.install(lambda client: True)


def text_of(function, *args):
    jax.clear_caches()
    return jax.jit(function).lower(*args).as_text()


def ordered_print(x):
    jax.debug.print("{}", x, ordered=True)
    return x


PROGRAMS = {
    "pure_callback": lambda x: jax.pure_callback(np.sin, RESULT, x),
    "io_callback": lambda x: io_callback(np.sin, RESULT, x),
    "io_callback ordered": lambda x: io_callback(np.sin, RESULT, x, ordered=True),
    "debug.print": lambda x: jax.debug.print("{}", x),
    "debug.print ordered": ordered_print,
    "vmap": jax.vmap(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x, vmap_method="expand_dims")),
    "scan": lambda x: jax.lax.scan(lambda c, v: (c, jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), v)), 0, x),
    "grad": jax.grad(lambda x: (jax.debug.callback(print, x), (x * x).sum())[1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_our_lowering_emits_our_call_alone(as_ours, name):
    text = text_of(PROGRAMS[name], X)
    assert f"@{callbacks.TARGET}" in text
    assert "python_cpu_callback" not in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_backends_keep_theirs(monkeypatch, as_ours, name):
    monkeypatch.setattr(jax_callback, "emit_python_callback", jax_callback.emit_python_callback.__wrapped__)
    callbacks.install(lambda client: False)
    text = text_of(PROGRAMS[name], X)
    assert callbacks.TARGET not in text
    assert "python_cpu_callback" in text


def test_an_ordered_call_takes_and_gives_the_token(as_ours):
    text = text_of(PROGRAMS["io_callback ordered"], X)
    line = next(line for line in text.splitlines() if callbacks.TARGET in line)
    assert line.count("!stablehlo.token") == 2


def test_the_function_stays_registered_as_long_as_the_program(as_ours, monkeypatch):
    registry = host_calls.Registry()
    monkeypatch.setattr(callbacks, "registry", registry)
    jax.clear_caches()
    lowered = jax.jit(PROGRAMS["pure_callback"]).lower(X)
    (number,) = set(registry._functions) - {host_calls.TRANSLATE, host_calls.OUTPUT, host_calls.STACKS}
    assert not registry._retired
    (result,) = registry.get(number)[0](X)
    np.testing.assert_array_equal(result, np.sin(X))
    del lowered
    jax.clear_caches()
    gc.collect()
    assert list(registry._retired) == [number]


@pytest.mark.parametrize("returned, text", [
    ((np.ones(3, np.float32),), r"Incorrect output shape for return value #0: Expected: \(2,\), Actual: \(3,\)"),
    ((np.ones(2, np.int32),), "Incorrect output dtype for return value #0: Expected: float32, Actual: int32"),
    ((), "Mismatched number of outputs from callback. Expected: 1, Actual: 0"),
])
def test_results_of_another_type_are_refused_with_jax_s_texts(returned, text):
    aval = jax.core.ShapedArray((2,), jnp.float32)
    with pytest.raises(RuntimeError, match=text):
        callbacks.checked(lambda: returned, [aval])()


def test_python_numbers_take_jax_s_default_types():
    aval = jax.core.ShapedArray((), jnp.float32)
    (result,) = callbacks.checked(lambda: (1.5,), [aval])()
    assert result.dtype == np.float32
