"""Questions to the cluster on a client's own connection, in JSON (pathways/session/questions.h)."""

import json

import numpy as np

from pathways._client import doors


def ask(client, request):
    """Sends the request, {kind: what}, after all earlier requests of the client; returns the answer."""
    if doors.chosen() == "pjrt":
        return json.loads(doors.ask(client, json.dumps(request)))
    executable = _compile(client, request)
    [[answer]] = executable.execute_sharded([]).disassemble_into_single_device_arrays()
    return json.loads(np.asarray(answer).tobytes())


def tell(client, request):
    """As ask, for a request whose answer says nothing."""
    if doors.chosen() == "pjrt":
        doors.ask(client, json.dumps(request))
    else:
        _compile(client, request)


def _compile(client, request):
    """Asks through the proxy: compiling a question asks it, and executing it returns the answer."""
    from jax.extend.ifrt_programs import ifrt_programs as programs

    return client.compile_and_load_ifrt_program(programs.make_plugin_program(json.dumps(request)), programs.make_plugin_compile_options())
