"""A user with a token compiles programs with options that would write, read or kill on the hosts (docs/security.md)."""

import pytest
from cli import User, operator_at


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with operator_at(tmp_path_factory.mktemp("operator"), PATHWAYS_COMPILE_CACHE="off") as command:
        yield command


@pytest.fixture(scope="module")
def cluster(operator):
    return operator("up", "--devices", "1", "--listen-proxy", "none")


@pytest.fixture(scope="module")
def eve(operator, cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("eve")
    operator("token", "create", "--user", "eve", "--output", str(folder / "token"))
    user = User(folder / "home")
    user.login(cluster["address"], folder / "token")
    return user


@pytest.mark.parametrize("door", ["ifrt", "pjrt"])
def test_options_that_write_read_or_kill_are_refused_by_name(cluster, eve, tmp_path, door):
    code = f"""
import jax, numpy as np
options = [{{"xla_dump_to": {str(tmp_path / "dump")!r}}}, {{"xla_dump_to": "here"}}, {{"xla_gpu_kernel_cache_file": "cache"}}, {{"xla_of_tomorrow": "file"}},
           {{"xla_gpu_asm_extra_flags": "-o x"}}, {{"xla_gpu_crash_on_verification_failures": True}}, {{"xla_backend_extra_options": "info-output-file=x"}}]
for number, option in enumerate(options):
    try:
        print(jax.jit(lambda v: v + number, compiler_options=option)(np.ones(3)))
    except Exception as error:
        print(str(error).replace(chr(10), " "))
print(jax.jit(lambda v: v * 2, compiler_options={{"xla_cpu_enable_fast_math": True, "xla_cpu_prefer_vector_width": 128}})(np.ones(1)))
"""
    eve.env["PATHWAYS_DOOR"] = door
    lines = eve.run(cluster["address"], code).splitlines()
    names = ["xla_dump_to", "xla_dump_to", "xla_gpu_kernel_cache_file", "xla_of_tomorrow", "xla_gpu_asm_extra_flags",
             "xla_gpu_crash_on_verification_failures", "xla_backend_extra_options"]
    assert len(lines) == len(names) + 1 and lines[-1] == "[2.]", lines
    for name, line in zip(names, lines):
        assert f"sets the XLA option {name}" in line and "Clients of this cluster cannot set it" in line, line
    assert not list(tmp_path.iterdir())


def test_the_clients_environment_writes_nothing_on_the_hosts(cluster, eve, tmp_path):
    """The stock client sends the options of XLA_FLAGS with every program. The programs run, and the operator's settings stay."""
    eve.env["PATHWAYS_DOOR"] = "ifrt"
    eve.env["XLA_FLAGS"] = f"--xla_dump_to={tmp_path / 'dump'} --xla_dump_hlo_as_text"
    try:
        assert eve.run(cluster["address"], "import jax, numpy as np; print(jax.jit(lambda v: v - 7)(np.ones(1)))") == "[-6.]\n"
    finally:
        del eve.env["XLA_FLAGS"]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not written
