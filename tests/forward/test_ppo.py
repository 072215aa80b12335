"""PPO and PPO-Lagrangian on probe environments with known answers; resuming, reproducing, failing.

All probes share shapes (one number observed, two actions or one), so that only few updates are compiled.
"""

import dataclasses
import math

import gymnasium as gym
import jax
import numpy as np
import pytest
from scipy.optimize import linprog

import probes
from tacit.errors import RunFailed, UserError
from tacit.forward import agent, collect, normalize, ppo, ppo_lagrangian
from tacit.run.storage import load_arrays, save_arrays

N = 16
PLAIN = ppo.Config(
    total_steps=10**6,
    rollout_steps=256,
    batch_size=64,
    epochs=4,
    hidden=(16, 16),
    lr=1e-2,
    target_kl=None,
    beta=0.0,
    normalize_obs=False,
    normalize_reward=False,
)
LAGRANGIAN = ppo_lagrangian.Config(**dataclasses.asdict(PLAIN))


def train(env, config, iterations, seed=0, algorithm=ppo, **kwargs):
    state, history = algorithm.init(env, config, seed), []
    for _ in range(iterations):
        state, metrics, _ = algorithm.iterate(env, config, state, **kwargs)
        history.append(metrics)
    return state, history


def values(state, observations):
    return np.asarray(state.params.critics[0](np.float32(observations)[:, None]))[:, 0]


def probability(state, obs, action=1):
    inner = getattr(state, "agent", state)
    return math.exp(float(agent.policy_of(inner).log_prob(np.float32([obs]), np.array(action))))


# ---------------------------------------------------------------------------------------------------------------------
# Known answers


def test_value_of_a_constant():
    state, history = train(probes.constant(N), PLAIN, 40)
    assert values(state, [0.0]) == pytest.approx([1.0], abs=0.02)
    assert history[-1]["rollout/ep_rew_mean"] == 1.0
    assert history[-1]["rollout/ep_len_mean"] == 1.0


def test_discounted_value():
    config = dataclasses.replace(PLAIN, gamma=0.5)
    state, _ = train(probes.delayed(N), config, 60)
    assert values(state, [0.0, 1.0]) == pytest.approx([0.5, 1.0], abs=0.03)


@pytest.mark.parametrize("horizon", [1, 5])
def test_a_time_limit_does_not_lower_the_value(horizon):
    config = dataclasses.replace(PLAIN, gamma=0.75)
    state, _ = train(probes.endless(N, horizon), config, 120)
    assert values(state, [0.0]) == pytest.approx([4.0], rel=0.03)


def test_action_depends_on_the_observation():
    state, _ = train(probes.match(N), PLAIN, 40)
    assert probability(state, 1.0, 1) > 0.95
    assert probability(state, -1.0, 0) > 0.95


@pytest.mark.parametrize("scaled", [True, False])
def test_gaussian_policy_finds_the_target(scaled):
    config = dataclasses.replace(PLAIN, scale_actions=scaled, normalize_obs=True, normalize_reward=True, lr=3e-3)
    state, history = train(probes.Aim(N), config, 80)
    act = ppo.policy_of(state).act(np.float32([[-1.0], [1.0]]), np.random.default_rng(0), deterministic=True)
    assert act[:, 0] == pytest.approx([-0.5, 0.5], abs=0.08)
    assert history[-1]["train/std"] < 0.7 * history[0]["train/std"]


def test_entropy_in_the_return_looks_ahead_and_in_the_loss_does_not():
    base = dataclasses.replace(PLAIN, beta=1.0, gamma=0.9, gae_lambda=1.0, standardise="none", lr=3e-3)
    state, _ = train(probes.choice(N), base, 120)
    assert probability(state, 0.0, 0) == pytest.approx(2**0.9 / (1 + 2**0.9), abs=0.03)
    assert values(state, [1.0]) == pytest.approx([math.log(2)], abs=0.05)
    state, _ = train(probes.choice(N), dataclasses.replace(base, entropy="loss"), 120)
    assert probability(state, 0.0, 0) == pytest.approx(0.5, abs=0.03)
    assert values(state, [1.0]) == pytest.approx([0.0], abs=0.05)


