"""The gridworld against oracles written from its description alone, and the simulators against the exact model."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from scipy import stats

from gridworld_oracle import DOWN, LEFT, RIGHT, UP, WALLED, chances, dense, shortest
from tacit.demos import expert_policy
from tacit.envs import describe_envs
from tacit.envs.gridworld import ENV_ID, GridworldEnv, GridworldVectorEnv, make_spec
from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import evaluate_policy, occupancy, plan

SLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def count_transitions(grid, states, actions, results):
    table = np.zeros((grid.n_states, grid.n_actions, grid.n_states))
    np.add.at(table, (states, actions, results), 1)
    return table


def chi_square_p(table, probabilities):
    """p-value of the counts (S, A, S) under the model, pooled over all state-action pairs; 0 for an impossible move."""
    if table[probabilities == 0].any():
        return 0.0
    visits = table.sum(axis=2, keepdims=True)
    expected = visits * probabilities
    # Pairs whose every possible outcome is expected often enough for the approximation.
    enough = (np.where(probabilities > 0, expected, np.inf) >= 5).all(axis=2, keepdims=True)
    used = enough & (probabilities > 0)
    statistic = ((table - expected)[used] ** 2 / expected[used]).sum()
    freedom = int(used.sum() - enough.sum())
    assert enough.sum() > 20, "the walk visited too little to say anything"
    return 1.0 if freedom == 0 else float(stats.chi2.sf(statistic, freedom))


# ---------------------------------------------------------------------------------------------------------------------
# The exact model


@pytest.mark.parametrize(("layout", "moves"), [("paper", 4), ("paper", 8), ("wall-4", 8), (WALLED, 4), (WALLED, 8)])
@pytest.mark.parametrize("slip", [0.0, 0.3, 1.0])
def test_model_follows_the_description(layout, moves, slip):
    grid = make_spec(layout, slip=slip, moves=moves)
    mdp = grid.model()
    table = dense(mdp)
    goal = grid.position_of(grid.goal)
    for state, action in itertools.product(range(grid.n_states), range(moves)):
        cell = grid.position_of(state)
        if cell == goal:
            assert mdp.rewards[state, action] == 0
            continue
        expected = chances(grid.rows, cell, action, moves, slip)
        row = np.zeros(grid.n_states)
        for other, probability in expected.items():
            row[grid.state_of(*other)] += probability
        np.testing.assert_allclose(table[state, action], row, atol=1e-15)
        reward = sum(p * (1.0 if other == goal else -1.0) for other, p in expected.items())
        cost = sum(p * (grid.rows[other[0]][other[1]] == "X") for other, p in expected.items())
        assert mdp.rewards[state, action] == pytest.approx(reward, abs=1e-14)
        assert grid.expected(grid.entry_costs)[state, action] == pytest.approx(cost, abs=1e-14)


def test_numbering_and_masks():
    grid = make_spec(WALLED, slip=0.2)
    mdp = grid.model()
    assert grid.n_states == 10  # 12 cells, 2 walls
    assert [grid.position_of(s) for s in (0, 1, 2, 3)] == [(0, 0), (0, 1), (0, 3), (1, 0)]
    assert grid.state_of(0, 3) == 2
    assert np.flatnonzero(grid.constrained).tolist() == [grid.state_of(1, 1)]
    assert np.flatnonzero(mdp.terminal).tolist() == [grid.state_of(1, 3)] == [grid.goal]
    assert np.flatnonzero(mdp.initial).tolist() == [grid.state_of(0, 0)] == [grid.start]
    assert all(grid.state_of(*grid.position_of(s)) == s for s in range(grid.n_states))
    observed = grid.states_of(np.array([[0, 1], [0, 2], [9, 0], [0.5, 0], [np.nan, 0], [-1, 0]]))
    assert observed.tolist() == [1, -1, -1, -1, -1, -1]
    assert grid.states_of(np.array([1, 0])).tolist() == [1, 0]  # two cell indices, not one position
    for bad in ((0, 2), (3, 0), (0, -1)):
        with pytest.raises(UserError, match=f"row {bad[0]}, column {bad[1]}"):
            grid.state_of(*bad)
    with pytest.raises(UserError, match="state 10"):
        grid.position_of(10)


def test_horizons_and_discounts():
    grid = make_spec("paper", slip=0.1)
    assert (grid.model().horizon, grid.model().discount) == (None, 0.99)
    assert grid.model(finite=True).horizon == 200
    assert grid.model(horizon=7, discount=1.0).horizon == 7
    # The finite model says the same as the infinite one when the horizon is long.
    policy = expert_policy(grid)
    endless = evaluate_policy(grid.model(), policy, grid.model().rewards)[grid.start]
    long = grid.model(horizon=3000)
    finite = evaluate_policy(long, np.broadcast_to(policy, (3000, *policy.shape)), long.rewards)
    assert np.ravel(finite[0])[grid.start] == pytest.approx(endless, abs=1e-9)


def test_lius_rule_and_rewards():
    """Their rule: the intended move has p + (1-p)/n, others (1-p)/n; impossible ones dropped, the rest renormalised."""
    grid = make_spec("wall-1", reward="liu", slip=0.2, slip_rule="liu")
    assert (grid.horizon, grid.moves, make_spec("wall-1").horizon) == (50, 8, 200)
    assert make_spec("wall-1", reward="liu", horizon=30).horizon == 30
    table = dense(grid.model())
    row = table[grid.state_of(0, 0), DOWN]  # three of eight moves are possible, `down` is one of them
    weights = {(1, 0): 0.8 + 0.2 / 8, (0, 1): 0.2 / 8, (1, 1): 0.2 / 8}
    for cell, weight in weights.items():
        assert row[grid.state_of(*cell)] == pytest.approx(weight / sum(weights.values()))
    row = table[grid.state_of(0, 0), UP]  # impossible: what is left is uniform
    assert row[grid.state_of(1, 1)] == pytest.approx(1 / 3)
    still = dense(make_spec("wall-1", slip=0.0, slip_rule="liu").model())
    assert still[grid.state_of(0, 0), UP, grid.state_of(0, 0)] == 1
    rewards = make_spec("wall-1", reward="liu", slip=0.0).model().rewards
    assert rewards.sum() == 3  # the goal is in a corner: three neighbours, one move each
    assert rewards[grid.state_of(5, 0), DOWN] == 1


def test_known_path_lengths():
    """Liu et al.'s experts take 11, 10, 12 and 15 states; ours: 4 moves through the wall, 8 around it."""
    safe = [shortest(make_spec(f"wall-{i}").rows, 8, forbidden="X") for i in (1, 2, 3, 4)]
    assert safe == [10, 9, 11, 14]
    assert shortest(make_spec("paper").rows, 8) == 4
    assert shortest(make_spec("paper").rows, 8, forbidden="X") == 8
    assert shortest(make_spec("far-wall").rows, 4) == 6
    assert shortest(make_spec("far-wall").rows, 4, forbidden="X") == 14


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize(("layout", "most", "detour"), [("paper", 0.25, 4), ("far-wall", 0.15, 6)])
def test_the_layout_makes_sense_at_every_slip(layout, most, detour, slip):
    """The fastest agent violates every time; the expert rarely does, and still arrives."""
    grid = make_spec(layout, slip=slip)
    mdp = grid.model(horizon=200, discount=1.0)
    reward, cost = mdp.rewards, grid.expected(grid.entry_costs)

    def measure(policy):
        visits = occupancy(mdp, np.broadcast_to(policy, (200, *policy.shape)))
        arrival = (visits * dense(mdp)[..., grid.goal]).sum()
        return (visits * cost).sum(), (visits * reward).sum(), arrival

    endless = grid.model()
    violations, nominal_return, _ = measure(plan(endless, endless.rewards, 0.1).policy)
    expert_violations, expert_return, arrival = measure(expert_policy(grid))
    assert violations >= 0.99  # violating steps an episode
    assert expert_violations <= most
    assert (expert_violations < 1e-9) == (slip == 0)
    assert arrival > 0.9999
    assert -35 < expert_return <= nominal_return - detour + 1e-9


