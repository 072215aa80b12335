"""What environments declare, and environments of other packages: listed, found, learned from, resumed bit by bit."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tacit import demos
from tacit.cli import main
from tacit.cost.quality import rule_of
from tacit.envs import families, options, registry
from tacit.envs.capabilities import Capabilities, Rule, capabilities
from tacit.envs.gridworld import GridworldEnv, GridworldVectorEnv
from tacit.envs.traffic.env import TrafficVectorEnv
from tacit.envs.wrappers import simulate
from tacit.errors import UserError
from tacit.forward.collect import begin, collect, interface_of, restore
from tacit.inverse.samples import horizon_of

PACKAGE = '''
"""A family in one file, outside the package."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from tacit.envs.capabilities import Rule
from tacit.envs.families import EnvInfo, Family
from tacit.envs.rng_state import pack_rng, unpack_rng

FAMILY = Family(
    (EnvInfo("acme/Kettle-v0", "stay below 0.75", 12, "Box(2): heat, noise", "Box(1)", "acme_kettle:Kettle"),),
    options="acme_kettle:complete",
    notice="acme_kettle:notice",
    demonstrations="acme_kettle:shipped",
)


def complete(options):
    return {"gain": 0.1, **options}


def notice(options):
    return "this kettle is simulated" if options.get("gain") == 0.1 else None


def shipped(env_id):
    from pathlib import Path

    return Path(__file__).with_name("kettle.npz")


class Kettle(gym.Env):
    feature_names = ("heat", "noise")
    horizon = 12
    rule = Rule("heat", ">", 0.75)
    outcomes = ("running", "cold", "boiled")
    dt = 0.5
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, gain: float = 0.1, render_mode: str | None = None) -> None:
        self.gain, self.render_mode = gain, render_mode
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    @staticmethod
    def succeeded(final_obs):
        return final_obs[:, 0] > 0.5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heat, self.t = 0.0, 0
        return self._see(), {"cost": 0.0}

    def _see(self):
        return np.array([self.heat, self.np_random.normal()], np.float32)

    def step(self, action):
        self.t += 1
        self.heat += self.gain * float(np.clip(action[0], -1, 1)) + 0.01 * self.np_random.normal()
        return self._see(), self.heat, False, self.t >= self.horizon, {"cost": float(self.heat > 0.75)}

    def get_state(self):
        return {"heat": np.array(self.heat), "t": np.array(self.t), "rng": pack_rng(self.np_random)}

    def set_state(self, state):
        self.heat, self.t = float(state["heat"]), int(state["t"])
        self.np_random = unpack_rng(state["rng"])