def test_soft_optimal_policy_of_a_random_mdp():
    """The gap in value, which is beta E KL(pi_ppo || pi_exact) along pi_ppo's own path, is small."""
    from tacit.forward.soft_policy_iteration import evaluate_policy, plan
    from tacit.tabular import MDP

    rng = np.random.default_rng(3)
    transitions, rewards = rng.dirichlet(np.ones(4), size=(4, 2)), rng.normal(size=(4, 2))
    env = probes.Tabular(N, transitions, rewards, start=np.full(4, 0.25), horizon=40)  # Discrete: one-hot for the nets
    beta, gamma = 0.5, 0.8
    config = dataclasses.replace(
        PLAIN, beta=beta, gamma=gamma, lr_final=0.05, total_steps=200 * 256, standardise="none"
    )
    *_, (state, _) = ppo.learn(env, config, 0)
    policy = ppo.policy_of(state)
    table = np.exp([[float(policy.log_prob(np.array(s), np.array(a))) for a in range(2)] for s in range(4)])

    import scipy.sparse as sp

    mdp = MDP(sp.csr_array(transitions.reshape(8, 4)), rewards, np.full(4, 0.25), gamma)
    best = mdp.initial @ plan(mdp, rewards, beta).value
    reached = mdp.initial @ evaluate_policy(mdp, table / table.sum(1, keepdims=True), rewards, beta)
    uniform = mdp.initial @ evaluate_policy(mdp, np.full((4, 2), 0.5), rewards, beta)
    assert best >= reached - 1e-9
    assert best - reached < 0.02 * (best - uniform)


def test_gridworld_against_the_exact_solver():
    """For any policy q the gap in soft value is beta E_q KL(q || pi*): an identity that PPO's policy must obey, too."""
    from tacit.envs.gridworld import make_spec
    from tacit.forward.soft_policy_iteration import evaluate_policy, occupancy, plan
    from tacit.tabular import MDP

    beta, gamma = 0.1, 0.95
    model = make_spec("paper", slip=0.1).model()
    mdp = MDP(model.transitions, model.rewards, model.initial, gamma, None, model.terminal)
    env = collect.make_vec("tacit/Gridworld-v0", 32, layout="paper", slip=0.1, observation="index")
    config = ppo.Config(
        total_steps=61_440, beta=beta, gamma=gamma, lr=1e-3, lr_final=0.05, target_kl=None, normalize_reward=False
    )
    *_, (state, _) = ppo.learn(env, config, 0)

    policy, cells = ppo.policy_of(state), np.arange(mdp.n_states)
    log_q = np.stack([policy.log_prob(cells, np.full(len(cells), a)) for a in range(mdp.n_actions)], axis=1)
    q = np.exp(log_q.astype(float))
    q /= q.sum(axis=1, keepdims=True)
    best = plan(mdp, mdp.rewards, beta)
    gap = mdp.initial @ (best.value - evaluate_policy(mdp, q, mdp.rewards, beta))
    visits = occupancy(mdp, q).sum(axis=1)
    kl = (q * (np.log(q) - best.log_policy)).sum(axis=1)
    assert gap == pytest.approx(beta * visits @ kl, rel=1e-3)
    assert visits @ kl / visits.sum() < 0.05  # nats; 6.6 for the uniform policy


# ---------------------------------------------------------------------------------------------------------------------
# Constraints


def lane_optimum(budget):
    """max mean reward s.t. mean cost <= budget in `probes.fast_lane`, over stationary occupancies mu(s, a)."""
    env = probes.fast_lane(1)
    flow = np.zeros((3, 4))
    for s in range(2):
        for a in range(2):
            flow[:2, 2 * s + a] = np.eye(2)[s] - env.p[s, a]
            flow[2, 2 * s + a] = 1.0
    found = linprog(-env.r.ravel(), A_ub=env.c.reshape(1, 4), b_ub=[budget], A_eq=flow, b_eq=[0, 0, 1])
    assert found.status == 0
    return -found.fun


CONSTRAINED = dataclasses.replace(
    LAGRANGIAN, beta=0.1, gamma=0.9, cost_gamma=0.9, penalty_unit="reward", budget=0.4, multiplier_init=1.0
)


