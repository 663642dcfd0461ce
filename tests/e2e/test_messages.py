"""What travels between controller and worker for a loop of small computations: counted on the controller's side."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pathways import _client, _cluster


def counts():
    hosts = _cluster.status(_client._get_endpoint().controller)["hosts"]
    return [(host["commands"].get("execute", 0), host["frames_sent"]) for host in hosts]


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
        (executes, frames), (elsewhere, _) = [(a - c, b - d) for (a, b), (c, d) in zip(counts(), before)]
        assert executes == calls and elsewhere == 0, "one for the host concerned, none for the other"
        # How many commands share a frame depends on how far the client runs ahead; at worst each travels alone, with a grant and a release.
        assert frames <= 3 * calls + 50, "frames do not grow with the devices"
    assert np.all(np.asarray(y) == calls + 3)
