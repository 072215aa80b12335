"""Problems without a solution: decided, proved, explained; and the budgets that would do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import bounds, least_uniform_slack, moments_by_hand, solve_by_cones
from strategies import Case, cases, make_case, simulate
from tacit.envs.gridworld import make_spec
from tacit.evaluate import reachable_states
from tacit.forward.soft_policy_iteration import occupancy, plan
from tacit.inverse import feasibility
from tacit.tabular import Solution, feature_matrix, solve

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=120)


def some_limit(case: Case, kind: str) -> np.ndarray:
    """Limits of which about half are impossible."""
    if kind == "demonstrations":
        demos = simulate(case, case.random_policy(sharpness=3.0), 4, 30)
        sums = np.zeros(case.n_features)
        for states, actions in demos:
            sums += (case.discount ** np.arange(len(actions))) @ case.features[states[:-1], actions]
        return sums / len(demos)
    shift = {"moved": 1.0, "lowered": 0.1}[kind]
    return moments_by_hand(case, case.random_policy()) + shift * case.rng(5).normal(size=case.n_features) - 0.05


def check_proof(case: Case, solution: Solution, limit: np.ndarray) -> None:
    """The Farkas vector, verified by a linear program that is written out independently."""
    diagnosis = solution.diagnosis
    assert diagnosis is not None
    ray = diagnosis.farkas
    assert (ray >= 0).all()
    assert ray.sum() == pytest.approx(1.0)
    # One feature, y.phi: the least that any policy can have of it is the program's least slack above zero.
    combined = case.changed(features=(case.features @ ray)[:, :, None])
    least = least_uniform_slack(combined, np.zeros(1))
    assert least > float(ray @ limit)
    assert diagnosis.least_cost == pytest.approx(least, rel=1e-6, abs=1e-9)
    assert diagnosis.allowed_cost == pytest.approx(float(ray @ limit), rel=1e-9, abs=1e-12)
    assert diagnosis.violation > 0
    assert set(diagnosis.to_blame) <= set(np.flatnonzero(ray))
    assert ray[list(diagnosis.to_blame)].sum() >= 0.9 - 1e-9
    assert np.isnan(solution.policy).all()
    assert np.isnan(solution.weights).all()
    assert np.isnan(solution.cost).all()
    assert solution.certificate.status == "infeasible"
    assert solution.certificate.statement.startswith("No policy can satisfy")


@EXAMPLES
@given(cases(), st.sampled_from(("demonstrations", "moved", "lowered")), st.sampled_from((1e-3, 0.1, 1.0)))
def test_status_agrees_with_a_linear_program(case: Case, kind: str, beta: float) -> None:
    limit = some_limit(case, kind)
    slack = least_uniform_slack(case, limit)
    solution = solve(case.mdp, case.features, limit, beta=beta)
    if slack > 1e-7:
        assert solution.status == "infeasible"
        check_proof(case, solution, limit)
        assert solution.diagnosis is not None
        assert solution.diagnosis.uniform_slack == pytest.approx(slack, rel=1e-6, abs=1e-9)
    elif slack < 0:
        assert solution.status == "optimal"
        found = bounds(case, solution.weights, solution.policy, limit, beta)
        assert abs(found.upper - found.value) <= 1e-6 * (1 + abs(found.upper))


def test_the_cone_solver_agrees_and_both_answers_occur() -> None:
    said = set()
    for seed in range(20):
        case = make_case(seed, n_states=4, dynamics="slip", n_features=2, horizon=(None, 3)[seed % 2])
        limit = some_limit(case, "moved")
        solution = solve(case.mdp, case.features, limit, beta=0.3)
        assert (solution.status == "infeasible") == ("infeasible" in solve_by_cones(case, limit, 0.3).status)
        said.add(solution.status)
    assert said == {"optimal", "infeasible"}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", ["newton", "gradient"])
def test_without_the_linear_program_the_weights_prove_it(
    seed: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large problems: the diverging weights themselves are the proof, or the program decides in the end."""
    case = make_case(seed, n_states=6, dynamics="slip", features="states", horizon=(None, 5)[seed % 2])
    limit = some_limit(case, "demonstrations")
    if least_uniform_slack(case, limit) <= 1e-7:
        limit = limit - 0.05
    monkeypatch.setattr(feasibility, "SMALL", 0)
    if method == "newton":
        monkeypatch.setattr(feasibility, "LARGE", 0)
    solution = solve(case.mdp, case.features, limit, beta=0.1, method=method, max_iterations=200)
    assert solution.status == "infeasible"
    check_proof(case, solution, limit)
    assert solution.diagnosis is not None
    least = least_uniform_slack(case, limit)
    assert solution.diagnosis.uniform_slack is not None
    if method == "newton":  # without the program: enough, but not the least
        assert solution.diagnosis.uniform_slack >= least - 1e-9
        monkeypatch.undo()
        enough = solve(case.mdp, case.features, limit, beta=0.1, budget=solution.diagnosis.uniform_slack + 1e-9)
        assert enough.status == "optimal"
    else:
        assert solution.diagnosis.uniform_slack == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_verdict_does_not_depend_on_units(scale: float) -> None:
    case = make_case(0, n_states=6, dynamics="slip", features="states")
    limit = some_limit(case, "demonstrations")
    columns = scale * np.array([1.0, 1e-3, 1e3, 1.0, 1.0, 1.0])
    scaled = case.changed(features=case.features * columns)
    solution = solve(scaled.mdp, scaled.features, limit * columns, beta=0.1)
    assert solution.status == "infeasible"
    check_proof(scaled, solution, limit * columns)
    own = moments_by_hand(scaled, scaled.random_policy())
    assert solve(scaled.mdp, scaled.features, own, beta=0.1).status == "optimal"


