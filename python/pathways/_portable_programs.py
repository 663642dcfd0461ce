"""Programs in StableHLO's portable form, written for the version that a cluster's devices read.

A client may be newer than the device runtime: its programs then name operations that the runtime does not know, although older ones say
the same. jaxlib writes a program for an older version, with such operations taken apart.
"""

import io


class Unreadable(ValueError):
    """jaxlib cannot read a program, or cannot write it for the version asked for. The text names both versions."""


def _dialects():
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import chlo, sdy, stablehlo

    return ir, (stablehlo, chlo, sdy)


def _serialize(module, version):
    """The serializer that takes apart what is newer than `version`; the one of the dialect refuses such programs. Before jax 0.10 it takes
    bytecode."""
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
    """The newest version of StableHLO that this jaxlib reads and writes."""
    _, (stablehlo, *_) = _dialects()
    return stablehlo.get_current_version()


def write(module, version):
    """The bytes of a module for readers of StableHLO `version`, or of this jaxlib's own if that is older."""
    return _serialize(module, min(version, newest_version(), key=_numbers))


def translate(program, version):
    """A program in portable form, for readers of StableHLO `version`. Raises Unreadable."""
    ir, dialects = _dialects()
    complaints = []

    def heard(diagnostic):
        complaints.append(str(diagnostic.message))
        return True  # else MLIR prints it

    with ir.Context() as context:
        context.enable_multithreading(False)  # a program is small, and threads are not
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
