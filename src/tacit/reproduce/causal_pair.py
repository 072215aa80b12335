"""Causal and non-causal maximum entropy on a finite MDP with a horizon: two models that differ in one line.

Both choose actions by the same rule and differ in how they look ahead. With r the reward less the cost, over beta,

    q_t(s,a) = r(s,a) + ahead_t(s,a),    v_t(s) = log sum_a exp q_t(s,a),    pi_t(a|s) = exp(q_t(s,a) - v_t(s))

    causal        ahead = sum_s' p(s'|s,a) v_t+1(s')              chance is expected
    non-causal    ahead = log sum_s' p(s'|s,a) exp v_t+1(s')      chance is chosen, as actions are             (1)

The second is the maximum entropy distribution over trajectories, P(tau) ~ p(tau) exp(r(tau)). Where nothing is left to
chance the two are the same.

Weights lambda >= 0 of one-hot state features are fitted in two ways, each the same for both models:

    likelihood    the log-likelihood of demonstrated trajectories under the model, less an L1 term
    moments       the paper's dual: beta v_0 + lambda.(mu_D + budget)

The solver is L-BFGS-B, with the gradient of one backward and one forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from tacit.errors import UserError
from tacit.tabular import MDP

Array = NDArray[np.float64]
CONVERGED = 1e-14
"""Changes below this are rounding: far from the horizon nothing depends on time any more."""
IMPOSSIBLE = -1e30
"""Logarithm of probability 0: a finite number, so that differences of two of them are defined."""


@dataclass(frozen=True)
class Fit:
    """Fitted weights."""

    weights: Array
    """(S,)"""
    value: float
    stationarity: float
    """Largest entry of the projected gradient: 0 at an optimum."""
    evaluations: int


class EntropyModel:
    """Maximum entropy, causal or not, in an undiscounted MDP with a horizon."""

    def __init__(self, mdp: MDP, beta: float, *, causal: bool) -> None:
        if mdp.horizon is None or mdp.discount != 1.0:
            raise UserError("the distribution over trajectories needs a model with a horizon and without discount")
        self.mdp, self.beta, self.causal, self.horizon = mdp, beta, causal, mdp.horizon
        rows = mdp.transitions
        width = int(np.diff(rows.indptr).max())
        pair = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        place = np.arange(len(pair)) - rows.indptr[pair]
        self.successor = np.zeros((rows.shape[0], width), dtype=np.int64)
        self.chance = np.zeros((rows.shape[0], width))
        self.successor[pair, place], self.chance[pair, place] = rows.indices, rows.data
        self.log_chance = np.log(np.where(self.chance > 0, self.chance, 1.0))
        self.log_chance[self.chance == 0] = IMPOSSIBLE

    def look_ahead(self, value: Array) -> tuple[Array, Array]:
        """Look ahead from values (S,) as (1) says. The models differ in nothing else.

        Returns (ahead (S*A,), share of each successor (S*A, K)).
        """
        following = value[self.successor]
        if self.causal:
            return (self.chance * following).sum(axis=1), self.chance
        scores = self.log_chance + following
        top = scores.max(axis=1, keepdims=True)
        shares = np.exp(scores - top)
        total = shares.sum(axis=1, keepdims=True)
        return (top + np.log(total))[:, 0], shares / total

    def plan(self, weights: Array) -> tuple[Array, Array, list[Array]]:
        """Plan for weights (S,): (v_0 (S,), log pi (T, S, A), shares of the successors in every step)."""
        reward = (self.mdp.rewards - weights[:, None]) / self.beta
        value = np.zeros(self.mdp.n_states)
        log_policy = np.empty((self.horizon, *reward.shape))
        shares: list[Array] = [np.empty(0)] * self.horizon
        for t in reversed(range(self.horizon)):
            ahead, shares[t] = self.look_ahead(value)
            q = reward + ahead.reshape(reward.shape)
            top = q.max(axis=1, keepdims=True)
            log_sum = top + np.log(np.exp(q - top).sum(axis=1, keepdims=True))
            log_policy[t] = q - log_sum
            before, value = value, np.where(self.mdp.terminal, 0.0, log_sum[:, 0])
            if np.abs(value - before).max() < CONVERGED * np.abs(value).max():
                log_policy[:t], shares[:t] = log_policy[t], [shares[t]] * t
                break
        return value, log_policy, shares

    def visits(self, starts: Array, log_policy: Array, shares: list[Array], luck: Array | None) -> Array:
        """Expected visits (S,) of the model from `starts` (S,). `luck` (at most T, S) is added after each step."""
        added = np.zeros((0, self.mdp.n_states)) if luck is None else luck
        total = np.zeros(self.mdp.n_states)
        there = np.where(self.mdp.terminal, 0.0, starts)
        for t in range(self.horizon):
            if t >= len(added) and np.abs(there).max() < CONVERGED:
                break
            total += there
            flow = (there[:, None] * np.exp(log_policy[t])).ravel()[:, None] * shares[t]
            there = np.bincount(self.successor.ravel(), flow.ravel(), minlength=self.mdp.n_states)
            there = np.where(self.mdp.terminal, 0.0, there + added[t] if t < len(added) else there)
        return total

    def policy(self, weights: Array) -> Array:
        """The policy (T, S, A) that is planned for these weights."""
        return np.exp(self.plan(weights)[1])

    def fit_likelihood(self, demonstrations: Any, l1: float, start: Array | None = None) -> Fit:
        """Maximise the mean log-likelihood of (states, actions) pairs, times beta and less l1 |lambda|."""
        counts = np.zeros((self.horizon, self.mdp.n_states, self.mdp.n_actions))
        for states, actions in demonstrations:
            counts[np.arange(len(actions)), states[: len(actions)], actions] += 1.0 / len(demonstrations)
        visited = counts.sum(axis=2)
        # With causal entropy only actions are judged. Where chance led is not the model's doing: this is what it adds
        # to the visits that actions explain. The other model explains chance too, and nothing is added.
        longest = max(len(actions) for _, actions in demonstrations)
        luck = (visited[1:] - (counts.reshape(self.horizon, -1) @ self.mdp.transitions)[:-1])[:longest]

        def objective(weights: Array) -> tuple[float, Array]:
            value, log_policy, shares = self.plan(weights)
            if self.causal:
                lost = -self.beta * float((counts * log_policy).sum())
            else:
                lost = self.beta * float(visited[0] @ value)
                lost -= float((counts.sum(axis=0) * (self.mdp.rewards - weights[:, None])).sum())
            modelled = self.visits(visited[0], log_policy, shares, luck if self.causal else None)
            return lost + l1 * float(weights.sum()), visited.sum(axis=0) - modelled + l1

        return self._minimise(objective, start)

    def fit_moments(self, visited: Array, budget: float) -> Fit:
        """Minimise the dual for the expert's expected `visited` (S,)."""

        def objective(weights: Array) -> tuple[float, Array]:
            value, log_policy, shares = self.plan(weights)
            modelled = self.visits(self.mdp.initial, log_policy, shares, None)
            dual = self.beta * float(self.mdp.initial @ value) + float(weights @ (visited + budget))
            return dual, visited + budget - modelled

        return self._minimise(objective)

    def _minimise(self, objective: Any, start: Array | None = None) -> Fit:
        """L-BFGS-B over weights >= 0; those of terminal states stay 0, because nobody acts there."""
        bounds = [(0.0, 0.0 if terminal else None) for terminal in self.mdp.terminal]
        options = {"maxiter": 300, "maxfun": 600, "ftol": 1e-10, "gtol": 1e-5, "maxcor": 20}
        first = np.zeros(self.mdp.n_states) if start is None else start
        optimum = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        gradient = np.where(self.mdp.terminal, 0.0, optimum.jac)
        projected = optimum.x - np.maximum(optimum.x - gradient, 0.0)
        return Fit(optimum.x, float(optimum.fun), float(np.abs(projected).max()), int(optimum.nfev))
