"""pw.pipeline on a cluster: the stages are on devices of two islands, and a step is one program. See also python/tests/test_pipeline.py."""

import collections
import gc
import gzip
import json
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pathways as pw
from conftest import ROOT, assert_same, clean_environment, eventually
from pathways._client import connection
from pathways._cluster import admin

optax = pytest.importorskip("optax")
BATCH, WIDTH = 16, 8


def mean_square(outputs, y):
    return jnp.mean((outputs - y) ** 2)


def dense(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def apply(params, x):
    for one in params:
        x = dense(one, x)
    return x


def layers(count=4):
    rng = np.random.default_rng(1)
    return [{"w": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 3, "b": np.zeros(WIDTH, np.float32)} for _ in range(count)]


def batch(seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(BATCH, WIDTH)).astype(np.float32) for _ in range(2))


@pytest.fixture
def alternating(islands):
    """Returns devices of alternating islands, so that every stage sends to the other island."""
    return [device for pair in zip(*islands) for device in pair]


def trained(params, steps, optimizer, cpu, forward=apply):
    """Trains on jax's own cpu without a pipeline; returns the reference results."""
    with jax.default_device(cpu):
        params, losses = jax.tree.map(jnp.asarray, params), []
        state = optimizer.init(params)
        for seed in range(steps):
            x, y = batch(seed)
            loss, gradients = jax.value_and_grad(lambda p: mean_square(forward(p, x), y))(params)
            updates, state = optimizer.update(gradients, state, params)
            params = optax.apply_updates(params, updates)
            losses.append(float(loss))
        return losses, params, state


