"""Calls of Python functions from compiled programs: how programs are compiled to make them, and how this process answers them.

May import _jax.

    callbacks.py         compiles jax's callbacks (pure_callback and the like)
    buffer_callbacks.py  compiles jax.experimental.buffer_callback
    host_calls.py        answers the calls
    stacks.py            tells where this process's threads are, for operators
    effect_errors.py     raises the error of a callback exactly once
"""
