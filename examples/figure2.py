"""Figure 2 of the paper, as printed: three compiled functions on virtual slices, and a program that calls them.

    JAX_PLATFORMS=pathways python examples/figure2.py

prints (array([3., 5.]), array([2., 4.])).
"""

import jax
import numpy

import pathways as pw

jax.config.update("jax_enable_x64", True)  # keeps numpy's float64


def get_devices(n):
    """Allocates `n` virtual TPU devices on an island."""
    device_set = pw.make_virtual_device_set()
    return device_set.add_slice(tpu_devices=n).tpus


a = jax.pmap(lambda x: x * 2., devices=get_devices(2))
b = jax.pmap(lambda x: x + 1., devices=get_devices(2))
c = jax.pmap(lambda x: x / 2., devices=get_devices(2))


@pw.program  # Program tracing (optional)
def f(v):
    x = a(v)
    y = b(x)
    z = a(c(x))
    return (y, z)


print(jax.tree.map(numpy.asarray, f(numpy.array([1., 2.]))))
