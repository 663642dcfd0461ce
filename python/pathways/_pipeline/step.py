"""A training step as one program: every microbatch through every stage and back, in the order of a schedule, and the optimizer's step."""

import collections
import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from pathways._pipeline import models, partition, schedule as schedules, update
from pathways._pipeline import flow as flows
from pathways._pipeline import stages as parts
from pathways._program import program


class PipelineState(NamedTuple):
    """What a step changes: an ordinary pytree, with the model's own tree of parameters and optax's own state."""
    params: Any
    opt_state: Any


def pipeline(model, *, loss, stages, microbatches, optimizer=None, schedule="1f1b", split=None, remat=False, partition_spec=None,
             donate=True):
    """A pipelined training step.

    model: a list of layer functions (params, x) -> x, a flax.linen or flax.nnx module, or any function (params, x) -> outputs.
    loss: (outputs, y) -> the mean over the examples. optimizer: of optax.
    stages: for each stage a mesh, a slice, a device or a list of devices. Examples are spread over a mesh's axis "data".
    schedule: "1f1b" or "gpipe". split: where to cut, by hand: the number of layers in each stage, or for a Flax model the names of the modules
    with which the second and later stages begin. remat: compute activations again in the backward pass instead of keeping them.
    partition_spec: (path, parameter) -> PartitionSpec over its stage's mesh. donate: a step takes the memory of the state that it gets.
    """
    return Pipeline(model, loss, stages, microbatches, optimizer, schedule, split, remat, partition_spec, donate)


