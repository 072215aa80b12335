"""N robots at once: against single ones bit by bit, ends of episodes, process noise, save and restore."""

import gymnasium as gym
import numpy as np
import pytest

import tacit.envs  # noqa: F401 (registers the environments)
from robot_helpers import wave
from tacit.envs.mujoco_vector import RobotVectorEnv
from tacit.envs.rng_state import pack_rng, unpack_rng
from tacit.envs.robots import TASKS, RobotEnv

ALL = list(TASKS)


# ---------------------------------------------------------------- process noise


@pytest.mark.parametrize("name", ALL)
def test_process_noise_shakes_every_coordinate_but_not_the_reward(name):
    n, sigma, task = 2000, 0.01, TASKS[name]
    noisy, quiet = RobotVectorEnv(n, name, noise=sigma), RobotVectorEnv(n, name)
    seeds = list(range(n))
    noisy.reset(seed=seeds)
    quiet.reset(seed=seeds)
    action = wave(task, n, 0)
    a, b = noisy.step_arrays(action), quiet.step_arrays(action)
    np.testing.assert_array_equal(a.reward, b.reward)
    shaken = [i for i in range(task.noise_size) if not (task.free_joint and 3 <= i < 7)]
    noise = (a.final_obs - b.final_obs)[:, [i - task.unobserved for i in shaken if i >= task.unobserved]]
    np.testing.assert_allclose(noise.std(axis=0), sigma, rtol=0.1)
    assert np.abs(noise.mean(axis=0)).max() < 5 * sigma / np.sqrt(n)
    assert np.abs(np.corrcoef(noise.T) - np.eye(noise.shape[1])).max() < 0.15  # each coordinate its own draw
    if task.free_joint:
        np.testing.assert_allclose(np.linalg.norm(a.final_obs[:, 3:7], axis=1), 1.0)
    limited = a.final_obs[:, task.feature_names.index(task.constraint.feature)]
    np.testing.assert_array_equal(a.cost, task.constraint.holds(limited))


# ---------------------------------------------------------------- the batched environment


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("name", ALL)
def test_batched_equals_single_bit_by_bit(name, noise):
    copies, steps, horizon = 3, 60, 25
    batch = gym.make_vec(f"tacit/{name}-v0", num_envs=copies, noise=noise, horizon=horizon)
    singles = [gym.make(f"tacit/{name}-v0", noise=noise, horizon=horizon) for _ in range(copies)]
    obs, _ = batch.reset(seed=7)
    np.testing.assert_array_equal(obs, [env.reset(seed=7 + i)[0] for i, env in enumerate(singles)])
    ends = 0
    for step in range(steps):
        actions = wave(TASKS[name], copies, step)
        obs, reward, terminated, truncated, info = batch.step(actions)
        for i, env in enumerate(singles):
            last, *rest = env.step(actions[i])
            assert rest[:3] == [reward[i], terminated[i], truncated[i]]
            if terminated[i] or truncated[i]:
                ends += 1
                assert info["_final_obs"][i]
                assert info["_final_info"][i]
                np.testing.assert_array_equal(info["final_obs"][i], last)
                assert (info["final_info"]["cost"][i], info["cost"][i]) == (rest[3]["cost"], 0.0)
                last, _ = env.reset()
            else:
                assert info["cost"][i] == rest[3]["cost"]
                assert "final_obs" not in info or not info["_final_obs"][i]
            np.testing.assert_array_equal(obs[i], last)
    assert ends >= copies * (steps // horizon)
    batch.close()


@pytest.mark.parametrize("name", ["Ant", "Walker"])
def test_copies_do_not_depend_on_their_number_or_on_threads(name):
    few, many = RobotVectorEnv(2, name), RobotVectorEnv(9, name, nthread=2)
    few.reset(seed=3)
    many.reset(seed=3)
    for step in range(50):
        actions = wave(TASKS[name], 9, step)
        a, b = few.step_arrays(actions[:2]), many.step_arrays(actions)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y[:2])
    many.close()


def test_horizon():
    env = gym.make_vec("tacit/Pendulum-v0", num_envs=2)
    env.reset(seed=0)
    ends = []
    for step in range(1, 201):
        _, _, terminated, truncated, _ = env.step(np.zeros((2, 1)))
        env.unwrapped._state[:, 1:] = 0  # an upright pole stays up
        assert not terminated.any()
        ends += [step] * bool(truncated.all())
    assert ends == [100, 200]
    single = gym.make("tacit/Point-v0")
    single.reset(seed=0)
    assert [single.step(np.zeros(2))[3] for _ in range(150)] == [False] * 149 + [True]
    assert gym.make_vec("tacit/Ant-v0", num_envs=1, max_episode_steps=7).horizon == 7
    assert RobotEnv("Ant", horizon=9).horizon == 9