@pytest.mark.parametrize(
    "settings",
    [
        {"multiplier": "ascent", "multiplier_lr": 0.1},
        {"multiplier": "softplus", "multiplier_lr": 0.02},
        {"multiplier": "pid", "pid_gains": (1.0, 0.1, 0.0)},
        {"multiplier": "ascent", "multiplier_lr": 0.1, "critics": "single"},
    ],
    ids=["ascent", "softplus", "pid", "rcpo"],
)
def test_budget_is_met_at_the_optimum_of_the_linear_program(settings):
    config = dataclasses.replace(CONSTRAINED, **settings)
    _, history = train(probes.fast_lane(N), config, 250, algorithm=ppo_lagrangian)
    late = history[100:]
    cost, reward = (np.mean([m[name] for m in late]) for name in ("rollout/cost_mean", "rollout/rew_mean"))
    assert cost == pytest.approx(0.4, abs=0.02)
    assert reward == pytest.approx(lane_optimum(0.4), abs=0.02)  # 0.375; the same action everywhere would earn 0.285


def test_multiplier_comes_down_when_the_budget_allows_everything():
    config = dataclasses.replace(CONSTRAINED, budget=0.95, multiplier_init=2.0, multiplier_lr=0.2)
    _, history = train(probes.fast_lane(N), config, 120, algorithm=ppo_lagrangian)
    multipliers = [m["train/multiplier"] for m in history]
    assert multipliers[0] == 2.0
    assert multipliers[-1] == 0.0
    assert history[-1]["rollout/rew_mean"] == pytest.approx(lane_optimum(0.95), abs=0.06)


def test_budget_of_an_episode_is_that_of_a_step_times_its_length():
    env = probes.fast_lane(N, horizon=8)
    per_episode = dataclasses.replace(CONSTRAINED, budget=3.2, budget_per="episode", multiplier_lr=0.05 / 8)
    a, _ = train(env, per_episode, 30, algorithm=ppo_lagrangian)
    b, _ = train(env, CONSTRAINED, 30, algorithm=ppo_lagrangian)
    assert a.multiplier.value == pytest.approx(b.multiplier.value, rel=1e-6)


def test_fixed_penalty_in_units_of_the_mean_reward():
    """A penalty that outweighs the reward keeps out of the lane, at any scale of the rewards."""
    for scale in (1.0, 1000.0):
        env = probes.fast_lane(N)
        env.r = env.r * scale
        config = dataclasses.replace(
            CONSTRAINED, multiplier="fixed", penalty_unit="rbar", multiplier_init=5.0, normalize_reward=True
        )
        state, history = train(env, config, 40, algorithm=ppo_lagrangian)
        assert history[0]["train/penalty"] == pytest.approx(5.0 * history[0]["rollout/rew_mean"])
        assert state.multiplier.value == 5.0
        assert probability(state, 0.0) < 0.1
        # The unit is what an average step was worth, not what little the careful agent earns in the end.
        assert 0.3 * scale < state.rbar < 0.5 * scale
        assert state.reward_size < 0.2 * scale


@pytest.mark.parametrize(("unit", "multiplier"), [("reward", 1.0), ("advantage", 20.0)])
def test_a_learned_cost_replaces_that_of_the_environment(unit, multiplier):
    """The function charges action 1 more than it earns, where the environment charges lane 1: it is avoided."""
    seen = []

    def cost(obs, act, next_obs):
        seen.append((obs.shape, act.shape, next_obs.shape))
        return 2.0 * (act == 1)

    config = dataclasses.replace(CONSTRAINED, multiplier="fixed", multiplier_init=multiplier, penalty_unit=unit)
    state, history = train(probes.fast_lane(N), config, 40, algorithm=ppo_lagrangian, cost=cost)
    assert probability(state, 0.0) < 0.1
    assert probability(state, 1.0) < 0.1
    assert seen[0] == ((256, 1), (256,), (256, 1))
    assert history[-1]["train/cost_mean"] < 0.2 < history[0]["train/cost_mean"]


def test_terminal_cost_makes_an_end_unattractive():
    """In `choice` both actions are free; a price on the end is discounted once more after action 0."""
    env = probes.choice(N)
    config = dataclasses.replace(CONSTRAINED, multiplier="fixed", multiplier_init=1.0, beta=0.1)
    state, history = train(
        env, config, 40, algorithm=ppo_lagrangian, cost=lambda obs, act, nxt: np.zeros(len(obs)), terminal_cost=5.0
    )
    assert probability(state, 0.0, 0) > 0.9
    assert history[-1]["train/cost_mean"] == 0.0
    critic = np.asarray(state.agent.params.critics[1](np.float32([[0.0], [1.0]])))[:, 0] * state.cost_scale.std
    assert critic == pytest.approx([4.5, 5.0], abs=0.3)


# ---------------------------------------------------------------------------------------------------------------------
# The update


