"""Reward-constrained policy optimisation with the true cost: `tacit learn rcpo ENV`, the upper reference.

Tessler's form: the reward becomes  R - lam c  with one critic, and after every rollout

    lam <- [lam + multiplier_lr (mean cost - budget)]_+                                                             (1)

c is the environment's own info["cost"]. With critics="separate" it is PPO-Lagrangian instead, the form in which the
published code trains its experts. The algorithm is in `ppo_lagrangian`, what references share in `references`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tacit.forward import ppo_lagrangian, references

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.run import Run

RCPO = references.Reference(
    label="RCPO with the true cost",
    statement="A reference: RCPO that is told the true cost. It learned nothing from demonstrations.",
    learn=ppo_lagrangian.learn,
    policy_of=ppo_lagrangian.policy_of,
    to_arrays=ppo_lagrangian.state_to_arrays,
    from_arrays=ppo_lagrangian.state_from_arrays,
)


@dataclass(frozen=True)
class Config(references.Settings, ppo_lagrangian.Config):
    """Settings of RCPO."""

    critics: Literal["separate", "single"] = "single"
    """One critic for the penalised reward (RCPO), or one for the cost beside that of the reward (PPO-Lagrangian)."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    ppo_lagrangian.check(config)
    references.check(env_id, env_kwargs, config, needs_cost=True)


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations | None, config: Config, seed: int
) -> dict[str, Any]:
    """Train and evaluate; continues from the newest checkpoint if there is one."""
    return references.train(RCPO, run, env_id, env_kwargs, demos, config, seed)
