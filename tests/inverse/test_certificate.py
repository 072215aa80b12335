"""The certificate: each number is what it says, at any weights, and re-computed here from definitions."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from oracle import bounds, moments_by_hand, occupancy_by_hand, solve_by_cones
from strategies import Case, cases, make_case, simulate
from tacit.forward.soft_policy_iteration import evaluate_policy, plan
from tacit.inverse.certificate import Certificate, certify_policy, is_optimal, of_point
from tacit.inverse.exact_objectives import Geometry, MomentsDual
from tacit.tabular import feature_matrix, solve

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=80)
betas = st.sampled_from((0.05, 0.5, 2.0))


def certificate_at(
    case: Case, weights: np.ndarray, target: np.ndarray, budget: np.ndarray, beta: float
) -> tuple[Certificate, np.ndarray]:
    """The certificate of any weights, optimal or not, and their policy."""
    mdp = case.mdp
    point = MomentsDual(Geometry(mdp, feature_matrix(mdp, case.features)), target + budget).at(weights, beta, None)
    return of_point(mdp, point, target, budget, "moments", converged=False), point.plan.policy


def some_weights(case: Case) -> np.ndarray:
    """(k,) some of them zero"""
    return case.rng(1).exponential(size=case.n_features) * (case.rng(2).random(case.n_features) < 0.7)


@EXAMPLES
@given(cases(), betas)
def test_gap_infeasibility_and_residual_at_any_weights(case: Case, beta: float) -> None:
    weights, target = some_weights(case), moments_by_hand(case, case.random_policy())
    budget = 0.1 * case.rng(3).random(case.n_features)
    certificate, policy = certificate_at(case, weights, target, budget, beta)
    by_hand = bounds(case, weights, policy, target + budget, beta)
    gradient = target + budget - moments_by_hand(case, policy)
    size = 1 + abs(by_hand.upper)
    assert certificate.dual_value == pytest.approx(by_hand.upper, abs=1e-8 * size)
    assert certificate.primal_value == pytest.approx(by_hand.value, abs=1e-8 * size)
    assert certificate.gap == pytest.approx(by_hand.upper - by_hand.value, abs=1e-8 * size)
    assert certificate.gap == pytest.approx(float(weights @ gradient), abs=1e-8 * size)
    assert certificate.infeasibility == pytest.approx(by_hand.infeasibility, abs=1e-9 * size)
    assert certificate.complementarity == pytest.approx(float(weights @ np.abs(gradient)), abs=1e-8 * size)
    projected = np.abs(weights - np.maximum(weights - gradient, 0.0)).max()
    assert certificate.kkt == pytest.approx(float(projected), abs=1e-9 * size)
    assert certificate.planner_residual <= 1e-10 * size


@EXAMPLES
@given(cases(), betas)
def test_any_weights_bound_every_feasible_policy(case: Case, beta: float) -> None:
    """Weak duality: the expert itself is feasible for its own moments."""
    expert = case.random_policy(4)
    target = moments_by_hand(case, expert)
    certificate, _ = certificate_at(case, some_weights(case), target, np.zeros(case.n_features), beta)
    value = evaluate_policy(case.mdp, expert, case.rewards, beta)
    start = np.where(case.terminal, 0.0, case.initial)
    achieved = float(start @ (value if case.horizon is None else value[0]))
    assert certificate.dual_value >= achieved - 1e-9 * (1 + abs(achieved))


@settings(EXAMPLES, max_examples=25)
@given(cases(features=("gaussian", "positive", "binary", "states"), max_states=4), st.sampled_from((0.2, 1.0)))
def test_backward_error_is_a_budget_for_which_the_policy_is_optimal(case: Case, beta: float) -> None:
    weights, target = some_weights(case), moments_by_hand(case, case.random_policy())
    budget = np.full(case.n_features, 0.05)
    certificate, policy = certificate_at(case, weights, target, budget, beta)
    excess = moments_by_hand(case, policy) - target
    other = np.where(weights > 0, excess, np.maximum(budget, excess))
    assert certificate.backward_error == pytest.approx(float(np.abs(other - budget).max()), abs=1e-9)
    oracle = solve_by_cones(case, target + other, beta)
    if oracle.status != "optimal":
        return  # a problem without interior, which the cone solver may not manage
    assert certificate.primal_value == pytest.approx(oracle.value, abs=2e-6 * (1 + abs(oracle.value)))


@pytest.mark.parametrize("seed", range(5))
def test_backward_error_is_checked_by_the_cone_solver_in_earnest(seed: int) -> None:
    case = make_case(seed, n_features=2, dynamics="dense")
    weights, target = np.array([0.5, 0.2]), moments_by_hand(case, case.random_policy())
    certificate, policy = certificate_at(case, weights, target, np.zeros(2), 0.5)
    oracle = solve_by_cones(case, moments_by_hand(case, policy), 0.5)
    assert oracle.status == "optimal"
    assert oracle.multipliers is not None
    assert certificate.primal_value == pytest.approx(oracle.value, rel=1e-7, abs=1e-7)
    np.testing.assert_allclose(oracle.multipliers, weights, atol=1e-4)


def test_a_solution_is_certified_in_plain_numbers() -> None:
    case = make_case(1)
    solution = solve(case.mdp, case.features, moments_by_hand(case, case.random_policy()), beta=0.2, budget=0.01)
    certificate = solution.certificate
    assert certificate.status == solution.status == "optimal"
    for name in ("gap", "kkt", "infeasibility", "complementarity", "planner_residual", "backward_error", "dual_value"):
        assert type(getattr(certificate, name)) is float
        assert math.isfinite(getattr(certificate, name))
    assert certificate.kkt <= 1e-8
    assert abs(certificate.gap) <= 1e-7
    assert certificate.backward_error <= 1e-7
    assert json.loads(json.dumps(certificate.to_dict()))["status"] == "optimal"
    assert "Certified" in certificate.statement


@pytest.mark.parametrize(
    ("weights", "gradient", "optimal"),
    [
        ([0.0, 0.0], [0.0, 3.0], True),  # nothing binds
        ([1.0, 0.0], [0.0, 3.0], True),  # the first limit is met exactly
        ([0.0, 0.0], [-1e-3, 3.0], False),  # infeasible, though there is no gap
        ([1.0, 0.0], [1e-3, 3.0], False),  # not complementary
        ([1e-10, 0.0], [3.0, 3.0], True),  # a trace of a weight that should be zero
        ([1e9, 0.0], [1e-9, 3.0], False),  # met to nine digits, and still a gap of one
        ([1e7, 1.0], [-1e-8, 0.1], False),  # gaps that cancel
        ([1e7, 1e7], [-1e-8, 1e-8], True),  # at the edge of feasibility: huge weights, every limit met
    ],
)
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_what_counts_as_optimal(weights: list[float], gradient: list[float], optimal: bool, unit: float) -> None:
    """Rewards of size one and features of size `unit`; the limits are one feature's worth."""
    geometry = SimpleNamespace(feature_units=np.full(2, unit), reward_unit=lambda beta: 1.0)
    problem: Any = SimpleNamespace(geometry=geometry, limit=np.full(2, unit))
    point: Any = SimpleNamespace(
        weights=np.array(weights) / unit, gradient=np.array(gradient) * unit, value=1.0, beta=0.1
    )
    assert is_optimal(problem, point, 1e-9) is optimal


