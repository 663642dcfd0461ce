"""Pathways: one controller drives the accelerators of many hosts, through stock JAX.

A user's program need not import this package: with JAX_PLATFORMS=pathways in the environment, jax finds the backend itself
(`_plugin.py`). With PATHWAYS_ADDRESS=HOST:PORT the program connects to that cluster; otherwise it gets a local cluster of its own.

The modules beside this one are entry points: for users (`cli.py`, `__main__.py`), jax (`_plugin.py`), the start of the interpreter (`_bootstrap.py`,
by `pathways.pth`) and front ends (`_translator.py`). All other modules are in rooms, listed here in order. The first lines of each room name the
rooms that it may import.

    _jax        jax's private names
    _cluster    the processes of a cluster, on this machine
    _callbacks  Python functions that programs call
    _client     this process's connection to a cluster
    _colocated  functions that run on hosts (jax.experimental.colocated_python)
    _patches    changes to jax for scripts written for stock jax
    _program    `pw.program`
    _pipeline   `pw.pipeline`
    _elastic    `pw.elastic`
    _data       `pw.data`
    _published  `pw.publish`, `pw.published`
    _commands   the command line
    _launchers  starts clusters: here, by Slurm, by Ray
"""

__version__ = "0.1.0"
_SLICES = ("InfeasibleSlice", "SliceError", "SliceTimeout", "VirtualDeviceSet", "VirtualSlice", "make_virtual_device_set")
_ELASTIC = ("Elastic", "elastic")
_PIPELINES = ("Pipeline", "PipelineState", "pipeline")
_PUBLISHED = ("PublishError", "publish", "published", "withdraw")
__all__ = ["__version__", "cond", "data", "program", "route", "seats", "set_share", "switch", "while_loop", *_ELASTIC, *_PIPELINES, *_PUBLISHED, *_SLICES]


def __getattr__(name):  # importing pathways does not import jax; these attributes do
    if name == "program":
        from pathways._program.tracer import program

        return program
    if name in ("cond", "switch"):
        from pathways._program import choice

        return getattr(choice, name)
    if name == "while_loop":
        from pathways._program.loop import while_loop

        return while_loop
    if name == "route":
        from pathways._program.route import route

        return route
    if name == "data":
        from pathways._data.batches import data

        return data
    if name == "seats":
        from pathways._client.seats import seats

        return seats
    if name == "set_share":
        from pathways._client.set_share import set_share

        return set_share
    if name in _ELASTIC:
        from pathways import _elastic

        return getattr(_elastic, name)
    if name in _PIPELINES:
        from pathways import _pipeline

        return getattr(_pipeline, name)
    if name in _PUBLISHED:
        from pathways import _published

        return getattr(_published, name)
    if name in _SLICES:
        from pathways._client import slices

        return getattr(slices, name)
    raise AttributeError(f"module 'pathways' has no attribute '{name}'")
