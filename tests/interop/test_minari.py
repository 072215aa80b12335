"""Minari: there and back with everything, costs in the infos, datasets of others, and what cannot be read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from tacit import demos, make_spec
from tacit.cli import main
from tacit.errors import UserError

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

from tacit.interop.minari import from_minari, to_minari  # noqa: E402


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def continuous() -> demos.Demonstrations:
    rng = np.random.default_rng(0)
    made = [
        demos.Trajectory(
            rng.normal(size=(t + 1, 3)).astype(np.float32),
            rng.uniform(-1, 1, (t, 2)).astype(np.float32),
            rng.normal(size=t),
            rng.integers(0, 2, t).astype(float),
            t == 4,
        )
        for t in (4, 1, 7)
    ]
    return demos.data.from_trajectories(made, {"feature_names": ["a", "b", "c"], "note": "made up"})


@pytest.mark.parametrize("kind", ["continuous", "gridworld", "no costs"])
def test_there_and_back(kind: str) -> None:
    data = (
        demos.expert_demonstrations(make_spec("paper", slip=0.1), n=6, seed=0) if kind == "gridworld" else continuous()
    )
    if kind == "no costs":
        data = demos.Demonstrations(**{**data.arrays(), "costs": None}, card=data.card)
    to_minari(data, "ours/test-v0")
    back = from_minari("ours/test-v0")
    assert back.sha256 == data.sha256
    assert back.card == data.card


def test_minari_itself_reads_it() -> None:
    """With Minari's own conventions: the reset's information first, the end as termination or truncation."""
    data = continuous()
    to_minari(data, "ours/test-v0")
    episodes = list(minari.load_dataset("ours/test-v0").iterate_episodes())
    assert [len(e) for e in episodes] == [4, 1, 7]
    assert [bool(e.terminations[-1]) for e in episodes] == [True, False, False]
    assert [bool(e.truncations[-1]) for e in episodes] == [False, True, True]
    assert not any(e.terminations[:-1].any() for e in episodes)
    for episode, trajectory in zip(episodes, data, strict=True):
        np.testing.assert_array_equal(episode.observations, trajectory.observations)
        np.testing.assert_array_equal(episode.infos["cost"][1:], trajectory.costs)
        assert np.isnan(episode.infos["cost"][0])


def test_the_environment_can_be_recovered() -> None:
    spec = make_spec("paper", slip=0.25)
    to_minari(demos.expert_demonstrations(spec, n=2, seed=0), "ours/grid-v0")
    env = minari.load_dataset("ours/grid-v0").recover_environment()
    assert env.unwrapped.grid.slip == 0.25


class Arm(gym.Env):
    """Dict observations, info["cost"] from the first state on."""

    observation_space = gym.spaces.Dict({"q": gym.spaces.Box(-9, 9, (2,), np.float64), "on": gym.spaces.Discrete(2)})
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def _see(self) -> dict[str, Any]:
        return {"q": np.array([self.t, -self.t], float), "on": self.t % 2}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {"cost": 5.0}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self._see(), float(self.t), self.t == 6, False, {"cost": float(self.t > 3)}


class Camera(Arm):
    observation_space = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)

    def _see(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)


def finish(collector: Any, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        about = dict.fromkeys(("algorithm_name", "author", "author_email", "code_permalink", "description"), "x")
        collector.create_dataset(name, **about)
    collector.close()
    collector._tmp_dir.cleanup()  # it leaves that to the garbage collector, which complains


def test_a_dataset_of_somebody_else() -> None:
    """Recorded by Minari's own collector."""
    gym.register("MinariArm-v0", entry_point="test_minari:Arm")
    try:
        collector = minari.DataCollector(gym.make("MinariArm-v0", disable_env_checker=True), record_infos=True)
        for seed in range(3):
            collector.reset(seed=seed)
            over = False
            while not over:
                _, _, over, _, _ = collector.step(np.array([0.5], np.float32))
        finish(collector, "theirs/arm-v0")
        data = from_minari("minari:theirs/arm-v0")
    finally:
        gym.registry.pop("MinariArm-v0")
    assert len(data) == 3
    assert data.card["env"] == "MinariArm-v0"
    assert data.card["feature_names"] == ["on=0", "on=1", "q[0]", "q[1]"]
    np.testing.assert_array_equal(data[1].observations[:3], [[1, 0, 0, 0], [0, 1, 1, -1], [1, 0, 2, -2]])
    np.testing.assert_array_equal(data[2].costs, [0, 0, 0, 1, 1, 1])
    assert data.terminated.all()


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    demos.save(demos.expert_demonstrations(make_spec("paper"), n=3, seed=0), "grid.npz")
    assert main(["demos", "export", "grid.npz", "minari:ours/grid-v0"]) == 0, capsys.readouterr().err
    assert main(["demos", "import", "minari:ours/grid-v0", "-o", "back.npz", "--env", "tacit/Gridworld-v0"]) == 0
    assert demos.load("back.npz").sha256 == demos.load("grid.npz").sha256
    capsys.readouterr()
    Path("ours-grid-v0.npz").write_bytes(b"mine")
    for args, said in (
        (["demos", "export", "grid.npz", "minari:ours/grid-v0"], "the Minari dataset 'ours/grid-v0' exists"),
        (["demos", "import", "minari:ours/nothing-v0", "-o", "x.npz"], "there are: ours/grid-v0"),
        (["demos", "import", "minari:ours/grid-v0"], "ours-grid-v0.npz exists: say where to write with -o FILE"),
        (["demos", "export", "grid.npz", "minari:///"], "not a name of a Minari dataset"),
    ):
        assert main(args) == 2
        assert said in capsys.readouterr().err
    assert not Path("x.npz").exists()
    assert Path("ours-grid-v0.npz").read_bytes() == b"mine"


def test_an_environment_that_cannot_be_written_down() -> None:
    gym.register("MinariLocal-v0", entry_point=Arm)
    try:
        data = continuous()
        data = demos.Demonstrations(
            **{**data.arrays(), "observations": np.zeros((15, 4)), "actions": data.actions[:, :1]},
            card={"env": "MinariLocal-v0"},
        )
        to_minari(data, "ours/local-v0")
    finally:
        gym.registry.pop("MinariLocal-v0")
    dataset = minari.load_dataset("ours/local-v0")
    assert dataset.env_spec is None
    assert dataset.action_space == Arm.action_space
    assert from_minari("ours/local-v0").card["env"] == "MinariLocal-v0"


def test_nothing_half_written_stays(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise OSError("disk full")

    monkeypatch.setattr("minari.dataset._storages.hdf5_storage._add_episode_to_group", broken)
    with pytest.raises(OSError, match="disk full"):
        to_minari(continuous(), "ours/test-v0")
    assert "ours/test-v0" not in minari.list_local_datasets()
    monkeypatch.undo()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(here / "minari"))
    to_minari(continuous(), "ours/test-v0")


def test_pictures_are_refused() -> None:
    gym.register("MinariCamera-v0", entry_point="test_minari:Camera")
    try:
        collector = minari.DataCollector(gym.make("MinariCamera-v0", disable_env_checker=True))
        collector.reset(seed=0)
        for _ in range(6):
            collector.step(np.zeros(1, np.float32))
        finish(collector, "theirs/camera-v0")
        with pytest.raises(UserError, match="is a picture"):
            from_minari("theirs/camera-v0")
    finally:
        gym.registry.pop("MinariCamera-v0")
