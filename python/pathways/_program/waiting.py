"""Builds the nodes of a program that wait for values: callbacks between its compiled functions, choices (`pw.cond`) and loops (`pw.while_loop`).

jax's own callbacks, as equations of a program, become nodes. Their operands are sent to this process and their results back, over the connection that
callbacks of compiled functions use (_callbacks/host_calls.py). A choice becomes a node with a graph for each branch, a loop one with a graph for a turn
(loop.py).
"""

import functools
import logging

import jax
import numpy as np
from jax.extend.core import Jaxpr
from jax.sharding import SingleDeviceSharding

from pathways._callbacks import callbacks
from pathways._program import choice, loop, meshes, tokens
from pathways._program.nodes import Argument, HostCall, Node, Select, Value, physical

logger = logging.getLogger("pathways")

CALLBACKS = ("pure_callback", "io_callback")  # with results
HOST_CALLS = (*CALLBACKS, "debug_callback", "debug_print")


def is_waiting(eqn):
    return eqn.primitive in _ADD or eqn.primitive.name in HOST_CALLS


def add(graph, eqn, env, location):
    """Adds the node of a waiting equation."""
    values = [graph.read(env, var) for var in eqn.invars]
    outputs = _ADD.get(eqn.primitive, _host_call)(graph, eqn, values, location)
    env.update(zip(eqn.outvars, outputs))


def _single(graph, value, location):
    """Places the value whole on one device, so that a process can read it."""
    devices = meshes.devices_of(value.sharding) if value.sharding is not None else jax.devices()
    return graph.place(value, SingleDeviceSharding(devices[0]), location)


def _host_call(graph, eqn, values, location):
    name, params = eqn.primitive.name, eqn.params
    call = functools.partial(_call_back, name, params["callback"]) if name in CALLBACKS else functools.partial(eqn.primitive.impl, **params)
    function = lambda *operands: tuple(call(*operands))
    avals = [var.aval for var in eqn.outvars]
    operands = [_single(graph, value, location) for value in values]
    where = operands[0].sharding if operands else SingleDeviceSharding(jax.devices()[0])
    committed = any(value.committed for value in values)
    outputs = [Value(aval, where, committed=committed) for aval in avals]
    has_results = bool(avals)
    for effect in tokens.ordered(eqn.effects):
        function = tokens.passing(function)
        operands.append(graph.place(graph.token(effect), where, location))
        outputs.append(Value(tokens.AVAL, where))
        graph.tokens[effect] = outputs[-1]
    # Random keys are passed as integers, as in callbacks that jax compiles.
    number = callbacks.registry.add(callbacks.checked(function, [value.aval for value in outputs]),
                                    [physical(value.aval, value.sharding)[0].dtype for value in operands], has_results)
    title = getattr(params.get("callback"), "callback_func", params.get("callback"))
    what = HostCall(callbacks.Registration(number), getattr(title, "__name__", name))
    graph.nodes.append(Node(location, operands, outputs, waits=what))
    return outputs[:len(avals)]


def _call_back(name, callback, *operands):
    """Calls callback(*operands) with arrays on jax's own cpu, as jax does; logs and re-raises errors."""
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.default_device(cpu):
        try:
            return jax.tree.map(np.asarray, callback(*jax.device_put(operands, cpu)))
        except BaseException:
            logger.exception("jax.%s failed", name)
            raise


def _select(graph, eqn, values, location):
    index, *values = values
    index = _single(graph, index, location)
    captured, operands = _picked(eqn.params["counts"], values)
    ordered = tokens.ordered(eqn.effects)
    passed = [graph.token(effect) for effect in ordered]
    branches, results, committed = [], None, [False] * (len(eqn.outvars) + len(ordered))
    for closed, name, mine in zip(eqn.params["branches"], eqn.params["names"], captured):
        branch = graph.branch(name)
        taken = mine + operands
        inputs = {value: branch.argument(value.aval, value.sharding) for value in dict.fromkeys(taken + passed)}
        for value, inside in inputs.items():
            inside.committed = value.committed
        branch.tokens = {effect: inputs[value] for effect, value in zip(ordered, passed)}
        jaxpr = closed.jaxpr
        made = branch.run(Jaxpr((), [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns, jaxpr.effects, debug_info=_unknown(jaxpr)), (),
                          [inputs[value] for value in taken])
        made += [branch.tokens[effect] for effect in ordered]
        for value in made:
            value.sharding = value.sharding or SingleDeviceSharding(jax.devices()[0])
        for value, inside in inputs.items():  # place an input at its first use
            value.sharding = value.sharding or inside.sharding
        committed = [any(both) for both in zip(committed, (value.committed for value in made))]
        if results is None:
            results = [value.sharding for value in made]
        branches.append((branch, inputs, [branch.place(value, sharding, location) for value, sharding in zip(made, results)]))
    taken = list(dict.fromkeys(values + passed))
    for value in taken:
        value.sharding = value.sharding or SingleDeviceSharding(jax.devices()[0])
    constants = [graph.argument(argument.value.aval, argument.value.sharding, constant=argument.constant)
                 for branch, _, _ in branches for argument in branch.arguments if argument.constant is not None]
    _give_all(branches, taken, constants)
    node = Node(location, [index, *taken, *constants], [], waits=Select([branch for branch, _, _ in branches]))
    avals = [var.aval for var in eqn.outvars]
    node.outputs = [Value(*what) for what in zip(avals + [tokens.AVAL] * len(ordered), results)]
    for output, said in zip(node.outputs, committed):
        output.committed = said
    graph.tokens.update(zip(ordered, node.outputs[len(avals):]))
    graph.nodes.append(node)
    return node.outputs[:len(avals)]


_ADD = {choice.select_p: _select, choice.tangents_p: _select, loop.while_p: loop.add}


def _unknown(jaxpr):
    return jaxpr.debug_info.with_unknown_names()


def _picked(counts, values):
    """Splits values into those that each branch captures from the surrounding program, and the operands of all branches."""
    captured, at = [], 0
    for count in counts:
        captured.append(values[at:at + count])
        at += count
    return captured, values[at:]


def _give_all(branches, taken, constants):
    """Gives every branch all inputs of the node, in the node's order, including inputs that the branch does not use."""
    rest = iter(constants)
    of_branch = [[next(rest) for argument in branch.arguments if argument.constant is not None] for branch, _, _ in branches]
    for (branch, inputs, results), mine in zip(branches, of_branch):
        own = dict(zip(mine, (argument.value for argument in branch.arguments if argument.constant is not None)))
        own.update(inputs)
        arguments = []
        for value in [*taken, *constants]:
            inside = own.get(value) or Value(value.aval, value.sharding)
            inside.sharding = value.sharding = value.sharding or inside.sharding or SingleDeviceSharding(jax.devices()[0])
            arguments.append(Argument(inside))
        branch.arguments = arguments
        branch.finish(results)