def test_a_proof_is_not_accepted_without_checking() -> None:
    case = make_case(0)
    mdp = case.mdp
    matrix, limit = feature_matrix(mdp, case.features), moments_by_hand(case, case.random_policy())
    for ray in (np.ones(3), np.array([1.0, 0.0, 0.0]), np.zeros(3), np.full(3, np.nan), np.full(3, np.inf)):
        assert feasibility.farkas_proof(mdp, matrix, limit, ray) is None


def test_a_feature_that_nobody_can_have_cannot_be_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(1, dynamics="disconnected", features="states", n_states=6)
    assert case.initial[0] == 1
    limit = moments_by_hand(case, case.random_policy())
    limit[-1] = -0.5
    solution = solve(case.mdp, "state", limit, beta=0.1)
    assert solution.status == "infeasible"
    assert solution.diagnosis is not None
    assert solution.diagnosis.to_blame == (5,)
    assert solution.diagnosis.uniform_slack == pytest.approx(0.5)
    monkeypatch.setattr(feasibility, "SMALL", 0)
    monkeypatch.setattr(feasibility, "LARGE", 0)
    assert solve(case.mdp, "state", limit, beta=0.1).status == "infeasible"


# Advice --------------------------------------------------------------------------------------------------------------


def infeasible_example(horizon: int | None, n_terminal: int) -> tuple[Case, list[tuple[np.ndarray, np.ndarray]]]:
    """Slipping dynamics and a few demonstrations that no policy can match."""
    for seed in range(50):
        case = make_case(
            seed, n_states=6, dynamics="slip", features="states", horizon=horizon, n_terminal=n_terminal, discount=0.8
        )
        case = case.changed(initial=np.eye(6)[0])
        demos = simulate(case, case.random_policy(), 3, 60)
        sums = [(0.8 ** np.arange(len(a))) @ case.features[s[:-1], a] for s, a in demos]
        if least_uniform_slack(case, np.mean(sums, axis=0)) > 1e-3:
            return case, demos
    raise AssertionError("no example")


@pytest.mark.parametrize("horizon", [None, 8])
@pytest.mark.parametrize("n_terminal", [0, 1])
def test_the_proposed_budgets_have_solutions(horizon: int | None, n_terminal: int) -> None:
    case, demos = infeasible_example(horizon, n_terminal)
    solution = solve(case.mdp, case.features, demonstrations=demos, beta=0.1)
    assert solution.status == "infeasible"
    diagnosis = solution.diagnosis
    assert diagnosis is not None
    assert diagnosis.uniform_slack is not None
    assert diagnosis.statistical_budget is not None
    for budget in (diagnosis.uniform_slack * (1 + 1e-6), diagnosis.statistical_budget):
        again = solve(case.mdp, case.features, demonstrations=demos, beta=0.1, budget=budget)
        assert again.status == "optimal"
    too_little = solve(case.mdp, case.features, demonstrations=demos, beta=0.1, budget=diagnosis.uniform_slack * 0.9)
    assert too_little.status == "infeasible"
    for objective in ("likelihood", "plugin"):
        other = solve(case.mdp, case.features, demonstrations=demos, beta=0.1, objective=objective)
        assert other.status in ("optimal", "stationary")


