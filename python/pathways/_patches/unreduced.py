"""Makes results unreduced if only their requested sharding is (PartitionSpec(unreduced={"x"})): their sum over a mesh axis is still to be taken.

XLA handles a value that the program's own arithmetic leaves unreduced. If only the requested sharding of a result is unreduced
(`jit(f, out_shardings=...)`, `device_put`), the workers' XLA would give every device the whole value, and the later sum would be too large. So we
insert jax's reshard to an unreduced sharding into the program.
"""

import functools

from pathways._jax import placement, seams


def _to_do(aval, sharding):
    """Whether `sharding` is unreduced over an axis over which the result is not."""
    has, wanted = (getattr(getattr(s, "spec", None), "unreduced", ()) for s in (getattr(aval, "sharding", None), sharding))
    return bool(set(wanted or ()) - set(has or ()))


def _with_reshards(closed_jaxpr, shardings):
    import jax
    from jax.extend.core import jaxpr_as_fun

    function = jaxpr_as_fun(closed_jaxpr)

    def program(*args):
        results = zip(function(*args), closed_jaxpr.out_avals, shardings)
        return [jax.sharding.reshard(r, sharding) if _to_do(aval, sharding) else r for r, aval, sharding in results]

    args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding, weak_type=a.weak_type) for a in closed_jaxpr.in_avals]
    return jax.make_jaxpr(program)(*args)


def install(is_ours):
    """Wraps jax's lowering. is_ours(client): whether the client is a Pathways backend. Idempotent."""
    ordinary = seams.LOWER.find()
    if ordinary is None or getattr(ordinary, "_pathways", False):
        return

    @functools.wraps(ordinary)
    def lower_sharding_computation(closed_jaxpr, api_name, fun_name, in_shardings, out_shardings, *others, **named):
        asked = [s for aval, s in zip(closed_jaxpr.out_avals, out_shardings) if _to_do(aval, s)]
        if asked and is_ours(placement.client_of(asked[0])):
            closed_jaxpr = _with_reshards(closed_jaxpr, out_shardings)
        return ordinary(closed_jaxpr, api_name, fun_name, in_shardings, out_shardings, *others, **named)

    lower_sharding_computation._pathways = True
    seams.LOWER.replace(lower_sharding_computation)
