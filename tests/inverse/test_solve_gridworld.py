"""The exact method on gridworlds: small entropy, no budget, finite horizons, all objectives, both planners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle import bounds, moments_by_hand
from strategies import Case, simulate
from tacit.envs.gridworld import GridworldSpec, make_spec
from tacit.forward import soft_policy_iteration as spi
from tacit.forward.soft_policy_iteration import occupancy, plan
from tacit.inverse import exact_objectives
from tacit.inverse.certificate import certify_policy
from tacit.tabular import MDP, Solution, feature_matrix, solve

EXPERT_BETA, EXPERT_WEIGHT = 0.1, 20.0


def case_of(mdp: MDP, features: Any = "state") -> Case:
    """The arrays of a model, for the oracles."""
    shape = (*mdp.rewards.shape, -1)
    return Case(
        transitions=mdp.transitions.toarray().reshape(shape),
        rewards=mdp.rewards,
        initial=mdp.initial,
        discount=mdp.discount,
        terminal=mdp.terminal,
        features=feature_matrix(mdp, features).toarray().reshape(shape),
        horizon=mdp.horizon,
        seed=0,
    )


def expert_of(spec: GridworldSpec, mdp: MDP) -> np.ndarray:
    return plan(mdp, mdp.rewards - EXPERT_WEIGHT * spec.constrained[:, None], EXPERT_BETA).policy


def check(case: Case, solution: Solution, target: np.ndarray, budget: float, beta: float) -> None:
    assert solution.status == "optimal", solution.certificate.statement
    found = bounds(case, solution.weights, solution.policy, target + budget, beta)
    assert abs(found.upper - found.value) <= 1e-6 * (1 + abs(found.upper))
    assert found.infeasibility <= 1e-6
    assert solution.certificate.kkt <= 1e-6


def violations(spec: GridworldSpec, mdp: MDP, policy: np.ndarray) -> float:
    visits = occupancy(mdp, policy).reshape(-1, *mdp.rewards.shape).sum(axis=(0, 2))
    return float(visits[spec.constrained].sum())


@pytest.mark.parametrize("beta", [1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("slip", [0.0, 0.1, 0.5])
def test_any_entropy_down_to_1e_5(beta: float, slip: float) -> None:
    spec = make_spec("wall-1", slip=slip)
    mdp = spec.model()
    case = case_of(mdp)
    target = moments_by_hand(case, expert_of(spec, mdp))
    solution = solve(mdp, "state", target, beta=beta, budget=1e-3)
    check(case, solution, target, 1e-3, beta)
    assert violations(spec, mdp, solution.policy) <= float(target[spec.constrained].sum()) + 1e-2
    assert violations(spec, mdp, plan(mdp, mdp.rewards, beta).policy) > 0.1, "unconstrained, it goes through"


@pytest.mark.parametrize("layout", ["wall-2", "wall-3", "wall-4", "paper", "far-wall"])
@pytest.mark.parametrize("beta", [0.1, 1e-5])
def test_every_layout(layout: str, beta: float) -> None:
    spec = make_spec(layout, slip=0.2)
    mdp = spec.model()
    case = case_of(mdp)
    target = moments_by_hand(case, expert_of(spec, mdp))
    check(case, solve(mdp, "state", target, beta=beta, budget=1e-3), target, 1e-3, beta)


@pytest.mark.parametrize("beta", [0.1, 1e-3])
def test_state_action_features(beta: float) -> None:
    spec = make_spec("wall-1", slip=0.1)
    mdp = spec.model()
    case = case_of(mdp, "state-action")
    target = moments_by_hand(case, expert_of(spec, mdp))
    check(case, solve(mdp, "state-action", target, beta=beta, budget=1e-3), target, 1e-3, beta)


@pytest.mark.parametrize("layout", ["wall-1", "wall-2", "paper"])
@pytest.mark.parametrize("beta", [0.1, 0.01])
def test_budget_zero_without_slip(layout: str, beta: float) -> None:
    """The paper's setting where it works: deterministic moves, 50 demonstrations, no budget at all."""
    spec = make_spec(layout, slip=0.0)
    mdp = spec.model()
    case = case_of(mdp)
    demos = simulate(case, expert_of(spec, mdp), 50, 400)
    assert all(mdp.terminal[states[-1]] for states, _ in demos)
    solution = solve(mdp, "state", demonstrations=demos, beta=beta)
    check(case, solution, solution.expert_moments, 0.0, beta)
    assert violations(spec, mdp, solution.policy) < 1e-6


