"""Every metric pinned by hand-made episodes, scripted policies and independent simulation."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import RunFailed, UserError
from tacit.evaluate import (
    Episodes,
    cost_quality,
    evaluate,
    evaluate_exact,
    excess_over_expert,
    reachable_states,
    summarize,
)
from tacit.metrics import METRICS, lookup
from tacit.tabular import MDP

MODES = [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]


class Script(gym.Env):
    """Replays episodes [(cost of the first state, [(reward, cost), ...]), ...], over and over."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, episodes: list[tuple[float, list[tuple[float, float]]]], reports_cost: bool = True) -> None:
        self.episodes, self.number, self.reports_cost = episodes, -1, reports_cost

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.number, self.t = (self.number + 1) % len(self.episodes), 0
        return np.zeros(1, np.float32), self._info(self.episodes[self.number][0])

    def step(self, action: int):
        steps = self.episodes[self.number][1]
        reward, cost = steps[self.t]
        self.t += 1
        ended = self.t == len(steps)
        # Even episodes end by themselves, odd ones by a time limit.
        obs = np.full(1, self.t, np.float32)
        return obs, reward, ended and self.number % 2 == 0, ended and self.number % 2 == 1, self._info(cost)

    def _info(self, cost: float) -> dict[str, float]:
        return {"cost": cost} if self.reports_cost else {}


def scripted(*scripts: Any, mode: AutoresetMode = AutoresetMode.SAME_STEP, reports_cost: bool = True) -> SyncVectorEnv:
    return SyncVectorEnv([lambda s=s: Script(s, reports_cost) for s in scripts], autoreset_mode=mode)


def nothing(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.zeros(len(obs), dtype=np.int64)


HAND_MADE = [
    (0.0, [(1.0, 0.0), (2.0, 0.0), (4.0, 0.0)]),  # safe, ends by itself
    (0.0, [(1.0, 0.0), (2.0, 1.0), (4.0, 0.0), (8.0, 0.5)]),  # violates at its 2nd and 4th step, cut off
    (1.0, [(1.0, 0.0), (2.0, 0.0)]),  # starts in violation, then safe
    (1.0, [(7.0, 1.0)]),  # violates from start to end, and its only step is its last
]


class Faulty(Script):
    """Its second step raises, or cannot be seen."""

    how = "raise"

    def step(self, action: int):
        obs, *rest = super().step(action)
        if self.t == 2 and self.how == "raise":
            raise ZeroDivisionError("the wheel came off")
        return (obs * np.nan if self.t == 2 else obs, *rest)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "raised ZeroDivisionError during evaluation: the wheel came off"),
        ("nan", r"observation that is not finite during evaluation \(copy 1\)"),
    ],
)
def test_an_environment_that_breaks_fails_in_one_line(how: str, message: str) -> None:
    faulty = type("Faulty", (Faulty,), {"how": how})
    makers = [lambda: Script(HAND_MADE), lambda: faulty(HAND_MADE)]
    env = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(RunFailed, match=message):
        evaluate(env, nothing, 2, seed=0)


@pytest.mark.parametrize("mode", MODES)
def test_hand_made_episodes(mode: AutoresetMode) -> None:
    result = evaluate(scripted(HAND_MADE, mode=mode), nothing, 4, seed=0, discount=0.5)
    np.testing.assert_array_equal(result.returns, [7, 15, 3, 7])
    np.testing.assert_allclose(result.discounted_returns, [1 + 1 + 1, 1 + 1 + 1 + 1, 2, 7])
    np.testing.assert_array_equal(result.terminated_returns, [7, 1, 3, 0])
    np.testing.assert_array_equal(result.feasible_returns, [7, 1, 0, 0])
    np.testing.assert_array_equal(result.violation_steps, [0, 2, 0, 1])
    np.testing.assert_array_equal(result.violation_rates, [0, 0.5, 0, 1])
    np.testing.assert_array_equal(result.violated, [False, True, False, True])
    np.testing.assert_array_equal(result.initial_violations, [False, False, True, True])
    np.testing.assert_array_equal(result.lengths, [3, 4, 2, 1])
    np.testing.assert_array_equal(result.terminated, [True, False, True, False])