@pytest.mark.parametrize("method", ["newton", "gradient"])
def test_stopping_early_is_said_and_still_bounds(method: str) -> None:
    case = make_case(1, discount=0.97)
    target = moments_by_hand(case, case.random_policy())
    whole = solve(case.mdp, case.features, target, beta=0.05, budget=1e-3)
    partial = solve(case.mdp, case.features, target, beta=0.05, budget=1e-3, method=method, max_iterations=3)
    assert partial.status == partial.certificate.status == "iteration limit"
    assert "Not converged" in partial.certificate.statement
    assert partial.certificate.kkt > 1e-6
    assert partial.certificate.beta == 0.05
    assert partial.certificate.dual_value >= whole.certificate.primal_value - 1e-7
    by_hand = bounds(case, partial.weights, partial.policy, target + 1e-3, 0.05)
    assert partial.certificate.dual_value == pytest.approx(by_hand.upper, rel=1e-7)


def test_a_likelihood_has_no_gap_and_says_so() -> None:
    case = make_case(1)
    demos = simulate(case, case.random_policy(), 20, 20)
    certificate = solve(case.mdp, case.features, demonstrations=demos, beta=0.3, objective="likelihood").certificate
    assert certificate.status == "stationary"
    assert math.isnan(certificate.gap)
    assert math.isnan(certificate.infeasibility)
    assert math.isnan(certificate.backward_error)
    assert "not convex" in certificate.statement
    assert certificate.kkt <= 1e-8


