"""Questions to the cluster on a client's own connection: plugin programs whose result is JSON text (frontend/plugin_programs/text_answer.h)."""

import json

import numpy as np

from pathways._client import doors


def ask(client, request):
    """Sends the request, {kind: what}, after all earlier requests of the client; returns the answer."""
    from jax.extend.ifrt_programs import ifrt_programs as programs

    doors.need_ifrt("a question to the cluster")
    executable = client.compile_and_load_ifrt_program(programs.make_plugin_program(json.dumps(request)), programs.make_plugin_compile_options())
    [[answer]] = executable.execute_sharded([]).disassemble_into_single_device_arrays()
    return json.loads(np.asarray(answer).tobytes())