def test_the_statistical_budget_is_the_empirical_bernstein_bound() -> None:
    case = make_case(3, features="positive", n_features=2, discount=0.8)
    demos = simulate(case, case.random_policy(), 12, 10)
    sums = np.array(
        [(0.8 ** np.arange(len(a))) @ case.features[s[:-1], a] for s, a in demos]
    )  # (trajectories, features)
    mdp = case.mdp
    matrix = feature_matrix(mdp, case.features)
    log_term = np.log(2 * 2 / 0.05)
    span = case.features.max(axis=(0, 1)) / (1 - 0.8)
    expected = np.sqrt(2 * sums.var(axis=0, ddof=1) * log_term / 12) + 7 * span * log_term / (3 * 11)
    rigorous = feasibility.statistical_budget(mdp, matrix, demos, guarantee=True)
    np.testing.assert_allclose(rigorous, np.minimum(expected, span))
    usual = feasibility.statistical_budget(mdp, matrix, demos)
    variance = sums.var(axis=0, ddof=1) + (sums**2).mean() / 12
    np.testing.assert_allclose(usual, np.minimum(1.959964 * np.sqrt(variance / 12), span), rtol=1e-6)
    np.testing.assert_allclose(feasibility.statistical_budget(mdp, matrix, demos[:1]), span)


def test_the_statistical_budget_covers_the_truth() -> None:
    """The bound is jointly valid with probability 95 %; the usual half-widths miss about one feature in twenty."""
    case = make_case(6, features="states", n_terminal=1, dynamics="slip", discount=0.8)
    case = case.changed(initial=np.eye(5)[0])
    policy, mdp = case.random_policy(), case.mdp
    truth, matrix = moments_by_hand(case, policy), feature_matrix(mdp, case.features)
    misses, usual_misses = 0, []
    for salt in range(40):
        demos = simulate(case, policy, 60, 60, salt=salt)
        estimate = solve(mdp, case.features, demonstrations=demos, beta=1.0, budget=10.0).expert_moments
        error = np.abs(estimate - truth)
        misses += bool((error > feasibility.statistical_budget(mdp, matrix, demos, guarantee=True)).any())
        usual_misses.append(error > feasibility.statistical_budget(mdp, matrix, demos))
    assert misses <= 2
    assert np.mean(usual_misses) <= 0.08


def test_the_paper_gridworld_at_budget_zero_is_infeasible_and_explained() -> None:
    """Slip and 50 demonstrations: the paper's own setting (budget 0) has no solution, and the doctor says why."""
    spec = make_spec("wall-1", slip=0.1)
    mdp = spec.model()
    policy = plan(mdp, mdp.rewards - 14.0 * spec.constrained[:, None], 0.1).policy
    rng = np.random.default_rng(0)
    demos = []
    for _ in range(50):
        state = int(rng.choice(mdp.n_states, p=mdp.initial))
        states, actions = [state], list[int]()
        while not mdp.terminal[state] and len(actions) < 200:
            action = int(rng.choice(mdp.n_actions, p=policy[state]))
            row = mdp.transitions[[state * mdp.n_actions + action]]
            state = int(rng.choice(row.indices, p=row.data))
            actions.append(action)
            states.append(state)
        demos.append((np.array(states), np.array(actions)))
    solution = solve(mdp, "state", demonstrations=demos, beta=0.1)
    assert solution.status == "infeasible"
    assert solution.history == []
    diagnosis = solution.diagnosis
    assert diagnosis is not None
    own = occupancy(mdp, policy).sum(axis=1)
    seldom = (solution.expert_moments - own)[list(diagnosis.to_blame)]
    assert (seldom < 0).mean() > 0.5, "to blame are mostly cells that the demonstrations visit too seldom"
    names = [f"cell {spec.position_of(s)}" for s in range(mdp.n_states)]
    words = diagnosis.describe(names)
    assert names[diagnosis.to_blame[0]] in words
    assert "likelihood" in words
    assert "more on every feature has a solution" in words
    assert diagnosis.uniform_slack is not None
    # With 1 % more than the smallest, as the words say: exactly there nothing has an interior.
    exact = solve(mdp, "state", demonstrations=demos, beta=0.1, budget=1.01 * diagnosis.uniform_slack)
    assert exact.status == "optimal"


# Reachability --------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(cases())
def test_reachable_states_are_those_that_some_policy_visits(case: Case) -> None:
    """The uniform policy visits whatever can be visited at all."""
    reached = case.initial > 0
    now = np.where(case.terminal, 0.0, case.initial)
    for _ in range(case.horizon or len(now)):
        arrivals = np.einsum("s,sap->p", now, case.transitions)
        reached = reached | (arrivals > 0)
        now = np.where(case.terminal, 0.0, arrivals)
    np.testing.assert_array_equal(reachable_states(case.mdp), reached)


def test_a_horizon_limits_what_can_be_reached() -> None:
    case = make_case(0, n_states=6, dynamics="chain")
    assert reachable_states(case.mdp).all()
    np.testing.assert_array_equal(reachable_states(case.changed(horizon=2).mdp), np.arange(6) <= 2)