# ---------------------------------------------------------------------------------------------------------------------
# The simulators


def walk_vector(layout, slip, steps, copies, seed):
    env = GridworldVectorEnv(copies, layout, slip=slip, observation="index")
    rng = np.random.default_rng(seed)
    now, _ = env.reset(seed=seed)
    visited = []
    for _ in range(steps):
        actions = rng.integers(env.grid.n_actions, size=copies)
        after, rewards, terminated, truncated, info = env.step(actions)
        ended = terminated | truncated
        result = np.where(ended, info["final_obs"], after) if ended.any() else after
        costs = np.where(ended, info["final_info"]["cost"], info["cost"]) if ended.any() else info["cost"]
        visited.append((now, actions, result))
        np.testing.assert_array_equal(rewards, np.where(result == env.grid.goal, 1.0, -1.0))
        np.testing.assert_array_equal(costs, env.grid.constrained[result])
        np.testing.assert_array_equal(terminated, result == env.grid.goal)
        now = after
    return env.grid, count_transitions(env.grid, *np.concatenate(visited, axis=1))


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize(("layout", "seed"), [("paper", 1), ("wall-2", 2), (WALLED, 3)])
def test_vector_simulator_matches_the_model(layout, seed, slip):
    grid, table = walk_vector(layout, slip, steps=1000, copies=512, seed=seed)
    assert chi_square_p(table, dense(grid.model())) > 1e-3
    # The test has power: it notices a slip that is wrong by 0.04.
    wrong = make_spec(grid, slip=slip + 0.04)
    assert chi_square_p(table, dense(wrong.model())) < 1e-9


