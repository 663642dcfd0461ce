"""Runs at the start of the interpreter when the environment selects Pathways (`pathways.pth` sees to that), before the script.

Only what cannot wait for jax to load the plugin is here: environment variables that jax and jaxlib read when they are imported, and
what a script may call before the first use of a device.
"""

import os
import sys

_HOOKED = "jax"


def selected():
    """Whether the environment asks for Pathways."""
    platforms = os.environ.get("JAX_PLATFORMS", "")
    if not platforms:
        return bool(os.environ.get("PATHWAYS_ADDRESS"))
    return "pathways" in platforms.split(",")


def _patch(jax):
    """jax: just imported."""
    from pathways import _distributed, _transformations

    _distributed.patch(jax.distributed)
    _transformations.watch()


class _AfterImport:
    """A meta path finder that lets others load the module and then patches it."""

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


def set_environment():
    """Defaults only: what the user has set stays."""
    # The client speaks plain TCP, to our relay on this machine; its default credentials exist on one cloud only.
    os.environ.setdefault("IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS", "true")
    # One cancelled upload ends a session, and a pmap call with hundreds of arguments opens thousands at once.
    os.environ.setdefault("IFRT_PROXY_GRPC_MAX_ONGOING_HOST_BUFFER_STORES", "64")
    # Errors only: at every start and end jaxlib's client warns of what is meant here, the plain TCP and the closed connection. "1" is what
    # importing jax sets, in the parent of this process perhaps; who wants to see warnings says "0".
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"


def main():
    platforms = os.environ.get("JAX_PLATFORMS", "").split(",")
    if selected():
        set_environment()
        if platforms != [""] and "cpu" not in platforms:
            # Host callbacks and mixed programs need the local cpu backend. Said before jax reads it: a setting that changes when the first
            # device is used would surprise those who compare.
            os.environ["JAX_PLATFORMS"] = ",".join([*platforms, "cpu"])
        if _HOOKED in sys.modules:
            _patch(sys.modules[_HOOKED])
        else:
            sys.meta_path.insert(0, _AfterImport())
    elif "proxy" in platforms:  # pathwaysutils talks to our server through jax's own client
        set_environment()
