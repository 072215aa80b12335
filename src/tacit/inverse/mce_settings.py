"""Settings that only one of the two costs of MCE-ICRL has; `tacit.inverse.mce` has those of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Network:
    """Settings of a cost of thresholds and a network: features "network", as in --preset thresholds and paper."""

    budget: float = 0.0
    """How far each feature expectation may exceed the demonstrations'; a larger budget is looser."""
    thresholds: int = 8
    """Number of soft thresholds per input."""
    joint: int = 64
    """Number of sigmoid outputs of the joint network on all inputs (the paper's k); 0: no such network."""
    feature_hidden: tuple[int, ...] = (64, 64)
    """Hidden ReLU layers of the joint network."""
    feature_bias: float = -3.0
    """Initial output bias of the joint network. A negative bias makes features begin near 0."""
    lam_init: float = 0.01
    """Initial multiplier of every feature."""
    lr_lam: float = 1e-2
    """Learning rate of the multipliers lam."""
    lr_zeta: float = 1e-3
    """Adam's learning rate of the features (zeta); 0: they stay as they are."""
    zeta_decay: float = 1.0
    """Factor on lr_zeta after each inverse step."""
    lam_update: Literal["minibatch", "once"] = "minibatch"
    """Update lam with Adam on every minibatch beside zeta, or by one projected gradient step on all data after it."""
    minibatches: int = 300
    """Minibatches per inverse step; 0: as many as make a pass over the demonstrated steps. They are drawn with
    replacement, so a pass misses about 37 % of the steps."""
    dual_batch: int = 512
    """Samples of the learner, and of the demonstrations, per minibatch."""
    replay_share: float = 0.5
    """Share of the learner's samples that comes from earlier forward phases."""
    replay_by_cost: bool = False
    """Draw the samples of earlier phases in proportion to their present cost (plus a little), instead of evenly. There
    are no importance weights, so the learner counts as visiting what is drawn."""
    pretrain_epochs: int = 0
    """Epochs of auto-encoder pre-training of the features."""
    pretrain_lr: float = 1e-3
    """Adam's learning rate of the pre-training."""
    guard: float = 0.95
    """Mean cost above which the policy counts as trapped, as a share of the ceiling; 0: no guard."""
    guard_iterations: int = 3
    """Trapped iterations in a row after which the guard re-initialises the policy, in the first 70 % of the steps."""


@dataclass(frozen=True)
class Terms:
    """Settings of a sum of tables: features "terms", the default in most environments."""

    tempted_steps: int = 49_152
    """Environment steps of the tempted clone: cloned from the demonstrations, then trained on the reward alone. At most
    a tenth of a run; the bootstrap takes at most a fifth."""
