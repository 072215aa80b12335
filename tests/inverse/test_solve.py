"""The exact method against independent solvers, on random problems of every kind and on gridworlds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import bounds, moments_by_hand, solve_by_cones
from strategies import Case, cases, make_case, simulate
from tacit.forward import soft_policy_iteration as spi
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse import exact_objectives
from tacit.inverse.exact_objectives import Geometry, MomentsDual
from tacit.tabular import MDP, Solution, feature_matrix, solve

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=120)
expert_kinds = st.sampled_from(("own", "mismatched", "almost deterministic"))
budget_kinds = st.sampled_from(("none", "small", "large", "one each"))


def expert_moments(case: Case, kind: str, beta: float) -> np.ndarray:
    """Moments of some policy, so that there is always a solution."""
    if kind == "own":
        weights = case.rng(1).exponential(size=case.n_features) * (case.rng(2).random(case.n_features) < 0.6)
        return moments_by_hand(case, plan(case.mdp, case.rewards - case.features @ weights, beta).policy)
    return moments_by_hand(case, case.random_policy(3, sharpness=1.0 if kind == "mismatched" else 40.0))


def budget_of(case: Case, kind: str) -> Any:
    return {"none": 0.0, "small": 1e-3, "large": 0.1, "one each": 0.1 * case.rng(4).random(case.n_features)}[kind]


def check_optimal(case: Case, solution: Solution, target: np.ndarray, budget: Any, beta: float) -> None:
    """Optimal by weak duality alone: an upper bound from the weights meets the value of the policy."""
    limit = target + budget
    assert solution.status == "optimal", solution.certificate.statement
    assert (solution.weights >= 0).all()
    shape = case.rewards.shape if case.horizon is None else (case.horizon, *case.rewards.shape)
    assert solution.policy.shape == shape
    np.testing.assert_allclose(solution.policy.sum(axis=-1), 1.0, atol=1e-9)
    np.testing.assert_allclose(solution.cost, case.features @ solution.weights, rtol=1e-9, atol=1e-9)
    found = bounds(case, solution.weights, solution.policy, limit, beta)
    size = max(abs(found.upper), float(np.abs(case.rewards).max()), beta)
    assert abs(found.upper - found.value) <= 1e-6 * size
    assert found.infeasibility <= 1e-6 * max(float(np.abs(limit).max()), float(np.abs(case.features).max()))
    np.testing.assert_allclose(
        solution.moments, moments_by_hand(case, solution.policy), rtol=1e-7, atol=1e-7 * (1 + np.abs(limit).max())
    )


def multipliers_are_unique(case: Case, solution: Solution, beta: float) -> bool:
    """Strict complementarity, and a Hessian without null directions among the positive multipliers."""
    mdp = case.mdp
    objective = MomentsDual(
        Geometry(mdp, feature_matrix(mdp, case.features)), solution.expert_moments + solution.budget
    )
    point = objective.at(solution.weights, beta, None)
    active = solution.weights > 1e-3
    if ((point.gradient < 1e-3) & ~active).any():
        return False
    if not active.any():
        return True
    values = np.linalg.eigvalsh(point.hessian[np.ix_(active, active)])
    return bool(values[0] > 1e-3 * max(1.0, values[-1]))


def compare_with_cones(case: Case, solution: Solution, target: np.ndarray, budget: Any, beta: float) -> bool:
    """Whether the cone solver could solve it; if so the answers must be the same."""
    oracle = solve_by_cones(case, target + budget, beta)
    if oracle.status != "optimal":
        return False
    assert oracle.multipliers is not None
    assert oracle.occupancy is not None
    scale = max(abs(oracle.value), float(np.abs(case.rewards).max()), beta)
    assert abs(solution.certificate.dual_value - oracle.value) <= 1e-6 * scale
    assert abs(solution.certificate.primal_value - oracle.value) <= 1e-6 * scale
    if multipliers_are_unique(case, solution, beta):
        largest = 1 + solution.weights.max()
        np.testing.assert_allclose(solution.weights, oracle.multipliers, atol=1e-4 * largest)
    return True


@EXAMPLES
@given(cases(), expert_kinds, budget_kinds, st.sampled_from((0.05, 0.3, 1.0)))
def test_agrees_with_the_cone_solver(case: Case, expert: str, kind: str, beta: float) -> None:
    target, budget = expert_moments(case, expert, beta), budget_of(case, kind)
    solution = solve(case.mdp, case.features, target, beta=beta, budget=budget)
    check_optimal(case, solution, target, budget, beta)
    compare_with_cones(case, solution, target, budget, beta)


def test_the_cone_solver_is_able_and_multipliers_are_compared() -> None:
    """Guards the test above: most of its examples must reach the comparison, and of the multipliers too."""
    solved = unique = binding = 0
    for seed in range(30):
        case = make_case(seed, n_features=1 + seed % 3, horizon=(None, 3)[seed % 2])
        target = expert_moments(case, "mismatched", 0.3)
        solution = solve(case.mdp, case.features, target, beta=0.3, budget=0.01)
        solved += compare_with_cones(case, solution, target, 0.01, 0.3)
        unique += multipliers_are_unique(case, solution, 0.3)
        binding += solution.weights.max() > 1e-3
    assert solved >= 28
    assert unique >= 15
    assert binding >= 15


@EXAMPLES
@given(cases(), expert_kinds, budget_kinds, st.sampled_from((1e-5, 1e-4, 1e-3)))
def test_small_entropy(case: Case, expert: str, kind: str, beta: float) -> None:
    target, budget = expert_moments(case, expert, beta), budget_of(case, kind)
    solution = solve(case.mdp, case.features, target, beta=beta, budget=budget)
    check_optimal(case, solution, target, budget, beta)


@pytest.mark.parametrize("beta", [1e-3, 1e-4])
@pytest.mark.parametrize("seed", range(6))
def test_small_entropy_agrees_with_the_cone_solver(seed: int, beta: float) -> None:
    case = make_case(seed, n_features=2, dynamics="slip", horizon=(None, 4)[seed % 2])
    target = expert_moments(case, "mismatched", beta)
    solution = solve(case.mdp, case.features, target, beta=beta, budget=0.01)
    check_optimal(case, solution, target, 0.01, beta)
    assert compare_with_cones(case, solution, target, 0.01, beta)


@settings(EXAMPLES, max_examples=30)
@given(
    cases(reward_scales=(1e-3, 1e3), feature_scales=(1e-3, 1e3), discounts=(0.5, 0.9, 0.999), horizons=(None, 3)),
    expert_kinds,
    st.sampled_from((1e-3, 0.1, 10.0)),
)
def test_units_do_not_matter(case: Case, expert: str, relative_beta: float) -> None:
    beta = relative_beta * max(float(np.abs(case.rewards).max()), 1e-9)
    target = moments_by_hand(case, case.random_policy(3)) if expert == "own" else expert_moments(case, expert, beta)
    budget = 1e-2 * float(np.abs(case.features).max())
    solution = solve(case.mdp, case.features, target, beta=beta, budget=budget)
    check_optimal(case, solution, target, budget, beta)


@pytest.mark.parametrize("seed", range(4))
def test_weights_scale_with_the_units(seed: int) -> None:
    """Rewards counted in cents and each feature in its own unit give the same policy and the weights to match."""
    case = make_case(seed, n_features=3)
    target = expert_moments(case, "mismatched", 0.2)
    plain = solve(case.mdp, case.features, target, beta=0.2, budget=0.01)
    reward, feature = 100.0, np.array([1e-3, 7.0, 2e3])
    scaled = case.changed(rewards=reward * case.rewards, features=feature * case.features)
    other = solve(scaled.mdp, scaled.features, target * feature, beta=0.2 * reward, budget=0.01 * feature)
    np.testing.assert_allclose(other.policy, plain.policy, atol=1e-6)
    np.testing.assert_allclose(other.weights * feature / reward, plain.weights, atol=1e-5)


# Forms of input ------------------------------------------------------------------------------------------------------


@settings(EXAMPLES, max_examples=20)
@given(cases(), expert_kinds)
def test_sparse_inputs_equal_dense_inputs(case: Case, expert: str) -> None:
    target = expert_moments(case, expert, 0.2)
    dense = solve(case.mdp, case.features, target, beta=0.2, budget=0.01)
    n_states = len(case.initial)
    transitions = sp.coo_array(case.transitions.reshape(-1, n_states))
    mdp = MDP(transitions, case.rewards, case.initial, case.discount, case.horizon, case.terminal)
    features = sp.csc_array(case.features.reshape(-1, case.n_features))
    sparse = solve(mdp, features, target, beta=0.2, budget=np.full(case.n_features, 0.01))
    np.testing.assert_array_equal(sparse.weights, dense.weights)
    np.testing.assert_array_equal(sparse.policy, dense.policy)


@pytest.mark.parametrize(("name", "kind"), [("state", "states"), ("state-action", "pairs")])
@pytest.mark.parametrize("horizon", [None, 5])
def test_one_hot_by_name(name: str, kind: str, horizon: int | None) -> None:
    case = make_case(3, features=kind, n_terminal=1, horizon=horizon)
    target = expert_moments(case, "mismatched", 0.2)
    named = solve(case.mdp, name, target, beta=0.2, budget=0.01)
    given_out = solve(case.mdp, case.features, target, beta=0.2, budget=0.01)
    np.testing.assert_array_equal(named.weights, given_out.weights)
    check_optimal(case, named, target, 0.01, 0.2)


def test_demonstrations_and_their_moments_are_the_same_problem() -> None:
    case = make_case(2, n_terminal=1)
    demos = simulate(case, case.random_policy(), 50, 40)
    target = np.zeros(case.n_features)
    for states, actions in demos:
        for t, (s, a) in enumerate(zip(states[:-1], actions, strict=True)):
            target += case.discount**t * case.features[s, a] / len(demos)
    from_demos = solve(case.mdp, case.features, demonstrations=demos, beta=0.3, budget=0.2)
    from_moments = solve(case.mdp, case.features, target, beta=0.3, budget=0.2)
    np.testing.assert_allclose(from_demos.expert_moments, target, rtol=1e-12)
    np.testing.assert_allclose(from_demos.weights, from_moments.weights, atol=1e-7)
    shorter = [(states[:-1], actions) for states, actions in demos]
    without_last = solve(case.mdp, case.features, demonstrations=shorter, beta=0.3, budget=0.2)
    np.testing.assert_array_equal(without_last.weights, from_demos.weights)


def test_budget_per_feature_binds_where_it_is_tight() -> None:
    case = make_case(5, n_features=2, features="positive")
    target = expert_moments(case, "mismatched", 0.2)
    assert solve(case.mdp, case.features, target, beta=0.2).weights.min() >= 0
    loose = solve(case.mdp, case.features, target, beta=0.2, budget=[100.0, 0.0])
    assert loose.weights[0] == 0
    check_optimal(case, loose, target, np.array([100.0, 0.0]), 0.2)
    free = solve(case.mdp, case.features, target, beta=0.2, budget=100.0)
    assert (free.weights == 0).all()
    np.testing.assert_allclose(free.policy, plan(case.mdp, case.rewards, 0.2).policy, atol=1e-9)


def test_the_same_call_gives_the_same_bits() -> None:
    case = make_case(7)
    target = expert_moments(case, "mismatched", 0.1)
    one, two = (solve(case.mdp, case.features, target, beta=0.1) for _ in range(2))
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.policy, two.policy)


def test_history_tells_every_iteration() -> None:
    case = make_case(7)
    solution = solve(case.mdp, case.features, expert_moments(case, "mismatched", 0.1), beta=0.1)
    assert [entry["iteration"] for entry in solution.history] == list(range(len(solution.history)))
    assert {"beta", "dual_value", "kkt", "gap", "infeasibility", "seconds"} <= set(solution.history[0])
    assert solution.history[-1]["kkt"] == pytest.approx(solution.certificate.kkt, abs=1e-9)
    assert solution.history[-1]["beta"] == 0.1


@pytest.mark.parametrize("horizon", [200, 400])
def test_a_long_horizon_has_the_solution_of_the_infinite_one(horizon: int) -> None:
    case = make_case(9, n_features=2, discount=0.9)
    target = expert_moments(case, "mismatched", 0.3)
    endless = solve(case.mdp, case.features, target, beta=0.3, budget=0.01)
    timed = solve(case.changed(horizon=horizon).mdp, case.features, target, beta=0.3, budget=0.01)
    assert endless.weights.max() > 1e-3
    np.testing.assert_allclose(timed.weights, endless.weights, atol=1e-5)
    np.testing.assert_allclose(timed.policy[0], endless.policy, atol=1e-5)


# Every way to solve the Newton system --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "horizon"),
    [("states", None), ("pairs", None), ("gaussian", None), ("states", 4), ("gaussian", 4), ("many", None)],
)
@pytest.mark.parametrize("n_terminal", [0, 2])
def test_dense_sparse_and_matrix_free_systems_agree(
    features: str, horizon: int | None, n_terminal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(11, n_states=12, dynamics="slip", features=features, horizon=horizon, n_terminal=n_terminal)
    target = expert_moments(case, "mismatched", 0.2)
    expected = solve(case.mdp, case.features, target, beta=0.2, budget=0.01)
    monkeypatch.setattr(exact_objectives, "DENSE_FEATURES", 0)
    monkeypatch.setattr(exact_objectives, "DENSE_ONE_HOT", 0)
    monkeypatch.setattr(spi, "DENSE_STATES", 0)
    used = set()

    def noted(name: str) -> Any:
        original = getattr(exact_objectives.DualPoint, name)

        def wrapper(*args: Any) -> Any:
            used.add(name)
            return original(*args)

        return wrapper

    for name in ("_solve_one_hot", "_solve_matrix_free"):
        monkeypatch.setattr(exact_objectives.DualPoint, name, noted(name))
    other = solve(case.mdp, case.features, target, beta=0.2, budget=0.01)
    assert used == {"_solve_one_hot" if (features, horizon) == ("states", None) else "_solve_matrix_free"}
    check_optimal(case, other, target, 0.01, 0.2)
    assert other.certificate.dual_value == pytest.approx(expected.certificate.dual_value, abs=1e-7)
    np.testing.assert_allclose(other.policy, expected.policy, atol=1e-4)


@pytest.mark.parametrize("n_terminal", [0, 1])
def test_newton_steps_of_all_systems_are_the_same(n_terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(12, n_states=10, features="states", dynamics="sparse", n_terminal=n_terminal)
    rng = case.rng(1)
    diagonal, rhs = rng.random(10) + 0.1, rng.normal(size=10)
    diagonal[3] = np.inf
    limit = expert_moments(case, "mismatched", 0.2)
    steps = []
    for dense_features, dense_one_hot in ((1000, 1000), (1000, 0), (0, 0)):
        monkeypatch.setattr(exact_objectives, "DENSE_FEATURES", dense_features)
        monkeypatch.setattr(exact_objectives, "DENSE_ONE_HOT", dense_one_hot)
        mdp = case.mdp
        geometry = Geometry(mdp, feature_matrix(mdp, "state"))
        if (dense_features, dense_one_hot) == (0, 0):
            geometry.one_hot_states = False
        point = MomentsDual(geometry, limit).at(np.full(10, 0.3), 0.2, None)
        steps.append(point.newton_solve(diagonal, rhs))
    assert steps[0][3] == 0
    np.testing.assert_allclose(steps[1], steps[0], atol=1e-6)
    np.testing.assert_allclose(steps[2], steps[0], atol=1e-4)


@pytest.mark.parametrize("features", ["states", "zeros", "pairs"])
@pytest.mark.parametrize("dynamics", ["deterministic", "disconnected", "chain"])
def test_no_system_minds_states_without_anything_to_decide(
    features: str, dynamics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One action: the Hessian is zero, and so is every step's curvature."""
    monkeypatch.setattr(exact_objectives, "DENSE_FEATURES", 0)
    monkeypatch.setattr(exact_objectives, "DENSE_ONE_HOT", 0)
    monkeypatch.setattr(spi, "DENSE_STATES", 0)
    for seed in range(5):
        case = make_case(seed, n_states=11, n_actions=1, dynamics=dynamics, features=features, discount=0.99)
        target = expert_moments(case, "mismatched", 0.1)
        for budget in (0.0, 0.1):
            solution = solve(case.mdp, case.features, target, beta=0.1, budget=budget)
            check_optimal(case, solution, target, budget, 0.1)


