"""Wrap an environment with a learned cost: report it, charge it, stop at it, or keep to it.

    env = CostWrapper(env, cost)                               info["cost"] after every step
    env = CostWrapper(env, cost, charge="price")               reward - price x cost
    env = CostWrapper(env, cost, charge="set")                 info["cost"] is 1 in a forbidden step, else 0
    env = CostWrapper(env, cost, charge="set", penalty=30 * cost.unit, terminate=True)    for any agent
    env = CostWrapper(env, cost, penalty=10.0, terminate=True) reward - 10 cost; a step above the threshold ends
    envs = VectorCostWrapper(envs, cost)                       the same for a vector environment
    env = ShieldWrapper(env, cost, predict=model)              actions above the threshold are replaced, and counted

`cost` is what `tacit.load_cost` gives. It finds its inputs by name where the environment names its features
(`feature_names`), and is refused if one is missing; an environment without names must have observations of the same
size. Dict and Tuple observations are flattened first, as `gymnasium.spaces.flatten` does.

An observation that is not finite, or that lies outside of what was seen, is unknown, and unknown counts as forbidden
(`fitted_cost`). The shield and `simulate` are in `shield`.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from tacit.envs.families import Info, Options
from tacit.envs.fitted_cost import Array, Cost, FittedCost, Judgement, Seen, needed_threshold, seen_of_set, threshold_of
from tacit.envs.registry import autoreset_mode
from tacit.envs.shield import ShieldWrapper, simulate
from tacit.errors import UserError

__all__ = ["CostWrapper", "ShieldWrapper", "VectorCostWrapper", "simulate"]
Charge = Literal["price", "set"]
"""How a cost is used: as a price on top of the reward, or as a set of forbidden steps."""


class _Charging:
    """What both wrappers do with a cost: fit it to the environment, and charge it."""

    def _fit(
        self,
        env: gym.Env[Any, Any] | VectorEnv,
        cost: Cost,
        charge: Charge | None,
        penalty: float | None,
        threshold: float | None,
        seen: Seen | None,
        terminate: bool = False,
    ) -> None:
        self._fitted = FittedCost(cost, env, seen_of_set(cost) if charge == "set" and seen is None else seen)
        self.cost = self._fitted.cost
        self.charge, self.penalty = charge, _penalty(cost, charge, penalty)
        need = "ending episodes" if terminate else "a set" if charge == "set" else None
        self.threshold = threshold_of(cost, threshold) if need is None else needed_threshold(cost, threshold, need)
        self._before: Any = None

    def _charged(self, judgement: Judgement) -> Array:
        """(n,) What is reported as cost: the cost, or for a set whether a step is forbidden."""
        return judgement.forbidden(self.threshold).astype(np.float64) if self.charge == "set" else judgement.cost


class CostWrapper(_Charging, gym.Wrapper[Any, Any, Any, Any]):
    """Add info["cost"], the learned cost of each step. The environment's own becomes info["true_cost"].

    Args:
        env: the environment.
        cost: a learned cost.
        charge: "price" subtracts the cost from the reward, at the price with which it was learned unless `penalty`
            gives another one. "set" reports 1 for a forbidden step and 0 for any other, instead of the cost.
        penalty: subtracted from the reward per unit of what is reported as cost; by default 0, with charge "price"
            `cost.unit`.
        terminate: end the episode when a step is forbidden.
        threshold: instead of the cost's own.
        seen: (low, high) of the cost's inputs, beyond which nothing is known; instead of `cost.card["seen"]`. A set
            also takes the ranges on the card, a tenth wider, for what was seen.

    With charge "set", info["learned_cost"] is the cost itself. info["forbidden"]: the step costs more than the
    threshold, or it is unknown. info["unknown"]: the observation is not finite or outside of what was seen;
    info["unknown_reason"] says which entry. info["unknown_steps"] counts them over the wrapper's life. An observation
    that is not finite costs the highest cost that there can be.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        cost: Cost,
        *,
        charge: Charge | None = None,
        penalty: float | None = None,
        terminate: bool = False,
        threshold: float | None = None,
        seen: Seen | None = None,
    ) -> None:
        super().__init__(env)
        self._fit(env, cost, charge, penalty, threshold, seen, terminate)
        self.terminate = terminate
        self.unknown_steps = 0

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._before = obs
        return obs, _hidden(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        about = obs if self.cost.at == "next" else self._before
        judgement = self._fitted.judge(np.asarray(self._fitted.row(about))[None], np.asarray(action)[None])
        self._before = obs
        value, reason = float(self._charged(judgement)[0]), judgement.reasons[0]
        self.unknown_steps += reason != ""
        info = _with_cost(info, value) | {"unknown": reason != "", "unknown_steps": self.unknown_steps}
        if self.charge == "set":
            info["learned_cost"] = float(judgement.cost[0])
        if reason:
            info["unknown_reason"] = reason
        if self.threshold is not None or reason:
            info["forbidden"] = bool(judgement.forbidden(self.threshold)[0])
            terminated = bool(terminated or (self.terminate and info["forbidden"]))
        return obs, float(reward) - self.penalty * value, terminated, truncated, info


def _penalty(cost: Cost, charge: Charge | None, given: float | None) -> float:
    """Reward per unit of what is reported as cost. UserError for a charge that does not exist."""
    if charge not in (None, *get_args(Charge)):
        raise UserError(f"a cost is charged as {' or '.join(get_args(Charge))}, not {charge!r}")
    return float((cost.unit if charge == "price" else 0.0) if given is None else given)


def _hidden(info: Info) -> Info:
    """The environment's own cost under another name, so that nobody takes it for the learned one."""
    return {{"cost": "true_cost", "_cost": "_true_cost"}.get(key, key): entry for key, entry in info.items()}


def _with_cost(info: Info, value: Any) -> Info:
    return {**_hidden(info), "cost": value}


class VectorCostWrapper(_Charging, VectorWrapper):
    """`CostWrapper` for vector environments. It cannot end episodes, because the copies reset themselves.

    info["cost"] is (N,). In a step in which a copy has begun anew it is the cost of the step that ended its episode
    (from info["final_obs"]); if the environment has an info["final_info"], that holds it, too, and "_cost" is False.
    With AutoresetMode.NEXT_STEP the step that only resets costs nothing.

    info["forbidden"], "unknown", "unknown_steps" and "unknown_reason" are (N,) arrays of what `CostWrapper` says.
    """

    def __init__(
        self,
        env: VectorEnv,
        cost: Cost,
        *,
        charge: Charge | None = None,
        penalty: float | None = None,
        threshold: float | None = None,
        seen: Seen | None = None,
    ) -> None:
        super().__init__(env)
        self._fit(env, cost, charge, penalty, threshold, seen)
        self._mode = autoreset_mode(env)
        if self._mode not in {mode.value for mode in AutoresetMode}:
            raise UserError(f"the vector environment does not say how its copies reset themselves: mode {self._mode}")
        self.unknown_steps = np.zeros(env.num_envs, dtype=np.int64)
        self._resetting = np.zeros(env.num_envs, dtype=bool)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        chosen = (options or {}).get("reset_mask")
        self._resetting = np.zeros(self.num_envs, dtype=bool) if chosen is None else self._resetting & ~chosen
        self._before = self._fitted.rows(self.env, obs)
        return obs, _hidden(info)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        obs, reward, terminated, truncated, info = self.env.step(actions)
        rows = self._fitted.rows(self.env, obs)
        ended = np.asarray(terminated) | np.asarray(truncated)
        reached = rows
        if self._mode == AutoresetMode.SAME_STEP.value and ended.any():
            reached = rows.copy()
            for i in np.flatnonzero(ended):
                reached[i] = self._fitted.row(info["final_obs"][i])
        about = reached if self.cost.at == "next" else self._before
        judgement = self._fitted.judge(about, np.asarray(actions))
        value = np.where(self._resetting, 0.0, self._charged(judgement))
        info = _with_cost(info, value) | {"_cost": np.ones(self.num_envs, dtype=bool)}
        if isinstance(info.get("final_info"), dict):  # where the last step of an episode is read from
            info["final_info"] = _with_cost(info["final_info"], value) | {"_cost": ended.copy()}
            info["_cost"] = ~ended
        if self.charge == "set":
            learned = np.where(self._resetting, 0.0, judgement.cost)
            info |= {"learned_cost": learned, "_learned_cost": np.ones(self.num_envs, dtype=bool)}
        info |= self._warnings(judgement)
        self._resetting = ended if self._mode == AutoresetMode.NEXT_STEP.value else np.zeros_like(ended)
        self._before = rows
        return obs, np.asarray(reward) - self.penalty * value, terminated, truncated, info

    def _warnings(self, judgement: Judgement) -> Info:
        """The entries of info about what is forbidden or unknown. A step that only resets is neither."""
        stepped = ~self._resetting
        unknown = judgement.unknown & stepped
        self.unknown_steps += unknown
        everywhere = np.ones(self.num_envs, dtype=bool)
        info = {"unknown": unknown, "_unknown": everywhere}
        info |= {"unknown_steps": self.unknown_steps.copy(), "_unknown_steps": everywhere}
        if unknown.any():
            info |= {"unknown_reason": np.array(judgement.reasons, dtype=object), "_unknown_reason": unknown}
        if self.threshold is not None or unknown.any():
            info["forbidden"] = judgement.forbidden(self.threshold) & stepped
            info["_forbidden"] = everywhere if self.threshold is not None else unknown
        return info
