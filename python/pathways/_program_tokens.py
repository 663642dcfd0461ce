"""Effects of programs: their order (`io_callback(ordered=True)`, `jax.debug.print(ordered=True)`), and what `jax.effects_barrier` waits for.

jax orders effects by tokens. Within a program a token is an ordinary array, of one element that means nothing: a node with an ordered effect
takes the one that the node before it has made. So the order holds from host to host and into branches, and nothing on the way has to know of
it. Between the calls of a thread jax keeps the last token of each kind of effect. Programs take it and leave theirs there.

The tokens of XLA are no arrays. Where a compiled function has them as parameters and results, its module gets arrays in their place; and from
jit calls to programs and back a computation that does nothing else (`_pass_p`) makes the one of the other.
"""

import functools
import json
import threading

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive, Token
from jax.interpreters import mlir

from pathways import _effects
from pathways._jax import seams

AVAL = ShapedArray((), np.dtype(bool))
_NOTHING = np.zeros(AVAL.shape, AVAL.dtype)

_pass_p = Primitive("pathways_pass")
_pass_p.def_effectful_abstract_eval(lambda array, *, effect: (array, {effect}))


def _lower_pass(ctx, array, *, effect):
    ctx.set_tokens_out(mlir.TokenSet({effect: ctx.tokens_in.get(effect)}))
    return [array]


mlir.register_lowering(_pass_p, _lower_pass)


@functools.lru_cache(maxsize=None)
def _pass(effect):
    """A computation that begins when its array is there and all before it that have the effect are done."""
    return jax.jit(lambda array: _pass_p.bind(array, effect=effect))


def ordered(kinds):
    """Those of the effects that have an order."""
    kinds = list(kinds)
    return seams.ORDERED_EFFECTS.find().filter_in(kinds) if kinds else []


def can_order():
    """Whether jax says which effects have an order; where it does not, functions with effects are no programs."""
    return seams.ORDERED_EFFECTS.find() is not None


class _Unshared(threading.local):
    """As jax's table of tokens, where that is not to be had: programs keep their own order, jit calls and barriers know nothing of it."""

    def __init__(self):
        self.current_tokens = {}
        self.output_runtime_tokens = {}

    def set_token_result(self, effect, token):
        self.current_tokens[effect] = token


_unshared = _Unshared()


def _table():
    return seams.RUNTIME_TOKENS.find() or _unshared


def current(effect):
    """What the next such effect of this thread has to wait for, as an array."""
    _effects.forget_told(_table(), effect)
    token = _table().current_tokens.get(effect)
    if token is None:
        return _NOTHING
    array = getattr(token, "_of_a_program", None)
    return _pass(effect)(_NOTHING) if array is None else array


def set_current(effect, array):
    _watch_jit(type(_table()))
    token = Token(array)
    token._of_a_program = array
    _table().set_token_result(effect, token)


def _watch_jit(kind):
    """A jit call that wants the token gets one of its own kind. Idempotent. kind: the class of the table."""
    ordinary = getattr(kind, "get_token_input", None)
    if ordinary is None or getattr(ordinary, "_pathways_programs", False):
        return

    @functools.wraps(ordinary)
    def get_token_input(self, effect, devices):
        _effects.forget_told(self, effect)
        token = self.current_tokens.get(effect)
        array = getattr(token, "_of_a_program", None)
        if array is not None:
            del self.current_tokens[effect]
            _pass(effect)(array)
        return ordinary(self, effect, devices)

    get_token_input._pathways_programs = True
    kind.get_token_input = get_token_input


class Ends:
    """What `jax.effects_barrier` waits for, among the tokens of jit calls: that all runs of programs with effects have ended. One question, asked
    then; a run costs nothing."""

    def __init__(self, client):
        self._client = client
        self._error = None
        self.asked = False

    def block_until_ready(self):
        if not self.asked:
            from jax.extend.ifrt_programs import ifrt_programs

            self.asked, client, self._client = True, self._client, None
            try:
                client.compile_and_load_ifrt_program(ifrt_programs.make_plugin_program(json.dumps({"effectsRequest": {}})),
                                                     ifrt_programs.make_plugin_compile_options())
            except Exception as error:
                self._error = error
        if self._error is not None:
            raise self._error


def has_run(client):
    """A program with effects has been sent."""
    held = _table().output_runtime_tokens
    if getattr(held.get(client), "asked", True):
        held[client] = Ends(client)


def passing(function):
    """A function of the host that takes a token behind its operands, and gives one behind its results."""
    return lambda *operands: (*function(*operands[:-1]), _NOTHING)


def as_arrays(module, count):
    """A copy of the module, of which the first parameters and results, which are tokens, are arrays. What it does is done when its results are
    there, so nothing has to be computed of them."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    with module.context, ir.Location.unknown(module.context):
        copy = ir.Module.parse(mlir.module_to_bytecode(module))
        main = next(op for op in copy.body.operations if "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == "main")
        block = main.regions[0].blocks[0]
        array = ir.RankedTensorType.get(AVAL.shape, ir.IntegerType.get_signless(1))
        with ir.InsertionPoint.at_block_begin(block):
            tokens = [stablehlo.after_all([]) for _ in range(count)]
        for parameter, token in zip(block.arguments, tokens):
            parameter.replace_all_uses_with(token)
            parameter.set_type(array)
        end = block.operations[len(block.operations) - 1]
        with ir.InsertionPoint(end):
            nothing = stablehlo.constant(ir.DenseElementsAttr.get(_NOTHING, type=array.element_type, shape=AVAL.shape))
        for i in range(count):
            end.operands[i] = nothing
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([array] * count + list(kind.inputs)[count:], [array] * count + list(kind.results)[count:]))
    return copy
