"""Exchange with Stable-Baselines3: its agents as experts, our policies as its models, learned costs in its training.

    data = demonstrations(model, "HalfCheetah-v5", 20, seed=0, normalize="vecnormalize.pkl")
    model = to_sb3(policy)                              a PPO model that takes the environment's own observations
    env = CostWrapper(env, cost, penalty=cost.unit)     (`tacit.envs.wrappers`) any agent then learns with the cost

An exported model holds the statistics of the observations inside its policy, in a features extractor of this module: no
`VecNormalize` has to be carried along, and Tacit has to be importable where the model is loaded. Its value network is
new: SB3 learns it anew when it goes on training.

SB3's own files (`PPO.load`, `VecNormalize.load`) are pickles: load only those that you trust.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from tacit.demos import Demonstrations, collect
from tacit.demos.data import Card
from tacit.envs.registry import make_vec
from tacit.errors import UserError
from tacit.interop import difference, network_policy, require_equal, require_plain
from tacit.interop.torch import Normalise
from tacit.policy import Interface, Policy
from tacit.run import storage

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.run import Run

Actor = Callable[[Any, np.random.Generator], NDArray[Any]]
"""(observations of all copies, generator) -> actions: what `demos.collect` and `evaluate` take."""


# ---------------------------------------------------------------------------------------------------------------------
# Their agents here


def as_policy(model: Any, normalize: Any = None, *, deterministic: bool = False) -> Actor:
    """An SB3 model as a function (observations, generator) -> actions.

    `normalize` is the VecNormalize that the model was trained with, or its file; without it, the one in the model's own
    environment if it has one. Draws come from the generator alone: torch's global one is left as it was.
    """
    if any("lstm" in name for name, _ in model.policy.named_modules()):
        raise UserError("recurrent agents are not supported: nothing here keeps their memory")
    if normalize is None:
        normalize = model.get_vec_normalize_env()
    elif isinstance(normalize, str | os.PathLike):
        normalize = _load_normalize(normalize, model)

    def act(observations: Any, rng: np.random.Generator) -> NDArray[Any]:
        inputs = observations if normalize is None else normalize.normalize_obs(observations)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            return np.asarray(model.predict(inputs, deterministic=deterministic)[0])

    return act


def _load_normalize(path: str | os.PathLike[str], model: Any) -> VecNormalize:
    if not Path(path).is_file():
        raise UserError(f"there is no file {os.fspath(path)} with the statistics of a VecNormalize")
    stand_in = DummyVecEnv([lambda: _Spaces(model.observation_space, model.action_space)])
    loaded = VecNormalize.load(os.fspath(path), stand_in)
    loaded.training = False
    return loaded


def demonstrations(
    model: Any,
    env: str | VectorEnv | Callable[[], gym.Env[Any, Any]],
    n: int,
    *,
    seed: int,
    normalize: Any = None,
    deterministic: bool = False,
    copies: int = 8,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Demonstrations:
    """Record n episodes of an SB3 agent, with the environment's observations, rewards and (if reported) costs.

    env: an id, a Gymnasium vector environment, or a function that makes one environment (no reward wrappers, unless
    their rewards are what you mean). For `normalize` see `as_policy`.
    """
    policy = as_policy(model, normalize, deterministic=deterministic)
    source = f"{type(model).__name__} of Stable-Baselines3, {'deterministic' if deterministic else 'stochastic'}"
    card: Card = {"source": source, "expert": {"steps": int(model.num_timesteps)}}
    if isinstance(env, str):
        card |= {"env": env, "env_kwargs": dict(env_kwargs or {})}
        vector = make_vec(env, min(copies, n), flattened=False, **(env_kwargs or {}))
    elif callable(env) and not isinstance(env, gym.vector.VectorEnv):
        same = gym.vector.AutoresetMode.SAME_STEP
        vector = gym.vector.SyncVectorEnv([env] * min(copies, n), autoreset_mode=same)
    else:
        vector = env
    _require_spaces(model, vector)
    try:
        return collect(vector, policy, n, seed=seed, card=card)
    finally:
        if vector is not env:
            vector.close()


def _require_spaces(model: Any, env: VectorEnv) -> None:
    for name in ("observation_space", "action_space"):
        ours, theirs = getattr(env, f"single_{name}"), getattr(model, name)
        if type(ours) is not type(theirs) or ours.shape != theirs.shape:
            raise UserError(f"the model was trained with the {name.replace('_', ' ')} {theirs}, this one has {ours}")


# ---------------------------------------------------------------------------------------------------------------------
# Our policies there


class Normalised(BaseFeaturesExtractor):
    """Scales observations as the policy that was exported does; the statistics are saved with the model."""

    def __init__(self, observation_space: gym.Space[Any], mean: Any, scale: Any, clip: float) -> None:
        super().__init__(observation_space, features_dim=len(mean))
        self.normalise = Normalise(np.asarray(mean), np.asarray(scale), clip)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.normalise(observations.flatten(1))


class _Spaces(gym.Env[Any, Any]):
    """Spaces without an environment, to make a model with."""

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def to_sb3(policy: Policy, env: gym.Env[Any, Any] | VecEnv | None = None, **settings: Any) -> PPO:
    """A PPO model with this policy: the same actions and log-probabilities for the environment's own observations.

    env: to go on training in; must have the policy's spaces. `settings` are those of `stable_baselines3.PPO`.
    """
    require_plain(policy)
    interface = policy.interface
    if env is None:
        env = _Spaces(*_spaces(interface))
    else:
        interface.require(Interface.of(env.observation_space, env.action_space, scaled=interface.scaled), "the policy")
    if not interface.n_actions and not np.isfinite([*interface.low, *interface.high]).all():
        raise UserError("Stable-Baselines3 takes only actions with bounds, and this policy's have none")
    hidden = [weight.shape[1] for weight in policy.weights[:-1]]
    model = PPO(
        "MlpPolicy",
        env,
        device="cpu",
        policy_kwargs={
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": torch.nn.Tanh,
            "features_extractor_class": Normalised,
            "features_extractor_kwargs": {
                "mean": policy.obs_mean.tolist(),
                "scale": policy.obs_scale.tolist(),
                "clip": float(policy.obs_clip),
            },
        },
        **settings,
    )
    _give_weights(model, policy)
    return model


def _spaces(interface: Interface) -> tuple[gym.Space[Any], gym.Space[Any]]:
    obs = (
        Discrete(interface.n_states) if interface.n_states else Box(-np.inf, np.inf, (interface.obs_size,), np.float32)
    )
    if interface.n_actions:
        return obs, Discrete(interface.n_actions)
    return obs, Box(np.array(interface.low, np.float32), np.array(interface.high, np.float32))


def _give_weights(model: PPO, policy: Policy) -> None:
    """Copy the network. Ours may work where the box is [-1, 1], SB3's in the environment's units: the last layer."""
    weights, biases = [*policy.weights], [*policy.biases]
    net: Any = model.policy
    layers = [*(net.mlp_extractor.policy_net[i] for i in range(0, 2 * len(weights) - 2, 2)), net.action_net]
    with torch.no_grad():
        if policy.log_std is not None:
            _, _, centre, half = policy.interface.box
            weights[-1], biases[-1] = weights[-1] * half, biases[-1] * half + centre
            net.log_std.copy_(torch.from_numpy(policy.log_std + np.log(half)))
        for layer, weight, bias in zip(layers, weights, biases, strict=True):
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight.T)))
            layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)))


def log_prob(model: Any, obs: Any, act: Any) -> NDArray[Any]:
    """log pi(act | obs) (N,) of an SB3 on-policy model, of actions in the environment's units."""
    with torch.no_grad():
        inputs, _ = model.policy.obs_to_tensor(np.asarray(obs))
        return np.asarray(model.policy.get_distribution(inputs).log_prob(torch.as_tensor(np.asarray(act))))


def export(run: Run, folder: str | os.PathLike[str]) -> dict[str, float]:
    """Write the policy of a run as an SB3 model. Returns {"policy.zip": largest difference of log-probabilities}.

    RunFailed if they differ by more than TOLERANCE, relative to 1 + |value|; nothing is written then.
    """
    policy = network_policy(run)
    model = to_sb3(policy)
    interface, rng = policy.interface, np.random.default_rng(0)
    if interface.n_states:
        obs = np.arange(interface.n_states)
    else:
        obs = (policy.obs_mean + 3 * rng.standard_normal((500, interface.obs_size)) / policy.obs_scale).astype(
            np.float32
        )
    act = policy.act(obs, rng)
    differences = {"policy.zip": difference(log_prob(model, obs, act), policy.log_prob(obs, act))}
    require_equal(differences)
    buffer = io.BytesIO()
    model.save(buffer)
    storage.atomic_write_bytes(Path(folder) / "policy.zip", buffer.getvalue())
    return differences
