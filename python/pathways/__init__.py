"""Pathways: one controller drives the accelerators of many hosts, through stock JAX.

Nothing here needs to be imported by a user's program: with JAX_PLATFORMS=pathways in the environment, jax finds the backend by
itself (`_plugin.py`). With PATHWAYS_ADDRESS=HOST:PORT it connects to that cluster, otherwise a local one is started for the process.
"""

__version__ = "0.1.0"
_SLICES = ("InfeasibleSlice", "SliceError", "SliceTimeout", "VirtualDeviceSet", "VirtualSlice", "make_virtual_device_set")
_PIPELINES = ("Pipeline", "PipelineState", "pipeline")
__all__ = ["__version__", "cond", "program", "set_share", "switch", *_PIPELINES, *_SLICES]


def __getattr__(name):  # jax is imported only by those who use it through us
    if name == "program":
        from pathways._program import program

        return program
    if name in ("cond", "switch"):
        from pathways import _program_choice

        return getattr(_program_choice, name)
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
