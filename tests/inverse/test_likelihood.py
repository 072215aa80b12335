"""The objectives that always have a solution: causally conditioned likelihood, and moments of an estimated policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from oracle import live_dynamics, moments_by_hand, occupancy_by_hand
from strategies import Case, cases, make_case, simulate
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse.certificate import certify_policy
from tacit.inverse.exact_objectives import CausalLikelihood, Geometry, MomentsDual
from tacit.inverse.trajectories import discounted_counts
from tacit.tabular import feature_matrix, solve

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=80)
Demos = list[tuple[np.ndarray, np.ndarray]]


def demonstrations(case: Case, number: int, sharpness: float = 1.0, length: int = 25) -> Demos:
    return simulate(case, case.random_policy(3, sharpness=sharpness), number, length)


def objective(case: Case, demos: Demos, l1: float) -> CausalLikelihood:
    mdp = case.mdp
    geometry = Geometry(mdp, feature_matrix(mdp, case.features))
    return CausalLikelihood(geometry, np.full(case.n_features, l1), discounted_counts(mdp, demos))


def by_definition(case: Case, demos: Demos, weights: np.ndarray, beta: float, l1: float) -> float:
    """-(beta/N) sum_i sum_t gamma^t log pi(a_t|s_t) + l1 sum lambda, one step at a time."""
    log_policy = plan(case.mdp, case.rewards - case.features @ weights, beta).log_policy
    total = 0.0
    for states, actions in demos:
        for t, (s, a) in enumerate(zip(states[: len(actions)], actions, strict=True)):
            total -= beta * case.discount**t * (log_policy[s, a] if case.horizon is None else log_policy[t, s, a])
    return total / len(demos) + l1 * float(weights.sum())


@EXAMPLES
@given(cases(), st.sampled_from((0.05, 0.5, 2.0)), st.sampled_from((1, 7)))
def test_value_and_gradient(case: Case, beta: float, number: int) -> None:
    demos = demonstrations(case, number)
    problem, weights = objective(case, demos, 0.01), case.rng(1).exponential(size=case.n_features)
    point = problem.at(weights, beta, None)
    assert point.value == pytest.approx(by_definition(case, demos, weights, beta, 0.01), rel=1e-9, abs=1e-9)
    direction, step = case.rng(2).normal(size=case.n_features), 1e-5 * min(1.0, beta)
    ahead, behind = (by_definition(case, demos, weights + s * step * direction, beta, 0.01) for s in (1, -1))
    slope = float(point.gradient @ direction)
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=1e-4, abs=1e-4)


@EXAMPLES
@given(cases(), st.sampled_from((0.1, 1.0)))
def test_it_is_the_dual_with_the_luck_of_the_dynamics_taken_out(case: Case, beta: float) -> None:
    """beta log pi = Q - V: the likelihood is m.V + lambda.mu_D up to a constant, m = n(s) - gamma P' n(s,a)."""
    demos = demonstrations(case, 5)
    counts = discounted_counts(case.mdp, demos)
    timed = counts.reshape(-1, *case.rewards.shape)
    arrivals = case.discount * np.einsum("tsa,sap->tp", timed, live_dynamics(case))
    starts = timed.sum(axis=2)
    if case.horizon is None:
        starts = starts - arrivals
    else:
        starts[1:] -= arrivals[:-1]
    problem = objective(case, demos, 0.0)
    for salt in (1, 2):
        weights = case.rng(salt).exponential(size=case.n_features)
        point = problem.at(weights, beta, None)
        value = point.plan.value[None] if case.horizon is None else point.plan.value[:-1]
        reward = case.rewards - case.features @ weights
        expected = float((starts * value).sum()) - float((timed * reward).sum())
        assert point.value == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_without_luck_it_is_the_moments_dual() -> None:
    """Deterministic dynamics, one start, episodes that end: both objectives have the same gradient."""
    case = make_case(1, n_states=6, dynamics="chain", n_terminal=1, features="positive")
    demos = [(s, a) for s, a in simulate(case, case.random_policy(), 30, 400) if case.terminal[s[-1]]]
    assert len(demos) == 30
    problem = objective(case, demos, 0.0)
    target = np.einsum("sa,sak->k", problem.counts, case.features)
    moments = MomentsDual(problem.geometry, target)
    for salt in range(3):
        weights = case.rng(salt).exponential(size=case.n_features)
        np.testing.assert_allclose(
            problem.at(weights, 0.3, None).gradient, moments.at(weights, 0.3, None).gradient, atol=1e-9
        )


