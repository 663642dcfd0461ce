"""Writes programs in StableHLO's portable form, for the version that a cluster's device runtime reads.

A client may be newer than the device runtime. Its programs may then use operations that the runtime does not know but older operations can
express. jaxlib can write a program for an older version, and decomposes such operations.
"""

import io


class Unreadable(ValueError):
    """jaxlib cannot read a program, or cannot write it for the requested version. The text names both versions."""


def _dialects():
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import chlo, sdy, stablehlo

    return ir, (stablehlo, chlo, sdy)


def _serialize(module, version):
    """Serializes a module, decomposing operations newer than `version`; the dialect's own serializer refuses such programs. Before jax 0.10
    this serializer takes bytecode."""
    from jax.extend.mlir import serialize_portable_artifact

    try:
        return serialize_portable_artifact(module, version, use_mixed_serialization=True)
    except TypeError:
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
        return serialize_portable_artifact(bytecode.getvalue(), version, use_mixed_serialization=True)


def _numbers(version):
    return tuple(int(part) for part in version.split("."))


def newest_version():
    """Returns the newest version of StableHLO that this jaxlib reads and writes."""
    _, (stablehlo, *_) = _dialects()
    return stablehlo.get_current_version()


def write(module, version):
    """Returns the bytes of a module for readers of StableHLO `version`, or of jaxlib's newest version if that is older."""
    return _serialize(module, min(version, newest_version(), key=_numbers))


def translate(program, version):
    """Rewrites a program in portable form for readers of StableHLO `version`. Raises Unreadable."""
    ir, dialects = _dialects()
    complaints = []

    def heard(diagnostic):
        complaints.append(str(diagnostic.message))
        return True  # else MLIR prints it

    with ir.Context() as context:
        context.enable_multithreading(False)  # starting threads costs more than a small program
        for dialect in dialects:
            dialect.register_dialect(context)
        handler = context.attach_diagnostic_handler(heard)
        try:
            return write(dialects[0].deserialize_portable_artifact(context, program), version)
        except Exception as error:
            import jaxlib

            why = "; ".join([*complaints, str(error)])
            raise Unreadable(f"jaxlib {jaxlib.__version__}, which knows StableHLO up to {newest_version()}, cannot write the program for "
                             f"StableHLO {version}: {why}") from None
        finally:
            handler.detach()
