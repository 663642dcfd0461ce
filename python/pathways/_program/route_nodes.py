"""Makes the nodes of routes in programs (route.py): rows that travel from host to host, to where values say."""

import jax
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from pathways._jax import public
from pathways._program import meshes, route
from pathways._program.nodes import Node, Route, Value

PRIMITIVES = (route.route_p, route.rows_p, route.back_p)


def is_route(eqn):
    return eqn.primitive in PRIMITIVES


def add(graph, eqn, env, location):
    """Adds the node of a route's equation."""
    values = [graph.read(env, var) for var in eqn.invars]
    if eqn.primitive is route.back_p:
        outputs = _back(graph, eqn, values, location)
    else:
        outputs = _out(graph, eqn, values, location)
    env.update(zip(eqn.outvars, outputs))


def _out(graph, eqn, values, location):
    x, where = values[:2]  # those after them are the slots, which hosts find anew
    groups = eqn.params["groups"]
    source = _source(x)
    inputs = [graph.place(x, source, location), graph.place(where, public.by_rows(source, x.aval.ndim, 1), location)]
    graph.route_sources[where] = source, x.aval.ndim
    outputs = [Value(var.aval, groups.shardings[i % len(groups.shardings)]) for i, var in enumerate(eqn.outvars)]
    _add(graph, location, inputs, outputs, False, groups, eqn.params["capacity"])
    return outputs


def _back(graph, eqn, values, location):
    groups = eqn.params["groups"]
    *rows_and_slots, where = values
    shardings = list(groups.shardings) * 2
    inputs = [graph.place(value, sharding, location) for value, sharding in zip(rows_and_slots, shardings)]
    source, rank = graph.route_sources.get(where, (_source(where), 1))  # in a branch of a choice, only `where` tells
    output = Value(eqn.outvars[0].aval, public.by_rows(source, rank, eqn.outvars[0].aval.ndim))
    _add(graph, location, inputs, [output], True, groups, rows_and_slots[0].aval.shape[1])
    return [output]


def _source(value):
    """Returns the sharding in which rows are sent: the value's own if it cuts rows alone, else one that does."""
    sharding = value.sharding or SingleDeviceSharding(jax.devices()[0])
    if public.by_rows(sharding, value.aval.ndim, value.aval.ndim) is not None:
        return sharding
    if isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:1]), memory_kind=sharding.memory_kind)
    return meshes.replicated(meshes.devices_of(sharding))


def _add(graph, location, inputs, outputs, back, groups, capacity):
    graph.nodes.append(Node(location, inputs, outputs, waits=Route(back, len(groups.experts), groups.total, capacity)))
