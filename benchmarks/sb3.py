"""Stable-Baselines3's PPO with our settings, for the comparisons `sb3_quality` and `sb3_speed`.

Matched: steps and copies of a rollout, batch, epochs, learning rate, discount, trace, clip range, coefficients of value
and entropy (in the loss), advantages standardised over a minibatch, bound of the gradient (of both networks together in
`sb3_quality`; of each in `sb3_speed`, which is what our presets do), Adam and its epsilon, [64, 64] tanh networks apart
for policy and value, orthogonal initialisation and its gains, initial deviation, actions in the units of the
environment, time limits bootstrapped, no early stop; `VecNormalize` where ours normalises. Given one rollout, networks
and minibatches, both updates then take the same steps (`tests/interop/test_sb3_update.py`).

Not matched, because one of the two has no such setting:

* Statistics of observations and rewards: ours take in a rollout at its end, SB3's a step at a time while it acts.
* Deviation of the advantages in a minibatch: SB3's has n - 1 in the denominator, ours n.
* Random numbers: a seed means something else on each side.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np

from tacit.forward.ppo import Config
from tacit.policy import Policy

PACKAGES = ("stable-baselines3", "torch")
READ = (
    *(
        "total_steps",
        "rollout_steps",
        "batch_size",
        "epochs",
        "lr",
        "gamma",
        "gae_lambda",
        "clip",
        "beta",
        "value_coef",
    ),
    *(
        "max_grad_norm",
        "adam_eps",
        "hidden",
        "log_std_init",
        "normalize_obs",
        "obs_clip",
        "normalize_reward",
        "reward_clip",
    ),
)
"""Settings that SB3's learner is made from. Its runs stay valid while these stay the same."""


def require() -> None:
    """Leave with one line if Stable-Baselines3 is not there."""
    if find_spec("stable_baselines3") is None or find_spec("torch") is None:
        sys.exit("this benchmark needs stable-baselines3 and torch: pip install '.[sb3]'")


def normalised(config: Config, venv: Any) -> Any:
    """The vector environment with the normalisation that `config` asks for."""
    from stable_baselines3.common.vec_env import VecNormalize

    if not (config.normalize_obs or config.normalize_reward):
        return venv
    return VecNormalize(
        venv,
        norm_obs=config.normalize_obs,
        norm_reward=config.normalize_reward,
        clip_obs=config.obs_clip,
        clip_reward=config.reward_clip,
        gamma=config.gamma,
    )


def make_ppo(config: Config, venv: Any, seed: int) -> Any:
    """A fresh learner of SB3's. ValueError if its PPO has no equal of a setting."""
    import torch
    from stable_baselines3 import PPO

    possible = {
        "entropy": config.entropy == "loss" or config.beta == 0,
        "standardise": config.standardise == "minibatch",
        "scale_actions": not config.scale_actions,
        "target_kl": config.target_kl is None,
        "lr_final": config.lr_final == 1,
    }
    if not all(possible.values()):
        raise ValueError(f"SB3's PPO has no equal of {[name for name, fine in possible.items() if not fine]}")
    layers = list(config.hidden)
    return PPO(
        "MlpPolicy",
        normalised(config, venv),
        learning_rate=config.lr,
        n_steps=config.rollout_steps // venv.num_envs,
        batch_size=config.batch_size,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip,
        clip_range_vf=None,
        normalize_advantage=True,
        ent_coef=config.beta,
        vf_coef=config.value_coef,
        max_grad_norm=config.max_grad_norm,
        target_kl=None,
        policy_kwargs={
            "net_arch": {"pi": layers, "vf": layers},
            "activation_fn": torch.nn.Tanh,
            "ortho_init": True,
            "log_std_init": config.log_std_init,
            "optimizer_kwargs": {"eps": config.adam_eps},
        },
        seed=seed,
        device="cpu",
        verbose=0,
    )


def give_policy(model: Any, policy: Policy) -> None:
    """Make the learner's policy, deviation and observation statistics those of a policy of ours."""
    import torch

    # Ours may work in coordinates where the box is [-1, 1], SB3's works in the environment's: the last layer differs.
    face, centre, half = policy.interface, np.float32(0), np.float32(1)
    if face.scaled and not face.n_actions:
        low, high = np.array(face.low, np.float32), np.array(face.high, np.float32)
        centre, half = (low + high) / 2, (high - low) / 2
    weights, biases = [*policy.weights], [*policy.biases]
    weights[-1], biases[-1] = weights[-1] * half, biases[-1] * half + centre
    net = model.policy
    layers = [*(net.mlp_extractor.policy_net[i] for i in range(0, 2 * len(weights) - 2, 2)), net.action_net]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, weights, biases, strict=True):
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight.T)))
            layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)))
        if policy.log_std is not None:
            net.log_std.copy_(torch.from_numpy(policy.log_std + np.log(half)))
    statistics = getattr(model.env, "obs_rms", None)
    if statistics is not None:
        statistics.mean, statistics.var = policy.obs_mean.astype(float), policy.obs_scale.astype(float) ** -2.0
        statistics.count = 1e6