# The certificate of another policy -----------------------------------------------------------------------------------


@EXAMPLES
@given(cases(), betas, st.sampled_from((0.0, 1.0, 30.0)))
def test_what_a_policy_loses_is_its_divergence(case: Case, beta: float, sharpness: float) -> None:
    """V - V^q = beta E_q[sum gamma^t KL(q || pi)], exactly."""
    mdp, policy = case.mdp, case.random_policy(5, sharpness=sharpness)
    cost = np.abs(case.features).sum(axis=2)
    found = certify_policy(mdp, cost, beta, policy)
    size = 1 + abs(found.loss)
    assert found.loss == pytest.approx(found.divergence, abs=1e-8 * size)
    assert found.loss >= -1e-9 * size
    best = plan(mdp, case.rewards - cost, beta)
    visits = occupancy_by_hand(case, policy).sum(axis=-1)
    kl = (xlogy(policy, policy) - policy * best.log_policy).sum(axis=-1)
    assert found.divergence == pytest.approx(beta * float((visits * kl).sum()), abs=1e-8 * size)
    if visits.sum() > 0:
        assert found.kl_per_step == pytest.approx(float((visits * kl).sum() / visits.sum()), abs=1e-8 * size)


@pytest.mark.parametrize("horizon", [None, 5])
def test_the_optimal_policy_loses_nothing_and_a_deterministic_one_something(horizon: int | None) -> None:
    case = make_case(2, horizon=horizon)
    mdp, cost = case.mdp, np.zeros_like(case.rewards)
    best = plan(mdp, case.rewards, 0.3).policy
    assert certify_policy(mdp, cost, 0.3, best).loss == pytest.approx(0.0, abs=1e-10)
    greedy = (best == best.max(axis=-1, keepdims=True)).astype(float)
    found = certify_policy(mdp, cost, 0.3, greedy)
    assert found.loss > 1e-3
    assert found.loss == pytest.approx(found.divergence, rel=1e-9)


def test_a_policy_without_time_is_judged_over_a_horizon() -> None:
    case = make_case(3, horizon=4)
    stationary = case.changed(horizon=None).random_policy()
    timed = np.broadcast_to(stationary, (4, *stationary.shape))
    cost = np.zeros_like(case.rewards)
    one, two = (certify_policy(case.mdp, cost, 0.3, policy) for policy in (stationary, timed))
    assert one == two
    assert one.loss == pytest.approx(one.divergence, rel=1e-9)


def test_tiny_entropy_and_a_policy_that_the_optimum_excludes() -> None:
    """exp underflows; the logarithm does not."""
    case = make_case(4)
    worst = np.zeros_like(case.rewards)
    worst[np.arange(5), plan(case.mdp, case.rewards, 1e-5).q.argmin(axis=1)] = 1.0
    found = certify_policy(case.mdp, np.zeros_like(case.rewards), 1e-5, worst)
    assert math.isfinite(found.loss)
    assert found.loss == pytest.approx(found.divergence, rel=1e-8)


def test_an_episode_that_is_over_before_it_starts_loses_nothing() -> None:
    case = make_case(3, n_terminal=1)
    case = case.changed(initial=np.eye(5)[-1])
    found = certify_policy(case.mdp, np.zeros_like(case.rewards), 0.3, case.random_policy())
    assert (found.loss, found.divergence, found.kl_per_step) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((5, 2), 0.5), r"policy has shape \(5, 2\), expected \(5, 3\)"),
        (np.full((5, 3), 0.5), "sum to 1"),
        (np.full((5, 3), np.nan), "sum to 1"),
        (np.tile([2.0, -1.0, 0.0], (5, 1)), ">= 0"),
    ],
)
def test_what_is_not_a_policy_is_refused(policy: np.ndarray, message: str) -> None:
    case = make_case(3)
    with pytest.raises(ValueError, match=message):
        certify_policy(case.mdp, np.zeros_like(case.rewards), 0.3, policy)


def test_a_cost_of_the_wrong_shape_is_refused() -> None:
    case = make_case(3)
    with pytest.raises(ValueError, match="cost has shape"):
        certify_policy(case.mdp, np.zeros(5), 0.3, case.random_policy())
