"""Tests how `pw.while_loop` is traced and what it refuses, on jax's own cpu devices. Nothing runs, except outside of programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

import pathways as pw

X = np.ones(4, np.float32)


def lines(function, *args):
    return [line.split("  # ")[0] for line in pw.program(function).lower(*args).as_text().splitlines()[1:] if not line.startswith("device")]


def refused(function, *args):
    """Returns the text of the error that tracing the program raises, with its notes."""
    with pytest.raises((TypeError, ValueError, NotImplementedError)) as info:
        pw.program(function).lower(*args)
    return "\n".join([str(info.value), *getattr(info.value, "__notes__", [])])


def test_a_turn_is_the_body_and_the_next_condition():
    first, second = (SingleDeviceSharding(device) for device in jax.devices()[:2])
    step = jax.jit(lambda x: x + 1, in_shardings=second, out_shardings=second)
    is_small = jax.jit(lambda x: x.sum() < 9, in_shardings=first, out_shardings=first)
    assert lines(lambda x: pw.while_loop(is_small, step, x), jax.device_put(X, second)) == [
        "  %0:float32[4]@1 = arg",
        "  %1:float32[4]@0 = transfer %0",
        "  %2:bool[]@0 = compute <lambda>(%1)",
        "  %3:float32[4]@1 = while %2 lambda(%0)",
        "    turn lambda:",
        "      %0:float32[4]@1 = arg donated",
        "      %1:float32[4]@1 = compute <lambda>(%0)",
        "      %2:float32[4]@0 = transfer %1",
        "      %3:bool[]@0 = compute <lambda>(%2)",
        "      result %1, %3",
        "  result %3",
    ]


def test_captured_values_are_constants_of_the_turn_and_are_passed_once():
    def f(x, weights):
        return pw.while_loop(lambda c: (c * weights).sum() < 9, lambda c: c + weights, x)

    text = lines(f, X, X)
    turn = text[text.index("    turn lambda:"):]
    assert turn[1:3] == ["      %0:float32[4]@0 = arg", "      %1:float32[4]@0 = arg donated"]
    assert "while %4 lambda(%1, %0)" in "\n".join(text)


def test_a_value_without_a_place_is_placed_where_the_body_uses_it():
    where = SingleDeviceSharding(jax.devices()[2])
    step = jax.jit(lambda x: x + 1, in_shardings=where, out_shardings=where)
    text = lines(lambda x: pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(c[1])), (0, x)), X)
    assert text[0] == "  %0:float32[4]@2 = arg"
    assert not any("transfer" in line for line in text)


def test_numbers_take_the_type_of_what_the_body_makes_of_them():
    text = lines(lambda: pw.while_loop(lambda c: c < 3, lambda c: c + jnp.float32(0.5), 0))
    assert "%1:bool[]@0" in text[1] and text[0].startswith("  %0:float32[]@0")


def test_what_a_carry_may_not_do():
    stay = lambda c: c
    assert "the carry['b'] as int32[] and returns it as float32[4]" in refused(
        lambda x: pw.while_loop(lambda c: True, lambda c: {"a": c["a"], "b": c["a"]}, {"a": x, "b": 1}), X)
    assert "must return what it takes" in refused(lambda x: pw.while_loop(lambda c: True, lambda c: (c, c), x), X)
    assert "must return one bool, not int32[]" in refused(lambda x: pw.while_loop(lambda c: 1, stay, x), X)
    assert "must return one bool, not float32[4]" in refused(lambda x: pw.while_loop(stay, stay, x), X)
    moved = lambda c: jax.device_put(c, jax.devices()[1])
    assert "the carry, float32[4], is on device 0 before a turn and on device 1 after it" in refused(
        lambda x: pw.while_loop(lambda c: c.sum() < 3, moved, x), jax.device_put(X, jax.devices()[0]))


def test_what_cannot_be_in_a_turn():
    small = lambda c: c.sum() < 3
    callback = lambda c: jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((4,), np.float32), c)
    for body, what in ((callback, "not <lambda>"), (lambda c: pw.cond(c[0] > 1, lambda v: v, lambda v: v + 1, c), "not select"),
                       (lambda c: pw.while_loop(small, lambda v: v + 1, c), "not while")):
        text = refused(lambda x, body=body: pw.while_loop(small, body, x), X)
        assert what in text and "test_program_loops.py:" in text, text
    assert "has effects" in refused(lambda x: pw.while_loop(lambda c: (jax.debug.print("{}", c), small(c))[1], lambda c: c + 1, x), X)


def test_outside_of_programs_python_decides():
    seen = []
    assert pw.while_loop(lambda c: c[0] < 3, lambda c: (seen.append(c[0]), (c[0] + 1, c[1] * 2.0))[1], (0, 1.0)) == (3, 8.0)
    assert seen == [0, 1, 2]
    with pytest.raises(TypeError, match=r"the carry\[1\]"):
        pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[0]), (0, 1.0))
    with pytest.raises(TypeError, match="one bool"):
        pw.while_loop(lambda c: c, lambda c: c + 1, 0)
    with pytest.raises(ValueError, match="Reverse-mode differentiation"):
        jax.grad(lambda x: pw.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1])(2.0)
