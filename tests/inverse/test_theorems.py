"""Every lemma and theorem of the paper, checked with numbers. Names in brackets are the paper's labels.

The package's planner and dual are compared with definitions that are written out here: sums over trajectories, finite
differences, operators applied again and again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, xlogy

from oracle import live_dynamics, moments_by_hand
from strategies import Case, cases, make_case
from tacit.forward.soft_policy_iteration import evaluate_policy, plan, soft_max
from tacit.inverse.exact_objectives import Geometry, MomentsDual
from tacit.tabular import feature_matrix, solve

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=80)
betas = st.sampled_from((0.03, 0.3, 3.0))


def random_weights(case: Case, salt: int = 0) -> np.ndarray:
    return case.rng(salt).exponential(size=case.n_features)


def penalised(case: Case, weights: np.ndarray) -> np.ndarray:
    """R - lambda.phi, (S, A)"""
    return case.rewards - case.features @ weights


def q_of(case: Case, reward: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(S, A)"""
    return reward + case.discount * live_dynamics(case) @ value


def evaluation_operator(case: Case, reward: np.ndarray, policy: np.ndarray, beta: float, q: np.ndarray) -> np.ndarray:
    """The modified Bellman operator of a stationary policy. [eq. bellman-operator]"""
    value = (policy * q).sum(axis=1) - beta * xlogy(policy, policy).sum(axis=1)
    return q_of(case, reward, np.where(case.terminal, 0.0, value))


def dual(case: Case, limit: np.ndarray) -> MomentsDual:
    mdp = case.mdp
    return MomentsDual(Geometry(mdp, feature_matrix(mdp, case.features)), limit)


# The optimal policy [lemma optimal-policy] ---------------------------------------------------------------------------


