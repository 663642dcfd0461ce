"""Builds the dataflow graph of a jaxpr, which `@pw.program` sends to the controller.

The jaxpr of a function that calls compiled functions has one `jit` equation for each call. Each becomes a Compute node, lowered
separately to StableHLO, on the devices that its shardings name. Other equations become nodes too, on the devices of their inputs. If a node needs
a value in another sharding, a Transfer node is inserted. Values that the caller has not placed (numpy arrays, arrays on the default device) are
placed at their first use.
"""

import functools
import os
import re

import jax
import numpy as np
from jax.core import Tracer
from jax.extend import core
from jax.extend import source_info_util
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from pathways._callbacks import callbacks
from pathways._jax import placement, public
from pathways._client import doors, wire
from pathways._program import cost, host_functions, lowering, meshes, route_nodes, tokens, waiting
from pathways._program.nodes import Argument, HostCall, HostCompute, Node, Route, Value, While, physical


class Graph:
    def __init__(self, name, called_from=""):
        self.name = name
        self._called_from = called_from  # the user's call: the location of equations that our own libraries add
        self.arguments = []
        self.nodes = []
        self.results = []
        self.tokens = {}         # kind of ordered effect -> the token of the last node with that effect
        self.has_effects = False
        self.executables = []    # bytes
        self.executable_names = []
        self.executable_flops = []
        self.executable_devices = []
        self._shardings = {}     # (devices, HLO sharding, memory kind) -> the sharding's number
        self._numbers = {}       # (sharding, rank, type of random keys) -> the sharding's number
        self._sharding_bytes = []
        self._argument_of = {}   # Value -> Argument
        self.route_sources = {}  # Value that says where rows go -> (sharding of the rows, their rank)
        self._transfers = {}     # (value, number of the sharding) -> Value
        self._inner = {}         # id of a jaxpr -> the devices named inside
        self._lowered = {}       # key of a computation -> (executable, output shardings, kept inputs, constants, ordered effects)
        self._options = {}       # compile options -> their bytes
        self._functions = {}     # key of a function on hosts -> its number among the executables
        self._keep = []          # objects whose id is part of a key

    # -- building

    def branch(self, name):
        """Returns an empty graph that shares this graph's executables and shardings."""
        branch = Graph(name, self._called_from)
        for shared in ("executables", "executable_names", "executable_flops", "executable_devices", "_shardings", "_numbers", "_sharding_bytes",
                       "_inner", "_lowered", "_options", "_functions", "_keep"):
            setattr(branch, shared, getattr(self, shared))
        return branch

    def argument(self, aval, sharding, constant=None, donated=False, effect=None):
        value = Value(aval, sharding, committed=sharding is not None)
        self.arguments.append(Argument(value, constant, donated, effect))
        self._argument_of[value] = self.arguments[-1]
        return value

    def token(self, effect):
        """Returns the token that the next node with this ordered effect takes; the first node takes the program's argument."""
        if effect not in self.tokens:
            self.tokens[effect] = self.argument(tokens.AVAL, None, effect=effect)
        return self.tokens[effect]

    def place(self, value, sharding, location):
        """Returns the value in this sharding; adds a transfer if it has another."""
        if value.sharding is None:
            value.sharding = sharding
        if self._key(value, value.sharding) == self._key(value, sharding):
            return value
        key = (value, self._key(value, sharding))
        if key not in self._transfers:
            self._transfers[key] = moved = Value(value.aval, sharding, committed=value.committed)
            self.nodes.append(Node(location, [value], [moved]))
        return self._transfers[key]

    def _key(self, value, sharding):
        """Returns the number of a sharding for such a value; shardings that put the same data on the same devices share one. O(1) when cached."""
        known = (sharding, value.aval.ndim, value.aval.dtype if public.is_of_keys(value.aval) else None)
        number = self._numbers.get(known)
        if number is None:
            aval, sharding = physical(value.aval, sharding)
            op_sharding = placement.partition(sharding, aval.ndim).to_proto().SerializeToString()
            devices = meshes.devices_of(sharding)
            key = (id(devices), op_sharding, sharding.memory_kind or "")
            if key not in self._shardings:
                self._shardings[key] = len(self._sharding_bytes)
                self._sharding_bytes.append(wire.sharding(meshes.packed_ids(devices), *key[1:]))
            number = self._numbers[known] = self._shardings[key]
        return number

    def sharding_number(self, value):
        return self._key(value, value.sharding)

    def host_function(self, key, owner, name, devices, write):
        """Returns the number of a function on hosts among the executables. write(): returns its text, the first time. `owner`: its id is in the key."""
        if key not in self._functions:
            self._functions[key] = len(self.executables)
            self.executables.append(wire.host_function(write(), meshes.packed_ids(devices), len(devices)))
            self.executable_names.append(name)
            self.executable_devices.append(devices)
            self.executable_flops.append(0)
            self._keep.append(owner)
        return self._functions[key]

    def count_host_functions(self):
        return len(self._functions)

    def run(self, jaxpr, consts, inputs):
        """Adds the equations of a jaxpr; returns its results."""
        self._debug_info = jaxpr.debug_info.with_unknown_names()
        env = dict(zip(jaxpr.invars, inputs))
        for var, const in zip(jaxpr.constvars, consts):
            if isinstance(const, Tracer):
                raise jax.errors.UnexpectedTracerError(
                    f"program {self.name} uses a traced value of an earlier call, {const.aval.str_short()}, at "
                    f"{self._first_use(jaxpr, var)}: a variable that outlives the call kept it. Return the value and pass it as an argument, "
                    "or compute it within the call")
            committed = isinstance(const, jax.Array) and const.committed
            env[var] = self.argument(var.aval, const.sharding if committed else None, constant=const)
        last_use = {var: i for i, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if isinstance(var, core.Var)}
        for var in jaxpr.outvars:
            if isinstance(var, core.Var):
                last_use.pop(var, None)
        for i, eqn in enumerate(jaxpr.eqns):
            where, self._at = location(eqn.source_info) or self._called_from, None
            try:
                self._equation(eqn, env, where, {var for var in eqn.invars if last_use.get(_var(var)) == i})
            except Exception as error:
                on = f" on {meshes.named(self._at)}" if self._at is not None else ""
                error.add_note(f"in program {self.name}, at {_at(where, eqn.params.get('name', eqn.primitive.name))}{on}")
                raise
        return [self.read(env, var) for var in jaxpr.outvars]

    def _first_use(self, jaxpr, var):
        return next((location(eqn.source_info) for eqn in jaxpr.eqns if var in eqn.invars), "") or self._called_from

    def read(self, env, var):
        if isinstance(var, core.Literal):
            return self.argument(var.aval, None, constant=np.asarray(var.val, var.aval.dtype))
        return env[var]

    def _equation(self, eqn, env, location, ending):
        if eqn.primitive.name == "device_put":
            for var, out, target in zip(eqn.invars, eqn.outvars, eqn.params["devices"]):
                value = self.read(env, var)
                if isinstance(target, jax.Device):
                    target = SingleDeviceSharding(target)
                env[out] = value if target is None else _committed(self.place(value, target, location))
            return
        if eqn.primitive is host_functions.call_p:
            return host_functions.add(self, eqn, env, location)
        if route_nodes.is_route(eqn):
            return route_nodes.add(self, eqn, env, location)
        if waiting.is_waiting(eqn):
            return waiting.add(self, eqn, env, location)
        # Literals become constants in the equation's module.
        variables = [var for var in eqn.invars if isinstance(var, core.Var)]
        values = [env[var] for var in variables]
        if eqn.primitive.name == "jit":
            closed = eqn.params["jaxpr"]
            pick = lambda items: [item for item, var in zip(items, eqn.invars) if isinstance(var, core.Var)]
            wanted, donated = pick(eqn.params["in_shardings"]), pick(eqn.params["donated_invars"])
            outs = list(eqn.params["out_shardings"])
            literals = tuple(None if isinstance(var, core.Var) else (var.val, var.aval.dtype) for var in eqn.invars)
            what = ("jit", id(closed), repr(literals))
            function = _with_literals(core.jaxpr_as_fun(closed), literals)
            params = eqn.params if not any(literals) else None
            name = eqn.params["name"]
            self._keep.append(closed)
        else:
            jaxpr = core.Jaxpr((), variables, eqn.outvars, [eqn], eqn.effects, debug_info=self._debug_info)
            closed = core.ClosedJaxpr(jaxpr, ())
            wanted, donated = [public.unspecified()] * len(values), [False] * len(values)
            outs = [public.unspecified()] * len(eqn.outvars)
            what = (str(jaxpr),)
            function, params = core.jaxpr_as_fun(closed), None
            name = eqn.primitive.name
        devices, said = self._devices(closed, wanted, outs, values)
        if not meshes.of_the_program(devices):
            raise ValueError(f"{name} is compiled for device {', '.join(map(str, devices[:8]))}, of another backend than the program's: "
                             "compile it for devices of jax.devices(), or call it outside of the program")
        self._at = devices
        wanted = [self._wanted(w, value, devices, i, closed) for i, (w, value) in enumerate(zip(wanted, values))]
        outs = [public.unspecified() if _is_open(out) else _concrete(out, devices) for out in outs]
        inputs = [self.place(value, sharding, location) for value, sharding in zip(values, wanted)]
        for var, value, gives in zip(variables, values, donated):
            if gives and var in ending and value in self._argument_of:
                self._argument_of[value].donated = True
        lower = functools.partial(self._lower, function, name, inputs, wanted, outs, donated, devices, params)
        outputs = self._compute(lower, what, inputs, wanted, outs, donated, devices, eqn.outvars, location)
        for output in outputs:
            output.committed = said
        env.update(zip(eqn.outvars, outputs))

    def _devices(self, closed, wanted, outs, values):
        """Returns the devices of an equation, from its shardings or else from its inputs, and whether they are the user's choice."""
        for sharding in [*wanted, *outs]:
            found = _concrete_devices(sharding)
            if found:
                return found, True
        if id(closed) not in self._inner:
            self._keep.append(closed)
            self._inner[id(closed)] = next(filter(None, map(_concrete_devices, _inner_shardings(closed.jaxpr))), ())
        if self._inner[id(closed)]:
            return self._inner[id(closed)], True
        placed = [value for value in values if value.sharding is not None]
        for value in placed:
            if value.committed:
                return meshes.devices_of(value.sharding), True
        return meshes.devices_of(placed[0].sharding if placed else SingleDeviceSharding(jax.devices()[0])), False

    def _wanted(self, sharding, value, devices, position, closed):
        if not _is_open(sharding):
            return _concrete(sharding, devices)
        if value.sharding is not None and meshes.devices_of(value.sharding) is devices:
            return value.sharding
        eqns = closed.jaxpr.eqns
        if len(eqns) == 1 and eqns[0].primitive.name == "shard_map":  # such as pmap
            for var, spec in zip(eqns[0].invars, eqns[0].params["in_specs"]):
                if position < len(closed.jaxpr.invars) and var is closed.jaxpr.invars[position]:
                    return _concrete(NamedSharding(eqns[0].params["mesh"], spec), devices)
        return meshes.replicated(devices)

    def _compute(self, lower, what, inputs, wanted, outs, donated, devices, outvars, location):
        key = (what, tuple(map(self._key, inputs, wanted)), tuple(outs), tuple(donated),
               tuple((v.aval.shape, v.aval.dtype, v.aval.weak_type) for v in inputs), id(devices))
        if key not in self._lowered:
            self._lowered[key] = lower()
        executable, out_shardings, kept, constants, ordered = self._lowered[key]
        taken = tuple(value for value, gives in zip(inputs, donated) if gives)
        hoisted = [self.argument(jax.typeof(array), sharding, constant=array) for array, sharding in constants]
        outputs = [Value(var.aval, sharding) for var, sharding in zip(outvars, out_shardings)]
        before = [self.place(self.token(effect), meshes.replicated(devices), location) for effect in ordered]
        after = [Value(tokens.AVAL, meshes.replicated(devices)) for _ in ordered]
        self.tokens.update(zip(ordered, after))
        self.nodes.append(Node(location, before + hoisted + [inputs[i] for i in kept], after + outputs, executable, taken))
        return outputs

    def _lower(self, function, name, inputs, wanted, outs, donated, devices, params):
        lowered = lowering.as_traced(params, inputs, wanted, outs, donated, devices)
        if lowered is None:
            lowered = lowering.traced_anew(function, name, inputs, wanted, outs, donated, devices)
        args = lowered.computation.compile_args
        if any(callback is not callbacks.MARK for callback in args["host_callbacks"]):
            raise NotImplementedError(f"{name} calls Python by a mechanism of jax that pw.program does not know: call it outside of the program, or use "
                                      "jax.pure_callback or io_callback")
        self._keep.append(args["keepalive"])  # the host functions that it calls
        out_shardings = list(args["out_shardings"])
        if any(public.is_unspecified(s) for s in out_shardings):
            if len(devices) == 1:
                out_shardings = [SingleDeviceSharding(devices[0])] * len(out_shardings)
            else:  # only the compiler knows; the controller's later compilation hits the workers' cache
                out_shardings = lowered.compiled_shardings()
        out_shardings = [_concrete(s, devices) for s in out_shardings]
        constants = list(zip(lowered.computation.const_args, args["in_shardings"]))
        kept = [i - len(constants) for i in sorted(args["kept_var_idx"]) if i >= len(constants)]
        self.executables.append(lowering.executable_bytes(lowered, devices, meshes.packed_ids(devices), self._options))
        self.executable_names.append(name)
        self.executable_devices.append(devices)
        self.executable_flops.append(cost.flops(lowered.jaxpr))
        return len(self.executables) - 1, out_shardings, kept, constants, args["ordered_effects"]

    # -- writing

    def finish(self, results):
        default = SingleDeviceSharding(jax.devices()[0])
        for value in [*results, *(argument.value for argument in self.arguments)]:
            if value.sharding is None:
                value.sharding = default
        self.results = results
        counts = {len(meshes.devices_of(a.value.sharding)) for a in self.arguments}
        # The proxy's client library requires all arrays of a call to have equally many shards.
        self.apart = len(counts) > 1 and doors.chosen() == "ifrt"
        self._used = {id(v) for node in self.nodes for v in node.inputs} | {id(v) for v in results}

    def number_values(self):
        values = [argument.value for argument in self.arguments] + [value for node in self.nodes for value in node.outputs]
        for number, value in enumerate(values):
            value.number = number

    def to_bytes(self):
        self.number_values()
        branches = []
        nodes = self._node_bytes(branches)
        return wire.program(self.name, self.executables, self._sharding_bytes, nodes, branches, self.has_effects)

    def _node_bytes(self, branches):
        """Returns the bytes of the nodes. Appends the branches' bytes to `branches`, each after the branches that it uses."""
        nodes = []
        for i, argument in enumerate(self.arguments):
            apart = self.apart and len(meshes.devices_of(argument.value.sharding)) > 1
            nodes.append(wire.arg(f"argument {i}", self._type(argument.value, f"argument {i}"), argument.donated, apart))
        for node in self.nodes:
            inputs = [value.number for value in node.inputs]
            if node.is_transfer:
                target = node.outputs[0].sharding
                where = _at(node.location, f"to {meshes.named(meshes.devices_of(target))}")
                nodes.append(wire.transfer(where, inputs[0], self._key(node.outputs[0], target)))
            elif node.waits is None:
                devices = meshes.named(self.executable_devices[node.executable])
                where = _at(node.location, f"{self.executable_names[node.executable]} on {devices}")
                nodes.append(wire.compute(where, node.executable, inputs, len(node.outputs)))
            else:
                nodes.append(self._waiting_bytes(node, inputs, branches))
        for i, value in enumerate(self.results):
            nodes.append(wire.result(f"result {i}", value.number))
        return nodes

    def _waiting_bytes(self, node, inputs, branches):
        types = [wire.type_(*self._type(value, "a result")) for value in node.outputs]
        if isinstance(node.waits, HostCall):
            where = _at(node.location, f"{node.waits.name} called in the client's process")
            return wire.host_call(where, node.waits.number, inputs, types, node.waits.name)
        if isinstance(node.waits, HostCompute):
            where = _at(node.location, f"{node.waits.name} on the hosts of {meshes.named(self.executable_devices[node.executable])}")
            takes = [wire.type_(*self._type(value, "an argument of a function on hosts")) for value in node.inputs]
            return wire.host_compute(where, node.executable, inputs, takes, types, node.waits.name)
        if isinstance(node.waits, Route):
            takes = [wire.type_(*self._type(value, "an array to route")) for value in node.inputs]
            return wire.route(_at(node.location, "route back" if node.waits.back else "route"), node.waits.back, inputs, takes, types, node.waits.groups)
        graphs = [node.waits.turn] if isinstance(node.waits, While) else node.waits.branches
        numbers = []
        for branch in graphs:
            branch.apart = False
            branch.number_values()
            written = wire.branch(branch.name, branch._node_bytes(branches))
            numbers.append(len(branches))
            branches.append(written)
        if isinstance(node.waits, While):
            return wire.while_loop(_at(node.location, f"loop {node.waits.turn.name}"), inputs[0], inputs[1:], types, numbers[0])
        return wire.select(node.location, inputs[0], inputs[1:], types, numbers)

    def _type(self, value, what):
        aval, _ = physical(value.aval, value.sharding)
        if str(aval.dtype) not in wire.DTYPES:
            raise NotImplementedError(f"{what} of program {self.name} has elements of type {aval.dtype}, which pw.program cannot pass: convert it first")
        return wire.DTYPES[str(aval.dtype)], aval.shape, self._key(value, value.sharding)


