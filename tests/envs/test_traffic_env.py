"""The highway environments: the slow oracle, hand-made scenes for every end and feature, Gymnasium's contract."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tacit.envs.traffic import layout
from tacit.envs.traffic.env import TrafficEnv, TrafficVectorEnv
from tacit.envs.traffic.layout import Rules, build
from tacit.envs.traffic.observation import AROUND, FEATURES
from tacit.envs.traffic.recording import Recording
from tacit.envs.traffic.simulator import OUTCOMES
from tacit.errors import UserError
from traffic_oracle import SlowTask
from traffic_scenes import AT, FAR_AWAY, Car, random_recording, recording


def env_of(cars: list[Car], constraint: str = "distance", **options: Any) -> TrafficEnv:
    """The first car is the ego."""
    traffic = build([recording(cars)], Rules(**options))
    env = TrafficEnv(constraint, traffic=traffic)
    egos = traffic.problems.ego
    env.reset(seed=0, options={"problem": int(np.flatnonzero(egos == 0)[0])})
    return env


def drive(env: TrafficEnv, *action: float, steps: int = 1) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
    obs, reward, terminated, info = np.zeros(0), 0.0, False, {}
    for _ in range(steps):
        obs, reward, terminated, _, info = env.step(np.array(action))
        if terminated:
            break
    return obs, reward, terminated, info


# ---------------------------------------------------------------- the oracle


def differences(obs: np.ndarray, task: SlowTask) -> dict[str, tuple[float, float]]:
    slow = np.array(task.observe())
    wrong = ~np.isclose(obs, slow, rtol=1e-5, atol=2e-3)
    return {FEATURES[i]: (float(obs[i]), float(slow[i])) for i in np.flatnonzero(wrong)}


def compare(recordings: list[Recording], chosen: list[int], seed: int, **options: Any) -> int:
    """Drive some problems at random beside the oracle; the number of steps. All of a recording drive one way."""
    traffic = build(recordings, Rules(**options))
    problems, offsets = traffic.problems, np.cumsum([0, *map(len, recordings)])
    slow = {"corner": options.get("corner", False), "lane_goal": options.get("goal") == "lane"}
    rng = np.random.default_rng(seed)
    compared = 0
    for problem in chosen:
        if problem >= len(problems):
            break
        part = int(problems.part[problem])
        ego, start = problems.ego[problem] - offsets[part], problems.frame[problem] - traffic.roads[part].first_frame
        task = SlowTask(recordings[part], int(ego), int(start) + 1, **slow)
        env = TrafficEnv(traffic=traffic)
        obs, _ = env.reset(options={"problem": problem})
        assert not differences(obs, task)
        push = rng.uniform(-0.3, 0.5), rng.uniform(-0.08, 0.08)
        for _ in range(160):
            action = (push[0] + rng.normal(0, 0.5), push[1] + rng.normal(0, 0.5))
            obs, reward, terminated, _, info = env.step(np.array(action))
            expected = task.step(action)
            assert not differences(obs, task)
            assert reward == expected
            assert terminated == task.ended
            assert info["cost"] == float(obs[AT["p_rel_same_lead"]] < 20.0)
            compared += 1
            if terminated:
                break
    return compared


@pytest.mark.parametrize("seed", range(8))
def test_every_feature_against_the_slow_oracle(seed: int) -> None:
    assert compare([random_recording(seed)], [0, 1, 2], seed) > 60


@pytest.mark.parametrize("options", [{}, {"corner": True}, {"goal": "lane"}, {"corner": True, "goal": "lane"}])
@pytest.mark.parametrize("lanes", [(3,), (2, 3), (3, 2)])
def test_the_slow_oracle_on_other_roads_and_options(lanes: tuple[int, ...], options: dict[str, Any]) -> None:
    recordings = [random_recording(42 + i, n=10, lanes=n) for i, n in enumerate(lanes)]
    total = len(build(recordings, Rules(**options)).problems)
    # The first and the last: one of each recording.
    assert compare(recordings, [0, total - 1], len(lanes), **options) > 20


def test_both_carriageways_are_the_same_task() -> None:
    cars = [Car(60.0, 26.0, 30.0), Car(100.0, 26.2, 25.0), Car(90.0, 22.0, 35.0, sideways=0.1), FAR_AWAY]
    one, other = (
        TrafficEnv(traffic=build([recording(cars, mirrored=mirrored)], Rules())) for mirrored in (False, True)
    )
    first, _ = one.reset(options={"problem": 0})
    second, _ = other.reset(options={"problem": 0})
    assert np.allclose(first, second, atol=2e-3)
    for action in ([0.5, 0.1], [-1.0, -0.2], [0.0, 0.3]):
        a, b = one.step(np.array(action)), other.step(np.array(action))
        assert np.allclose(a[0], b[0], atol=2e-3)
        assert a[1:4] == b[1:4]


# ---------------------------------------------------------------- every end


def test_the_goal_is_where_the_car_was_last_seen() -> None:
    env = env_of([Car(50.0, frames=100), FAR_AWAY])
    obs, reward, terminated, info = drive(env, 0.0, 0.0, steps=200)
    assert (reward, terminated, info["outcome"]) == (50.0, True, "goal")
    assert obs[AT["is_goal_reached"]] == 1.0
    # 99 frames of driving, and the goal begins half a car's length earlier.
    assert env.simulator.t[0] == pytest.approx(99 - 2.25 / 30 / 0.04, abs=1.0)


def test_a_collision_with_a_slower_leader() -> None:
    env = env_of([Car(50.0, frames=200), Car(90.0, speed=10.0, frames=200), FAR_AWAY])
    obs, reward, terminated, info = drive(env, 0.0, 0.0, steps=200)
    assert (reward, terminated, info["outcome"]) == (-50.0, True, "collision")
    assert obs[AT["is_collision"]] == 1.0
    # The front of the ego reaches where the rear of the other was one frame earlier.
    gap = 40.0 - 4.508 / 2 - 4.5 / 2
    assert env.simulator.t[0] == np.ceil((gap - 0.4) / 0.8)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(2))


def test_nobody_is_jumped_through() -> None:
    """At 75 m/s a thin obstacle lies between two frames; the swept boxes still meet."""
    env = env_of(
        [Car(50.0, frames=200, speed=75.0, length=3.0), Car(301.6, speed=0.0, length=0.5, frames=300), FAR_AWAY]
    )
    assert drive(env, 0.0, 0.0, steps=300)[3]["outcome"] == "collision"


def test_leaving_the_road_on_either_side() -> None:
    for side, distance in ((1.0, 26.0 - 18.0), (-1.0, 30.0 - 26.0)):
        env = env_of([Car(50.0, frames=200), FAR_AWAY])
        obs, reward, terminated, info = drive(env, 0.0, 0.1 * side, steps=200)
        assert (reward, terminated, info["outcome"]) == (-20.0, True, "off-road")
        assert obs[AT["is_off_road"]] == 1.0
        # 2 m beyond the outermost marking, at the car's edge, not at its centre.
        offset = abs(env.simulator.position[0, 1] + 26.0)
        assert distance - 1.4 < offset < distance - 0.7


def test_time_runs_out() -> None:
    env = env_of([Car(50.0, frames=100), FAR_AWAY])
    obs, reward, terminated, info = drive(env, -0.5, 0.0, steps=300)
    assert (reward, terminated, info["outcome"]) == (-10.0, True, "time-out")
    assert obs[AT["is_time_out"]] == 1.0
    assert env.simulator.t[0] == 99 + 25
    assert obs[AT["remaining_steps"]] == 0.0


def test_time_runs_out_with_the_traffic() -> None:
    env = env_of([Car(50.0, frames=100), Car(20.0, 22.0, 20.0, frames=110)])
    assert drive(env, -0.5, 0.0, steps=300)[3]["outcome"] == "time-out"
    assert env.simulator.t[0] == 109


def test_the_end_of_the_road_is_a_time_out() -> None:
    env = env_of([Car(300.0, frames=150, speed=20.0, y=26.0, sideways=-0.6), Car(5.0, 22.0, 10.0, frames=400)])
    obs, _, _, info = drive(env, 1.0, 0.0, steps=300)
    assert info["outcome"] == "time-out"
    assert env.simulator.position[0, 0] > 460.0
    assert obs[AT["remaining_steps"]] > 0


def test_terms_of_the_reward_add_up() -> None:
    """Off the road and into somebody in the same step."""
    cars = [Car(50.0, 26.0, 30.0), Car(50.0, 29.45, 30.0, width=2.0, frames=300), FAR_AWAY]
    together = env_of(cars)
    together.simulator.position[0, 1] = -29.2
    _, reward, _, info = drive(together, 0.0, -0.5, steps=1)
    assert (reward, info["outcome"]) == (-70.0, "off-road")


# ---------------------------------------------------------------- features and rules


def test_neighbours_in_all_six_places() -> None:
    marks = np.array([20.0, 24.0, 28.0, 32.0])
    places = {
        "left_follow": Car(70.0, 22.0, 31.0),
        "same_follow": Car(60.0, 26.0, 28.0),
        "right_follow": Car(50.0, 30.0, 27.0, kind="truck", length=12.0, width=2.5),
        "left_lead": Car(130.0, 22.0, 33.0),
        "same_lead": Car(140.0, 26.0, 26.0, kind="truck", length=16.0, width=2.5),
        "right_lead": Car(150.0, 30.0, 25.0),
    }
    decoys = [Car(160.0, 22.0, 40.0), Car(30.0, 26.0, 40.0), Car(205.0, 30.0, 10.0)]
    cars = [Car(100.0, 26.0, 30.0), *places.values(), *decoys]
    traffic = build([recording(cars, marks=marks)])
    env = TrafficEnv(traffic=traffic)
    obs, _ = env.reset(options={"problem": int(np.flatnonzero(traffic.problems.ego == 0)[0])})
    for name in AROUND:
        car = places[name]
        along = abs(car.x - 100.0) - car.length / 2 - 4.508 / 2
        across = max(abs(car.y - 26.0) - car.width / 2 - 1.61 / 2, 0.0)
        assert obs[AT[f"p_rel_{name}"]] == pytest.approx(np.hypot(along, across), abs=1e-4)
        relative = car.speed - 30.0 if name.endswith("lead") else 30.0 - car.speed
        assert obs[AT[f"v_rel_{name}"]] == pytest.approx(relative, abs=1e-4)
        assert obs[AT[f"vehicle_type_{name}"]] == (4.0 if car.kind == "truck" else 1.0)


def test_nobody_is_seen_beyond_a_hundred_metres_or_two_lanes() -> None:
    marks = np.array([20.0, 24.0, 28.0, 32.0])
    cars = [Car(100.0, 30.0, 30.0), Car(200.5, 30.0, 30.0), Car(120.0, 22.0, 30.0)]
    env = TrafficEnv(traffic=build([recording(cars, marks=marks)]))
    obs, _ = env.reset(options={"problem": 0})
    assert (obs[18:24] == 100.0).all()
    assert (obs[12:18] == 0.0).all()
    assert (obs[24:30] == 0.0).all()


def test_the_rule_of_distance() -> None:
    # A gap of 21 m that shrinks by 0.4 m a step: 20 m are undercut in step 3.
    half = (4.508 + 4.5) / 2
    env = env_of([Car(50.0, frames=200), Car(50.0 + half + 21.0, speed=20.0, frames=200), FAR_AWAY])
    costs = [env.step(np.zeros(2))[4]["cost"] for _ in range(4)]
    assert costs == [0.0, 0.0, 1.0, 1.0]


def test_a_start_that_breaks_the_rule_says_so() -> None:
    traffic = build([recording([Car(50.0), Car(70.0), FAR_AWAY])])
    env = TrafficEnv("distance", traffic=traffic)
    assert [env.reset(options={"problem": i})[1]["cost"] for i in range(2)] == [1.0, 0.0]
    batch = TrafficVectorEnv(2, "distance", traffic=traffic)
    assert batch.reset(seed=0, options={"problem": np.array([0, 1])})[1]["cost"].tolist() == [1.0, 0.0]


def test_the_rule_of_velocity() -> None:
    env = env_of([Car(50.0, frames=200, speed=39.0), FAR_AWAY], "velocity")
    costs = [env.step(np.array([1.0, 0.0]))[4]["cost"] for _ in range(4)]
    assert costs == [0.0, 0.0, 1.0, 1.0]  # 39 + 0.46 a step
    assert env.step(np.array([-1.0, 0.0]))[4]["cost"] == 1.0


def test_lanes_edges_and_route() -> None:
    env = env_of([Car(50.0, 25.5, 30.0, frames=200, sideways=-0.5), FAR_AWAY])
    obs = env.reset(options={"problem": int(env.simulator.problem[0])})[0]
    # Canonical frame: Y = -y, markings -18 (extended), -24, -30 (extended).
    named = {name: obs[i] for name, i in AT.items()}
    assert named["left_marker_distance"] == pytest.approx(1.5)
    assert named["right_marker_distance"] == pytest.approx(4.5)
    assert named["left_road_edge_distance"] == pytest.approx(7.5)
    assert named["right_road_edge_distance"] == pytest.approx(4.5)
    assert named["lat_offset"] == pytest.approx(-25.5 + 27.0)
    assert named["path_offset"] == pytest.approx(-25.5 + 27.0)
    # It drifts into the left lane, where the goal is: the path changes over in the middle of the road.
    assert env.simulator.course.goal_lane[0] == 0
    assert env.simulator.course.first_lane[0] == 1


# ---------------------------------------------------------------- Gymnasium


@pytest.fixture(scope="module")
def traffic() -> layout.Traffic:
    return build([random_recording(seed, n=20, frames=300) for seed in (20, 21)])


@pytest.mark.filterwarnings("ignore:.*The environment.*out of date.*")
@pytest.mark.filterwarnings("ignore:.*infinity.*")
@pytest.mark.parametrize("name", ["Distance", "Velocity"])
def test_the_registered_environments(name: str) -> None:
    env = gymnasium.make(f"tacit/Highway{name}-v0", disable_env_checker=True)
    assert env.get_wrapper_attr("feature_names") == FEATURES
    check_env(env.unwrapped, skip_render_check=True)
    batch = gymnasium.make_vec(f"tacit/Highway{name}-v0", num_envs=3)
    obs, _ = batch.reset(seed=0)
    assert obs.shape == (3, 74)
    assert obs.dtype == np.float32
    assert batch.step(batch.action_space.sample())[4]["cost"].shape == (3,)


@pytest.mark.parametrize("reactive", [False, True])
def test_copies_are_single_environments_bit_by_bit(traffic: layout.Traffic, reactive: bool) -> None:
    n = 5
    batch = TrafficVectorEnv(n, "velocity", traffic=traffic, reactive=reactive)
    singles = [TrafficEnv("velocity", traffic=traffic, reactive=reactive) for _ in range(n)]
    obs, info = batch.reset(seed=7)
    for i, env in enumerate(singles):
        own, own_info = env.reset(seed=7 + i)
        assert (own == obs[i]).all()
        assert own_info["cost"] == info["cost"][i]
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(200):
        actions = rng.uniform(-0.6, 1.0, (n, 2)) * (1.0, 0.2)
        obs, reward, terminated, truncated, info = batch.step(actions)
        assert not truncated.any()
        for i, env in enumerate(singles):
            own, own_reward, own_end, _, own_info = env.step(actions[i])
            assert (own_reward, own_end) == (reward[i], terminated[i])
            if own_end:
                ends += 1
                assert (info["final_obs"][i] == own).all()
                assert info["final_info"]["cost"][i] == own_info["cost"]
                assert OUTCOMES[info["final_info"]["outcome"][i]] == own_info["outcome"]
                own, own_info = env.reset()
            assert (own == obs[i]).all()
            assert own_info["cost"] == info["cost"][i]
    assert ends > 5


@pytest.mark.parametrize("reactive", [False, True])
def test_a_saved_state_continues_bit_by_bit(traffic: layout.Traffic, reactive: bool) -> None:
    rng = np.random.default_rng(1)
    actions = rng.uniform(-1, 1, (300, 4, 2)) * (0.5, 0.1)
    env = TrafficVectorEnv(4, traffic=traffic, reactive=reactive)
    env.reset(seed=3)
    for t in range(120):
        env.step_arrays(actions[t])
    saved = {name: values.copy() for name, values in env.get_state().items()}
    rest = [env.step_arrays(actions[t]) for t in range(120, 300)]
    other = TrafficVectorEnv(4, traffic=traffic, reactive=reactive)
    other.set_state(saved)
    for t, expected in zip(range(120, 300), rest, strict=True):
        found = other.step_arrays(actions[t])
        for a, b in zip(found, expected, strict=True):
            assert (a == b).all()
    with pytest.raises(UserError, match="position"):
        other.set_state({**saved, "position": np.zeros((3, 2))})
    with pytest.raises(UserError, match="other recordings"):
        other.set_state({**saved, "problem": saved["problem"] + 10_000})


def test_a_partial_reset_leaves_the_others_alone(traffic: layout.Traffic) -> None:
    env = TrafficVectorEnv(3, traffic=traffic)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.reset(options={"reset_mask": np.array([True, False, False])})
    env.reset(seed=0)
    env.step(np.zeros((3, 2)))
    before = env.get_state()
    env.reset(options={"reset_mask": np.array([False, True, False])})
    after = env.get_state()
    assert after["t"].tolist() == [1, 0, 1]
    assert (after["position"][[0, 2]] == before["position"][[0, 2]]).all()
    env.reset(seed=0)
    assert env.get_state()["episode"].tolist() == [1, 1, 1]


def test_wrong_input_is_refused(traffic: layout.Traffic) -> None:
    for options, text in (
        ({"constraint": "colour"}, "distance"),
        ({"num_envs": 0}, "at least 1"),
        ({"ego": "all"}, "'any'"),
        ({"split": "dev"}, "'train'"),
        ({"render_mode": "human"}, "rgb_array"),
        ({"recordings": 5}, "a folder, a file or a list"),
        ({"recordings": "/no/such/folder"}, "does not exist"),
        ({"traffic": "folder"}, "recordings='folder'"),
    ):
        with pytest.raises(UserError, match=text):
            TrafficVectorEnv(**{"num_envs": 2, **options})
    env = TrafficVectorEnv(2, traffic=traffic)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros((2, 2)))
    env.reset(seed=0)
    for actions in (np.zeros((3, 2)), np.full((2, 2), np.nan), np.zeros((2, 2), bool)):
        with pytest.raises(UserError):
            env.step(actions)
    with pytest.raises(UserError, match="problem"):
        env.reset(options={"problem": np.array([0, 10_000])})
    with pytest.raises(UserError, match="one number, or 2"):
        env.reset(options={"problem": [0, 1, 0]})
    for wrong in (1.5, "7", [0, 1.5], -1):
        with pytest.raises(UserError, match="a seed must be a whole number"):
            env.reset(seed=wrong)  # type: ignore[arg-type]
    for wrong in (1.5, -1):
        with pytest.raises(UserError, match="a seed must be a whole number"):
            TrafficEnv(traffic=traffic).reset(seed=wrong)  # type: ignore[arg-type]
    for count in ({"num_envs": 2.5}, {"max_episode_steps": 2.5}):
        with pytest.raises(UserError, match="must be a whole number of at least 1"):
            TrafficVectorEnv(**{"num_envs": 2, "traffic": traffic, **count})
    cut = TrafficVectorEnv(2, traffic=traffic, max_episode_steps=3)
    cut.reset(seed=0)
    assert [cut.step(np.zeros((2, 2)))[3].any() for _ in range(3)] == [False, False, True]


def test_pictures(traffic: layout.Traffic) -> None:
    env = TrafficEnv("velocity", traffic=traffic, render_mode="rgb_array")
    env.reset(seed=1)
    calm = env.render()
    assert calm.dtype == np.uint8
    assert calm.shape[2] == 3
    assert calm.shape[0] % 2 == 0
    env.simulator.velocity[:] = (60.0, 0.0)
    env.step(np.zeros(2))
    # The ego is drawn in red while it breaks the rule.
    red = (205, 50, 50)
    assert (env.render() == red).all(axis=2).sum() > 20
    assert (calm == red).all(axis=2).sum() == 0
    batch = TrafficVectorEnv(2, traffic=traffic, render_mode="rgb_array")
    batch.reset(seed=0)
    assert len(batch.render()) == 2