def test_kl_stop_ends_the_epochs():
    env = probes.match(N)
    free, stopped = (dataclasses.replace(PLAIN, lr=3e-2, target_kl=kl) for kl in (None, 1e-4))
    assert train(env, free, 1)[1][0]["train/epochs"] == 4
    _, history = train(env, stopped, 1)
    assert history[0]["train/epochs"] < 4
    assert history[0]["train/approx_kl"] > 1.5e-4


def test_first_ratio_is_one():
    """The compiled policy is the one that acted: as long as nothing is learned nothing is clipped and the KL is 0."""
    config = dataclasses.replace(PLAIN, lr=1e-12, normalize_obs=True)
    _, history = train(probes.Aim(N), config, 3)
    for metrics in history:
        assert metrics["train/approx_kl"] == pytest.approx(0.0, abs=1e-9)
        assert metrics["train/clip_fraction"] == 0.0


def test_learning_rate_decays_to_its_fraction():
    config = dataclasses.replace(PLAIN, lr=1.0, lr_final=0.1, total_steps=1000)
    assert ppo.learning_rate(config, 0) == 1.0
    assert ppo.learning_rate(config, 500) == pytest.approx(0.55)
    assert ppo.learning_rate(config, 5000) == pytest.approx(0.1)


def test_normaliser_statistics_are_those_of_the_observations():
    env, config = probes.match(N), dataclasses.replace(PLAIN, normalize_obs=True)
    state, seen = ppo.init(env, config, 0), []
    for _ in range(3):
        state, _, rollout = ppo.iterate(env, config, state)
        seen.append(rollout.obs.reshape(-1, 1))
    everything = np.concatenate(seen).astype(float)
    assert state.obs_stats.count == len(everything)
    np.testing.assert_allclose(state.obs_stats.mean, everything.mean(0), rtol=1e-12)
    np.testing.assert_allclose(state.obs_stats.var, everything.var(0), rtol=1e-9)


def test_frozen_reward_scale_and_new_networks():
    env, config = probes.fast_lane(N), dataclasses.replace(LAGRANGIAN, normalize_reward=True, normalize_obs=True)
    state, _ = train(env, config, 2, algorithm=ppo_lagrangian)
    frozen = ppo_lagrangian.freeze_reward_scale(state)
    later, _, _ = ppo_lagrangian.iterate(env, config, frozen)
    assert later.agent.reward_scale.std == state.agent.reward_scale.std
    assert later.rbar == state.rbar
    fresh = ppo_lagrangian.reinitialise(config, later)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), fresh.agent.params.critics, later.agent.params.critics)
    assert any(jax.tree.leaves(changed))
    assert fresh.agent.obs_stats is later.agent.obs_stats
    assert fresh.steps == later.steps
    assert int(jax.tree.leaves(fresh.agent.opt_state)[0]) == 0
    assert ppo_lagrangian.iterate(env, config, fresh)[0].steps == later.steps + 256


# ---------------------------------------------------------------------------------------------------------------------
# Rollouts


class Costly(gym.Env):
    """Three steps; observation and cost are the step's number."""

    observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.float32([0]), {}

    def step(self, action):
        self.t += 1
        return np.float32([self.t]), 1.0, self.t == 3, False, {"cost": 10.0 * self.t}


def sync(n, mode=gym.vector.AutoresetMode.SAME_STEP):
    return gym.vector.SyncVectorEnv([Costly] * n, autoreset_mode=mode)


def test_last_step_of_an_episode_keeps_its_observation_and_cost():
    env = sync(N)
    state, rollout = ppo.gather(env, PLAIN, ppo.init(env, PLAIN, 0))
    steps = np.arange(16) % 3
    np.testing.assert_array_equal(rollout.obs[:, 0, 0], steps)
    np.testing.assert_array_equal(rollout.next_obs[:, 0, 0], steps + 1)
    np.testing.assert_array_equal(rollout.cost[:, 0], 10.0 * (steps + 1))
    np.testing.assert_array_equal(rollout.done[:, 0], steps == 2)
    np.testing.assert_array_equal(state.carry.recent, np.tile([3.0, 3.0, 60.0], (80, 1)))
    np.testing.assert_array_equal(state.carry.episode[:, 0], [1.0, 1.0, 10.0])


def test_other_reset_modes_are_refused():
    with pytest.raises(UserError, match="SAME_STEP"):
        ppo.init(sync(N, gym.vector.AutoresetMode.DISABLED), PLAIN, 0)


