"""Greedy maximum-likelihood constraint inference: against enumeration of all trajectories and all constraint sets."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from tacit.cli import main
from tacit.demos import expert_demonstrations
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.inverse import ml_greedy
from tacit.run import Run
from tacit.tabular import MDP

BETA, HORIZON = 0.7, 4
GRID = "tacit/Gridworld-v0"
MAP = """\
moves: 4

.......
.......
...X...
.S.X.G.
...X...
"""


def small_mdp(seed: int, deterministic: bool) -> MDP:
    """Five states, two actions, the last one terminal."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(5, 0.4), size=(5, 2))
    p[p < 0.05] = 0.0
    p /= p.sum(axis=2, keepdims=True)
    if deterministic:
        p = np.eye(5)[rng.integers(0, 5, size=(5, 2))]
    p[4] = np.eye(5)[4]
    return MDP(p, rng.normal(size=(5, 2)), np.eye(5)[0], 1.0, horizon=HORIZON, terminal=np.arange(5) == 4)


def trajectories(mdp: MDP):
    """Every complete trajectory as (states, actions, log p, return)."""
    dense = mdp.transitions.toarray().reshape(5, 2, 5)

    def extend(states, actions, log_p, total):
        if mdp.terminal[states[-1]] or len(actions) == HORIZON:
            yield np.array(states), np.array(actions), log_p, total
            return
        for a in range(2):
            for s in np.flatnonzero(dense[states[-1], a]):
                chance, reward = dense[states[-1], a, s], mdp.rewards[states[-1], a]
                yield from extend([*states, int(s)], [*actions, a], log_p + math.log(chance), total + reward)

    yield from extend([0], [], 0.0, 0.0)


def subsets(states):
    return [chosen for n in range(len(states) + 1) for chosen in itertools.combinations(states, n)]


def masks(chosen) -> np.ndarray:
    """(S, K) of K sets."""
    return np.array([[state in one for one in chosen] for state in range(5)])


def sampled(mdp: MDP, rng, avoid=(), n: int = 6):
    """Demonstrations that stay out of `avoid`, evenly among what is possible."""
    possible = [t for t in trajectories(mdp) if not set(avoid) & set(t[0])]
    return [possible[i][:2] for i in rng.integers(len(possible), size=n)] if possible else []


def brute_entropy(mdp: MDP, demos, forbidden) -> float:
    """Mean log P_C(tau | s_0) by summing over all trajectories."""
    known = {}
    for states, actions, log_p, total in trajectories(mdp):
        if not set(states.tolist()) & set(forbidden):
            known[states.tobytes(), actions.tobytes()] = log_p + total / BETA
    log_z = math.log(sum(map(math.exp, known.values()))) if known else -math.inf
    values = [known.get((s.astype(int).tobytes(), a.astype(int).tobytes()), -math.inf) - log_z for s, a in demos]
    return float(np.mean(values)) if np.isfinite(values).all() else -math.inf


def brute_causal(mdp: MDP, demos, forbidden, risk: float) -> float:
    """Mean log-probability of the demonstrated actions, by plain recursion."""
    dense = mdp.transitions.toarray().reshape(5, 2, 5)

    def options(s):
        chances = [sum(dense[s, a, c] for c in forbidden) for a in range(2)]
        return [a for a in range(2) if chances[a] <= risk + 1e-9 or chances[a] <= min(chances) + 1e-9]

    def q(t, s, a):
        return mdp.rewards[s, a] + sum(dense[s, a, s2] * v(t + 1, s2) for s2 in np.flatnonzero(dense[s, a]))

    def v(t, s):
        if t == HORIZON or mdp.terminal[s]:
            return 0.0
        return BETA * math.log(sum(math.exp(q(t, s, a) / BETA) for a in options(s)))

    total = 0.0
    for states, actions in demos:
        for t, a in enumerate(actions):
            if a not in options(states[t]):
                return -math.inf
            total += (q(t, states[t], a) - v(t, states[t])) / BETA
    return total / len(demos)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_entropy_likelihood_is_the_sum_over_trajectories(seed, deterministic):
    mdp = small_mdp(seed, deterministic)
    demos = sampled(mdp, np.random.default_rng(seed))
    every = subsets([1, 2, 3])
    found = ml_greedy.entropy_likelihood(mdp, demos, BETA, masks(every))
    expected = [brute_entropy(mdp, demos, chosen) for chosen in every]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.isfinite(expected[0])


