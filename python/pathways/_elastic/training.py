"""`pw.elastic`: makes steps, and carries the state over a loss or a return."""

import logging
import time

import jax
from jax.sharding import NamedSharding, PartitionSpec

from pathways._elastic.parts import Layout
from pathways._elastic.replicas import Replicas, mesh_of, spec_of
from pathways._elastic.snapshots import Snapshot, works
from pathways._elastic.watch import Watch

_log = logging.getLogger("pathways.elastic")


def elastic(step, state, *, axis=None, batch=None, mesh=None, snapshot_every=0, min_replicas=1, poll_seconds=0.2, timeout=None, on_change=None):
    """Returns an `Elastic`, which makes steps of training that outlive the loss of hosts, and use hosts that return.

    `step(state, batch) -> (state, result)` is a function for jax.jit. The arrays of `state` are on one mesh. Its axis `axis` (the first one, if
    none is named) is that of the data-parallel replicas; replicas leave and come back as a whole.

    `batch`: the PartitionSpec of all arrays of a batch; P(axis) if there is none. A batch is in this process's memory (numpy), and must be divisible
    by each number of replicas that may be present. `mesh`: the mesh of all replicas, if the state is on some of them only. `snapshot_every`: the
    steps between two snapshots, for state that is cut along `axis`. `min_replicas`: with fewer, a step waits, `timeout` seconds at most (None: no
    limit). `on_change(replicas, error)` is called when replicas have left (with the error) or come (with None).
    """
    training = Elastic(step, state, axis, batch, mesh, snapshot_every)
    training._watch_with(min_replicas, poll_seconds, timeout, on_change)
    return training


