"""Reward-constrained policy optimisation with the true cost: `tacit learn rcpo ENV`, the upper reference.

Tessler's form: the reward becomes  R - lam c  with one critic, and after every rollout

    lam <- [lam + multiplier_lr (mean cost - budget)]_+                                                             (1)

c is the environment's own info["cost"]. With critics="separate" it is PPO-Lagrangian instead, the form in which the
published code trains its experts. The algorithm is in `ppo_lagrangian`, what references share in `references`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacit.forward import ppo_lagrangian, references


@dataclass(frozen=True)
class Config(references.Settings, ppo_lagrangian.Config):
    """Settings of RCPO."""

    critics: Literal["separate", "single"] = "single"
    """A single critic for the penalised reward (RCPO), or separate critics for reward and cost (PPO-Lagrangian)."""


RCPO = references.Reference(
    label="RCPO with the true cost",
    statement="A reference: RCPO that is told the true cost. It learned nothing from demonstrations.",
    engine=ppo_lagrangian,
    learn=ppo_lagrangian.learn,
    needs_cost=True,
)
check, train = RCPO.check, RCPO.train
