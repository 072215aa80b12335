"""Proximal policy optimisation with the causal entropy inside the return.

The objective is the one of the inverse problem's forward half: reward and discounted causal entropy of the policy,

    max_pi  E sum_t gamma^t ( R_t - beta log pi(a_t|s_t) ).                                                 (1)

Its policy gradient is the usual one for the reward  r~_t = R_t - beta log pi(a_t|s_t)  with a critic V of discounted
sums of r~, so each iteration collects a rollout with the current policy pi_old, estimates advantages A by GAE on r~
(`tacit.forward.gae`), and takes several epochs of Adam steps on minibatches of

    L = - E min( rho A, clip(rho, 1-eps, 1+eps) A )  +  c_V E ( V(s) - target )^2,     rho = pi(a|s) / pi_old(a|s)   (2)

until the epochs are over or, after an epoch, the mean of  (rho - 1) - log rho,  an estimate of KL(pi_old || pi), has
passed kl_factor * target_kl. With entropy="loss" the bonus is  - beta E H(pi(.|s))  in (2) instead, as in other
implementations; that looks one step ahead only and optimises something else than (1).

The update (`ppo_update`) is one compiled function for K signals with one critic each and advantages  A = sum_k w_k A_k.
PPO is K = 1, w = 1; `ppo_lagrangian` adds a cost with a negative weight. The state of a training and its checkpoint are
in `agent`, rollouts in `collect`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.errors import RunFailed
from tacit.forward import agent, collect, nets, normalize
from tacit.forward.agent import State, init, policy_of, resume, state_from_arrays, state_to_arrays
from tacit.forward.ppo_update import Batch, Hyper, update, update_at_once

__all__ = ["Config", "State", "init", "iterate", "learn", "policy_of", "resume", "state_from_arrays", "state_to_arrays"]

Metrics = dict[str, float]
QUIET = 2.0
"""Amount by which the last update lowers the log standard deviation, if log_std_final bounds it."""


@dataclass(frozen=True)
class Config:
    """Settings of PPO. Those of the paper's table have the same names as there."""

    total_steps: int = 1_000_000
    """Environment steps. The iteration in progress is finished, so a run may use slightly more."""
    n_envs: int = 32
    """Number of environment copies that are stepped together. A vector environment given to learn() sets it instead."""
    rollout_steps: int = 2048
    """Environment steps per rollout, all copies together (the paper's n_steps)."""
    batch_size: int = 128
    """Samples per minibatch; must divide rollout_steps."""
    epochs: int = 10
    """Passes over each rollout."""
    lr: float = 3e-4
    """Adam's learning rate at the start."""
    lr_final: float = 1.0
    """Learning rate at the end as a fraction of the initial one; the decay is linear."""
    lr_decay_start: float = 0.0
    """Share of the training after which the learning rate begins to fall."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Decay of the trace in generalised advantage estimation."""
    clip: float = 0.2
    """Clip range eps of the probability ratio. The paper does not give it."""
    target_kl: float | None = 0.02
    """Stop an update early once the estimated KL from the old policy exceeds kl_factor times this; None: never."""
    kl_factor: float = 1.5
    """Factor on target_kl that gives the KL limit of an update."""
    lr_adaptive: bool = False
    """Divide the policy's learning rate by 1.5 after an update whose KL exceeded the limit, and multiply it by 1.5 (up
    to lr) after one whose KL stayed below half of target_kl. A policy with little noise can only take small steps."""
    beta: float = 1e-4
    """Weight of the causal entropy (nats), in units of the normalised reward."""
    entropy: Literal["return", "loss"] = "return"
    """Entropy as part of the return (causal entropy), or as a one-step bonus in the loss."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden tanh layers of the policy and of each critic."""
    log_std_init: float = 0.0
    """Initial log standard deviation of a Gaussian policy, in units of half the action box if scale_actions."""
    noise_of: Literal["action", "vector"] = "action"
    """Whether log_std_init is the noise of each action, or of the whole action vector. With "vector" each of A actions
    has 1/sqrt(A) of it: many joints that tremble at once explore more than one."""
    log_std_final: float | None = None
    """Upper bound of the log standard deviation at the end. The bound falls linearly from the initial one, from
    lr_decay_start on, and the last update lowers it by 2: the final policy has hardly any noise, and keeps the
    distance from a limit that its noise needed in training. None: no bound."""
    bound_coef: float = 0.0
    """Weight, in the loss, of the squared distance of a Gaussian policy's mean from the action box. Far outside of the
    box all actions are clipped to the same one, and the agent stops exploring. Needs scale_actions."""
    scale_actions: bool = True
    """Let the Gaussian act in coordinates where the action box is [-1, 1], instead of the box's own."""
    value_coef: float = 0.5
    """c_V: weight of the critics' squared errors."""
    max_grad_norm: float = 0.5
    """Largest norm of the gradient."""
    clip_gradients: Literal["each", "together"] = "each"
    """Whether max_grad_norm bounds the gradient of each network, or that of all networks together, as other
    implementations do. Together, the policy takes smaller steps on samples that surprise the critics."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""
    standardise: Literal["rollout", "minibatch", "none"] = "rollout"
    """Samples over which advantages are standardised."""
    normalize_obs: bool = True
    """Standardise observations with running statistics (one-hot observations are left alone)."""
    obs_clip: float = 10.0
    """Bound of normalised observations."""
    normalize_reward: bool = True
    """Divide rewards by the running standard deviation of their discounted sum."""
    reward_clip: float = 10.0
    """Bound of normalised rewards."""
    threads: int = 1
    """Number of cores for this training. With 2, two threads step the environments; and if target_kl is None, policy
    and critics learn at the same time. Two trainings with one thread each use two cores better."""

    ADDED: ClassVar[Mapping[str, Any]] = {"noise_of": "action", "bound_coef": 0.0, "clip_gradients": "each"}
    """Settings that were added later, for the names of runs; see `tacit.run.naming.History`."""


# ---------------------------------------------------------------------------------------------------------------------
# One iteration: gather, (scale the reward,) improve


def gather(env: VectorEnv, config: Config, state: State) -> tuple[State, collect.Rollout]:
    """Collect a rollout with the current policy."""
    rng = agent.generator(state)
    steps = config.rollout_steps // env.num_envs
    rollout, carry = collect.collect(env, policy_of(state), state.carry, steps, rng)
    stats = state.obs_stats
    if stats.count == 0 and agent.normalises(config, state.interface):
        # The first rollout sets the scale before anything is learned from it, because a fresh policy hardly depends on
        # the observation. Later rollouts update the scale after the policy (see `improve`).
        stats = normalize.update(stats, state.interface.view(rollout.obs).reshape(len(rollout), -1))
    state = replace(state, carry=carry, obs_stats=stats, rng=dict(rng.bit_generator.state))
    return replace(state, steps=state.steps + len(rollout)), rollout


def scale_reward(config: Config, state: State, rew: NDArray[Any], done: NDArray[Any]) -> tuple[State, NDArray[Any]]:
    """Rewards (T, N) divided by the running standard deviation of their discounted sum, which is updated first."""
    if not config.normalize_reward:
        return state, rew
    scale = normalize.track_returns(state.reward_scale, rew, done, config.gamma)
    scaled = np.clip(rew / scale.std, -config.reward_clip, config.reward_clip)
    return replace(state, reward_scale=scale), scaled


def improve(
    config: Config,
    state: State,
    rollout: collect.Rollout,
    signals: Sequence[NDArray[Any]],
    *,
    weights: Sequence[float] = (1.0,),
    gammas: Sequence[float] | None = None,
    lambdas: Sequence[float] | None = None,
    relative: bool = False,
    kept: NDArray[Any] | None = None,
    hold_policy: bool = False,
) -> tuple[State, Metrics]:
    """Learn from a rollout: K signals (T, N), each with its critic, weight, discount and trace decay.

    With `relative` the weights after the first are in units of the standard deviation of the first advantage. With
    `hold_policy` only the critics learn, and the policy is the same function of the observation afterwards. `kept` is
    the share (T, N) of its future that each step keeps (`gae`).
    """
    rng = agent.generator(state)
    n, k, view = len(rollout), len(signals), state.interface.view
    order = rng.permuted(np.tile(np.arange(n, dtype=np.int32), (config.epochs, 1)), axis=1)
    # Steps of the rollout itself do not count yet, so that the first update uses the full rate.
    lr = learning_rate(config, state.steps - n)
    batch = Batch(
        obs=normalize.standardise(state.obs_stats, view(rollout.obs), state.obs_clip),
        next_obs=normalize.standardise(state.obs_stats, view(rollout.next_obs), state.obs_clip),
        act=rollout.act.astype(np.int32) if state.interface.n_actions else rollout.act,
        signals=np.stack(signals).astype(np.float32),
        terminated=rollout.terminated,
        done=rollout.done,
        kept=None if kept is None else kept.astype(np.float32),
    )
    hyper = Hyper(
        weights=np.array([0.0] * k if hold_policy else weights, np.float32),
        gammas=np.array(gammas or (config.gamma,) * k, np.float32),
        lambdas=np.array(lambdas or (config.gae_lambda,) * k, np.float32),
        lr=lr,
        lr_actor=lr * state.lr_factor,
        clip=config.clip,
        beta_return=config.beta if config.entropy == "return" else 0.0,
        beta_loss=config.beta if config.entropy == "loss" and not hold_policy else 0.0,
        value_coef=config.value_coef,
        max_grad_norm=config.max_grad_norm,
        adam_eps=config.adam_eps,
        kl_limit=math.inf if config.target_kl is None else config.kl_factor * config.target_kl,
    )
    order = order.reshape(config.epochs, -1, config.batch_size)
    bound_coef = 0.0 if state.interface.n_actions else config.bound_coef
    kind: dict[str, Any] = {"standardise": config.standardise, "relative": relative, "bound_coef": bound_coef}
    kind["together"] = config.clip_gradients == "together"
    apart = config.threads > 1 and math.isinf(hyper.kl_limit) and not kind["together"]
    learn_from = update_at_once if apart else update
    params, opt_state, info = learn_from(state.params, state.opt_state, batch, order, hyper, **kind)
    info = jax.device_get(info)
    losses = (info["policy_loss"], info["approx_kl"], *info["value_losses"])
    if not (info["finite"] and np.isfinite(losses).all()):
        raise RunFailed(
            f"training diverged after {state.steps} steps: losses or networks are no longer finite"
            " (try a smaller lr, or normalize_obs and normalize_reward)"
        )
    stats, factor = state.obs_stats, state.lr_factor
    if hold_policy:
        # Adam counts the steps of policy and critics together: moments that stayed 0 while it counted would make the
        # policy's first steps three times too long. So Adam is reset.
        params = nets.Params(state.params.actor, params.critics)
        opt_state = agent.optimiser().init(params)
    else:
        factor = _adapted(config, factor, float(info["approx_kl"]))
        if state.iteration and agent.normalises(config, state.interface):
            stats = normalize.update(stats, view(rollout.obs).reshape(n, -1))
        params = nets.Params(_quietened(config, params.actor, state), params.critics)
    new = replace(
        state,
        params=params,
        opt_state=opt_state,
        obs_stats=stats,
        rng=dict(rng.bit_generator.state),
        iteration=state.iteration + 1,
        lr_factor=factor,
    )
    return new, _train_metrics(new, info, lr * state.lr_factor)


def _adapted(config: Config, factor: float, kl: float) -> float:
    """The factor on the learning rate after an update with this KL."""
    if not config.lr_adaptive or config.target_kl is None:
        return factor
    if kl > config.kl_factor * config.target_kl:
        return max(factor / 1.5, 0.01)
    return min(factor * 1.5, 1.0) if 0 < kl < 0.5 * config.target_kl else factor


def learning_rate(config: Config, steps: int) -> float:
    """Learning rate: lr until lr_decay_start of total_steps, then linear decay to lr * lr_final at the end."""
    return config.lr * (1.0 + (config.lr_final - 1.0) * _late(config, steps))


def _late(config: Config, steps: int) -> float:
    """Progress of the last part of the training, in which rates and noise fall: 0 at lr_decay_start, 1 at the end."""
    late = steps / config.total_steps - config.lr_decay_start
    return min(1.0, max(0.0, late / (1.0 - config.lr_decay_start)))


def _quietened(config: Config, actor: nets.Actor, state: State) -> nets.Actor:
    """The policy with its noise bounded as log_std_final asks for."""
    if config.log_std_final is None or actor.log_std is None:
        return actor
    progress, first = _late(config, state.steps), agent.first_log_std(config, state.interface)
    bound = first + (config.log_std_final - first) * progress
    bound -= QUIET if progress == 1.0 else 0.0
    return nets.Actor(actor.net, jnp.minimum(actor.log_std, bound)) if progress > 0 else actor


def _train_metrics(state: State, info: Mapping[str, Any], lr: float) -> Metrics:
    metrics = {
        "train/approx_kl": float(info["approx_kl"]),
        "train/clip_fraction": float(info["clip_fraction"]),
        "train/policy_loss": float(info["policy_loss"]),
        "train/value_loss": float(info["value_losses"][0]),
        "train/explained_variance": float(info["explained_variance"][0]),
        "train/entropy": float(info["entropy"]),
        "train/epochs": float(info["epochs"]),
        "train/learning_rate": lr,
    }
    if state.params.actor.log_std is not None:
        metrics["train/std"] = float(np.exp(np.asarray(state.params.actor.log_std)).mean())
    if len(info["value_losses"]) > 1:
        metrics["train/cost_value_loss"] = float(info["value_losses"][1])
        metrics["train/cost_explained_variance"] = float(info["explained_variance"][1])
    return metrics


def iterate(env: VectorEnv, config: Config, state: State) -> tuple[State, Metrics, collect.Rollout]:
    """One rollout and one update."""
    started = time.perf_counter()
    state, rollout = gather(env, config, state)
    collected = time.perf_counter()
    state, reward = scale_reward(config, state, rollout.rew, rollout.done)
    state, metrics = improve(config, state, rollout, [reward])
    return (
        state,
        collect.metrics(rollout, state.carry, state.steps) | metrics | collect.times(len(rollout), started, collected),
        rollout,
    )


def learn(env: VectorEnv, config: Config, seed: int = 0, state: State | None = None) -> Iterator[tuple[State, Metrics]]:
    """Train until config.total_steps; yields (state, metrics) after every iteration.

    With a `state` (of this or another process) training continues from there, exactly as if it had not stopped.
    """
    state = init(env, config, seed) if state is None else resume(env, config, state)
    while state.steps < config.total_steps:
        state, metrics, _ = iterate(env, config, state)
        yield state, metrics
