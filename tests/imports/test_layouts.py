"""Every layout comes back as the demonstrations that it was made from."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import foreign
from tacit import demos, imports, make_spec
from tacit.demos import Demonstrations
from tacit.errors import UserError

NAV = "tacit/Nav-v0"
GRID = make_spec("paper", slip=0.0)


@pytest.fixture(scope="module")
def nav() -> Demonstrations:
    """Episodes of unequal length that end at their goals."""
    return demos.scripted_demonstrations(NAV, {"shape": "disc", "horizon": 200}, 4, seed=3)


@pytest.fixture(scope="module")
def grid() -> Demonstrations:
    return demos.expert_demonstrations(GRID, 4, seed=0)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(one: Demonstrations, other: Demonstrations, *, ends: bool = True) -> None:
    np.testing.assert_array_equal(one.lengths, other.lengths)
    np.testing.assert_allclose(one.observations, other.observations, atol=2e-6)
    np.testing.assert_allclose(one.actions, other.actions, atol=1e-7)
    np.testing.assert_allclose(one.rewards, other.rewards, atol=2e-6)
    if ends:
        np.testing.assert_array_equal(one.terminated, other.terminated)


def saved(arrays: dict[str, Any], name: str = "a.npz") -> str:
    np.savez(name, **arrays)
    return name


def pickled(content: Any, name: str = "a.pkl") -> str:
    Path(name).write_bytes(pickle.dumps(content))
    return name


def listed(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: listed(value) for key, value in content.items()}
    if isinstance(content, list):
        return [listed(value) for value in content]
    return content.tolist() if isinstance(content, np.ndarray) else content


def as_json(content: Any, name: str = "a.json") -> str:
    Path(name).write_text(json.dumps(listed(content)))
    return name


def columns_of(episodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: [episode[key] for episode in episodes] for key in episodes[0]}


def of_steps(episode: dict[str, Any]) -> list[dict[str, Any]]:
    """A list of steps; the last one has an observation alone."""
    steps = [
        {"obs": o, "act": a, "rew": r, "terminal": False}
        for o, a, r in zip(episode["obs"], episode["acts"], episode["rews"], strict=False)
    ]
    steps[-1]["terminal"] = episode["terminal"]
    return [*steps, {"obs": episode["obs"][-1]}]


def tuples(demos: Demonstrations) -> list[Any]:
    return [
        [(t.observations[k], t.actions[k], t.rewards[k], t.observations[k + 1], t.terminated and k == len(t) - 1)
         for k in range(len(t))]
        for t in demos
    ]  # fmt: skip


COMPLETE = {
    "list of dicts": lambda d: pickled(foreign.dicts(d)),
    "list of dicts, other names": lambda d: pickled(
        foreign.dicts(d, observations="States", actions="action", rewards="reward", terminal="is_terminal")
    ),
    "list of dicts in JSON": lambda d: as_json(foreign.dicts(d)),
    "dicts by name": lambda d: as_json({"data": {f"demo_{i}": e for i, e in enumerate(foreign.dicts(d))}}),
    "object array": lambda d: (np.save("a.npy", np.array(foreign.dicts(d), object)), "a.npy")[1],
    "dict of lists": lambda d: pickled(columns_of(foreign.dicts(d))),
    "lists of steps": lambda d: pickled([of_steps(e) for e in foreign.dicts(d)]),
    "lists of tuples": lambda d: pickled({"trajectories": tuples(d)}),
    "D4RL arrays": lambda d: saved(foreign.flat(d)),
    "D4RL": lambda d: str(foreign.hdf5(Path("a.hdf5"), foreign.flat(d))),
    "Minari's file": lambda d: str(foreign.hdf5(Path("a.hdf5"), foreign.minari(d))),
    "imitation, arrays": lambda d: str(foreign.imitation_npz(Path("a.npz"), d)),
    "imitation, objects": lambda d: str(foreign.imitation_pickle(Path("a.pkl"), d)),
    "padded, with a mask": lambda d: saved(foreign.padded(d)),
    "padded, with lengths": lambda d: saved(foreign.padded(d, mask=False)),
    "steps in JSON": lambda d: str(foreign.steps_json(Path("a.jsonl"), d)),
    "our arrays": lambda d: saved(d.arrays()),
    "our table": lambda d: (demos.to_csv(d, "a.csv"), "a.csv")[1],
    "tensors": lambda d: str(foreign.tensors(Path("a.pt"), foreign.dicts(d))),
}
"""Layouts from which everything can be had, without an environment."""


@pytest.mark.parametrize("layout", COMPLETE)
def test_complete_layouts(layout: str, nav: Demonstrations) -> None:
    path = COMPLETE[layout](nav)
    if layout == "lists of tuples":
        with pytest.raises(UserError, match=r"two ways.*--terminated all.*--terminated none"):
            imports.read(path)  # done says nothing about how it ended
        same(imports.read(path, terminated="all"), nav)
        same(imports.read(path, NAV), nav)
    else:
        same(imports.read(path), nav)


MISSING = {
    "D4RL without successors": lambda d: saved(foreign.flat(d, successors=False)),
    "flat with lengths": lambda d: saved(foreign.with_lengths(d)),
    "Liu's": lambda d: str(foreign.liu(Path("liu"), d)),
    "ICL's tensors": lambda d: str(
        foreign.tensors(Path("a.pt"), [[list(t.observations[:-1]), list(t.actions)] for t in d])
    ),
}
"""Layouts without the last observation: the environment computes it."""


@pytest.mark.parametrize("layout", MISSING)
def test_layouts_without_the_last_observation(layout: str, nav: Demonstrations) -> None:
    path = MISSING[layout](nav)
    same(imports.read(path, NAV), nav)
    if layout != "ICL's tensors":
        alone = imports.read(path)
        np.testing.assert_array_equal(alone.lengths, nav.lengths - 1)
        assert not alone.terminated.any(), "the step that ended it is gone"
    else:
        with pytest.raises(UserError, match="has no rewards"):
            imports.read(path)
        assert not imports.read(path, rewards="none").rewards.any()


def test_rollouts_of_several_copies(nav: Demonstrations) -> None:
    whole = imports.read(saved(foreign.copies(nav)), NAV)
    half = nav.n_steps // 2
    assert whole.n_steps == 2 * half
    np.testing.assert_allclose(whole.actions[: nav.lengths[0]], nav[0].actions)
    np.testing.assert_allclose(whole[0].observations, nav[0].observations, atol=2e-6)


@pytest.mark.parametrize("kind", ["commas", "semicolons", "tabs", "one per file"])
def test_tables(kind: str, nav: Demonstrations) -> None:
    if kind == "one per file":
        Path("laps").mkdir()
        for i in range(len(nav)):
            foreign.table(Path(f"laps/{i + 8}.csv"), nav.subset([i]), episode=False)
        path = "laps"
    elif kind == "semicolons":
        path = str(foreign.table(Path("a.csv"), nav, separator=";", decimal=","))
    else:
        path = str(foreign.table(Path("a.csv" if kind == "commas" else "a.tsv"), nav,
                                 separator="," if kind == "commas" else "\t"))  # fmt: skip
    data = imports.read(path, NAV)
    same(data, nav)
    assert data.card["feature_names"] == list(nav.card["feature_names"])


def test_a_table_in_another_order(nav: Demonstrations) -> None:
    """Names say which entry is which."""
    order = [3, 1, 0, 2, 5, 4]
    names = [nav.card["feature_names"][i] for i in order]
    shuffled = demos.Demonstrations(
        **{**nav.arrays(), "observations": nav.observations[:, order]}, card={"feature_names": names}
    )
    same(imports.read(foreign.table(Path("a.csv"), shuffled), NAV), nav)


def test_columns_that_are_named_in_the_order_of_the_environment_get_its_names(nav: Demonstrations) -> None:
    names = list(nav.card["feature_names"])
    path = foreign.table(Path("a.csv"), replace(nav, card={**nav.card, "feature_names": ["east", *names[1:]]}))
    same(imports.read(path, NAV, columns={"observations": ",".join(["east", *names[1:]])}), nav)
    with pytest.raises(UserError, match="give its entries these names, in this order"):
        imports.read(path, NAV, columns={"observations": ",".join([names[1], "east", *names[2:]])})


class Leaking(gym.Env):
    """Nobody can put it into a recorded state."""

    observation_space = gym.spaces.Box(0, 9, (2,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.ones(2), {}

    def step(self, action: Any) -> Any:
        return np.ones(2), 0.0, False, False, {}


def test_a_table_for_an_environment_that_cannot_be_replayed(cli: Any) -> None:
    gym.register("Leaking-v0", entry_point=Leaking, max_episode_steps=5)
    rows = [f"{k // 5};{k};{k % 5};{(k * 7) % 3};0.{k % 9}" for k in range(20)]
    Path("house.csv").write_text("\n".join(["day;minute;level;inflow;valve", *rows]))
    columns = {"observations": "level,inflow"}
    with pytest.raises(UserError, match=r"which columns are its actions.*--columns actions=valve$"):
        imports.read("house.csv", "Leaking-v0", columns=columns)
    columns["actions"] = "valve"
    with pytest.raises(UserError, match=r"Leaking-v0 cannot compute them.*get_state.*--rewards none"):
        imports.read("house.csv", "Leaking-v0", columns=columns)
    with pytest.raises(UserError, match=r"no environment is given.*\(--env\)"):
        imports.read("house.csv", columns={**columns, "episode": "day"})
    by_limit = imports.read("house.csv", "Leaking-v0", columns=columns, rewards="none")
    by_day = imports.read("house.csv", "Leaking-v0", columns={**columns, "episode": "day"}, rewards="none")
    same(by_limit, by_day)
    names = ("observations=level,inflow", "actions=valve")
    words = cli("demos", "import", "house.csv", "--env", "Leaking-v0", "--rewards", "none", "--columns", *names)
    assert words.status == 0
    printed = " ".join(words.stdout.split())
    for phrase in ("4 of 4 steps", "1 entry", "episode=NAME", "steps of Leaking-v0 cannot be replayed to check it"):
        assert phrase in printed


def test_a_table_without_known_names(nav: Demonstrations) -> None:
    foreign.table(Path("a.csv"), nav)
    with pytest.raises(UserError, match=r"--columns observations=.*With --env ENV"):
        imports.read("a.csv")
    chosen = {"observations": "x,y,vx,vy,goal_dx,goal_dy"}
    same(imports.read("a.csv", columns=chosen, terminated="all"), nav)
    Path("b.csv").write_text(Path("a.csv").read_text().replace("action_0,action_1", "push,turn", 1))
    with pytest.raises(UserError, match=r"--columns actions=push,turn$"):
        imports.read("b.csv", "tacit/Nav-v0")


def test_parquet(nav: Demonstrations) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    arrays = foreign.flat(nav)
    columns = {
        "observation.state": list(arrays["observations"].tolist()),
        "action": list(arrays["actions"].tolist()),
        "next.reward": arrays["rewards"].tolist(),
        "next.done": (arrays["terminals"] | arrays["timeouts"]).tolist(),
        "episode_index": np.repeat(np.arange(len(nav)), nav.lengths).tolist(),
    }
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    same(imports.read("a.parquet", NAV), nav)


# Robots and grids ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pendulum() -> Demonstrations:
    file = demos.shipped("tacit/Pendulum-v0")
    assert file is not None
    return demos.load(file).subset(range(5))


def test_rollouts_of_malik(pendulum: Demonstrations) -> None:
    foreign.malik(Path("rollouts"), pendulum)
    (Path("rollouts") / "train_env_stats.pkl").write_bytes(pickle.dumps(np.random.default_rng(0)))
    for env in (None, "tacit/Pendulum-v0"):
        data = imports.read("rollouts", env)
        np.testing.assert_array_equal(data.lengths, pendulum.lengths - 2)
        for one, other in zip(data, pendulum, strict=True):
            np.testing.assert_array_equal(one.observations, other.observations[1:-1])
            np.testing.assert_array_equal(one.actions, other.actions[1:-1])
            if env is not None:
                np.testing.assert_allclose(one.rewards, other.rewards[1:-1], atol=1e-5)
            else:
                assert one.rewards.sum() == pytest.approx(other.rewards.sum())


def test_rollouts_of_malik_without_their_mark_are_ambiguous(pendulum: Demonstrations) -> None:
    """The reset of a pendulum is no jump, so nothing tells; the environment does."""
    foreign.malik(Path("rollouts"), pendulum, scheme=False)
    with pytest.raises(UserError, match=r"two ways.*--shift 0.*--shift 1"):
        imports.read("rollouts")
    assert imports.read("rollouts", "tacit/Pendulum-v0").n_steps == pendulum.n_steps - 2 * len(pendulum)
    assert imports.read("rollouts", shift=0).n_steps == pendulum.n_steps - len(pendulum)


def test_the_ant_with_zeros() -> None:
    file = demos.shipped("tacit/Ant-v0")
    assert file is not None
    ant = demos.load(file).subset(range(2))
    foreign.malik(Path("rollouts"), ant, zeros=84)
    data = imports.read("rollouts", "tacit/Ant-v0", rewards="none")
    np.testing.assert_array_equal(data[0].observations, ant[0].observations[1:-1])


@pytest.mark.parametrize("kind", ["positions", "numbers", "all cells"])
def test_states_and_actions_on_a_grid(kind: str, grid: Demonstrations) -> None:
    states = GRID.states_of(grid.observations)
    cells = grid.observations.astype(int)
    rows = {"positions": cells, "numbers": states, "all cells": cells[:, 0] * GRID.shape[1] + cells[:, 1]}[kind]
    episodes = [
        {"states": rows[start : start + n + 1].tolist(), "actions": grid[i].actions.tolist()}
        for i, (start, n) in enumerate(zip(grid.row_offsets, grid.lengths, strict=True))
    ]
    data = imports.read(as_json(episodes), "tacit/Gridworld-v0")
    same(data, grid)
    assert data.costs is not None
    short = [{"states": e["states"][:-1], "actions": e["actions"]} for e in episodes]
    same(imports.read(as_json(short, "b.json"), "tacit/Gridworld-v0"), grid)
