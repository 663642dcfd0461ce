"""Colocated functions in the client: each is compiled for the hosts of its devices, in its envelope (envelope.py).

If a backend does not support such a function, jax runs it in this process. A data loader or a checkpoint would then read this machine's files,
without any error. So for our devices a function runs on their hosts, or the call fails.
"""

import functools

from pathways._client import doors
from pathways._colocated import envelope
from pathways._jax import seams
from pathways._jax.after_import import call_after_import


def install(is_ours):
    """Patches jax's modules when they are imported: few programs do. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    call_after_import(seams.COLOCATED_FALLBACK.module, lambda _: _change(is_ours))  # this module imports the other one


def _change(is_ours):
    serialize, fall_back = seams.COLOCATED_SERIALIZE.find(), seams.COLOCATED_FALLBACK.find()
    if serialize is not None and not getattr(serialize, "_pathways", False):
        seams.COLOCATED_SERIALIZE.replace(_for_hosts(serialize, is_ours))
    if fall_back is not None and not getattr(fall_back, "_pathways", False):
        seams.COLOCATED_FALLBACK.replace(_without_fallback(fall_back, is_ours))


def _for_hosts(ordinary, is_ours):
    @functools.wraps(ordinary)
    def serialize(function_and_specialization):
        devices = function_and_specialization[-1]
        if not is_ours(devices[0].client):
            return ordinary(function_and_specialization)
        if doors.chosen() == "pjrt":
            raise NotImplementedError("colocated Python does not go through the PJRT door, which this process has taken: set PATHWAYS_DOOR=ifrt, or "
                                      "import jax.experimental.colocated_python before the first use of a device")
        return envelope.pack(ordinary(function_and_specialization))

    serialize._pathways = True
    return serialize


def _without_fallback(ordinary, is_ours):
    """Refuses accelerators without CPU devices beside them. jax would use this process's own CPU devices instead."""

    @functools.wraps(ordinary)
    def find(devices):
        if is_ours(devices[0].client) and devices[0].device_kind != "cpu":
            raise NotImplementedError(f"the cluster has no CPU devices beside {devices[0]}: colocated Python runs on clusters of CPU devices only")
        return ordinary(devices)

    find._pathways = True
    return find
