"""Tests the translation of programs to an older StableHLO, in this process and in the helper process of a front end."""

import io
import re
import struct
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from pathways import _translator
from pathways._callbacks import host_calls
from pathways._jax import portable_programs

OLDER = "1.13.0"
DEVICES = jax.devices("cpu")


def module_of(function, *args, **options):
    return jax.jit(function, **options).lower(*args).compiler_ir("stablehlo")


def own(module):
    return portable_programs.write(module, portable_programs.newest_version())


@pytest.fixture(scope="module")
def gelu():
    return own(module_of(jax.nn.gelu, jnp.ones(8)))


def version_of(program):
    return re.search(rb"StableHLO_v([0-9.]+)", program[:64])[1].decode()


def text_of(program):
    """Returns the program as text, as this jaxlib reads it."""
    ir, dialects = portable_programs._dialects()
    with ir.Context() as context:
        for dialect in dialects:
            dialect.register_dialect(context)
        return str(dialects[0].deserialize_portable_artifact(context, program))


def test_a_program_is_written_for_the_version_asked_for(gelu):
    assert version_of(gelu) == portable_programs.newest_version()
    assert version_of(portable_programs.translate(gelu, OLDER)) == OLDER


def test_a_reader_that_is_newer_than_jaxlib_gets_jaxlibs_own_version():
    assert version_of(portable_programs.write(module_of(jnp.sin, jnp.ones(8)), "99.0.0")) == portable_programs.newest_version()


def test_arguments_donation_and_shardings_stay():
    mesh = Mesh(np.array(DEVICES[:1]), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    program = own(module_of(lambda a, b: a + b, jnp.ones(8), jnp.ones(8), donate_argnums=1, in_shardings=(sharding, sharding),
                            out_shardings=sharding))
    translated = portable_programs.translate(program, OLDER)
    assert text_of(translated) == text_of(program)
    assert re.search(r"tf.aliasing_output|jax.buffer_donor", text_of(translated)) and "sharding" in text_of(translated)


def test_collectives_keep_their_groups():
    mesh = Mesh(np.array(DEVICES[:1]), ("x",))
    shard_map = getattr(jax, "shard_map", None) or pytest.importorskip("jax.experimental.shard_map").shard_map
    program = own(module_of(shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()), jnp.ones(8)))
    assert "replica_groups = dense<0> : tensor<1x1xi64>" in text_of(portable_programs.translate(program, OLDER))


@pytest.mark.parametrize("program", [b"garbage", b"ML\xefR\x0dStableHLO_v99.1.0\0garbage"])
def test_what_cannot_be_read_is_an_error_with_both_versions(program, capfd):
    with pytest.raises(portable_programs.Unreadable) as error:
        portable_programs.translate(program, OLDER)
    assert portable_programs.newest_version() in str(error.value) and OLDER in str(error.value)
    assert capfd.readouterr().err == ""  # the error has MLIR's own message


def test_the_client_answers_the_controllers_calls(gelu):
    function, dtypes, _ = host_calls.Registry().get(host_calls.TRANSLATE)
    assert dtypes == (np.uint8, np.uint8)
    (result,) = function(np.frombuffer(gelu, np.uint8), np.frombuffer(OLDER.encode(), np.uint8))
    assert version_of(result.tobytes()) == OLDER


# ---- the helper process ----
def request(program, version=OLDER):
    return struct.pack("<QB", len(program), len(version)) + version.encode() + program


def answer_of(stream):
    translated, size = struct.unpack("<BQ", stream.read(9))
    return bool(translated), stream.read(size)


def test_requests_are_answered_in_turn(gelu):
    requests, answers = io.BytesIO(request(gelu) + request(b"garbage") + request(gelu)), io.BytesIO()
    for _ in range(3):
        _translator.answer_one(requests, answers)
    with pytest.raises(EOFError):
        _translator.answer_one(requests, answers)
    answers.seek(0)
    good, bad, again = answer_of(answers), answer_of(answers), answer_of(answers)
    assert good == again == (True, portable_programs.translate(gelu, OLDER))
    assert not bad[0] and b"jaxlib" in bad[1]


def helper(data):
    return subprocess.run([sys.executable, "-P", "-m", "pathways._translator"], input=data, capture_output=True, timeout=120)


def test_the_process_answers_and_ends_with_its_input(gelu):
    done = helper(request(gelu) + request(gelu)[:40])  # the last request is cut short
    assert done.returncode == 0, done.stderr
    answers = io.BytesIO(done.stdout)
    translated, program = answer_of(answers)
    assert translated and version_of(program) == OLDER and answers.read() == b""


@pytest.mark.parametrize("data", [b"", b"\xff" * 5, request(b"x" * 100)[:60], request(b"\x00" * 64), request(b"", "1.x"), request(b"x", "")])
def test_the_process_survives_what_makes_no_sense(data):
    done = helper(data)
    assert done.returncode == 0, done.stderr
