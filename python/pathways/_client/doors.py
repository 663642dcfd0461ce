"""The two doors by which jax enters a cluster, and the choice of this process's door.

"ifrt": jaxlib's IFRT proxy client, which talks to a process beside this one (connection.py). It costs much for each call and nothing for each shard.
"pjrt": a PJRT plugin in this process, which talks to the cluster itself. It costs little for each call. Some features are still missing; their
errors name PATHWAYS_DOOR=ifrt. docs/design/two-doors.md lists them.

PATHWAYS_DOOR chooses. Without it, a process with its own cluster of one host and few CPU devices takes "pjrt", and runs that cluster itself. Others
take "ifrt".
"""

import ctypes
import functools
import os
import secrets
import sys

from pathways._callbacks import callbacks, host_calls
from pathways._cluster import credentials
from pathways._jax import virtual_devices

DOORS = ("ifrt", "pjrt")
FEW_DEVICES = 8  # beyond, the PJRT door's cost for each shard outweighs what it saves for each call (docs/design/two-doors.md)
_WANT_IFRT = ("pathwaysutils", "jax.experimental.colocated_python")  # modules that send the client's own kinds of IFRT programs
_FIRST_PROCESS = os.getpid()
_CODES = ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
          "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED")


@functools.cache
def chosen():
    """Returns this process's door: the value of PATHWAYS_DOOR at the first call, or else the better door for what is known then. A process has one
    door, because jax is patched for it."""
    door = os.environ.get("PATHWAYS_DOOR") or _better()
    if door not in DOORS:
        raise ValueError(f"PATHWAYS_DOOR must be one of {', '.join(DOORS)}, not '{door}'")
    return door


def _better():
    from pathways._cluster import command_lines, local
    from pathways._jax import seams

    if os.environ.get("PATHWAYS_ADDRESS") or any(module in sys.modules for module in _WANT_IFRT):
        return "ifrt"
    try:
        shape = local.default_shape()
    except ValueError:
        return "ifrt"  # the first use of a device raises it again, where the user sees it
    small = shape.islands == shape.hosts == 1 and shape.devices <= FEW_DEVICES
    known = command_lines.default_platform() == "cpu"  # other device runtimes have not been tried in the program's process
    return "pjrt" if small and known and seams.PLUGIN_CLIENT.find() is not None else "ifrt"


def _path():
    from pathways._cluster import binaries

    return str(binaries.find("libpathways_pjrt.so", "lib"))


def load():
    """Loads our PJRT plugin into jaxlib. Returns the module of jaxlib that makes its clients. Idempotent."""
    from pathways._jax import seams

    xla_client = seams.PLUGIN_CLIENT.find()
    if xla_client is None:
        raise RuntimeError(f"this jax cannot load the PJRT door: it wants {seams.PLUGIN_CLIENT.full_name} of jaxlib {seams.PLUGIN_CLIENT.since} or newer. "
                           "Set PATHWAYS_DOOR=ifrt")
    if not xla_client.pjrt_plugin_loaded("pathways"):
        # jaxlib's dlopen finds the library open already. The plugin must use its own protobuf and abseil: a program that has imported tensorflow
        # has others in the global scope, and the plugin would abort this process there.
        path = _path()
        ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW | os.RTLD_DEEPBIND)
        xla_client.load_pjrt_plugin_dynamically("pathways", path)
    if not xla_client.pjrt_plugin_initialized("pathways"):
        xla_client.initialize_pjrt_plugin("pathways")
    return xla_client


def cluster_in_this_process():
    """Whether a local cluster of one host runs in this process: by the PJRT door it does, unless PATHWAYS_LOCAL_PROCESS=separate. A forked child
    starts a process for it, because the device runtime that its parent may have loaded does not survive a fork."""
    where = os.environ.get("PATHWAYS_LOCAL_PROCESS") or "own"
    if where not in ("own", "separate"):
        raise ValueError(f"PATHWAYS_LOCAL_PROCESS must be own or separate, not '{where}'")
    return chosen() == "pjrt" and where == "own" and os.getpid() == _FIRST_PROCESS


def load_device_runtime(library, log):
    """Loads a device plugin into this process, before the PJRT door does. XLA reads its log level when it is loaded, and logs some lines at every
    level. They go to the file `log`, as from a process of its own; failures reach the user as errors."""
    name, level, stderr = "TF_CPP_MIN_LOG_LEVEL", os.environ.get("TF_CPP_MIN_LOG_LEVEL"), os.dup(2)
    os.environ[name] = "3"
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 2)
        ctypes.CDLL(str(library), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError:
        pass  # the door fails as well, and says why
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        if level is None:
            del os.environ[name]
        else:
            os.environ[name] = level


def _access(controller):
    """Returns this user's flags for the controller as options of the plugin: {"token_file": ...} or {"tls": "off"}."""
    words = [str(word) for word in credentials.flags(controller)]
    return {flag.removeprefix("--").replace("-", "_"): value for flag, value in zip(words[::2], words[1::2])}


def connect(where, seconds, callback_socket, asks):
    """Opens a session through the PJRT plugin; returns jax's client. `where`: {"cluster": the controller's address}, or {"local": flags of a cluster
    in this process}. `seconds`: the time for which the controller may be unreachable. `callback_socket`: the path at which the plugin passes on
    programs' calls of this process's Python functions. `asks`: its share of the devices' time, and what follows when a computation hangs: {"weight": number,
    "priority": number, "on_hang": "end" or "report"}."""
    token = secrets.token_hex(16)
    options = {**where, "description": f"a jax program, process {os.getpid()}", "patience": max(1, round(seconds)),
               "callback_socket": str(callback_socket), "callback_token": token, "virtual_devices": int(virtual_devices.can_hide()),
               **{name: str(value) for name, value in asks.items()}, **(_access(where["cluster"]) if "cluster" in where else {})}
    client = load().make_c_api_client("pathways", options)
    virtual_devices.hide(client)
    host_calls.CallServer(callback_socket, token, callbacks.registry)
    return client


@functools.cache
def _functions():
    """Returns the plugin's functions for this package (plugins/pathways_pjrt/package_calls.h)."""
    library = ctypes.CDLL(_path())  # the one that jaxlib has loaded
    library.PathwaysAsk.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)]
    library.PathwaysFree.argtypes = [ctypes.c_void_p]
    return library


def ask(client, question):
    """Asks the cluster of a client of this door a question in JSON; returns the answer's text."""
    import jax

    text, size, asked = ctypes.c_void_p(), ctypes.c_size_t(), question.encode()
    code = _functions().PathwaysAsk(client.pathways_number, asked, len(asked), ctypes.byref(text), ctypes.byref(size))
    try:
        said = ctypes.string_at(text, size.value).decode()
    finally:
        _functions().PathwaysFree(text)
    if code != 0:
        raise jax.errors.JaxRuntimeError(f"{_CODES[code]}: {said}")
    return said