def test_fast_path_equals_the_gymnasium_interface():
    pytest.importorskip("mujoco")
    fast = collect.make_vec("tacit/Pendulum-v0", N)
    slow = gym.vector.VectorWrapper(collect.make_vec("tacit/Pendulum-v0", N))
    rollouts = [ppo.gather(env, PLAIN, ppo.init(env, PLAIN, 0))[1] for env in (fast, slow)]
    assert rollouts[0].done.any()
    for field in dataclasses.fields(rollouts[0]):
        np.testing.assert_array_equal(*(getattr(rollout, field.name) for rollout in rollouts))


# ---------------------------------------------------------------------------------------------------------------------
# Saving, resuming, failing


def same(a, b):
    (arrays_a, meta_a), (arrays_b, meta_b) = a, b
    assert arrays_a.keys() == arrays_b.keys()
    for name in arrays_a:
        np.testing.assert_array_equal(arrays_a[name], arrays_b[name], err_msg=name)
        assert arrays_a[name].dtype == arrays_b[name].dtype
    assert meta_a == meta_b


CASES = {
    "gaussian": (ppo, probes.Aim, dataclasses.replace(PLAIN, normalize_obs=True, normalize_reward=True)),
    "robot": (
        ppo,
        lambda n: collect.make_vec("tacit/Pendulum-v0", n),
        dataclasses.replace(PLAIN, normalize_obs=True, normalize_reward=True),
    ),
    "gridworld": (
        ppo_lagrangian,
        lambda n: collect.make_vec("tacit/Gridworld-v0", n, slip=0.2, horizon=40),
        dataclasses.replace(LAGRANGIAN, multiplier="ascent", normalize_obs=True, normalize_reward=True),
    ),
    "forfeit": (
        ppo_lagrangian,
        lambda n: collect.make_vec("tacit/Reactor-v0", n),
        dataclasses.replace(
            LAGRANGIAN, critics="single", ascent_by="factor", forfeit=0.3, log_std_final=-2.0, total_steps=1024
        ),
    ),
    "constrained": (
        ppo_lagrangian,
        probes.fast_lane,
        dataclasses.replace(LAGRANGIAN, multiplier="pid", budget=0.3, penalty_unit="advantage", normalize_reward=True),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_resume_is_exact(case, tmp_path):
    if case == "robot":
        pytest.importorskip("mujoco")
    algorithm, make, config = CASES[case]
    straight = [state for state, _ in zip(algorithm.learn(make(N), config, 7), range(4), strict=False)]
    save_arrays(tmp_path / "two.safetensors", *algorithm.state_to_arrays(straight[1][0]))
    loaded = algorithm.state_from_arrays(*load_arrays(tmp_path / "two.safetensors"))
    resumed = [item for item, _ in zip(algorithm.learn(make(N), config, 7, state=loaded), range(2), strict=False)]
    for (a, metrics_a), (b, metrics_b) in zip(straight[2:], resumed, strict=True):
        same(algorithm.state_to_arrays(a), algorithm.state_to_arrays(b))
        numbers = [{k: v for k, v in m.items() if not k.startswith("time/")} for m in (metrics_a, metrics_b)]
        assert numbers[0] == numbers[1]


def test_same_seed_same_run_and_other_seed_other_run():
    runs = [ppo.state_to_arrays(train(probes.match(N), PLAIN, 2, seed)[0]) for seed in (1, 1, 2)]
    same(runs[0], runs[1])
    assert (runs[0][0]["carry/obs"] != runs[2][0]["carry/obs"]).any()


def test_resume_without_saved_environments_warns_and_goes_on():
    state, _ = train(sync(N), PLAIN, 1)
    assert not ppo.state_to_arrays(state)[1]["env_state"]
    with pytest.warns(UserWarning, match="begin anew"):
        state, _ = next(ppo.learn(sync(N), PLAIN, 0, state=state))
    assert state.steps == 512


def test_what_does_not_fit_is_refused():
    state, _ = train(probes.match(N), PLAIN, 1)
    with pytest.raises(UserError, match="n_actions = 2, the environment has 0"):
        next(ppo.learn(probes.Aim(N), PLAIN, 0, state=state))
    with pytest.raises(UserError, match="16 environments, but 8 were given"):
        next(ppo.learn(probes.match(8), PLAIN, 0, state=state))
    arrays, metadata = ppo.state_to_arrays(state)
    with pytest.raises(UserError, match="PPO-Lagrangian agent"):
        ppo_lagrangian.state_from_arrays(arrays, metadata)
    with pytest.raises(UserError, match="damaged"):
        ppo.state_from_arrays({k: v for k, v in arrays.items() if "weights" not in k}, metadata)
    with pytest.raises(UserError, match="multiple of the number of environments"):
        ppo.init(probes.match(24), PLAIN, 0)
    with pytest.raises(UserError, match='info\\["cost"\\]'):
        train(probes.match(N), LAGRANGIAN, 1, algorithm=ppo_lagrangian)
    with pytest.raises(UserError, match="one number per row"):
        train(probes.match(N), LAGRANGIAN, 1, algorithm=ppo_lagrangian, cost=lambda o, a, n: o)
    with pytest.raises(UserError, match="multiplier must be fixed"):
        ppo_lagrangian.init(probes.match(N), dataclasses.replace(LAGRANGIAN, multiplier="lagrange"), 0)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"max_grad_norm": -1.0}, "max_grad_norm must be positive, it is -1.0"),
        ({"gae_lambda": 2.0}, "gae_lambda must be at least 0 and at most 1, not 2.0"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"target_kl": 0.0}, "target_kl must be positive"),
        ({"obs_clip": -1.0}, "obs_clip"),
        ({"reward_clip": -1.0}, "reward_clip"),
        ({"lr_final": -3.0}, "lr_final"),
        ({"cost_gamma": 1.5}, "cost_gamma must be above 0 and at most 1"),
        ({"cost_gae_lambda": -0.1}, "cost_gae_lambda"),
        ({"multiplier_max": -1.0}, "multiplier_max"),
        ({"multiplier_lr": -1.0}, "multiplier_lr"),
        ({"multiplier_ramp": -5}, "multiplier_ramp"),
        ({"pid_smoothing": 3.0}, "pid_smoothing"),
    ],
)
def test_settings_that_would_turn_learning_round(setting, words):
    with pytest.raises(UserError, match=words):
        ppo_lagrangian.init(probes.match(N), dataclasses.replace(LAGRANGIAN, **setting), 0)


