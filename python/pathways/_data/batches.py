"""`pw.data`: requests batches from the hosts ahead of their use, and returns them in order."""

import atexit
import collections
import concurrent.futures
import weakref

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from pathways._client import doors
from pathways._data.feed import Feed


def data(make, sharding, *, prefetch=2, state=None):
    """Returns an iterator over batches that are made on the hosts of their devices. Their bytes do not pass through this process.

    `make(part, parts)` is called on each host once and returns an iterable: a generator, grain, tf.data, torch's DataLoader. It yields the host's
    part of each batch, `part` of `parts`, as numpy arrays in any tree. Parts are put together as by `jax.make_array_from_process_local_data`: with
    the first dimension sharded over 4 hosts, parts of 8 rows make batches of 32. All batches have the same shapes. The pipeline ends when one host's
    iterator ends; further batches of other hosts are dropped.

    `sharding`: a NamedSharding or SingleDeviceSharding of all arrays of a batch, or a tree of them. `prefetch`: the number of batches that are made
    and brought to the devices ahead of their use. `state`: a result of `Batches.state()`, from which the pipeline resumes.
    """
    return Batches(make, sharding, prefetch, state)


def _named(sharding):
    """Returns an equivalent NamedSharding. TypeError: the kind of sharding has no mesh and several devices."""
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(Mesh(np.array(list(sharding.device_set)), ("device",)), PartitionSpec(), memory_kind=sharding.memory_kind)
    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"pw.data: {sharding!r} is neither a NamedSharding nor a SingleDeviceSharding")
    return sharding


_open = weakref.WeakSet()  # all Batches of this process


@atexit.register
def _close_all():
    """Drops jax's client objects of the hosts' iterators while their modules and the connection still exist."""
    for batches in list(_open):
        batches.close()


class Batches:
    """Batches from the hosts. See `pw.data`; one thread uses it.

    A separate thread requests batches from the hosts, so other functions of this program on the hosts need not wait for them.
    """

    def __init__(self, make, sharding, prefetch, state):
        if prefetch < 0:
            raise ValueError(f"pw.data: prefetch is {prefetch}; 0 makes each batch when it is asked for")
        self._make, self._shardings, self._prefetch = make, jax.tree.map(_named, sharding), prefetch
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "pathways-data")
        self._begin(state)
        _open.add(self)

    def __iter__(self):
        return self

    def __next__(self):
        while not self._ended and len(self._coming) <= self._prefetch:
            self._coming.append(self._thread.submit(self._ask))
        if self._ended:
            raise StopIteration
        present, batch = self._coming.popleft().result()
        if not np.asarray(present).all():
            self._ended = True
            self._coming.clear()
            raise StopIteration
        self._delivered += 1
        return batch

    def state(self):
        """Returns the position after the last batch that was returned: {"batches": number, "hosts": [bytes of each host]}. It can be pickled.

        It holds the states of iterators that have `get_state` and `set_state`, or `state_dict` and `load_state_dict`. Other iterators start from the
        beginning when the pipeline resumes: the earlier batches are made again and dropped."""
        return self._thread.submit(self._read_state).result()

    def close(self):
        """Drops the hosts' iterators. Batches already returned stay valid."""
        self._ended = True
        self._coming.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._feed = None

    def _begin(self, state):
        shardings = jax.tree.leaves(self._shardings)
        devices = sorted({device for one in shardings for device in one.device_set}, key=lambda device: device.id)
        feed, beside = Feed, lambda mesh_or_devices: mesh_or_devices
        if not doors.cluster_in_this_process():
            from jax.experimental import colocated_python

            feed, beside = colocated_python.colocated_python_class(Feed), colocated_python.colocated_cpu_devices
        on_hosts = jax.tree.map(lambda one: NamedSharding(beside(one.mesh), one.spec), self._shardings)
        self._each = NamedSharding(Mesh(np.array(beside(tuple(devices))), ("device",)), PartitionSpec("device"))
        self._count = len(devices)
        self._delivered = self._asked = 0 if state is None else state["batches"]
        self._coming, self._ended = collections.deque(), False
        self._feed = feed(self._make, on_hosts, state, self._prefetch + 2)

    def _number(self, value):
        return jax.device_put(np.full(self._count, value, np.int32), self._each)

    def _ask(self):
        number, self._asked = self._asked, self._asked + 1
        present, batch = self._feed.next(self._number(number))
        shardings = jax.tree.broadcast(self._shardings, batch)
        return present, jax.device_put(batch, shardings)  # from a host's CPU devices to its others; nothing where they are the same

    def _read_state(self):
        number = self._number(self._delivered)
        parts, sizes = map(np.asarray, self._feed.state_size(number))
        longest = 1 << int(max(sizes.max(), 1) - 1).bit_length()  # powers of two, since each length is compiled
        room = jax.device_put(np.zeros((self._count, longest), np.uint8), NamedSharding(self._each.mesh, PartitionSpec("device", None)))
        rows = np.asarray(self._feed.state(number, room))
        of_part = {int(part): rows[at, :sizes[at]].tobytes() for at, part in enumerate(parts)}  # the same on each device of a host
        return {"batches": self._delivered, "hosts": [of_part[part] for part in sorted(of_part)]}
