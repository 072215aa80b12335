"""`tacit.learn`: the deep method in five lines of Python."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import gymnasium as gym
import numpy as np
import PIL.Image
import pytest

import tacit
from tacit import demos as demonstrations
from tacit.algorithms import find
from tacit.envs.local import identify
from tacit.launch import resolve

PENDULUM = "tacit/Pendulum-v0"
TINY = {
    "features": "network",
    "n_envs": 8,
    "batch_size": 128,
    "total_steps": 2048,
    "bootstrap_steps": 1024,
    "forward_steps": 1024,
    "rollout_steps": 512,
    "minibatches": 5,
    "eval_episodes": 2,
    "hidden": (8,),
}


def test_learns_from_demonstrations_in_memory_and_finds_the_run_again(tmp_path):
    data = demonstrations.load(demonstrations.shipped(PENDULUM)).subset(np.arange(6))
    learned = tacit.learn(PENDULUM, data, seed=3, out=tmp_path, **TINY)
    assert learned.path.parent == tmp_path
    assert learned.summary["steps"] == 2048
    assert learned.cost(np.zeros((2, 4), np.float32)).shape == (2,)
    assert learned.map(np.zeros((2, 4), np.float32)).shape == (2,)
    assert learned.policy.act(np.zeros((2, 4), np.float32), np.random.default_rng(0)).shape == (2, 1)
    assert learned.report().read_text().startswith("<!doctype html>")
    assert learned.run.demonstrations().sha256 == data.sha256
    command = learned.run.read("provenance.json")["command"]
    assert command.startswith(f"tacit.learn({PENDULUM!r}, method='mce', seed=3, ")
    assert f"total_steps={TINY['total_steps']!r}" in command, "what was asked for can be asked for again"

    # The same settings as the command line's, so the same folder; and a file is as good as an object.
    demonstrations.save(data, tmp_path / "demos.npz")
    again = tacit.learn(PENDULUM, tmp_path / "demos.npz", preset="reference", seed=3, out=str(tmp_path), **TINY)
    assert again.path == learned.path
    assert again.summary["table"] == learned.summary["table"]


def test_preset_is_that_of_the_command_line():
    settings, data = resolve("mce", PENDULUM, say=lambda _: None)
    assert len(data) > 6  # those that come with Tacit
    assert settings["config"]["start"] == find("mce").config(PENDULUM, "reference").start == "clone"


def test_mistakes_are_said_at_once(tmp_path):
    with pytest.raises(tacit.UserError, match="total_steps"):
        tacit.learn(PENDULUM, out=tmp_path / "r", totl_steps=5)
    for seed in (-1, "x", 0.5):
        with pytest.raises(tacit.UserError, match="the seed must be a whole number of at least 0"):
            tacit.learn(PENDULUM, seed=seed, out=tmp_path / "r")
    with pytest.raises(tacit.UserError, match="does not learn"):
        tacit.learn(PENDULUM, method="expert", out=tmp_path / "r")
    data = demonstrations.load(demonstrations.shipped(PENDULUM))
    with pytest.raises(tacit.UserError, match="was made in tacit/Pendulum-v0"):
        tacit.learn("tacit/Ant-v0", data, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_importing_tacit_loads_none_of_it():
    code = "import sys, tacit; print(any(m in sys.modules for m in ('tacit.launch', 'jax', 'matplotlib')), tacit.learn)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False <function learn")


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['jax'] = None; import tacit; tacit.learn('tacit/Nav-v0')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("mce needs it: pip install '.[deep]' in a clone")


def test_help_says_where_demonstrations_come_from_and_shows_deep_examples(capsys):
    from tacit.cli import main

    assert main(["learn", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Tacit's environments use the demonstrations that come with Tacit" in text
    assert "tacit learn mce tacit/HalfCheetah-v0" in text


# -- environments and demonstrations in hand ---------------------------------------------------------------------------


class Line(gym.Env):
    """Speed is the reward; above 0.5 it is forbidden."""

    feature_names = ("x", "v")
    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, limit: float = 0.5, render_mode: str | None = None) -> None:
        self.limit, self.render_mode = limit, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = np.array([self.np_random.uniform(-0.1, 0.1), 0.0], np.float32), 0
        return self.state.copy(), {}

    def step(self, action):
        self.steps += 1
        self.state[1] = np.clip(self.state[1] + 0.2 * float(action[0]), -2, 2)
        self.state[0] = np.clip(self.state[0] + 0.1 * self.state[1], -9, 9)
        cost = float(self.state[1] > self.limit)
        return self.state.copy(), float(self.state[1]), False, self.steps >= 30, {"cost": cost}

    def render(self):
        return np.full((32, 40, 3), np.uint8(100 + 40 * min(max(self.state[1], 0), 2)), np.uint8)


def walks(n: int = 6):
    """(observations, actions, rewards) of drivers who stay below 0.5."""
    rng, made = np.random.default_rng(0), []
    for i in range(n):
        env = Line()
        seen, done, earned = [env.reset(seed=i)[0]], [], []
        for _ in range(30):
            done.append(np.clip([(0.45 - seen[-1][1]) * 5 + 0.1 * rng.normal()], -1, 1).astype(np.float32))
            observation, reward, *_ = env.step(done[-1])
            seen.append(observation)
            earned.append(reward)
        made.append((np.array(seen), np.array(done), np.array(earned)))
    return made


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return tacit.learn(lambda: Line(0.5), walks(), out=tmp_path_factory.mktemp("line"), **TINY)


def test_a_function_and_arrays_are_enough(learned):
    assert learned.run.demonstrations().n_steps == 6 * 30
    assert learned.cost.names == ("x", "v")
    action, state = learned.policy.predict(np.zeros(2, np.float32), deterministic=True)
    assert action.shape == (1,)
    assert state is None
    batch, _ = learned.policy.predict(np.zeros((5, 2), np.float32))
    assert batch.shape == (5, 1)
    assert learned.evaluate(3, seed=1)["return"]["n"] == 3
    assert learned.rule is None or learned.rule in learned.explain()


def test_pictures_films_and_representations(learned, tmp_path):
    axes = learned.plot("x", "v")
    assert axes.get_xlabel() == "x"
    assert learned.plot("v", ax=axes) is axes
    with pytest.raises(tacit.UserError, match="vv"):
        learned.plot("vv")
    film = learned.video(tmp_path / "film.gif", beside=lambda obs, rng: np.ones((len(obs), 1)))
    with PIL.Image.open(film) as picture:
        assert picture.n_frames == 31
        assert picture.size == (2 * 40 + 8, 32 + 20)
    with pytest.raises(tacit.UserError, match=r"\.mp4 or \.gif"):
        learned.video(tmp_path / "film.txt")
    assert str(learned.path) in repr(learned)
    assert learned._repr_html_().startswith("<table>")


def test_a_film_of_what_cannot_be_drawn_trains_nothing(learned, tmp_path, monkeypatch):
    monkeypatch.setattr(tacit.Learned, "unconstrained", lambda self: pytest.fail("trained an agent for nothing"))
    monkeypatch.setattr(Line, "render", gym.Env.render)  # what an environment has that defines none
    with pytest.raises(tacit.UserError, match="draws no pictures"):
        learned.video(tmp_path / "film.gif")


def test_saved_and_loaded(learned, tmp_path):
    again = tacit.Learned.load(learned.save(tmp_path / "kept"))
    states = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    np.testing.assert_array_equal(again.cost(states), learned.cost(states))
    assert again.summary == learned.summary
    with pytest.raises(tacit.UserError, match="exists already"):
        learned.save(tmp_path / "kept")


def test_calibrates_on_demonstrations_that_it_has_not_seen(learned):
    fresh = tacit.demos.from_arrays(walks(30)).subset(np.arange(6, 30))
    calibration = learned.calibrate(fresh, delta=0.2)["cost"]
    assert learned.cost.threshold == calibration.threshold


def test_a_vector_environment_and_a_number_of_steps_like_1e4(tmp_path):
    brief = {"method": "bc", "steps": 2e1, "eval_episodes": 2}
    learned = tacit.learn(gym.vector.SyncVectorEnv([Line] * 2), walks(), out=tmp_path, **brief)
    assert learned.run.config["config"]["steps"] == 20
    assert learned.evaluate(2)["return"]["n"] == 2


def test_environments_by_their_id():
    cart = identify(gym.make("CartPole-v1", sutton_barto_reward=True))
    assert (cart.id, cart.options) == ("CartPole-v1", {"sutton_barto_reward": True})
    assert identify(gym.make_vec("CartPole-v1", 3)).copies == 3
    assert identify("any:Name-v0").id == "any:Name-v0"
    # A time limit or a wrapper of one's own is part of the environment.
    assert identify(gym.make("CartPole-v1", max_episode_steps=7)).id.startswith("local/")
    assert identify(gym.wrappers.TimeLimit(Line(), 5)).id.startswith("local/")


def test_another_environment_never_has_the_same_id():
    one, two = identify(lambda: Line(0.5)).id, identify(lambda: Line(0.6)).id
    assert one != two
    limits = [0.1, 0.2]
    ids = {identify(lambda limit=limit: Line(limit)).id for limit in limits}
    ids |= {_with_closure(limit) for limit in limits}
    assert len(ids) == 4
    assert identify(Line).id == identify(Line).id  # nothing but its source decides


def _with_closure(limit: float) -> str:
    return identify(lambda: Line(limit)).id


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (3, "int is not an environment"),
        (lambda: 3, "made int"),
        (lambda limit: Line(limit), "raised TypeError"),
        (gym.wrappers.vector.ClipReward(gym.make_vec("CartPole-v1", 2), 0, 1), "wraps a vector environment"),
    ],
)
def test_what_is_no_environment(env, words):
    with pytest.raises(tacit.UserError, match=words):
        tacit.learn(env, walks())


@pytest.mark.parametrize(
    ("demos", "words"),
    [
        ([], "no demonstrations"),
        (7, "one \\(observations, actions\\) per trajectory"),
        ([np.zeros((3, 2))], "trajectory 0 is ndarray"),
        ([(np.zeros((3, 2)), np.zeros((7, 1)))], "3 observations for 7 actions"),
        ([(["a"], ["b"])], "not arrays of numbers"),
        ([{"observations": np.zeros((3, 2))}], "no actions"),
        ([{"obs": 1}], "'obs'"),
        ([(np.full((3, 2), np.nan), np.zeros((2, 1)))], "NaN"),
    ],
)
def test_what_are_no_demonstrations(demos, words, tmp_path):
    with pytest.raises(tacit.UserError, match=words):
        tacit.learn(Line, demos, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_as_many_observations_as_actions_lose_the_last_action(caplog):
    observations, actions, _ = walks(1)[0]
    data = tacit.demos.from_arrays([(observations[:-1], actions)])
    assert data.n_steps == 29
    assert "no rewards" in caplog.text
    np.testing.assert_array_equal(data.actions, actions[:-1])


def test_the_exact_method_predicts_too(tmp_path):
    learned = tacit.learn("tacit/Gridworld-v0", method="mce-exact", out=tmp_path)
    one, _ = learned.policy.predict(np.array([6.0, 2.0]), deterministic=True)
    many, _ = learned.policy.predict(np.array([[6.0, 2.0]] * 3), deterministic=True)
    assert (many == one).all()
    assert learned.video(tmp_path / "film.gif").stat().st_size > 1000
    assert learned.plot().get_ylabel() == "row"


def test_demonstrations_that_do_not_fit_are_refused(tmp_path):
    """As on the command line: they are replayed first."""
    shipped = tacit.demos.load(tacit.demos.shipped("tacit/Pendulum-v0"))
    exchanged = dataclasses.replace(shipped, observations=shipped.observations[:, [2, 1, 0, 3]])
    with pytest.raises(tacit.UserError, match="does not fit"):
        tacit.learn("tacit/Pendulum-v0", exchanged, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