def test_final_obs_and_fresh_arrays():
    env = RobotVectorEnv(4, "Pendulum", horizon=3)
    env.reset(seed=0)
    kept = []
    for step in range(9):
        result = env.step_arrays(wave(env.task, 4, step))
        ended = (step + 1) % 3 == 0
        assert result.truncated.all() == ended
        assert (result.final_obs is result.obs) == (not ended)
        if ended:  # the state reached has moved away from where a new episode starts
            assert np.abs(result.obs).max() <= 0.01
            assert (result.final_obs != result.obs).all()
        kept.append((result, [array.copy() for array in result]))
    for result, copies in kept:
        for array, copy in zip(result, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("name", ALL)
def test_restoring_continues_bit_by_bit(name):
    env = RobotVectorEnv(4, name, noise=0.005, horizon=20)
    env.reset(seed=11)
    for step in range(33):
        env.step_arrays(wave(env.task, 4, step))
    state = {key: value.copy() for key, value in env.get_state().items()}
    assert all(value.dtype.kind in "fiu" for value in state.values())
    expected = [env.step_arrays(wave(env.task, 4, step)) for step in range(33, 66)]
    other = RobotVectorEnv(4, name, noise=0.005, horizon=20, nthread=2)
    other.set_state(state)
    for step, one in zip(range(33, 66), expected, strict=True):
        for a, b in zip(one, other.step_arrays(wave(env.task, 4, step)), strict=True):
            np.testing.assert_array_equal(a, b)
    other.close()


def test_a_generator_survives_being_packed():
    rng = np.random.default_rng(4)
    rng.integers(10, dtype=np.int32)  # leaves half of a 64-bit word over
    assert rng.bit_generator.state["has_uint32"]
    again = unpack_rng(pack_rng(rng))
    assert again.bit_generator.state == rng.bit_generator.state
    np.testing.assert_array_equal(
        again.integers(1000, size=9, dtype=np.int32), rng.integers(1000, size=9, dtype=np.int32)
    )


def test_seeds_and_partial_resets():
    env = RobotVectorEnv(3, "Swimmer")
    first, _ = env.reset(seed=5)
    np.testing.assert_array_equal(env.reset(seed=[5, 6, 7])[0], first)
    assert env.np_random_seed == (5, 6, 7)
    again, _ = env.reset()
    assert (again != first).any(axis=1).all()
    mask = np.array([False, True, False])
    part, info = env.reset(seed=5, options={"reset_mask": mask})
    np.testing.assert_array_equal(part[[0, 2]], again[[0, 2]])
    np.testing.assert_array_equal(part[1], first[1])
    np.testing.assert_array_equal(info["_cost"], mask)


def test_gymnasiums_vector_wrappers_work():
    env = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("tacit/Swimmer-v0", num_envs=3, horizon=10))
    assert env.metadata["autoreset_mode"] == gym.vector.AutoresetMode.SAME_STEP
    env.reset(seed=0)
    total = np.zeros(3)
    for step in range(10):
        _, reward, _, _, info = env.step(wave(TASKS["Swimmer"], 3, step))
        total += reward
    np.testing.assert_allclose(info["episode"]["r"], total, rtol=1e-6)
    assert info["episode"]["l"].tolist() == [10, 10, 10]


def test_a_simulation_that_diverges_is_truncated_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log file about it
    single, batch = RobotEnv("HalfCheetah", noise=0.01), RobotVectorEnv(3, "HalfCheetah", noise=0.01)
    single.reset(seed=1)
    batch.reset(seed=0)
    state = batch.get_state()
    state["qvel"][1] = 1e9
    batch.set_state(state)
    single.set_state(state["qpos"][1], state["qvel"][1])
    result = batch.step_arrays(np.zeros((3, 6)))
    obs, reward, terminated, truncated, info = single.step(np.zeros(6))
    assert result.truncated.tolist() == [False, True, False]
    assert (terminated, truncated, info["diverged"]) == (False, True, True)
    np.testing.assert_array_equal(obs, np.concatenate([state["qpos"][1], state["qvel"][1]]))
    np.testing.assert_array_equal(result.final_obs[1], obs)
    assert result.reward[1] == reward == 0.0
    np.testing.assert_array_equal(result.obs[1], single.reset()[0])
    assert single.step(np.zeros(6))[3] is False