def test_its_exact_hessian_uses_visits_that_may_be_negative() -> None:
    """`visits_explaining` weighs the covariances of the exact Hessian; Newton's system keeps what is positive."""
    case = make_case(4, dynamics="slip", n_terminal=1)
    problem, weights, beta = objective(case, demonstrations(case, 3), 0.0), np.array([0.3, 0.5, 0.1]), 0.5
    point = problem.at(weights, beta, None)
    visits = point.response.visits_explaining(problem.counts.ravel())
    moved = point.response.respond(case.features.reshape(-1, 3)).reshape(5, 3, 3)
    exact = np.einsum("s,sa,sak,sal->kl", visits, point.plan.policy, moved, moved) / beta
    step = 1e-5
    differences = np.array(
        [
            (problem.at(weights + step * e, beta, None).gradient - problem.at(weights - step * e, beta, None).gradient)
            for e in np.eye(3)
        ]
    ) / (2 * step)
    np.testing.assert_allclose(exact, differences, atol=1e-6)
    assert np.linalg.eigvalsh(point.hessian).min() >= 0


# Solutions -----------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(cases(), st.sampled_from((0.02, 0.2, 1.0)), st.sampled_from((1, 20)), st.sampled_from((0.0, 1.0, 40.0)))
def test_the_solution_is_stationary_and_finite(case: Case, beta: float, number: int, sharpness: float) -> None:
    demos = demonstrations(case, number, sharpness)
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=beta, objective="likelihood", l1=1e-3)
    assert solution.status == "stationary"
    assert (solution.weights >= 0).all()
    point = objective(case, demos, 1e-3).at(solution.weights, beta, None)
    residual = solution.weights - np.maximum(solution.weights - point.gradient, 0.0)
    assert np.abs(residual).max() <= 1e-6
    nothing = objective(case, demos, 1e-3).at(np.zeros(case.n_features), beta, None)
    assert point.value <= nothing.value + 1e-9
    assert solution.certificate.dual_value == pytest.approx(point.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_as_good_as_a_general_optimiser(seed: int) -> None:
    """L-BFGS-B from zero; neither can promise the global optimum."""
    case = make_case(
        seed, n_states=6, n_features=4, dynamics=("slip", "dense", "sparse")[seed % 3], n_terminal=seed % 2
    )
    demos = demonstrations(case, 30)
    problem = objective(case, demos, 1e-3)

    def function(weights: np.ndarray) -> tuple[float, np.ndarray]:
        point = problem.at(weights, 0.2, None)
        return point.value, point.gradient

    other = minimize(function, np.zeros(4), jac=True, bounds=[(0, None)] * 4, method="L-BFGS-B", options={"gtol": 1e-9})
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=0.2, objective="likelihood", l1=1e-3)
    assert solution.certificate.dual_value <= other.fun + 1e-7


