"""A shield: actions that would lead to a forbidden step are replaced, and counted.

env = ShieldWrapper(env, cost, predict=model)              model(obs, actions) -> the observations after them
env = ShieldWrapper(env, cost, predict=simulate(env))      actions are tried on a copy of the environment
env = ShieldWrapper(env, cost, ..., when_stuck="stop")     an episode without an allowed action ends
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import HumanRendering, RecordVideo

from tacit.envs.capabilities import capabilities, wrappers_of
from tacit.envs.families import Info, Options
from tacit.envs.fitted_cost import Array, Cost, FittedCost, Judgement, Seen, needed_threshold
from tacit.errors import UserError

Predict = Callable[[Any, Array], Sequence[Any] | Array]
"""(observation, actions (n, ...)) -> the n observations that they would lead to."""
WhenStuck = Literal["stop", "least_cost", "pass"]
WATCHERS = (RecordVideo, HumanRendering)
"""Wrappers that record or show steps. They are left out of a trial, which is not a real step."""


class ShieldWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Replace actions whose learned cost would exceed the threshold or is unknown, and count how often.

    A cost that reads actions (at "current") judges an action directly. A cost of the state that a step reaches (at
    "next") needs to know what an action leads to: `predict(obs, actions)`, a model; without one it is refused, because
    a shield that guesses is none. For environments of the kind that can be copied, `predict=simulate(env)` tries each
    action on a copy of the environment. Looking ahead by one step cannot help where the last moment to turn is earlier:
    set the threshold lower, or give a model that predicts further.

    Args:
        env: the environment.
        cost: a learned cost.
        predict: (observation, actions (n, ...)) -> the n observations after them.
        threshold: instead of the cost's own.
        instead: what to do about a forbidden action: "nearest", the nearest allowed among `candidates`; or an action to
            take always, such as a brake.
        candidates: how many actions are tried for "nearest" in a continuous action space, drawn evenly; of a discrete
            space all are.
        when_stuck: what to do if no allowed action was found. "least_cost": take the action of the least known cost,
            or the nearest one if none is known. "stop": take none; the episode is truncated with reward 0.
            "pass": take the action that was asked for.
        seen: (low, high) of the cost's inputs, beyond which nothing is known; instead of `cost.card["seen"]`.

    info["shielded"]: the action that was asked for is forbidden. info["stuck"]: no allowed action was found.
    info["action"]: what was done, None if nothing was. info["unknown"] and info["unknown_reason"]: nothing is known
    about the action that was asked for. `steps`, `interventions`, `stuck` and `unknown_steps` count over the wrapper's
    life (also info["unknown_steps"]); `episode_interventions` since the last reset. A wrapper warns the first time that
    it is stuck.
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
        when_stuck: WhenStuck = "least_cost",
        seen: Seen | None = None,
    ) -> None:
        super().__init__(env)
        self._fitted = FittedCost(cost, env, seen)
        self.cost = self._fitted.cost
        self.threshold = needed_threshold(cost, threshold, "a shield")
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
            self._low, self._high = np.maximum(env.action_space.low, -1e6), np.minimum(env.action_space.high, 1e6)
        else:
            raise UserError(f"a shield chooses among actions of a Box or Discrete space, not of {env.action_space}")
        self.predict = predict
        self.instead = instead
        if not isinstance(instead, str) and not env.action_space.contains(instead):
            raise UserError(f"instead={instead!r} is no action of {env.action_space}")
        if isinstance(instead, str) and instead != "nearest":
            raise UserError(f'instead is "nearest" or an action, not {instead!r}')
        if when_stuck not in get_args(WhenStuck):
            raise UserError(f"when_stuck is one of {', '.join(map(repr, get_args(WhenStuck)))}, not {when_stuck!r}")
        self.when_stuck = when_stuck
        self.candidates = int(candidates)
        self.steps = self.interventions = self.stuck = self.episode_interventions = self.unknown_steps = 0
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
        """(n,) the cost of taking each of the actions (n, ...) now; infinite if it is unknown."""
        judgement = self._judgement(actions)
        return np.where(judgement.unknown, np.inf, judgement.cost)

    def _judgement(self, actions: Array) -> Judgement:
        now = np.asarray(self._fitted.row(self._before))
        if not np.isfinite(now).all():  # a model has nothing to go on
            return Judgement(np.full(len(actions), np.inf), ("the present observation is not finite",) * len(actions))
        if self.cost.at == "next":
            assert self.predict is not None
            reached = self.predict(self._before, actions)
            return self._fitted.judge(np.stack([np.asarray(self._fitted.row(obs)) for obs in reached]))
        return self._fitted.judge(np.repeat(now[None], len(actions), axis=0), actions)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        asked = np.asarray(action)
        judgement = self._judgement(asked[None])
        shielded = bool(judgement.forbidden(self.threshold)[0])
        reason = judgement.reasons[0]
        done, stuck = self._replacement(action) if shielded else (action, False)
        self.steps += 1
        self.interventions += shielded
        self.episode_interventions += shielded
        self.stuck += stuck
        self.unknown_steps += reason != ""
        if stuck:
            self._warn_once()
        nothing: tuple[Any, Any, bool, bool, Info] = (self._before, 0.0, False, True, {})
        obs, reward, terminated, truncated, info = nothing if done is None else self.env.step(done)
        self._before = obs
        info = {**info, "shielded": shielded, "stuck": stuck, "action": done}
        info |= {"unknown": reason != "", "unknown_steps": self.unknown_steps}
        if reason:
            info["unknown_reason"] = reason
        return obs, reward, terminated, truncated, info

    def _replacement(self, action: Any) -> tuple[Any, bool]:
        """(What to do instead of a forbidden action, was there no allowed one?)."""
        asked = np.asarray(action)
        choices = self._choices(asked)
        costs = self.judge(choices)
        distances = self._distances(choices, asked)
        allowed = costs <= self.threshold
        stuck = not allowed.any()
        if stuck and self.when_stuck == "stop":
            return None, True
        if stuck and self.when_stuck == "pass":
            return action, True
        if not isinstance(self.instead, str):
            return self.instead, stuck
        # The nearest allowed one, or else that of the least cost; the other number decides between equals.
        keys = (distances, costs) if stuck else (costs, np.where(allowed, distances, np.inf))
        best = choices[np.lexsort(keys)[0]]
        return (best.item() if self._discrete is not None else best), stuck

    def _choices(self, asked: Array) -> Array:
        """Actions (n, ...) that could be taken instead."""
        if not isinstance(self.instead, str):
            return np.asarray(self.instead)[None]
        if self._discrete is not None:
            return self._discrete
        choices = self._rng.uniform(self._low, self._high, (self.candidates, *self._low.shape))
        return choices.astype(self.env.action_space.dtype)

    def _distances(self, choices: Array, asked: Array) -> Array:
        """(n,) how far each choice is from what was asked for."""
        if self._discrete is not None:
            return (choices != asked).astype(np.float64)
        scaled: Array = np.square((choices - asked) / np.maximum(self._high - self._low, 1e-9))
        return scaled.reshape(len(choices), -1).sum(axis=1)

    def _warn_once(self) -> None:
        if self.stuck > 1:
            return
        does = {
            "least_cost": "it takes the action of the least cost",
            "stop": "it ends the episode",
            "pass": "it lets the action pass",
        }[self.when_stuck]
        warnings.warn(
            f"the shield found no allowed action, so {does} (when_stuck={self.when_stuck!r}); "
            "`stuck` counts how often this happens, and this warning comes once",
            RuntimeWarning,
            stacklevel=3,
        )


# ---------------------------------------------------------------------------------------------------------------------
# Trying actions out


def simulate(env: gym.Env[Any, Any]) -> Predict:
    """A model for `ShieldWrapper` that tries each action on a copy of the environment in the same state.

    Wrappers of the environment are copied, too: actions go through them, and observations come out as the agent sees
    them. MuJoCo environments are put there by positions and velocities, and draw noise of their own. Others are put
    there by their state if they can set it (`capabilities`), or else copied whole, the random generator included: where
    there is noise, such a shield knows what will come, as no real one does. Copying a large environment takes long; a
    model of your own is faster.
    """
    here: Any = env.unwrapped
    can = capabilities(here)
    source = can.physical_state or can.state
    if source is not None and here.spec is not None:
        other: Any = gym.make(here.spec).unwrapped
        other.reset(seed=0)
        there = capabilities(other)
        target = there.physical_state or there.state
        assert target is not None

        def inner_copy() -> Any:
            target.set(source.get())
            return other

        return _trying(env, inner_copy)
    try:
        copied = copy.deepcopy(here)
        copied.reset(seed=0)
        copied.step(copied.action_space.sample())
    except Exception as error:  # whatever the environment holds that cannot be copied
        raise _cannot_copy(env, error) from None
    predict = _trying(env, lambda: copy.deepcopy(here))
    checked = False

    def checked_predict(obs: Any, actions: Array) -> Sequence[Any] | Array:
        # A copy may share its simulator with the environment. Then the second trial begins where the first one ended.
        nonlocal checked
        if not checked:
            twice = [gym.spaces.flatten(env.observation_space, predict(obs, actions[:1])[0]) for _ in range(2)]
            if not np.array_equal(np.asarray(twice[0]), np.asarray(twice[1]), equal_nan=True):
                raise UserError(
                    f"{env} cannot be tried out on a copy: the same action leads to different observations, so copies "
                    "share a part or a random generator: give a model of your own as predict"
                )
            checked = True
        return predict(obs, actions)

    return checked_predict


def _trying(env: gym.Env[Any, Any], inner_copy: Callable[[], Any]) -> Predict:
    """Step copies of an environment, wrappers included."""

    def predict(obs: Any, actions: Array) -> Sequence[Any] | Array:
        try:
            reached = [_copied_around(env, inner_copy()).step(action)[0] for action in actions]
        except Exception as error:  # it is the user's environment: whatever it raises
            raise _cannot_copy(env, error) from error
        return reached if isinstance(env.observation_space, gym.spaces.Dict | gym.spaces.Tuple) else np.stack(reached)

    return predict


def _cannot_copy(env: gym.Env[Any, Any], error: Exception) -> UserError:
    reason = " ".join(f"{type(error).__name__} {error}".split())
    return UserError(f"{env} cannot be tried out on a copy ({reason}): give a model of your own as predict")


def _copied_around(env: Any, inner: Any) -> Any:
    """The wrappers of an environment with what they remember, around another environment."""
    for wrapper in reversed(list(wrappers_of(env))):
        if isinstance(wrapper, WATCHERS):
            continue
        twin = object.__new__(type(wrapper))
        # The spaces are large, and no step changes them.
        kept = {key: value for key, value in vars(wrapper).items() if isinstance(value, gym.Space)}
        own = {key: value for key, value in vars(wrapper).items() if key not in kept and key != "env"}
        copies = {id(wrapper.env): inner, id(wrapper): twin, id(env.unwrapped): inner.unwrapped}
        vars(twin).update(kept, env=inner, **copy.deepcopy(own, copies))
        inner = twin
    return inner
