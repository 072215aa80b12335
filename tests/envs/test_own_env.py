"""Environments of other people: by module, single or batched, Dict observations and all; and what cannot work."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tacit import demos
from tacit.cli import main
from tacit.envs import options
from tacit.envs import registry as making
from tacit.errors import UserError
from tacit.policy import Interface
from tacit.run import Run

MODULE = '''
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Tank(gym.Env):
    """Fill a tank; it must not be more than three quarters full, and nobody says so."""

    def __init__(self, gain: float = 0.1) -> None:
        self.gain = gain
        self.observation_space = spaces.Dict(
            {"level": spaces.Box(-1, 2, (1,), np.float32), "valve": spaces.Discrete(2), "pump": spaces.Box(-1, 1, (2,))}
        )
        self.action_space = spaces.Box(-2, 1, (1,), np.float32)

    def _see(self):
        pump = np.array([self.flow, -self.flow], np.float32)
        return {"level": np.array([self.level], np.float32), "valve": int(self.flow > 0), "pump": pump}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.flow = float(self.np_random.uniform(0, 0.2)), 0.0
        return self._see(), {}

    def step(self, action):
        self.flow = float(np.clip(action[0], -1, 1))
        self.level = float(np.clip(self.level + self.gain * self.flow, -1, 2))
        return self._see(), self.level, False, False, {"cost": float(self.level > 0.75)}


gym.register("Tank-v0", entry_point=Tank, max_episode_steps=20)
gym.register("Broken-v0", entry_point=lambda: 1 / 0)
'''
NAMES = ("level[0]", "pump[0]", "pump[1]", "valve=0", "valve=1")  # Gymnasium sorts the keys of a Dict


@pytest.fixture
def tank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of an environment whose module is a file in the current folder."""
    forget()  # an example has a tank too
    (tmp_path / "my_plant.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield "my_plant:Tank-v0"
    forget()


def forget() -> None:
    for name in ("Tank-v0", "Broken-v0"):
        gym.registry.pop(name, None)
    sys.modules.pop("my_plant", None)


def careful(observations: Any, rng: np.random.Generator) -> np.ndarray:
    """Fills to 0.7, with the raw Dict observations."""
    level = observations["level"][:, 0]
    return np.clip(8 * (0.6 - level) + 0.3 * rng.standard_normal(len(level)), -1, 1)[:, None].astype(np.float32)


def shown(tank: str, n: int = 10) -> demos.Demonstrations:
    making.find_spec(tank, here=True)
    return demos.collect(making.make_vec(tank, 4, flattened=False), careful, n, seed=0)


def test_dict_observations_are_flattened_and_named(tank: str) -> None:
    making.find_spec(tank, here=True)
    env = making.make_vec(tank, 3)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, 5)
    assert making.feature_names(env) == NAMES
    raw = making.make_vec(tank, 3, flattened=False)
    seen, _ = raw.reset(seed=0)
    np.testing.assert_array_equal(obs[:, 0], seen["level"][:, 0])
    assert (obs[:, 3:] == [1, 0]).all()
    obs, *_ = env.step(np.ones((3, 1), np.float32))
    np.testing.assert_allclose(obs[:, 1:], np.tile([1, -1, 0, 1], (3, 1)))
    assert Interface.of(env.single_observation_space, env.single_action_space).obs_size == 5


def test_demonstrations_of_a_dict_environment(tank: str) -> None:
    data = shown(tank)
    assert data.card["feature_names"] == list(NAMES)
    assert data.observations.shape == (10 * 21, 5)
    assert demos.problems(data, making.make(tank)) == []
    assert demos.problems(data, making.make(tank, flattened=False)) == []
    # What is recorded is what happened: the level moves by the gain times the action, at the end of an episode too.
    first = data[7]
    np.testing.assert_allclose(np.diff(first.observations[:, 0]), 0.1 * first.actions[:, 0], atol=1e-6)
    swapped = demos.Demonstrations(**data.arrays(), card={"feature_names": list(NAMES[::-1])})
    assert "feature names" in demos.problems(swapped, making.make(tank))[0]


def test_learn_evaluate_and_resume_from_a_file_in_the_current_folder(
    tank: str, capsys: pytest.CaptureFixture[str]
) -> None:
    demos.save(shown(tank), "tank.npz")
    forget()
    small = ["--total-steps", "2048", "--bootstrap-steps", "512", "--forward-steps", "512", "--rollout-steps", "512"]
    args = ["learn", "mce", tank, "--demos", "tank.npz", *small, "--n-envs", "8", "--eval-episodes", "5"]
    assert main(args) == 0, capsys.readouterr().err
    (run,) = Path("runs").glob("mce-my-plant-tank-*")
    assert main(["eval", str(run), "--episodes", "4"]) == 0, capsys.readouterr().err
    assert main(["resume", str(run)]) == 0
    from tacit.cost import LearnedCost

    cost = LearnedCost.load(run / "model" / "cost.safetensors")
    assert cost.inputs.names == NAMES
    assert cost(np.zeros((2, 5))).shape == (2,)


