"""Runs and trains PyTorch models by torchax on a cluster of two islands: the results are those of torch's own CPU. `make test-torchax` runs this in
build/venv-torchax. The pytest process is the client of a local cluster.
"""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.update(JAX_PLATFORMS="pathways", PATHWAYS_LOCAL="2x1x4")
os.environ.pop("PATHWAYS_ADDRESS", None)
# The workers' CPU plugin needs the XLA of a package that only build/venv has.
os.environ["LD_LIBRARY_PATH"] = str(next(ROOT.glob("build/venv/lib/python*/site-packages/tensorflow")))

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
import torchax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

ISLANDS, PER_ISLAND = 2, 4
STEPS, RATE = 4, 0.1
INPUT, HIDDEN, BATCH = 12, 16, 8
# The parameters of `network`: the hidden layer is split over the devices of an island, and the batch over the islands.
PLACES = {"0.weight": P("model"), "0.bias": P("model"), "2.weight": P(None, "model"), "2.bias": P()}


@pytest.fixture(scope="module")
def env():
    return torchax.default_env()


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(INPUT, HIDDEN), torch.nn.GELU(), torch.nn.Linear(HIDDEN, 1))


def batch():
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, INPUT), dtype=np.float32)
    return x, x.sum(axis=1, keepdims=True)


def attention(x, w):
    scores = (x @ w) @ x.T / x.shape[-1] ** 0.5
    return torch.nn.functional.layer_norm(torch.softmax(scores, dim=-1) @ x, (x.shape[-1],))


def assert_on_cluster(array):
    assert array.devices() <= set(jax.devices()) and len(jax.devices()) == ISLANDS * PER_ISLAND


def test_eager(env):
    x, w = torch.randn(5, INPUT), torch.randn(INPUT, INPUT)
    with env:
        ours = attention(x.to("jax"), w.to("jax"))
    assert_on_cluster(ours.jax())
    np.testing.assert_allclose(np.asarray(ours.jax()), attention(x, w).numpy(), rtol=1e-5, atol=1e-5)


def test_jit(env):
    x, _ = batch()
    with torch.no_grad():
        expected = network()(torch.from_numpy(x)).numpy()
    with env:
        compiled = torchax.compile(network().to("jax"))
        ours = compiled(torch.from_numpy(x).to("jax"))
    assert_on_cluster(ours.jax())
    np.testing.assert_allclose(np.asarray(ours.jax()), expected, rtol=1e-5, atol=1e-5)


def train_with_torch():
    model, (x, y) = network(), map(torch.from_numpy, batch())
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=RATE), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: value.detach().numpy() for name, value in model.named_parameters()}


def test_a_sharded_training_step_on_two_islands():
    mesh = Mesh(np.array(jax.devices()).reshape(ISLANDS, PER_ISLAND), ("data", "model"))
    weights, forward = torchax.extract_jax(network())
    assert set(weights) == set(PLACES)
    weights = {name: jax.device_put(value, NamedSharding(mesh, PLACES[name])) for name, value in weights.items()}
    x, y = jax.device_put(batch(), NamedSharding(mesh, P("data")))

    @jax.jit
    def step(weights, x, y):
        loss, gradients = jax.value_and_grad(lambda weights: ((forward(weights, (x,)) - y) ** 2).mean())(weights)
        return loss, jax.tree.map(lambda weight, gradient: weight - RATE * gradient, weights, gradients)

    losses = []
    for _ in range(STEPS):
        loss, weights = step(weights, x, y)
        losses.append(float(loss))
    expected_losses, expected_weights = train_with_torch()
    assert expected_losses == sorted(expected_losses, reverse=True)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for name, expected in expected_weights.items():
        assert weights[name].sharding.device_set == set(jax.devices())
        np.testing.assert_allclose(np.asarray(weights[name]), expected, rtol=1e-4, atol=1e-6, err_msg=name)
