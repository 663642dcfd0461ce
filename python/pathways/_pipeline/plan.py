"""Builds the stages of a pipeline for certain shapes, and calls them in the order of a schedule."""

import collections

import jax
from jax.extend import core

from pathways._pipeline import schedule as schedules
from pathways._pipeline import stages as parts


class Plan:
    """The stages of a pipeline, compiled for parameters and batches of certain shapes."""

    def __init__(self, flow, starts, places, microbatches, remat, paths, params_tree, rows):
        self.flow, self.paths, self.params_tree, self._rows = flow, paths, params_tree, rows
        self._places, self._microbatches = places, microbatches
        self.stages, functions = parts.cut(flow, starts, places)
        self.owners = [next(s for s, stage in enumerate(self.stages) if i in stage.params) for i in range(len(paths))]
        spec = lambda i, place: place.parameter(paths[i], flow.params[i].aval)
        self.shardings = [spec(i, self._places[s]) for i, s in enumerate(self.owners)]
        self._here = [{i: spec(i, stage.place) for i in stage.params} for stage in self.stages]
        for stage, function, here in zip(self.stages, functions, self._here):
            parts.compile_stage(stage, function, flow, here, rows, microbatches, remat)
        self._kept = {i: self._home(i, var) for i, var in flow.kept}
        self.kept_shardings = [places[self._kept[i]].sharding() for i, _ in flow.kept]
        self._mean = parts.jitted("mean_loss", lambda losses: sum(losses[1:], losses[0]) / len(losses))

    def state_sharding(self, i, leaf):
        """Returns the sharding of a leaf of the optimizer's state that belongs to parameter i (-1: to none)."""
        if i >= 0 and leaf.shape == self.flow.params[i].aval.shape:
            return self.shardings[i]
        return self._places[self.owners[i] if i >= 0 else 0].sharding()

    def _home(self, i, after):
        """Returns the stage of statistic i. The stage that updates a statistic must be its only reader, so that microbatches follow each other there;
        raises ValueError otherwise."""
        readers = {s for s, stage in enumerate(self.stages) if i in stage.batch}
        makers = {s for s, stage in enumerate(self.stages) if after in stage.outputs}
        if makers and readers - makers:
            raise ValueError(f"stage {min(makers)} updates a variable (statistics of a batch) that stage {min(readers - makers)} reads, so microbatches could not "
                             "overlap. Use `split` to put both uses into one stage")
        return min(makers or readers or {0})

    def run(self, schedule, params, batch, kept=(), key=None):
        """Runs all microbatches; returns (mean loss, gradients, the new statistics). Each microbatch reads the statistics that the one before it
        left. Microbatch m uses the key fold_in(key, m)."""
        held = [[jax.device_put(params[i], here[i]) for i in stage.params] for stage, here in zip(self.stages, self._here)]
        now = {i: value for (i, _), value in zip(self.flow.kept, kept)}
        batches = [{i: self._keys(stage.place, key) if i == self.flow.key else self._divided(stage.place, batch[i])
                    for i in stage.batch if i not in now} for stage in self.stages]
        becomes = {var: i for i, var in self.flow.kept if isinstance(var, core.Var) and var not in self.flow.batch}
        made, saved, gradients = {}, {}, collections.defaultdict(list)
        sums, losses = [None] * len(self.stages), []
        for kind, s, m in schedules.order(schedule):
            stage = self.stages[s]
            here = lambda var, value: jax.device_put(value, stage.sharding(var, self._rows))
            if kind == schedules.FORWARD:
                given = held[s], [here(var, made[var, m]) for var in stage.inputs], [
                    jax.device_put(now[i], stage.place.sharding()) if i in now else batches[s][i][m] for i in stage.batch]
                outputs, residuals = stage.forward(*given)
                made.update(((var, m), value) for var, value in zip(stage.outputs, outputs))
                now.update((becomes[var], value) for var, value in zip(stage.outputs, outputs) if var in becomes)
                saved[s, m] = [value for many in given for value in many], outputs, residuals
            else:
                of_outputs = [[here(var, one) for one in gradients.pop((var, m), ())] 
                              for var, smooth in zip(stage.outputs, stage.smooth_out) if smooth]
                sums[s], of_inputs = stage.backward(*saved.pop((s, m)), of_outputs, sums[s])
                for var, one in zip((v for v in stage.inputs if parts.is_smooth(v)), of_inputs):
                    gradients[var, m].append(one)
        loss = self._mean([made[self.flow.loss, m] for m in range(self._microbatches)])
        after = [jax.device_put(now[i], sharding) for (i, _), sharding in zip(self.flow.kept, self.kept_shardings)]
        return loss, self._gathered(sums), after

    def _keys(self, place, key):
        """Returns the key data of each microbatch, on a stage's devices."""
        fold = lambda data: [jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(data), m)) for m in range(self._microbatches)]
        return parts.jitted("microbatch_keys", fold, out_shardings=[place.sharding()] * self._microbatches)(
            jax.device_put(key, place.sharding()))

    def _divided(self, place, leaf):
        """Splits a leaf of the batch into microbatches, on a stage's devices."""
        whole, part = (place.examples(leaf, leaf.shape[0]), place.examples(jax.ShapeDtypeStruct((self._rows,), bool), self._rows))
        divide = parts.jitted("microbatches", lambda a: [a[i * self._rows:(i + 1) * self._rows] for i in range(self._microbatches)],
                              out_shardings=[part] * self._microbatches)
        return divide(jax.device_put(leaf, whole))

    def _gathered(self, sums):
        """Returns each parameter's gradient on the devices of its owner: the sum over the stages that use it."""
        total = [None] * len(self.owners)
        for stage, own in zip(self.stages, sums):
            for i, one in zip(stage.params, own):
                one = jax.device_put(one, self.shardings[i])
                total[i] = one if total[i] is None else total[i] + one
        return total
