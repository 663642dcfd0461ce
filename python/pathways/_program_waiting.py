"""Nodes of a program that wait for values: Python functions that it calls between compiled functions, and choices (`pw.cond`).

jax's own callbacks, as equations of a program, become nodes: their operands come to this process and their results go back, through the
channel that callbacks of compiled functions use (_host_calls.py). A choice becomes a node with a graph for each branch.
"""

import dataclasses
import functools
from typing import Any

import jax
from jax._src import callback as jax_callback
from jax._src import core
from jax.sharding import SingleDeviceSharding

from pathways import _callbacks
from pathways import _program_choice as choice
from pathways import _program_graph as graphs

HOST_CALLS = ("pure_callback", "io_callback", "debug_callback", "debug_print")


@dataclasses.dataclass(eq=False)
class HostCall:
    registration: Any  # keeps the function callable
    name: str

    @property
    def number(self):
        return self.registration.number


@dataclasses.dataclass(eq=False)
class Select:
    branches: list  # graphs


def is_waiting(eqn):
    return eqn.primitive is choice.select_p or eqn.primitive.name in HOST_CALLS


def add(graph, eqn, env, location):
    """Adds the node of such an equation."""
    values = [graph.read(env, var) for var in eqn.invars]
    outputs = (_select if eqn.primitive is choice.select_p else _host_call)(graph, eqn, values, location)
    env.update(zip(eqn.outvars, outputs))


def _single(graph, value, location):
    """On one device: what a process reads as a whole."""
    devices = graphs.devices_of(value.sharding) if value.sharding is not None else jax.devices()
    return graph.place(value, SingleDeviceSharding(devices[0]), location)


def _host_call(graph, eqn, values, location):
    name, params = eqn.primitive.name, eqn.params
    if params.get("ordered") or "Ordered" in type(params.get("effect")).__name__:
        raise NotImplementedError(f"{name} is ordered, which functions called by programs are not: call it outside of the program, or give each "
                                  "call what the one before it returns")
    if any(jax.dtypes.issubdtype(value.aval.dtype, jax.dtypes.extended) for value in values):
        raise NotImplementedError(f"{name} takes random keys: give it jax.random.key_data of them")
    call = getattr(jax_callback, f"{name}_impl", None) or eqn.primitive.impl
    avals = [var.aval for var in eqn.outvars]
    function = functools.partial(call, **params)
    number = _callbacks.registry.add(_callbacks.checked(lambda *operands: tuple(function(*operands)), avals),
                                     [value.aval.dtype for value in values], bool(avals))
    operands = [_single(graph, value, location) for value in values]
    where = operands[0].sharding if operands else SingleDeviceSharding(jax.devices()[0])
    outputs = [graphs.Value(aval, where) for aval in avals]
    title = getattr(params.get("callback"), "callback_func", params.get("callback"))
    what = HostCall(_callbacks.Registration(number), getattr(title, "__name__", name))
    graph.nodes.append(graphs.Node(location, operands, outputs, waits=what))
    return outputs


def _select(graph, eqn, values, location):
    index, *values = values
    index = _single(graph, index, location)
    captured, operands = _picked(eqn.params["counts"], values)
    branches, results = [], None
    for closed, name, mine in zip(eqn.params["branches"], eqn.params["names"], captured):
        branch = graph.branch(name)
        taken = mine + operands
        inputs = {value: branch.argument(value.aval, value.sharding) for value in dict.fromkeys(taken)}
        jaxpr = closed.jaxpr
        made = branch.run(core.Jaxpr((), [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns, jaxpr.effects, debug_info=_unknown(jaxpr)), (),
                          [inputs[value] for value in taken])
        for value in made:
            value.sharding = value.sharding or SingleDeviceSharding(jax.devices()[0])
        for value, inside in inputs.items():  # placed where it is used first
            value.sharding = value.sharding or inside.sharding
        if results is None:
            results = [value.sharding for value in made]
        branches.append((branch, inputs, [branch.place(value, sharding, location) for value, sharding in zip(made, results)]))
    taken = list(dict.fromkeys(values))
    for value in taken:
        value.sharding = value.sharding or SingleDeviceSharding(jax.devices()[0])
    constants = [graph.argument(argument.value.aval, argument.value.sharding, constant=argument.constant)
                 for branch, _, _ in branches for argument in branch.arguments if argument.constant is not None]
    _give_all(branches, taken, constants)
    node = graphs.Node(location, [index, *taken, *constants], [], waits=Select([branch for branch, _, _ in branches]))
    node.outputs = [graphs.Value(var.aval, sharding) for var, sharding in zip(eqn.outvars, results)]
    graph.nodes.append(node)
    return node.outputs


def _unknown(jaxpr):
    return jaxpr.debug_info.with_unknown_names()


def _picked(counts, values):
    """The values that each branch uses of the program around it, and those that are given to all."""
    captured, at = [], 0
    for count in counts:
        captured.append(values[at:at + count])
        at += count
    return captured, values[at:]


def _give_all(branches, taken, constants):
    """Every branch takes all that the node takes, in its order: what it has no use for too."""
    rest = iter(constants)
    of_branch = [[next(rest) for argument in branch.arguments if argument.constant is not None] for branch, _, _ in branches]
    for (branch, inputs, results), mine in zip(branches, of_branch):
        own = dict(zip(mine, (argument.value for argument in branch.arguments if argument.constant is not None)))
        own.update(inputs)
        arguments = []
        for value in [*taken, *constants]:
            inside = own.get(value) or graphs.Value(value.aval, value.sharding)
            inside.sharding = value.sharding = value.sharding or inside.sharding or SingleDeviceSharding(jax.devices()[0])
            arguments.append(graphs.Argument(inside))
        branch.arguments = arguments
        branch.finish(results)
