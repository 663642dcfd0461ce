"""Results that are to be unreduced: sums over a mesh axis that are still to be taken (PartitionSpec(unreduced={"x"})).

Where a program's own arithmetic leaves a value so, XLA knows what to do. Where only the sharding asked for the result says so
(`jit(f, out_shardings=...)`, `device_put`), the XLA of the workers would hand every device the whole value, and the sum would be too large. So
the change is put into the program, as the reshard that jax has for it.
"""

import functools

from pathways._jax import seams


def _to_do(aval, sharding):
    """Whether the result has to become unreduced over an axis more."""
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
    """is_ours(client) tells our backends from others. Idempotent."""
    ordinary = seams.LOWER.find()
    if ordinary is None or getattr(ordinary, "_pathways", False):
        return

    @functools.wraps(ordinary)
    def lower_sharding_computation(closed_jaxpr, api_name, fun_name, in_shardings, out_shardings, *others, **named):
        asked = [s for aval, s in zip(closed_jaxpr.out_avals, out_shardings) if _to_do(aval, s)]
        if asked and is_ours(asked[0]._internal_device_list[0].client):
            closed_jaxpr = _with_reshards(closed_jaxpr, out_shardings)
        return ordinary(closed_jaxpr, api_name, fun_name, in_shardings, out_shardings, *others, **named)

    lower_sharding_computation._pathways = True
    seams.LOWER.replace(lower_sharding_computation)
