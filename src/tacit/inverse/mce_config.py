"""Settings of MCE-ICRL, and which of them cannot work. (1) to (3) are equations of `tacit.inverse.mce`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.errors import UserError
from tacit.forward import agent, ppo_lagrangian
from tacit.policy import Interface


@dataclass(frozen=True)
class Config(ppo_lagrangian.Config):
    """Settings of MCE-ICRL: those of PPO, and those of the inverse step."""

    multiplier: Literal["fixed", "ascent", "softplus", "pid"] = "fixed"
    """The learned cost carries its own multipliers: leave it fixed."""
    budget: float = 0.0
    """How far each feature expectation may exceed the demonstrations'; more is looser."""
    bootstrap_steps: int = 20_480
    """Environment steps of the nominal policy, without cost, before the first inverse step."""
    forward_steps: int = 16_384
    """Environment steps of PPO between two inverse steps."""
    start: Literal["nominal", "clone"] = "nominal"
    """With which policy the loop begins: that of the bootstrap, or one cloned from the demonstrations."""
    clone_log_std: float = -4.0
    """Smallest log standard deviation of a cloned policy: it must still explore."""
    inputs: tuple[str, ...] = ()
    """Names of the observation entries that the cost reads; none given: all."""
    use_action: bool = False
    """Whether the cost reads the action too."""
    at: Literal["next", "current"] = "next"
    """Whether the cost of a step is that of the state it reaches or of the one in which the action is taken."""
    squash: bool = True
    """arsinh of the scaled inputs, see tacit.cost."""
    input_clip: float = 20.0
    """Bound of the scaled inputs."""
    thresholds: int = 8
    """Soft thresholds for each input."""
    joint: int = 64
    """Sigmoid outputs of the network on all inputs (the paper's k)."""
    feature_hidden: tuple[int, ...] = (64, 64)
    """Hidden ReLU layers of that network."""
    feature_bias: float = -3.0
    """Its initial output bias; negative: features begin near 0."""
    lam_init: float = 0.01
    """Initial multiplier of every feature."""
    lr_lam: float = 1e-2
    """Learning rate of lam."""
    lr_zeta: float = 1e-3
    """Adam's learning rate of the features; 0: they stay as they are."""
    zeta_decay: float = 1.0
    """Factor on lr_zeta after each inverse step."""
    lam_update: Literal["minibatch", "once"] = "minibatch"
    """lam with Adam on every minibatch beside zeta, or by one projected gradient step on all data after it."""
    minibatches: int = 300
    """Of an inverse step; 0: as many as make a pass over the demonstrated steps (drawn with replacement, so that about
    37 % of them are missed)."""
    dual_batch: int = 512
    """Samples of learner and of demonstrations in a minibatch, each."""
    expert_square: float = 20.0
    """Weight of the squared cost of demonstrations in (2)."""
    learner_square: float = 0.1
    """Weight of the squared cost of the learner in (2); the ceiling is 1 / (2 learner_square)."""
    moments: Literal["absorbing", "normalised", "sum"] = "absorbing"
    """Expectations per step over episodes continued to the horizon, per step over what was seen, or the paper's
    discounted sums over trajectories."""
    absorbing_quantile: float = 0.9
    """The absorbing state costs at most what this share of the learner's living steps stays below; 1: the worst."""
    replay_share: float = 0.5
    """Share of the learner's samples that comes from earlier forward phases."""
    replay_phases: int = 40
    """How many of those are kept."""
    replay_by_cost: bool = False
    """Draw those samples in proportion to their present cost (and a little), instead of evenly; without importance
    weights, so that rho_pi in (3) is that of what is drawn."""
    pretrain_epochs: int = 0
    """Epochs of auto-encoder pre-training of the features."""
    pretrain_lr: float = 1e-3
    """Adam's learning rate there."""
    guard: float = 0.95
    """Mean cost, as a share of the ceiling, above which the policy counts as trapped; 0: no guard."""
    guard_iterations: int = 3
    """So many times running, in the first 70 % of the steps."""

    @property
    def ceiling(self) -> float:
        """The largest cost that (3) allows."""
        return 0.5 / self.learner_square if self.learner_square else np.inf


