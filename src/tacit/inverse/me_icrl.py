"""Maximum entropy inverse constrained reinforcement learning (Malik et al. 2021): `tacit learn me-icrl ENV`.

A network zeta(s, a) in (0, 1) says how feasible a step is; the cost is c = 1 - zeta. Demonstrations are taken to come
from trajectories with probability proportional to  exp(reward(tau)) prod_t zeta_t.  Its log-likelihood has a gradient
that compares demonstrations with samples of the present model, and those are made in turns:

    forward   PPO-Lagrangian with cost 1 - zeta and budget 0 (`tacit.inverse.loop`)
    inverse   backward_steps of Adam on
              J = - E_D log(zeta + eps) + E_N[ omega log(zeta + eps) ] + delta ( E_D[1 - zeta] + E_N[1 - zeta] ) (1)

N are the learner's steps, made for the network zeta_old with which the inverse step began. As zeta moves away from it,
importance weights (held constant in the gradient) make them stand for the new model, with
r_t = (zeta_t + eps) / (zeta_old,t + eps):

    weights = "step"         omega_t = r_t / mean r
    weights = "trajectory"   omega_t = n w_tau / sum w,     w_tau = prod_{t in tau} r_t,   n whole trajectories      (2)
    weights = "none"         omega_t = 1

and before each pass the step ends early once the model over trajectories has moved too far from that of the samples:

    KL(old || new) = mean[-log w] + log mean w   > forward_kl     or
    KL(new || old) = mean[w log w] / mean w - log mean w   > reverse_kl                                              (3)

both from samples of the old model; the second is at most the logarithm of the number of trajectories. Episodes that
were seen only in part do not count, and their steps have a weight of 1, because log w grows with the length and a piece
would look like another model. If no episode is whole, log w is that of pieces of equal length. Weights and divergences
are computed from logarithms, so that products over a thousand steps neither under- nor overflow.

published_code = True does what the published program did, which is not (1) to (3). Its per-step weights, an array
(N, 1, 1) times log zeta (N, 1), become an N by N table whose mean is mean(omega) mean(log zeta): weights that never
had an effect on the gradient. And the divergences are  mean[-log(w + eps)]  and  mean[(w - mean w) log(w + eps)] /
(mean w + eps)  of products that underflow, so that the first is at most -log eps = 11.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.forward import agent
from tacit.inverse import constraint_net
from tacit.inverse.constraint_net import EPSILON, Data, Net, log_feasibility, outputs
from tacit.inverse.loop import State
from tacit.run.trainer import Metrics

__all__ = ["Config", "State", "check", "cost_of", "learn", "policy_of", "train"]


@dataclass(frozen=True)
class Config(constraint_net.Config):
    """Settings of ME-ICRL."""

    delta: float = 0.5
    """Weight of the mean cost, which keeps the constraint small."""
    weights: Literal["step", "trajectory", "none"] = "step"
    """Importance weights of the learner's steps: of each step, of its whole trajectory, or none."""
    forward_kl: float = 10.0
    """An inverse step stops once KL(old || new) of the model exceeds this."""
    reverse_kl: float = 2.5
    """An inverse step stops once KL(new || old) of the model exceeds this."""
    published_code: bool = False
    """Follow the published program, in which importance weights have no effect on the gradient."""


# ---------------------------------------------------------------------------------------------------------------------
# Losses, weights, divergences


def loss(net: Net, expert: Any, learner: Any, omega: Any, delta: Any) -> jax.Array:
    """(1) on scaled inputs (n, d) of demonstrations and (m, d) of the learner with weights omega (m,)."""
    cost = jax.nn.sigmoid(outputs(net, expert)[:, 0]).mean() + jax.nn.sigmoid(outputs(net, learner)[:, 0]).mean()
    likelihood = log_feasibility(net, expert).mean() - (omega * log_feasibility(net, learner)).mean()
    return -likelihood + delta * cost


def step_weights(log_ratio: Any) -> jax.Array:
    """omega (m,): the weight of each single step, with mean 1."""
    return len(log_ratio) * jax.nn.softmax(log_ratio)


def trajectory_sums(log_ratio: Any, trajectory: Any, whole: Any) -> tuple[jax.Array, jax.Array]:
    """(log w (m,), which of them count (m,)), for trajectories numbered below m of which some are `whole` (m,).

    Incomplete trajectories count only if none is whole. Then their sums are scaled to the length of the longest.
    """
    one = partial(jax.ops.segment_sum, segment_ids=trajectory, num_segments=len(log_ratio))
    log_w, lengths = one(log_ratio), one(jnp.ones_like(log_ratio))
    there = lengths > 0
    any_whole = (there & whole).any()
    alike = log_w * lengths.max() / jnp.maximum(lengths, 1.0)
    return jnp.where(any_whole, log_w, alike), jnp.where(any_whole, there & whole, there)


