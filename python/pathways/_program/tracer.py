"""`@pw.program`: runs one Python function that calls many compiled functions as one program.

The function is traced once for each kind of arguments (structure, shapes, types, placements, static values). The program is sent to
the controller and compiled there in parallel. Each later call is one message, however many computations the program has. Data moves
automatically between the devices of its parts. Without the decorator the function returns the same values.

    @pw.program
    def f(v):
        x = a(v)              # a, b, c: jax.jit on different devices
        return b(x), a(c(x))
"""

import functools
import inspect
import os
import threading

import jax
from jax.core import Tracer
from jax.extend import source_info_util

from pathways._client import connection, programs
from pathways._jax import mlir_context
from pathways._jax import public, seams
from pathways._program import arguments, choice, host_functions, lowering, meshes, mistakes, tokens, view
from pathways._program import graph as graphs
from pathways._program.nodes import physical

host_functions.install()
source_info_util.register_exclusion(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # errors name lines of the user's code only


def program(function=None, *, static_argnums=(), static_argnames=(), donate_argnums=()):
    """Decorates a function of pytrees of arrays. Static arguments must be hashable; the function is traced for each of their values. The caller
    cannot use donated arguments after the call. While jax traces another function, a call runs the plain function."""
    if function is None:
        return functools.partial(program, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums)
    return functools.wraps(function)(Program(function, static_argnums, static_argnames, donate_argnums))


class Program:
    def __init__(self, function, static_argnums, static_argnames, donate_argnums):
        if not callable(function) or inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"a program is a function that returns arrays, not {function!r}")
        self._function = function
        self._name = getattr(function, "__name__", "program")
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            signature = None
        self._static = arguments.choose(function, signature, "static", static_argnums, static_argnames)
        self._donate = arguments.choose(function, signature, "donate", donate_argnums)
        arguments.check_apart(function, self._static, self._donate)
        self._compiled = {}
        self._client = None  # the client of the compiled programs
        self._lock = threading.RLock()  # the function may call itself while it is traced

    def __call__(self, *args, **kwargs):
        leaves, tree, static = self._flatten(args, kwargs)
        if public.is_tracing() or any(isinstance(leaf, Tracer) for leaf in leaves):
            return self._function(*args, **kwargs)
        client = meshes.client()
        if not connection.is_ours(client):
            return self._function(*args, **kwargs)
        if client is not self._client:  # the first client, or a new one after jax's clear_backends
            self._compiled, self._client = {}, client
        return self._find(leaves, tree, static).run(leaves)

    def lower(self, *args, **kwargs):
        """Returns the program for such arguments for inspection: `.as_text()`, `.as_svg()`, `.per_device()`. Sends nothing."""
        leaves, tree, static = self._flatten(args, kwargs)
        traced = self._trace(leaves, tree, static)
        if traced is None:
            raise NotImplementedError(f"program {self._name} has no graph to show: it runs call by call, because this jax lacks a private name that tracing needs. The "
                                      "log names it")
        return view.ProgramView(traced[0])

    def _flatten(self, args, kwargs):
        static = tuple((i, args[i]) for i in sorted(self._static.positions) if i < len(args))
        static += tuple((name, kwargs[name]) for name in sorted(self._static.names) if name in kwargs)
        dynamic = tuple(None if i in self._static.positions else arg for i, arg in enumerate(args))
        named = {name: value for name, value in kwargs.items() if name not in self._static.names}
        leaves, tree = jax.tree.flatten((dynamic, named))
        return leaves, tree, static

    def _find(self, leaves, tree, static):
        try:
            key = (tree, static, tuple(map(_kind, leaves)))
            compiled = self._compiled.get(key)
        except TypeError as error:
            mistakes.in_arguments(error, self._name, leaves, tree, static)
            raise
        if compiled is None:
            with self._lock:
                compiled = self._compiled.get(key)
                if compiled is None:
                    traced = self._trace(leaves, tree, static)
                    compiled = _CallByCall(functools.partial(self._call_function, tree, static)) if traced is None else _Compiled(*traced)
                    self._compiled[key] = compiled
        return compiled

    def _call_function(self, tree, static, leaves):
        dynamic, named = jax.tree.unflatten(tree, leaves)
        args = list(dynamic)
        for where, value in static:
            if isinstance(where, int):
                args[where] = value
            else:
                named = {**named, where: value}
        return self._function(*args, **named)

    def _trace(self, leaves, tree, static):
        """Returns the graph for such arguments, the structure of its results, and their types; None if this jax lacks a name that tracing needs."""
        if not lowering.is_possible():
            return None
        out_tree = None

        @functools.wraps(self._function)  # jax's errors name the user's function
        def flat(*values):
            nonlocal out_tree
            with choice.in_program():
                results, out_tree = jax.tree.flatten(self._call_function(tree, static, values))
            return results

        avals = [jax.api_util.shaped_abstractify(leaf) for leaf in leaves]
        try:
            closed = jax.make_jaxpr(flat)(*(jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals))
        except (RecursionError, SystemError) as raised:
            error = raised if isinstance(raised, RecursionError) else raised.__cause__  # jaxlib 0.8 wraps it in a SystemError
            if not isinstance(error, RecursionError):
                raise
            error.add_note(f"program {self._name} calls itself, or something within it does, without an end: what is traced has no values to stop at. Let "
                           "arguments that are static, or Python values, say how deep to go")
            raise error
        if closed.effects and not tokens.can_order():
            return None
        graph = graphs.Graph(self._name, graphs.location(source_info_util.current()))
        donated = self._donated(tree)
        inputs = [graph.argument(aval, _placed(leaf), donated=i in donated) for i, (aval, leaf) in enumerate(zip(closed.in_avals, leaves))]
        with mlir_context.shared():
            results = graph.run(closed.jaxpr, closed.consts, inputs)
            graph.finish(results + list(graph.tokens.values()))
        graph.has_effects = bool(closed.effects)
        return graph, out_tree, closed.out_avals

    def _donated(self, tree):
        if not self._donate.positions:
            return frozenset()
        args, named = jax.tree.unflatten(tree, range(tree.num_leaves))
        given = [args[i] for i in self._donate.positions if i < len(args)] + [named[name] for name in self._donate.names if name in named]
        return frozenset(jax.tree.leaves(given))

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def _kind(leaf):
    if isinstance(leaf, jax.Array):
        return (leaf.aval, leaf.sharding if leaf.committed else None)
    return jax.api_util.shaped_abstractify(leaf)