@pytest.mark.parametrize("horizon", [None, 3])
def test_conjugate_gradients_without_curvature(horizon: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_objectives, "DENSE_FEATURES", 0)
    case = make_case(1, n_actions=1, horizon=horizon)
    mdp = case.mdp
    point = MomentsDual(Geometry(mdp, feature_matrix(mdp, case.features)), np.ones(3)).at(np.ones(3), 0.1, None)
    assert np.abs(point.hessian).max() < 1e-12
    step = point.newton_solve(np.array([0.0, 0.5, np.inf]), np.ones(3))
    assert np.isfinite(step).all()
    assert step[1] == pytest.approx(2.0, rel=1e-3)
    assert step[2] == 0


# Hard problems -------------------------------------------------------------------------------------------------------


@settings(EXAMPLES, max_examples=40)
@given(
    cases(dynamics=("deterministic", "loops", "chain"), features=("states", "pairs", "binary", "duplicate")),
    expert_kinds,
    st.sampled_from((0.01, 0.1, 1.0)),
)
def test_budget_zero_on_deterministic_dynamics(case: Case, expert: str, beta: float) -> None:
    """No interior: the limits of pairs that the expert avoids are zero, and some multipliers ought to be infinite."""
    target = expert_moments(case, expert, beta)
    check_optimal(case, solve(case.mdp, case.features, target, beta=beta), target, 0.0, beta)


