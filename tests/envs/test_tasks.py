"""The tasks in NumPy: dynamics, single and batched, their experts, what the constraint excludes, shipped files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tacit import demos
from tacit.cli import main
from tacit.envs.capabilities import Rule, capabilities
from tacit.envs.crowd import DISTANCE, OWN, slots_of
from tacit.envs.nav import SHAPES, actions_towards
from tacit.envs.options import resolve_env
from tacit.envs.reactor import ReactorExpert, react, steady_state
from tacit.envs.registry import make, make_vec
from tacit.errors import UserError
from tacit.launch import prepare

OWN_MAP = [{"disc": [0.9, 0.0, 0.6]}, {"box": [-2.0, -1.0, -1.0, 1.0]}, {"box": [-1.0, 0.5, 0.5, 1.0]}]


def straight_to_the_goal(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    way = obs[:, 4:6]
    return actions_towards(obs[:, 2:4], way / np.linalg.norm(way, axis=1, keepdims=True))


GREEDY: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "tacit/Nav-v0": straight_to_the_goal,
    "tacit/SlowZone-v0": lambda obs, rng: np.ones((len(obs), 1)),
    "tacit/Reactor-v0": ReactorExpert({}, keeps_rule=False),
    "tacit/Crowd-v0": straight_to_the_goal,
}
"""Controllers that follow the reward and know of no constraint."""
TASKS: list[tuple[str, dict[str, Any]]] = [
    *(("tacit/Nav-v0", {"shape": shape}) for shape in (*SHAPES, OWN_MAP)),
    ("tacit/SlowZone-v0", {}),
    ("tacit/Reactor-v0", {"rule": "product"}),
    ("tacit/Reactor-v0", {"rule": "ratio"}),
    ("tacit/Crowd-v0", {"objects": [3, 5]}),
    ("tacit/Crowd-v0", {"objects": [6, 8]}),
]
DEFAULTS = [(env_id, {}) for env_id in GREEDY]


def name_of(value: Any) -> str:
    return str(value) if isinstance(value, str) else "-".join(str(v)[:8] for v in value.values()) or "default"


every_task = pytest.mark.parametrize(("env_id", "options"), TASKS, ids=name_of)
every_default = pytest.mark.parametrize(("env_id", "options"), DEFAULTS, ids=name_of)


def violating(data: demos.Demonstrations) -> float:
    """Share of episodes that violate."""
    return float((np.add.reduceat(data.costs, data.step_offsets) > 0).mean())


def mean_return(data: demos.Demonstrations) -> float:
    return float(np.add.reduceat(data.rewards, data.step_offsets).mean())


@every_task
def test_the_single_environment_keeps_to_gymnasiums_interface(env_id: str, options: dict[str, Any]) -> None:
    check_env(gym.make(env_id, **options).unwrapped, skip_render_check=True)


@every_task
def test_the_batch_equals_single_environments(env_id: str, options: dict[str, Any]) -> None:
    copies, steps = 64, 120
    batch = make_vec(env_id, copies, **options, horizon=45)
    actions = np.random.default_rng(0).uniform(-1.2, 1.2, (steps, *batch.action_space.shape))
    obs, _ = batch.reset(seed=7)
    singles = [gym.make(env_id, **options, horizon=45).unwrapped for _ in range(copies)]
    for i, env in enumerate(singles):
        np.testing.assert_array_equal(env.reset(seed=7 + i)[0], obs[i])
    for action in actions:
        obs, reward, terminated, truncated, info = batch.step(action)
        for i, env in enumerate(singles):
            one = env.step(action[i])
            ended = one[2] or one[3]
            own = info["final_info"] if ended else info
            last = info["final_obs"][i] if ended else obs[i]
            np.testing.assert_array_equal(one[0], last)
            assert (one[1], one[2], one[3]) == (reward[i], terminated[i], truncated[i])
            assert one[4]["cost"] == own["cost"][i]
            if ended:
                np.testing.assert_array_equal(env.reset()[0], obs[i])


@every_task
def test_the_cost_is_what_the_rule_says(env_id: str, options: dict[str, Any]) -> None:
    env = make_vec(env_id, 50, **options)
    rule = capabilities(env).rule
    data = demos.collect(env, GREEDY[env_id], 50, seed=2)
    for episode in data:
        np.testing.assert_array_equal(rule.violated(episode.observations[1:]), episode.costs > 0)
        assert not rule.violated(episode.observations[:1])[0]
        assert env.single_observation_space.contains(episode.observations[-1])


@every_task
def test_the_expert_keeps_to_the_rule_that_the_greedy_controller_breaks(env_id: str, options: dict[str, Any]) -> None:
    expert = demos.scripted_demonstrations(env_id, resolve_env(env_id, options), 200, 11)
    assert violating(expert) == 0
    env = make_vec(env_id, 200, **options)
    can = capabilities(env)
    last = expert.observations[expert.row_offsets + expert.lengths]
    assert can.succeeded(last).mean() > 0.95
    greedy = demos.collect(env, GREEDY[env_id], 200, seed=12)
    assert violating(greedy) > 0.35
    idle = demos.collect(env, lambda obs, rng: rng.uniform(-1, 1, env.action_space.shape), 200, seed=13)
    worst, best = mean_return(idle), mean_return(greedy)
    assert (mean_return(expert) - worst) / (best - worst) > 0.3


@every_default
def test_saved_states_continue_bit_by_bit(env_id: str, options: dict[str, Any]) -> None:
    actions = np.random.default_rng(1)
    first, second = make_vec(env_id, 5, horizon=20), make_vec(env_id, 5, horizon=20)
    first.reset(seed=1)
    for _ in range(13):
        first.step(actions.uniform(-1, 1, first.action_space.shape))
    second.reset(seed=9)
    capabilities(second).state.set(capabilities(first).state.get())
    for _ in range(30):
        action = actions.uniform(-1, 1, first.action_space.shape)
        for ours, theirs in zip(first.step(action)[:4], second.step(action)[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    single, other = make(env_id), make(env_id)
    single.reset(seed=3)
    other.reset(seed=4)
    other.unwrapped.set_state(single.unwrapped.get_state())
    np.testing.assert_array_equal(single.step(action[0])[0], other.step(action[0])[0])
    with pytest.raises(UserError, match="shape"):
        other.unwrapped.set_state({**single.unwrapped.get_state(), "world": np.zeros(1)})


@every_task
def test_pictures(env_id: str, options: dict[str, Any]) -> None:
    env = make(env_id, **options, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.ndim == 3
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) >= 3
    batch = make_vec(env_id, 2, **options, render_mode="rgb_array")
    batch.reset(seed=0)
    np.testing.assert_array_equal(batch.render()[0], picture)
    assert capabilities(env).renders


@every_default
def test_shipped_demonstrations(env_id: str, options: dict[str, Any]) -> None:
    file = demos.shipped(env_id)
    assert file.stat().st_size < 150_000
    data = demos.load(file)
    assert len(data) == 40
    assert violating(data) == 0
    assert "MIT" in data.card["note"]
    demos.validate(data, make(env_id, **data.card["env_kwargs"]))
    made = demos.scripted_demonstrations(env_id, data.card["env_kwargs"], 40, data.card["seed"])
    # On another processor the last bit of a cosine may differ, and with it a choice between plans that are alike.
    np.testing.assert_allclose(made.observations[made.row_offsets], data.observations[data.row_offsets], atol=1e-2)
    assert mean_return(made) == pytest.approx(mean_return(data), rel=0.05)


@every_default
def test_wrong_use_gets_one_sentence(env_id: str, options: dict[str, Any]) -> None:
    env = make_vec(env_id, 2)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(env.action_space.shape))
    env.reset(seed=0)
    with pytest.raises(UserError, match="shape"):
        env.step(np.zeros((3, 9)))
    with pytest.raises(UserError, match="not finite"):
        env.step(np.full(env.action_space.shape, np.nan))
    with pytest.raises(UserError, match="horizon"):
        make(env_id, horizon=0)
    with pytest.raises(UserError, match="render_mode"):
        make_vec(env_id, 2, render_mode="ascii")


def test_the_command_line_makes_demonstrations(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.npz"
    assert main(["demos", "make", "tacit/Nav-v0", "--env", "shape=wall", "--n", "3", "-o", str(file)]) == 0
    assert demos.load(file).card["env_kwargs"]["shape"] == "wall"
    assert main(["demos", "make", "tacit/Nav-v0", "--beta", "1", "-o", str(file)]) == 2
    assert "scripted" in capsys.readouterr().err
    assert main(["envs"]) == 0
    assert "tacit/Nav-v0" in capsys.readouterr().out


def test_other_options_than_the_shipped_ones_are_demonstrated_anew() -> None:
    said: list[str] = []
    _, data, path = prepare("tacit/Nav-v0", {"shape": "wall"}, None, 0, said.append)
    assert path is None
    assert data.card["env_kwargs"]["shape"] == "wall"
    _, data, path = prepare("tacit/Nav-v0", {}, None, 0, said.append)
    assert path == str(demos.shipped("tacit/Nav-v0"))


@pytest.mark.parametrize(
    "shape", ["ring", [], [{"disc": [0, 0]}], [{"disc": [0, 0, -1]}], [{"box": [1, 0, 0, 1]}], [{"ball": [0, 0, 1]}], 3]
)
def test_shapes_that_are_none(shape: Any) -> None:
    with pytest.raises(UserError, match="shape"):
        make("tacit/Nav-v0", shape=shape)


def test_a_map_without_room() -> None:
    with pytest.raises(UserError, match="no room"):
        make("tacit/Nav-v0", shape=[{"box": [-4, -4, 4, 4]}]).reset(seed=0)


def test_the_reactor_stays_in_its_steady_state() -> None:
    ca = np.array([0.85, 0.9])
    t, tc = steady_state(ca)
    state = np.stack([ca, t, tc, ca], axis=1)
    np.testing.assert_allclose(react(state, np.zeros(2))[:, :3], state[:, :3], rtol=1e-6)
    runaway = np.array([[1.0, 450.0, 320.0, 0.5]])
    assert np.isfinite(react(runaway, np.ones(1))).all()
    with pytest.raises(UserError, match="rule is one of"):
        make("tacit/Reactor-v0", rule="sum")


def crowd_states(objects: Any, seed: int = 0) -> tuple[np.ndarray, Rule]:
    """Many observations of a crowd, and its rule."""
    env = make_vec("tacit/Crowd-v0", 64, objects=objects)
    rows = demos.collect(env, straight_to_the_goal, 64, seed=seed).observations
    return rows, capabilities(env).rule


def test_the_order_of_a_crowd_does_not_matter() -> None:
    obs, rule = crowd_states([3, 8])
    violated, rng = rule.violated(obs), np.random.default_rng(0)
    assert violated.any()
    for _ in range(5):
        order = rng.permuted(np.tile(np.arange(8), (len(obs), 1)), axis=1)
        shuffled = np.take_along_axis(slots_of(obs), order[..., None], axis=1).reshape(len(obs), -1)
        np.testing.assert_array_equal(rule.violated(np.concatenate([obs[:, : len(OWN)], shuffled], axis=1)), violated)


def test_one_kind_of_the_crowd_is_harmless() -> None:
    obs, rule = crowd_states([3, 8])
    slots = slots_of(obs)
    near = np.hypot(slots[..., 0], slots[..., 1]) < DISTANCE
    shy, harmless = (near & (slots[..., column] > 0) & (slots[..., 6] > 0) for column in (4, 5))
    np.testing.assert_array_equal(rule.violated(obs), shy.any(axis=1))
    assert (harmless.any(axis=1) & ~rule.violated(obs)).any()


@pytest.mark.parametrize(("objects", "counts"), [([3, 5], {3, 4, 5}), ([6, 8], {6, 7, 8}), (4, {4})])
def test_the_number_of_objects(objects: Any, counts: set[int]) -> None:
    present = slots_of(crowd_states(objects)[0])[..., 4:]
    assert set(present[..., 2].sum(axis=1).astype(int)) == counts
    assert (present[..., 0] + present[..., 1] == present[..., 2]).all()
    assert (present[..., 0].sum(axis=1) >= 1).all()


@pytest.mark.parametrize("objects", [0, 9, [5, 3], [3], "many", 2.5, [1, "a"]])
def test_crowds_that_are_none(objects: Any) -> None:
    with pytest.raises(UserError, match="objects"):
        make("tacit/Crowd-v0", objects=objects)


def test_a_rule_may_be_a_predicate_and_a_text_alone() -> None:
    rule = Rule(text="inside", predicate=lambda obs: obs[:, 0] > 0)
    assert (str(rule), f"{rule:.3g}", rule.is_bound) == ("inside", "inside", False)
    assert rule.violated(np.array([[1.0], [-1.0]])).tolist() == [True, False]
    assert Rule("x", ">", 1.0).is_bound
    with pytest.raises(UserError, match="text and a predicate"):
        Rule()


def test_starts_goals_and_speed_of_nav_can_be_changed():
    """The expert keeps out of the disc with a faster body, too: it brakes in time."""
    options = {"starts": [-3, -3, -1.5, 3], "goals": [1.5, -3, 3, 3], "top_speed": 2.0}
    data = demos.scripted_demonstrations("tacit/Nav-v0", options, n=20, seed=0)
    first = data.observations[data.rows_before][data.step_offsets]
    goals = first[:, :2] + first[:, 4:]
    assert (first[:, 0] <= -1.5).all()
    assert (goals[:, 0] >= 1.5).all()
    speeds = np.hypot(*data.observations[:, 2:4].T)
    assert 1.5 < speeds.max() <= 2.0 + 1e-5
    assert data.costs is not None
    assert not data.costs.any()
    assert (data.lengths < 200).all()  # everybody arrives
    for wrong in ({"starts": [1, 2]}, {"goals": [1, 0, -1, 2]}, {"top_speed": 0.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            make("tacit/Nav-v0", **wrong)


def test_options_that_were_added_later_are_not_part_of_a_name_at_their_default():
    assert resolve_env("tacit/Nav-v0", {}) == {"shape": "disc", "horizon": 200}
    assert resolve_env("tacit/Nav-v0", {"top_speed": 1.0}) == {"shape": "disc", "horizon": 200}
    assert resolve_env("tacit/Nav-v0", {"top_speed": 2.0}) == {"shape": "disc", "horizon": 200, "top_speed": 2.0}