def test_bounds_may_be_infinite_and_the_early_stop_off():
    free = {"max_grad_norm": np.inf, "obs_clip": np.inf, "reward_clip": np.inf, "multiplier_max": np.inf}
    for kl in (None, np.inf):
        ppo_lagrangian.init(probes.match(N), dataclasses.replace(LAGRANGIAN, target_kl=kl, **free), 0)


def test_a_fixed_penalty_grows_with_the_cube_of_time():
    config = dataclasses.replace(LAGRANGIAN, multiplier="fixed", multiplier_init=4.0, multiplier_ramp=1000)
    start = ppo_lagrangian.init(probes.match(N), config, 0).multiplier
    assert start.value == 0.0
    penalties = [ppo_lagrangian.penalty_after(config, steps) for steps in (500, 1000, 5000)]
    assert penalties == pytest.approx([0.5, 4.0, 4.0])


def test_a_broken_environment_fails_the_run_and_leaves_the_state(monkeypatch):
    env = probes.match(N)
    state, _ = train(env, PLAIN, 1)
    before = ppo.state_to_arrays(state)
    env.r[:] = np.nan
    with pytest.raises(RunFailed, match="reward that is not finite"):
        ppo.iterate(env, PLAIN, state)
    monkeypatch.setattr(env, "step", lambda actions: 1 / 0)
    with pytest.raises(RunFailed, match="raised ZeroDivisionError"):
        ppo.iterate(env, PLAIN, state)
    same(before, ppo.state_to_arrays(state))


def test_divergence_fails_the_run():
    env = probes.match(N)
    env.r *= 1e30
    with pytest.raises(RunFailed, match="training diverged"):
        train(env, PLAIN, 2)


def test_scaled_rewards_have_returns_of_unit_size():
    rng = np.random.default_rng(0)
    state, _ = train(probes.match(N), PLAIN, 1)
    config = dataclasses.replace(PLAIN, normalize_reward=True)
    state = dataclasses.replace(state, reward_scale=normalize.return_scale(N))
    rewards, done = 50.0 + 500.0 * rng.normal(size=(400, N)), rng.random((400, N)) < 0.05
    state, scaled = ppo.scale_reward(config, state, rewards, done)
    check = normalize.track_returns(normalize.return_scale(N), scaled, done, config.gamma)
    assert check.std == pytest.approx(1.0, rel=1e-6)
    assert np.abs(scaled).max() < 10