'''
KETTLE = "acme/Kettle-v0"


@pytest.fixture
def kettle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of an environment of a package that is installed with an entry point."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "acme_kettle.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(site)
    install(monkeypatch, metadata.EntryPoint("kettle", "acme_kettle", families.ENTRY_POINTS))
    yield KETTLE
    forget(KETTLE, "acme_kettle")


def install(monkeypatch: pytest.MonkeyPatch, *entries: metadata.EntryPoint) -> None:
    def entry_points(*, group: str) -> metadata.EntryPoints:
        return metadata.EntryPoints(entry for entry in entries if entry.group == group)

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    monkeypatch.setattr(families, "_plugins", {})


def forget(env_id: str, module: str) -> None:
    gym.registry.pop(env_id, None)
    sys.modules.pop(module, None)


def test_environments_of_entry_points_are_listed(kettle: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kettle not in gym.registry
    assert main(["envs", "kettle", "--json"]) == 0
    (info,) = json.loads(capsys.readouterr().out)
    assert (info["id"], info["constraint"], info["horizon"]) == (kettle, "stay below 0.75", 12)
    assert main(["envs"]) == 0
    told = capsys.readouterr().out
    assert kettle in told
    assert "tacit/Gridworld-v0" in told


def test_an_id_that_is_not_registered_is_looked_for_in_entry_points(kettle: str) -> None:
    env = registry.make_vec(kettle, 3)
    assert registry.feature_names(env) == ("heat", "noise")
    assert options.resolve_env(kettle, {}) == {"gain": 0.1}
    assert options.notice(kettle, {"gain": 0.1}) == "this kettle is simulated"
    assert options.notice(kettle, {"gain": 0.2}) is None
    assert options.exact_model(kettle, {}) is None
    assert not options.has_expert(kettle)
    assert demos.shipped(kettle).name == "kettle.npz"


def test_what_the_environment_declares_is_found_through_wrappers_and_copies(kettle: str) -> None:
    single: Any = gym.wrappers.TimeLimit(registry.make(kettle), 100)
    for env in (single, registry.make_vec(kettle, 2)):
        can = capabilities(env)
        assert can.rule == Rule("heat", ">", 0.75, column=0)
        assert can.rule.violated(np.array([[0.7, 9.0], [0.8, 0.0]])).tolist() == [False, True]
        assert (can.horizon, can.outcomes, can.step_seconds, can.renders) == (
            12,
            ("running", "cold", "boiled"),
            0.5,
            True,
        )
        assert can.succeeded(np.array([[0.6, 0.0], [0.1, 0.0]])).tolist() == [True, False]
        assert (can.model, can.use_threads, can.step_arrays, can.physical_state) == (None, None, None, None)
        assert can.state is not None


def heat_up(observations: Any, rng: np.random.Generator) -> np.ndarray:
    return np.full((len(observations), 1), 0.4, np.float32)


def test_demonstrations_know_the_horizon_and_the_rule(kettle: str) -> None:
    env = registry.make_vec(kettle, 2)
    data = demos.collect(env, heat_up, 4, seed=0)
    assert demos.problems(data, env) == []
    assert horizon_of(env, data.first(2)) == 12
    np.testing.assert_array_equal(rule_of(env)(data.observations), data.observations[:, 0] > 0.75)


def test_an_environment_of_an_entry_point_is_learned_in_and_evaluated_by_its_id(
    kettle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    demos.save(demos.collect(registry.make_vec(kettle, 2), heat_up, 6, seed=0), "kettle.npz")
    learn = ["learn", "bc", kettle, "--demos", "kettle.npz", "--steps", "10", "--eval-episodes", "2"]
    assert main(learn) == 0, capsys.readouterr().err
    (run,) = Path("runs").iterdir()
    capsys.readouterr()
    # As in a new process, where nobody has loaded the entry point yet.
    gym.registry.pop(kettle)
    families._plugins.clear()
    assert main(["eval", str(run), "--episodes", "3"]) == 0
    assert "This kettle is simulated." in capsys.readouterr().out


@pytest.mark.parametrize("limit", [None, 7])
def test_copies_of_an_environment_that_sets_its_state_resume_bit_by_bit(kettle: str, limit: int | None) -> None:
    from tacit.policy import Policy

    def make() -> Any:
        registry.find_spec(kettle)
        made = [lambda: gym.make(kettle, max_episode_steps=limit)] * 3
        return gym.vector.SyncVectorEnv(made, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    env = make()
    interface = interface_of(env)
    weights, zeros = np.full((2, 1), 0.1, np.float32), np.zeros(1, np.float32)
    policy = Policy(interface, (weights,), (zeros,), zeros, np.zeros(2, np.float32), np.ones(2, np.float32), 5.0)
    _, carry = collect(env, policy, begin(env, interface, 0), 5, np.random.default_rng(0))
    expected, _ = collect(env, policy, carry, 20, np.random.default_rng(1))
    other = make()
    found, _ = collect(other, policy, restore(other, interface, carry, 0), 20, np.random.default_rng(1))
    for name in ("obs", "next_obs", "rew", "done", "times"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_wrapper_with_a_state_of_its_own_is_not_resumed(kettle: str) -> None:
    registry.find_spec(kettle)
    noisy = [lambda: gym.wrappers.NormalizeReward(gym.make(kettle))] * 2
    assert capabilities(gym.vector.SyncVectorEnv(noisy)).state is None
    vector = registry.make_vec("tacit/Gridworld-v0", 2)
    assert capabilities(vector).state is not None
    assert capabilities(gym.wrappers.vector.RecordEpisodeStatistics(vector)).state is None


def test_a_shield_tries_actions_by_setting_the_state(kettle: str) -> None:
    env = registry.make(kettle)
    obs, _ = env.reset(seed=3)
    ahead = simulate(env)(obs, np.array([[-1.0], [1.0]], np.float32))
    reached = env.step(np.array([1.0], np.float32))[0]
    np.testing.assert_array_equal(ahead[1], reached)
    assert ahead[0, 0] < reached[0]


def test_an_entry_point_that_only_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_plain.py").write_text(
        "import gymnasium\ngymnasium.register('acme/Plain-v0', entry_point='acme_plain:Plain', max_episode_steps=9)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, metadata.EntryPoint("plain", "acme_plain", families.ENTRY_POINTS))
    try:
        families.load_plugins()
        assert [(info.id, info.horizon) for info in families.describe_envs()][-1] == ("acme/Plain-v0", 9)
        families.load_plugins()  # twice is the same as once
        assert registry.find_spec("acme/Plain-v0").max_episode_steps == 9
    finally:
        forget("acme/Plain-v0", "acme_plain")


@pytest.mark.filterwarnings("default")
def test_an_entry_point_that_fails_is_named_and_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, metadata.EntryPoint("gone", "not_there", families.ENTRY_POINTS))
    assert main(["envs"]) == 0
    printed = capsys.readouterr()
    assert "entry point gone (not_there) are missing: ModuleNotFoundError" in printed.err
    assert "tacit/Gridworld-v0" in printed.out


def test_the_environments_of_the_package() -> None:
    grid = capabilities(GridworldVectorEnv(2, "paper"))
    assert grid.model is not None
    assert grid.rule is None
    assert grid.horizon == grid.model.horizon == capabilities(GridworldEnv("paper")).horizon
    ant = capabilities(registry.make_vec("tacit/Ant-v0", 2))
    assert str(ant.rule) == "x_position < -3"
    assert ant.rule.column == 0
    assert ant.use_threads is not None
    assert ant.step_arrays is not None
    assert ant.step_seconds == pytest.approx(0.05)
    assert capabilities(registry.make("tacit/Ant-v0")).physical_state is not None
    car = capabilities(TrafficVectorEnv(1, "velocity"))
    assert car.rule.predicate is not None
    assert car.outcomes[3] == "goal"
    assert car.succeeded is not None


class Odd(gym.Env):
    """Attributes of the same names that mean something else."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    horizon = "far"
    rule = "do no harm"
    outcomes = "many"
    dt = None
    exact_model = 3


def test_attributes_of_another_type_are_not_taken_for_declarations() -> None:
    assert capabilities(Odd()) == Capabilities()


def test_a_rule_about_a_feature_that_is_not_there() -> None:
    env = Odd()
    env.rule = Rule("speed", "<=", 1.0)
    with pytest.raises(UserError, match="'speed', which is none of the environment's feature names"):
        capabilities(env).rule.violated(np.zeros((1, 2)))
    with pytest.raises(UserError, match="relation"):
        Rule("speed", "==", 1.0)