def _at(location, what):
    """Returns the text by which errors describe a node."""
    return f"{location}, {what}" if location else what


def _committed(value):
    value.committed = True
    return value


def _var(var):
    return var if isinstance(var, core.Var) else None


def _with_literals(function, literals):
    if all(literal is None for literal in literals):
        return function

    def call(*args):
        rest = iter(args)
        return function(*(next(rest) if literal is None else np.asarray(*literal) for literal in literals))

    return call


def _is_open(sharding):
    """Whether the sharding is unspecified."""
    return sharding is None or public.is_unspecified(sharding)


def _concrete_devices(sharding):
    if _is_open(sharding):
        return ()
    try:
        return meshes.devices_of(sharding)
    except (ValueError, AttributeError):  # over an abstract mesh
        return ()


def _concrete(sharding, devices):
    if _concrete_devices(sharding):
        return sharding
    return public.with_devices(sharding, devices)


def _inner_shardings(jaxpr):
    """Yields the shardings named inside a computation."""
    for eqn in jaxpr.eqns:
        for name in ("in_shardings", "out_shardings"):
            yield from eqn.params.get(name, ())
        if eqn.primitive.name == "sharding_constraint":
            yield eqn.params["sharding"]
        mesh = eqn.params.get("mesh")
        if isinstance(mesh, jax.sharding.Mesh):
            yield NamedSharding(mesh, PartitionSpec())
        for inner in public.inner_jaxprs(eqn.params):
            yield from _inner_shardings(inner)


# jax's text for a source location: "/home/me/train.py:17:4 (Model.step)", or "unknown".
_PLACE = re.compile(r"(?P<file>.*?):(?P<line>\d+)(:\d+)? \((?P<function>.*)\)")


def location(source_info):
    place = _PLACE.fullmatch(source_info_util.summarize(source_info))
    if place is None:
        return ""
    return f"{os.path.basename(place['file'])}:{place['line']} in {place['function'].rsplit('.', 1)[-1]}"
