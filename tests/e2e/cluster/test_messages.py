"""Counts the messages from the controller to workers for a loop of small computations, as the controller reports them. The number of frames
depends on how far the client runs ahead, so pathways/controller/cluster/frames_test.cc counts frames."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pathways._client import connection
from pathways._cluster import admin


def counts():
    return [host["commands"] for host in admin.status(connection._get_endpoint().controller)["hosts"]]


def test_a_computation_is_one_command_however_many_devices(islands):
    calls = 400
    f = jax.jit(lambda v: v + 1)
    for width in (1, len(islands[0])):
        y = jax.device_put(np.zeros(width, np.float32), NamedSharding(Mesh(np.array(islands[0][:width]), ("x",)), P("x")))
        for _ in range(3):
            y = f(y)
        y.block_until_ready()
        before = counts()
        for _ in range(calls):
            y = f(y)
        y.block_until_ready()
        here, elsewhere = [{kind: now[kind] - then.get(kind, 0) for kind in now} for now, then in zip(counts(), before)]
        assert here["execute"] == calls, "one for the host concerned"
        assert elsewhere.get("execute", 0) == 0, "none for the other"
        assert here.get("put", 0) == here.get("move", 0) == 0, "no data moves"
        assert here.get("grant", 0) <= calls, "a grant names one computation at least"
    assert np.all(np.asarray(y) == calls + 3)
