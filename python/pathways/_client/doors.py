"""The two doors by which jax enters a cluster, and which one this process takes.

"ifrt": jaxlib's IFRT proxy client, which talks to a process beside this one (connection.py). It costs much for each call and nothing for each shard.
"pjrt": a PJRT plugin in this process, which talks to the cluster itself. It costs little for each call. It does not have everything yet:
what is missing says so, and names PATHWAYS_DOOR=ifrt. docs/design/two-doors.md has the list.
"""

import functools
import os
import secrets

from pathways._callbacks import callbacks, host_calls
from pathways._cluster import credentials

DOORS = ("ifrt", "pjrt")


@functools.cache
def chosen():
    """Returns the door that PATHWAYS_DOOR names when this is first asked; "ifrt" if it names none. A process has one door, because jax is patched for it."""
    door = os.environ.get("PATHWAYS_DOOR") or "ifrt"
    if door not in DOORS:
        raise ValueError(f"PATHWAYS_DOOR must be one of {', '.join(DOORS)}, not '{door}'")
    return door


def need_ifrt(what):
    """Raises NotImplementedError if this process enters by the PJRT door, which lacks `what`."""
    if chosen() == "pjrt":
        raise NotImplementedError(f"{what} is not implemented by Pathways' PJRT door; set PATHWAYS_DOOR=ifrt to enter by the door that has it")


def load():
    """Loads our PJRT plugin into jaxlib. Returns the module of jaxlib that makes its clients. Idempotent."""
    from pathways._cluster import binaries
    from pathways._jax import seams

    xla_client = seams.PLUGIN_CLIENT.find()
    if xla_client is None:
        raise RuntimeError(f"this jax cannot load the PJRT door: it wants {seams.PLUGIN_CLIENT.full_name} of jaxlib {seams.PLUGIN_CLIENT.since} or newer. "
                           "Set PATHWAYS_DOOR=ifrt")
    if not xla_client.pjrt_plugin_loaded("pathways"):
        xla_client.load_pjrt_plugin_dynamically("pathways", str(binaries.find("libpathways_pjrt.so", "lib")))
    if not xla_client.pjrt_plugin_initialized("pathways"):
        xla_client.initialize_pjrt_plugin("pathways")
    return xla_client


def _access(controller):
    """Returns the plugin's options for what this user's flags to the controller say: {"token_file": ...} or {"tls": "off"}."""
    words = [str(word) for word in credentials.flags(controller)]
    return {flag.removeprefix("--").replace("-", "_"): value for flag, value in zip(words[::2], words[1::2])}


def connect(controller, seconds, callback_socket):
    """Opens a session with the controller through the PJRT plugin; returns jax's client. `seconds`: how long it may be out of reach.
    `callback_socket`: where programs' calls of this process's functions are to come."""
    token = secrets.token_hex(16)
    options = {"cluster": controller, "description": f"a jax program, process {os.getpid()}", "patience": max(1, round(seconds)),
               "callback_socket": str(callback_socket), "callback_token": token, **_access(controller)}
    client = load().make_c_api_client("pathways", options)
    host_calls.CallServer(callback_socket, token, callbacks.registry)
    return client
