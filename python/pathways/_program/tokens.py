"""Effects of programs: orders them (`io_callback(ordered=True)`, `jax.debug.print(ordered=True)`), and makes `jax.effects_barrier` wait for them.

jax orders effects by tokens. Within a program a token is an ordinary array of one meaningless element: a node with an ordered effect takes the
token that the previous such node made. So the order holds across hosts and into branches without special support. Between the calls of
a thread, jax keeps the last token of each kind of effect; a program takes it and stores its own.

XLA's tokens are not arrays. If a compiled function has tokens as parameters and results, we replace them by arrays in its module. Between
jit calls and programs, an empty computation (`_pass_p`) converts one into the other.
"""

import functools
import threading

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive, Token
from jax.interpreters import mlir

from pathways._callbacks import effect_errors
from pathways._client import questions
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
    """Returns a computation that starts once its array is ready and all earlier computations with the effect have ended."""
    return jax.jit(lambda array: _pass_p.bind(array, effect=effect))


def ordered(kinds):
    """Returns the ordered effects among `kinds`."""
    kinds = list(kinds)
    return seams.ORDERED_EFFECTS.find().filter_in(kinds) if kinds else []


def can_order():
    """Whether jax tells which effects are ordered; if not, functions with effects run call by call."""
    return seams.ORDERED_EFFECTS.find() is not None


class _Unshared(threading.local):
    """Replaces jax's table of tokens if this jax has none: programs keep their order among themselves, but not with jit calls and barriers."""

    def __init__(self):
        self.current_tokens = {}
        self.output_runtime_tokens = {}

    def set_token_result(self, effect, token):
        self.current_tokens[effect] = token


_unshared = _Unshared()


def _table():
    return seams.RUNTIME_TOKENS.find() or _unshared


def current(effect):
    """Returns, as an array, the token that this thread's next such effect must wait for."""
    effect_errors.forget_told(_table(), effect)
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
    """Makes jit calls get an XLA token instead of a program's array. Idempotent. kind: the class of the table."""
    ordinary = getattr(kind, "get_token_input", None)
    if ordinary is None or getattr(ordinary, "_pathways_programs", False):
        return

    @functools.wraps(ordinary)
    def get_token_input(self, effect, devices):
        effect_errors.forget_told(self, effect)
        token = self.current_tokens.get(effect)
        array = getattr(token, "_of_a_program", None)
        if array is not None:
            del self.current_tokens[effect]
            _pass(effect)(array)
        return ordinary(self, effect, devices)

    get_token_input._pathways_programs = True
    kind.get_token_input = get_token_input


class Ends:
    """Stands among the tokens of jit calls that `jax.effects_barrier` waits for, until all runs of programs with effects have ended. It sends one
    request, at the barrier; a run costs nothing."""

    def __init__(self, client):
        self._client = client
        self._error = None
        self.asked = False

    def block_until_ready(self):
        if not self.asked:
            self.asked, client, self._client = True, self._client, None
            try:
                questions.tell(client, {"effectsRequest": {}})
            except Exception as error:
                self._error = error
        if self._error is not None:
            raise self._error


def has_run(client):
    """Records that a program with effects has been sent, so that the next barrier waits for it."""
    held = _table().output_runtime_tokens
    if getattr(held.get(client), "asked", True):
        held[client] = Ends(client)


def passing(function):
    """Wraps a host function to take a token after its operands and return one after its results."""
    return lambda *operands: (*function(*operands[:-1]), _NOTHING)


def as_arrays(module, count):
    """Returns a copy of the module with arrays for its first `count` parameters and results, which are tokens. The arrays can be constants: the
    module's effects are complete when its results are ready."""
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
