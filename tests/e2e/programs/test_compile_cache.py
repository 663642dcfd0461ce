"""Tests the compile cache on disk: the next run of a script loads the programs that the first one compiled."""

SCRIPT = """
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2,), ("x",))
x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, P("x")))
print(jax.jit(lambda x: jnp.sin(x).sum())(x))
print(jax.random.normal(jax.random.key(0), (3,)))
print(jax.jit(lambda x: x * 2, compiler_options={"xla_cpu_enable_fast_math": False, "xla_cpu_prefer_vector_width": 128})(jnp.ones(2)))
jax.debug.print("{}", x.sum())
"""


def test_the_second_start_of_a_script_compiles_nothing(run_script, tmp_path):
    def entries():
        return sorted(path.name for path in (tmp_path / "programs").iterdir())

    first = run_script(SCRIPT, PATHWAYS_COMPILE_CACHE=str(tmp_path / "programs"))
    assert first.returncode == 0, first.stderr
    compiled = entries()
    assert compiled
    for _ in range(2):  # each client serializes map entries in another order
        again = run_script(SCRIPT, PATHWAYS_COMPILE_CACHE=str(tmp_path / "programs"))
        assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
        assert entries() == compiled
