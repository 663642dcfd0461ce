"""Keeps jax.device_put between devices of ours on the servers.

jax reshards an array by reading its shards into the client and sending them out again. This module wraps the handler that jax
registers for its arrays (`pxla.shard_arg_handlers`), which device_put and the arguments of jit both use. One request reshards an array
from our devices to our devices, and its bytes move between the workers. Between our devices and another backend of this process, an array goes
through host memory. All other cases take jax's own path: numpy arrays, layouts, and the same sharding on other devices, which is already
one server-side copy.
"""

import functools
import logging

import numpy as np

from pathways._client import doors, programs
from pathways._jax import placement, seams

logger = logging.getLogger("pathways")


def install(is_ours):
    """Wraps jax's handler. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    found = seams.find_all(seams.SHARD_ARG, seams.ARRAY, seams.HLO_SHARDING)
    if found is None:
        return
    handlers, array_class, _ = found
    ordinary = handlers[array_class]
    if getattr(ordinary, "_pathways", False):
        return
    if (other_order := seams.OTHER_ORDER.find()) is not None:
        seams.OTHER_ORDER.replace(_for_other_order(other_order, is_ours))

    @functools.wraps(ordinary)
    def shard_arg(xs, shardings, layouts, copy_semantics):
        if any(_crosses(x, sharding, is_ours) for x, sharding in zip(xs, shardings)):
            return [_through_host(*args) if _crosses(args[0], args[1], is_ours) else shard_arg(*([a] for a in args))[0]
                    for args in zip(xs, shardings, layouts, copy_semantics)]
        plans = [_wants_reshard(x, sharding, layout, is_ours) for x, sharding, layout in zip(xs, shardings, layouts)]
        if not any(plans):
            return ordinary(xs, shardings, layouts, copy_semantics)
        results = [None] * len(xs)
        rest = [i for i, plan in enumerate(plans) if not plan]
        if rest:
            pick = lambda values: [values[i] for i in rest]
            for i, result in zip(rest, ordinary(pick(xs), pick(shardings), pick(layouts), pick(copy_semantics))):
                results[i] = result
        for i, plan in enumerate(plans):
            if plan:
                _check_guard(xs[i], shardings[i])
                results[i] = reshard(xs[i], shardings[i], donate=_donates(copy_semantics[i]))
        return results

    shard_arg._pathways = True
    handlers[array_class] = shard_arg


def _crosses(x, sharding, is_ours):
    """Whether the array moves between our devices and another backend of this process: jax's own cpu, or one of our backends that clear_backends
    dropped."""
    _check_is_there(x)
    if not x.is_fully_addressable or not sharding.is_fully_addressable:
        return False
    source, target = placement.client_of(x.sharding), placement.client_of(sharding)
    return source is not target and (is_ours(source) or is_ours(target))


def _check_is_there(x):
    if x.is_deleted():
        raise RuntimeError(f"Array has been deleted with shape={x.aval.str_short()}.")


def _through_host(x, sharding, layout, copy_semantics):
    """Moves an array between backends through a numpy array: the client libraries accept each other's arrays in some cases only."""
    return seams.SHARD_ARG.find()[np.ndarray]([np.asarray(x)], [sharding], [layout], [copy_semantics])[0]


def _for_other_order(ordinary, is_ours):
    """Wraps device_put's function for two orders of the same devices: jax compiles a program over all devices; we reshard instead."""

    @functools.wraps(ordinary)
    def different_device_order_reshard(x, target_sharding, copy):
        _check_is_there(x)
        if x.is_fully_addressable and is_ours(placement.client_of(x.sharding)):
            _check_guard(x, target_sharding)
            return reshard(x, target_sharding, donate=_donates(copy))
        return ordinary(x, target_sharding, copy)

    different_device_order_reshard._pathways = True
    return different_device_order_reshard


def _check_guard(x, sharding):
    """Applies jax.transfer_guard_device_to_device to our copies; jax's own copies check it in the client library."""
    import jax

    level = jax.config.jax_transfer_guard_device_to_device
    if level in (None, "allow") or (state := seams.TRANSFER_GUARD.find()) is None:
        return
    asked_for = state().explicit_device_put
    said = f"device-to-device transfer: aval={x.aval}, sharding={x.sharding}, dst_sharding={sharding}"
    if level == "disallow_explicit" or level == "disallow" and not asked_for:
        raise jax.errors.JaxRuntimeError(f"INVALID_ARGUMENT: Disallowed {said}")
    if level == "log_explicit" or level == "log" and not asked_for:
        logger.warning("%s", said)


def _donates(semantics):
    return semantics.name == "DONATE_INPUT"


def _wants_reshard(x, sharding, layout, is_ours):
    source = x.sharding
    if layout is not None or not x.is_fully_addressable or not sharding.is_fully_addressable:
        return False
    client = placement.client_of(source)
    if not is_ours(client) or placement.client_of(sharding) is not client:
        return False
    try:
        return not _same_parts(source, sharding, len(x.shape))
    except NotImplementedError:
        return False


def _same_parts(source, target, rank):
    """Whether device i of `source` holds the same part as device i of `target`: then jax copies part by part."""
    if source.num_devices != target.num_devices:
        return False
    if source.is_fully_replicated and target.is_fully_replicated:
        return True
    return placement.partition(source, rank) == placement.partition(target, rank)


def reshard(x, sharding, donate=False):
    """Returns x in another sharding, on any devices of the same backend."""
    if doors.chosen() == "ifrt" and (transfer := seams.TRANSFER_TO_SHARDINGS.find()) is not None:
        return transfer([x], [sharding], donate)[0]
    return programs.move(x, sharding, donate)
