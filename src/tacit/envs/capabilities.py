"""What an environment can do beyond Gymnasium's interface: the contract, in one place.

An environment of your own declares what it can as attributes of its class or instance. All are optional:

    feature_names                names of the entries of an observation
    horizon                      steps after which an episode is cut off
    rule                         the true constraint, a `Rule`; for judging results, never for learning
    succeeded(final_obs)         (n, obs) last observations -> (n,) did the episode end well?
    outcomes                     names of the codes in info["outcome"], such as ("running", "goal", "collision")
    objects                      `Slots`: which entries of an observation describe a set of objects, in no order; a cost
                                 then reads distances to the nearest one, and a policy sees them in no order, too
    dt                           seconds per step, for films
    exact_model                  a `GridworldSpec`: the environment as arrays, for the exact methods
    get_state(), set_state(s)    everything that the future depends on, as a dict of arrays, the random generator
                                 included (`rng_state.pack_rng`); a run then resumes bit by bit, and demonstrations
                                 are checked by replaying them (`tacit demos validate`)
    state_of(observation)        the state for `set_state` that an observation shows, where it is not simply among its
                                 entries or a sum of them
    replay_episodes(first, actions, lengths)
                                 `Replayed`: whole episodes again, for an environment whose observations do not show its
                                 state but whose first ones (n, obs) tell which episode begins
    use_threads(n)               step the copies of a batched environment with n threads
    step_arrays(actions)         (obs, reward, cost, terminated, truncated, final_obs) of a batched environment that
                                 resets in the same step: `step` without the dictionary, for speed

    class Tank(gym.Env):
        feature_names = ("level", "inflow")
        horizon = 20
        rule = Rule("level", ">", 0.75)

    capabilities(env).rule       # through wrappers, and for a vector of such environments

An attribute of the same name and another type counts as not declared. Families declare what is known before an
environment is made (options, shipped demonstrations, ...) in `families.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from tacit.cost.bounds import Bound
from tacit.cost.objects import Slots
from tacit.envs.registry import FlatObservation, feature_names
from tacit.errors import UserError

if TYPE_CHECKING:
    from tacit.envs.gridworld_spec import GridworldSpec

Array = NDArray[Any]
Flags = NDArray[np.bool_]
STATELESS = (OrderEnforcing, PassiveEnvChecker, FlatObservation, TimeLimit)
"""Wrappers of a copy that hold nothing but the step count of `TimeLimit`."""


@dataclass(frozen=True)
class Rule(Bound):
    """A true constraint: the agent must not be where `feature relation value` holds after a step.

    A rule that is no bound on a feature, such as a region, has a text and a predicate alone:

        Rule(text="inside the disc around (0, 0) of radius 1", predicate=lambda obs: np.hypot(*obs.T[:2]) < 1)
    """

    feature: str = ""
    relation: str = ">"
    value: float = math.nan
    text: str = field(default="", kw_only=True)
    """The rule in words, for pictures."""
    predicate: Callable[[Array], Flags] | None = field(default=None, kw_only=True)
    """(n, obs) observations -> (n,) violated?, where the bound on the feature is not the whole rule."""
    column: int | None = field(default=None, kw_only=True)
    """Column of the feature in an observation; `capabilities` fills it in from the feature names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.is_bound and (self.predicate is None or not self.text):
            raise UserError("a rule without a feature needs a text and a predicate")

    @property
    def is_bound(self) -> bool:
        """Is it about one named feature? A predicate may say more precisely when it is violated."""
        return bool(self.feature)

    def violated(self, obs: Array) -> Flags:
        """(n,) which observations (n, obs) violate the rule."""
        if self.predicate is not None:
            return np.asarray(self.predicate(obs), dtype=bool)
        return self.holds(self.values(obs))

    def values(self, obs: Array) -> Array:
        """(n,) values of the feature in observations (n, obs)."""
        if self.column is None:
            raise UserError(f"the rule is about {self.feature!r}, which is none of the environment's feature names")
        return obs[:, self.column]

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if self.is_bound else self.text

    def __str__(self) -> str:
        return format(self, "g")


@dataclass(frozen=True)
class StateAccess:
    """Reading and setting the state of an environment."""

    get: Callable[[], dict[str, Array]]
    set: Callable[[Mapping[str, Array]], None]


class Replayed(NamedTuple):
    """Episodes that were played again with the same actions. Rows are steps, all episodes end to end."""

    known: Flags
    """(n,) does an episode of the environment begin with this observation? Unless all do, nothing is played."""
    first: Array = np.zeros(0)
    """(n, obs) the first observations."""
    observations: Array = np.zeros(0)
    """(steps, obs) what each step led to."""
    rewards: Array = np.zeros(0)
    costs: Array = np.zeros(0)
    ended: Flags = np.zeros(0, np.bool_)
    """(n,) did the environment end the episode with its last action?"""