WITHOUT_EFFECT = {
    "terminal_cost": "ending an episode is priced by the dual (moments)",
    "budget_per": "the budget is one of feature expectations",
    "multiplier_init": "the learned cost carries its own multipliers (lam_init)",
    "multiplier_ramp": "the learned cost carries its own multipliers",
    "multiplier_lr": "the learned cost carries its own multipliers (lr_lam)",
    "multiplier_max": "the learned cost carries its own multipliers (learner_square bounds them)",
    "pid_gains": "the learned cost carries its own multipliers",
    "pid_smoothing": "the learned cost carries its own multipliers",
}
"""Settings of PPO-Lagrangian that this method does not read, and why."""


def check(config: Config) -> None:
    """UserError for settings that cannot work."""
    choices: Sequence[tuple[str, Sequence[str]]] = (
        ("start", ("nominal", "clone")),
        ("at", ("next", "current")),
        ("lam_update", ("minibatch", "once")),
        ("moments", ("absorbing", "normalised", "sum")),
    )
    for name, allowed in choices:
        if getattr(config, name) not in allowed:
            raise UserError(f"{name} is {' or '.join(allowed)}, not {getattr(config, name)!r}")
    if config.at == "next" and config.use_action:
        raise UserError('a cost of the state that a step reaches cannot read the action: use at="current"')
    agent.check_finite(config)
    ppo_lagrangian.check(config)
    for name in ("budget", "expert_square", "learner_square", "lr_lam", "lr_zeta", "lam_init", "pretrain_lr", "beta"):
        if not getattr(config, name) >= 0:
            raise UserError(f"{name} cannot be negative, it is {getattr(config, name)}")
    for name in ("thresholds", "joint", "minibatches", "pretrain_epochs", "replay_phases", "bootstrap_steps"):
        if getattr(config, name) < 0:
            raise UserError(f"{name} cannot be negative, it is {getattr(config, name)}")
    for name in ("total_steps", "forward_steps", "dual_batch", "guard_iterations"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} must be at least 1, not {getattr(config, name)}")
    for name in ("input_clip", "zeta_decay"):
        if not getattr(config, name) > 0:
            raise UserError(f"{name} must be positive, it is {getattr(config, name)}")
    if config.moments == "absorbing" and 1 in (config.gamma, config.cost_gamma):
        raise UserError(
            'moments "absorbing" prices the end of an episode as a cost for ever after: gamma and cost_gamma must be '
            'below 1, or moments "normalised"'
        )
    if not 0 <= config.absorbing_quantile <= 1:
        raise UserError(f"absorbing_quantile is from 0 to 1, not {config.absorbing_quantile}")
    if not 0 <= config.replay_share < 1:
        raise UserError(f"replay_share is at least 0 and below 1, not {config.replay_share}")
    if config.replay_share > 0 and config.replay_phases < 1:
        raise UserError("replay_share needs earlier phases: replay_phases must be at least 1, or replay_share 0")
    if config.joint and (not config.feature_hidden or min(config.feature_hidden) < 1):
        raise UserError(
            f"feature_hidden are sizes of at least 1 of the network's hidden layers, not {config.feature_hidden}"
        )
    if config.lam_init == 0 and config.lr_zeta > 0 and (config.thresholds or config.joint):
        raise UserError("with lam_init 0 the features get no gradient: use a small positive number, or lr_zeta 0")
    if config.multiplier != "fixed":
        raise UserError("the learned cost carries its own multipliers: multiplier must be fixed")
    for name, why in WITHOUT_EFFECT.items():
        if getattr(config, name) != getattr(Config, name):
            raise UserError(f"{name} has no effect in mce, because {why}: leave it out")


def is_linear(config: Config, face: Interface) -> bool:
    """Are the inputs themselves the features? One-hot states are: one multiplier a state, as in the exact method."""
    return not config.joint and (bool(face.n_states) or not config.thresholds)
