"""Publishes trees of arrays, and reads them. The bytes go from host to host, not through the programs or the controller.

A tree is published and read by programs without nodes (proto/pathways/v1/program.proto, Publication): one for each list of devices that its arrays are on.
"""

import collections
import dataclasses
import json
import time

import jax

from pathways._client import connection, programs, questions, wire
from pathways._jax import placement

_POLL_SECONDS = 0.5  # the cluster holds a question for this long, and Python handles no signal (Ctrl-C) meanwhile
_MOST_PROGRAMS = 64  # kept, the most recently used ones


class PublishError(RuntimeError):
    """Arrays cannot be published or read."""


@dataclasses.dataclass(frozen=True)
class _Type:
    """Type and place of a leaf."""
    shape: tuple
    dtype: str
    sharding: jax.sharding.Sharding

    @property
    def devices(self):
        return placement.devices_of(self.sharding)


class _Session:
    """The publications and reads of this process over one client."""

    def __init__(self, client):
        self.client = client
        self.versions = {}  # name -> number of the last version that was published here
        self._loaded = collections.OrderedDict()

    def load(self, name, read, types, note):
        """Returns [(call, positions)]: a program for each list of devices, and the positions of the leaves that it takes or returns."""
        key = (name, read, types, note)
        if key not in self._loaded:
            self._loaded[key] = self._load(name, read, types, note)
        self._loaded.move_to_end(key)
        while len(self._loaded) > _MOST_PROGRAMS:
            self._loaded.popitem(last=False)
        return self._loaded[key]

    def _load(self, name, read, types, note):
        groups = collections.defaultdict(list)
        for position, one in enumerate(types):
            groups[one.devices].append(position)
        return [(self._load_part(name, read, part, len(groups), note if part == 0 else "", positions, types), positions)
                for part, positions in enumerate(groups.values())]

    def _load_part(self, name, read, part, parts, note, positions, types):
        shardings = [programs.encoded(types[position].sharding, len(types[position].shape)) for position in positions]
        arrays = [(position, (wire.DTYPES[types[position].dtype], types[position].shape, index)) for index, position in enumerate(positions)]
        encoded = wire.publication(name, shardings, read, part, parts, note, arrays)
        described = [programs.Type(types[position].dtype, types[position].shape, types[position].devices) for position in positions]
        with questions.errors_as(PublishError):
            return programs.load(self.client, encoded, *([], described) if read else (described, []))


_current = None


def _session():
    global _current
    client = jax.devices()[0].client
    if not connection.is_ours(client):
        raise PublishError("arrays are published on a Pathways cluster, and this program does not use one: set JAX_PLATFORMS=pathways and PATHWAYS_ADDRESS")
    if _current is None or _current.client is not client:  # the first one, or a new one after jax's clear_backends
        _current = _Session(client)
    return _current


def _ask(session, what, **fields):
    with questions.errors_as(PublishError):
        return questions.ask(session.client, {"publishedRequest": {what: fields}})


def _leaves(tree):
    """Returns the leaves, their paths in the tree for people, and the tree's structure."""
    found, structure = jax.tree_util.tree_flatten_with_path(tree)
    if not found:
        raise ValueError("the tree has no arrays")
    return [leaf for _, leaf in found], [jax.tree_util.keystr(path) or "the array" for path, _ in found], structure


def _type(path, leaf):
    if not isinstance(leaf, jax.Array):
        raise TypeError(f"{path} is a {type(leaf).__name__}, not an array on devices: put it there first (jax.device_put)")
    if str(leaf.dtype) not in wire.DTYPES:
        raise TypeError(f"{path} has elements of type {leaf.dtype}, which cannot be published; of random keys publish jax.random.key_data(...)")
    return _Type(leaf.shape, str(leaf.dtype), leaf.sharding)


def publish(name, tree):
    """Publishes the arrays of a tree under a name, as its next version, and returns that version's number.

    Returns at once: readers see the version when all its arrays are computed, whole or not at all. No bytes move. The arrays may be deleted or donated at
    once; the version keeps their contents until a newer one is there and its last reader has them. A version with an array that is an error is not published.

    The name belongs to this program until `pw.withdraw(name)` or the program's end; both also end its versions. Programs of the same user read it.
    """
    session = _session()
    leaves, paths, _ = _leaves(tree)
    types = tuple(map(_type, paths, leaves))
    if name not in session.versions:
        session.versions[name] = _ask(session, "claim", name=name)["version"]
    parts = session.load(name, False, types, json.dumps(paths))
    for call, positions in parts:
        call([leaves[position] for position in positions], [])
    session.versions[name] += 1
    return session.versions[name]


def withdraw(name):
    """Ends this program's publications under a name. Reads that have begun are finished."""
    session = _session()
    _ask(session, "withdraw", name=name)
    session.versions.pop(name, None)


def published(name, like, *, newer_than=0, timeout=None):
    """Waits for a version of `name` above `newer_than`. Returns the newest version as (its number, its arrays).

    `like`: a tree of the published structure. Each leaf says where to put the array: a sharding, or an array or jax.ShapeDtypeStruct that has one, whose
    shape and type must be the published ones. The arrays go there directly from the devices that have them. `timeout`: seconds; None: no limit.
    """
    session = _session()
    leaves, paths, structure = _leaves(like)
    shardings = [leaf if isinstance(leaf, jax.sharding.Sharding) else getattr(leaf, "sharding", None) for leaf in leaves]
    for path, sharding in zip(paths, shardings):
        if sharding is None:
            raise TypeError(f"{path} says nothing of where to put the array: give a sharding, or an array or jax.ShapeDtypeStruct that has one")
    found = _await(session, name, newer_than, timeout)
    _check_structure(name, paths, json.loads(found["note"]))
    types = tuple(_wanted(name, *one) for one in zip(paths, leaves, shardings, found["arrays"]))
    results = [None] * len(types)
    for call, positions in session.load(name, True, types, ""):
        handlers = [programs.handler(jax.core.ShapedArray(types[i].shape, jax.numpy.dtype(types[i].dtype)), types[i].sharding, True) for i in positions]
        for position, array in zip(positions, call([], handlers)):
            results[position] = array
    return found["version"], jax.tree.unflatten(structure, results)


def _await(session, name, newer_than, timeout):
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _POLL_SECONDS if until is None else min(_POLL_SECONDS, until - time.monotonic())
        found = _ask(session, "await", name=name, above=newer_than, seconds=max(0.0, left))
        if found:
            return found
        if until is not None and time.monotonic() >= until:
            raise TimeoutError(f"no version of {name!r} above {newer_than} was published within {timeout} s")


def _check_structure(name, ours, theirs):
    if ours == theirs:
        return
    missing, unknown = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
    differ = [f"{len(theirs)} arrays are published, and `like` has {len(ours)}"] if len(ours) != len(theirs) else []
    differ += [f"`like` lacks {missing[0]}"] if missing else []
    differ += [f"{unknown[0]} is not published"] if unknown else []
    raise ValueError(f"the tree published as {name!r} is another one: {'; '.join(differ) or 'its arrays are in another order'}")


_DTYPES = {number: name for name, number in wire.DTYPES.items()}


def _wanted(name, path, leaf, sharding, array):
    shape, dtype = tuple(array["dims"]), _DTYPES[array["dtype"]]
    if not isinstance(leaf, jax.sharding.Sharding) and (tuple(leaf.shape) != shape or str(leaf.dtype) != dtype):
        raise ValueError(f"{path} of {name!r} is {dtype}{list(shape)}, where `like` has {leaf.dtype}{list(leaf.shape)}")
    return _Type(shape, dtype, sharding)