@pytest.mark.parametrize("slip", SLIPS)
def test_single_simulator_matches_the_model(slip):
    env = GridworldEnv(WALLED, slip=slip, observation="index")
    rng = np.random.default_rng(5)
    visited = []
    state, _ = env.reset(seed=5)
    for _ in range(15_000):
        action = rng.integers(4)
        after, _, terminated, truncated, _ = env.step(action)
        visited.append((state, action, after))
        state = env.reset()[0] if terminated or truncated else after
    table = count_transitions(env.grid, *np.array(visited).T)
    assert chi_square_p(table, dense(env.grid.model())) > 1e-3
    assert chi_square_p(table, dense(make_spec(env.grid, slip=slip + 0.06).model())) < 1e-4


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_lead_nowhere_impossible(u):
    class Stub:
        def random(self, n):
            return np.full(n, u)

    for layout, slip in itertools.product(("paper", "wall-4", WALLED), SLIPS):
        grid = make_spec(layout, slip=slip)
        states, actions = np.divmod(np.arange(grid.n_states * grid.n_actions), grid.n_actions)
        live = states != grid.goal
        results = grid.sample_next(states[live], actions[live], Stub())
        assert (dense(grid.model())[states[live], actions[live], results] > 0).all()


def test_single_equals_a_batch_of_one():
    single, batch = GridworldEnv("paper", slip=0.4), GridworldVectorEnv(1, "paper", slip=0.4)
    observation, _ = single.reset(seed=11)
    batched, _ = batch.reset(seed=11)
    for action in np.random.default_rng(0).integers(4, size=1500):
        np.testing.assert_array_equal(observation, batched[0])
        observation, reward, terminated, truncated, info = single.step(action)
        batched, rewards, ends, cuts, infos = batch.step(np.array([action]))
        assert (reward, terminated, truncated) == (rewards[0], ends[0], cuts[0])
        if terminated or truncated:
            np.testing.assert_array_equal(infos["final_obs"][0], observation)
            assert infos["final_info"]["cost"][0] == info["cost"]
            observation, _ = single.reset()


