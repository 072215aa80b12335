"""Wrap an environment with a learned cost: report it, charge it, stop at it, or keep to it.

    env = CostWrapper(env, cost)                               info["cost"] after every step
    env = CostWrapper(env, cost, penalty=10.0, terminate=True) reward - 10 cost; a step above the threshold ends
    envs = VectorCostWrapper(envs, cost)                       the same for a vector environment
    env = ShieldWrapper(env, cost, predict=model)              actions above the threshold are replaced, and counted

`cost` is what `tacit.load_cost` gives. It finds its inputs by name where the environment names its features
(`feature_names`), and is refused if one is missing; an environment without names must have observations of the same
size. Dict and Tuple observations are flattened first, as `gymnasium.spaces.flatten` does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from tacit.cost import LearnedCost
from tacit.cost.table import TableCost
from tacit.envs.capabilities import capabilities
from tacit.envs.families import Info, Options
from tacit.envs.registry import autoreset_mode, feature_names
from tacit.errors import UserError

Array = NDArray[Any]
Cost = LearnedCost | TableCost
Predict = Callable[[Any, Array], Array]
"""(observation, actions (n, ...)) -> the observations (n, ...) that they would lead to."""


def fitted(cost: Cost, env: gym.Env[Any, Any] | VectorEnv) -> Cost:
    """The cost with its inputs in the columns of this environment. UserError if it does not fit."""
    space, actions = _spaces(env)
    names = feature_names(env, declared=True)
    derived = feature_names(env) if names is None else None
    if derived is not None and set(cost.names) & set(derived):
        names = derived  # the cost was learned in such a structure, and knows its names
    if isinstance(cost, TableCost):
        return cost if names is None else cost.of_names(names)
    if cost.inputs.act_size:
        size = int(actions.n) if isinstance(actions, gym.spaces.Discrete) else gym.spaces.flatdim(actions)
        if size != cost.inputs.act_size:
            raise UserError(
                f"the cost reads actions of {cost.inputs.act_size} numbers, those of the environment have {size}"
            )
    if names is not None and not isinstance(space, gym.spaces.Discrete):
        return cost.of_names(names)
    if gym.spaces.flatdim(space) != cost.inputs.obs_size:
        raise UserError(
            f"the cost reads observations of {cost.inputs.obs_size} numbers ({', '.join(cost.names[:6])}, ...), those "
            f"of the environment have {gym.spaces.flatdim(space)} and no names; give it feature_names, or another cost"
        )
    return cost


def _spaces(env: gym.Env[Any, Any] | VectorEnv) -> tuple[gym.Space[Any], gym.Space[Any]]:
    if isinstance(env, VectorEnv):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def _flat(space: gym.Space[Any], obs: Any) -> Any:
    """One observation as the cost reads it."""
    plain = isinstance(space, gym.spaces.Discrete) or (isinstance(space, gym.spaces.Box) and len(space.shape) == 1)
    return obs if plain else gym.spaces.flatten(space, obs)


def _threshold(cost: Cost, given: float | None, why: str) -> float:
    threshold = cost.threshold if given is None else given
    if threshold is None:
        raise UserError(f"{why} needs a threshold: give one, or choose it with a guarantee by `tacit calibrate RUN`")
    return float(threshold)


class CostWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Add info["cost"], the learned cost of each step. The environment's own becomes info["true_cost"].

    Args:
        env: the environment.
        cost: a learned cost.
        penalty: subtracted from the reward per unit of cost. `penalty=cost.unit` is what the policy of the run was
            charged.
        terminate: end the episode when a step costs more than the threshold (info["forbidden"] says so).
        threshold: instead of the cost's own.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        cost: Cost,
        *,
        penalty: float = 0.0,
        terminate: bool = False,
        threshold: float | None = None,
    ) -> None:
        super().__init__(env)
        self.cost = fitted(cost, env)
        self.penalty = float(penalty)
        self.terminate = terminate
        if terminate:
            threshold = _threshold(cost, threshold, "ending episodes")
        self.threshold = cost.threshold if threshold is None else threshold
        self._before: Any = None

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._before = obs
        return obs, _hidden(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        space = self.env.observation_space
        about = obs if self.cost.at == "next" else self._before
        value = float(self.cost(_flat(space, about), action if self.cost.reads_actions else None))
        self._before = obs
        info = _with_cost(info, value)
        if self.threshold is not None:
            info["forbidden"] = value > self.threshold
            terminated = bool(terminated or (self.terminate and info["forbidden"]))
        return obs, float(reward) - self.penalty * value, terminated, truncated, info


def _hidden(info: Info) -> Info:
    """The environment's own cost under another name, so that nobody takes it for the learned one."""
    return {{"cost": "true_cost", "_cost": "_true_cost"}.get(key, key): entry for key, entry in info.items()}


