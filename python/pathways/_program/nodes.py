"""The parts of a program's graph: values, arguments and nodes."""

import dataclasses
from typing import Any

from pathways._jax import public


def physical(aval, sharding):
    """Returns the type and sharding of the array stored on devices: for arrays of random keys, arrays of integers."""
    if not public.is_of_keys(aval):
        return aval, sharding
    return public.physical_aval(aval), public.physical_sharding(aval, sharding)


@dataclasses.dataclass(eq=False)
class Value:
    """An array in the program. `sharding` is None for an argument that is not placed yet."""
    aval: Any
    sharding: Any = None
    number: int = -1
    uses: int = 0
    committed: bool = True  # in jax's sense: its devices follow from the user's choice


@dataclasses.dataclass(eq=False)
class Argument:
    value: Value
    constant: Any = None  # an array that the function closes over
    donated: bool = False
    effect: Any = None    # the ordered effect, if the argument is its token


@dataclasses.dataclass(eq=False)
class Node:
    location: str
    inputs: list
    outputs: list
    executable: int = -1  # -1: a transfer
    donated: tuple = ()   # the inputs that it may overwrite
    waits: Any = None     # a HostCall, Select, While or Route, which have no executable, or a HostCompute

    @property
    def is_transfer(self):
        return self.executable < 0 and self.waits is None


@dataclasses.dataclass(eq=False)
class HostCall:
    """A call of a Python function of this process."""
    registration: Any  # keeps the function callable
    name: str

    @property
    def number(self):
        return self.registration.number


@dataclasses.dataclass(eq=False)
class HostCompute:
    """A call of a Python function on the hosts of its devices. The function is the node's executable."""
    name: str


@dataclasses.dataclass(eq=False)
class Route:
    """Rows that hosts send to where values say. Out: from the first input, to where the second says. Back: from the experts."""
    back: bool
    groups: int
    experts: int
    capacity: int


@dataclasses.dataclass(eq=False)
class Select:
    """A choice of one of several graphs, by the node's first input."""
    branches: list  # of graphs


@dataclasses.dataclass(eq=False)
class While:
    """A loop: its inputs are the first predicate, constants, and the carry, which are its outputs too."""
    turn: Any  # a graph
