"""The box around the demonstrations: `tacit learn box ENV`, a control for every learned constraint.

Forbidden is every state in which an input lies outside of its demonstrated range (`tacit.cost.box`). An agent from
nothing keeps to it, with the engine and the settings of `rcpo`, which is told the true constraint. The box needs no
learning, so a method that learns a constraint should do better: violate less, or earn more.

The run folder holds the box as its cost, so that `tacit retrain` and `tacit transfer` take it like any other cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tacit.cost.box import box_cost
from tacit.envs.fitted_cost import Judge
from tacit.errors import UserError
from tacit.forward import ppo_lagrangian, references
from tacit.forward.collect import interface_of, make_vec, names_of

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

    from tacit.cost import LearnedCost
    from tacit.demos import Demonstrations
    from tacit.run import Run


@dataclass(frozen=True)
class Config(references.Settings, ppo_lagrangian.Config):
    """Settings of an agent in the box around the demonstrations."""

    critics: Literal["separate", "single"] = "single"
    """A single critic for the penalised reward (RCPO), or separate critics for reward and cost (PPO-Lagrangian)."""
    demonstrations: int = 0
    """Use only this many of the first demonstrations; 0: all."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    references.check(env_id, env_kwargs, config)
    if config.demonstrations < 0:
        raise UserError(f"demonstrations cannot be negative: {config.demonstrations}")


def box_of(env: VectorEnv, demos: Demonstrations, config: Config) -> LearnedCost:
    """The box in the layout of an environment, of the states that demonstrations reach."""
    interface = interface_of(env, scaled=config.scale_actions)
    if interface.n_states:
        raise UserError("numbered states have no range: the box needs features (on a gridworld: observation=position)")
    reached = interface.encode(demos.observations[demos.rows_before + 1])
    return box_cost(names_of(env, interface), reached)


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> dict[str, Any]:
    """Train and evaluate. Continues from the newest checkpoint if there is one."""
    used = demos.first(config.demonstrations)
    with closing(make_vec(env_id, 1, **env_kwargs)) as env:
        box = box_of(env, used, config)
    judge = Judge(box)

    def forbidden(obs: NDArray[Any], act: NDArray[Any], next_obs: NDArray[Any]) -> NDArray[Any]:
        return judge.judge(next_obs).forbidden(box.threshold).astype(float)

    reference = references.Reference(
        label="agent in the box",
        statement="A control: an agent that stays in the box around the demonstrations. It learned no constraint.",
        engine=ppo_lagrangian,
        learn=lambda env, settings, seed, state: ppo_lagrangian.learn(env, settings, seed, state, cost=forbidden),
    )
    summary = reference.train(run, env_id, env_kwargs, used, config, seed)
    about = {"env": env_id, "env_kwargs": dict(env_kwargs), "run": run.name}
    run.save_model("cost", *replace(box, unit=_mean_reward(run), card=about).to_arrays())
    return summary


def _mean_reward(run: Run) -> float:
    """The unit of the multiplier at the end, from the log: the price of a box that is used as a price."""
    last = run.metrics()[-1]
    return float(last["train/penalty"] / last["train/multiplier"]) if last.get("train/multiplier") else 1.0
