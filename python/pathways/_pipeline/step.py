"""A training step as one program: all microbatches forward and backward through all stages, in the order of a schedule, then the optimizer's step."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh

from pathways._pipeline import models, partition, schedule as schedules, update
from pathways._pipeline import flow as flows
from pathways._pipeline import stages as parts
from pathways._pipeline.plan import Plan
from pathways._program.tracer import program


class PipelineState(NamedTuple):
    """The state that a step changes, an ordinary pytree: the model's own tree of parameters, optax's own state, and the model's other variables
    (batch statistics)."""
    params: Any
    opt_state: Any
    variables: Any = ()


def pipeline(model, *, loss, stages, microbatches, optimizer=None, schedule="1f1b", split=None, remat=False, partition_spec=None,
             donate=True, rngs=("dropout",), arguments=None):
    """Returns a Pipeline: a pipelined training step.

    model: a list of layer functions (params, x) -> x, a flax.linen or flax.nnx module, or any function (params, x) -> outputs.
    loss: (outputs, y) -> the mean over the examples. optimizer: an optax optimizer.
    stages: for each stage a mesh, a slice, a device or a list of devices. Examples are sharded over a mesh's axis "data".
    schedule: "1f1b", "gpipe", or "interleaved" if the list of stages goes round the devices several times.
    split: cuts the model by hand: the number of layers in each stage, or for a Flax model the names of the modules with which the second and later
    stages begin.
    remat: recompute activations in the backward pass instead of keeping them.
    partition_spec: (path, parameter) -> PartitionSpec over its stage's mesh.
    donate: a step reuses the memory of the state passed to it.
    rngs: the names of a linen model's streams of random numbers.
    arguments: further arguments of a Flax model's call besides x, such as {"train": True}.
    """
    return Pipeline(model, loss, stages, microbatches, optimizer, schedule, split, remat, partition_spec, donate, rngs, arguments)


class Pipeline:
    def __init__(self, model, loss, stages, microbatches, optimizer, schedule, split, remat, partition_spec, donate, rngs, arguments):
        if isinstance(microbatches, bool) or not isinstance(microbatches, int) or microbatches < 1:
            raise ValueError(f"microbatches must be a whole number of at least 1, not {microbatches!r}")
        if schedule not in (*schedules.SCHEDULES, schedules.INTERLEAVED):
            raise ValueError(f"no schedule {schedule!r}: there are {', '.join(schedules.SCHEDULES)} and {schedules.INTERLEAVED}")
        self._model, self._loss, self._optimizer = models.model_of(model, tuple(rngs), dict(arguments or {})), loss, optimizer
        self._places = [parts.Place(i, _mesh(one, i), partition_spec) for i, one in enumerate(stages)]
        if not self._places:
            raise ValueError("a pipeline has at least one stage")
        self._layers = len(model) if isinstance(model, (list, tuple)) else None
        if self._layers is not None and self._layers < len(self._places):
            raise ValueError(f"{self._layers} layers cannot fill {len(self._places)} stages: use fewer stages")
        self._split = _checked(split, len(self._places), self._layers)
        self._microbatches, self._remat, self._donate = microbatches, remat, donate
        self._schedule = schedules.make(schedule, [tuple(place.mesh.devices.flat) for place in self._places], microbatches)
        self._starts, self._plans, self._updates = None, {}, {}
        self._step = program(_named(self._whole_step, "pipeline_step"), donate_argnums=0 if donate else ())
        self._gradients = program(_named(self._loss_and_gradients, "pipeline_gradients"))

    # -- public methods

    def init(self, params, x, y, rng=None):
        """Returns the state for these parameters, each on the devices of its stage. For a linen model, `params` is the whole result of its `init`.
        The batch (x, y) is one as for `step`, or its shapes (jax.ShapeDtypeStruct). It determines where the model is cut. If params are shapes, the
        state consists of shapes too, as Orbax needs to restore."""
        params, variables = self._model.divide(params)
        plan = self._plan(params, variables, x, y, rng)
        leaves, tree = jax.tree.flatten(params)
        if all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
            place = lambda leaves, shardings: [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=s) for leaf, s in zip(leaves, shardings)]
            init = lambda params: jax.eval_shape(self._optimizer.init, params)
        else:
            place = lambda leaves, shardings: jax.device_put(leaves, shardings, may_alias=False)
            init = lambda params: self._optimizer.init(params)
        params = jax.tree.unflatten(tree, place(leaves, plan.shardings))
        leaves, tree = jax.tree.flatten(variables)
        variables = jax.tree.unflatten(tree, place(leaves, plan.kept_shardings))
        if self._optimizer is None:
            return PipelineState(params, (), variables)
        opt_state = init(params)
        leaves, tree = jax.tree.flatten(opt_state)
        shardings = [plan.state_sharding(i, leaf) for i, leaf in zip(self._owners(plan, opt_state), leaves)]
        return PipelineState(params, jax.tree.unflatten(tree, place(leaves, shardings)), variables)

    def step(self, state, x, y, rng=None):
        """Returns (the state after one optimizer step, the loss before it). rng: a random key, for models that draw random numbers; pass another one
        for each step."""
        rng = _key_data(rng)
        self._check(state, x, y, rng, optimizer=True)
        return self._step(state, x, y, rng)

    def value_and_grad(self, state, x, y, rng=None):
        """Returns (the loss, its gradients as a tree like state.params), as jax.value_and_grad does for the whole batch."""
        rng = _key_data(rng)
        self._check(state, x, y, rng)
        return self._gradients(state.params, state.variables, x, y, rng)

    def lower(self, state, x, y, rng=None):
        """Returns the program of a step for inspection: docs/programs.md."""
        rng = _key_data(rng)
        self._check(state, x, y, rng, optimizer=True)
        return self._step.lower(state, x, y, rng)

    def bubble(self, forward=1.0, backward=2.0):
        """Returns the fraction of time in which stages are idle. forward, backward: the duration of an action, a number or one for each stage."""
        return schedules.bubble(self._schedule, forward, backward)

    def stage_of(self, state):
        """Returns a tree like state.params with the number of each parameter's stage, the first that uses it. REQUIRES: init() was called."""
        leaves, tree = jax.tree.flatten(state.params)
        return jax.tree.unflatten(tree, next(iter(self._plans.values())).owners)

    # -- tracing

    def _whole_step(self, state, x, y, rng):
        plan = self._plan(state.params, state.variables, x, y, rng)
        params, tree = jax.tree.flatten(state.params)
        opt_state, opt_tree = jax.tree.flatten(state.opt_state)
        change = self._update(plan, state)
        begun = change.begin(opt_state, params)
        variables, variable_tree = jax.tree.flatten(state.variables)
        loss, gradients, variables = plan.run(self._schedule, params, jax.tree.leaves((x, y)), variables, rng)
        params, opt_state = change(begun, gradients)
        return PipelineState(jax.tree.unflatten(tree, params), jax.tree.unflatten(opt_tree, opt_state),
                             jax.tree.unflatten(variable_tree, variables)), loss

    def _loss_and_gradients(self, params, variables, x, y, rng):
        plan = self._plan(params, variables, x, y, rng)
        leaves, tree = jax.tree.flatten(params)
        loss, gradients, _ = plan.run(self._schedule, leaves, jax.tree.leaves((x, y)), jax.tree.leaves(variables), rng)
        return loss, jax.tree.unflatten(tree, gradients)

    def _update(self, plan, state):
        import optax

        _, tree = jax.tree.flatten(state.params)
        leaves, opt_tree = jax.tree.flatten(state.opt_state)
        key = (id(plan), opt_tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in self._updates:
            def step(gradients, opt_state, params):
                params = jax.tree.unflatten(tree, params)
                updates, opt_state = self._optimizer.update(jax.tree.unflatten(tree, gradients), jax.tree.unflatten(opt_tree, opt_state), params)
                return jax.tree.leaves(optax.apply_updates(params, updates)) + jax.tree.leaves(opt_state)

            owners = self._owners(plan, state.opt_state)
            wanted = lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
            self._updates[key] = update.Update(
                step, [wanted(var.aval, s) for var, s in zip(plan.flow.params, plan.shardings)],
                [wanted(leaf, plan.state_sharding(i, leaf)) for i, leaf in zip(owners, leaves)],
                plan.owners, [update.BETWEEN if i < 0 else plan.owners[i] for i in owners],
                lambda place: self._places[max(place, 0)].sharding(), self._donate)
        return self._updates[key]

    def _owners(self, plan, opt_state):
        """Returns, for each leaf of the optimizer's state, the parameter that it belongs to, or -1."""
        import optax

        numbers = jax.tree.unflatten(plan.params_tree, range(len(plan.owners)))
        return jax.tree.leaves(optax.tree_utils.tree_map_params(self._optimizer, lambda _, i: i, opt_state, numbers,
                                                                transform_non_params=lambda _: -1))

    def _plan(self, params, variables, x, y, rng):
        rows = self._rows(x, y)
        rng = None if rng is None else jax.random.key_data(jax.random.key(0))  # only its shape matters
        leaves, trees = zip(*(jax.tree.flatten(tree) for tree in (params, x, y, variables, rng)))
        key = (trees, tuple((leaf.shape, leaf.dtype) for many in leaves for leaf in many))
        if key not in self._plans:
            of_batch = lambda i, leaf: (rows, *leaf.shape[1:]) if i in (1, 2) else leaf.shape
            avals = [[jax.ShapeDtypeStruct(of_batch(i, leaf), leaf.dtype) for leaf in many] for i, many in enumerate(leaves)]

            def whole(*groups):
                params, x, y, variables, rng = (jax.tree.unflatten(tree, many) for tree, many in zip(trees, groups))
                outputs, variables = self._model.call(params, variables, None if rng is None else jax.random.wrap_key_data(rng), x)
                after, tree = jax.tree.flatten(variables)
                if tree != trees[3]:
                    raise ValueError(f"a call changes the structure of the model's variables from {trees[3]} to {tree}: pass all its variables to init()")
                return self._loss(outputs, y), after

            flow = flows.trace(whole, *avals)
            paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
            self._plans[key] = Plan(flow, self._cut(flow, paths), self._places, self._microbatches, self._remat, paths, trees[0], rows)
        return self._plans[key]

    def _rows(self, x, y):
        """Returns the number of examples in a microbatch."""
        sizes = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path((x, y)):
            if not getattr(leaf, "shape", ()):
                raise ValueError(f"{'xy'[path[0].idx]}{jax.tree_util.keystr(path[1:])} must be an array with a row for each example")
            sizes.setdefault(leaf.shape[0], f"{'xy'[path[0].idx]}{jax.tree_util.keystr(path[1:])}")
        if len(sizes) != 1:
            raise ValueError("the arrays of a batch differ in their number of examples: " +
                             ", ".join(f"{name} has {size}" for size, name in sizes.items()))
        [size] = sizes
        if size % self._microbatches or not size:
            raise ValueError(f"a batch of {size} examples cannot be divided into {self._microbatches} microbatches of equal size")
        return size // self._microbatches

    def _cut(self, flow, paths):
        """Returns the first unit of each stage. The first batch determines the cuts; batches of other sizes use the same ones."""
        stages = len(self._places)
        if self._starts is None:
            if not self._split:
                starts = partition.split(flow.costs(), stages, flow.crossing())
            elif isinstance(self._split[0], int):
                starts = [sum(self._split[:i]) for i in range(stages)]
            else:
                starts = _first_units(self._split, flow.first_uses(), ["/".join(map(_word, path)) for path in paths])
            self._starts = (starts, len(flow.units))
        starts, units = self._starts
        if units != len(flow.units):
            raise ValueError("with a batch of this shape the model has other equations than those that were cut into stages: make another pipeline for such batches")
        return starts

    def _check(self, state, x, y, rng, optimizer=False):
        if optimizer and self._optimizer is None:
            raise ValueError("this pipeline has no optimizer: give one to pw.pipeline, or use value_and_grad")
        if not isinstance(state, PipelineState):
            raise TypeError(f"the state must be a PipelineState, as init() or step() returned it, not a {type(state).__name__}")
        plan = self._plan(state.params, state.variables, x, y, rng)
        for path, owner, sharding, leaf in zip(plan.paths, plan.owners, plan.shardings, jax.tree.leaves(state.params)):
            placed = isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer)  # not traced, in a program
            if placed and leaf.sharding != sharding and leaf.sharding.device_set != sharding.device_set:
                ids = lambda devices: ", ".join(str(device.id) for device in sorted(devices, key=lambda one: one.id))
                raise ValueError(f"parameter {jax.tree_util.keystr(path)} is on device {ids(leaf.sharding.device_set)}, but belongs to stage "
                                 f"{owner} of this pipeline, on device {ids(sharding.device_set)}: use init() of this pipeline, or device_put")