def test_demonstrations_know_how_their_environment_was_made(tank: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The module, the options; learning takes both over, and says so where it does not."""
    making.find_spec(tank, here=True)
    for gain in (0.1, 0.3):
        env = making.make_vec(tank, 2, **({} if gain == 0.1 else {"gain": gain}))
        data = demos.collect(env, lambda obs, rng: np.ones((2, 1), np.float32), 4, seed=0)
        demos.save(data, f"gain-{gain}.npz")
    assert (data.card["env"], data.card["env_kwargs"]) == (tank, {"gain": 0.3})
    taste = ["--steps", "10", "--eval-episodes", "2"]
    assert main(["learn", "bc", tank, "--demos", "gain-0.3.npz", *taste]) == 0
    assert "environment options are those of gain-0.3.npz: gain=0.3" in capsys.readouterr().err
    (run,) = Path("runs").iterdir()
    assert Run.open(run).config["env_kwargs"] == {"gain": 0.3}
    assert main(["learn", "bc", tank, "--demos", "gain-0.1.npz", "--env", "gain=0.2", *taste]) == 0
    assert "gain-0.1.npz was made with other options: gain=0.1" in capsys.readouterr().err
    assert main(["learn", "bc", tank, "--demos", "gain-0.1.npz", "--env", "gane=0.2"]) == 2
    assert "did you mean 'gain'?" in capsys.readouterr().err
    assert main(["learn", "bc", "my_plant:Tonk-v0", "--demos", "gain-0.1.npz"]) == 2
    assert "there is no environment 'Tonk-v0'" in capsys.readouterr().err
    with pytest.raises(UserError, match="did you mean 'tacit/Nav-v0'"):
        making.find_spec("nav")


def test_what_gymnasium_adds_is_no_option(tank: str) -> None:
    """Nor is what was registered with the id; a tuple is the list that the card makes of it."""
    making.find_spec(tank, here=True)
    gym.register("Half-v0", entry_point="my_plant:Tank", max_episode_steps=20, kwargs={"gain": 0.5})
    try:
        same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
        env = gym.make_vec(
            "Half-v0", num_envs=2, vectorization_mode="sync", max_episode_steps=4, vector_kwargs=same_step
        )
        data = demos.collect(env, lambda obs, rng: np.ones((2, 1), np.float32), 2, seed=0)
        assert data.card["env_kwargs"] == {}
        assert options.other_options("Half-v0", {}, {"gain": 0.5}) == {}
        assert options.other_options("Half-v0", {}, {"gain": 0.1}) == {"gain": 0.5}
    finally:
        gym.registry.pop("Half-v0")
    assert making.same((1, [2, 3]), (1, [2, 3]))
    assert making.same((1, 2), [1, 2])
    assert not making.same(np.ones(2), np.zeros(2))


def test_options_that_are_no_json_are_named(tank: str) -> None:
    making.find_spec(tank, here=True)
    env = making.make_vec(tank, 2, gain=np.float32(0.3))
    with pytest.warns(UserWarning, match="option gain"):
        data = demos.collect(env, lambda obs, rng: np.ones((2, 1), np.float32), 2, seed=0)
    assert data.card["env_kwargs"] == {}


def test_a_file_cannot_choose_the_module_that_is_imported(tank: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = shown(tank)
    demos.save(demos.Demonstrations(**data.arrays(), card={**data.card, "env": tank}), "tank.npz")
    forget()
    sys.path.remove(str(Path.cwd()))
    assert main(["demos", "validate", "tank.npz"]) == 2
    assert "if you trust that" in capsys.readouterr().err
    with pytest.raises(UserError, match="it is not installed, and files of the current folder"):
        making.make(tank)
    assert "my_plant" not in sys.modules
    assert main(["demos", "validate", "tank.npz", tank]) == 0


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("my_plant:Tonk-v0", "importing my_plant does not register it"),
        ("my_plant:Broken-v0", "cannot make my_plant:Broken-v0: ZeroDivisionError"),
        ("my-plant:Tank-v0", "'my-plant' is not the name of a Python module"),
        ("their_plant:Tank-v0", "neither installed nor in"),
        ("broken_module:X-v0", "importing 'broken_module' raised RuntimeError: no licence"),
        ("Tank-v9", "module:Name-v0"),
    ],
)
def test_what_is_wrong_is_said(tank: str, env: str, said: str) -> None:
    Path("broken_module.py").write_text("raise RuntimeError('no licence')")
    with pytest.raises(UserError, match=re.escape(said)):
        asked(env)


def asked(env: str) -> None:
    making.find_spec(env, here=True)
    making.make_vec(env, 2)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), "obs is a picture"),
        (spaces.Dict({"camera": spaces.Box(0, 255, (8, 8), np.uint8)}), "camera is a picture"),
        (spaces.Dict({"words": spaces.Text(5)}), "words is Text"),
        (spaces.Sequence(spaces.Discrete(3)), "obs is Sequence"),
        (spaces.Box(0, 1, (200, 100)), "20000 entries"),
    ],
)
def test_observations_that_cannot_be_used(space: spaces.Space, said: str) -> None:
    with pytest.raises(UserError, match=said):
        making.flat_space(space)


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([2, 3]), spaces.Dict({"a": spaces.Discrete(2)}), spaces.Box(-1, 1, (2, 2))]
)
def test_actions_that_cannot_be_used(space: spaces.Space) -> None:
    with pytest.raises(UserError, match="actions must be a one-dimensional Box or Discrete"):
        Interface.of(spaces.Discrete(3), space)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict(
            {
                "b": spaces.Dict({"y": spaces.Box(0, 1, (2, 2)), "x": spaces.Box(0, 1, ())}),
                "a": spaces.Discrete(3, start=1),
            }
        ),
        spaces.Tuple((spaces.Box(0, 1, (2,)), spaces.MultiBinary(3))),
        spaces.MultiDiscrete([2, 3]),
        spaces.Box(-1, 1, (2, 3)),
    ],
)
def test_there_is_a_name_for_every_entry(space: spaces.Space) -> None:
    space.seed(0)
    names = making.entry_names(space)
    assert len(names) == len(set(names)) == len(making.flatten(space, space.sample()))


def test_names_of_nested_spaces() -> None:
    space = spaces.Dict({"arm": spaces.Dict({"q": spaces.Box(0, 1, (2,)), "on": spaces.Box(0, 1, ())})})
    assert making.entry_names(space) == ("arm.on", "arm.q[0]", "arm.q[1]")
    assert making.entry_names(spaces.MultiDiscrete([2, 1])) == ("obs[0]=0", "obs[0]=1", "obs[1]=0")
    assert making.entry_names(spaces.Box(-1, 1, (1, 2))) == ("obs[0,0]", "obs[0,1]")


class Named(gym.Env):
    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    feature_names = ("x", "y")


def test_names_come_from_inside_unless_they_do_not_fit() -> None:
    env: Any = gym.wrappers.TimeLimit(Named(), 5)
    assert making.feature_names(env) == ("x", "y")
    assert making.feature_names(gym.vector.SyncVectorEnv([lambda: env])) == ("x", "y")
    assert making.feature_names(gym.wrappers.TimeAwareObservation(env)) is None  # three entries, two names
    pair = gym.wrappers.TransformObservation(env, lambda o: {"a": o}, spaces.Dict({"a": Named.observation_space}))
    assert making.feature_names(pair) == ("x", "y")
    assert making.feature_names(gym.wrappers.TimeLimit(making.flat(pair), 5)) == ("x", "y")


def test_a_cost_finds_its_inputs_in_a_flattened_environment(tank: str) -> None:
    """By name, though the order is another one than where it was learned."""
    from tacit.cost import Inputs, LearnedCost
    from tacit.envs.wrappers import CostWrapper

    making.find_spec(tank, here=True)
    one = np.ones(1, np.float32)
    inputs = Inputs(("level[0]",), (2,), 3, 0, 0 * one, one)
    learned = LearnedCost(inputs, one, np.full((1, 1), 9, np.float32), np.zeros((1, 1), np.float32))
    for flattened in (True, False):
        env = CostWrapper(making.make(tank, flattened=flattened), learned)
        env.reset(seed=0)
        *_, info = env.step(np.ones(1, np.float32))
        level = env.unwrapped.level
        assert info["cost"] == pytest.approx(1 / (1 + np.exp(-9 * np.arcsinh(level))), abs=1e-5)


class Batch(gym.vector.VectorEnv):
    """Two numbers."""

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int = 1, mode: str = "SameStep", pairs: bool = False) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode(mode)}
        box = spaces.Box(-1, 1, (2,), np.float32)
        self.single_observation_space = spaces.Dict({"a": box}) if pairs else box
        self.single_action_space = spaces.Discrete(2)


@pytest.fixture
def batch() -> str:
    gym.register("OwnBatch-v0", vector_entry_point=Batch)
    yield "OwnBatch-v0"
    gym.registry.pop("OwnBatch-v0")


def test_an_environment_that_is_only_batched(batch: str) -> None:
    assert isinstance(making.make_vec(batch, 3), Batch)
    assert isinstance(making.make_vec(batch, 3, mode="NextStep"), Batch)
    with pytest.raises(UserError, match="do not reset automatically, and it has no single version"):
        making.make_vec(batch, 3, mode="Disabled")
    with pytest.raises(UserError, match="are not flat"):
        making.make_vec(batch, 3, pairs=True)
    with pytest.raises(UserError, match="only a batched one"):
        making.make(batch)


def test_demonstrations_of_ours_are_not_for_others() -> None:
    assert demos.shipped("tacit/Ant-v0") is not None
    assert demos.shipped("Ant-v5") is None
    assert demos.shipped("mine/Ant-v0") is None
