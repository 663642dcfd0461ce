"""A module of the test's own tree, not of a library folder: colocated functions import it."""

FACTOR = 3


def scaled(x):
    return FACTOR * x
