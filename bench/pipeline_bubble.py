"""Measures the idle time of the devices of a pw.pipeline of 4 stages and 16 microbatches, against the prediction of its schedule.

Each stage's forward and backward functions are timed alone, in many calls on the stage's device. From these times the schedule predicts the length of
a step and its idle share. A step of one microbatch, in which nothing overlaps, gives the rest: the optimizer, and the way there and back. A CPU cluster
needs a core for each device and one for the rest. With fewer cores, the figures are printed without a verdict.

With --simulated the devices are simulated, on four hosts of two islands. Each function takes the time of its operations at 2e11 a second, in real time,
on any number of cores. The control path is the real one. So a machine of two cores shows what dispatch and transfers add to a schedule.
"""

import contextlib
import os
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "pathways")
os.environ.setdefault("PATHWAYS_LOCAL", "2x1x2")

import _report
import _sides

SIMULATED_DEVICE = "2e11:0:0"
STAGES, MICROBATCHES = 4, 16


def timed(call, repeat):
    import jax

    jax.block_until_ready(call())
    begin = time.perf_counter()
    jax.block_until_ready([call() for _ in range(repeat)])
    return (time.perf_counter() - begin) / repeat


def stage_times(pipeline, state, x, repeat):
    """Returns the seconds of each stage's forward function and of its backward function."""
    import jax
    import jax.numpy as jnp

    plan = pipeline._plan(state.params, state.variables, x, x, None)
    params, forward, backward = jax.tree.leaves(state.params), [], []
    zeros = lambda var, sharding: jax.device_put(jnp.zeros(var.aval.shape, var.aval.dtype), sharding)
    for stage in plan.stages:
        here = stage.place.sharding()
        given = [params[i] for i in stage.params], [zeros(v, here) for v in stage.inputs], [zeros(plan.flow.batch[i], here) for i in stage.batch]
        outputs, residuals = stage.forward(*given)
        gradients = [[] if var is plan.flow.loss else [zeros(var, here)] for var in stage.outputs]
        flat = [value for many in given for value in many]
        forward.append(timed(lambda: stage.forward(*given), repeat))
        backward.append(timed(lambda: stage.backward(flat, outputs, residuals, gradients, None), repeat))
    return forward, backward


def step_time(pipeline, state, x, y, rounds):
    import jax

    took = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        state, loss = pipeline.step(state, x, y)
        jax.block_until_ready((state, loss))
        took.append(time.perf_counter() - begin)
    return statistics.median(took[1:])


def main():
    def add(parser):
        parser.add_argument("--simulated", action="store_true", help="on simulated devices")
        parser.add_argument("--width", type=int, default=1024)
        parser.add_argument("--rows", type=int, default=256, help="examples in a microbatch")
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--schedule", default="1f1b")

    args = _report.arguments(__doc__, add)
    with contextlib.ExitStack() as stack:
        if args.simulated:
            os.environ["PATHWAYS_ADDRESS"] = stack.enter_context(_sides.simulated(STAGES, SIMULATED_DEVICE, islands=2, devices=1))
        measure(args)
    if args.simulated:
        sys.stdout.flush()
        os._exit(0)  # skips the client's clean-up: its cluster is gone


def measure(args):
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    import pathways as pw

    def layer(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return x

    devices = jax.devices()[:STAGES]
    rng = np.random.default_rng(0)
    params = [[rng.normal(size=(args.width, args.width)).astype(np.float32) / args.width**0.5 for _ in range(4)] for _ in range(STAGES)]

    def make(microbatches):
        pipeline = pw.pipeline([layer] * STAGES, loss=lambda o, y: jnp.mean((o - y) ** 2), stages=devices, microbatches=microbatches,
                               optimizer=optax.sgd(1e-3), schedule=args.schedule, split=[1] * STAGES)
        x = rng.normal(size=(microbatches * args.rows, args.width)).astype(np.float32)
        x, y = jax.device_put(x, devices[0]), jax.device_put(x, devices[-1])
        return pipeline, pipeline.init(params, x, y), x, y

    one, whole = make(1), make(MICROBATCHES)
    forward, backward = stage_times(*one[:3], args.rounds)
    alone = step_time(*one, args.rounds)
    took = step_time(*whole, args.rounds)
    busy = sum(forward) + sum(backward)
    rest = max(alone - busy, 0.0)
    predicted = whole[0].bubble(forward, backward)
    makespan = MICROBATCHES * busy / STAGES / (1 - predicted)
    measured = 1 - MICROBATCHES * busy / STAGES / (took - rest)
    enough = args.simulated or (os.cpu_count() or 1) > STAGES
    print(f"forward {[round(t * 1e3, 2) for t in forward]} ms, backward {[round(t * 1e3, 2) for t in backward]} ms; a step {took * 1e3:.1f} ms, "
          f"predicted {(makespan + rest) * 1e3:.1f} ms; idle {measured:.1%}, predicted {predicted:.1%}"
          + ("" if enough else f": {os.cpu_count()} cores are too few for {STAGES} devices"))
    figures = {"forward_s": forward, "backward_s": backward, "step_s": took, "rest_s": rest, "idle": measured, "idle_predicted": predicted}
    _report.finish(args, "pipeline_bubble_simulated" if args.simulated else "pipeline_bubble", figures, [
        _report.target("a step / what its schedule predicts", took / (makespan + rest) if enough else None, 1.05)])


if __name__ == "__main__":
    main()
