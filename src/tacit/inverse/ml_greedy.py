"""Greedy maximum-likelihood constraint inference on finite MDPs: the predecessors of maximum causal entropy ICRL.

Demonstrations never enter a forbidden set C of states. Starting from C = {}, the state whose prohibition makes the
demonstrations most likely is added, again and again, while it makes them likelier by more than a threshold,

    C <- C + argmax_c  KL(D || P_C) - KL(D || P_{C+c}),         until the largest decrease is below d_kl.           (1)

The decrease is that of the demonstrations' mean negative log-likelihood: the entropy of D is the same for every C. The
two algorithms differ in the distribution P_C over trajectories of at most T steps, undiscounted.

ml-greedy (Scobee & Sastry 2020), maximum entropy over trajectories, made for deterministic dynamics:

    P_C(tau | s_0) = prod_t p(s_t+1 | s_t, a_t) exp(r(s_t, a_t) / beta) / Z_C(s_0)  if tau stays out of C, else 0
    Z_C(s) = sum_a,s' p(s'|s,a) exp(r(s,a) / beta) Z_C(s'),         Z_C = 0 in C,   Z_C = 1 at the end              (2)

so that forbidding c gains  log Z_C - log Z_{C+c} = -log(1 - P_C(tau hits c)).  Under noise (2) is wrong in a known way:
it lets the agent choose its luck, and a single slip of a demonstration into a state acquits that state for ever.

ml-greedy-causal (after McPherson, Stocking & Sastry 2021), maximum causal entropy, for stochastic dynamics:

    P_C(tau | s_0) = prod_t p(s_t+1 | s_t, a_t) pi_t(a_t | s_t),        log pi_t = (Q_t - V_t) / beta
    Q_t = r + E V_t+1,     V_t = beta log sum over allowed a of exp(Q_t / beta)                                    (3)

where an action is allowed if it enters C with probability at most `risk` (or is one of the least risky, where none
is). Only actions are judged, not where they happened to lead. With deterministic dynamics (2) and (3) are the same.

Candidates are the states that no demonstration contradicts: not visited (2), or not risked by a demonstrated action
(3). All of them are tried at once, in one backward pass of K columns; that is why the cost is cubic in the number of
states. Afterwards the policy is planned in the discounted model with the same allowed actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import Plan, plan
from tacit.inverse import exact_run
from tacit.inverse import trajectories as paths
from tacit.inverse.mce_exact import positive
from tacit.inverse.trajectories import Trajectories
from tacit.run.machine import one_blas_thread
from tacit.run.summary import Summary
from tacit.run.terminal import live
from tacit.tabular import MDP

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.envs.gridworld import GridworldSpec
    from tacit.run import Run

CAUSAL = "ml-greedy-causal"
COLUMNS = 512
"""Number of candidates in one backward pass. It bounds the memory of large problems."""
NEVER = 800.0
"""exp(-NEVER) is 0 in double precision."""


@dataclass(frozen=True)
class Config:
    """Settings of ml-greedy and ml-greedy-causal."""

    beta: float = 0.1
    """Temperature of the demonstrators, in units of reward; smaller is closer to a deterministic policy."""
    d_kl: float = 0.1
    """Stop when no state makes the demonstrations likelier by this much, in nats per trajectory."""
    risk: float = 0.5
    """Largest chance of stepping into a forbidden state that an allowed action may have. It has no effect if the
    dynamics are deterministic. ml-greedy uses it only for its policy."""
    max_states: int = 1000
    """Largest number of forbidden states."""


@dataclass(frozen=True, eq=False)
class ForbiddenSet:
    """The forbidden states so far."""

    states: tuple[int, ...]
    """Forbidden states, in the order in which they were added."""
    log_likelihood: float
    """Mean log-likelihood of the demonstrations in nats: of trajectories (2) or of actions (3)."""
    gains: tuple[float, ...] = field(default=())
    """Gain in log-likelihood from each of the states."""


# ---------------------------------------------------------------------------------------------------------------------
# Likelihoods of the demonstrations for K forbidden sets at once


def entropy_likelihood(mdp: MDP, pairs: Trajectories, beta: float, forbidden: np.ndarray) -> np.ndarray:
    """(K,) mean log P_C of (2) for forbidden sets (S, K); -inf where a demonstration is in C."""
    horizon = _horizon(mdp)
    n_actions = mdp.n_actions
    live = np.flatnonzero(~mdp.terminal)
    rows = (live[:, None] * n_actions + np.arange(n_actions)).ravel()
    matrix = mdp.transitions[rows]
    begins, log_p = matrix.indptr[:-1], np.log(matrix.data)
    reward = (mdp.rewards[live] / beta)[..., None]
    last_states, lengths = np.array([(states[-1], len(actions)) for states, actions in pairs]).T
    starts = np.array([states[0] for states, _ in pairs])

    total = np.zeros(forbidden.shape[1])
    for states, actions in pairs:
        chosen = states[:-1], actions
        steps = mdp.transitions[states[:-1] * n_actions + actions, states[1:]]
        total += mdp.rewards[chosen].sum() / beta + np.log(np.asarray(steps)).sum()
        total[forbidden[states].any(axis=0)] = -np.inf
    log_z = np.where(forbidden, -np.inf, 0.0)
    for t in reversed(range(horizon)):
        # A demonstration that was cut off may have continued in any way.
        total += log_z[last_states[lengths == t + 1]].sum(axis=0)
        ahead = _log_sum_exp(log_p[:, None] + log_z[matrix.indices], begins)
        log_z = log_z.copy()
        log_z[live] = _log_sum(reward + ahead.reshape(len(live), n_actions, -1))
        log_z[forbidden] = -np.inf
    with np.errstate(invalid="ignore"):  # -inf minus -inf, if no trajectory is possible
        return np.nan_to_num((total - log_z[starts].sum(axis=0)) / len(pairs), nan=-np.inf, neginf=-np.inf)


def causal_likelihood(mdp: MDP, pairs: Trajectories, beta: float, allowed: np.ndarray) -> np.ndarray:
    """(K,) mean sum_t log pi_t(a_t|s_t) of (3) for allowed actions (S, A, K)."""
    horizon = _horizon(mdp)
    steps: list[list[tuple[int, int]]] = [[] for _ in range(horizon)]
    for states, actions in pairs:
        for t, pair in enumerate(zip(states, actions, strict=False)):
            steps[t].append(pair)
    total = np.zeros(allowed.shape[-1])
    value = np.zeros((mdp.n_states, allowed.shape[-1]))
    for t in reversed(range(horizon)):
        q = mdp.rewards[..., None] + (mdp.live_transitions @ value).reshape(allowed.shape)
        scaled = np.where(allowed, q / beta, -np.inf)
        log_sum = _log_sum(scaled)
        if steps[t]:
            s, a = np.array(steps[t]).T
            total += (scaled[s, a] - log_sum[s]).sum(axis=0)
        value = np.where(mdp.terminal[:, None], 0.0, beta * log_sum)
    return total / len(pairs)


def _log_sum(x: np.ndarray) -> np.ndarray:
    """log sum exp over axis 1; -inf if all entries are."""
    top = x.max(axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return (top + np.log(np.exp(x - top).sum(axis=1, keepdims=True)))[:, 0]


def _log_sum_exp(x: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """log sum exp over consecutive rows, from each of `begins` to the next; no group is empty."""
    top = np.maximum.reduceat(x, begins)
    top = np.where(np.isfinite(top), top, 0.0)
    sizes = np.diff(np.append(begins, len(x)))
    with np.errstate(divide="ignore"):
        return top + np.log(np.add.reduceat(np.exp(x - np.repeat(top, sizes, axis=0)), begins))


def _horizon(mdp: MDP) -> int:
    if mdp.horizon is None:
        raise UserError("the likelihood of trajectories needs a model with a horizon")
    return mdp.horizon


def allowed_actions(mdp: MDP, forbidden: np.ndarray, risk: float) -> np.ndarray:
    """(S, A, K) allowed actions for forbidden sets (S, K).

    An action is allowed if it enters the set with probability at most `risk`, or as rarely as any action does.
    """
    chance = (mdp.transitions @ forbidden.astype(np.float64)).reshape(*mdp.rewards.shape, -1)
    chance[mdp.terminal] = 0.0
    # Sums of probabilities that should be equal differ in their last digits.
    return chance <= np.maximum(risk, chance.min(axis=1, keepdims=True)) + 1e-9


# ---------------------------------------------------------------------------------------------------------------------
# The greedy search


def learn(
    mdp: MDP,
    demonstrations: Any,
    *,
    causal: bool,
    beta: float = 0.1,
    d_kl: float = 0.1,
    risk: float = 0.5,
    max_states: int = 1000,
) -> Iterator[ForbiddenSet]:
    """Yield the forbidden set: first the empty one, then one after every added state.

    mdp: with a horizon; its discount is not used. demonstrations: (states, actions) pairs of integer arrays.
    """
    if not isinstance(mdp, MDP):
        raise TypeError(f"mdp must be a tacit.tabular.MDP, not {type(mdp).__name__}")
    check_settings(beta, d_kl, risk, max_states)
    _horizon(mdp)
    pairs = paths.check_demonstrations(mdp, demonstrations)
    if not causal and any(len(states) == len(actions) for states, actions in pairs):
        raise UserError("every demonstration needs its final state: one state more than actions")
    candidates = candidate_states(mdp, pairs, causal, risk)
    chosen = ForbiddenSet((), float(_likelihood(mdp, pairs, causal, beta, risk, (), np.array([-1]))[0]))
    yield chosen
    while len(chosen.states) < max_states and len(candidates):
        tried = _likelihood(mdp, pairs, causal, beta, risk, chosen.states, candidates)
        # States that lie in series gain the same apart from rounding. Take the first, on every machine.
        best = int(np.argmax(tried >= tried.max() - 1e-9))
        gain = float(tried[best]) - chosen.log_likelihood
        if not gain > d_kl:
            return
        states = (*chosen.states, int(candidates[best]))
        chosen = ForbiddenSet(states, float(tried[best]), (*chosen.gains, gain))
        candidates = np.delete(candidates, best)
        yield chosen


def candidate_states(mdp: MDP, pairs: Trajectories, causal: bool, risk: float) -> np.ndarray:
    """States that no demonstration contradicts. Those in which episodes begin or end are never forbidden."""
    acquitted = mdp.terminal | (mdp.initial > 0)
    for states, actions in pairs:
        if causal:
            rows = states[: len(actions)] * mdp.n_actions + actions
            acquitted |= mdp.transitions[rows].max(axis=0).toarray().ravel() > risk + 1e-9
        else:
            acquitted[states] = True
    return np.flatnonzero(~acquitted)


def _likelihood(
    mdp: MDP,
    pairs: Trajectories,
    causal: bool,
    beta: float,
    risk: float,
    states: tuple[int, ...],
    candidates: np.ndarray,
) -> np.ndarray:
    """(K,) log-likelihoods of `states` with each of the candidates added in turn; -1 adds none."""
    parts = []
    for first in range(0, len(candidates), COLUMNS):
        chosen = candidates[first : first + COLUMNS]
        forbidden = np.zeros((mdp.n_states, len(chosen)), dtype=bool)
        forbidden[list(states)] = True
        forbidden[chosen, np.arange(len(chosen))] |= chosen >= 0
        if causal:
            parts.append(causal_likelihood(mdp, pairs, beta, allowed_actions(mdp, forbidden, risk)))
        else:
            parts.append(entropy_likelihood(mdp, pairs, beta, forbidden))
    return np.concatenate(parts)


def plan_around(mdp: MDP, states: tuple[int, ...], beta: float, risk: float) -> Plan:
    """The soft-optimal policy of a discounted MDP that takes only allowed actions."""
    forbidden = np.isin(np.arange(mdp.n_states), states)[:, None]
    allowed = allowed_actions(mdp, forbidden, risk)[..., 0]
    # A fine that no return can outweigh makes the probability of the others exactly 0.
    most = (np.abs(mdp.rewards).max() + beta * np.log(mdp.n_actions)) / (1.0 - mdp.discount)
    return plan(mdp, np.where(allowed, mdp.rewards, mdp.rewards - 2 * most - NEVER * beta), beta)


def check_settings(beta: float, d_kl: float, risk: float, max_states: int) -> None:
    positive("beta", beta)
    positive("d_kl", d_kl, or_zero=True)
    if not 0 <= risk < 1:
        raise UserError(f"risk must be a probability below 1, not {risk}")
    if max_states < 0:
        raise UserError(f"max_states cannot be negative: {max_states}")


# ---------------------------------------------------------------------------------------------------------------------
# Inside a run folder. It takes seconds and nothing is random: an interrupted run starts again and ends the same.


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    exact_run.gridworld_of(env_id, env_kwargs, "ml-greedy").model(finite=True, discount=1.0)
    check_settings(config.beta, config.d_kl, config.risk, config.max_states)


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> Summary:
    """Infer, plan, evaluate, and write the run folder; returns the summary."""
    algo = run.config["algo"]
    spec = exact_run.gridworld_of(env_id, env_kwargs, algo)
    with one_blas_thread():
        forbidden = _search(run, spec, demos, config, causal=algo == CAUSAL)
        mdp = spec.model()
        policy = plan_around(mdp, forbidden.states, config.beta, config.risk).policy
    marked = np.isin(np.arange(spec.n_states), forbidden.states).astype(np.float64)
    card: dict[str, Any] = {"algo": algo, "env": env_id, "env_kwargs": dict(env_kwargs), "kind": "tabular"}
    card |= {"feature_names": ["row", "column"], "states": "cells that are no wall, row by row"}
    run.save_model("policy", {"policy": policy, "cells": spec.cells}, card)
    cost = {"weights": marked, "cost": np.repeat(marked[:, None], spec.n_actions, axis=1), "cells": spec.cells}
    order = np.array(forbidden.states, dtype=np.int64)
    run.save_model("cost", cost | {"states": order}, {**card, "unit": "1 in forbidden states, 0 elsewhere"})
    agents = exact_run.evaluations(spec, mdp, policy, demos, config.beta)
    visits = {f"{name}_visits": np.asarray(agents[name].visits) for name in ("unconstrained", "learned")}
    exact_run.write_figures(run, spec, exact_run.base_figures(spec, demos) | visits | {"forbidden": marked})
    return {
        "statement": _statement(spec, forbidden, config),
        "table": exact_run.as_table(agents, demos, mdp.discount),
        "cost_quality": exact_run.quality(spec, mdp, marked),
        "forbidden": [list(spec.position_of(state)) for state in forbidden.states],
        "gains": list(forbidden.gains),
    }


def _search(run: Run, spec: GridworldSpec, demos: Demonstrations, config: Config, causal: bool) -> ForbiddenSet:
    mdp = spec.model(finite=True, discount=1.0)
    settings: dict[str, Any] = asdict(config)
    forbidden = ForbiddenSet((), -np.inf)
    with live(f"{run.config['algo']}:") as update:
        for forbidden in learn(mdp, spec.to_tabular(demos), causal=causal, **settings):
            record = {"iteration": len(forbidden.states), "log_likelihood": forbidden.log_likelihood}
            run.log(record | ({"state": forbidden.states[-1], "gain": forbidden.gains[-1]} if forbidden.states else {}))
            update(f"{len(forbidden.states)} forbidden  log-likelihood {forbidden.log_likelihood:.3f}")
    return forbidden


def _statement(spec: GridworldSpec, forbidden: ForbiddenSet, config: Config) -> str:
    if not forbidden.states:
        return f"No cell makes the demonstrations likelier by more than {config.d_kl:g} nats: nothing is forbidden."
    listed = ", ".join(str(spec.position_of(state)) for state in forbidden.states[:10])
    more = "" if len(forbidden.states) <= 10 else f" and {len(forbidden.states) - 10} more"
    return (
        f"Forbidden (row, column), the most telling first: {listed}{more}. Together they make a demonstration "
        f"{sum(forbidden.gains):.3g} nats likelier."
    )
