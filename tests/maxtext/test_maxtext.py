"""Trains unchanged MaxText on our clusters: it reports the same losses as on jax's own cpu devices.

`make test-maxtext` installs MaxText and runs this. Each run of MaxText is a separate process, as a user starts it (docs/maxtext.md).
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "venv-maxtext" / "bin" / "python"
PATIENCE = 1800  # seconds for one run, which takes half a minute on an idle machine
pytestmark = pytest.mark.timeout(4 * PATIENCE)

STEPS = 4
DEVICES_PER_ISLAND = 4
# float32: bfloat16 would hide differences. The schedule does not depend on the steps of one run, so that a resumed run continues it.
COMMON = {"hardware": "tpu", "enable_single_controller": True, "dataset_type": "synthetic", "steps": STEPS, "learning_rate_schedule_steps": STEPS,
          "per_device_batch_size": 1, "max_target_length": 32, "vocab_size": 256, "base_emb_dim": 64, "base_mlp_dim": 128, "head_dim": 16,
          "base_num_decoder_layers": 2, "base_num_query_heads": 4, "base_num_kv_heads": 2, "attention": "dot_product", "dtype": "float32",
          "enable_checkpointing": False}
MIXTURE = {"decoder_block": "mixtral", "num_experts": 4, "num_experts_per_tok": 2, "base_moe_mlp_dim": 128, "sparse_matmul": False,
           "megablox": False}

# The values of each step that are compared, with relative tolerances: the compiler chooses the order of a sum.
TOLERANCES = {"learning/loss": 1e-5, "learning/raw_grad_norm": 1e-4}


class Case:
    """A model to train. islands: of the cluster. options: of MaxText. reference: options that differ on jax's cpu devices, which have no slices."""

    def __init__(self, islands, options, reference=None):
        self.islands, self.options, self.reference = islands, options, options | (reference or {})

    @property
    def devices(self):
        return self.islands * DEVICES_PER_ISLAND


CASES = {
    "dense": Case(1, {"ici_fsdp_parallelism": 2, "ici_tensor_parallelism": 2}),
    "mixture_of_experts": Case(1, MIXTURE | {"ici_fsdp_parallelism": 2, "ici_expert_parallelism": 2}),
    "two_slices": Case(2, {"dcn_data_parallelism": 2, "ici_fsdp_parallelism": 4},
                       {"dcn_data_parallelism": 1, "ici_data_parallelism": 2}),
}

# A program reaches a cluster by our plugin, or by jax's own proxy client, which pathwaysutils sets up.
PLATFORMS = {
    "pathways": lambda up: {"JAX_PLATFORMS": "pathways", "PATHWAYS_ADDRESS": up["address"], "PATHWAYS_HOME": up["home"]},
    "proxy": lambda up: {"JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": f"grpc://{up['proxy_address']}",
                         "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true"},
}


def environment(**env):
    """Returns this process's environment without the settings of jax and Pathways."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PATHWAYS_", "IFRT_PROXY_"))}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "2", **env}


def run(command, env, cwd):
    done = subprocess.run([str(word) for word in command], env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command[:3]} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def train(folder, name, options, **env):
    """Trains, and returns the metrics of each step by the step's number."""
    metrics = folder / f"{name}.json"
    settings = COMMON | {"run_name": "run", "base_output_directory": folder, "metrics_file": metrics} | options
    run([PYTHON, "-m", "maxtext.trainers.pre_train.train", *(f"{key}={value}" for key, value in settings.items())],
        environment(DECOUPLE_GCLOUD="TRUE", **env), folder)
    return {int(line["step"]): line for line in map(json.loads, metrics.read_text().splitlines())}


def assert_same(reported, reference, steps):
    assert sorted(reported) == list(steps)
    for name, tolerance in TOLERANCES.items():
        np.testing.assert_allclose([reported[step][name] for step in steps], [reference[step][name] for step in steps], rtol=tolerance,
                                   err_msg=name)


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """Returns reference(name): the metrics of a case on the same number of jax's own cpu devices."""
    known = {}

    def of(name):
        if name not in known:
            case = CASES[name]
            known[name] = train(tmp_path_factory.mktemp(f"reference_{name}"), "metrics", case.reference, JAX_PLATFORMS="cpu",
                                XLA_FLAGS=f"--xla_force_host_platform_device_count={case.devices}")
            losses = [known[name][step]["learning/loss"] for step in range(STEPS)]
            assert losses == sorted(losses, reverse=True), f"the reference does not learn: {losses}"
        return known[name]

    return of


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """cluster(islands): the output of `pathways up` for a cluster with that number of islands. It starts with the first use and ends after the last test."""
    # The CPU plugin needs TensorFlow's libraries, which build/venv has. They are not linked into MaxText's environment, unlike into
    # others, because MaxText would take a folder of that name for TensorFlow itself.
    libraries = next(ROOT.glob("build/venv/lib/python*/site-packages/tensorflow"))
    started, folder = {}, tmp_path_factory.mktemp("clusters")
    env = environment(PATHWAYS_HOME=str(folder), PATHWAYS_START_SECONDS=str(PATIENCE), LD_LIBRARY_PATH=str(libraries))

    def of(islands):
        if islands not in started:
            up = run([PYTHON, "-m", "pathways", "up", "--name", f"maxtext{islands}", "--islands", islands, "--devices", DEVICES_PER_ISLAND, "--json"],
                     env, folder)
            started[islands] = {**json.loads(up), "home": str(folder)}  # where the user's programs find the cluster's token
        return started[islands]

    yield of
    for islands in started:
        run([PYTHON, "-m", "pathways", "down", "--name", f"maxtext{islands}"], env, folder)


@pytest.fixture(params=PLATFORMS)
def on_cluster(request, cluster):
    """on_cluster(islands): the environment of a program on a cluster with that number of islands."""
    return lambda islands: PLATFORMS[request.param](cluster(islands))


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_jax_own_devices(name, on_cluster, reference, tmp_path):
    case = CASES[name]
    expected = reference(name)
    assert_same(train(tmp_path, "metrics", case.options, **on_cluster(case.islands)), expected, range(STEPS))


def test_a_run_that_was_ended_resumes_from_its_checkpoint(on_cluster, reference, tmp_path):
    case, half = CASES["dense"], STEPS // 2
    expected = reference("dense")
    options = case.options | {"enable_checkpointing": True, "async_checkpointing": False}
    assert_same(train(tmp_path, "first", options | {"steps": half}, **on_cluster(case.islands)), expected, range(half))
    assert_same(train(tmp_path, "second", options, **on_cluster(case.islands)), expected, range(half, STEPS))
