"""Compares two ways of sending rows to experts on two islands and back: `pw.route` in a program, which sends rows only to the hosts of the experts that
they name, and one compiled function over all devices with dense `all_to_all` exchanges, whose buffers have the same capacity for every expert. The same
rows, experts and results; few experts are hit.
"""

import os
import time

os.environ.setdefault("JAX_PLATFORMS", "pathways")
os.environ.setdefault("PATHWAYS_LOCAL", "2x1x4")

import _report  # noqa: E402


def median(values):
    return sorted(values)[len(values) // 2]


def ways(jax, jnp, pw, mesh, rows, width, hit):
    """Returns {name: function of (weights, x, where)}; each sends the rows to their experts, multiplies by the expert's weights, and brings them back."""
    from jax.sharding import NamedSharding, PartitionSpec as P

    experts, cut = mesh.size, NamedSharding(mesh, P("expert"))
    each = -(-rows // experts * 5 // (4 * hit))  # rows of each device for each expert that is hit, and a quarter more
    multiply = jax.jit(lambda w, r: jnp.einsum("ecd,edf->ecf", r, w), in_shardings=(cut, cut), out_shardings=cut)

    @pw.program
    def sparse(weights, x, where):
        routed = pw.route(x, where, mesh, capacity=each * experts)
        return routed.back(multiply(weights, routed.rows))

    def local(weights, x, where):
        chosen = jax.nn.one_hot(where, experts, dtype=jnp.int32)
        place = jnp.sum((jnp.cumsum(chosen, axis=0) - 1) * chosen, axis=1)
        sent = jnp.zeros((experts, each, width), x.dtype).at[where, place].set(x, mode="drop")
        there = jax.lax.all_to_all(sent, "expert", 0, 0, tiled=True)  # [device that sent, rows, width]
        made = there @ weights[0]
        return jax.lax.all_to_all(made, "expert", 0, 0, tiled=True)[where, place]

    dense = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P("expert"), out_specs=P("expert")))
    return {"route": sparse, "all_to_all": dense}


def main():
    def add(parser):
        parser.add_argument("--rows", type=int, default=4096)
        parser.add_argument("--width", type=int, default=256)
        parser.add_argument("--hit", type=int, nargs="+", default=[1, 2, 8], help="how many of the experts are hit")
        parser.add_argument("--rounds", type=int, default=15)

    args = _report.arguments(__doc__, add)
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    import pathways as pw

    mesh = Mesh(np.array(jax.devices()), ("expert",))
    cut = NamedSharding(mesh, P("expert"))
    rng = np.random.default_rng(0)
    x = jax.device_put(rng.normal(size=(args.rows, args.width)).astype(np.float32), cut)
    weights = jax.device_put(rng.normal(size=(mesh.size, args.width, args.width)).astype(np.float32) * args.width**-0.5, cut)
    figures, targets = {}, []
    for hit in args.hit:
        # Each device names the experts equally often, so that neither way drops a row.
        where = jax.device_put(np.tile(np.arange(args.rows // mesh.size, dtype=np.int32) % hit, mesh.size), cut)
        functions = ways(jax, jnp, pw, mesh, args.rows, args.width, hit)
        made = {name: np.asarray(function(weights, x, where)) for name, function in functions.items()}
        np.testing.assert_allclose(made["route"], made["all_to_all"], rtol=1e-4, atol=1e-4)
        times = {name: [] for name in functions}
        for _ in range(args.rounds):
            for name, function in functions.items():
                start = time.perf_counter()
                jax.block_until_ready(function(weights, x, where))
                times[name].append(time.perf_counter() - start)
        of = {name: 1e3 * median(one) for name, one in times.items()}
        figures |= {f"{name}_{hit}_hit_ms": ms for name, ms in of.items()}
        print(f"{hit} of {mesh.size} experts hit, {args.rows} rows of {4 * args.width} bytes: route {of['route']:.1f} ms, all_to_all {of['all_to_all']:.1f} ms")
        if 4 * hit <= mesh.size:
            targets.append(_report.target(f"route / all_to_all, {hit} hit", of["route"] / of["all_to_all"], 1.0))
    _report.finish(args, "route", figures, targets)


if __name__ == "__main__":
    main()
