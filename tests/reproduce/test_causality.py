"""Causal against non-causal maximum entropy: the two models differ in chance and in nothing else."""

import numpy as np
import pytest

from tacit import MDP
from tacit.demos import expert_demonstrations
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.reproduce import alpha_zero, controls, exact_causality
from tacit.reproduce.causal_pair import EntropyModel
from tacit.tabular import solve

LAYOUT = "S.G\n.X.\n...\n"
BETA = 0.5


def world(slip: float):
    """(finite model, twenty demonstrations)"""
    spec = make_spec(LAYOUT, slip=slip, horizon=30)
    return spec.model(finite=True, discount=1.0), spec.to_tabular(expert_demonstrations(spec, 20, seed=3))


def test_without_chance_the_models_are_the_same() -> None:
    mdp, demos = world(0.0)
    causal, other = (EntropyModel(mdp, BETA, causal=causal) for causal in (True, False))
    weights = np.linspace(0.0, 2.0, mdp.n_states)
    np.testing.assert_allclose(causal.policy(weights), other.policy(weights), atol=1e-9)
    fits = [model.fit_likelihood(demos, 1e-3) for model in (causal, other)]
    assert fits[0].value == pytest.approx(fits[1].value, abs=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_those_of_the_objectives(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, demos = world(0.3)
    model = EntropyModel(mdp, BETA, causal=causal)
    objectives = []
    monkeypatch.setattr(model, "_minimise", lambda objective, start=None: objectives.append(objective))
    model.fit_likelihood(demos, 1e-3)
    model.fit_moments(np.full(mdp.n_states, 0.4), 1e-3)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, mdp.n_states)
    for objective in objectives:
        slopes = np.zeros(mdp.n_states)
        for i in np.flatnonzero(~mdp.terminal):
            step = 1e-5 * np.eye(mdp.n_states)[i]
            slopes[i] = (objective(weights + step)[0] - objective(weights - step)[0]) / 2e-5
        live = ~mdp.terminal
        np.testing.assert_allclose(objective(weights)[1][live], slopes[live], atol=1e-6)


def test_the_causal_fit_is_that_of_the_exact_method() -> None:
    mdp, demos = world(0.2)
    fit = EntropyModel(mdp, BETA, causal=True).fit_likelihood(demos, 1e-2)
    exact = solve(mdp, "state", demonstrations=demos, beta=BETA, objective="likelihood", l1=1e-2)
    np.testing.assert_allclose(fit.weights, exact.weights, atol=5e-3)
    assert fit.stationarity < 1e-4


def test_without_causality_chance_is_chosen() -> None:
    """A lottery: one action surely costs 1, the other nothing or 5. On average it is worse; with luck it is better."""
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 1] = 1.0
    transitions[0, 1, [2, 3]] = 0.5, 0.5
    transitions[1:, :, 3] = 1.0
    rewards = np.array([[0.0, 0.0], [-1.0, -1.0], [-5.0, -5.0], [0.0, 0.0]])
    mdp = MDP(transitions, rewards, np.eye(4)[0], 1.0, terminal=np.arange(4) == 3, horizon=2)
    chances = [EntropyModel(mdp, 0.1, causal=causal).policy(np.zeros(4))[0, 0, 1] for causal in (True, False)]
    assert chances[0] < 1e-3
    assert chances[1] > 0.99


def test_a_horizon_is_needed() -> None:
    with pytest.raises(UserError, match="horizon"):
        EntropyModel(make_spec(LAYOUT, slip=0.1).model(), 0.1, causal=True)


def test_the_experiment_finds_no_difference_without_slip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_causality, "SLIPS", (0.0, 0.3))
    monkeypatch.setattr(exact_causality, "LAYOUT", LAYOUT)
    results = exact_causality.measure(2)
    assert len(results["fits"]) == 2 * 2 * 3
    still, slippery = (exact_causality.difference(results, slip, "violation_rate_episode") for slip in (0.0, 0.3))
    assert abs(still.value) < 1e-3
    assert slippery.value > 0.05, "who counts on luck violates more"
    text = exact_causality.table(results)
    assert "likelihood: non-causal, planned causal" in text
    assert exact_causality.seconds(results) > 0
    assert exact_causality.figure(results).startswith(b"\x89PNG")


def test_controls_learn_nothing() -> None:
    spec = make_spec("paper", slip=0.1)
    demos = spec.to_tabular(expert_demonstrations(spec, 50, seed=0))
    costs = controls.costs_of(spec, spec.model(), demos)
    visited = np.unique(np.concatenate([states for states, _ in demos]))
    assert not costs["never visited"][visited].any()
    assert costs["never visited"].sum() == spec.n_states - len(visited)
    assert not costs["box"][visited].any(), "the box holds every demonstration"
    assert (costs["one inverse step"] > 0)[np.asarray(spec.constrained)].any()


def test_the_box_has_no_boundary_error_by_construction() -> None:
    found = controls.box_of("Swimmer")
    assert found["error"] == 0.0
    assert found["demonstrated"] < found["boundary"] < 0.5


def test_short_episodes_keep_every_limit_of_network_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha_zero, "SLIPS", (0.1,))
    results = alpha_zero.measure(1)
    cells, sums, equal = (alpha_zero.records_of(results, kind, 0.1)[0] for kind in alpha_zero.PROBLEMS)
    assert cells["status"] == "infeasible"
    assert sums["status"] == "optimal"
    assert sums["largest"] == 0.0, "no cost at all"
    assert sums["violating"] > 0.99
    assert sums["below"] == 1.0 > equal["below"]
    assert "1 infeasible" in alpha_zero.table(results)
    assert alpha_zero.figure(results).startswith(b"\x89PNG")