def _with_cost(info: Info, value: Any) -> Info:
    return {**_hidden(info), "cost": value}


class VectorCostWrapper(VectorWrapper):
    """`CostWrapper` for vector environments. It cannot end episodes, because the copies reset themselves.

    info["cost"] is (N,). In a step in which a copy has begun anew it is the cost of the step that ended its episode
    (from info["final_obs"]); if the environment has an info["final_info"], that holds it, too, and "_cost" is False.
    With AutoresetMode.NEXT_STEP the step that only resets costs nothing.
    """

    def __init__(self, env: VectorEnv, cost: Cost, *, penalty: float = 0.0, threshold: float | None = None) -> None:
        super().__init__(env)
        self.cost = fitted(cost, env)
        self.penalty = float(penalty)
        self.threshold = threshold if threshold is not None else cost.threshold
        self._mode = autoreset_mode(env)
        if self._mode not in (
            AutoresetMode.SAME_STEP.value,
            AutoresetMode.NEXT_STEP.value,
            AutoresetMode.DISABLED.value,
        ):
            raise UserError(f"the vector environment does not say how its copies reset themselves: mode {self._mode}")
        self._before: Any = None
        self._resetting = np.zeros(env.num_envs, dtype=bool)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        chosen = (options or {}).get("reset_mask")
        self._resetting = np.zeros(self.num_envs, dtype=bool) if chosen is None else self._resetting & ~chosen
        self._before = self._rows(obs)
        return obs, _hidden(info)

    def _rows(self, obs: Any) -> Array:
        space = self.env.single_observation_space
        if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
            return np.stack([_flat(space, one) for one in gym.vector.utils.iterate(self.env.observation_space, obs)])
        rows = np.asarray(obs)
        return rows if isinstance(space, gym.spaces.Discrete) else rows.reshape(self.num_envs, -1)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        obs, reward, terminated, truncated, info = self.env.step(actions)
        rows = self._rows(obs)
        ended = np.asarray(terminated) | np.asarray(truncated)
        reached = rows
        if self._mode == AutoresetMode.SAME_STEP.value and ended.any():
            reached = rows.copy()
            for i in np.flatnonzero(ended):
                reached[i] = _flat(self.env.single_observation_space, info["final_obs"][i])
        about = reached if self.cost.at == "next" else self._before
        value = np.asarray(self.cost(about, np.asarray(actions) if self.cost.reads_actions else None), dtype=np.float64)
        value = np.where(self._resetting, 0.0, value)
        self._resetting = ended if self._mode == AutoresetMode.NEXT_STEP.value else np.zeros_like(ended)
        self._before = rows
        info = _with_cost(info, value) | {"_cost": np.ones(self.num_envs, dtype=bool)}
        if isinstance(info.get("final_info"), dict):  # where the last step of an episode is read from
            info["final_info"] = _with_cost(info["final_info"], value) | {"_cost": ended.copy()}
            info["_cost"] = ~ended
        if self.threshold is not None:
            info |= {"forbidden": value > self.threshold, "_forbidden": np.ones(self.num_envs, dtype=bool)}
        return obs, np.asarray(reward) - self.penalty * value, terminated, truncated, info


class ShieldWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Replace actions whose learned cost would exceed the threshold, and count how often.

    A cost that reads actions (at "current") judges an action directly. A cost of the state that a step reaches (at
    "next") needs to know what an action leads to: `predict(obs, actions)`, a model; without one it is refused, because
    a shield that guesses is none. For environments of the kind that can be copied, `predict=simulate(env)` tries each
    action on a copy of the environment. Looking ahead by one step cannot help where the last moment to turn is earlier:
    set the threshold lower, or give a model that predicts further.

    Args:
        env: the environment.
        cost: a learned cost.
        predict: (observation, actions (n, ...)) -> observations (n, ...) after them.
        threshold: instead of the cost's own.
        instead: what to do about a forbidden action: "nearest", the nearest allowed among `candidates` (or the cheapest
            if none is allowed); or an action to take always, such as a brake.
        candidates: how many actions are tried for "nearest" in a continuous action space, drawn evenly; of a discrete
            space all are.

    info["shielded"] says whether the action was replaced, info["action"] what was done. `steps`, `interventions` and
    `stuck` (no allowed action was found) count over the wrapper's life; `episode_interventions` since the last reset.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        cost: Cost,
        *,
        predict: Predict | None = None,
        threshold: float | None = None,
        instead: Any = "nearest",
        candidates: int = 64,
    ) -> None:
        super().__init__(env)
        self.cost = fitted(cost, env)
        self.threshold = _threshold(cost, threshold, "a shield")
        if self.cost.at == "next" and predict is None:
            raise UserError(
                "this cost is about the state that a step reaches, so a shield must know where an action leads: give "
                "predict=model with model(obs, actions) -> next observations, or predict=simulate(env) for an "
                "environment that can be copied"
            )
        if self.cost.at == "current" and not self.cost.reads_actions:
            raise UserError(
                "this cost is about the present state and does not read the action: no action is better than another, "
                "a shield cannot help; learn a cost with use_action, or of the state that a step reaches"
            )
        if isinstance(env.action_space, gym.spaces.Discrete):
            space = env.action_space
            self._discrete: Array | None = np.arange(space.start, space.start + space.n)
        elif isinstance(env.action_space, gym.spaces.Box):
            self._discrete = None
        else:
            raise UserError(f"a shield chooses among actions of a Box or Discrete space, not of {env.action_space}")
        self.predict = predict
        self.instead = instead
        if not isinstance(instead, str) and not env.action_space.contains(instead):
            raise UserError(f"instead={instead!r} is no action of {env.action_space}")
        if isinstance(instead, str) and instead != "nearest":
            raise UserError(f'instead is "nearest" or an action, not {instead!r}')
        self.candidates = int(candidates)
        self.steps = self.interventions = self.stuck = self.episode_interventions = 0
        self._before: Any = None
        self._rng = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._rng = np.random.default_rng([seed, 7])
        self.episode_interventions = 0
        self._before = obs
        return obs, info

    def judge(self, actions: Array) -> Array:
        """(n,) the cost of taking each of the actions (n, ...) now."""
        if self.cost.at == "next":
            assert self.predict is not None
            reached = self.predict(self._before, actions)
            space = self.env.observation_space
            return np.asarray(self.cost(np.stack([_flat(space, obs) for obs in reached])), dtype=np.float64)
        obs = np.repeat(np.asarray(_flat(self.env.observation_space, self._before))[None], len(actions), axis=0)
        return np.asarray(self.cost(obs, actions), dtype=np.float64)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        asked = np.asarray(action)
        shielded = bool(self.judge(asked[None])[0] > self.threshold)
        done = action
        if shielded:
            done = self._replacement(asked) if isinstance(self.instead, str) else self.instead
            self.interventions += 1
            self.episode_interventions += 1
        self.steps += 1
        obs, reward, terminated, truncated, info = self.env.step(done)
        self._before = obs
        return obs, reward, terminated, truncated, {**info, "shielded": shielded, "action": done}

    def _replacement(self, asked: Array) -> Any:
        if self._discrete is not None:
            choices = self._discrete
            distance = (choices != asked).astype(np.float64)
        else:
            space = self.env.action_space
            assert isinstance(space, gym.spaces.Box)
            low, high = np.maximum(space.low, -1e6), np.minimum(space.high, 1e6)
            choices = self._rng.uniform(low, high, (self.candidates, *space.shape)).astype(space.dtype)
            distance = np.square((choices - asked) / np.maximum(high - low, 1e-9)).reshape(len(choices), -1).sum(axis=1)
        costs = self.judge(choices)
        allowed = costs <= self.threshold
        if not allowed.any():
            self.stuck += 1
            best = int(np.argmin(costs))
        else:
            # Among equally near ones the cheapest.
            best = int(np.lexsort((costs, np.where(allowed, distance, np.inf)))[0])
        return choices[best].item() if self._discrete is not None else choices[best]


def simulate(env: gym.Env[Any, Any]) -> Predict:
    """A model for `ShieldWrapper` that tries each action on a copy of the environment in the same state.

    MuJoCo environments are put there by positions and velocities, and draw noise of their own. Others are put there by
    their state if they can set it (`capabilities`), or else copied whole, the random generator included: where there
    is noise, such a shield knows what will come, as no real one does. Copying a large environment takes long; a model
    of your own is faster.
    """
    here: Any = env.unwrapped
    can = capabilities(here)
    source = can.physical_state or can.state
    if source is not None and env.spec is not None:
        other: Any = gym.make(env.spec).unwrapped
        other.reset(seed=0)
        there = capabilities(other)
        target = there.physical_state or there.state
        assert target is not None

        def try_out(action: Any) -> Any:
            target.set(source.get())
            return other.step(action)[0]
    else:
        try:
            copy.deepcopy(here)
        except Exception as error:  # whatever the environment holds that cannot be copied
            raise UserError(f"{env} cannot be copied ({error}): give a model of your own as predict") from None

        def try_out(action: Any) -> Any:
            return copy.deepcopy(here).step(action)[0]

    def predict(obs: Any, actions: Array) -> Array:
        return np.stack([np.asarray(try_out(action)) for action in actions])

    return predict
