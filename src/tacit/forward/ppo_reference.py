"""PPO on the reward alone: `tacit learn ppo ENV`, the lower reference. See `references`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.forward import ppo, references

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.run import Run

PPO = references.Reference(
    label="PPO without cost",
    statement="A reference: PPO that follows the reward alone. It learned nothing from demonstrations.",
    learn=ppo.learn,
    policy_of=ppo.policy_of,
    to_arrays=ppo.state_to_arrays,
    from_arrays=ppo.state_from_arrays,
)


@dataclass(frozen=True)
class Config(references.Settings, ppo.Config):
    """Settings of PPO without cost."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    references.check(env_id, env_kwargs, config)


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations | None, config: Config, seed: int
) -> dict[str, Any]:
    """Train and evaluate; continues from the newest checkpoint if there is one."""
    return references.train(PPO, run, env_id, env_kwargs, demos, config, seed)