def test_automatic_restart_is_gymnasiums():
    """Without slip nothing is random: the batch must equal Gymnasium's own same-step wrapper around single copies."""
    kwargs = {"layout": "S.X.G\n.....\n", "slip": 0.0, "horizon": 9}
    ours = GridworldVectorEnv(5, **kwargs)
    theirs = SyncVectorEnv([lambda: GridworldEnv(**kwargs)] * 5, autoreset_mode=AutoresetMode.SAME_STEP)
    assert ours.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    a, b = ours.reset(seed=0), theirs.reset(seed=0)
    np.testing.assert_array_equal(a[0], b[0])
    rng = np.random.default_rng(1)
    endings = set()
    for _ in range(300):
        actions = rng.choice(4, size=5, p=[0.5, 0.1, 0.2, 0.2])
        a, b = ours.step(actions), theirs.step(actions)
        for x, y in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(a[4]["cost"], b[4]["cost"])
        assert a[4].keys() == b[4].keys()
        endings |= {(bool(t), bool(c)) for t, c in zip(a[2], a[3], strict=True)}
        if "final_obs" in a[4]:
            ended = a[4]["_final_obs"]
            np.testing.assert_array_equal(ended, b[4]["_final_obs"])
            np.testing.assert_array_equal(a[4]["final_obs"][ended], np.stack(b[4]["final_obs"][ended]))
            np.testing.assert_array_equal(a[4]["final_info"]["cost"][ended], b[4]["final_info"]["cost"][ended])
            np.testing.assert_array_equal(a[4]["final_info"]["_cost"], b[4]["final_info"]["_cost"])
    assert endings == {(False, False), (True, False), (False, True)}  # ordinary, goal, time limit


def test_observations_are_not_shared_with_the_environment():
    env = GridworldVectorEnv(3, "far-wall", slip=0.0)
    first, _ = env.reset(seed=0)
    first[:] = -5
    second, *_ = env.step(np.zeros(3, dtype=int))
    np.testing.assert_array_equal(second, [[6, 2]] * 3)


def test_truncated_at_the_horizon_and_cost_inside_the_wall():
    env = gym.make(ENV_ID, layout="far-wall", slip=0.0)
    _, info = env.reset(seed=0)
    assert info == {"cost": 0.0}
    results = [env.step(np.int64(RIGHT)) for _ in range(3)]
    assert [r[4]["cost"] for r in results] == [0.0, 0.0, 1.0]  # the third cell is constrained
    env.reset()
    for step in range(1, 201):
        _, reward, terminated, truncated, _ = env.step(np.int64(LEFT))
        assert (reward, terminated, truncated) == (-1.0, False, step == 200)


def test_seeds_and_partial_reset():
    def run(seed):
        env = GridworldVectorEnv(8, "far-wall", slip=0.5)
        env.reset(seed=seed)
        return np.stack([env.step(np.full(8, RIGHT))[0] for _ in range(30)])

    np.testing.assert_array_equal(run(3), run(3))
    assert (run(3) != run(4)).any()
    assert len({path.tobytes() for path in run(3).swapaxes(0, 1)}) > 1  # the copies are independent
    env = GridworldVectorEnv(2, "far-wall", slip=0.0)
    env.reset(seed=0)
    env.step(np.array([UP, UP]))
    observations, _ = env.reset(options={"reset_mask": np.array([True, False])})
    np.testing.assert_array_equal(observations, [[6, 1], [5, 1]])
    with pytest.raises(UserError, match="reset_mask"):
        env.reset(options={"reset_mask": np.array([True])})


