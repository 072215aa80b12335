"""What no demonstration can reveal: the null space of the dual's Hessian, and the cells that cannot be known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import moments_by_hand, occupancy_by_hand
from strategies import Case, cases, make_case, simulate
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse.identifiability import Identifiability, identifiability
from tacit.tabular import Solution, solve

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=30)


def solved(case: Case, beta: float = 0.5) -> Solution:
    return solve(case.mdp, case.features, moments_by_hand(case, case.random_policy()), beta=beta, budget=0.01)


def known(case: Case, beta: float = 0.5, n_demonstrations: int | None = None) -> Identifiability:
    return identifiability(case.mdp, solved(case, beta), n_demonstrations)


@EXAMPLES
@given(cases(), st.sampled_from((0.2, 1.0)))
def test_moving_along_the_null_space_changes_no_policy(case: Case, beta: float) -> None:
    solution = solved(case, beta)
    found = identifiability(case.mdp, solution)
    k, r = found.null_space.shape
    assert (k, found.rank + r, len(found.eigenvalues)) == (case.n_features,) * 3
    np.testing.assert_allclose(found.null_space.T @ found.null_space, np.eye(r), atol=1e-8)
    if r == 0:
        return
    visits = occupancy_by_hand(case, solution.policy).sum(axis=-1)
    direction = found.null_space @ case.rng(1).normal(size=r)
    for step in (0.1, -1.0):
        moved = plan(case.mdp, case.rewards - case.features @ (solution.weights + step * direction), beta).policy
        change = np.abs(moved - solution.policy).max(axis=-1)
        assert float((visits * change).max()) <= 1e-4 * visits.sum()


@EXAMPLES
@given(cases(features=("gaussian", "positive", "states")), st.sampled_from((0.2, 1.0)))
def test_moving_anywhere_else_changes_the_policy(case: Case, beta: float) -> None:
    solution = solved(case, beta)
    found = identifiability(case.mdp, solution)
    if found.rank == 0 or found.eigenvalues[-1] < 1e-3:
        return
    # The most telling direction is orthogonal to the null space.
    direction = _most_telling(case, solution, beta)
    assert np.abs(found.null_space.T @ direction).max(initial=0.0) < 1e-6
    visits = occupancy_by_hand(case, solution.policy).sum(axis=-1)
    moved = plan(case.mdp, case.rewards - case.features @ (solution.weights + direction), beta).policy
    assert float((visits * np.abs(moved - solution.policy).max(axis=-1)).max()) > 1e-5


def _most_telling(case: Case, solution: Solution, beta: float) -> np.ndarray:
    """The eigenvector of the largest eigenvalue, from finite differences of moments."""
    columns = []
    for unit in np.eye(case.n_features):
        both = [
            moments_by_hand(
                case, plan(case.mdp, case.rewards - case.features @ (solution.weights + s * 1e-5 * unit), beta).policy
            )
            for s in (1, -1)
        ]
        columns.append((both[1] - both[0]) / 2e-5)
    hessian = np.array(columns)
    return np.linalg.eigh((hessian + hessian.T) / 2)[1][:, -1]


@pytest.mark.parametrize("horizon", [None, 6])
def test_a_constant_cost_is_hidden_when_all_episodes_last_equally_long(horizon: int | None) -> None:
    endless = make_case(3, features="states", horizon=horizon)
    gauge = np.ones(5) / np.sqrt(5)
    null = known(endless).null_space
    np.testing.assert_allclose(null @ (null.T @ gauge), gauge, atol=1e-6)
    ends = make_case(3, features="states", horizon=horizon, n_terminal=1)
    null = known(ends).null_space
    alive = np.array([1.0, 1, 1, 1, 0]) / 2
    assert np.linalg.norm(null @ (null.T @ alive)) < 0.9, "ending the episode early avoids a constant cost"


def test_duplicate_features_cannot_be_told_apart() -> None:
    null = known(make_case(2, features="duplicate", n_features=3)).null_space
    difference = np.array([1.0, 0.0, -1.0]) / np.sqrt(2)
    np.testing.assert_allclose(null @ (null.T @ difference), difference, atol=1e-6)


def test_states_that_cannot_be_reached_are_unknown() -> None:
    case = make_case(1, dynamics="disconnected", features="states", n_states=6)
    found = known(case)
    np.testing.assert_allclose(found.unknown[3:], 1.0, atol=1e-9)
    assert (found.unknown[:3] < 1 - 1e-6).any()


def test_terminal_states_are_unknown() -> None:
    case = make_case(1, features="states", n_terminal=2)
    np.testing.assert_allclose(known(case).unknown[-2:], 1.0, atol=1e-9)


def test_more_demonstrations_reveal_more_and_infinitely_many_not_all() -> None:
    case = make_case(3, features="states", dynamics="slip")
    shares = [known(case, n_demonstrations=number).unknown.sum() for number in (1, 10, 1000, 10**9)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1]
    assert shares[-1] == pytest.approx(known(case).unknown.sum(), abs=1e-6)
    assert known(case).unknown.sum() == pytest.approx(1.0, abs=1e-6), "only the constant is hidden"


def test_one_action_reveals_nothing() -> None:
    found = known(make_case(1, n_actions=1, features="gaussian"))
    assert found.rank == 0
    np.testing.assert_allclose(found.unknown, 1.0)


def test_of_a_likelihood_too() -> None:
    case = make_case(3, features="states", dynamics="slip")
    demos = simulate(case, case.random_policy(), 20, 40)
    solution = solve(case.mdp, "state", demonstrations=demos, beta=0.5, objective="likelihood")
    assert identifiability(case.mdp, solution, 20).null_space.shape == (5, 1)


def test_an_infeasible_problem_is_refused() -> None:
    case = make_case(0)
    solution = solve(case.mdp, case.features, np.full(3, -1e3), beta=0.5)
    with pytest.raises(ValueError, match="infeasible"):
        identifiability(case.mdp, solution)
