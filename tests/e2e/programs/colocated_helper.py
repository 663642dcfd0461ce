"""A module of the test's own tree, not of a library folder: colocated functions import it."""

import os

FACTOR = 3


def scaled(x):
    return FACTOR * x


def halve(x):
    return x / 2


def pid(x):
    return x * 0 + os.getpid()
