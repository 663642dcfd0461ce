"""The shortest program: sums an array that is spread over every device. Plain JAX.

    JAX_PLATFORMS=pathways python examples/hello.py
"""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def groups(devices):
    """Groups devices by island, for one computation on each. jax's own devices have no islands and form one group."""
    islands = {}
    for device in devices:
        islands.setdefault(getattr(device, "island", 0), []).append(device)
    return islands


for name, devices in groups(jax.devices()).items():
    mesh = Mesh(devices, ("x",))
    x = jax.device_put(jnp.arange(8.0 * len(devices)), NamedSharding(mesh, P("x")))
    total = jax.jit(lambda v: (v * v).sum())(x)
    print(f"island {name}: {len(devices)} x {devices[0].device_kind}, sum of squares {float(total):.0f}")
