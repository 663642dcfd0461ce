"""Estimates the cost of a jaxpr's equations, precisely enough to balance stages and to find the expensive parts."""

import math

from pathways._jax import public


def bytes_of(aval):
    aval = public.physical_aval(aval)
    return math.prod(aval.shape) * max(aval.dtype.itemsize, 1)


def flops(jaxpr):
    return sum(map(equation_flops, jaxpr.eqns))


def equation_flops(eqn):
    """Returns floating point operations: exact for products and convolutions, one per element for other equations."""
    name, params = eqn.primitive.name, eqn.params
    outputs = sum(math.prod(var.aval.shape) for var in eqn.outvars if hasattr(var.aval, "shape"))
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2 * outputs * math.prod(eqn.invars[0].aval.shape[i] for i in contracted)
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        return 2 * outputs * math.prod(kernel) // max(kernel[params["dimension_numbers"].rhs_spec[0]], 1)
    inner = [flops(one) for one in public.inner_jaxprs(params)]
    if not inner:
        inputs = sum(math.prod(var.aval.shape) for var in eqn.invars if hasattr(var.aval, "shape"))
        return max(outputs, inputs) if name.startswith(("reduce", "arg", "cum", "sort")) else outputs
    if name == "scan":
        return params["length"] * sum(inner)
    if name == "cond":
        return max(inner)
    if name in ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"):
        return inner[0]
    return sum(inner)
