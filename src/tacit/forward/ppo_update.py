"""The update of PPO, compiled: all epochs of minibatch steps on one rollout. The equations are those of `ppo`.

First the policy learns, then the critics, which share nothing with it, for as many epochs. The update is written for K
signals with one critic each and advantages  A = sum_k w_k A_k.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpy.typing import NDArray

from tacit.forward import agent, nets
from tacit.forward.gae import gae

Rows = dict[str, jax.Array]
Updated = tuple[nets.Params, Any, dict[str, jax.Array]]
"""Networks and optimiser after an update, and its metrics."""


class Batch(NamedTuple):
    """A rollout as the update sees it: observations normalised, K signals scaled."""

    obs: NDArray[Any]
    next_obs: NDArray[Any]
    act: NDArray[Any]
    signals: NDArray[Any]
    """(K, T, N) signals. The entropy of (1) is added to the first."""
    terminated: NDArray[Any]
    done: NDArray[Any]
    kept: NDArray[Any] | None = None
    """(T, N) share of its future that each step keeps, for every signal; None: all of it."""


class Hyper(NamedTuple):
    """Numbers of an update. They are arguments of the compiled function, so new values need no new compilation."""

    weights: NDArray[Any]
    gammas: NDArray[Any]
    lambdas: NDArray[Any]
    """One entry per signal, (K,)."""
    lr: float
    lr_actor: float
    clip: float
    beta_return: float
    beta_loss: float
    value_coef: float
    max_grad_norm: float
    adam_eps: float
    kl_limit: float


def _samples(params: nets.Params, batch: Batch, hyper: Hyper, relative: bool) -> tuple[Rows, Rows]:
    """The data of the epochs, one row per sample; the explained variance (K,) of the critics; the mean entropy."""
    shape = batch.done.shape
    flat = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
    obs, next_obs, act = flat(batch.obs), flat(batch.next_obs), flat(batch.act)
    log_prob, entropy = nets.log_prob(params.actor, obs, act)
    values = jnp.stack([critic(obs)[:, 0] for critic in params.critics])
    next_values = jnp.stack([critic(next_obs)[:, 0] for critic in params.critics])
    signals = jnp.reshape(batch.signals, (len(params.critics), -1))
    signals = signals.at[0].add(-hyper.beta_return * log_prob)

    grids = [x.reshape(-1, *shape) for x in (signals, values, next_values)]
    ends = (batch.terminated, batch.done)
    per_signal: Any = jax.vmap(gae, in_axes=(0, 0, 0, None, None, 0, 0, None))
    advantages = per_signal(*grids, *ends, hyper.gammas, hyper.lambdas, batch.kept).reshape(len(signals), -1)
    targets = advantages + values
    weights = jnp.asarray(hyper.weights)
    if relative:  # the other signals' weights are in units of the first advantage's spread
        weights = weights.at[1:].multiply(jnp.std(advantages[0]))
    rows = {"obs": obs, "act": act, "log_prob": log_prob, "advantage": weights @ advantages, "target": targets.T}
    explained = 1.0 - jnp.var(targets - values, axis=1) / (jnp.var(targets, axis=1) + 1e-12)
    return rows, {"explained_variance": explained, "entropy": entropy.mean()}


def _standardised(x: jax.Array) -> jax.Array:
    return (x - x.mean()) / (x.std() + 1e-8)


def _policy_loss(
    actor: nets.Actor, rows: Rows, hyper: Hyper, bound_coef: float
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The policy's part of (2) on a minibatch, and the price of means outside of the action box."""
    head = actor.net(rows["obs"])  # once: a second pass would be a second pass backwards, too
    log_prob, entropy = nets.log_prob_of_head(actor, head, rows["act"])
    log_ratio = log_prob - rows["log_prob"]
    ratio, advantage = jnp.exp(log_ratio), rows["advantage"]
    clipped = jnp.clip(ratio, 1.0 - hyper.clip, 1.0 + hyper.clip)
    loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
    total = loss - hyper.beta_loss * jnp.mean(entropy)
    if bound_coef > 0:
        outside = jnp.maximum(jnp.abs(head) - 1.0, 0.0)
        total += bound_coef * jnp.mean(jnp.sum(outside**2, axis=-1))
    return total, {
        "approx_kl": jnp.mean((ratio - 1.0) - log_ratio),
        "clip_fraction": jnp.mean(jnp.abs(ratio - 1.0) > hyper.clip),
        "policy_loss": loss,
    }


