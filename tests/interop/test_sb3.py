"""Stable-Baselines3 and torch: the same actions and log-probabilities, and its agents as demonstrators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from interop_helpers import COSTS, POLICIES, random_policy
from tacit import demos
from tacit.cli import main
from tacit.cost import Inputs, LearnedCost, box_cost
from tacit.cost.terms import Term
from tacit.envs.wrappers import CostWrapper
from tacit.errors import UserError
from tacit.policy import Interface, Policy
from tacit.run import Run

torch = pytest.importorskip("torch")
stable_baselines3 = pytest.importorskip("stable_baselines3")

from safetensors.torch import load_file  # noqa: E402
from stable_baselines3 import PPO, SAC  # noqa: E402
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from tacit.interop import sb3  # noqa: E402
from tacit.interop import torch as modules  # noqa: E402


def observations(policy: Policy, n: int = 300) -> np.ndarray:
    face, rng = policy.interface, np.random.default_rng(7)
    if face.n_states:
        return rng.integers(face.n_states, size=n)
    return (policy.obs_mean + 8 * rng.standard_normal((n, face.obs_size)) / policy.obs_scale).astype(np.float32)


@pytest.mark.parametrize("kind", POLICIES)
def test_our_policy_as_an_sb3_model(kind: str, tmp_path: Path) -> None:
    policy = POLICIES[kind]
    sb3.to_sb3(policy).save(tmp_path / "policy.zip")
    model = PPO.load(tmp_path / "policy.zip", device="cpu")  # nothing but the file
    obs = observations(policy)
    rng = np.random.default_rng(0)
    ours, theirs = policy.act(obs, rng, deterministic=True), model.predict(obs, deterministic=True)[0]
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    drawn = policy.act(obs, rng)
    np.testing.assert_allclose(sb3.log_prob(model, obs, drawn), policy.log_prob(obs, drawn), atol=1e-5, rtol=1e-5)
    if not policy.interface.n_states and np.isfinite(policy.obs_clip):
        beyond = np.abs((obs - policy.obs_mean) * policy.obs_scale) > policy.obs_clip
        assert beyond.any(), "nothing was clipped: the test shows too little"


@pytest.mark.parametrize("kind", POLICIES)
def test_our_policy_as_a_torch_module(kind: str) -> None:
    policy = POLICIES[kind]
    obs, module = observations(policy), modules.policy_module(policy)
    encoded = torch.tensor(policy.interface.encode(obs))
    expected = policy.act(obs, np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(module.act(encoded).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("kind", COSTS)
def test_a_cost_as_a_torch_module(kind: str) -> None:
    cost = COSTS[kind]
    rows = (5 * np.random.default_rng(0).standard_normal((300, 5 + cost.inputs.act_size))).astype(np.float32)
    module = modules.cost_module(cost)
    given = torch.tensor(rows, requires_grad=True)
    found = module(given)
    np.testing.assert_allclose(found.detach().numpy(), cost.of_rows(rows), rtol=1e-5, atol=1e-5)
    found.sum().backward()
    read = np.abs(given.grad.numpy()).max(axis=0) > 0
    assert set(np.flatnonzero(read)) == set(cost.inputs.columns)
    other = modules.cost_module(LearnedCost(**{**vars(cost), "lam": 0 * cost.lam}))
    other.load_state_dict(module.state_dict())
    np.testing.assert_array_equal(other(given).detach().numpy(), found.detach().numpy())


class Line(gym.Env):
    """Walk on a line; far right costs."""

    observation_space = gym.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gym.spaces.Box(-2, 1, (1,), np.float32)
    feature_names = ("position", "height")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.normal(20, 5)), 0
        return self._see(), {}

    def _see(self) -> np.ndarray:
        return np.array([self.x, 3.0], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.x, self.t = self.x + float(action[0]), self.t + 1
        return self._see(), float(action[0]), False, self.t >= 12, {"cost": float(self.x > 22)}


@pytest.fixture
def trained() -> tuple[PPO, VecNormalize]:
    """Not trained at all, but with statistics and weights that tell mistakes apart."""
    venv = VecNormalize(DummyVecEnv([Line]), clip_obs=3.0)
    model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(256)
    venv.training = False
    return model, venv


def test_their_agent_as_a_demonstrator(trained: tuple[PPO, VecNormalize], tmp_path: Path) -> None:
    model, venv = trained
    state = torch.random.get_rng_state()
    data = sb3.demonstrations(model, Line, 10, seed=3, deterministic=True)
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator is left alone"
    assert len(data) == 10
    assert data.card["feature_names"] == ["position", "height"]
    assert demos.problems(data, Line()) == []
    # Raw observations, and the actions of the normalised ones.
    before = data.observations[data.rows_before]
    np.testing.assert_allclose(np.diff(data[4].observations[:, 0]), data[4].actions[:, 0], atol=1e-5)
    expected = model.predict(venv.normalize_obs(before), deterministic=True)[0]
    np.testing.assert_allclose(data.actions, expected, atol=1e-6)
    assert np.abs(model.predict(before, deterministic=True)[0] - expected).max() > 1e-3, (
        "normalising makes a difference"
    )
    np.testing.assert_array_equal(data.costs, data.observations[data.rows_before + 1, 0] > 22)
    # From files, as a user has them.
    model.save(tmp_path / "model.zip")
    venv.save(str(tmp_path / "statistics.pkl"))
    loaded = PPO.load(tmp_path / "model.zip", device="cpu")
    again = sb3.demonstrations(loaded, Line, 10, seed=3, deterministic=True, normalize=tmp_path / "statistics.pkl")
    assert again.sha256 == data.sha256


def test_draws_follow_the_seed(trained: tuple[PPO, VecNormalize]) -> None:
    model, _ = trained
    first, second, third = (sb3.demonstrations(model, Line, 4, seed=seed) for seed in (0, 0, 1))
    assert first.sha256 == second.sha256 != third.sha256


def test_what_does_not_fit_is_said(trained: tuple[PPO, VecNormalize], tmp_path: Path) -> None:
    model, _ = trained
    with pytest.raises(UserError, match="trained with the observation space"):
        sb3.demonstrations(model, "CartPole-v1", 2, seed=0)
    with pytest.raises(UserError, match="no file"):
        sb3.demonstrations(model, Line, 2, seed=0, normalize=tmp_path / "nothing.pkl")
    unbounded = random_policy(Interface(4, 1, low=(-np.inf,), high=(np.inf,)))
    with pytest.raises(UserError, match="only actions with bounds"):
        sb3.to_sb3(unbounded)


def test_training_goes_on(trained: tuple[PPO, VecNormalize]) -> None:
    policy = random_policy(Interface(2, 1, low=(-2.0,), high=(1.0,)))
    model = sb3.to_sb3(policy, Line(), n_steps=32, batch_size=32, n_epochs=1)
    before = sb3.log_prob(model, [[20.0, 3.0]], [[0.0]])
    np.testing.assert_allclose(before, policy.log_prob([[20.0, 3.0]], [[0.0]]), atol=1e-5)
    model.learn(64)
    assert abs(sb3.log_prob(model, [[20.0, 3.0]], [[0.0]]) - before) > 1e-6
    with pytest.raises(UserError, match="was made for"):
        sb3.to_sb3(policy, gym.make("CartPole-v1"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {"env": "tacit/Ant-v0", "env_kwargs": {}, "seed": 0, "config": {}}
    run = Run.start(tmp_path / "runs", algo="expert", **settings, demos=None, command="x")
    policy, cost = random_policy(Interface(5, 2, low=(-1.0,) * 2, high=(1.0,) * 2)), COSTS["of actions"]
    with run:
        run.save_model("policy", *policy.to_arrays())
        run.save_model("cost", *cost.to_arrays())
        run.finish({})
    out = tmp_path / "out"
    assert main(["export", str(run.path), "--torch", str(out), "--sb3", str(out)]) == 0, capsys.readouterr().err
    model = PPO.load(out / "policy.zip", device="cpu")
    obs = observations(policy)
    act = policy.act(obs, np.random.default_rng(0))
    np.testing.assert_allclose(sb3.log_prob(model, obs, act), policy.log_prob(obs, act), atol=1e-5, rtol=1e-5)
    module = modules.cost_module(LearnedCost(**{**vars(cost), "lam": 0 * cost.lam}))
    module.load_state_dict(load_file(out / "cost.safetensors"))
    rows = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    np.testing.assert_allclose(module(torch.tensor(rows)).detach().numpy(), cost.of_rows(rows), rtol=1e-5)


def disc_cost() -> LearnedCost:
    """The frozen cost of a run on Nav, by hand: 5 in the hidden disc, falling to 0 within 0.4 around it."""
    places = np.linspace(-3, 3, 31, dtype=np.float32)
    distance = np.hypot(*np.meshgrid(places, places, indexing="ij"))
    values = np.clip(5.0 * (1.4 - distance) / 0.4, 0.0, 5.0).astype(np.float32)
    names = ("x", "y", "vx", "vy", "goal_dx", "goal_dy")
    inputs = Inputs(names, tuple(range(6)), 6, 0, np.zeros(6, np.float32), np.ones(6, np.float32), squash=False)
    none = np.zeros((6, 0), np.float32)
    term = Term(("x", "y"), (0, 1), (places, places), values)
    return LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=(term,), threshold=1.0, unit=0.1)


def swimmer_cost() -> LearnedCost:
    """The box around the demonstrations of a robot."""
    data = demos.load(demos.shipped("tacit/Swimmer-v0"))
    return box_cost(data.card["feature_names"], data.observations[data.rows_before + 1])


@pytest.mark.parametrize("agent", [PPO, SAC])
@pytest.mark.parametrize(("task", "cost"), [("tacit/Nav-v0", disc_cost()), ("tacit/Swimmer-v0", swimmer_cost())])
def test_their_agents_learn_with_a_frozen_cost(agent: Any, task: str, cost: LearnedCost) -> None:
    """As a set: a forbidden step is the last of its episode and is paid for; what SB3 stores is what the cost says."""
    settings = {"n_steps": 256, "n_epochs": 1} if agent is PPO else {"learning_starts": 100, "train_freq": 64}
    env = CostWrapper(gym.make(task), cost, charge="set", penalty=30.0, terminate=True)
    check_env(env, skip_render_check=True)
    seen: list[tuple[float, bool, float, np.ndarray]] = []

    def note(variables: dict[str, Any], _: dict[str, Any]) -> bool:
        info, ended = variables["infos"][0], bool(variables["dones"][0])
        after = info["terminal_observation"] if ended else variables["new_obs"][0]
        seen.append((info["cost"], ended, float(variables["rewards"][0]), np.asarray(after)))
        return True

    model = agent("MlpPolicy", env, batch_size=64, seed=0, device="cpu", **settings)
    before = [weight.clone() for weight in model.policy.actor.parameters()] if agent is SAC else None
    model.learn(1024, callback=note)
    costs, ends, rewards, after = (np.array(column) for column in zip(*seen, strict=True))
    assert set(costs) == {0.0, 1.0}, "the agent meets what is forbidden"
    np.testing.assert_array_equal(costs == 1.0, cost(after) > cost.threshold)
    assert ends[costs == 1.0].all()
    assert rewards[costs == 1.0].max() < -20 < rewards[costs == 0.0].min()
    if before is not None:
        assert any(not torch.equal(a, b) for a, b in zip(before, model.policy.actor.parameters(), strict=True))
