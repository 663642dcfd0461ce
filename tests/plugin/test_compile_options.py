"""Options that jax sends with a program are those of its own XLA. The plugin decides what they mean to the XLA that it has: see compile_options.h, whose
unit test has the rules."""

import os
import re
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

YNN = "xla_cpu_experimental_ynn_fusion_type"
ALL_OF_YNN = {YNN: "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"}
X = np.random.default_rng(0).standard_normal((8, 64, 64), dtype=np.float32)


def test_reductions_are_compiled_and_not_ynnpack_s(devices):
    program = jax.jit(lambda x: jax.nn.softmax(x, axis=0)).lower(X)
    assert "__ynn_fusion" not in program.compile().as_text()
    named = program.compile(compiler_options=ALL_OF_YNN)  # an option that the user names is taken
    assert "__ynn_fusion" in named.as_text()
    np.testing.assert_allclose(named(X), jax.nn.softmax(X, axis=0), rtol=1e-5)


@pytest.mark.timeout(120)
def test_products_do_not_run_in_ynnpack(plugin):
    """XLA hands a product to YNNPACK when it runs it, without a trace in the program's text. Its log tells."""
    program = f"""
        import jax, numpy as np
        x = np.ones((64, 64), np.float32)
        product = jax.jit(lambda a, b: a @ b).lower(x, x)
        for options in (None, {ALL_OF_YNN!r}):
            np.testing.assert_array_equal(product.compile(compiler_options=options)(x, x), x @ x)
            print("ran", flush=True)
            sys.stderr.write("ran\\n")
    """
    env = dict(os.environ, JAX_PLATFORMS="pwcpu", PJRT_NAMES_AND_LIBRARY_PATHS=f"pwcpu:{plugin}", TF_CPP_MIN_LOG_LEVEL="0",
               TF_CPP_VMODULE="ynn_fusion_thunk=3")
    done = subprocess.run([sys.executable, "-c", "import sys\n" + textwrap.dedent(program)], capture_output=True, text=True, env=env)
    assert done.stdout == "ran\n" * 2, done.stderr
    without, named, _ = re.split(r"^ran$", done.stderr, flags=re.MULTILINE)
    assert "YNN" not in without and "YNN fusion" in named, done.stderr


def test_a_small_collective_program_with_kernels_of_ynnpack_is_right(mesh, devices):
    """Such kernels may use threads, so the program's devices must not take turns on one."""
    x, w = ((np.arange(n * 32, dtype=np.float32) % 7).reshape(shape) for n, shape in ((8 * 16, (8 * 16, 32)), (16, (32, 16))))
    placed = jax.device_put(x, NamedSharding(mesh, P("x")))
    total = jax.jit(jax.shard_map(lambda v, w: jax.lax.psum(v @ w, "x"), mesh=mesh, in_specs=(P("x"), P()), out_specs=P()))
    compiled = total.lower(placed, w).compile(compiler_options={YNN: "LIBRARY_FUSION_TYPE_DOT"})
    assert "__ynn_fusion" in compiled.as_text()
    for _ in range(20):
        np.testing.assert_array_equal(np.asarray(compiled(placed, w)), (x @ w).reshape(8, 16, 16).sum(0))
