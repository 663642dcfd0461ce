"""Questions to the cluster on a client's own connection, in JSON (pathways/session/questions.h)."""

import contextlib
import json

import numpy as np

from pathways._client import doors


def ask(client, request):
    """Sends the request, {kind: contents}, after all earlier requests of the client; returns the answer."""
    if doors.chosen() == "pjrt":
        return json.loads(doors.ask(client, json.dumps(request)))
    executable = _compile(client, request)
    [[answer]] = executable.execute_sharded([]).disassemble_into_single_device_arrays()
    return json.loads(np.asarray(answer).tobytes())


def tell(client, request):
    """Sends a request like ask(), and reads no answer: it would be empty."""
    if doors.chosen() == "pjrt":
        doors.ask(client, json.dumps(request))
    else:
        _compile(client, request)


@contextlib.contextmanager
def errors_as(kind, invalid=None):
    """Raises jax's errors as `kind`, without their codes; INVALID_ARGUMENT as `invalid`, if that is given."""
    import jax

    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        code, _, text = str(error).partition(": ")
        raise (invalid if invalid and code == "INVALID_ARGUMENT" else kind)(text or code) from None


def _compile(client, request):
    """Asks through the proxy: compiling a question asks it, and executing it returns the answer."""
    from jax.extend.ifrt_programs import ifrt_programs as programs

    return client.compile_and_load_ifrt_program(programs.make_plugin_program(json.dumps(request)), programs.make_plugin_compile_options())