@pytest.mark.parametrize("risk", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_causal_likelihood_is_the_recursion(seed, risk):
    mdp = small_mdp(seed, deterministic=False)
    demos = sampled(mdp, np.random.default_rng(seed))
    every = subsets([1, 2, 3])
    allowed = ml_greedy.allowed_actions(mdp, masks(every), risk)
    found = ml_greedy.causal_likelihood(mdp, demos, BETA, allowed)
    np.testing.assert_allclose(found, [brute_causal(mdp, demos, chosen, risk) for chosen in every], atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_gain_is_the_probability_of_being_caught(seed):
    """Scobee's identity: -log(1 - P(tau hits c))."""
    mdp = small_mdp(seed, deterministic=True)
    weights = [(set(s.tolist()), math.exp(total / BETA)) for s, _, _, total in trajectories(mdp)]
    for c in (1, 2, 3):
        demos = sampled(mdp, np.random.default_rng(seed), avoid=(c,))
        if not demos:
            continue
        hit = sum(w for s, w in weights if c in s) / sum(w for _, w in weights)
        before, after = ml_greedy.entropy_likelihood(mdp, demos, BETA, masks([(), (c,)]))
        assert after - before == pytest.approx(-math.log1p(-hit), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_without_noise_both_likelihoods_are_the_same(seed):
    """Wherever an agent that has kept out of C so far can go on doing so."""
    mdp = small_mdp(seed, deterministic=True)
    demos = sampled(mdp, np.random.default_rng(seed))
    ends = mdp.transitions.toarray().reshape(5, 2, 5).argmax(axis=2)
    every = [one for one in subsets([1, 2, 3]) if all(s in one or not set(ends[s]) <= {*one} for s in range(4))]
    causal = ml_greedy.causal_likelihood(mdp, demos, BETA, ml_greedy.allowed_actions(mdp, masks(every), 0.5))
    np.testing.assert_allclose(causal, ml_greedy.entropy_likelihood(mdp, demos, BETA, masks(every)), atol=1e-9)
    assert len(every) > 1


@pytest.mark.parametrize(("causal", "deterministic"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_the_greedy_of_brute_force(seed, causal, deterministic):
    mdp = small_mdp(seed, deterministic)
    rng = np.random.default_rng(seed)
    demos = sampled(mdp, rng, avoid=(1 + seed % 3,), n=4) or sampled(mdp, rng, n=4)
    risk, d_kl = 0.3, 0.02
    dense = mdp.transitions.toarray().reshape(5, 2, 5)
    if causal:
        risked = {c for s, a in demos for t in range(len(a)) for c in range(5) if dense[s[t], a[t], c] > risk}
    else:
        risked = {int(c) for s, _ in demos for c in s}
    left, chosen = [c for c in (1, 2, 3) if c not in risked], []
    judge = (lambda c: brute_causal(mdp, demos, c, risk)) if causal else (lambda c: brute_entropy(mdp, demos, c))
    value = judge([])
    while left:
        tried = [judge([*chosen, c]) for c in left]
        best = max(range(len(left)), key=lambda i: (tried[i] >= max(tried) - 1e-9, -left[i]))
        if tried[best] - value <= d_kl:
            break
        value = tried[best]
        chosen.append(left.pop(best))
    *_, found = ml_greedy.learn(mdp, demos, causal=causal, beta=BETA, d_kl=d_kl, risk=risk)
    assert list(found.states) == chosen
    assert found.log_likelihood == pytest.approx(value, abs=1e-9)
    assert sum(found.gains) == pytest.approx(value - judge([]), abs=1e-9)


def test_demonstration_that_breaks_off_counts_what_may_follow():
    """Its likelihood is the sum over its continuations."""
    mdp = small_mdp(2, deterministic=False)
    whole = next(t for t in trajectories(mdp) if len(t[1]) == HORIZON)
    part = [(whole[0][:3], whole[1][:2])]
    for forbidden in ((), (3,), (1,)):
        follow = [
            (states, actions)
            for states, actions, _, _ in trajectories(mdp)
            if len(actions) >= 2 and (states[:3] == whole[0][:3]).all() and (actions[:2] == whole[1][:2]).all()
        ]
        chances = [math.exp(brute_entropy(mdp, [one], forbidden)) for one in follow]
        found = ml_greedy.entropy_likelihood(mdp, part, BETA, masks([forbidden]))[0]
        assert math.exp(found) == pytest.approx(sum(chances), abs=1e-12)


def test_allowed_actions():
    """Where every action is risky, the least risky remain."""
    p = np.zeros((3, 2, 3))
    p[0, 0], p[0, 1] = [0.0, 0.9, 0.1], [0.6, 0.1, 0.3]
    p[1, 0], p[1, 1] = [0.0, 0.2, 0.8], [0.0, 0.3, 0.7]
    p[2, :, 2] = 1.0
    mdp = MDP(p, np.zeros((3, 2)), np.eye(3)[0], 1.0, horizon=2, terminal=[False, False, True])
    found = ml_greedy.allowed_actions(mdp, np.array([[False], [False], [True]]), 0.2)[..., 0]
    np.testing.assert_array_equal(found, [[True, False], [False, True], [True, True]])


def test_likelihood_survives_low_temperatures():
    """exp(-200 / 1e-3) is far below the smallest number; log Z is not."""
    spec = make_spec(MAP, slip=0.0)
    mdp, demos = spec.model(finite=True, discount=1.0), spec.to_tabular(expert_demonstrations(spec, 5, beta=1e-3))
    *_, found = ml_greedy.learn(mdp, demos, causal=False, beta=1e-3, d_kl=0.1)
    assert np.isfinite(found.log_likelihood)
    assert spec.constrained[list(found.states)].any()


# -- the gridworld -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("causal", "slip"), [(False, 0.0), (True, 0.0), (True, 0.2)])
def test_finds_the_wall(causal, slip):
    """Planning around what is found is nearly as safe as the expert. Noise lets it blame cells beside the wall."""
    from tacit.demos import expert_policy
    from tacit.evaluate import evaluate_exact

    spec = make_spec(MAP, slip=slip)
    demos = expert_demonstrations(spec, 50, seed=1)
    *_, found = ml_greedy.learn(
        spec.model(finite=True, discount=1.0), spec.to_tabular(demos), causal=causal, beta=0.1, d_kl=0.1
    )
    if not slip:
        assert spec.constrained[found.states[0]]
    mdp = spec.model()
    policy = ml_greedy.plan_around(mdp, found.states, 0.1, 0.5).policy
    np.testing.assert_allclose(policy.sum(axis=1), 1.0)
    occupancy = [
        evaluate_exact(mdp, one, spec.constrained, step_limit=spec.horizon).violation_occupancy
        for one in (policy, ml_greedy.plan_around(mdp, (), 0.1, 0.5).policy, expert_policy(spec))
    ]
    assert occupancy[0] - occupancy[2] < (0.25 if slip else 0.001) * (occupancy[1] - occupancy[2])


def test_policy_never_takes_a_forbidden_action():
    spec = make_spec(MAP, slip=0.0)
    mdp = spec.model()
    forbidden = tuple(np.flatnonzero(spec.constrained).tolist())
    policy = ml_greedy.plan_around(mdp, forbidden, 0.1, 0.5).policy
    into = (mdp.transitions @ spec.constrained.astype(float)).reshape(policy.shape) > 0
    outside = ~spec.constrained
    assert (policy[outside][into[outside]] == 0.0).all()


@pytest.mark.parametrize("algo", ["ml-greedy", "ml-greedy-causal"])
def test_run_folder_and_report(algo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.txt").write_text(MAP)
    args = ["learn", algo, GRID, "--layout", "map.txt", "--slip", "0", "--json"]
    assert main(args) == 0
    told = json.loads(capsys.readouterr().out)
    run = Run.open(told["run"])
    cells = told["summary"]["forbidden"]
    assert {"demonstrations", "expert", "learned"} & set(told["summary"]["table"]) >= {"expert", "learned"}
    assert len(run.metrics()) == len(cells) + 1
    assert run.metrics()[-1]["gain"] == told["summary"]["gains"][-1] > 0.1
    first = (run.path / "summary.json").read_bytes(), (run.path / "metrics.jsonl").read_bytes()
    (run.path / "DONE").unlink()  # interrupted: once more from the start, with the same result
    assert main(["resume", str(run.path)]) == 0
    assert ((run.path / "summary.json").read_bytes(), (run.path / "metrics.jsonl").read_bytes()) == first
    assert main(["eval", str(run.path), "--episodes", "20"]) == 0
    assert main(["report", str(run.path)]) == 0
    page = (run.path / "report.html").read_text()
    assert "What is forbidden" in page
    assert "log-likelihood" in page


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["tacit/Pendulum-v0"], "exact model"),
        ([GRID, "--beta", "0"], "beta"),
        ([GRID, "--d-kl", "-1"], "d_kl"),
        ([GRID, "--risk", "1"], "risk"),
        ([GRID, "--max-states", "-1"], "max_states"),
    ],
)
def test_bad_input(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "ml-greedy-causal", *args]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def test_bad_arguments():
    mdp = small_mdp(0, True)
    endless = MDP(mdp.transitions, mdp.rewards, mdp.initial, 0.9, terminal=mdp.terminal)
    demos = sampled(mdp, np.random.default_rng(0))
    with pytest.raises(UserError, match="horizon"):
        next(ml_greedy.learn(endless, demos, causal=True))
    with pytest.raises(UserError, match="final state"):
        next(ml_greedy.learn(mdp, [(s[:-1], a) for s, a in demos], causal=False))
    with pytest.raises(TypeError, match="MDP"):
        next(ml_greedy.learn(None, demos, causal=True))
