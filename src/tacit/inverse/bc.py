"""Behaviour cloning: `tacit learn bc ENV`, the cheap reference. It uses neither the reward nor environment steps.

    max_theta  E_D log pi_theta(a|s)                                                                                (1)

with the policy that the other methods have: a tanh network with a diagonal Gaussian, or a categorical distribution.
Adam moves a logarithm slowly, so the Gaussian's standard deviation is set to that of the residuals at the end.

It learns no cost, does nothing sensible where no demonstration has been, and cannot do better than those who
demonstrated. The fitting is in `clone`. It takes seconds, so there are no checkpoints: an interrupted run starts again,
with the same random numbers, and ends with the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.errors import RunFailed, UserError
from tacit.evaluate import copies_for, evaluations
from tacit.forward import agent, nets, normalize
from tacit.forward.collect import interface_of, make_vec
from tacit.forward.references import beside
from tacit.inverse import clone
from tacit.policy import Interface, Policy
from tacit.run.terminal import live

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.run import Run

Array = NDArray[Any]
STATEMENT = "A reference: behaviour cloning. It imitates the demonstrations and learns no constraint."
LABEL = "cloned policy"


@dataclass(frozen=True)
class Config:
    """Settings of behaviour cloning."""

    steps: int = clone.STEPS
    """Number of Adam steps."""
    batch_size: int = clone.BATCH
    """Samples per minibatch."""
    lr: float = clone.LR
    """Adam's learning rate at the start; it decays linearly."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden tanh layers of the policy."""
    min_log_std: float = -5.0
    """Smallest log standard deviation of a Gaussian policy, in units of half the action box."""
    scale_actions: bool = True
    """Let the Gaussian act in coordinates where the action box is [-1, 1], instead of the box's own."""
    obs_clip: float = 10.0
    """Bound of normalised observations."""
    held_out: int = 0
    """Hold out this many of the last demonstrations; they are used only to measure the likelihood."""
    demonstrations: int = 0
    """Learn only from this many of the first demonstrations; 0: all."""
    eval_episodes: int = 100
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    for name in ("steps", "batch_size", "eval_episodes"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} must be at least 1, not {getattr(config, name)}")
    for name in ("held_out", "demonstrations"):
        if getattr(config, name) < 0:
            raise UserError(f"{name} cannot be negative: {getattr(config, name)}")
    agent.check_finite(config)
    agent.check_ranges(config, ("lr", "obs_clip"), 0, open_low=True)
    if any(size < 1 for size in config.hidden):
        raise UserError(f"hidden must be sizes of at least 1, not {config.hidden}")
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        interface_of(env, scaled=config.scale_actions)
    finally:
        env.close()


def check_demonstrations(env_id: str, env_kwargs: Mapping[str, Any], config: Config, demos: Demonstrations) -> None:
    """UserError if no demonstrations are left to learn from, before anything is written."""
    used = len(demos.first(config.demonstrations))
    if config.held_out >= used:
        raise UserError(f"held_out is {config.held_out} of {used} demonstrations: nothing is left to learn")


class Cloning:
    """Demonstrations as a policy of this interface sees them."""

    def __init__(self, demos: Demonstrations, interface: Interface, config: Config) -> None:
        self.interface, self.config = interface, config
        learned = demos.subset(np.arange(len(demos) - config.held_out))
        stats = normalize.running((interface.view_size,))
        if not interface.n_states:
            stats = normalize.update(stats, self._seen(learned))
        self.stats, self.clip = stats, np.inf if interface.n_states else config.obs_clip
        self.learned = self._pairs(learned)
        unseen = demos.subset(np.arange(len(demos) - config.held_out, len(demos))) if config.held_out else None
        self.unseen = None if unseen is None else self._pairs(unseen)

    def _seen(self, demos: Demonstrations) -> Array:
        """(n, view_size) what the networks see, not normalised."""
        return self.interface.view(self.interface.encode(demos.observations[demos.rows_before]))

    def _pairs(self, demos: Demonstrations) -> tuple[Array, Array]:
        """(observations (n, view_size) normalised, actions in the policy's coordinates)"""
        obs = self._seen(demos)
        act = self.interface.from_env(demos.actions)
        act = act.astype(np.int32) if self.interface.n_actions else act
        return normalize.standardise(self.stats, obs, self.clip), act

    def measure(self, actor: nets.Actor) -> dict[str, float]:
        """Mean negative log-likelihood of the demonstrated actions, in nats."""
        measured = {"bc/nll": self.nll(actor, *self.learned)}
        return measured if self.unseen is None else measured | {"bc/nll_held_out": self.nll(actor, *self.unseen)}

    def nll(self, actor: nets.Actor, obs: Array, act: Array) -> float:
        return -float(nets.log_prob(actor, jnp.asarray(obs), jnp.asarray(act))[0].mean())

    def policy(self, actor: nets.Actor) -> Policy:
        """The policy as an artefact (NumPy)."""
        plain = jax.tree.map(np.asarray, actor)
        mean, scale = (array.astype(np.float32) for array in (self.stats.mean, self.stats.scale))
        return Policy(self.interface, plain.net.weights, plain.net.biases, plain.log_std, mean, scale, float(self.clip))


def with_residuals(actor: nets.Actor, obs: Array, act: Array, smallest: float) -> nets.Actor:
    """The actor with the standard deviation of its residuals, but at least a floor. It maximises (1) given the mean."""
    if actor.log_std is None:
        return actor
    variance = ((jnp.asarray(act) - actor.net(jnp.asarray(obs))) ** 2).mean(axis=0)
    return nets.Actor(actor.net, jnp.maximum(0.5 * jnp.log(variance + 1e-30), smallest))


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> dict[str, Any]:
    """Fit, save and evaluate; returns the summary."""
    demos = demos.first(config.demonstrations)
    nets.use_threads(1)
    test = make_vec(env_id, copies_for(config.eval_episodes), **env_kwargs)
    try:
        interface = interface_of(test, scaled=config.scale_actions)
        data = Cloning(demos, interface, config)
        rng = np.random.default_rng([seed, 7])
        log_std = None if interface.n_actions else 0.0
        actor = nets.make_params(
            rng, interface.view_size, interface.act_size, config.hidden, n_critics=0, log_std=log_std
        ).actor
        fitting = clone.pieces(actor, *data.learned, rng, config.steps, config.batch_size, config.lr)
        with live("cloning", total=clone.PIECES) as update:
            for piece, actor in enumerate(fitting, 1):
                measured = data.measure(actor)
                if not np.isfinite(list(measured.values())).all():
                    raise RunFailed("the likelihood is no longer finite: try a smaller lr")
                run.log({"iteration": piece * max(1, config.steps // clone.PIECES), **measured})
                update(f"negative log-likelihood {measured['bc/nll']:.3f}")
        actor = with_residuals(actor, *data.learned, config.min_log_std)
        policy = data.policy(actor)
        arrays, card = policy.to_arrays()
        run.save_model("policy", arrays, {**card, "env": env_id, "env_kwargs": dict(env_kwargs), "run": run.name})
        table = beside(demos, evaluations(test, policy, config.eval_episodes, seed))
    finally:
        test.close()
    run.log_eval({"steps": 0, **table})
    return {
        "statement": STATEMENT,
        "table": table,
        "labels": {"learned": LABEL, "learned, deterministic": f"{LABEL}, without noise"},
        "steps": 0,
        **data.measure(actor),
    }
