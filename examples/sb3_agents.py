"""Stable-Baselines3 and Tacit: an SB3 expert demonstrates, Tacit learns the constraint, a new SB3 agent keeps to it.

Needs `pip install '.[sb3]'`.
"""

# needs: jax, torch, stable_baselines3
import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from tacit import demos
from tacit.cost import load_cost
from tacit.envs.registry import make_vec
from tacit.envs.wrappers import CostWrapper
from tacit.evaluate import evaluate
from tacit.interop import sb3
from tacit.launch import execute, start_run
from tacit.policy import Policy


class Tank(gymnasium.Env):
    """Paid for its level; more than three quarters are too much, which only the expert knows."""

    observation_space = spaces.Box(-1, 2, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)
    feature_names = ("level", "flow")

    def __init__(self, penalty: float = 0.0) -> None:
        self.penalty = penalty

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(0, 0.5), 0.0], np.float32)
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        flow = float(np.clip(action[0], -1, 1))
        level = float(np.clip(self.state[0] + 0.1 * flow, 0, 2))
        self.state, cost = np.array([level, flow], np.float32), float(level > 0.75)
        return self.state, level - self.penalty * cost, False, False, {"cost": cost}


gymnasium.register("TankSB3-v0", entry_point=Tank, max_episode_steps=30)


def train(make: object, steps: int = 16_000) -> tuple[PPO, VecNormalize]:
    """An agent of Stable-Baselines3, with its usual normalisation of observations and rewards."""
    env = VecNormalize(DummyVecEnv([make] * 4), gamma=0.95)
    model = PPO("MlpPolicy", env, n_steps=256, batch_size=256, learning_rate=1e-3, gamma=0.95, seed=0, device="cpu")
    model.policy.log_std.data.fill_(-1.0)
    return model.learn(steps), env


def overfills(model: PPO, env: VecNormalize | None = None) -> float:
    """Share of the steps of 40 episodes above the limit, with the plain environment."""
    test = make_vec("TankSB3-v0", 8)
    return float(evaluate(test, sb3.as_policy(model, env, deterministic=True), 40, seed=1).violation_rates.mean())


# 1. An expert that pays for overfilling, and its demonstrations: raw observations, not normalised ones.
expert, statistics = train(lambda: gymnasium.make("TankSB3-v0", penalty=5.0))
shown = sb3.demonstrations(expert, "TankSB3-v0", 60, seed=0, normalize=statistics)
kept = shown.subset(np.add.reduceat(shown.costs, shown.step_offsets) == 0)
demos.save(kept, "expert.npz")
print(f"{len(kept)} of {len(shown)} demonstrations of an SB3 expert keep to the limit")

# 2. Learn the constraint from them.
quick = {"total_steps": 30_000, "bootstrap_steps": 6_000, "forward_steps": 4_000, "rollout_steps": 2_000}
quick |= {"n_envs": 8, "batch_size": 500, "eval_episodes": 20, "inputs": ("level",)}
run, data = start_run("mce", "TankSB3-v0", demos="expert.npz", settings=quick)
execute(run, data)
cost = load_cost(run.path)

# 3. New SB3 agents: one that knows of nothing, one that is charged the learned cost.
free, careful = (
    train(make)
    for make in (
        lambda: gymnasium.make("TankSB3-v0"),
        lambda: CostWrapper(gymnasium.make("TankSB3-v0"), cost, penalty=cost.unit),
    )
)
print(f"without the cost: {100 * overfills(*free):.0f} % of the steps above the limit")
print(f"with the learned cost: {100 * overfills(*careful):.0f} %")

# 4. The policy of the run itself, as a model of Stable-Baselines3. Its statistics are inside: no VecNormalize.
policy = Policy.from_arrays(*run.load_model("policy"))
model = sb3.to_sb3(policy)
obs, rng = kept.observations[:100], np.random.default_rng(0)
act = policy.act(obs, rng)
difference = np.abs(sb3.log_prob(model, obs, act) - policy.log_prob(obs, act)).max()
print(f"exported policy: {100 * overfills(model):.0f} % above the limit, log-probabilities differ by {difference:.0e}")