@pytest.mark.parametrize("schedule", ("gpipe", "1f1b"))
@pytest.mark.parametrize("stages", (1, 2, 4))
def test_loss_and_gradients_are_those_of_the_whole_model(stages, schedule, alternating, cpu):
    params = layers()
    x, y = batch()
    pipeline = pw.pipeline([dense] * 4, loss=mean_square, stages=alternating[:stages], microbatches=4, schedule=schedule)
    state = pipeline.init(params, x, y)
    loss, gradients = pipeline.value_and_grad(state, x, y)
    with jax.default_device(cpu):
        expected = jax.value_and_grad(lambda p: mean_square(apply(p, x), y))(params)
    assert_same((loss, gradients), expected, rtol=2e-5, atol=1e-6)
    assert [one["w"].devices() for one in gradients] == [{alternating[i * stages // 4]} for i in range(4)]


def linen_model():
    linen = pytest.importorskip("flax.linen")
    model = linen.Sequential([linen.Dense(WIDTH), linen.gelu, linen.LayerNorm(), linen.Dense(WIDTH), linen.gelu, linen.Dense(WIDTH)])
    return model, lambda: model.init(jax.random.key(0), jnp.zeros((1, WIDTH))), model.apply


def nnx_model():
    nnx = pytest.importorskip("flax.nnx")

    def make():
        rngs = nnx.Rngs(0)
        return nnx.Sequential(nnx.Linear(WIDTH, WIDTH, rngs=rngs), nnx.gelu, nnx.LayerNorm(WIDTH, rngs=rngs), nnx.Linear(WIDTH, WIDTH, rngs=rngs))

    graph, _ = nnx.split(make())
    return make(), lambda: nnx.state(make(), nnx.Param), lambda params, x: nnx.merge(graph, params)(x)


@pytest.mark.parametrize("kind", (linen_model, nnx_model))
def test_flax_models_train_as_unpipelined(kind, alternating, cpu):
    with jax.default_device(cpu):
        model, params, forward = kind()
        params = params()
    optimizer = optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(1e-2))
    pipeline = pw.pipeline(model, loss=mean_square, stages=alternating[:3], microbatches=4, optimizer=optimizer)
    state, losses = pipeline.init(jax.tree.map(np.asarray, params), *batch()), []
    for seed in range(4):
        state, loss = pipeline.step(state, *batch(seed))
        losses.append(float(loss))
    expected, params, opt_state = trained(params, 4, optimizer, cpu, forward)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert_same(tuple(state), (params, opt_state, ()), rtol=1e-3, atol=1e-5)


def test_a_step_is_one_message_of_the_client_and_one_to_each_host(alternating, tmp_path):
    steps = 5
    pipeline = pw.pipeline([dense] * 4, loss=mean_square, stages=alternating[:4], microbatches=4, optimizer=optax.adam(1e-3))
    x, y = batch()
    x, y = jax.device_put(x, alternating[0]), jax.device_put(y, alternating[3])
    state, loss = pipeline.step(pipeline.init(layers(), x, y), x, y)
    loss.block_until_ready()

    def commands():
        hosts = admin.status(connection._get_endpoint().controller)["hosts"]
        return [collections.Counter(host["commands"]) for host in hosts]

    gc.collect()  # so that no garbage of other tests is freed meanwhile
    with jax.profiler.trace(str(tmp_path)):
        before = commands()  # in the profile, because that asks the hosts at its begin and at its end
        with jax.profiler.TraceAnnotation("all steps"):
            for _ in range(steps):
                state, loss = pipeline.step(state, x, y)
            loss.block_until_ready()
        done = commands()
    for after, earlier in zip(done, before):
        more = after - earlier
        assert more.pop("run_program") == steps
        assert not {"execute", "move", "put", "assemble"} & more.keys(), more
    [trace] = tmp_path.rglob("*.trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    [(begin, took)] = [(event["ts"], event["dur"]) for event in events if event.get("name") == "all steps"]
    # The messages that jaxlib's client reports as sent.
    sent = collections.Counter(event["name"] for event in events if event.get("args", {}).get("dir") == "send" and 0 <= event["ts"] - begin <= took)
    assert sent["loaded_executable_execute"] == steps
    assert not [name for name in sent if any(word in name for word in ("make", "compile", "copy", "assemble", "remap", "disassemble"))], sent


def test_no_arrays_are_left_behind(alternating):
    arrays = lambda: sum(client["arrays"] for client in admin.status(connection._get_endpoint().controller)["clients"])
    pipeline = pw.pipeline([dense] * 4, loss=mean_square, stages=alternating[:4], microbatches=4, optimizer=optax.adam(1e-3))
    x, y = batch()
    x, y = jax.device_put(x, alternating[0]), jax.device_put(y, alternating[3])
    state, loss = pipeline.step(pipeline.init(layers(), x, y), x, y)
    state, loss = pipeline.step(state, x, y)
    float(loss)
    before, count = arrays(), len(jax.live_arrays())
    for _ in range(10):
        state, loss = pipeline.step(state, x, y)
    float(loss)
    assert len(jax.live_arrays()) == count
    assert eventually(lambda: arrays() <= before + 5), "what the client gives back travels in batches"


def test_a_checkpoint_goes_on_where_it_was_also_with_other_stages(alternating, tmp_path, cpu):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    optimizer, params = optax.adam(1e-2), layers()
    make = lambda stages: pw.pipeline([dense] * 4, loss=mean_square, stages=stages, microbatches=4, optimizer=optimizer)
    four, two = make(alternating[:4]), make(alternating[4:6])
    state = four.init(params, *batch())
    for seed in range(2):
        state, _ = four.step(state, *batch(seed))
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), params)
    with checkpoint.StandardCheckpointer() as saver:
        saver.save(tmp_path / "state", state)
        saver.wait_until_finished()
        for pipeline in (four, two):
            target = pipeline.init(shapes, *batch())
            restored = saver.restore(tmp_path / "state", target)
            assert isinstance(restored, pw.PipelineState)
            assert_same(tuple(restored), tuple(state), rtol=0)
            assert [a.sharding for a in jax.tree.leaves(restored)] == [a.sharding for a in jax.tree.leaves(target)]
            losses = []
            for seed in (2, 3):
                restored, loss = pipeline.step(restored, *batch(seed))
                losses.append(float(loss))
            expected, last, _ = trained(params, 4, optimizer, cpu)
            np.testing.assert_allclose(losses, expected[2:], rtol=1e-5)
            assert_same(restored.params, last, rtol=1e-3, atol=1e-5)


def test_slices_as_stages(cpu):
    with pw.make_virtual_device_set() as slices:
        stages = [slices.add_slice(devices=2) for _ in range(2)]
        pipeline = pw.pipeline([dense] * 4, loss=mean_square, stages=stages, microbatches=4, optimizer=optax.sgd(0.1))
        state = pipeline.init(layers(), *batch())
        losses = []
        for seed in range(2):
            state, loss = pipeline.step(state, *batch(seed))
            losses.append(float(loss))
        np.testing.assert_allclose(losses, trained(layers(), 2, optax.sgd(0.1), cpu)[0], rtol=1e-5)
        assert state.params[0]["w"].devices() == set(stages[0].devices)


def test_the_example_trains_as_on_one_device():
    pytest.importorskip("flax")
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "pipeline.py"), "--blocks", "3", "--steps", "3", "--every", "1", "--batch", "8", "--microbatches", "4"],
                          env=clean_environment(PATHWAYS_LOCAL="2x1x2"), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    stages = re.findall(r"^stage (\d): device \d+ of island (\w+):", done.stdout, re.MULTILINE)
    assert stages == [("0", "island0"), ("1", "island0"), ("2", "island1"), ("3", "island1")]
    losses = [tuple(map(float, pair)) for pair in re.findall(r"^ +\d+ +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)]
    assert len(losses) == 4 and losses[-1][0] < losses[0][0]
    for ours, alone in losses:
        assert ours == pytest.approx(alone, rel=1e-4)
