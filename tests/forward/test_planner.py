"""The exact planner: soft policy iteration, occupancies, derivatives, and every way to factorise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from oracle import live_dynamics, occupancy_by_hand
from strategies import Case, cases, make_case, simulate
from tacit.forward import soft_policy_iteration as spi
from tacit.forward.soft_policy_iteration import evaluate_policy, occupancy, plan, response
from tacit.inverse import feasibility
from tacit.tabular import MDP

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=80)
betas = st.sampled_from((1e-5, 1e-3, 0.1, 1.0, 10.0))


def value_iteration(case: Case, reward: np.ndarray, beta: float, sweeps: int) -> np.ndarray:
    """(S,) by the definition, from zero; beta = 0 is the ordinary maximum."""
    moves, value = live_dynamics(case), np.zeros(len(reward))
    for _ in range(sweeps):
        q = reward + case.discount * moves @ value
        best = q.max(axis=1) if beta == 0 else beta * logsumexp(q / beta, axis=1)
        value = np.where(case.terminal, 0.0, best)
    return value


@EXAMPLES
@given(cases(), betas)
def test_plan_agrees_with_value_iteration(case: Case, beta: float) -> None:
    planned = plan(case.mdp, case.rewards, beta)
    sweeps = case.horizon or int(np.ceil(np.log(1e-13) / np.log(case.discount)))
    value = planned.value if case.horizon is None else planned.value[0]
    np.testing.assert_allclose(value, value_iteration(case, case.rewards, beta, sweeps), rtol=1e-9, atol=1e-9)
    assert planned.residual <= 1e-11 * (1 + np.abs(planned.value).max())
    assert np.isfinite(planned.log_policy).all()
    assert (planned.value[..., case.terminal] == 0).all()
    np.testing.assert_allclose(planned.policy[..., case.terminal, :], 1 / case.rewards.shape[1])


@EXAMPLES
@given(cases(horizons=(None,), reward_scales=(1e-3, 1.0, 1e3)), betas, st.integers(0, 3))
def test_any_warm_start_leads_to_the_same_plan(case: Case, beta: float, start: int) -> None:
    beta *= max(float(np.abs(case.rewards).max()), 1e-12)
    mdp = case.mdp
    cold = plan(mdp, case.rewards, beta)
    warm = plan(mdp, case.rewards, beta, 10.0**start * case.rng().normal(size=mdp.n_states))
    size = 1e-9 * (np.abs(cold.value).max() + np.abs(case.rewards).max())
    np.testing.assert_allclose(warm.value, cold.value, atol=size)
    assert warm.iterations < 100


@EXAMPLES
@given(cases(discounts=(0.5, 0.9)), st.sampled_from((1e-6, 1e-5)))
def test_almost_no_entropy_is_ordinary_planning(case: Case, beta: float) -> None:
    """0 <= V_soft - V_hard <= beta log A / (1 - gamma)."""
    planned = plan(case.mdp, case.rewards, beta)
    value = planned.value if case.horizon is None else planned.value[0]
    hard = value_iteration(case, case.rewards, 0.0, case.horizon or 500)
    above = value - hard
    assert (above >= -1e-9).all()
    assert (above <= beta * np.log(case.rewards.shape[1]) / (1 - case.discount) + 1e-9).all()
    cost = case.features[..., 0]
    cheapest = feasibility.least_cost(case.mdp, cost)
    start = np.where(case.terminal, 0.0, case.initial)
    assert cheapest == pytest.approx(-float(start @ value_iteration(case, -cost, 0.0, case.horizon or 500)), abs=1e-9)


@EXAMPLES
@given(cases(discounts=(0.5, 0.9, 0.999)))
def test_occupancy_is_the_flow_written_out(case: Case) -> None:
    policy = case.random_policy()
    rho = occupancy(case.mdp, policy)
    np.testing.assert_allclose(rho, occupancy_by_hand(case, policy), rtol=1e-9, atol=1e-12)
    assert (rho >= 0).all()
    if not case.terminal.any():
        total = 1 / (1 - case.discount) if case.horizon is None else (case.discount ** np.arange(case.horizon)).sum()
        assert rho.sum() == pytest.approx(total, rel=1e-9)
    reward = case.rng(1).normal(size=case.rewards.shape)
    value = evaluate_policy(case.mdp, policy, reward)
    start = value if case.horizon is None else value[0]
    live = np.where(case.terminal, 0.0, case.initial)
    assert float(live @ start) == pytest.approx(float((rho * reward).sum()), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("horizon", [None, 8])
@pytest.mark.parametrize("dynamics", ["dense", "slip", "absorbing"])
def test_occupancy_agrees_with_simulation(dynamics: str, horizon: int | None) -> None:
    case = make_case(5, n_states=4, dynamics=dynamics, n_terminal=1, discount=0.7, horizon=horizon)
    case = case.changed(initial=np.eye(4)[0])
    policy = case.random_policy()
    number = 4000
    visits = np.zeros((number, *case.rewards.shape))
    for i, (states, actions) in enumerate(simulate(case, policy, number, length=60)):
        np.add.at(visits[i], (states[:-1], actions), case.discount ** np.arange(len(actions)))
    rho = occupancy(case.mdp, policy)
    rho = rho if horizon is None else rho.sum(axis=0)
    error = visits.std(axis=0, ddof=1) / np.sqrt(number)
    # 5 standard errors: a false alarm among all of these entries has a chance below one in ten thousand.
    assert (np.abs(visits.mean(axis=0) - rho) <= 5 * error + 1e-9).all()
    assert (rho[case.terminal] == 0).all()


@pytest.mark.parametrize("beta", [0.01, 1.0])
@pytest.mark.parametrize("n_terminal", [0, 1])
def test_a_long_horizon_is_the_infinite_one(beta: float, n_terminal: int) -> None:
    case = make_case(4, n_states=5, discount=0.9, n_terminal=n_terminal)
    endless = plan(case.mdp, case.rewards, beta)
    long = case.changed(horizon=400)
    planned = plan(long.mdp, case.rewards, beta)
    np.testing.assert_allclose(planned.value[0], endless.value, atol=1e-10)
    np.testing.assert_allclose(planned.policy[0], endless.policy, atol=1e-8)
    summed = occupancy(long.mdp, planned.policy).sum(axis=0)
    np.testing.assert_allclose(summed, occupancy(case.mdp, endless.policy), atol=1e-8)


def test_horizon_one_is_a_bandit() -> None:
    case = make_case(1, horizon=1)
    planned = plan(case.mdp, case.rewards, 0.5)
    expected = np.exp(case.rewards / 0.5)
    np.testing.assert_allclose(planned.policy[0], expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)


def test_one_action_leaves_nothing_to_decide() -> None:
    case = make_case(2, n_actions=1)
    planned = plan(case.mdp, case.rewards, 0.1)
    assert (planned.policy == 1).all()
    np.testing.assert_allclose(planned.value, evaluate_policy(case.mdp, planned.policy, case.rewards, 0.1), rtol=1e-12)


def test_a_self_loop_earns_for_ever_and_a_terminal_state_does_not() -> None:
    transitions = np.ones((1, 2, 1))
    looping = MDP(transitions, np.ones((1, 2)), [1.0], 0.9)
    assert plan(looping, looping.rewards, 0.1).value[0] == pytest.approx((1 + 0.1 * np.log(2)) / 0.1)
    two = np.zeros((2, 1, 2))
    two[:, :, 1] = 1.0
    ends = MDP(two, np.ones((2, 1)), [1.0, 0.0], 0.9, terminal=[False, True])
    np.testing.assert_allclose(plan(ends, ends.rewards, 0.1).value, [1.0, 0.0])
    np.testing.assert_allclose(occupancy(ends, np.ones((2, 1))), [[1.0], [0.0]])


def test_starting_in_a_terminal_state_is_over_at_once() -> None:
    case = make_case(3, n_terminal=1)
    case = case.changed(initial=np.eye(5)[-1])
    assert occupancy(case.mdp, case.random_policy()).sum() == 0


# Derivatives ---------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(cases(), st.sampled_from((0.1, 1.0)))
def test_response_of_the_policy_to_the_reward(case: Case, beta: float) -> None:
    """`respond` is the derivative of beta log pi, centred in every state; `respond_transposed` is its transpose."""
    mdp = case.mdp
    planned = plan(mdp, case.rewards, beta)
    answers = response(mdp, planned.policy)
    direction = case.rng(2).normal(size=case.rewards.shape)
    moved = answers.respond(direction.reshape(-1, 1))[..., 0].reshape(planned.policy.shape)
    live = ~case.terminal
    average = (planned.policy * moved).sum(axis=-1)[..., live]
    np.testing.assert_allclose(average, 0.0, atol=1e-9)
    step = 1e-5 * beta
    ahead, behind = (plan(mdp, case.rewards + sign * step * direction, beta).log_policy for sign in (1, -1))
    slope = beta * (ahead - behind) / (2 * step)
    np.testing.assert_allclose(moved[..., live, :], slope[..., live, :], rtol=1e-4, atol=1e-4)
    weights = case.rng(3).normal(size=planned.policy.shape)
    flat = weights.reshape(*weights.shape[:-2], -1)
    np.testing.assert_allclose(
        float((weights * moved).sum()),
        float(answers.respond_transposed(flat) @ direction.ravel()),
        rtol=1e-7,
        atol=1e-7,
    )


# Dense and sparse ----------------------------------------------------------------------------------------------------


def large_case(seed: int = 0, n_states: int = 60) -> Case:
    return make_case(seed, n_states=n_states, n_actions=4, dynamics="sparse", discount=0.97, n_terminal=2)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_and_dense_factors_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = large_case(seed)
    policy, reward = case.random_policy(), case.rewards
    direction = case.rng(1).normal(size=(reward.size, 3))

    def everything() -> list[np.ndarray]:
        mdp = case.mdp
        answers = response(mdp, policy)
        return [
            plan(mdp, reward, 0.1).value,
            occupancy(mdp, policy),
            answers.value_of(reward),
            answers.respond(direction),
            answers.respond_transposed(direction[:, 0]),
            answers.visits_explaining(np.abs(direction[:, 1])),
        ]

    dense = everything()
    monkeypatch.setattr(spi, "DENSE_STATES", 0)
    used: list[int] = []
    monkeypatch.setattr(spi.SparseFactor, "solve", _counting(spi.SparseFactor.solve, used))
    sparse = everything()
    assert used, "the sparse factor was never used"
    for one, two in zip(dense, sparse, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


def _counting(function: Any, calls: list[int]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("dynamics", ["deterministic", "loops", "chain", "disconnected", "absorbing"])
def test_sparse_factors_of_awkward_dynamics(dynamics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fill-reducing order is computed for the first policy and used for all others."""
    case = make_case(1, n_states=30, dynamics=dynamics, discount=0.99)
    policies = [case.random_policy(i, sharpness=s) for i, s in enumerate((1.0, 1000.0))]
    dense = [occupancy(case.mdp, policy) for policy in policies]
    monkeypatch.setattr(spi, "DENSE_STATES", 0)
    mdp = case.mdp
    for policy, expected in zip(policies, dense, strict=True):
        np.testing.assert_allclose(occupancy(mdp, policy), expected, rtol=1e-9, atol=1e-12)