@pytest.mark.parametrize("mode", MODES)
def test_several_copies_do_not_mix(mode: AutoresetMode) -> None:
    """Copies end at different times; each contributes its first episodes, in order, and nothing else."""
    rotations = [HAND_MADE[i:] + HAND_MADE[:i] for i in range(3)]
    result = evaluate(scripted(*rotations, mode=mode), nothing, 8, seed=0)
    expected = [7, 15, 3, 15, 3, 7, 3, 7]  # three of copy 0, three of copy 1, two of copy 2
    np.testing.assert_array_equal(result.returns, expected)
    np.testing.assert_array_equal(result.initial_violations, [0, 0, 1, 0, 1, 1, 1, 1])


def test_fewer_episodes_than_copies() -> None:
    result = evaluate(scripted(HAND_MADE[:1], HAND_MADE[1:2], HAND_MADE[2:3]), nothing, 2, seed=0)
    np.testing.assert_array_equal(result.returns, [7, 15])


@pytest.mark.parametrize("mode", MODES)
def test_the_environment_that_stops_at_a_violation(mode: AutoresetMode) -> None:
    """Violations at steps 2 and 3 of four, at the last of two, never, at once: 1/2, 1/2, 0 and 1 if stopped there."""
    script = [
        (0.0, [(1.0, 0.0), (1.0, 1.0), (1.0, 1.0), (1.0, 0.0)]),
        (0.0, [(1.0, 0.0), (1.0, 2.0)]),
        (0.0, [(1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]),
        (0.0, [(1.0, 1.0), (1.0, 0.0)]),
    ]
    found = evaluate(scripted(script, mode=mode), lambda obs, rng: np.zeros(len(obs), int), 4, seed=0)
    assert found.stopped_lengths is not None
    assert found.stopped_lengths.tolist() == [2, 2, 3, 1]
    assert found.stopped_violation_rates is not None
    assert found.stopped_violation_rates.tolist() == [0.5, 0.5, 0.0, 1.0]
    assert summarize(found)["violation_rate_terminated"]["value"] == 0.5
    assert summarize(found)["violation_rate_step"]["value"] == pytest.approx((0.5 + 0.5 + 0 + 0.5) / 4)


def test_short_episodes_are_not_favoured() -> None:
    """Half of the episodes last 1 step, half 99. Taking the first to finish would see almost only short ones."""

    class Lengths(Script):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
            gym.Env.reset(self, seed=seed)
            self.number, self.t = int(self.np_random.integers(2)), 0
            return np.zeros(1, np.float32), {"cost": 0.0}

    episodes = [(0.0, [(1.0, 0.0)]), (0.0, [(1.0, 0.0)] * 99)]
    env = SyncVectorEnv([lambda: Lengths(episodes) for _ in range(20)], autoreset_mode=AutoresetMode.SAME_STEP)
    result = evaluate(env, nothing, 400, seed=3)
    assert result.lengths.mean() == pytest.approx(50, abs=5 * 49 / math.sqrt(400))


class Bare(VectorEnv):
    """A vector environment of our own style: same step, no final_info, the step's cost always at the top."""

    def __init__(self) -> None:
        self.num_envs, self.metadata = 2, {"autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros((2, 1)), {}

    def step(self, actions):
        self.t += 1
        done = np.array([self.t % 2 == 0, self.t % 3 == 0])
        return np.zeros((2, 1)), np.ones(2), done, np.zeros(2, bool), {"cost": done.astype(float)}


def test_vector_environment_without_final_info() -> None:
    result = evaluate(Bare(), nothing, 4, seed=0)
    np.testing.assert_array_equal(result.lengths, [2, 2, 3, 3])
    np.testing.assert_array_equal(result.violation_steps, [1, 1, 1, 1])
    np.testing.assert_array_equal(result.terminated_returns, [1, 1, 2, 2])
    assert not result.initial_violations.any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_always_safe_is_zero_always_violating_is_one(mode: AutoresetMode, rate: float) -> None:
    script = [(0.0, [(1.0, rate)] * length) for length in (1, 5, 2)]
    result = evaluate(scripted(script, script, mode=mode), nothing, 7, seed=0)
    summary = summarize(result)
    assert summary["violation_rate_step"]["value"] == rate
    assert summary["violation_rate_episode"]["value"] == rate
    np.testing.assert_array_equal(result.terminated_returns, result.returns * (1 - rate))


def test_policy_gets_the_observations_and_a_seeded_generator() -> None:
    seen, draws = [], []

    def policy(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen.append(obs[0, 0])
        draws.append(rng.random())
        return np.zeros(1, dtype=np.int64)

    evaluate(scripted(HAND_MADE), policy, 2, seed=5)
    assert seen == [0, 1, 2, 0, 1, 2, 3]
    first = list(draws)
    draws.clear()
    evaluate(scripted(HAND_MADE), policy, 2, seed=5)
    assert draws == first
    draws.clear()
    evaluate(scripted(HAND_MADE), policy, 2, seed=6)
    assert draws != first


def test_unknown_costs_are_not_zero_violations() -> None:
    result = evaluate(scripted(HAND_MADE, reports_cost=False), nothing, 4, seed=0)
    assert result.violation_steps is None
    np.testing.assert_array_equal(result.returns, [7, 15, 3, 7])
    assert not any("violation" in key or "feasible" in key for key in summarize(result))
    with pytest.raises(UserError, match="cost"):
        _ = result.violated


def test_bad_environments_and_requests() -> None:
    with pytest.raises(UserError, match="at least 1 episode"):
        evaluate(scripted(HAND_MADE), nothing, 0, seed=0)
    with pytest.raises(UserError, match="SAME_STEP"):
        evaluate(scripted(HAND_MADE, mode=AutoresetMode.DISABLED), nothing, 1, seed=0)
    with pytest.raises(RunFailed, match="nan"):
        evaluate(scripted([(0.0, [(math.nan, 0.0)])]), nothing, 1, seed=0)
    with pytest.raises(RunFailed, match="time limit"):
        evaluate(scripted([(0.0, [(0.0, 0.0)] * 50)]), nothing, 1, seed=0, max_steps=10)


def episodes_of(n: int, violated: int) -> Episodes:
    steps = np.where(np.arange(n) < violated, 5, 0)
    zeros = np.zeros(n)
    flags = np.zeros(n, dtype=bool)
    return Episodes(np.arange(n) * 1.0, zeros, zeros, steps, flags, np.full(n, 10), ~flags)


def test_summary_has_honest_intervals() -> None:
    none = summarize(episodes_of(100, 0))
    assert none["violation_rate_episode"]["value"] == 0
    assert none["violation_rate_episode"]["upper"] == pytest.approx(0.0295, abs=1e-4)
    assert (
        none["violation_rate_step"]["high"] == none["violation_rate_episode"]["high"] == pytest.approx(0.0362, abs=1e-4)
    )
    some = summarize(episodes_of(100, 20))
    assert some["violation_rate_episode"]["count"] == 20
    assert some["violation_rate_step"]["value"] == pytest.approx(0.1)
    assert 0 < some["violation_rate_step"]["low"] < 0.1 < some["violation_rate_step"]["high"] < 1
    assert some["return"]["value"] == pytest.approx(49.5)
    assert some["return"]["low"] < 49.5 < some["return"]["high"]
    assert summarize(episodes_of(1, 1))["violation_rate_step"]["high"] == 1


def test_every_summary_entry_is_defined() -> None:
    keys = set(summarize(episodes_of(5, 1))) - {"episodes", "confidence"}
    assert keys <= set(METRICS)
    assert lookup("violation_rate") == METRICS["violation_rate_step"]
    assert lookup("some_new_thing").label == "some new thing"


def test_documentation_covers_every_metric_and_its_examples_run() -> None:
    text = (Path(__file__).parent.parent / "docs" / "reference.md").read_text("utf-8")
    assert [key for key in METRICS if f"`{key}`" not in text] == []
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


# ---------------------------------------------------------------------------------------------------------------------
# Exact


def chain(slip: float = 0.0, horizon: int | None = None, discount: float = 0.9) -> MDP:
    """0 -> 1 -> 2 (terminal). Action 0 goes on (stays with probability slip), action 1 stays. Reward -1 a step."""
    transitions = np.zeros((3, 2, 3))
    for s in (0, 1):
        transitions[s, 0, s + 1], transitions[s, 0, s] = 1 - slip, slip
        transitions[s, 1, s] = 1
    transitions[2, :, 2] = 1
    return MDP(transitions, -np.ones((3, 2)), [1, 0, 0], discount, horizon, terminal=np.array([False, False, True]))


GO = np.array([[1.0, 0.0]] * 3)
MIDDLE = np.array([False, True, False])


def test_exact_chain_by_hand() -> None:
    result = evaluate_exact(chain(), GO, MIDDLE, step_limit=50)
    assert result.discounted_return == pytest.approx(-1.9)
    assert result.violation_occupancy == pytest.approx(0.9)  # in state 1 at t = 1
    assert result.expected_return == pytest.approx(-2)
    assert result.expected_length == pytest.approx(2)
    assert result.violation_rate_step == pytest.approx(0.5)  # entering 1 violates, entering 2 does not
    assert result.violation_rate_episode == pytest.approx(1)
    np.testing.assert_allclose(result.visits, [1, 1, 1])
    np.testing.assert_allclose(result.occupancy, [1, 0.9, 0])


def test_entering_a_constrained_terminal_state_counts() -> None:
    result = evaluate_exact(chain(), GO, np.array([False, False, True]), step_limit=50)
    assert result.violation_occupancy == pytest.approx(0.81)
    assert result.violation_rate_step == pytest.approx(0.5)
    assert result.violation_rate_episode == pytest.approx(1)


def test_constrained_start_is_an_initial_violation_only() -> None:
    result = evaluate_exact(chain(), GO, np.array([True, False, False]), step_limit=50)
    assert result.initial_violation_rate == 1
    assert result.violation_rate_step == result.violation_rate_episode == 0
    assert result.violation_occupancy == pytest.approx(1)  # the occupancy counts where the agent is, from t = 0


def test_step_limit_cuts_episodes() -> None:
    stay = np.array([[0.0, 1.0]] * 3)
    result = evaluate_exact(chain(), stay, np.array([True, False, False]), step_limit=4)
    assert (result.expected_return, result.expected_length) == pytest.approx((-4, 4))
    assert result.violation_rate_step == pytest.approx(1)
    assert result.discounted_return == pytest.approx(-10)  # the discounted problem has no limit
    assert evaluate_exact(chain(), stay, MIDDLE).expected_return is None
    assert "return" not in evaluate_exact(chain(), stay, MIDDLE).as_dict()


def test_finite_horizon_and_time_dependent_policies() -> None:
    wait_then_go = np.stack([np.array([[0.0, 1.0]] * 3), GO, GO])
    result = evaluate_exact(chain(horizon=3), wait_then_go, MIDDLE)
    assert result.discounted_return == pytest.approx(-(1 + 0.9 + 0.81))
    assert result.violation_occupancy == pytest.approx(0.81)
    assert result.expected_length == pytest.approx(3)
    assert result.violation_rate_step == pytest.approx(1 / 3)


class Simulated(VectorEnv):
    """Independent simulator of a finite MDP with a step limit."""

    def __init__(self, mdp: MDP, constrained: np.ndarray, limit: int, copies: int) -> None:
        self.num_envs, self.metadata = copies, {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.mdp, self.constrained, self.limit = mdp, constrained, limit
        self.table = mdp.transitions.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states).cumsum(axis=2)

    def _start(self, n: int) -> np.ndarray:
        return np.minimum((self.mdp.initial.cumsum() <= self.rng.random((n, 1))).sum(axis=1), self.mdp.n_states - 1)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.t, self.state = np.zeros(self.num_envs, int), self._start(self.num_envs)
        return self.state.copy(), {"cost": self.constrained[self.state].astype(float)}

    def step(self, actions):
        rows = self.table[self.state, actions]
        after = np.minimum((rows <= self.rng.random((self.num_envs, 1))).sum(axis=1), self.mdp.n_states - 1)
        reward, cost = self.mdp.rewards[self.state, actions], self.constrained[after].astype(float)
        self.t += 1
        terminated, truncated = self.mdp.terminal[after], self.t == self.limit
        done = terminated | truncated
        self.state = np.where(done, self._start(self.num_envs), after)
        self.t[done] = 0
        top = np.where(done, self.constrained[self.state], cost)
        info = {"cost": top, "final_info": {"cost": cost, "_cost": done}}
        return self.state.copy(), reward, terminated, truncated & ~terminated, info


def random_mdp(rng: np.random.Generator, states: int = 6, actions: int = 3) -> MDP:
    terminal = np.arange(states) == states - 1
    initial = np.append(rng.dirichlet(np.ones(states - 1)), 0.0)  # an episode has at least one step
    transitions = rng.dirichlet(np.full(states, 0.4), size=(states, actions))
    return MDP(transitions, rng.normal(size=(states, actions)), initial, 0.95, terminal=terminal)


@pytest.mark.parametrize("seed", range(3))
def test_exact_equals_simulation(seed: int) -> None:
    """The exact expectations lie in the sampled 99.9 % intervals (the seeds are fixed: no failure by chance)."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    policy = rng.dirichlet(np.ones(3), size=6)
    mask = np.array([True, False, True, False, False, seed == 1])

    def act(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (policy[states].cumsum(axis=1)[:, :-1] <= rng.random((len(states), 1))).sum(axis=1)

    exact = evaluate_exact(mdp, policy, mask, step_limit=12).as_dict()
    sampled = summarize(evaluate(Simulated(mdp, mask, 12, copies=500), act, 20_000, seed=seed), confidence=0.999)
    compared = ["return", "length", "violation_rate_step", "violation_rate_episode", "initial_violation_rate"]
    for name in compared:
        assert sampled[name]["low"] <= exact[name] <= sampled[name]["high"], name


def test_gridworld_exact_equals_sampled() -> None:
    from tacit.envs.gridworld import GridworldVectorEnv, make_spec
    from tacit.forward.soft_policy_iteration import plan

    spec = make_spec("paper", slip=0.3)
    mdp = spec.model()
    policy = plan(mdp, mdp.rewards - 2 * spec.expected(spec.entry_costs), 0.5).policy
    env = GridworldVectorEnv(100, spec, observation="index")

    def act(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (policy[states].cumsum(axis=1)[:, :-1] <= rng.random((len(states), 1))).sum(axis=1)

    sampled = summarize(evaluate(env, act, 4000, seed=1), confidence=0.999)
    exact = evaluate_exact(mdp, policy, spec.constrained, step_limit=spec.horizon).as_dict()
    for name in ("return", "length", "violation_rate_step", "violation_rate_episode"):
        assert sampled[name]["low"] <= exact[name] <= sampled[name]["high"], name


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_exact_occupancies_by_matrix_inversion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    policy = rng.dirichlet(np.ones(3), size=6)
    mask = rng.random(6) < 0.4
    mask[-1] = False
    dense = np.einsum("sa,sat->st", policy, mdp.transitions.toarray().reshape(6, 3, 6))[:5, :5]
    visits = np.linalg.solve(np.eye(5) - 0.95 * dense.T, mdp.initial[:5])
    result = evaluate_exact(mdp, policy, mask)
    np.testing.assert_allclose(result.occupancy[:5], visits, atol=1e-9)
    assert result.violation_occupancy == pytest.approx(visits @ mask[:5])
    assert result.discounted_return == pytest.approx(visits @ (policy * mdp.rewards).sum(axis=1)[:5])


def test_excess_over_expert() -> None:
    go = evaluate_exact(chain(), GO, MIDDLE)
    stay = evaluate_exact(chain(), np.array([[0.0, 1.0]] * 3), MIDDLE)
    difference = excess_over_expert(stay, go)
    assert difference["excess_violation_occupancy"] == pytest.approx(-0.9)
    assert difference["return_gap"] == pytest.approx(-1.9 + 10)


@pytest.mark.parametrize(
    ("policy", "mask", "limit", "message"),
    [
        (np.ones((3, 3)), MIDDLE, None, "shape"),
        (np.ones((3, 2)), MIDDLE, None, "distribution"),
        (np.full((3, 2), np.nan), MIDDLE, None, "distribution"),
        (GO, np.array([0, 1, 0]), None, "booleans"),
        (GO, MIDDLE, 0, "step_limit"),
    ],
)
def test_bad_tabular_input(policy: np.ndarray, mask: np.ndarray, limit: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_exact(chain(), policy, mask, step_limit=limit)


# ---------------------------------------------------------------------------------------------------------------------
# Cost quality


def test_cost_quality_pins() -> None:
    mask = np.array([True, True, False, False, False])
    perfect = cost_quality(mask * 3.0, mask)
    assert (perfect.auroc, perfect.auprc, perfect.best_iou) == (1, 1, 1)
    assert 0 <= perfect.best_threshold < 3
    nothing_learned = cost_quality(np.zeros(5), mask)
    assert (nothing_learned.auroc, nothing_learned.auprc, nothing_learned.best_iou) == (0.5, 0.4, 0)
    inverted = cost_quality(~mask * 1.0, mask)
    assert inverted.auroc == 0
    assert inverted.best_iou == 0


def test_cost_quality_on_reachable_states_and_weights() -> None:
    mask = np.array([True, False, False, True])
    cost = np.array([1.0, 0.0, 9.0, 0.0])  # wrong only where nobody gets
    assert cost_quality(cost, mask, reachable=[True, True, False, False]).auroc == 1
    assert cost_quality(cost, mask, weights=[1.0, 1.0, 0.0, 0.0]).best_iou == 1
    assert cost_quality(cost, mask).auroc == pytest.approx((0.5 + 1 + 0 + 0) / 4)
    free = cost_quality(cost, np.zeros(4, dtype=bool))
    assert math.isnan(free.auroc)
    assert free.as_dict() == {"n_states": 4}
    with pytest.raises(UserError, match="one entry per state"):
        cost_quality(np.zeros((4, 2)), mask)
    with pytest.raises(UserError, match="reachable"):
        cost_quality(cost, mask, reachable=np.zeros(4, dtype=bool))


def test_reachable_states() -> None:
    transitions = np.zeros((5, 1, 5))
    for here, there in [(0, 1), (1, 2), (2, 2), (3, 4), (4, 0)]:
        transitions[here, 0, there] = 1
    mdp = MDP(transitions, np.zeros((5, 1)), [1, 0, 0, 0, 0], 0.9, terminal=np.array([0, 1, 0, 0, 0], dtype=bool))
    np.testing.assert_array_equal(reachable_states(mdp), [True, True, False, False, False])  # 1 is terminal
