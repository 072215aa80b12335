"""Options of the highway environments, and scripted drivers on the shipped recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.envs.traffic import layout
from tacit.envs.traffic.compact import shipped
from tacit.envs.traffic.drivers import DRIVERS
from tacit.envs.traffic.env import RULES, TrafficEnv, TrafficVectorEnv
from tacit.envs.traffic.files import checked_options, load_all
from tacit.envs.traffic.layout import Rules, build
from tacit.envs.traffic.simulator import OUTCOMES, Simulator, first_observations
from tacit.errors import UserError
from traffic_scenes import AT, FAR_AWAY, Car, random_recording, recording


@pytest.fixture(scope="module")
def traffic() -> layout.Traffic:
    return build([random_recording(seed, n=20, frames=300) for seed in (20, 21)])


def test_reactive_traffic_brakes_for_the_ego_and_only_then() -> None:
    follower = Car(20.0, 26.0, 30.0, frames=300)
    cars = [Car(50.0, 26.0, 30.0, frames=250), follower, Car(60.0, 22.0, 30.0, frames=300)]
    traffic = build([recording(cars)])
    ends = {}
    for reactive in (False, True):
        env = TrafficEnv(traffic=traffic, reactive=reactive)
        env.reset(options={"problem": 0})
        for _ in range(110):
            obs, _, terminated, _, info = env.step(np.array([-0.3, 0.0]))
            if terminated:
                break
        ends[reactive] = info["outcome"], float(obs[AT["p_rel_same_follow"]]), float(obs[AT["p_rel_left_lead"]])
    assert ends[False][0] == "collision"
    assert ends[True][0] == "running"
    assert ends[True][1] > 1.0


def test_reactive_traffic_replays_when_nobody_is_in_its_way(traffic: layout.Traffic) -> None:
    cars = [Car(50.0, 26.0, 30.0, frames=250), Car(90.0, 22.0, 28.0, frames=300), Car(100.0, 26.0, 33.0, frames=300)]
    traffic = build([recording(cars)])
    rows = []
    for reactive in (False, True):
        env = TrafficEnv(traffic=traffic, reactive=reactive)
        env.reset(options={"problem": 0})
        rows.append(np.stack([env.step(np.zeros(2))[0] for _ in range(60)]))
    assert (rows[0] == rows[1]).all()


def test_the_corner_quirk_shifts_everything_by_half_a_box() -> None:
    cars = [Car(50.0, frames=200), Car(90.0, length=10.0, width=2.5, kind="truck", frames=200)]
    gaps = {}
    for corner in (False, True):
        traffic = build([recording(cars)], Rules(corner=corner))
        env = TrafficEnv(traffic=traffic)
        gaps[corner] = float(env.reset(options={"problem": 0})[0][AT["p_rel_same_lead"]])
    # The original's systematic error: (truck's length - car's length) / 2.
    assert gaps[False] - gaps[True] == pytest.approx((10.0 - 4.5) / 2, abs=1e-4)


@pytest.mark.parametrize("name", ["reactive", "corner", "skip_bad"])
def test_switches_in_words_mean_what_they_say(name: str, traffic: layout.Traffic) -> None:
    for value in ("False", "no", "0", 0, False):
        assert checked_options({name: value}) == {name: False}
    for value in ("true", "Yes", "1", 1, True):
        assert layout.flag(name, value) is True
    for value in ("maybe", "", 2, None, 0.0):
        with pytest.raises(UserError, match=f"{name} is true or false"):
            checked_options({name: value})
    assert TrafficVectorEnv(1, traffic=traffic, reactive="False").simulator.reactions is None  # type: ignore[arg-type]
    with pytest.raises(UserError, match="is true or false"):
        TrafficEnv(**{"traffic": traffic, name: "maybe"} if name != "skip_bad" else {name: "maybe"})  # type: ignore[arg-type]


def test_one_ego_a_window() -> None:
    rec = recording([Car(10.0 + 20 * i, frames=300, first=1 + 500 * (i % 3)) for i in range(9)])
    every, one = build([rec]), build([rec], Rules(ego="window"))
    assert len(one.problems) == 2  # windows at frames 1 and 1001
    assert set(one.problems.frame.tolist()) == {0, 1000}
    assert len(every.problems) > len(one.problems)
    again = build([rec], Rules(ego="window"))
    assert (again.problems.ego == one.problems.ego).all()


def test_a_goal_of_twenty_metres() -> None:
    traffic = build([recording([Car(50.0, frames=100), FAR_AWAY])], Rules(goal="lane"))
    assert traffic.problems.goal_l.tolist() == [10.0, 10.0]
    assert traffic.problems.goal_w.tolist() == [3.0, 3.0]  # half of 4 m, and of the 2 m that the road is wider


def test_the_split_takes_whole_windows() -> None:
    rng = np.random.default_rng(0)
    cars = [Car(float(rng.uniform(0, 50)), 22.0 + 4 * (i % 2), 12.0, frames=600, first=1 + 120 * i) for i in range(60)]
    recordings = [recording(cars)]
    whole = build(recordings)
    parts = {side: build(recordings, Rules(split=side)) for side in ("train", "test")}

    def keys(t: layout.Traffic) -> set[tuple[int, int]]:
        return set(zip(t.problems.frame.tolist(), t.problems.ego.tolist(), strict=True))

    assert keys(parts["train"]) | keys(parts["test"]) < keys(whole)  # those that cross over are on no side
    windows = {side: set((t.problems.frame // 1000).tolist()) for side, t in parts.items()}
    assert not windows["train"] & windows["test"]
    assert len(windows["train"]) == round(0.7 * (len(windows["train"]) + len(windows["test"])))
    other = build(recordings, Rules(split="train", split_seed=6))
    assert keys(other) != keys(parts["train"])


def test_no_frame_and_no_ego_of_the_shipped_recordings_is_on_both_sides() -> None:
    recordings = load_all(shipped())
    whole = build(recordings)
    sides = [build(recordings, Rules(split=side)).problems for side in ("train", "test")]
    assert not set(sides[0].ego.tolist()) & set(sides[1].ego.tolist())
    used = np.zeros((2, len(whole.starts)), bool)
    for mine, p in zip(used, sides, strict=True):
        for begin, steps in zip(p.frame, p.steps, strict=True):
            mine[begin : begin + steps + 1] = True
    assert not used.all(axis=0).any()
    kept = np.array([len(p) for p in sides])
    assert kept.sum() > 0.93 * len(whole.problems)
    assert 0.65 < kept[0] / kept.sum() < 0.75


def test_problems_that_start_in_a_crash_are_left_out() -> None:
    # The recorded car is shorter than the ego, which would touch the next one.
    traffic = build([recording([Car(50.0, length=3.0), Car(53.5, length=3.0), FAR_AWAY])])
    assert len(traffic.problems) == 1
    assert traffic.problems.ego.tolist() == [2]


# ---------------------------------------------------------------- scripted drivers on the shipped recordings


@pytest.mark.parametrize(
    ("driver", "rates"),
    [
        ("coast", {"goal": (0.55, 0.85), "collision": (0.0, 0.1), "time-out": (0.1, 0.35)}),
        ("to-goal", {"goal": (0.93, 1.0), "collision": (0.0, 0.06), "off-road": (0.0, 0.01)}),
        ("random", {"goal": (0.03, 0.15), "off-road": (0.55, 0.75), "collision": (0.1, 0.3)}),
        ("throttle", {"goal": (0.3, 0.6), "collision": (0.3, 0.65)}),
        ("full-throttle", {"goal": (0.2, 0.5), "collision": (0.4, 0.75)}),
    ],
)
def test_scripted_drivers_land_near_the_published_rates(driver: str, rates: dict[str, tuple[float, float]]) -> None:
    # Two of the recordings are of a road like the one that the rates are from: two lanes, no limit.
    env = TrafficVectorEnv(300, recordings=[str(path) for path in shipped()[1:3]])
    total = len(env.traffic.problems)
    obs, _ = env.reset(seed=0, options={"problem": np.linspace(0, total - 1, 300).astype(int)})
    rng = np.random.default_rng(0)
    code = np.zeros(300, np.int64)
    while (code == 0).any():
        obs, _, _, _, info = env.step(DRIVERS[driver](obs, rng))
        if "final_info" in info:
            code = np.where(code == 0, info["final_info"]["outcome"], code)
    for name, (low, high) in rates.items():
        assert low <= (code == OUTCOMES.index(name)).mean() <= high, name


LABELS = {
    "coast": "coast",
    "to-goal": "control towards the goal",
    "random": "random",
    "throttle": "half throttle",
    "full-throttle": "full throttle",
}


@pytest.mark.slow
def test_scripted_drivers_break_the_rules_as_often_as_documented() -> None:
    text = (Path(__file__).parents[2] / "results" / "notes" / "bench-traffic.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    documented = {row[0]: row for row in rows if len(row) == 8}
    assert set(LABELS) == set(DRIVERS)
    n = 150
    env = TrafficVectorEnv(n)
    chosen = np.linspace(0, len(env.traffic.problems) - 1, n).astype(int)
    for name, label in LABELS.items():
        obs, _ = env.reset(seed=0, options={"problem": chosen})
        rng, running = np.random.default_rng(0), np.ones(n, bool)
        steps, broken, goals = 0, np.zeros(len(RULES)), 0.0
        while running.any() and steps < 250 * n:
            step = env.step_arrays(DRIVERS[name](obs, rng))
            obs, ended = step.obs, step.terminated & running
            broken += [rule.violated(step.final_obs)[running].sum() for rule in RULES.values()]
            steps += int(running.sum())
            goals += env.succeeded(step.final_obs[ended]).sum()
            running &= ~ended
        told = [float(documented[label][k]) for k in (6, 7, 1)]  # gap, speed, goal
        assert [*(broken / steps), goals / n] == pytest.approx(told, abs=0.1), name
    starts = first_observations(env.traffic)
    told = [float(cell) for cell in documented["(starts)"][6:8]]
    assert [rule.violated(starts).mean() for rule in RULES.values()] == pytest.approx(told, abs=6e-4)


def test_first_observations_are_computed_once(traffic: layout.Traffic) -> None:
    simulator = Simulator(traffic, 4)
    simulator.start(np.arange(4), np.arange(4))
    whole = simulator.observe_start()
    assert (simulator.initial(np.array([2, 0])) == whole[[2, 0]]).all()
