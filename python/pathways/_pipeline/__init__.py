"""Pipelined training: `pw.pipeline`. docs/pipelines.md is for its users.

    models.py     Flax models and lists of layers as functions (parameters, x) -> outputs
    flow.py       such a function with its loss as a row of equations that can be cut anywhere
    partition.py  where to cut (pure)
    stages.py     each part as a forward and a backward function on its devices
    schedule.py   who does what when (pure)
    update.py     the optimizer's step, each part of it where its parameters are
    step.py       all of it as one program
"""

from pathways._pipeline.step import Pipeline, PipelineState, pipeline

__all__ = ["Pipeline", "PipelineState", "pipeline"]
