"""Trains a tiny model by Tunix's GRPO for a few steps, and prints its losses. `python grpo.py one|two`: actor and rollout on the same devices, or
on the two halves of all devices. Nothing here names this project: Tunix and jax run unchanged."""

import json
import sys

from grain import python as grain
import jax
from flax import nnx
import numpy as np
import optax
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout
from tunix.tests import test_common

STEPS = 4
PROMPTS = ["input string", "hello world", "My name", "hello there"]  # only words of the vocabulary


def meshes(slices):
    """Returns the meshes of actor and rollout."""
    halves = np.split(np.array(jax.devices()), 2)
    actor, rollout = (jax.sharding.Mesh(half.reshape(-1, 1), ("fsdp", "tp")) for half in halves)
    return actor, rollout if slices == "two" else actor


def reward(completions, **_):
    return [float(sum(map(ord, text)) % 7) for text in completions]


def trained(actor_mesh, rollout_mesh):
    """Returns Tunix's cluster after the training."""
    vocabulary = test_common.MockVocab()

    def model():
        return test_common.ToyTransformer(config=test_common.ModelConfig(vocab_size=vocabulary.GetPieceSize()), rngs=nnx.Rngs(0))

    role = rl_cluster.Role
    config = rl_cluster.ClusterConfig(
        role_to_mesh={role.ACTOR: actor_mesh, role.REFERENCE: actor_mesh, role.ROLLOUT: rollout_mesh}, rollout_engine="vanilla", offload_to_cpu=False,
        training_config=rl_cluster.RLTrainingConfig(actor_optimizer=optax.sgd(0.1), eval_every_n_steps=10 * STEPS, max_steps=STEPS),
        rollout_config=base_rollout.RolloutConfig(max_tokens_to_generate=8, max_prompt_length=16, kv_cache_size=64))
    cluster = rl_cluster.RLCluster(actor=model(), reference=model(), tokenizer=vocabulary, cluster_config=config)
    learner = grpo_learner.GRPOLearner(
        rl_cluster=cluster, reward_fns=reward, algo_config=grpo_learner.GRPOConfig(num_generations=2, num_iterations=1))
    prompts = grain.MapDataset.source(PROMPTS * STEPS).batch(2).map(lambda batch: {"prompts": batch, "answer": batch})
    learner.train(prompts, None)
    return cluster


def places(module):
    """Returns the ids of the devices that hold a module's parameters."""
    return sorted({device.id for leaf in jax.tree.leaves(nnx.state(module, nnx.Param)) for device in leaf.devices()})


if __name__ == "__main__":
    done = trained(*meshes(sys.argv[1]))
    log = done.actor_trainer.metrics_logger
    history = {name: np.asarray(log.get_metric_history("actor", name, "train"), np.float64).tolist() for name in ("loss", "kl")}
    print(json.dumps({**history, "actor": places(done.actor_trainer.model), "rollout": places(done.rollout.model()),
                      "devices": [device.id for device in jax.devices()]}))
