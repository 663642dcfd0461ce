"""A module of the test's own tree: colocated functions name it, and no library folder has it."""

FACTOR = 3


def scaled(x):
    return FACTOR * x