def expert_of_known_cost(case: Case, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(weights, policy)"""
    weights = np.array([1.5, 0.0, 0.7, 0.0])[: case.n_features]
    return weights, plan(case.mdp, case.rewards - case.features @ weights, beta).policy


@pytest.mark.parametrize("horizon", [None, 10])
@pytest.mark.parametrize("name", ["likelihood", "plugin", "moments"])
def test_demonstrations_of_a_known_cost_recover_its_policy(name: str, horizon: int | None) -> None:
    case = make_case(5, n_states=6, n_features=4, dynamics="slip", n_terminal=1, horizon=horizon, features="binary")
    beta = 0.5
    weights, expert = expert_of_known_cost(case, beta)
    unconstrained = plan(case.mdp, case.rewards, beta).policy
    cost = case.features @ weights
    far = certify_policy(case.mdp, cost, beta, unconstrained).kl_per_step
    distances = []
    for number in (30, 3000):
        demos = simulate(case, expert, number, 200)
        budget = 1 / number if name == "moments" else 0.0
        learned = solve(case.mdp, case.features, demonstrations=demos, beta=beta, objective=name, budget=budget, l1=0.0)
        assert learned.status in ("optimal", "stationary")
        distances.append(certify_policy(case.mdp, cost, beta, learned.policy).kl_per_step)
    assert far > 0.05, "the cost should matter"
    assert distances[1] < distances[0]
    assert distances[1] < 0.01 * far


def test_many_demonstrations_recover_the_weights_where_they_are_identified() -> None:
    case = make_case(5, n_states=6, n_features=3, dynamics="slip", n_terminal=1, features="binary")
    weights, expert = expert_of_known_cost(case, 0.5)
    demos = simulate(case, expert, 4000, 200)
    learned = solve(case.mdp, case.features, demonstrations=demos, beta=0.5, objective="likelihood", l1=0.0)
    # Asymptotic standard errors from the Fisher information of one trajectory, times N.
    information = objective(case, demos, 0.0).at(weights, 0.5, None).hessian / 0.5 * len(demos)
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    assert error.max() < 0.2
    assert (np.abs(learned.weights - weights) < 4 * error).all()


def test_more_l1_means_smaller_weights_and_a_budget_is_an_l1() -> None:
    case = make_case(7, n_features=3, features="positive")
    demos = demonstrations(case, 20)
    sums = []
    for l1 in (0.0, 1e-2, 1e-1, 10.0):
        solution = solve(case.mdp, case.features, demonstrations=demos, beta=0.3, objective="likelihood", l1=l1)
        sums.append(float(solution.weights.sum()))
    assert sums == sorted(sums, reverse=True)
    assert sums[0] > 0
    assert sums[-1] == 0
    budgeted = solve(
        case.mdp, case.features, demonstrations=demos, beta=0.3, objective="likelihood", l1=0.0, budget=0.1
    )
    assert float(budgeted.weights.sum()) == pytest.approx(sums[2], abs=1e-6)


# Plug-in -------------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(cases(), st.sampled_from((0.02, 0.2, 1.0)), st.sampled_from((1, 10)), st.sampled_from((0.0, 1.0, 40.0)))
def test_plugin_is_always_feasible(case: Case, beta: float, number: int, sharpness: float) -> None:
    demos = demonstrations(case, number, sharpness)
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=beta, objective="plugin")
    assert solution.status == "optimal"
    assert solution.certificate.infeasibility <= 1e-6 * (1 + np.abs(solution.expert_moments).max())


@pytest.mark.parametrize("horizon", [None, 6])
def test_plugin_moments_are_those_of_the_smoothed_counts(horizon: int | None) -> None:
    case = make_case(2, horizon=horizon, n_terminal=1)
    demos = demonstrations(case, 10)
    counts = np.zeros((horizon or 200, *case.rewards.shape))
    for states, actions in demos:
        for t, (s, a) in enumerate(zip(states[:-1], actions, strict=True)):
            counts[t, s, a] += 1
    estimate = counts.sum(axis=0) + 2.5 * plan(case.mdp, case.rewards, 0.3).policy
    estimate = estimate / estimate.sum(axis=-1, keepdims=True)
    if horizon is not None:  # each time step on its own, smoothed by all together
        estimate = counts + 2.5 * estimate
        estimate = estimate / estimate.sum(axis=-1, keepdims=True)
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=0.3, objective="plugin", pseudo_count=2.5)
    np.testing.assert_allclose(solution.expert_moments, moments_by_hand(case, estimate), rtol=1e-9)


def test_plugin_with_little_data_falls_back_on_the_unconstrained_policy() -> None:
    case = make_case(2)
    demos = demonstrations(case, 1, length=2)
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=0.3, objective="plugin", pseudo_count=1e9)
    np.testing.assert_allclose(solution.policy, plan(case.mdp, case.rewards, 0.3).policy, atol=1e-5)


def test_plugin_with_endless_data_is_the_expert() -> None:
    case = make_case(2, dynamics="slip", features="pairs")
    case = case.changed(initial=np.full(5, 0.2))
    policy = case.random_policy()
    demos = simulate(case, policy, 300, 100)
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=0.3, objective="plugin", pseudo_count=0.1)
    exact = occupancy_by_hand(case, policy).ravel()
    assert np.abs(solution.expert_moments - exact).max() < 0.02 * exact.sum()