class Pipeline:
    def __init__(self, model, loss, stages, microbatches, optimizer, schedule, split, remat, partition_spec, donate):
        if isinstance(microbatches, bool) or not isinstance(microbatches, int) or microbatches < 1:
            raise ValueError(f"microbatches must be a whole number of at least 1, not {microbatches!r}")
        if schedule not in schedules.SCHEDULES:
            raise ValueError(f"no schedule {schedule!r}: there are {', '.join(schedules.SCHEDULES)}")
        self._forward, self._loss, self._optimizer = models.forward_of(model), loss, optimizer
        self._places = [parts.Place(i, _mesh(one, i), partition_spec) for i, one in enumerate(stages)]
        if not self._places:
            raise ValueError("a pipeline has at least one stage")
        self._layers = len(model) if isinstance(model, (list, tuple)) else None
        if self._layers is not None and self._layers < len(self._places):
            raise ValueError(f"{self._layers} layers cannot fill {len(self._places)} stages: use fewer stages")
        self._split = _checked(split, len(self._places), self._layers)
        self._microbatches, self._remat, self._donate = microbatches, remat, donate
        self._schedule = schedules.SCHEDULES[schedule](len(self._places), microbatches)
        self._starts, self._plans, self._updates = None, {}, {}
        self._step = program(_named(self._whole_step, "pipeline_step"), donate_argnums=0 if donate else ())
        self._gradients = program(_named(self._loss_and_gradients, "pipeline_gradients"))

    # -- what a user calls

    def init(self, params, x, y):
        """The state for these parameters, each on the devices of its stage. x and y: a batch as `step` gets it, or its shapes
        (jax.ShapeDtypeStruct), by which the model is cut into stages. If params are shapes too, so is what is returned: what
        Orbax wants to restore."""
        plan = self._plan(params, x, y)
        leaves, tree = jax.tree.flatten(params)
        if all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
            place = lambda leaves, shardings: [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=s) for leaf, s in zip(leaves, shardings)]
            init = lambda params: jax.eval_shape(self._optimizer.init, params)
        else:
            place = lambda leaves, shardings: jax.device_put(leaves, shardings, may_alias=False)
            init = lambda params: self._optimizer.init(params)
        params = jax.tree.unflatten(tree, place(leaves, plan.shardings))
        if self._optimizer is None:
            return PipelineState(params, ())
        opt_state = init(params)
        leaves, tree = jax.tree.flatten(opt_state)
        shardings = [plan.state_sharding(i, leaf) for i, leaf in zip(self._owners(plan, opt_state), leaves)]
        return PipelineState(params, jax.tree.unflatten(tree, place(leaves, shardings)))

    def step(self, state, x, y):
        """(the state after one step of the optimizer, the loss before it)"""
        self._check(state, x, y, optimizer=True)
        return self._step(state, x, y)

    def value_and_grad(self, state, x, y):
        """(the loss, its gradients as a tree like state.params), as jax.value_and_grad has them for the whole batch."""
        self._check(state, x, y)
        return self._gradients(state.params, x, y)

    def lower(self, state, x, y):
        """The program of a step, to be looked at: docs/programs.md."""
        self._check(state, x, y, optimizer=True)
        return self._step.lower(state, x, y)

    def bubble(self, forward=1.0, backward=2.0):
        """The share of time in which a stage waits, if an action takes that long in each (or in all) of the stages."""
        return schedules.bubble(self._schedule, forward, backward)

    def stage_of(self, state):
        """A tree like state.params with the number of each parameter's stage."""
        number = {frozenset(place.sharding().device_set): place.number for place in reversed(self._places)}
        return jax.tree.map(lambda leaf: number[frozenset(leaf.sharding.device_set)], state.params)

    # -- tracing

    def _whole_step(self, state, x, y):
        plan = self._plan(state.params, x, y)
        params, tree = jax.tree.flatten(state.params)
        opt_state, opt_tree = jax.tree.flatten(state.opt_state)
        change = self._update(plan, state)
        begun = change.begin(opt_state, params)
        loss, gradients = plan.run(self._schedule, params, jax.tree.leaves((x, y)))
        params, opt_state = change(begun, gradients)
        return PipelineState(jax.tree.unflatten(tree, params), jax.tree.unflatten(opt_tree, opt_state)), loss

    def _loss_and_gradients(self, params, x, y):
        plan = self._plan(params, x, y)
        leaves, tree = jax.tree.flatten(params)
        loss, gradients = plan.run(self._schedule, leaves, jax.tree.leaves((x, y)))
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
        """For each leaf of the optimizer's state: the parameter that it belongs to, or -1."""
        import optax

        numbers = jax.tree.unflatten(plan.params_tree, range(len(plan.owners)))
        return jax.tree.leaves(optax.tree_utils.tree_map_params(self._optimizer, lambda _, i: i, opt_state, numbers,
                                                                transform_non_params=lambda _: -1))

    def _plan(self, params, x, y):
        rows = self._rows(x, y)
        leaves, trees = zip(*(jax.tree.flatten(tree) for tree in (params, x, y)))
        key = (trees, tuple((leaf.shape, leaf.dtype) for many in leaves for leaf in many))
        if key not in self._plans:
            avals = [[jax.ShapeDtypeStruct(leaf.shape if i == 0 else (rows, *leaf.shape[1:]), leaf.dtype) for leaf in many]
                     for i, many in enumerate(leaves)]

            def whole(params, x, y):
                params, x, y = (jax.tree.unflatten(tree, many) for tree, many in zip(trees, (params, x, y)))
                return self._loss(self._forward(params, x), y)

            flow = flows.trace(whole, *avals)
            paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
            self._plans[key] = _Plan(self, flow, self._cut(flow, paths), paths, trees[0], rows)
        return self._plans[key]

    def _rows(self, x, y):
        """How many examples a microbatch has."""
        sizes = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path((x, y)):
            if not getattr(leaf, "shape", ()):
                raise ValueError(f"{'xy'[path[0].idx]}{jax.tree_util.keystr(path[1:])} is no array with a row for each example")
            sizes.setdefault(leaf.shape[0], f"{'xy'[path[0].idx]}{jax.tree_util.keystr(path[1:])}")
        if len(sizes) != 1:
            raise ValueError("the arrays of a batch differ in their number of examples: " +
                             ", ".join(f"{name} has {size}" for size, name in sizes.items()))
        [size] = sizes
        if size % self._microbatches or not size:
            raise ValueError(f"a batch of {size} examples cannot be divided into {self._microbatches} microbatches of equal size")
        return size // self._microbatches

    def _cut(self, flow, paths):
        """The first unit of each stage. The first batch decides; others (of another size) are cut at the same places."""
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
            raise ValueError("with a batch of this shape the model is another one than that which was cut into stages: make a pipeline for it")
        return starts

    def _check(self, state, x, y, optimizer=False):
        if optimizer and self._optimizer is None:
            raise ValueError("this pipeline has no optimizer: give one to pw.pipeline, or use value_and_grad")
        if not isinstance(state, PipelineState):
            raise TypeError(f"not a state of a pipeline but {type(state).__name__}: use what init() or step() returned")
        plan = self._plan(state.params, x, y)
        for path, owner, sharding, leaf in zip(plan.paths, plan.owners, plan.shardings, jax.tree.leaves(state.params)):
            if isinstance(leaf, jax.Array) and leaf.sharding != sharding and leaf.sharding.device_set != sharding.device_set:
                ids = lambda devices: ", ".join(str(device.id) for device in sorted(devices, key=lambda one: one.id))
                raise ValueError(f"parameter {jax.tree_util.keystr(path)} is on device {ids(leaf.sharding.device_set)}, but belongs to stage "
                                 f"{owner} of this pipeline, on device {ids(sharding.device_set)}: use init() of this pipeline, or device_put")