class Elastic:
    """A training that outlives its hosts. See `pw.elastic`; one thread uses it.

    The state kept after a step is already taken apart, and was ready on every replica at that time. So if replicas are lost, the parts of the others
    remain. An array that is taken apart only after the loss would be lost as a whole.
    """

    def __init__(self, step, state, axis, batch, mesh, snapshot_every):
        leaves, self._tree = jax.tree.flatten(state)
        of_state = mesh_of(leaves)
        self._replicas = Replicas(mesh or of_state, axis or (mesh or of_state).axis_names[0])
        self._present = self._replicas.among(of_state.devices.flat)
        if not self._present:
            raise ValueError("pw.elastic: the state is on no whole replica of `mesh`")
        specs = [spec_of(leaf) for leaf in leaves]
        leaves = [leaf if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding)
                  else jax.device_put(leaf, self._replicas.sharding(self._present, spec)) for leaf, spec in zip(leaves, specs)]
        self._layout = Layout(self._replicas, leaves, specs)
        if self._layout.scattered and snapshot_every < 1:
            raise ValueError(f"pw.elastic: arrays of the state are cut along '{self._replicas.axis}', so no replica can replace another one: "
                             "say snapshot_every=N, the number of steps between two snapshots")
        self._step, self._compiled = step, {}
        self._batch_spec = PartitionSpec(self._replicas.axis) if batch is None else batch
        self.steps = 0  # completed
        self._leaves, self._parts = leaves, self._take_apart(leaves, self._present)
        self._every = snapshot_every if self._layout.scattered else 0
        self._since, self._behind = [], []  # the batches since the last snapshot; of these, those that must be done again
        self._coming, self._renew = None, False  # the snapshot under way; whether another one is due
        self._snapshot = Snapshot(self._layout, self._parts, self._present, 0) if self._every else None
        jax.block_until_ready([self._copies_at(r) for r in self._present])

    def _watch_with(self, min_replicas, poll_seconds, timeout, on_change):
        if not 1 <= min_replicas <= len(self._replicas.all):
            raise ValueError(f"pw.elastic: min_replicas is {min_replicas}, of {len(self._replicas.all)} replicas")
        self._least, self._timeout, self._on_change = min_replicas, timeout, on_change
        self._watch = Watch(self._replicas, poll_seconds)
        self._watch.expect(self._missing())

    @property
    def state(self):
        """Returns the state after the last step, on the replicas that were present then."""
        return jax.tree.unflatten(self._tree, self._leaves)

    @property
    def replicas(self):
        """Returns the replicas that are present, as positions on the axis."""
        return self._present

    @property
    def mesh(self):
        return self._replicas.mesh(self._present)

    def __call__(self, batch):
        """Makes a step, with as many attempts as needed. Returns its result in this process's memory (numpy)."""
        while True:
            try:
                self._gather()
                while self._behind:
                    self._attempt(self._behind[0])
                    del self._behind[0]
                result = self._attempt(batch)
                break
            except jax.errors.JaxRuntimeError as error:
                self._leave(error)
        self.steps += 1
        if self._every:
            self._since.append(batch)
            self._keep_snapshots()
        return result

    def close(self):
        """Stops looking for replicas that are back."""
        self._watch.close()

    # -- steps

    def _attempt(self, batch):
        placed = jax.device_put(batch, self._replicas.sharding(self._present, self._batch_spec))
        leaves, result = self._compiled_step()(self._leaves, placed)
        parts = self._take_apart(leaves, self._present)
        result = jax.device_get(result)
        self._leaves, self._parts = leaves, parts
        return result

    def _compiled_step(self):
        if self._present not in self._compiled:
            def on_leaves(leaves, batch):
                state, result = self._step(jax.tree.unflatten(self._tree, leaves), batch)
                if jax.tree.structure(state) != self._tree:
                    raise TypeError(f"pw.elastic: the step returns a state of another structure than it gets: {jax.tree.structure(state)} "
                                    f"instead of {self._tree}")
                return jax.tree.leaves(state), result

            # Donate nothing: if a step fails, training goes on from the state before it.
            self._compiled[self._present] = jax.jit(on_leaves, out_shardings=(self._layout.shardings(self._present), None))
        return self._compiled[self._present]

    def _take_apart(self, leaves, present):
        """Returns the parts once all of them are ready. Raises if a host is lost before that; a later loss leaves the parts of the other replicas."""
        return jax.block_until_ready(self._layout.take_apart(leaves, present))

    # -- replicas that leave

    def _leave(self, error):
        """Goes on with the replicas that still have their parts. Raises the error if no replica is lost, or none has the state."""
        alive = tuple(r for r in self._present if works([self._parts[r], self._copies_at(r)]))
        if alive == self._present:
            raise error
        self._change(alive, error)
        if self._every:
            return self._restore(error)
        if not alive:
            raise error
        self._parts = {r: self._parts[r] for r in alive}
        self._leaves = self._layout.put_together(self._parts, alive)

    def _restore(self, error):
        """Goes back to the last snapshot; the steps since then are made again."""
        self._coming = None  # incomplete: lost replicas held copies of it
        while True:
            self._snapshot.forget_all_but(self._present)
            if not self._snapshot.complete():
                raise error
            try:
                leaves = self._snapshot.restore(self._present)
                self._leaves, self._parts = leaves, self._take_apart(leaves, self._present)
                break
            except jax.errors.JaxRuntimeError as again:
                alive = tuple(r for r in self._present if works(self._copies_at(r)))
                if alive == self._present:
                    raise
                error = again
                self._change(alive, error)
        self._behind, self._renew = list(self._since), True  # renew: some parts have only one copy now

    def _copies_at(self, replica):
        return self._snapshot.copies_at(replica) if self._every else []

    def _missing(self):
        return set(self._replicas.all) - set(self._present)

    def _change(self, present, error=None):
        self._present = present
        self._watch.expect(self._missing())
        _log.warning("replicas %s are present at step %d: %s", list(present), self.steps, "one has come" if error is None else error)
        if self._on_change is not None:
            self._on_change(present, error)

    # -- replicas that come

    def _gather(self):
        """Takes in the replicas that are back, and waits until there are enough. Raises a JaxRuntimeError if a present replica is lost."""
        end = None if self._timeout is None else time.monotonic() + self._timeout
        self._take_back()
        while len(self._present) < self._least:
            if not self._watch.wait(None if end is None else max(0.0, end - time.monotonic())):
                raise TimeoutError(f"pw.elastic: {len(self._present)} of {self._least} replicas are present, and no other has come in "
                                   f"{self._timeout} s. Start their hosts again, or lower min_replicas")
            self._take_back()

    def _take_back(self):
        for replica in self._watch.back():
            present = tuple(sorted({*self._present, replica}))
            try:
                leaves, parts = self._spread_to(replica, present)
            except jax.errors.JaxRuntimeError as error:
                self._watch.look_again(replica)
                if not all(works(self._parts[r]) for r in self._present):
                    raise
                _log.warning("replica %d has not come back: %s", replica, error)
                continue
            self._leaves, self._parts = leaves, parts
            self._change(present)

    def _spread_to(self, replica, present):
        """Returns the state over these replicas, of which one is new, and its parts."""
        layout = self._layout
        if layout.scattered:
            leaves = jax.device_put(self._leaves, layout.shardings(present))
            return leaves, self._take_apart(leaves, present)
        source = self._present[replica % len(self._present)]  # survivors share the work
        copies = jax.device_put(layout.of_replica(self._parts, source, 1), layout.shardings((replica,)))
        parts = self._parts | self._take_apart(copies, (replica,))
        return layout.put_together(parts, present), parts

    # -- snapshots

    def _keep_snapshots(self):
        if self._coming is not None and self._coming.arrived():
            if self._coming.sound():
                self._since = self._since[self._coming.step - self._snapshot.step:]
                self._snapshot = self._coming
            self._coming = None
        if self._coming is None and (self._renew or self.steps % self._every == 0):
            self._coming, self._renew = Snapshot(self._layout, self._parts, self._present, self.steps), False
