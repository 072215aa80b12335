"""An environment of your own, with Dict observations: register, demonstrate, learn the constraint, use it.

A tank is paid for its level. Its operators never fill it beyond three quarters, and nobody has written down why. On the
command line, with this file in the current folder: `tacit learn mce own_environment:Tank-v0 --demos tank.npz`.
"""

# needs: jax
import gymnasium
import numpy as np
from gymnasium import spaces

from tacit import demos
from tacit.cost import load_cost
from tacit.envs.registry import make_vec
from tacit.launch import execute, start_run


class Tank(gymnasium.Env):
    """Observes level and flow; opens the inlet by an action in [-1, 1]."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {"level": spaces.Box(0, 2, (1,), np.float32), "flow": spaces.Box(-1, 1, (1,), np.float32)}
        )
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self.level, self.flow = self.np_random.uniform(0.0, 0.5), 0.0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        self.flow = float(np.clip(action[0], -1, 1))
        self.level = float(np.clip(self.level + 0.1 * self.flow, 0, 2))
        # The true cost is for judging the result; leave it out and learning works just the same.
        return self._observation(), self.level, False, False, {"cost": float(self.level > 0.75)}

    def _observation(self) -> dict[str, np.ndarray]:
        return {"level": np.array([self.level], np.float32), "flow": np.array([self.flow], np.float32)}


gymnasium.register("Tank-v0", entry_point=Tank, max_episode_steps=30)


def operator(observations: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Keeps the level a little below the limit."""
    level = observations["level"]
    return np.clip(6 * (0.65 - level) + 0.2 * rng.standard_normal(level.shape), -1, 1).astype(np.float32)


def main() -> None:
    # 1. Twenty demonstrations; a file of logs does as well (docs/files.md#demonstrations).
    shown = demos.collect(make_vec("Tank-v0", 4, flattened=False), operator, 20, seed=0)
    demos.save(shown, "tank.npz")
    print(f"{len(shown)} demonstrations of {', '.join(shown.card['feature_names'])}")

    # 2. Learn.
    quick = {"total_steps": 30_000, "bootstrap_steps": 6_000, "forward_steps": 4_000, "rollout_steps": 2_000}
    quick |= {"n_envs": 8, "batch_size": 500, "eval_episodes": 20, "inputs": ("level[0]",)}
    run, data = start_run("mce", "Tank-v0", demos="tank.npz", settings=quick)
    summary = execute(run, data)
    violations = summary["table"]["learned"]["violation_rate_step"]["value"]
    print(f"the learned policy overfills in {100 * violations:.0f} % of its steps")

    # 3. The cost is a function of named observations, and goes wherever NumPy goes.
    cost = load_cost(run.path)
    for level in (0.3, 0.6, 0.9, 1.2):
        print(f"level {level:.1f}: cost {cost([0.0, level]):.3f}")  # flow[0], level[0]: the keys of a Dict are sorted


if __name__ == "__main__":
    main()
