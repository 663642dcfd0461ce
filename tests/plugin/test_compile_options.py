"""Options that jax sends with a program are those of its own XLA. compile_options.h says which of them the plugin takes; its unit test has the rules."""

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

YNN = "xla_cpu_experimental_ynn_fusion_type"


def test_a_small_collective_program_with_kernels_of_ynnpack_is_right(mesh, devices):
    """Such kernels may use threads, so the program's devices must not take turns on one."""
    x, w = ((np.arange(n * 32, dtype=np.float32) % 7).reshape(shape) for n, shape in ((8 * 16, (8 * 16, 32)), (16, (32, 16))))
    placed = jax.device_put(x, NamedSharding(mesh, P("x")))
    total = jax.jit(jax.shard_map(lambda v, w: jax.lax.psum(v @ w, "x"), mesh=mesh, in_specs=(P("x"), P()), out_specs=P()))
    compiled = total.lower(placed, w).compile(compiler_options={YNN: "LIBRARY_FUSION_TYPE_DOT"})
    assert "__ynn_fusion" in compiled.as_text()
    for _ in range(20):
        np.testing.assert_array_equal(np.asarray(compiled(placed, w)), (x @ w).reshape(8, 16, 16).sum(0))