def trajectory_weights(log_w: Any, counted: Any, trajectory: Any) -> jax.Array:
    """omega (m,): each step has the weight of its trajectory; the mean over counted ones is 1. Other steps have 1."""
    share = jax.nn.softmax(jnp.where(counted, log_w, -jnp.inf))
    return jnp.where(counted, counted.sum() * share, 1.0)[trajectory]


def divergences(log_w: Any, there: Any) -> tuple[jax.Array, jax.Array]:
    """(KL(old || new), KL(new || old)) of (3) from the weights of samples of the old model."""
    share = jax.nn.softmax(jnp.where(there, log_w, -jnp.inf))
    log_mean = jax.nn.logsumexp(jnp.where(there, log_w, -jnp.inf)) - jnp.log(there.sum())
    kept = jnp.where(there, log_w, 0.0)
    return log_mean - kept.sum() / there.sum(), jnp.sum(share * kept) - log_mean


def published_divergences(log_w: Any, there: Any) -> tuple[jax.Array, jax.Array]:
    """The numbers that the published code compares with the same limits. An overflow does not stop it."""
    mean = lambda x: jnp.where(there, x, 0.0).sum() / there.sum()  # noqa: E731
    w = jnp.exp(log_w)
    w_mean, log = mean(w), jnp.log(w + EPSILON)
    return jnp.nan_to_num(mean(-log)), jnp.nan_to_num(mean((w - w_mean) * log) / (w_mean + EPSILON))


class Hyper(NamedTuple):
    lr: float
    delta: float
    forward_kl: float
    reverse_kl: float


@partial(jax.jit, static_argnames=("weights", "published_code"))
def descend(
    net: Net,
    opt_state: Any,
    data: tuple[Any, Any, Any, Any],
    orders: tuple[Any, Any],
    hyper: Hyper,
    *,
    weights: str,
    published_code: bool,
) -> tuple[Net, Any, dict[str, jax.Array]]:
    """The inverse step on (expert (n, d), learner (m, d), trajectory (m,), whole (m,)) as in `loop.Data`.

    Orders are those of `constraint_net`.
    """
    expert, learner, trajectory, whole = data
    old = log_feasibility(net, learner)

    def judged(net: Net) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        log_ratio = log_feasibility(net, learner) - old
        log_w, counted = trajectory_sums(log_ratio, trajectory, whole)
        kl = (published_divergences if published_code else divergences)(log_w, counted)
        if weights == "none" or (published_code and weights == "step"):
            return jnp.ones_like(log_ratio), kl
        return (step_weights(log_ratio) if weights == "step" else trajectory_weights(log_w, counted, trajectory)), kl

    def one_pass(carry: Any) -> Any:
        number, net, opt_state, (omega, _), _ = carry

        def on_rows(net: Net, expert_rows: Any, learner_rows: Any) -> jax.Array:
            return loss(net, expert[expert_rows], learner[learner_rows], omega[learner_rows], hyper.delta)

        rows = (orders[0][number], orders[1][number])
        net, opt_state, values = constraint_net.descend(on_rows, net, opt_state, rows, hyper.lr)
        return number + 1, net, opt_state, judged(net), values.mean()

    def near(carry: Any) -> jax.Array:
        number, _, _, (_, (forward, reverse)), _ = carry
        return (number < len(orders[0])) & (forward <= hyper.forward_kl) & (reverse <= hyper.reverse_kl)

    start = (0, net, opt_state, judged(net), jnp.float32(0.0))
    number, net, opt_state, (omega, (forward, reverse)), value = jax.lax.while_loop(near, one_pass, start)
    info = {
        "inverse/loss": value,
        "inverse/passes": number,
        "inverse/forward_kl": forward,
        "inverse/reverse_kl": reverse,
        "inverse/weight_max": omega.max(),
        "inverse/effective_share": omega.sum() ** 2 / (omega**2).sum() / len(omega),
    }
    return net, opt_state, info


# ---------------------------------------------------------------------------------------------------------------------
# The method


class MEICRL(constraint_net.Classifier):
    """`tacit learn me-icrl ENV`. The cost is 1 - zeta."""

    name = "me-icrl"
    config_type = Config

    def descend(self, config: Config, state: State, data: Data, rng: np.random.Generator) -> tuple[Net, Any, Metrics]:
        lr = constraint_net.learning_rate(config, state)
        orders = constraint_net.orders(
            rng, len(data.expert), len(data.learner), config.constraint_batch, config.backward_steps
        )
        net, opt_state, info = descend(
            state.params,
            state.opt_state,
            (data.expert, data.learner, data.trajectory, data.whole),
            orders,
            Hyper(lr, config.delta, config.forward_kl, config.reverse_kl),
            weights=config.weights,
            published_code=config.published_code,
        )
        return net, opt_state, {key: float(value) for key, value in info.items()}

    def check_settings(self, config: Config) -> None:
        super().check_settings(config)
        agent.check_ranges(config, ("delta", "forward_kl", "reverse_kl"), 0)


METHOD = MEICRL()
learn, train, check = METHOD.learn, METHOD.train, METHOD.check
cost_of, policy_of = METHOD.cost_of, METHOD.policy_of
