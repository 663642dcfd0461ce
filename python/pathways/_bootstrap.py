"""Runs when the interpreter starts, before the script, if the environment selects Pathways (`pathways.pth` calls it).

It does only the work that must happen before jax loads the plugin. It sets environment variables that jax and jaxlib read when they are
imported. It patches functions that a script may call before it first uses a device.
"""

import os
import sys

from pathways._client.environment import set_environment

_HOOKED = "jax"


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


class _AfterImport:
    """A meta path finder that lets the other finders load the module, then patches it."""

    def find_spec(self, name, path=None, target=None):
        if name != _HOOKED:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _patch(module)

            spec.loader.exec_module = exec_module
        return spec


def main():
    platforms = os.environ.get("JAX_PLATFORMS", "").split(",")
    if selected():
        set_environment()
        if platforms != [""] and "cpu" not in platforms:
            # Host callbacks and mixed programs need the local cpu backend. Set it before jax reads the variable, so that the setting does not
            # change when the first device is used.
            os.environ["JAX_PLATFORMS"] = ",".join([*platforms, "cpu"])
        if _HOOKED in sys.modules:
            _patch(sys.modules[_HOOKED])
        else:
            sys.meta_path.insert(0, _AfterImport())
    elif "proxy" in platforms:  # pathwaysutils talks to our server through jax's own client
        set_environment()