@EXAMPLES
@given(cases(), betas)
def test_the_optimal_policy_is_the_exponential_of_the_advantage(case: Case, beta: float) -> None:
    reward = penalised(case, random_weights(case))
    planned = plan(case.mdp, reward, beta)
    value = planned.value if case.horizon is None else planned.value[1]
    q = q_of(case, reward, value)
    v = beta * logsumexp(q / beta, axis=1)
    live = ~case.terminal
    log_policy = planned.log_policy if case.horizon is None else planned.log_policy[0]
    first = planned.value if case.horizon is None else planned.value[0]
    np.testing.assert_allclose(log_policy[live], ((q - v[:, None]) / beta)[live], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(first[live], v[live], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(planned.policy.sum(axis=-1), 1.0, atol=1e-12)


@EXAMPLES
@given(cases(), betas, st.floats(0.1, 20.0))
def test_no_policy_is_better_in_any_state(case: Case, beta: float, sharpness: float) -> None:
    reward = penalised(case, random_weights(case))
    best = plan(case.mdp, reward, beta).value
    other = evaluate_policy(case.mdp, case.random_policy(sharpness=sharpness), reward, beta)
    assert (best >= other - 1e-9 * (1 + np.abs(best))).all()


def unnormalised_lagrangian(case: Case, reward: np.ndarray, policy: np.ndarray, beta: float) -> float:
    """E sum gamma^t (reward - beta log pi) for a timed policy (T, S, A) that need not sum to one."""
    visits, total = np.where(case.terminal, 0.0, case.initial), 0.0
    for pi in policy:
        taken = visits[:, None] * pi
        total += float((taken * reward).sum() - beta * (visits[:, None] * xlogy(pi, pi)).sum())
        visits = case.discount * np.einsum("sa,sap->p", taken, live_dynamics(case))
    return total


@settings(EXAMPLES, max_examples=15)
@given(cases(horizons=(1, 3), max_states=4), betas)
def test_gradient_of_the_lagrangian_with_respect_to_a_probability(case: Case, beta: float) -> None:
    """[lemma gradient-lag] d/d pi_t(a|s) = rho_t(s) (Q_t(s,a) - beta log pi_t(a|s) - beta), normalisation aside."""
    reward = penalised(case, random_weights(case))
    policy = case.random_policy()
    value = evaluate_policy(case.mdp, policy, reward, beta)
    visits = np.where(case.terminal, 0.0, case.initial)
    rng = case.rng(5)
    for t, pi in enumerate(policy):
        s, a = rng.integers(case.rewards.shape[0]), rng.integers(case.rewards.shape[1])
        expected = visits[s] * (q_of(case, reward, value[t + 1])[s, a] - beta * np.log(pi[s, a]) - beta)
        step = 1e-6 * pi[s, a]
        up, down = policy.copy(), policy.copy()
        up[t, s, a] += step
        down[t, s, a] -= step
        slope = (
            unnormalised_lagrangian(case, reward, up, beta) - unnormalised_lagrangian(case, reward, down, beta)
        ) / (2 * step)
        assert slope == pytest.approx(expected, rel=1e-5, abs=1e-5)
        visits = case.discount * np.einsum("s,sa,sap->p", visits, pi, live_dynamics(case))


# Policy iteration [theorem soft-policy-iteration] --------------------------------------------------------------------


@EXAMPLES
@given(cases(horizons=(None,)), betas)
def test_policy_evaluation_is_a_contraction_and_converges(case: Case, beta: float) -> None:
    """[lemma soft-policy-evaluation]"""
    reward, policy = penalised(case, random_weights(case)), case.random_policy()
    rng = case.rng(6)
    one, two = rng.normal(size=(2, *case.rewards.shape))
    images = [evaluation_operator(case, reward, policy, beta, q) for q in (one, two)]
    assert np.abs(images[0] - images[1]).max() <= case.discount * np.abs(one - two).max() + 1e-12
    exact = q_of(case, reward, evaluate_policy(case.mdp, policy, reward, beta))
    q, error = one, np.abs(one - exact).max()
    for _ in range(60):
        q = evaluation_operator(case, reward, policy, beta, q)
        previous, error = error, np.abs(q - exact).max()
        assert error <= case.discount * previous + 1e-9
    np.testing.assert_allclose(evaluation_operator(case, reward, policy, beta, exact), exact, rtol=1e-9, atol=1e-9)


@EXAMPLES
@given(cases(horizons=(None,)), betas)
def test_improvement_is_the_kl_projection_and_never_worse(case: Case, beta: float) -> None:
    """[lemma soft-policy-improvement] [eq. kl]"""
    reward, old = penalised(case, random_weights(case)), case.random_policy(sharpness=3.0)
    value = evaluate_policy(case.mdp, old, reward, beta)
    q = q_of(case, reward, value)
    _, log_new = soft_max(q, beta, case.terminal)
    new = np.exp(log_new)

    def divergence(policy: np.ndarray) -> np.ndarray:
        """KL from exp((Q - V)/beta), which need not be normalised, in every live state."""
        return (xlogy(policy, policy) - policy * (q - value[:, None]) / beta).sum(axis=1)[~case.terminal]

    for other in (old, case.random_policy(7), case.random_policy(8, sharpness=10.0)):
        assert (divergence(new) <= divergence(other) + 1e-9).all()
    improved = q_of(case, reward, evaluate_policy(case.mdp, new, reward, beta))
    assert (improved >= q - 1e-9 * (1 + np.abs(q))).all()


@settings(EXAMPLES, max_examples=25)
@given(cases(horizons=(None,)), betas, st.floats(0.0, 30.0))
def test_policy_iteration_converges_to_the_optimum_from_anywhere(case: Case, beta: float, sharpness: float) -> None:
    """[theorem soft-policy-iteration]"""
    reward, policy = penalised(case, random_weights(case)), case.random_policy(sharpness=sharpness)
    best = plan(case.mdp, reward, beta)
    last = evaluate_policy(case.mdp, policy, reward, beta)
    for _ in range(60):
        _, log_policy = soft_max(q_of(case, reward, last), beta, case.terminal)
        value = evaluate_policy(case.mdp, np.exp(log_policy), reward, beta)
        assert (value >= last - 1e-8 * (1 + np.abs(last))).all()
        last = value
    np.testing.assert_allclose(last, best.value, rtol=1e-9, atol=1e-9)
    other = q_of(case, reward, evaluate_policy(case.mdp, case.random_policy(9), reward, beta))
    assert (q_of(case, reward, best.value) >= other - 1e-9 * (1 + np.abs(other))).all()


# The dual [lemma dual-convex] [eq. lag_lambda] -----------------------------------------------------------------------


@EXAMPLES
@given(cases(), betas, st.floats(0.05, 0.95))
def test_the_dual_is_convex_and_lies_above_every_lagrangian(case: Case, beta: float, share: float) -> None:
    """A pointwise maximum of functions that are affine in lambda is convex (the appendix says concave)."""
    limit = moments_by_hand(case, case.random_policy()) + 0.1
    objective = dual(case, limit)
    one, two = random_weights(case, 1), random_weights(case, 2)
    g = {name: objective.at(w, beta, None).value for name, w in (("one", one), ("two", two))}
    between = objective.at(share * one + (1 - share) * two, beta, None).value
    assert between <= share * g["one"] + (1 - share) * g["two"] + 1e-9 * (1 + abs(between))

    other = case.random_policy(3)
    rewards_and_entropy = evaluate_policy(case.mdp, other, case.rewards, beta)
    start = np.where(case.terminal, 0.0, case.initial)
    alone = float(start @ (rewards_and_entropy if case.horizon is None else rewards_and_entropy[0]))
    for weights, value in ((one, g["one"]), (two, g["two"])):
        lagrangian = alone + float(weights @ (limit - moments_by_hand(case, other)))
        assert lagrangian <= value + 1e-9 * (1 + abs(value))


def test_the_dual_is_not_concave() -> None:
    case = make_case(3)
    objective = dual(case, np.zeros(case.n_features))
    one, two = random_weights(case, 1), random_weights(case, 2)
    middle = objective.at((one + two) / 2, 0.3, None).value
    ends = (objective.at(one, 0.3, None).value + objective.at(two, 0.3, None).value) / 2
    assert middle < ends - 1e-3


@EXAMPLES
@given(cases(), betas)
def test_gradient_and_hessian_of_the_dual_are_the_finite_differences(case: Case, beta: float) -> None:
    limit = moments_by_hand(case, case.random_policy())
    objective = dual(case, limit)
    weights, direction = random_weights(case), case.rng(11).normal(size=case.n_features)
    point = objective.at(weights, beta, None)
    np.testing.assert_allclose(point.gradient, limit - moments_by_hand(case, point.plan.policy), rtol=1e-7, atol=1e-7)

    step = 1e-4 * min(1.0, beta)
    ahead, behind = (objective.at(weights + sign * step * direction, beta, None) for sign in (1, -1))
    size = 1 + float(np.abs(point.gradient).max())
    slope = (ahead.value - behind.value) / (2 * step)
    assert slope == pytest.approx(float(point.gradient @ direction), rel=1e-4, abs=1e-5 * size)
    bend = (ahead.gradient - behind.gradient) / (2 * step)
    curvature = float(np.abs(point.hessian).max())
    np.testing.assert_allclose(point.hessian @ direction, bend, rtol=1e-3, atol=1e-3 * curvature + 1e-6)
    np.testing.assert_allclose(point.hessian_times(direction), point.hessian @ direction, atol=1e-9 * (1 + curvature))
    np.testing.assert_allclose(point.hessian, point.hessian.T, atol=1e-9 * (1 + curvature))
    assert np.linalg.eigvalsh(point.hessian).min() >= -1e-9 * (1 + curvature)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("horizon", [None, 6])
def test_dual_descent_with_a_fixed_step_finds_the_solution_of_newton(seed: int, horizon: int | None) -> None:
    """[theorem dual-convergence] where the step suits: few features, plenty of entropy, some budget."""
    case = make_case(seed, n_states=6, n_features=3, discount=0.8, horizon=horizon, features="positive")
    target = moments_by_hand(case, case.random_policy())
    fast = solve(case.mdp, case.features, target, beta=0.5, budget=0.01)
    slow = solve(
        case.mdp,
        case.features,
        target,
        beta=0.5,
        budget=0.01,
        method="gradient",
        step_size=0.2,
        max_iterations=5000,
        tolerance=1e-7,
    )
    assert fast.status == slow.status == "optimal"
    assert fast.weights.max() > 0.01, "nothing binds: the test shows nothing"
    assert slow.certificate.dual_value == pytest.approx(fast.certificate.dual_value, abs=1e-7)
    np.testing.assert_allclose(slow.policy, fast.policy, atol=1e-5)
    values = [entry["dual_value"] for entry in slow.history]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(values))


# The policy gradient [lemma gradient-theta-objective] [lemma baseline] -----------------------------------------------


def trajectories(case: Case, policy: np.ndarray) -> Iterator[tuple[float, list[tuple[int, int]]]]:
    """(probability, [(s_0, a_0), ...]) of every trajectory of a stationary policy; it ends at terminals or after T."""
    assert case.horizon is not None

    def extend(state: int, path: list[tuple[int, int]], chance: float) -> Iterator[tuple[float, list[tuple[int, int]]]]:
        if case.terminal[state] or len(path) == case.horizon:
            yield chance, path
            return
        for action, likely in enumerate(policy[state]):
            for successor, moves in enumerate(case.transitions[state, action]):
                if likely * moves > 0:
                    yield from extend(successor, [*path, (state, action)], chance * likely * moves)

    for state, chance in enumerate(case.initial):
        if chance > 0 and not case.terminal[state]:
            yield from extend(state, [], chance)


class PolicyGradient:
    """A soft-max policy with one logit a state and action, on an MDP small enough to enumerate every trajectory."""

    beta = 0.4

    def __init__(self, case: Case) -> None:
        self.case = case
        self.reward = penalised(case, random_weights(case))
        self.theta = case.rng(21).normal(size=case.rewards.shape)

    def policy(self, theta: np.ndarray) -> np.ndarray:
        return np.exp(theta - logsumexp(theta, axis=1, keepdims=True))

    def objective(self, theta: np.ndarray) -> float:
        """E[sum_t gamma^t (R - lambda.phi - beta log pi)], the part of the Lagrangian that depends on the policy."""
        policy, case = self.policy(theta), self.case
        return sum(
            chance
            * sum(
                case.discount**t * (self.reward[s, a] - self.beta * np.log(policy[s, a]))
                for t, (s, a) in enumerate(path)
            )
            for chance, path in trajectories(case, policy)
        )

    def slope(self) -> np.ndarray:
        out, step = np.zeros_like(self.theta), 1e-5
        for index in np.ndindex(*self.theta.shape):
            up, down = self.theta.copy(), self.theta.copy()
            up[index] += step
            down[index] -= step
            out[index] = (self.objective(up) - self.objective(down)) / (2 * step)
        return out

    def estimator(self, subtract: str, discounted: bool = True) -> np.ndarray:
        """E[sum_t gamma^t grad log pi(a_t|s_t) (Q_t - beta log pi - x)], x as named; without gamma^t as printed."""
        case, policy = self.case, self.policy(self.theta)
        assert case.horizon is not None
        value = evaluate_policy(case.mdp, policy, self.reward, self.beta)
        baseline = case.rng(22).normal(size=len(policy))
        out = np.zeros_like(self.theta)
        for chance, path in trajectories(case, policy):
            for t, (s, a) in enumerate(path):
                remaining = sum(case.discount ** (later - t) for later in range(t, len(path)))
                term = {
                    "nothing": 0.0,
                    "beta": self.beta,
                    "the sum of beta": self.beta * remaining,
                    "a baseline": baseline[s],
                    "the value": value[t, s],
                }[subtract]
                q = q_of(case, self.reward, value[t + 1])[s, a]
                weight = q - self.beta * np.log(policy[s, a]) - term
                score = -policy[s]
                score[a] += 1.0
                out[s] += chance * (case.discount**t if discounted else 1.0) * weight * score
        return out


def episodes_that_may_end_early(discount: float) -> PolicyGradient:
    return PolicyGradient(make_case(8, n_states=3, n_actions=2, n_terminal=1, horizon=4, discount=discount))


def episodes_of_equal_length(discount: float) -> PolicyGradient:
    return PolicyGradient(make_case(8, n_states=2, n_actions=2, n_terminal=0, horizon=4, discount=discount))


@pytest.mark.parametrize("make", [episodes_that_may_end_early, episodes_of_equal_length])
@pytest.mark.parametrize("subtract", ["nothing", "beta", "a baseline", "the value"])
def test_policy_gradient_in_its_corrected_form(make: type, subtract: str) -> None:
    problem = make(0.8)
    np.testing.assert_allclose(problem.estimator(subtract), problem.slope(), atol=1e-8)


def test_the_printed_sum_term_is_wrong_when_episodes_can_end_early() -> None:
    problem = episodes_that_may_end_early(0.8)
    assert np.abs(problem.slope()).max() > 0.01
    error = np.abs(problem.estimator("the sum of beta") - problem.slope()).max()
    assert error > 0.01, "the sum is a penalty for surviving; here it should show"


def test_the_printed_sum_term_is_harmless_when_all_episodes_last_equally_long() -> None:
    problem = episodes_of_equal_length(0.8)
    np.testing.assert_allclose(problem.estimator("the sum of beta"), problem.slope(), atol=1e-8)


def test_the_lemma_without_powers_of_gamma_holds_only_without_discounting() -> None:
    """The lemma is printed without gamma^t in front of each term."""
    undiscounted = episodes_that_may_end_early(1.0)
    np.testing.assert_allclose(undiscounted.estimator("beta", discounted=False), undiscounted.slope(), atol=1e-8)
    problem = episodes_that_may_end_early(0.8)
    assert np.abs(problem.estimator("beta", discounted=False) - problem.slope()).max() > 0.01