@dataclass(frozen=True)
class Capabilities:
    """What an environment can do; None where it does not say."""

    model: GridworldSpec | None = None
    """The exact model."""
    horizon: int | None = None
    """Steps after which an episode is cut off, by the environment itself or by its registration."""
    rule: Rule | None = None
    """The true constraint."""
    succeeded: Callable[[Array], Flags] | None = None
    """(n, obs) last observations of episodes -> (n,) did they end well?"""
    outcomes: tuple[str, ...] | None = None
    """Names of the codes in info["outcome"]."""
    objects: Slots | None = None
    """Which entries of an observation describe a set of objects."""
    step_seconds: float | None = None
    """Seconds per step."""
    renders: bool = False
    """Can it be made with render_mode="rgb_array", for a film?"""
    state: StateAccess | None = None
    """Everything that the future depends on. For a vector environment: of all copies."""
    state_of: Callable[[Array], dict[str, Array]] | None = None
    """(obs,) observation -> the state that it shows."""
    replay_episodes: Callable[[Array, Array, Array], Replayed] | None = None
    """(first observations (n, obs), actions (steps, act), lengths (n,)) -> the same episodes, played again."""
    physical_state: StateAccess | None = None
    """Positions and velocities of a MuJoCo environment, without its random generator."""
    use_threads: Callable[[int], None] | None = None
    """Sets the number of threads that step the copies."""
    step_arrays: Callable[[Array], Any] | None = None
    """A faster `step` of a batched environment; None if a wrapper would be bypassed."""


def capabilities(env: Any) -> Capabilities:
    """What an environment, single or vector, can do; wrappers and the copies of a vector are looked through."""
    inner = env.unwrapped
    # The copies of a vector environment that is not batched are alike.
    copies = getattr(inner, "envs", None)
    single = copies[0].unwrapped if copies else inner
    wrapped = inner is not env

    def declared(name: str) -> Any:
        return getattr(single, name, None)

    model, rule, outcomes = declared("exact_model"), declared("rule"), declared("outcomes")
    objects = declared("objects")
    return Capabilities(
        model=model if hasattr(model, "states_of") else None,
        horizon=_count(declared("horizon")) or _count(getattr(getattr(env, "spec", None), "max_episode_steps", None)),
        rule=_placed(rule, env) if isinstance(rule, Rule) else None,
        succeeded=_function(declared("succeeded")),
        outcomes=tuple(outcomes) if isinstance(outcomes, tuple | list) else None,
        objects=objects if isinstance(objects, Slots) else None,
        step_seconds=_seconds(declared("dt")),
        renders="rgb_array" in (declared("metadata") or {}).get("render_modes", ()),
        state=None if wrapped and _is_vector(env) else _copies_state(inner, copies) if copies else _state(inner),
        state_of=_function(declared("state_of")),
        replay_episodes=_function(declared("replay_episodes")),
        physical_state=None if copies else _physical_state(inner),
        use_threads=_function(getattr(inner, "use_threads", None)),
        step_arrays=None if wrapped else _function(getattr(inner, "step_arrays", None)),
    )


def _is_vector(env: Any) -> bool:
    return isinstance(env, gym.vector.VectorEnv)


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | np.integer) and value > 0 else None


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, Real) and float(value) > 0 else None


def _function(value: Any) -> Callable[..., Any] | None:
    return value if callable(value) else None


def _placed(rule: Rule, env: Any) -> Rule:
    """The rule with the column of its feature in the observations of this environment."""
    if rule.column is not None:
        return rule
    names = feature_names(env) or ()
    return replace(rule, column=names.index(rule.feature)) if rule.feature in names else rule


# ---------------------------------------------------------------------------------------------------------------------
# States


def _state(inner: Any) -> StateAccess | None:
    get, put = _function(getattr(inner, "get_state", None)), _function(getattr(inner, "set_state", None))
    return None if get is None or put is None else StateAccess(get, put)


def _physical_state(inner: Any) -> StateAccess | None:
    data: Any = getattr(inner, "data", None)
    put = getattr(inner, "set_state", None)
    if put is None or not (hasattr(data, "qpos") and hasattr(data, "qvel")):
        return None
    return StateAccess(
        lambda: {"qpos": data.qpos.copy(), "qvel": data.qvel.copy()}, lambda state: put(state["qpos"], state["qvel"])
    )


def _copies_state(env: Any, copies: Any) -> StateAccess | None:
    """The states of all copies, stacked, and the step counts of their time limits."""
    states = [_state(copy.unwrapped) for copy in copies]
    if any(state is None for state in states) or not all(_is_stateless(copy) for copy in copies):
        return None
    access = [state for state in states if state is not None]
    limits: list[Any] = [wrapper for copy in copies for wrapper in wrappers_of(copy) if isinstance(wrapper, TimeLimit)]

    def get() -> dict[str, Array]:
        parts = [state.get() for state in access]
        arrays = {name: np.stack([np.asarray(part[name]) for part in parts]) for name in parts[0]}
        return arrays | {"time_limit": np.array([limit._elapsed_steps for limit in limits], np.int64)}

    def put(arrays: Mapping[str, Array]) -> None:
        env.reset(seed=0)  # the wrappers ask for one before the first step
        for i, state in enumerate(access):
            state.set({name: array[i] for name, array in arrays.items() if name != "time_limit"})
        for limit, elapsed in zip(limits, arrays["time_limit"], strict=True):
            limit._elapsed_steps = int(elapsed)

    return StateAccess(get, put)


def wrappers_of(env: Any) -> Iterator[Any]:
    """The wrappers around an environment, from the outermost one inwards."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def _is_stateless(env: Any) -> bool:
    return all(isinstance(wrapper, STATELESS) for wrapper in wrappers_of(env))