def test_an_expert_that_never_takes_an_action_has_an_infinite_multiplier() -> None:
    """One state, two actions, the better one never taken: no finite multiplier is exact, the answer is still good."""
    case = make_case(0, n_states=1, n_actions=2, features="pairs")
    case = case.changed(rewards=np.array([[1.0, 0.0]]))
    target = np.array([0.0, 10.0])
    solution = solve(case.mdp, case.features, target, beta=0.1)
    check_optimal(case, solution, target, 0.0, 0.1)
    assert solution.policy[0, 0] < 1e-6
    assert solution.weights[0] > 1.0


REGRESSIONS: list[tuple[Case, float, float]] = [
    # Every feature is zero wherever the agent can go.
    (make_case(202, n_states=2, n_actions=1, n_features=1, features="zeros", n_terminal=1), 0.1, 0.0),
    # Small rewards and large features: weights of 1e-6 are not zero.
    (make_case(141, dynamics="loops", horizon=1, reward_scale=1e-3, feature_scale=1e3), 1e-7, 100.0),
    # Values of 1e4, differences of 1e-8: rounding must not hold up the barrier.
    (make_case(70996, n_states=1, n_actions=2, dynamics="slip", features="binary", discount=0.999), 1e-3, 1e-4),
    (make_case(725532, n_states=7, dynamics="loops", features="states", discount=0.99, n_terminal=2), 1e-4, 0.0),
    # Moments of 1e-153.
    (make_case(608293, n_states=4, dynamics="deterministic", features="binary", discount=0.999), 1e-2, 0.0),
    # Weight and gradient vanish together; the last phase must not make it worse.
    (make_case(403, n_actions=4, n_features=6, dynamics="deterministic", n_terminal=2), 1.0, 0.0),
    (make_case(369, n_actions=4, n_features=6, dynamics="loops", n_terminal=2, horizon=1), 10.0, 0.0),
]


@pytest.mark.parametrize(("case", "beta", "budget"), REGRESSIONS)
@pytest.mark.parametrize("expert", ["own", "mismatched", "almost deterministic"])
def test_problems_that_once_went_wrong(case: Case, beta: float, budget: float, expert: str) -> None:
    target = expert_moments(case, expert, beta)
    started = time.process_time()
    solution = solve(case.mdp, case.features, target, beta=beta, budget=budget)
    assert time.process_time() - started < 5.0
    assert len(solution.history) < 300
    check_optimal(case, solution, target, budget, beta)