def _key_data(rng):
    """Returns the data of a random key; None for None. Raises TypeError or ValueError for other values."""
    if rng is None or not hasattr(rng, "dtype"):
        if rng is not None:
            raise TypeError(f"rng must be a random key, such as jax.random.key(0), not {rng!r}")
        return None
    if jax.dtypes.issubdtype(rng.dtype, jax.dtypes.prng_key):
        rng = jax.random.key_data(rng)
    expected = jax.random.key_data(jax.random.key(0)).shape
    if rng.shape != expected:
        raise ValueError(f"rng must be one random key of jax's default kind, not an array of shape {rng.shape}")
    return rng


def _mesh(stage, number):
    if isinstance(stage, Mesh):
        return stage
    devices = list(stage) if isinstance(stage, (list, tuple)) else stage.devices if hasattr(stage, "mesh") else [stage]
    if not devices or not all(isinstance(device, jax.Device) for device in devices):
        raise TypeError(f"stage {number} must be a mesh, a slice, a device or a list of devices, not {stage!r}")
    return Mesh(np.array(devices, dtype=object), (parts.DATA,))


def _checked(split, stages, layers):
    if split is None:
        return None
    split = list(split)
    if split and all(isinstance(one, int) for one in split):
        if layers is None:
            raise ValueError("split has numbers of layers, but the model is not a list of layers: name the modules with which the second and later stages begin")
        if len(split) != stages or sum(split) != layers or min(split) < 1:
            raise ValueError(f"split must have {stages} numbers of at least 1, one for each stage, whose sum is {layers}, the number of layers, not {split}")
    elif len(split) != stages - 1 or not all(isinstance(one, str) for one in split):
        raise ValueError(f"split must name {stages - 1} modules, those with which the second and later of {stages} stages begin, not {split}")
    return split


def _first_units(names, first_uses, paths):
    starts = [0]
    for name in names:
        uses = [use for path, use in zip(paths, first_uses) if f"/{name}/" in f"/{path}/"]
        if not uses:
            raise ValueError(f"no parameter of the model is in a module {name!r}; parameters are {', '.join(paths[:8])}, ...")
        starts.append(min(uses))
    if sorted(set(starts)) != starts:
        raise ValueError(f"split names the modules {names}, but the model does not use them in this order after its first module")
    return starts


def _named(function, name):
    def call(*args):
        return function(*args)

    call.__name__ = name
    return call


def _word(key):
    return str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
