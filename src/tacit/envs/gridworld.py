"""The gridworld as Gymnasium environments, single and batched.

Every step the agent picks one of 4 (or 8) moves. A move off the grid or into a wall stays put. With probability `slip`
the move is ignored and a uniformly random neighbouring cell (in the move set, in the grid, not a wall) is entered. The
reward is -1 per step and +1 for the step that reaches the goal, which ends the episode; after `horizon` steps it is cut
off. The true cost, info["cost"], is 1 for every step that ends in a constrained cell; no learner reads it.

    env = gymnasium.make("tacit/Gridworld-v0", layout="paper", slip=0.1)
    mdp = make_spec("paper", slip=0.1).model()         # the same world as arrays, for the exact method
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tacit.envs.batched import check_render_mode, declare_options, reset_mask, step_info, whole_number
from tacit.envs.families import EnvInfo, Family, Info, Options
from tacit.envs.gridworld_render import render_image, render_text
from tacit.envs.gridworld_spec import GridworldSpec, make_spec
from tacit.envs.rng_state import RNG_WORDS, check_state, pack_rng, unpack_rng
from tacit.errors import UserError

__all__ = ["ENV_ID", "FAMILY", "GridworldEnv", "GridworldSpec", "GridworldVectorEnv", "make_spec"]

ENV_ID = "tacit/Gridworld-v0"
Layout = str | os.PathLike[str] | GridworldSpec
FAMILY = Family(
    (
        EnvInfo(
            id=ENV_ID,
            constraint="stay out of the cells X",
            horizon=200,
            observation="Box(2): row, column",
            action="Discrete(4 or 8): moves",
            entry_point="tacit.envs.gridworld:GridworldEnv",
            vector_entry_point="tacit.envs.gridworld:GridworldVectorEnv",
        ),
    ),
    model="tacit.envs.gridworld:model_of",
    options="tacit.envs.gridworld:complete_options",
)


def model_of(options: Mapping[str, Any]) -> GridworldSpec:
    """The gridworld that options of the environment describe."""
    return make_spec(**{key: value for key, value in options.items() if key not in ("observation", "render_mode")})


def complete_options(options: Mapping[str, Any]) -> Options:
    """The options with all defaults filled in and the map file read."""
    return {**options, **model_of(options).env_kwargs()}


class _World:
    """What the single and the batched environment share: the map, and spaces that follow from it."""

    metadata: dict[str, Any]
    render_mode: str | None

    def _build(self, grid: GridworldSpec, observation: str, render_mode: str | None) -> gym.Space[Any]:
        """Set the attributes; returns the space of one observation."""
        self.grid = self.exact_model = grid
        self.horizon, self.render_mode = grid.horizon, check_render_mode(render_mode, self.metadata["render_modes"])
        self.feature_names: tuple[str, ...] = ("row", "column") if observation == "position" else ("state",)
        if observation == "position":
            self._as_observations: np.ndarray = grid.cells.astype(np.float32)
            high = np.maximum(np.array(grid.shape, dtype=np.float32) - 1, 1)  # a Box of one value makes Gymnasium warn
            return gym.spaces.Box(np.zeros(2, dtype=np.float32), high, dtype=np.float32)
        if observation == "index":
            self._as_observations = np.arange(grid.n_states)
            return gym.spaces.Discrete(grid.n_states)
        raise UserError(f"observation must be 'position' or 'index', not {observation!r}")

    def _draw(self, states: Iterable[int] | None) -> tuple[Any, ...] | None:
        """A text or picture of each state, as `render_mode` says."""
        if states is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        if self.render_mode is None:
            gym.logger.warn('render() does nothing without a render_mode; give "ansi" or "rgb_array" to make()')
            return None
        draw = render_text if self.render_mode == "ansi" else render_image
        return tuple(draw(self.grid, int(state)) for state in states)


class GridworldVectorEnv(_World, VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """`num_envs` independent gridworlds stepped as arrays.

    A copy that ends starts again within the same step (Gymnasium's SAME_STEP): its rows of the observations and of
    `info["cost"]` belong to the new episode, and `info["final_obs"]` (n, ...) and `info["final_info"]["cost"]` (n,)
    hold what the last step gave, where `info["_final_obs"]` is True. One seed drives the whole batch.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's declaration)
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 5,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        layout: Layout = "paper",
        *,
        observation: str = "position",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.num_envs = whole_number("num_envs", num_envs)
        self.single_observation_space = self._build(make_spec(layout, **options), observation, render_mode)
        self.single_action_space = gym.spaces.Discrete(self.grid.n_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._states: np.ndarray | None = None
        self._steps = np.zeros(num_envs, dtype=np.int64)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[np.ndarray, Info]:
        """Put every copy on the start, or only those of options["reset_mask"], (n,) booleans."""
        super().reset(seed=seed)
        mask = reset_mask(options, self.num_envs, started=self._states is not None)
        before = self.grid.start if self._states is None else self._states
        self._states = np.where(mask, self.grid.start, before)
        self._steps = np.where(mask, 0, self._steps)
        return self._as_observations[self._states], {"cost": np.zeros(self.num_envs), "_cost": mask}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Move every copy. See the class about copies that end."""
        if self._states is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise UserError(f"actions must be {self.num_envs} integers, not {actions.dtype} of shape {actions.shape}")
        if actions.min() < 0 or actions.max() >= self.grid.n_actions:
            raise UserError(
                f"actions must be in 0 ... {self.grid.n_actions - 1}, not {actions.min()} ... {actions.max()}"
            )
        entered = self.grid.sample_next(self._states, actions, self.np_random)
        self._steps += 1
        rewards, costs = self.grid.entry_rewards[entered], self.grid.entry_costs[entered]
        terminated = entered == self.grid.goal
        truncated = ~terminated & (self._steps >= self.horizon)
        ended = terminated | truncated
        info = step_info(costs, ended, self._as_observations[entered])
        self._states = np.where(ended, self.grid.start, entered)
        self._steps[ended] = 0
        return self._as_observations[self._states], rewards, terminated, truncated, info

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on: states (N,), steps (N,), rng (6,). `set_state` continues from it."""
        if self._states is None:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        return {"states": self._states.copy(), "steps": self._steps.copy(), "rng": pack_rng(self.np_random)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, in this or another process."""
        n = self.num_envs
        check_state(state, {"states": (n,), "steps": (n,), "rng": (RNG_WORDS,)}, f"{n} copies of {ENV_ID}")
        states = np.asarray(state["states"])
        if states.dtype.kind not in "iu" or states.min() < 0 or states.max() >= self.grid.n_states:
            raise UserError(f"'states' are numbers of cells, 0 ... {self.grid.n_states - 1} on this map.")
        self._states = states.astype(np.int64)
        self._steps = np.array(state["steps"], dtype=np.int64)
        self.np_random = unpack_rng(state["rng"])

    def render(self) -> tuple[Any, ...] | None:
        """One text or picture per copy, as `render_mode` says."""
        return self._draw(self._states)


class GridworldEnv(_World, gym.Env[np.ndarray | np.int64, np.int64]):
    """One gridworld: a batch of one, without the automatic restart."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(
        self,
        layout: Layout = "paper",
        *,
        observation: str = "position",
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.observation_space = self._build(make_spec(layout, **options), observation, render_mode)
        self.action_space = gym.spaces.Discrete(self.grid.n_actions)
        self._state: int | None = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[np.ndarray | np.int64, Info]:
        """Put the agent on the start."""
        super().reset(seed=seed)
        self._state, self._steps = self.grid.start, 0
        return self._as_observations[self._state].copy(), {"cost": 0.0}

    def step(self, action: np.int64) -> tuple[np.ndarray | np.int64, float, bool, bool, Info]:
        """Move once."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if not self.action_space.contains(action):
            raise UserError(f"action must be an integer in 0 ... {self.grid.n_actions - 1}, not {action}")
        entered = int(self.grid.sample_next(np.array([self._state]), np.array([action]), self.np_random)[0])
        self._state, self._steps = entered, self._steps + 1
        terminated = entered == self.grid.goal
        truncated = not terminated and self._steps >= self.horizon
        reward, cost = float(self.grid.entry_rewards[entered]), float(self.grid.entry_costs[entered])
        return self._as_observations[entered], reward, terminated, truncated, {"cost": cost}

    def render(self) -> Any:
        """Text or picture, as `render_mode` says."""
        pictures = self._draw(None if self._state is None else [self._state])
        return None if pictures is None else pictures[0]


for _environment in (GridworldEnv, GridworldVectorEnv):
    declare_options(_environment, make_spec)
