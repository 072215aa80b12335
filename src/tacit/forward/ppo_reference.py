"""PPO on the reward alone: `tacit learn ppo ENV`, the lower reference. See `references`."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.forward import ppo, references


@dataclass(frozen=True)
class Config(references.Settings, ppo.Config):
    """Settings of PPO without cost."""


PPO = references.Reference(
    label="PPO without cost",
    statement="A reference: PPO that follows the reward alone. It learned nothing from demonstrations.",
    engine=ppo,
    learn=ppo.learn,
)
check, train = PPO.check, PPO.train
