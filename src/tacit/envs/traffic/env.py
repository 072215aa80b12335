"""Highway driving as Gymnasium environments, single and batched: both are the simulator of `simulator.py`.

    env = gymnasium.make("tacit/HighwayDistance-v0")                         the package's recordings: simulated traffic
    env = gymnasium.make("tacit/HighwayVelocity-v0", recordings="highD/")    your own

Sparse reward: +50 goal, -50 collision, -20 off the road, -10 time out. The true cost, info["cost"], is 1 for every step
after which the hidden rule is broken, and at reset if the start breaks it already; no learner reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from tacit.envs.batched import (
    Seeds,
    Step,
    check_actions,
    check_render_mode,
    declare_options,
    reset_mask,
    seeds_of,
    step_info,
    whole_number,
)
from tacit.envs.capabilities import Replayed, Rule
from tacit.envs.families import Info, Options
from tacit.envs.traffic import observation as ob
from tacit.envs.traffic.files import traffic_of
from tacit.envs.traffic.layout import Rules, Traffic, flag
from tacit.envs.traffic.recording import DT, FRAME_RATE
from tacit.envs.traffic.render import draw_ego
from tacit.envs.traffic.simulator import OUTCOMES, Flags, Outcome, Simulator, first_observations
from tacit.errors import UserError

Recordings = str | os.PathLike[str] | Sequence[str]
MAX_SPEED = 40.0
MIN_GAP = 20.0


def _too_close(obs: np.ndarray) -> Flags:
    return np.asarray(obs[:, ob.LEAD_GAP] < MIN_GAP)


def _too_fast(obs: np.ndarray) -> Flags:
    # The speed, of which that along the road differs by a hundredth at most while driving in a lane.
    return np.asarray(np.hypot(obs[:, 6], obs[:, 7]) > MAX_SPEED)


RULES = {
    "distance": Rule(
        ob.FEATURES[ob.LEAD_GAP],
        "<",
        MIN_GAP,
        text=f"gap to the leader in the lane below {MIN_GAP:g} m",
        predicate=_too_close,
    ),
    "velocity": Rule("v_ego_x", ">", MAX_SPEED, text=f"speed above {MAX_SPEED:g} m/s", predicate=_too_fast),
}


def _rule(constraint: str) -> Rule:
    if constraint not in RULES:
        raise UserError(f"constraint is one of {', '.join(RULES)}, not {constraint!r}")
    return RULES[constraint]


def _traffic(given: Traffic | None, recordings: Recordings | None, rules: Rules, skip_bad: bool) -> Traffic:
    if given is None:
        return traffic_of(recordings, rules, skip_bad=flag("skip_bad", skip_bad))
    if not isinstance(given, Traffic):
        raise UserError(f"traffic is what layout.build returns; for files use recordings={given!r}")
    return given


def draw_problem(seed: int, episode: int, n: int) -> int:
    """The problem of the episode-th episode of a copy with this seed: a function, so that there is no state to save."""
    return int(np.random.default_rng([seed, episode]).integers(n))


def problems_at(traffic: Traffic, observations: np.ndarray) -> NDArray[np.int64]:
    """(n,) the problem that begins with each observation (n, 74); -1 if none does."""
    numbers = {row.tobytes(): i for i, row in enumerate(first_observations(traffic))}
    return np.array([numbers.get(row.tobytes(), -1) for row in observations.astype(np.float32)], np.int64)


class _Highway:
    """What the single and the batched environment share."""

    dt = DT
    feature_names = ob.FEATURES

    def _build(
        self,
        copies: int,
        constraint: str,
        *,
        recordings: Recordings | None = None,
        ego: str = "any",
        goal: str = "footprint",
        corner: bool = False,
        split: str | None = None,
        split_seed: int = 5,
        reactive: bool = False,
        skip_bad: bool = False,
        render_mode: str | None = None,
        traffic: Traffic | None = None,
    ) -> tuple[gym.spaces.Box, gym.spaces.Box]:
        """Set the attributes; returns the spaces of one observation and one action.

        Args:
            copies: number of cars.
            constraint: the hidden rule, "distance" or "velocity".
            recordings: a folder, a file or a list of files; those of the package (simulated) by default.
            ego, goal, corner, split, split_seed: how problems are made from recordings, see `layout.Rules`.
            reactive: do other vehicles brake for the ego? The original's do not.
            skip_bad: leave out recordings that cannot be read, instead of refusing all.
            render_mode: None or "rgb_array" (one picture per copy).
            traffic: what `layout.build` returns, instead of recordings.
        """
        self.constraint, self.rule = constraint, _rule(constraint)
        rules = Rules(ego, goal, flag("corner", corner), split, split_seed)
        self.traffic = _traffic(traffic, recordings, rules, skip_bad)
        self.render_mode = check_render_mode(render_mode)
        self.simulator = Simulator(self.traffic, copies, reactive=flag("reactive", reactive))
        observation = gym.spaces.Box(-np.inf, np.inf, (ob.SIZE,), np.float32)
        return observation, gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def _draw(self, observations: np.ndarray | None) -> tuple[np.ndarray, ...] | None:
        """A picture of the road around each ego, with its present observation (N, 74)."""
        if observations is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        if self.render_mode is None:
            gym.logger.warn('render() does nothing without a render_mode; give "rgb_array" to make() or make_vec()')
            return None
        return tuple(draw_ego(self.simulator, i, obs, self.rule) for i, obs in enumerate(observations))


class TrafficVectorEnv(_Highway, VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """N cars, each in traffic of its own, with autoreset in the same step.

    Args:
        num_envs: number of copies.
        constraint: the hidden rule, "distance" or "velocity".
        max_episode_steps: cut episodes off earlier than the task does.
        options: see `_Highway._build`.

    Copy i is the single environment with seed + i, bit by bit. `step_arrays` is `step` without the dictionary.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (Gymnasium's declaration)
        "render_modes": ["rgb_array"],
        "render_fps": round(FRAME_RATE),
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }
    outcomes = OUTCOMES
    """The names of the codes in info["final_info"]["outcome"]."""

    def __init__(
        self,
        num_envs: int = 1,
        constraint: str = "distance",
        *,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        self.num_envs = whole_number("num_envs", num_envs)
        self.horizon = None if max_episode_steps is None else whole_number("max_episode_steps", max_episode_steps)
        spaces = self._build(num_envs, constraint, **options)
        self.single_observation_space, self.single_action_space = spaces
        self.observation_space, self.action_space = (batch_space(space, num_envs) for space in spaces)
        self._seeds = np.full(num_envs, -1, np.int64)
        self._episodes = np.zeros(num_envs, np.int64)
        self._obs = np.zeros((num_envs, ob.SIZE), np.float32)
        self._started = False

    # ------------------------------------------------------------ Gymnasium's interface

    def reset(self, *, seed: Seeds = None, options: Options | None = None) -> tuple[np.ndarray, Info]:
        """Start a new episode in every copy, or in those that options["reset_mask"] (N,) selects.

        Copy i is seeded with seed + i, or with seed[i]; options["problem"] (N,) chooses the problems.
        """
        options = options or {}
        mask = reset_mask(options, self.num_envs, started=self._started)
        self._seed(seed, mask)
        rows = np.flatnonzero(mask)
        cost = np.zeros(self.num_envs)
        cost[rows] = self._begin(rows, options.get("problem"))
        self._started = True
        return self._obs.copy(), {"cost": cost, "_cost": mask}

    def step(self, actions: ArrayLike) -> tuple[np.ndarray, np.ndarray, Flags, Flags, Info]:
        """One step of all copies; a copy whose episode ends is reset in the same step.

        Then its rows of the observations and of info["cost"] belong to the new episode; info["final_obs"] and
        info["final_info"] ("cost", and "outcome": indices into `OUTCOMES`) hold what the last step gave, in the rows
        that info["_final_obs"] marks.
        """
        result, outcome, start_cost = self._step(actions)
        ended = result.terminated | result.truncated
        info = step_info(result.cost, ended, result.final_obs, start_cost, outcome=outcome.code)
        return result.obs, result.reward, result.terminated, result.truncated, info

    def step_arrays(self, actions: ArrayLike) -> Step:
        """One step of all copies for actions (N, 2), clipped to [-1, 1]."""
        return self._step(actions)[0]

    def _step(self, actions: ArrayLike) -> tuple[Step, Outcome, NDArray[np.float64]]:
        """The step, its outcome, and the cost (N,) of the starts of new episodes."""
        if not self._started:
            raise gym.error.ResetNeeded("call reset() before step()")
        outcome = self.simulator.step(check_actions(actions, (self.num_envs, 2), "the highway"))
        cost = self.rule.violated(outcome.obs).astype(np.float64)
        terminated = outcome.ended
        truncated = np.zeros(self.num_envs, np.bool_)
        if self.horizon is not None:
            truncated = ~terminated & (self.simulator.t >= self.horizon)
        obs, start_cost = outcome.obs, np.zeros(self.num_envs)
        self._obs = obs
        rows = np.flatnonzero(terminated | truncated)
        if len(rows):
            self._obs = obs.copy()
            start_cost[rows] = self._begin(rows)
            obs = self._obs.copy()
        return Step(obs, outcome.reward, cost, terminated, truncated, outcome.obs), outcome, start_cost

    def render(self) -> tuple[np.ndarray, ...] | None:
        """One picture per copy."""
        return self._draw(self._obs if self._started else None)

    def drive(self, problems: np.ndarray, actions: np.ndarray, lengths: np.ndarray) -> Replayed:
        """Drive N episodes side by side: their problems (N,), and all actions (sum of lengths, 2) end to end.

        A copy that has ended, or whose actions are used up, coasts unrecorded.
        """
        offsets = np.cumsum(lengths) - lengths
        first, _ = self.reset(seed=0, options={"problem": problems})
        observations, (rewards, costs) = np.zeros((len(actions), ob.SIZE), np.float32), np.zeros((2, len(actions)))
        ends = np.full(self.num_envs, -1)
        for t in range(int(lengths.max())):
            going = np.flatnonzero(lengths > t)
            rows, chosen = offsets[going] + t, np.zeros((self.num_envs, 2), np.float32)
            chosen[going] = actions[rows]
            step = self.step_arrays(chosen)
            observations[rows], rewards[rows], costs[rows] = step.final_obs[going], step.reward[going], step.cost[going]
            ends[(ends < 0) & step.terminated] = t + 1
        return Replayed(problems >= 0, first, observations, rewards, costs, ends == lengths)

    @staticmethod
    def succeeded(final_obs: np.ndarray) -> Flags:
        """(n,) do these last observations (n, 74) of episodes show the goal reached, unharmed?"""
        return (final_obs[:, ob.GOAL] > 0) & (final_obs[:, ob.COLLISION] == 0) & (final_obs[:, ob.OFF_ROAD] == 0)

    # ------------------------------------------------------------ episodes

    def _begin(self, rows: NDArray[np.intp], problems: ArrayLike | None = None) -> NDArray[np.float64]:
        """Start the next episodes of some copies; their costs at the start (len(rows),)."""
        n = len(self.traffic.problems)
        if problems is None:
            chosen = np.array([draw_problem(int(self._seeds[i]), int(self._episodes[i]), n) for i in rows], np.int64)
        else:
            given = np.asarray(problems)
            if given.shape not in ((), (1,), (self.num_envs,)):
                raise UserError(f"options['problem'] is one number, or {self.num_envs}; one per copy, not {problems!r}")
            given = np.broadcast_to(given, (self.num_envs,))
            if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n:
                raise UserError(f"problems are numbers from 0 to {n - 1}, not {problems!r}")
            chosen = given[rows].astype(np.int64)
        self._episodes[rows] += 1
        self.simulator.start(rows, chosen)
        self._obs[rows] = self.simulator.initial(rows)
        return self.rule.violated(self._obs[rows]).astype(np.float64)

    def _seed(self, seed: Seeds, mask: Flags) -> None:
        seeds = seeds_of(seed, self.num_envs)
        for row in np.flatnonzero(mask):
            value = seeds[row]
            if value is None and self._seeds[row] < 0:
                value = int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
            if value is not None:
                self._seeds[row], self._episodes[row] = whole_number("a seed", value, 0), 0

    # ------------------------------------------------------------ saving

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that the future depends on, as arrays; `set_state` with it continues bit by bit."""
        if not self._started:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        sim = self.simulator
        state: dict[str, Any] = {"seed": self._seeds, "episode": self._episodes, "obs": self._obs}
        state |= {name: getattr(sim, name) for name in ("problem", "t", "position", "velocity")}
        if sim.reactions is not None:
            state |= {f"traffic_{name}": values for name, values in vars(sim.reactions).items()}
        return {name: values.copy() for name, values in state.items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, in this or another process."""
        sim = self.simulator
        targets: dict[str, tuple[Any, str]] = {
            "seed": (self, "_seeds"),
            "episode": (self, "_episodes"),
            "obs": (self, "_obs"),
        }
        targets |= {name: (sim, name) for name in ("problem", "t", "position", "velocity")}
        if sim.reactions is not None:
            targets |= {f"traffic_{name}": (sim.reactions, name) for name in vars(sim.reactions)}
        for name, (owner, attribute) in targets.items():
            wanted = getattr(owner, attribute)
            if name not in state or np.shape(state[name]) != wanted.shape:
                raise UserError(f"the state of {self.num_envs} copies needs an array {name!r} of shape {wanted.shape}")
        problems = np.asarray(state["problem"])
        if problems.min() < 0 or problems.max() >= len(self.traffic.problems):
            raise UserError("the state is of other recordings: it has problems that these do not pose")
        for name, (owner, attribute) in targets.items():
            setattr(owner, attribute, np.array(state[name], getattr(owner, attribute).dtype))
        sim.refresh(np.arange(self.num_envs))
        self._started = True


class TrafficEnv(_Highway, gym.Env[np.ndarray, np.ndarray]):
    """One car in traffic: a batch of one, without the automatic restart. Arguments as for `TrafficVectorEnv`.

    info["outcome"] is one of `OUTCOMES`. reset(options={"problem": 3}) chooses the problem.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": round(FRAME_RATE)}  # noqa: RUF012

    def __init__(self, constraint: str = "distance", **options: Any) -> None:
        self.observation_space, self.action_space = self._build(1, constraint, **options)
        self._episode = 0
        self._obs: np.ndarray | None = None
        self._over = False

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=None if seed is None else whole_number("a seed", seed, 0))
        if seed is not None:
            self._episode = 0
        n = len(self.traffic.problems)
        problem = (options or {}).get("problem")
        if problem is None:
            problem = draw_problem(int(self.np_random_seed), self._episode, n)
        elif isinstance(problem, bool) or not isinstance(problem, int | np.integer) or not 0 <= problem < n:
            raise UserError(f"a problem is a number from 0 to {n - 1}, not {problem!r}")
        self._episode += 1
        self._over = False
        only = np.zeros(1, np.int64)
        self.simulator.start(only, np.array([problem]))
        self._obs = self.simulator.initial(only)
        return self._obs[0].copy(), self._info(0, int(problem))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, Info]:
        if self._obs is None or self._over:
            raise gym.error.ResetNeeded("call reset() before step()")
        outcome = self.simulator.step(check_actions(action, (2,), "the highway")[None])
        self._obs, self._over = outcome.obs, bool(outcome.ended[0])
        info = self._info(int(outcome.code[0]), int(self.simulator.problem[0]))
        return outcome.obs[0].copy(), float(outcome.reward[0]), self._over, False, info

    def _info(self, code: int, problem: int) -> Info:
        assert self._obs is not None
        return {"cost": float(self.rule.violated(self._obs)[0]), "outcome": OUTCOMES[code], "problem": problem}

    def render(self) -> Any:
        """A picture of the road around the ego."""
        pictures = self._draw(self._obs)
        return None if pictures is None else pictures[0]

    def replay_episodes(self, first: np.ndarray, actions: np.ndarray, lengths: np.ndarray) -> Replayed:
        """Drive episodes again, from the recorded scenes that their first observations (n, 74) show."""
        problems = problems_at(self.traffic, first)
        if (problems < 0).any():
            return Replayed(problems >= 0)
        return TrafficVectorEnv(len(first), self.constraint, traffic=self.traffic).drive(problems, actions, lengths)


for _environment in (TrafficEnv, TrafficVectorEnv):
    declare_options(_environment, _Highway._build)
