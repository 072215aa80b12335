"""What MCE-ICRL refuses and warns of: checks of settings and demonstrations, and settings that earlier runs had."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError
from tacit.forward import agent, ppo_lagrangian
from tacit.forward.collect import interface_of, make_vec
from tacit.inverse import objects, samples
from tacit.run.naming import History

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.inverse.loop import Evidence
    from tacit.inverse.mce import Config
    from tacit.inverse.samples import Expert
    from tacit.policy import Interface

OWN_MULTIPLIERS = "the learned cost carries its own multipliers (lam_init, lr_lam)"
RETIRED = ["multiplier_init", "multiplier_ramp", "multiplier_lr", "multiplier_max", "pid_gains", "pid_smoothing"]
HISTORY = History(
    added={
        "absorbing_quantile": 0.9,
        "input_scale": "fit",
        "inverse_first": True,
        "features": "network",
        "tempted_steps": 49_152,
        "objects": "auto",
    },
    retired={
        "terminal_cost": (0.0, "ending an episode is priced by the dual (moments)"),
        "budget_per": ("step", "the budget is one of feature expectations"),
        **{name: (getattr(ppo_lagrangian.Config, name), OWN_MULTIPLIERS) for name in RETIRED},
        "multiplier": ("fixed", OWN_MULTIPLIERS),
    },
    # Revision 2 freezes a clone while the critics warm up, and does not freeze a single critic's reward scale.
    revision=lambda config: 2 if config.get("start") == "clone" or config.get("critics") == "single" else 1,
)
"""How the settings have changed, for the names of run folders."""
AT_LEAST_0 = ["budget", "expert_square", "learner_square", "lr_lam", "lr_zeta", "lam_init", "pretrain_lr"]
AT_LEAST_0 += ["thresholds", "joint", "minibatches", "pretrain_epochs", "replay_phases"]


def is_linear(config: Config, interface: Interface) -> bool:
    """Whether the inputs themselves are the features. One-hot states are, with one multiplier each as in mce-exact."""
    return config.features == "network" and not config.joint and (bool(interface.n_states) or not config.thresholds)


def check_settings(config: Config) -> None:
    """UserError for settings that cannot work, whatever the environment."""
    agent.check_ranges(config, AT_LEAST_0, 0)
    agent.check_ranges(config, ("dual_batch", "guard_iterations"), 1)
    agent.check_ranges(config, ("zeta_decay",), 0, open_low=True)
    agent.check_ranges(config, ("absorbing_quantile",), 0, 1)
    if config.features == "terms":
        _check_terms(config)
    if config.moments == "absorbing" and 1 in (config.gamma, config.cost_gamma):
        raise UserError(
            'moments "absorbing" prices the end of an episode as a cost for ever after: gamma and cost_gamma must '
            'be below 1, or moments "normalised"'
        )
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


def _check_terms(config: Config) -> None:
    agent.check_ranges(config, ("tempted_steps",), 0)
    agent.check_ranges(config, ("expert_square", "learner_square"), 0, open_low=True)
    if config.start != "clone":
        raise UserError('a cost of terms compares with a clone of the demonstrations: use start "clone"')
    if config.moments != "absorbing":
        raise UserError('a cost of terms has no other moments than "absorbing"')


def check_demonstrations(env_id: str, env_kwargs: Mapping[str, Any], config: Config, demos: Demonstrations) -> None:
    """UserError for demonstrations whose inputs cannot be features, if the inputs are the features."""
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        interface = interface_of(env, scaled=config.scale_actions)
        if is_linear(config, interface):
            demos = demos.first(config.demonstrations)
            inputs = objects.inputs_of(env, interface, config, demos)
            horizon = samples.horizon_of(env, demos)
            samples.unit_scale(inputs, samples.of_demonstrations(demos, interface, inputs, config.at, horizon).rows)
    finally:
        env.close()


def warn_of_beginner(metrics: Mapping[str, float], expert: Expert) -> None:
    """Warn if neither agent that follows the reward alone earns what the demonstrators do."""
    best = max(metrics["seekers/nominal_return"], metrics["seekers/tempted_return"])
    if expert.mean_return is not None and best < expert.mean_return - 0.1 * abs(expert.mean_return):
        warnings.warn(
            f"the agents that follow the reward alone earn {best:.4g}, the demonstrators {expert.mean_return:.4g}: "
            "they are not competent, so the learned constraint may describe what a beginner does. Use more "
            "bootstrap_steps and total_steps",
            stacklevel=1,
        )


def warn_of_survival(config: Config, evidence: Evidence) -> None:
    """Warn if only the learner's episodes end early and nothing prices that."""
    if config.moments != "absorbing" and evidence.phase.absorbed > 0 == evidence.expert.absorbed:
        warnings.warn(
            f"the learner's episodes end early, the demonstrations' do not, and moments \"{config.moments}\" sets no "
            'price on that: the learner may learn to end episodes (survival bias). Use moments "absorbing" instead',
            stacklevel=1,
        )
