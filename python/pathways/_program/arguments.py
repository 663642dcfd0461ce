"""Resolves which arguments of a program are static and which are donated, by position and by name, as `jax.jit` does."""

import dataclasses
import inspect
import operator

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Arguments of a function: positions from the left, and names."""
    positions: frozenset = frozenset()
    names: frozenset = frozenset()


def choose(function, signature, option, positions=(), names=()):
    """Returns the arguments that the user selected by position or name. option: "static" or "donate", for errors. signature: None if unknown."""
    positions = tuple(map(operator.index, _tuple(positions)))
    names = _tuple(names)
    if signature is None:
        return Chosen(frozenset(positions), frozenset(names))
    parameters = list(signature.parameters.values())
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    named = [parameter.name for parameter in parameters if parameter.kind in _NAMED]
    count = len(positional)
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.VAR_POSITIONAL not in kinds and any(not -count <= i < count for i in positions):
        raise ValueError(f"program {_name(function)} has {option}_argnums={positions}, but only {count} positional arguments")
    if inspect.Parameter.VAR_KEYWORD not in kinds and (unknown := set(names) - set(named)):
        raise ValueError(f"program {_name(function)} has {option}_argnames={names}, but no arguments named {sorted(unknown)}")
    from_the_left = {i + count if i < 0 else i for i in positions} | {i for i, one in enumerate(positional) if one.name in names}
    return Chosen(frozenset(from_the_left), frozenset(names) | {one.name for i, one in enumerate(positional) if i in from_the_left and one.name in named})


def check_apart(function, static, donated):
    """Raises ValueError if an argument is both static and donated: static arguments are not arrays."""
    if both := static.names & donated.names or static.positions & donated.positions:
        raise ValueError(f"arguments {sorted(both)} of program {_name(function)} are both static and donated: only arrays can be donated, and static arguments are not arrays. Choose one")


def _tuple(value):
    return (value,) if isinstance(value, (int, str)) else tuple(value or ())


def _name(function):
    return getattr(function, "__name__", "program")
