"""Puts the events of the cluster's hosts into the profiles of jax.profiler, by both doors.

jaxlib asks the profiler of each device plugin for its events. This module registers one more, libpathways_profiler.so (plugins/pathways_profiler),
which calls it when a profile starts and stops. The hosts then record, and their XSpaces become part of this process's. If that fails, a warning
says why, and the profile has the events of this process alone.

What the hosts tell depends on the user's role: an operator gets the events of all clients and of the device runtimes, a user those of this
session (docs/security.md).
"""

import base64
import ctypes
import logging

from pathways._client import questions
from pathways._cluster import binaries
from pathways._jax import seams

logger = logging.getLogger("pathways")

MOST_BYTES = 1 << 30  # of all hosts: jaxlib reads them as one message, which has less than 2 GiB
_FUNCTION = ctypes.CFUNCTYPE(None)
_CAPSULE = b"pjrt_c_api"  # the name by which jaxlib knows the capsule of a C API
_kept = []  # objects that jaxlib points to; nonempty once registered


def registered():
    return bool(_kept)


def install(live_clients):
    """Registers the profiler. live_clients(): the clients of this process that have a session. Idempotent."""
    register = seams.PLUGIN_PROFILER.find()
    if registered() or register is None:
        return
    library = ctypes.CDLL(str(binaries.find("libpathways_profiler.so", "lib")))
    library.PathwaysProfiler.restype = ctypes.c_void_p
    library.PathwaysProfiler.argtypes = [_FUNCTION, _FUNCTION]
    library.PathwaysProfilerAdd.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    profile = _Profile(live_clients, lambda piece: library.PathwaysProfilerAdd(piece, len(piece)))
    start, stop = _FUNCTION(profile.start), _FUNCTION(profile.stop)
    make_capsule = ctypes.pythonapi.PyCapsule_New
    make_capsule.restype, make_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = make_capsule(library.PathwaysProfiler(start, stop), _CAPSULE, None)
    register(capsule)
    _kept.extend([library, start, stop, capsule])


class _Profile:
    def __init__(self, live_clients, add):
        self._live_clients = live_clients
        self._add = add
        self._recording = []  # clients

    def start(self):
        self._recording = []
        for client in self._live_clients():
            try:
                questions.ask(client, {"profilerRequest": {"start": {"merged": True}}})
            except Exception as error:  # an error must not pass through jaxlib
                logger.warning("the profile will have no events of the cluster's hosts: %s", error)
            else:
                self._recording.append(client)

    def stop(self):
        left = MOST_BYTES
        for client in self._recording:
            try:
                left -= self._fetch(client, left)
            except Exception as error:
                logger.warning("the profile has no events of the cluster's hosts, or not all: %s", error)
        self._recording = []

    def _fetch(self, client, most):
        """Adds the XSpaces of all hosts that fit into `most` bytes; returns their size."""
        size = 0
        for number, host in enumerate(questions.ask(client, {"profilerRequest": {"stop": {}}})["hosts"]):
            if host["missing"]:
                logger.warning("the profile of host %s is not whole: %s", host["name"], host["missing"])
            if size + host["bytes"] > most:
                logger.warning("the profile has no events of host %s, because those of the other hosts fill %d MiB: take it with 'pathways profile', which writes a "
                               "file for each host", host["name"], MOST_BYTES >> 20)
                continue
            pieces = list(_pieces(client, number, host["bytes"]))  # all or nothing: a part of a message is none
            for piece in pieces:
                self._add(piece)
            size += host["bytes"]
        questions.ask(client, {"profilerRequest": {"drop": {}}})
        return size


def _pieces(client, host, size):
    offset = 0
    while offset < size:
        piece = base64.b64decode(questions.ask(client, {"profilerRequest": {"read": {"host": host, "offset": offset}}})["piece"])
        if not piece:
            raise ValueError("a host has sent less than it said")
        yield piece
        offset += len(piece)