@pytest.mark.parametrize("beta", [0.1, 1e-3])
def test_a_finite_horizon(beta: float) -> None:
    spec = make_spec("wall-1", slip=0.1)
    mdp = spec.model(horizon=30)
    assert mdp.horizon == 30
    case = case_of(mdp)
    target = moments_by_hand(case, expert_of(spec, mdp))
    solution = solve(mdp, "state", target, beta=beta, budget=1e-2)
    check(case, solution, target, 1e-2, beta)


@pytest.mark.parametrize("slip", [0.0, 0.3])
@pytest.mark.parametrize("objective", ["likelihood", "plugin"])
def test_objectives_that_always_have_a_solution(slip: float, objective: str) -> None:
    """50 demonstrations: most of the violations of the unconstrained agent must go."""
    spec = make_spec("wall-1", slip=slip)
    mdp = spec.model()
    case, expert = case_of(mdp), expert_of(spec, mdp)
    demos = simulate(case, expert, 50, 400)
    solution = solve(mdp, "state", demonstrations=demos, beta=EXPERT_BETA, objective=objective)
    assert solution.status in ("optimal", "stationary")
    free = violations(spec, mdp, plan(mdp, mdp.rewards, EXPERT_BETA).policy)
    own = violations(spec, mdp, expert)
    assert violations(spec, mdp, solution.policy) <= own + 0.2 * (free - own)


def test_sparse_and_dense_systems_on_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_spec("paper", slip=0.2)
    mdp = spec.model()
    case = case_of(mdp)
    target = moments_by_hand(case, expert_of(spec, mdp))
    dense = solve(mdp, "state", target, beta=0.1, budget=1e-3)
    monkeypatch.setattr(spi, "DENSE_STATES", 0)
    monkeypatch.setattr(exact_objectives, "DENSE_ONE_HOT", 0)
    sparse = solve(spec.model(), "state", target, beta=0.1, budget=1e-3)
    check(case, sparse, target, 1e-3, 0.1)
    np.testing.assert_allclose(sparse.policy, dense.policy, atol=1e-4)
    loss = certify_policy(mdp, dense.cost, 0.1, sparse.policy)
    assert loss.loss == pytest.approx(0.0, abs=1e-7)


def test_the_gradient_of_the_paper_is_slow_but_sound() -> None:
    spec = make_spec("wall-1", slip=0.1)
    mdp = spec.model()
    case = case_of(mdp)
    target = moments_by_hand(case, expert_of(spec, mdp))
    newton = solve(mdp, "state", target, beta=0.1, budget=1e-2)
    slow = solve(mdp, "state", target, beta=0.1, budget=1e-2, method="gradient", max_iterations=400)
    assert slow.status == "iteration limit"
    assert len(slow.history) == 400
    assert slow.history[0]["largest_weight"] == 1.0, "it starts from one, as in the paper"
    assert slow.history[-1]["dual_value"] < slow.history[0]["dual_value"]
    assert slow.certificate.dual_value >= newton.certificate.primal_value - 1e-7


def test_forty_by_forty_with_the_sparse_system() -> None:
    from benchmarks.maps import large_map

    spec = make_spec(large_map(40), slip=0.2, moves=8)
    mdp = spec.model()
    policy = plan(mdp, mdp.rewards - 80.0 * spec.constrained[:, None], 0.1).policy
    target = occupancy(mdp, policy).sum(axis=1)
    solution = solve(mdp, "state", target, beta=0.1, budget=1e-3)
    assert solution.status == "optimal"
    assert solution.certificate.kkt <= 1e-8
    assert solution.certificate.infeasibility <= 1e-8