@pytest.mark.parametrize("observation", ["position", "index"])
def test_restoring_continues_bit_by_bit(observation):
    options = {"slip": 0.3, "horizon": 20, "observation": observation}
    env = GridworldVectorEnv(6, **options)
    env.reset(seed=3)
    actions = np.random.default_rng(0).integers(4, size=(60, 6))
    for action in actions[:31]:
        env.step(action)
    state = {name: array.copy() for name, array in env.get_state().items()}
    expected = [env.step(action) for action in actions[31:]]
    other = GridworldVectorEnv(6, **options)
    other.set_state(state)
    ended = 0
    for action, one in zip(actions[31:], expected, strict=True):
        two = other.step(action)
        for a, b in zip(one[:4], two[:4], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        np.testing.assert_array_equal(one[4]["cost"], two[4]["cost"])
        ended += int((one[2] | one[3]).sum())
    assert ended > 6, "episodes that end, and so restart, belong to the test"


def test_states_that_do_not_fit_are_refused():
    env = GridworldVectorEnv(3)
    with pytest.raises(gym.error.ResetNeeded):
        env.get_state()
    env.reset(seed=0)
    state = env.get_state()
    for wrong, words in (
        ({"states": state["states"]}, "needs an array 'steps'"),
        ({**state, "steps": np.zeros(4, int)}, r"shape \(3,\), not \(4,\)"),
        ({**state, "states": np.full(3, env.grid.n_states)}, "numbers of cells"),
        ({**state, "states": np.full(3, 0.5)}, "numbers of cells"),
    ):
        with pytest.raises(UserError, match=words):
            env.set_state(wrong)
    with pytest.raises(UserError, match=r"shape \(2,\)"):
        GridworldVectorEnv(2).set_state(state)


@pytest.mark.parametrize("observation", ["position", "index"])
@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_gymnasiums_checker(observation, render_mode):
    env = gym.make(ENV_ID, layout="wall-3", slip=0.3, observation=observation, render_mode=render_mode)
    check_env(env.unwrapped)


def test_registration_and_listing():
    info = next(info for info in describe_envs() if info.id == ENV_ID)
    assert info.horizon == 200
    assert "X" in info.constraint
    env = gym.make(ENV_ID, layout="wall-2", slip=0.2)
    assert env.get_wrapper_attr("feature_names") == ("row", "column")
    assert env.unwrapped.grid == make_spec("wall-2", slip=0.2)
    batch = gym.make_vec(ENV_ID, num_envs=7, layout="wall-2")
    assert isinstance(batch, GridworldVectorEnv)
    assert batch.num_envs == 7
    assert batch.feature_names == ("row", "column")


def test_wrong_use_of_the_simulators():
    env, batch = GridworldEnv("far-wall"), GridworldVectorEnv(2, "far-wall")
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.int64(0))
    with pytest.raises(gym.error.ResetNeeded):
        batch.step(np.zeros(2, dtype=int))
    env.reset(seed=0)
    batch.reset(seed=0)
    with pytest.raises(UserError, match=r"0 \.\.\. 3, not 4"):
        env.step(np.int64(4))
    with pytest.raises(UserError, match=r"0 \.\.\. 3, not -1 \.\.\. 0"):
        batch.step(np.array([0, -1]))
    for actions in (np.zeros(3, dtype=int), np.zeros(2)):
        with pytest.raises(UserError, match="actions must be 2 integers"):
            batch.step(actions)
    with pytest.raises(UserError, match="num_envs"):
        GridworldVectorEnv(0)


def test_a_road_is_cheap():
    """Another reward in the same world: steps into the lowest row cost 0.2, the goal pays as before."""
    rewards = make_spec("S.\n.G\n", reward="road", slip=0.0).entry_rewards
    assert rewards.tolist() == [-1.0, -1.0, -0.2, 1.0]
    assert make_spec("S.\n.G\n", slip=0.0).entry_rewards.tolist() == [-1.0, -1.0, -1.0, 1.0]
