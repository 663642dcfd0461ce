"""Pipelined training: `pw.pipeline`. docs/pipelines.md is the user's guide.

May import _jax and _program.

    models.py     adapts Flax models and lists of layers to functions (parameters, x) -> outputs
    flow.py       traces such a function with its loss into a sequence of equations that can be cut anywhere
    partition.py  chooses the cuts (pure)
    stages.py     compiles each part into a forward and a backward function for its devices
    schedule.py   orders the forward and backward actions of all stages (pure)
    plan.py       runs the stages' functions in the order of a schedule
    update.py     divides the optimizer's step among the stages
    step.py       traces the whole step as one program
"""

from pathways._pipeline.step import Pipeline, PipelineState, pipeline

__all__ = ["Pipeline", "PipelineState", "pipeline"]