def _value_loss(critics: tuple[nets.MLP, ...], rows: Rows, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
    """The critics' part of (2) on a minibatch, and the squared error (K,) of each."""
    values = jnp.concatenate([critic(rows["obs"]) for critic in critics], axis=1)
    losses = jnp.mean((values - rows["target"]) ** 2, axis=0)
    return hyper.value_coef * jnp.sum(losses), losses


def _shortened(gradient: Any, limit: Any) -> Any:
    """A network's gradient, clipped to the largest norm."""
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradient)))
    factor = jnp.minimum(1.0, limit / (norm + 1e-12))
    return jax.tree.map(lambda g: g * factor, gradient)


def _stepped(net: Any, opt_state: Any, gradient: Any, lr: Any, hyper: Hyper) -> tuple[Any, Any]:
    """A network and its optimiser after one step of Adam."""
    steps, opt_state = agent.optimiser(hyper.adam_eps).update(gradient, opt_state)
    return jax.tree.map(lambda p, step: p - lr * step, net, steps), opt_state


def _learn_policy(
    actor: nets.Actor, opt_state: Any, rows: Rows, order: Any, hyper: Hyper, *, standardise: str, bound_coef: float
) -> tuple[nets.Actor, Any, dict[str, jax.Array]]:
    """Epochs of minibatch steps on the policy. They stop early once the policy has moved too far."""
    rows = {name: rows[name] for name in ("obs", "act", "log_prob", "advantage")}
    if standardise == "rollout":
        rows["advantage"] = _standardised(rows["advantage"])

    def minibatch(carry: tuple[nets.Actor, Any], part: Rows) -> tuple[tuple[nets.Actor, Any], Any]:
        actor, opt_state = carry
        if standardise == "minibatch":
            part = {**part, "advantage": _standardised(part["advantage"])}
        gradient, info = jax.grad(_policy_loss, has_aux=True)(actor, part, hyper, bound_coef)
        gradient = _shortened(gradient, hyper.max_grad_norm)
        return _stepped(actor, opt_state, gradient, hyper.lr_actor, hyper), info

    def epoch(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        number, actor, opt_state, _ = carry
        parts = jax.tree.map(lambda x: x[order[number]], rows)
        (actor, opt_state), infos = jax.lax.scan(minibatch, (actor, opt_state), parts)
        return number + 1, actor, opt_state, jax.tree.map(jnp.mean, infos)

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        return (carry[0] < len(order)) & (carry[3]["approx_kl"] <= hyper.kl_limit)

    nothing = {name: jnp.float32(0.0) for name in ("approx_kl", "clip_fraction", "policy_loss")}
    epochs, actor, opt_state, info = jax.lax.while_loop(unfinished, epoch, (0, actor, opt_state, nothing))
    return actor, opt_state, {**info, "epochs": epochs}


def _learn_critics(
    critics: tuple[nets.MLP, ...], opt_state: Any, rows: Rows, order: Any, epochs: Any, hyper: Hyper
) -> tuple[tuple[nets.MLP, ...], Any, jax.Array]:
    """Epochs of minibatch steps on the critics; returns the mean squared errors (K,) of the last."""
    rows = {name: rows[name] for name in ("obs", "target")}

    def minibatch(carry: tuple[Any, Any], part: Rows) -> tuple[tuple[Any, Any], jax.Array]:
        critics, opt_state = carry
        gradients, losses = jax.grad(_value_loss, has_aux=True)(critics, part, hyper)
        gradients = tuple(_shortened(gradient, hyper.max_grad_norm) for gradient in gradients)
        return _stepped(critics, opt_state, gradients, hyper.lr, hyper), losses

    def epoch(number: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        critics, opt_state, _ = carry
        parts = jax.tree.map(lambda x: x[order[number]], rows)
        (critics, opt_state), losses = jax.lax.scan(minibatch, (critics, opt_state), parts)
        return critics, opt_state, losses.mean(axis=0)

    nothing = jnp.zeros(len(critics), jnp.float32)
    return jax.lax.fori_loop(0, epochs, epoch, (critics, opt_state, nothing))


@partial(jax.jit, static_argnames=("standardise", "relative", "bound_coef", "together"))
def update(
    params: nets.Params,
    opt_state: Any,
    batch: Batch,
    order: Any,
    hyper: Hyper,
    *,
    standardise: str,
    relative: bool,
    bound_coef: float = 0.0,
    together: bool = False,
) -> Updated:
    """All epochs of minibatch steps on a rollout. `order` (epochs, minibatches, batch_size) are sample numbers."""
    rows, about = _samples(params, batch, hyper, relative)
    kind: Any = {"standardise": standardise, "bound_coef": bound_coef}
    if together:
        params, opt_state, info = _learn_together(params, opt_state, rows, order, hyper, **kind)
        return params, opt_state, {**about, **info, "finite": _finite(params)}
    for_actor, for_critics = agent.parted(opt_state)
    policy = _learn_policy(params.actor, for_actor, rows, order, hyper, **kind)
    critics = _learn_critics(params.critics, for_critics, rows, order, policy[2]["epochs"], hyper)
    return _joined(policy, critics, about)


def _learn_together(
    params: nets.Params, opt_state: Any, rows: Rows, order: Any, hyper: Hyper, *, standardise: str, bound_coef: float
) -> tuple[nets.Params, Any, dict[str, jax.Array]]:
    """Epochs of minibatch steps on all networks at once, with their gradients clipped together."""
    if standardise == "rollout":
        rows = {**rows, "advantage": _standardised(rows["advantage"])}

    def loss(params: nets.Params, part: Rows) -> tuple[jax.Array, dict[str, jax.Array]]:
        policy_loss, info = _policy_loss(params.actor, part, hyper, bound_coef)
        value_loss, value_losses = _value_loss(params.critics, part, hyper)
        return policy_loss + value_loss, {**info, "value_losses": value_losses}

    def minibatch(carry: tuple[nets.Params, Any], part: Rows) -> tuple[tuple[nets.Params, Any], Any]:
        params, opt_state = carry
        if standardise == "minibatch":
            part = {**part, "advantage": _standardised(part["advantage"])}
        gradient, info = jax.grad(loss, has_aux=True)(params, part)
        steps, opt_state = agent.optimiser(hyper.adam_eps).update(_shortened(gradient, hyper.max_grad_norm), opt_state)
        actor = jax.tree.map(lambda p, step: p - hyper.lr_actor * step, params.actor, steps.actor)
        critics = jax.tree.map(lambda p, step: p - hyper.lr * step, params.critics, steps.critics)
        return (nets.Params(actor, critics), opt_state), info

    def epoch(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        number, params, opt_state, _ = carry
        parts = jax.tree.map(lambda x: x[order[number]], rows)
        (params, opt_state), infos = jax.lax.scan(minibatch, (params, opt_state), parts)
        return number + 1, params, opt_state, jax.tree.map(lambda x: x.mean(axis=0), infos)

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        return (carry[0] < len(order)) & (carry[3]["approx_kl"] <= hyper.kl_limit)

    nothing = {name: jnp.float32(0.0) for name in ("approx_kl", "clip_fraction", "policy_loss")}
    nothing["value_losses"] = jnp.zeros(len(params.critics), jnp.float32)
    epochs, params, opt_state, info = jax.lax.while_loop(unfinished, epoch, (0, params, opt_state, nothing))
    return params, opt_state, {**info, "epochs": epochs}


def _finite(params: nets.Params) -> jax.Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()


def _joined(policy: tuple[Any, ...], critics: tuple[Any, ...], about: Rows) -> Updated:
    params = nets.Params(policy[0], critics[0])
    info = {**about, **policy[2], "value_losses": critics[2], "finite": _finite(params)}
    return params, agent.joined(policy[1], critics[1]), info


_jit_samples = jax.jit(_samples, static_argnames="relative")
_jit_policy = jax.jit(_learn_policy, static_argnames=("standardise", "bound_coef"))
_jit_critics = jax.jit(_learn_critics)


def update_at_once(
    params: nets.Params,
    opt_state: Any,
    batch: Batch,
    order: Any,
    hyper: Hyper,
    *,
    standardise: str,
    relative: bool,
    bound_coef: float = 0.0,
    together: bool = False,
) -> Updated:
    """The same as `update` for a training without early stop: policy and critics learn in parallel."""
    rows, about = _jit_samples(params, batch, hyper, relative)
    for_actor, for_critics = agent.parted(opt_state)
    with ThreadPoolExecutor(1) as pool:  # starting a thread takes far less time than an update
        task = (_jit_critics, params.critics, for_critics, rows, order, len(order), hyper)
        critics = pool.submit(lambda: jax.block_until_ready(task[0](*task[1:])))
        policy = _jit_policy(
            params.actor, for_actor, rows, order, hyper, standardise=standardise, bound_coef=bound_coef
        )
        jax.block_until_ready(policy)
    return _joined(policy, critics.result(), about)
