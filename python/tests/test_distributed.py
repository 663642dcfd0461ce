"""Runs scripts written for multi-controller jax, and the code that runs before them, each in its own interpreter."""

import os
import subprocess
import sys

import pytest


def run(code, **env):
    prologue = "import pathways._bootstrap; pathways._bootstrap.main()\n"  # what pathways.pth does for an installed package
    clean = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "PATHWAYS_ADDRESS", "PATHWAYS_LOCAL")
             and not k.startswith("IFRT_PROXY")}
    return subprocess.run([sys.executable, "-c", prologue + code], env={**clean, **env}, capture_output=True, text=True, timeout=120)


SCRIPT = """
import jax
jax.distributed.initialize({arguments})
assert jax.distributed.is_initialized()
try:
  jax.distributed.initialize()
except RuntimeError as error:
  assert "once" in str(error)
else:
  raise SystemExit("a second initialize() must fail as in jax")
jax.distributed.shutdown()
assert not jax.distributed.is_initialized()
print("survived")
"""


@pytest.mark.parametrize("arguments", ["", "'localhost:1234', 4, 2", "coordinator_address='10.0.0.1:99', num_processes=2, process_id=1"])
def test_initialize_is_harmless(arguments):
    done = run(SCRIPT.format(arguments=arguments), JAX_PLATFORMS="pathways")
    assert done.stdout == "survived\n", done.stderr


def test_without_the_selection_jax_s_own_initialize_stays():
    done = run("import jax\njax.distributed.initialize()", JAX_PLATFORMS="cpu")
    assert done.returncode != 0 and "coordinator_address should be defined" in done.stderr


def test_the_hook_leaves_the_import_system_as_it_was():
    done = run("import sys, jax, jax.distributed\nprint(any('pathways' in type(f).__module__ for f in sys.meta_path))", JAX_PLATFORMS="pathways")
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("platforms, expected", [("pathways", "true"), ("pathways,cpu", "true"), ("proxy", "true"), ("cpu", "None"), ("", "None")])
def test_the_client_s_credentials_are_set_where_our_server_is_meant(platforms, expected):
    done = run("import os; print(os.environ.get('IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS'))", JAX_PLATFORMS=platforms)
    assert done.stdout.strip() == expected


def test_what_the_user_has_set_stays():
    done = run("import os; print(os.environ['IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS'])", JAX_PLATFORMS="pathways",
               IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS="false")
    assert done.stdout.strip() == "false"


def test_unselected_nothing_of_ours_is_loaded_and_jax_is_itself():
    done = run("import jax, sys\nprint(jax.devices()[0].platform, 'pathways._client.connection' in sys.modules, "
               "'pathways' in jax._src.xla_bridge._backend_factories)", JAX_PLATFORMS="cpu")
    assert done.stdout.split()[0] == "cpu" and done.stdout.split()[2] == "False", done.stderr