class _Plan:
    """A pipeline for parameters and batches of certain shapes: stages whose functions can be called."""

    def __init__(self, owner, flow, starts, paths, params_tree, rows):
        self.flow, self.paths, self.params_tree, self._rows = flow, paths, params_tree, rows
        self._places, self._microbatches = owner._places, owner._microbatches
        self.stages, functions = parts.cut(flow, starts, owner._places)
        self.owners = [next(s for s, stage in enumerate(self.stages) if i in stage.params) for i in range(len(paths))]
        spec = lambda i, place: place.parameter(paths[i], flow.params[i].aval)
        self.shardings = [spec(i, self._places[s]) for i, s in enumerate(self.owners)]
        self._here = [{i: spec(i, stage.place) for i in stage.params} for stage in self.stages]
        for stage, function, here in zip(self.stages, functions, self._here):
            parts.compile_stage(stage, function, flow, here, rows, self._microbatches, owner._remat)
        self._mean = parts.jitted("mean_loss", lambda losses: sum(losses[1:], losses[0]) / len(losses))

    def state_sharding(self, i, leaf):
        """Of a leaf of the optimizer's state that belongs to parameter i (-1: to none)."""
        if i >= 0 and leaf.shape == self.flow.params[i].aval.shape:
            return self.shardings[i]
        return self._places[self.owners[i] if i >= 0 else 0].sharding()

    def run(self, schedule, params, batch):
        """(mean loss, gradients)"""
        held = [[jax.device_put(params[i], here[i]) for i in stage.params] for stage, here in zip(self.stages, self._here)]
        batches = [[self._divided(stage.place, batch[i]) for i in stage.batch] for stage in self.stages]
        made, saved, gradients = {}, {}, collections.defaultdict(list)
        sums, losses = [None] * len(self.stages), []
        for kind, s, m in schedules.order(schedule):
            stage = self.stages[s]
            here = lambda var, value: jax.device_put(value, stage.place.examples(var.aval, self._rows))
            if kind == schedules.FORWARD:
                given = held[s], [here(var, made[var, m]) for var in stage.inputs], [leaf[m] for leaf in batches[s]]
                outputs, residuals = stage.forward(*given)
                made.update(((var, m), value) for var, value in zip(stage.outputs, outputs))
                saved[s, m] = [value for many in given for value in many], outputs, residuals
            else:
                of_outputs = [[here(var, one) for one in gradients.pop((var, m), ())] for var in stage.outputs if parts.is_smooth(var)]
                sums[s], of_inputs = stage.backward(*saved.pop((s, m)), of_outputs, sums[s])
                for var, one in zip((v for v in stage.inputs if parts.is_smooth(v)), of_inputs):
                    gradients[var, m].append(one)
        loss = self._mean([made[self.flow.loss, m] for m in range(self._microbatches)])
        return loss, self._gathered(sums)

    def _divided(self, place, leaf):
        """A part of the batch on a stage's devices, by microbatch."""
        whole, part = (place.examples(leaf, leaf.shape[0]), place.examples(jax.ShapeDtypeStruct((self._rows,), bool), self._rows))
        divide = parts.jitted("microbatches", lambda a: [a[i * self._rows:(i + 1) * self._rows] for i in range(self._microbatches)],
                              out_shardings=[part] * self._microbatches)
        return divide(jax.device_put(leaf, whole))

    def _gathered(self, sums):
        """Each parameter's gradient at home: the sum over the stages that use it."""
        total = [None] * len(self.owners)
        for stage, own in zip(self.stages, sums):
            for i, one in zip(stage.params, own):
                one = jax.device_put(one, self.shardings[i])
                total[i] = one if total[i] is None else total[i] + one
        return total


def _mesh(stage, number):
    if isinstance(stage, Mesh):
        return stage
    devices = list(stage) if isinstance(stage, (list, tuple)) else stage.devices if hasattr(stage, "mesh") else [stage]
    if not devices or not all(isinstance(device, jax.Device) for device in devices):
        raise TypeError(f"stage {number} is no mesh, slice, device or list of devices but {stage!r}")
    return Mesh(np.array(devices, dtype=object), (parts.DATA,))


def _checked(split, stages, layers):
    if split is None:
        return None
    split = list(split)
    if split and all(isinstance(one, int) for one in split):
        if layers is None:
            raise ValueError("a split into numbers of layers is for a list of layers: name the modules with which stages begin")
        if len(split) != stages or sum(split) != layers or min(split) < 1:
            raise ValueError(f"a split of {layers} layers into {stages} stages has {stages} numbers of at least 1 with that sum, not {split}")
    elif len(split) != stages - 1 or not all(isinstance(one, str) for one in split):
        raise ValueError(f"a split into {stages} stages names {stages - 1} modules, those with which the second and later stages begin, not {split}")
    return split


def _first_units(names, first_uses, paths):
    starts = [0]
    for name in names:
        uses = [use for path, use in zip(paths, first_uses) if f"/{name}/" in f"/{path}/"]
        if not uses:
            raise ValueError(f"no parameter of the model is in a module {name!r}; parameters are {', '.join(paths[:8])}, ...")
        starts.append(min(uses))
    if sorted(set(starts)) != starts:
        raise ValueError(f"the modules {names} are not used in this order, after the model's beginning")
    return starts


def _named(function, name):
    def call(*args):
        return function(*args)

    call.__name__ = name
    return call


def _word(key):
    return str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
