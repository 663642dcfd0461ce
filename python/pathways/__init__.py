"""Pathways: one controller drives the accelerators of many hosts, through stock JAX.

A user's program need not import this package: with JAX_PLATFORMS=pathways in the environment, jax finds the backend itself
(`_plugin.py`). With PATHWAYS_ADDRESS=HOST:PORT it connects to that cluster; otherwise it starts a local cluster for the process.
"""

__version__ = "0.1.0"
_SLICES = ("InfeasibleSlice", "SliceError", "SliceTimeout", "VirtualDeviceSet", "VirtualSlice", "make_virtual_device_set")
_PIPELINES = ("Pipeline", "PipelineState", "pipeline")
__all__ = ["__version__", "cond", "program", "set_share", "switch", *_PIPELINES, *_SLICES]


def __getattr__(name):  # importing pathways does not import jax; these attributes do
    if name == "program":
        from pathways._program.tracer import program

        return program
    if name in ("cond", "switch"):
        from pathways._program import choice

        return getattr(choice, name)
    if name == "set_share":
        from pathways._share import set_share

        return set_share
    if name in _PIPELINES:
        from pathways import _pipeline

        return getattr(_pipeline, name)
    if name in _SLICES:
        from pathways import _slices

        return getattr(_slices, name)
    raise AttributeError(f"module 'pathways' has no attribute '{name}'")
