"""Runs when the interpreter starts, before the script, if the environment selects Pathways (`pathways.pth` calls it).

It does only the work that must happen before jax loads the plugin. It sets environment variables that jax and jaxlib read when they are
imported. It patches functions that a script may call before it first uses a device.
"""

import os

from pathways._client.environment import set_environment
from pathways._jax.after_import import call_after_import


def selected():
    """Whether the environment selects Pathways."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if not platforms:
        return bool(os.environ.get("PATHWAYS_ADDRESS"))
    return "pathways" in platforms.split(",")


def _patch(jax):
    """Patches jax, which has just been imported."""
    from pathways._patches import distributed, transformations

    distributed.patch(jax.distributed)
    transformations.watch()


def main():
    platforms = os.environ.get("JAX_PLATFORMS", "").split(",")
    if selected():
        set_environment()
        if platforms != [""] and "cpu" not in platforms:
            # Host callbacks and mixed programs need the local cpu backend. Set it before jax reads the variable, so that the setting does not
            # change when the first device is used.
            os.environ["JAX_PLATFORMS"] = ",".join([*platforms, "cpu"])
        call_after_import("jax", _patch)
    elif "proxy" in platforms:  # pathwaysutils talks to our server through jax's own client
        set_environment()
