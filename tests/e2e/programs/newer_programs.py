"""Functions of numpy arrays that newer versions of jax serialize differently. test_newer_programs.py runs them on our cluster. As a script this
file is a client without our package, and prints the result of each function as one line of JSON:

    JAX_PLATFORMS=proxy JAX_BACKEND_TARGET=grpc://HOST:PORT python newer_programs.py [--pause]

--pause: waits for a line of input before the last one.
"""

import json
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)
ELEMENTWISE = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "erf": lax.erf,
    "erf_inv": lambda x: lax.erf_inv(x / 3),
    "truncated_normal": lambda x: jax.random.truncated_normal(jax.random.key(7), -1, 1, x.shape) + x,
    "he_normal": lambda x: jax.nn.initializers.he_normal()(jax.random.key(3), x.shape) + x,
    "top_k": lambda x: lax.top_k(x, 3),
}
GRID, ROWS = P("a", "b"), P("a")
# (function of a shard, specs of the result) over a mesh of axes a (2) and b (4)
COLLECTIVE = {
    "psum": (lambda v: lax.psum(v, "b"), P("a", None)),
    "psum_over_two_axes": (lambda v: lax.psum(v, ("a", "b")), P()),
    "pmax": (lambda v: lax.pmax(v, "a"), P(None, "b")),
    "all_gather": (lambda v: lax.all_gather(v, "b", tiled=True), GRID),
    "psum_scatter": (lambda v: lax.psum_scatter(v, "a", scatter_dimension=0, tiled=True), GRID),
    "all_to_all": (lambda v: lax.all_to_all(v, "b", split_axis=0, concat_axis=1, tiled=True), GRID),
    "ppermute": (lambda v: lax.ppermute(v, "b", [(i, (i + 1) % 4) for i in range(4)]), GRID),
    "jit_inside": (lambda v: jax.jit(lambda w: lax.psum(jax.nn.gelu(w, approximate=False), "b"))(v), P("a", None)),
}


def shard_map(function, mesh, out_specs):
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=GRID, out_specs=out_specs, check_vma=False)
    from jax.experimental.shard_map import shard_map as older

    return older(function, mesh=mesh, in_specs=GRID, out_specs=out_specs, check_rep=False)


def mesh_of(devices):
    return Mesh(np.array(devices[:8]).reshape(2, 4), ("a", "b"))


def elementwise(name, devices):
    return jax.jit(ELEMENTWISE[name])(jax.device_put(X, devices[0]))


def collective(name, devices):
    function, out = COLLECTIVE[name]
    mesh = mesh_of(devices)
    return jax.jit(shard_map(function, mesh, out))(jax.device_put(X, NamedSharding(mesh, GRID)))


def gradient(devices, layers=2):
    """Returns a gradient sharded only by jit's shardings: the compiler inserts the collectives."""
    mesh = mesh_of(devices)
    weights = [jax.device_put(X / 8 + i / 64, NamedSharding(mesh, P(None, "b"))) for i in range(layers)]

    def loss(weights, x):
        for w in weights:
            x = jax.nn.gelu(x @ w, approximate=False)
        return jnp.mean(x**2)

    return jax.jit(jax.grad(loss), donate_argnums=())(weights, jax.device_put(X, NamedSharding(mesh, ROWS)))


CASES = {
    **{name: lambda devices, name=name: elementwise(name, devices) for name in ELEMENTWISE},
    **{name: lambda devices, name=name: collective(name, devices) for name in COLLECTIVE},
    "gradient": gradient,
}


def problem(case, devices, reference):
    """Returns the error of running the case on devices and comparing it with jax's own cpu; "" if they agree."""
    try:
        ours, theirs = jax.tree.leaves(case(devices)), jax.tree.leaves(case(reference))
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=2e-5, atol=1e-6)
    except Exception:
        return traceback.format_exc()
    return ""


def main():
    devices, reference = jax.devices(), jax.devices("cpu")
    outcome, last = {}, list(CASES)[-1]
    for name, case in CASES.items():
        if name == last and "--pause" in sys.argv:
            print(json.dumps(outcome), flush=True)
            sys.stdin.readline()
        outcome[name] = problem(case, devices, reference)
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    if jax.config.jax_platforms == "proxy":
        import pathwaysutils

        jax.config.update("jax_platforms", "proxy,cpu")
        pathwaysutils.initialize()
    main()
