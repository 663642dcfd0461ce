"""Lets scripts written for multi-controller jax run unchanged: under Pathways one process drives every device.

jax's own `jax.distributed.initialize()` looks for a coordinator and for other processes; under Pathways it has nothing to do. A hook
on the import of jax (`_bootstrap.py`) replaces it before the script can call it.
"""

import logging

logger = logging.getLogger("pathways")


def patch(module):
    """Replaces initialize, shutdown and is_initialized. module: jax.distributed."""
    if getattr(module.initialize, "_pathways", False):
        return
    state = {"on": False}

    def initialize(coordinator_address=None, num_processes=None, process_id=None, *args, **kwargs):
        """Under Pathways one process drives all devices: nothing to initialise."""
        if state["on"]:
            raise RuntimeError("distributed.initialize should only be called once.")
        state["on"] = True
        if num_processes is not None and num_processes > 1:
            logger.warning(
                "jax.distributed.initialize(num_processes=%d, process_id=%s): under Pathways one process drives all devices, so this "
                "one is process 0 of 1; start the script once.", num_processes, process_id)

    def is_initialized():
        return state["on"]

    def shutdown():
        state["on"] = False

    initialize._pathways = True
    module.initialize, module.shutdown = initialize, shutdown
    if hasattr(module, "is_initialized"):
        module.is_initialized = is_initialized
