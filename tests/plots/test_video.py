"""Films: the right pictures of the right episode."""

from __future__ import annotations

import base64
import io
import os
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from report_helpers import Page
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.plots.video import film_beside, filmstrip, record
from tacit.policy import TablePolicy
from tacit.report import render_report
from tacit.report.data import RunData


class Counter(gym.Env[Any, Any]):
    """Draws how many steps it has taken; violates from the fifth on, and ends after nine."""

    metadata: ClassVar[dict[str, list[str]]] = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    dt = 0.5

    def __init__(self, render_mode: str | None = None, picture: Any = None) -> None:
        self.render_mode, self.picture = render_mode, picture

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.zeros(1, np.float32), 2.0, self.t >= 9, False, {"cost": float(self.t >= 5)}

    def render(self) -> Any:
        return np.full((4, 6, 3), self.t, np.uint8) if self.picture is None else self.picture


gym.register("tacit-test/Counter-v0", entry_point=Counter)


def still(obs: Any, rng: np.random.Generator) -> Any:
    return np.zeros((len(obs), 1), np.float32)


def test_a_suffix_in_capitals(tmp_path: Path) -> None:
    film = tmp_path / "film.GIF"
    assert record("tacit-test/Counter-v0", {"picture": np.zeros((16, 16, 3), np.uint8)}, still, film) == 10
    assert film.read_bytes()[:4] == b"GIF8"


def test_a_film_of_what_cannot_be_drawn_is_a_sentence(tmp_path: Path) -> None:
    gym.register("tacit-test/Blind-v0", entry_point=lambda: Counter())
    flat: dict[str, Any] = {"picture": np.zeros(3)}
    for name, given, words in (("Blind", {}, "cannot be made with render_mode"), ("Counter", flat, "no pictures")):
        with pytest.raises(UserError, match=words), warnings.catch_warnings(action="error"):
            record(f"tacit-test/{name}-v0", given, still, tmp_path / "film.gif")
    assert not [*tmp_path.iterdir()]


def test_filmstrip() -> None:
    strip = filmstrip("tacit-test/Counter-v0", {}, still, pictures=4)
    assert strip.steps == (0, 3, 6, 9)
    assert [int(picture[0, 0, 0]) for picture in strip.pictures] == [0, 3, 6, 9]
    assert (strip.length, strip.total, strip.seconds) == (9, 18.0, 0.5)
    assert strip.costs == (0, 0, 0, 0, 1, 1, 1, 1, 1)
    short = filmstrip("tacit-test/Counter-v0", {}, still, pictures=8, max_steps=3)
    assert short.steps == (0, 1, 2, 3)
    for picture in (np.zeros((4, 6)), np.zeros((4, 6, 3)), "text"):
        with pytest.raises(UserError, match="draws no pictures"):
            filmstrip("tacit-test/Counter-v0", {"picture": picture}, still)


def test_film_marks_violations() -> None:
    config = {"algo": "x", "env": "tacit-test/Counter-v0", "env_kwargs": {}, "config": {}, "seed": 0}
    text = render_report([RunData("run", config, True, policy=still)])  # type: ignore[arg-type]
    assert "One episode of 9 steps, return 18, 5 steps in violation." in Page(text).text
    assert re.findall(r'<figure class="violates"><img [^>]*alt="([^"]*)"', text) == [
        f"{seconds} s, violates" for seconds in (2.5, 3.0, 4.0, 4.5)
    ]
    assert len(re.findall(r'alt="[\d.]+ s"', text)) == 4


def test_a_short_film_of_two_agents() -> None:
    """Few pictures, the last ones of both agents among them, and counts of all steps."""
    gif = film_beside("tacit-test/Counter-v0", {}, {"one": still, "two": still}, pictures=3)
    with Image.open(io.BytesIO(gif)) as film:
        assert film.n_frames == 4  # steps 0, 3, 6 and the last one
        assert film.size == (6 + 8 + 6, 4 + 20)
        film.seek(3)
        assert abs(int(np.asarray(film.convert("RGB"))[22, 2, 0]) - 9) <= 4


def test_reports_show_an_agent_without_constraint_beside_the_learned_one() -> None:
    config = {"algo": "x", "env": "tacit-test/Counter-v0", "env_kwargs": {}, "config": {}, "seed": 0}
    alone = RunData("run", config, True, policy=still)  # type: ignore[arg-type]
    assert "data:image/gif" not in render_report([alone])
    assert "tacit report run --beside" in Page(render_report([alone])).text
    text = render_report([replace(alone, reward_alone=still)])  # type: ignore[arg-type]
    gif = base64.b64decode(re.findall(r'src="data:image/gif;base64,([^"]+)" alt="Left: an agent', text)[0])
    with Image.open(io.BytesIO(gif)) as film:
        assert film.n_frames == 10
    assert "--beside" not in Page(text).text


def test_no_pictures_is_a_sentence() -> None:
    config = {"algo": "x", "env": "tacit-test/Counter-v0", "env_kwargs": {"colour": 1}, "config": {}, "seed": 0}
    text = render_report([RunData("run", config, True, policy=still)])  # type: ignore[arg-type]
    assert "No pictures: tacit-test/Counter-v0 cannot be made with render_mode" in Page(text).text


@pytest.mark.parametrize("chosen", [None, "x11"])
def test_pictures_need_no_screen(chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SDL reads its driver when a picture is drawn; afterwards, and where the user has chosen, nothing is changed."""
    drivers = []

    class Noted(Counter):
        def render(self) -> Any:
            drivers.append(os.environ.get("SDL_VIDEODRIVER"))
            return super().render()

    monkeypatch.setitem(
        gym.registry, "tacit-test/Noted-v0", gym.envs.registration.EnvSpec("tacit-test/Noted-v0", Noted)
    )
    if chosen is None:
        monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    else:
        monkeypatch.setenv("SDL_VIDEODRIVER", chosen)
    filmstrip("tacit-test/Noted-v0", {}, lambda obs, rng: np.zeros((1, 1), np.float32))
    record("tacit-test/Noted-v0", {}, lambda obs, rng: np.zeros((1, 1), np.float32), tmp_path / "a.gif")
    assert set(drivers) == {chosen or "dummy"}
    assert os.environ.get("SDL_VIDEODRIVER") == chosen


def test_stock_pictures_are_drawn_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pygame")
    filmstrip("CartPole-v1", {}, lambda obs, rng: np.zeros(1, int))
    assert "XDG" not in capfd.readouterr().err


def test_a_small_agent_keeps_its_colour_in_a_film() -> None:
    """A film has few colours. Most of a gridworld is white, and they must not all be shades of it."""
    env_id = "tacit/Gridworld-v0"
    with gym.make(env_id, render_mode="rgb_array") as env:
        env.reset(seed=0)
        drawn = np.asarray(env.render())
    walk = TablePolicy(np.full((81, 8), 1 / 8), make_spec("paper").states_of)
    with Image.open(io.BytesIO(film_beside(env_id, {}, {"one": walk}, side=max(drawn.shape)))) as film:
        first = np.asarray(film.convert("RGB"))[-drawn.shape[0] :, : drawn.shape[1]]
    assert np.abs(first.astype(int) - drawn).max() < 40
