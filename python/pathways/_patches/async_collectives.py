"""Runs asynchronous collectives (all_gather_start(...).done() and the like) synchronously on workers whose XLA does not support them.

jax's client serializes each program for the StableHLO version of the workers, and fails if the program uses newer operations. After such a failure
this pass replaces each asynchronous start with the collective itself, and its future with the collective's result. The results are the same, but
nothing overlaps. Workers that support asynchronous collectives receive the program unchanged.
"""

from pathways._jax import compilation

_REFUSED = "vhlo.async_start"


def _has_future(operation):
    from jax.extend.mlir.dialects import stablehlo

    return any(stablehlo.FutureType.isinstance(operand.type) for operand in operation.operands)


def _calls_control_dep(operation):
    from jax.extend.mlir import ir

    return operation.name == "stablehlo.custom_call" and ir.StringAttr(operation.attributes["call_target_name"]).value == "control_dep"


def _do_instead_of_start(start):
    (block,) = start.regions[0].blocks
    for argument, value in zip(block.arguments, start.operands):
        argument.replace_all_uses_with(value)
    *body, end = [operation.operation for operation in block.operations]
    for operation in body:
        operation.move_before(start)
    (value,) = end.operands  # jax's futures have one value
    start.results[0].replace_all_uses_with(value)
    start.erase()


def make_synchronous(module):
    """Replaces the module's asynchronous collectives with synchronous ones, in place."""
    from jax.extend.mlir import ir

    starts, ends, hints = [], [], []

    def visit(operation):
        if operation.name == "stablehlo.async_start":
            starts.append(operation)
        elif operation.name == "stablehlo.async_done":
            ends.append(operation)
        elif _calls_control_dep(operation) and _has_future(operation):
            hints.append(operation)  # orders asynchronous starts, and none remain
        return ir.WalkResult.ADVANCE

    with module.context, ir.Location.unknown():
        module.operation.walk(visit)
        for hint in hints:
            hint.erase()
        for start in starts:
            _do_instead_of_start(start)
        for end in ends:
            end.results[0].replace_all_uses_with(end.operands[0])
            end.erase()


class _MakeSynchronous(compilation.Pass):
    def retry(self, module, error):
        if _REFUSED not in str(error):
            return False
        make_synchronous(module)
        return True


_PASS = _MakeSynchronous()


def install(is_ours):
    """Registers the pass. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    compilation.add(_PASS, is_ours)