def test_sparse_and_dense_transitions_are_the_same_mdp() -> None:
    case = large_case()
    matrix = case.transitions.reshape(-1, case.transitions.shape[-1])
    for given_as in (sp.csr_matrix(matrix), sp.csc_array(matrix), sp.coo_array(matrix)):
        mdp = MDP(given_as, case.rewards, case.initial, case.discount, terminal=case.terminal)
        np.testing.assert_array_equal(mdp.transitions.toarray(), case.mdp.transitions.toarray())
        np.testing.assert_array_equal(plan(mdp, mdp.rewards, 0.1).value, plan(case.mdp, case.rewards, 0.1).value)


def test_the_mdp_keeps_its_own_copy() -> None:
    case = make_case(0)
    arrays = [case.transitions.copy(), case.rewards.copy(), case.initial.copy(), case.terminal.copy()]
    mdp = MDP(arrays[0], arrays[1], arrays[2], 0.9, terminal=arrays[3])
    before = plan(mdp, mdp.rewards, 0.1).value
    for array in arrays:
        array[:] = 0
    np.testing.assert_array_equal(plan(mdp, mdp.rewards, 0.1).value, before)
    sparse = sp.csr_array(case.transitions.reshape(-1, 5))
    kept = MDP(sparse, case.rewards, case.initial, 0.9)
    sparse.data[:] = 0.0
    np.testing.assert_array_equal(kept.transitions.toarray(), case.transitions.reshape(-1, 5))
