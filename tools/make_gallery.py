"""The pictures of the gallery: `python tools/make_gallery.py` writes docs/images/gallery/NAME.png, one per environment
and one per rule that an option hides.

Robots stand beside the forbidden ground, so that it is in the picture. Those with a speed limit are too fast, so that
the ground is red. The others are shown some steps into an episode.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image

from tacit.demos import scripted_demonstrations
from tacit.envs.families import describe_envs

OUT = Path(__file__).parent.parent / "docs" / "images" / "gallery"
WIDTH = 400
"""pixels; twice as wide as a card on a small screen"""
BESIDE = {"Ant": -2.2, "BrokenAnt": -2.2, "HalfCheetah": -2.4, "Swimmer": 0.2, "Walker": -2.6, "Point": -2.2}
BESIDE |= {"Pendulum": 0.0, "LevelHalfCheetah": -2.4}
BESIDE |= {"HalfCheetahVelocity": 0.0, "HopperVelocity": 0.0, "SwimmerVelocity": 0.0}
"""x of the robots, in metres"""
VARIANTS: dict[str, list[dict[str, str]]] = {
    "tacit/Nav-v0": [{"shape": shape} for shape in ("discs", "ell", "wall")],
    "tacit/Reactor-v0": [{"rule": "ratio"}],
}
"""Options that hide another rule, which gets a card of its own."""


def picture(env_id: str, options: dict[str, str]) -> np.ndarray:
    env = gymnasium.make(env_id, render_mode="rgb_array", **options)
    env.reset(seed=1)
    name = short(env_id)
    if name in BESIDE:
        robot = env.unwrapped
        position = np.array(robot.init_qpos)
        position[0] = BESIDE[name]
        velocity = np.zeros_like(robot.init_qvel)
        velocity[0] = 1.1 * robot.rule.value if robot.rule.feature == "x_velocity" else 0.0
        robot.set_state(position, velocity)
    else:
        for action in actions_of(env_id, options):
            env.step(action)
    frame = env.render()
    env.close()
    assert isinstance(frame, np.ndarray)
    return frame


def actions_of(env_id: str, options: dict[str, str]) -> list[np.ndarray]:
    """The first steps of the scripted expert; on the highway straight on."""
    if "Highway" in env_id:
        return [np.zeros(2, np.float32)] * 25
    if env_id == "tacit/Gridworld-v0":
        return []
    data = scripted_demonstrations(env_id, options, n=1, seed=1)
    return list(data[0].actions[: min(30, len(data[0].actions) // 2)])


def short(env_id: str, options: dict[str, str] | None = None) -> str:
    """Nav, or Nav-discs with an option."""
    return "-".join([env_id.rpartition("/")[2].removesuffix("-v0"), *(options or {}).values()])


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    everything = [(info.id, options) for info in describe_envs() for options in ({}, *VARIANTS.get(info.id, []))]
    for env_id, options in everything:
        image = Image.fromarray(picture(env_id, options))
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        # 256 colours are enough for a thumbnail, chosen so that a small agent or goal keeps its own.
        image = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        image.save(OUT / f"{short(env_id, options)}.png", optimize=True)


if __name__ == "__main__":
    main()