def _parts(array):
    return [shard.data for shard in array.addressable_shards] if len(array.sharding.device_set) > 1 else [array]


def _placed(leaf):
    """Returns the sharding of a committed argument; None if it is uncommitted, or on another backend of this process and must be moved."""
    if not isinstance(leaf, jax.Array) or not leaf.committed:
        return None
    return leaf.sharding if meshes.of_the_program(meshes.devices_of(leaf.sharding)) else None


def _type_of(value):
    aval, sharding = physical(value.aval, value.sharding)
    return programs.Type(aval.dtype, aval.shape, meshes.devices_of(sharding))


class _CallByCall:
    """A program that runs as the plain function."""

    def __init__(self, function):
        self.run = function


class _Compiled:
    """A program that the controller has compiled."""

    def __init__(self, graph, out_tree, out_avals):
        self._graph = graph  # keeps the arrays that the program closes over
        self._out_tree = out_tree
        self._shardings = [argument.value.sharding for argument in graph.arguments]
        self._donated = [i for i, argument in enumerate(graph.arguments) if argument.donated]
        self._apart = graph.apart
        self._keys = frozenset(i for i, argument in enumerate(graph.arguments)
                               if jax.dtypes.issubdtype(argument.value.aval.dtype, jax.dtypes.extended))
        mistakes.in_constants(graph)
        constants = [argument for argument in graph.arguments if argument.constant is not None]
        placed = iter(self._put([argument.constant for argument in constants], [argument.value.sharding for argument in constants]))
        # Constants and the tokens of ordered effects follow the caller's arguments.
        self._own = [(argument.effect, None if argument.effect is not None else next(placed)) for argument in graph.arguments
                     if argument.constant is not None or argument.effect is not None]
        self._ordered = list(graph.tokens)  # ordered effects; their tokens are the program's last results
        client = meshes.client()
        self._effects_on = client if graph.has_effects else None
        self._execute = programs.load(client, graph.to_bytes(), [_type_of(argument.value) for argument in graph.arguments], [_type_of(value) for value in graph.results])
        self._handlers = [programs.handler(aval, value.sharding, value.committed or len(value.sharding.device_set) > 1)
                          for aval, value in zip([*out_avals, *[tokens.AVAL] * len(graph.tokens)], graph.results)]

    @staticmethod
    def _put(arrays, shardings):
        wrong = [i for i, (array, sharding) in enumerate(zip(arrays, shardings))
                 if not isinstance(array, jax.Array) or array.sharding != sharding]
        if wrong:
            arrays = list(arrays)
            placed = jax.device_put([arrays[i] for i in wrong], [shardings[i] for i in wrong])
            for i, array in zip(wrong, placed):
                arrays[i] = array
        return arrays

    def run(self, leaves):
        if self._own:
            leaves = [*leaves, *(array if effect is None else tokens.current(effect) for effect, array in self._own)]
        arrays = self._put(leaves, self._shardings)
        sent = arrays
        if self._keys:
            sent = [jax.random.key_data(array) if i in self._keys else array for i, array in enumerate(arrays)]
        if self._apart:
            sent = [part for array in sent for part in _parts(array)]
        try:
            results = self._execute(sent, self._handlers)
        except Exception as error:
            mistakes.in_call(error, self._graph, arrays)
            raise
        for i in self._donated:
            arrays[i].delete()
        if self._effects_on is not None:
            tokens.has_run(self._effects_on)
        count = len(results) - len(self._ordered)
        for effect, array in zip(self._ordered, results[count:]):
            tokens.set_current(effect, array)
        return jax.tree.unflatten(self._out_tree, results[:count])
