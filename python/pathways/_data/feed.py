"""The host's end of `pw.data`: one object on each host, which the client calls for one batch after the other."""

import collections
import pickle

import jax
import numpy as np

_METHODS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))  # of grain's iterators; of torchdata's loaders
_END = object()


class Feed:
    """Makes the host's part of each batch.

    `make(part, parts)` returns an iterable of this host's part of each batch: numpy arrays in any tree. `shardings`: of the leaves of a batch, on the
    hosts' CPU devices; one, or a tree of them. `state`: the position to begin at, from Batches.state(). `kept`: the number of latest states to keep.

    A state belongs to a number of batches. An iterator without a state is made anew when the pipeline resumes, and that many batches are skipped.
    So it goes on if this object is a new one, because its process ended or its slice moved to this host: the client says which batch it wants.
    """

    def __init__(self, make, shardings, state, kept):
        self._make, self._shardings, self._begin = make, shardings, state
        self._made = 0  # batches, from the beginning of the data
        self._over = False
        self._states = collections.OrderedDict()  # number of batches -> the iterator's state then
        self._kept = kept
        self._iterator, self._source, self._part = None, None, None
        self._shapes = None  # of the first batch
        self._like = None    # the first batch: returned after the end, where its contents do not matter

    def next(self, call):
        """Returns (whether there was a batch, the batch). `call`: an array with an element for each device, the number of batches before this one; its
        devices determine the hosts that take part."""
        self._start(call)
        self._catch_up(call)
        batch = self._make_one()
        if self._over:
            if self._like is None:
                raise ValueError("pw.data: the iterator of this host has no batch at all")
            return self._all(call, False), self._to_devices(self._like)
        self._keep()
        return self._all(call, True), self._to_devices(batch)

    def _catch_up(self, number):
        """Makes the batches before this number and drops them, if this object has not made them. Returns the number."""
        wanted = int(number.addressable_shards[0].data[0])
        while self._made < wanted and not self._over:
            self._make_one()
            self._keep()
        return wanted

    def _make_one(self):
        """Returns the next batch; None at the end. A batch that fails counts: the loop gets its error."""
        self._made += 1
        batch = _END if self._over else next(self._iterator, _END)
        if batch is _END:
            self._over, self._made = True, self._made - 1
            return None
        batch = jax.tree.map(np.asarray, batch)
        self._check(batch)
        return batch

    def state_size(self, number):
        """Returns, for each device, the number of this host's part, and the bytes of its state after `number` batches."""
        size = len(self._state_after(number))
        return self._all(number, self._part, np.int32), self._all(number, size, np.int32)

    def state(self, number, room):
        """Returns an array like `room` with that state in each row. A row has room for the longest state of all hosts."""
        rows = room.sharding.shard_shape(room.shape)
        content = np.zeros(rows[1], np.uint8)
        state = np.frombuffer(self._state_after(number), np.uint8)
        content[:len(state)] = state
        shards = [jax.device_put(np.broadcast_to(content, rows), shard.device) for shard in room.addressable_shards]
        return jax.make_array_from_single_device_arrays(room.shape, room.sharding, shards)

    def _start(self, call):
        if self._iterator is not None:
            return
        hosts = sorted({device.process_index for device in call.sharding.device_set})
        self._part = hosts.index(jax.process_index())
        if self._begin is not None and len(self._begin["hosts"]) != len(hosts):
            raise ValueError(f"pw.data: the state is of {len(self._begin['hosts'])} hosts, and there are {len(hosts)} now")
        self._source = self._make(self._part, len(hosts))
        self._iterator = iter(self._source)
        if self._begin is not None:
            self._go_to(self._begin["batches"], self._begin["hosts"][self._part])
        self._keep()

    def _go_to(self, batches, state):
        owner, (_, set_state) = self._methods()
        if owner is not None and state:
            getattr(owner, set_state)(pickle.loads(state))
        else:
            for skipped in range(batches):
                if next(self._iterator, _END) is _END:
                    raise ValueError(f"pw.data: the state is after {batches} batches, and the iterator of this host has {skipped}")
        self._made = batches

    def _methods(self):
        """Returns (the object that has the methods of a state, their names); (None, (None, None)) if there is none."""
        for owner in (self._iterator, self._source):
            for names in _METHODS:
                if all(hasattr(owner, name) for name in names):
                    return owner, names
        return None, (None, None)

    def _keep(self):
        owner, (get_state, _) = self._methods()
        self._states[self._made] = b"" if owner is None else pickle.dumps(getattr(owner, get_state)())
        while len(self._states) > self._kept:
            self._states.popitem(last=False)

    def _state_after(self, number):
        self._start(number)
        wanted = self._catch_up(number)
        if wanted not in self._states:
            raise ValueError(f"pw.data: the state after {wanted} batches is not kept; kept are those after {list(self._states)}")
        return self._states[wanted]

    def _check(self, batch):
        shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype.name), batch)
        if self._shapes is None:
            self._shapes, self._like = shapes, batch
        elif shapes != self._shapes:
            raise ValueError(f"pw.data: batch {self._made - 1} of this host has shapes {shapes}, the first one had {self._shapes}: leave out the incomplete "
                             "batch at the end, or fill it up")

    def _all(self, call, value, dtype=np.bool_):
        """Returns an array like `call` whose elements on this host are `value`."""
        shards = [jax.device_put(np.full(shard.data.shape, value, dtype), shard.device) for shard in call.addressable_shards]
        return jax.make_array_from_single_device_arrays(call.shape, call.sharding, shards)

    def _to_devices(self, batch):
        leaves, tree = jax.tree.flatten(batch)
        shardings = jax.tree.leaves(jax.tree.broadcast(self._shardings, batch))
        placed = [jax.make_array_from_process_local_data(sharding, leaf) for sharding, leaf in zip(shardings, leaves)]
        return jax.tree.unflatten(tree, placed)
