"""The film of the README: `python tools/readme_film.py` writes docs/images/film.gif and prints what it shows (minutes).

Above, from the same starts: an agent that follows the reward alone, and the one that has learned from 40
demonstrations, with the default settings. The starts are the first ones from which the straight way crosses the hidden
discs: an illustration, not a result. Below: the cost of a place (x, y), fitted to 1, 2, 5, 10, 20 and 40
demonstrations. Runs are kept in build/film, so a second call is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib import colormaps
from PIL import Image, ImageDraw, ImageFont

import tacit
from tacit.cost.terms import first_knots
from tacit.demos import Demonstrations, scripted_demonstrations
from tacit.envs.nav import HALF_WIDTH, Nav
from tacit.inverse import screen, terms
from tacit.policy import Policy
from tacit.run.storage import load_arrays

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "images" / "film.gif"
ENV, OPTIONS = "tacit/Nav-v0", {"shape": "discs"}
DEMONSTRATIONS, EPISODES = 40, 4
NUMBERS = (1, 2, 5, 10, 20, 40)
"""Demonstrations of the maps."""
PANEL, GAP, STRIP = 288, 12, 24
"""Pixels of an arena's side, between pictures, and of a line of text."""
MAP = (2 * PANEL + GAP - (len(NUMBERS) - 1) * GAP) // len(NUMBERS)
STRIDE, FRAME, PAUSE = 2, 80, 900
"""Steps between pictures; milliseconds of a picture, and of the last one of an episode."""
INK, QUIET, RED, BLUE = (40, 40, 40), (110, 110, 110), (200, 30, 30), (50, 90, 170)


# Agents --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """One episode of a policy without its noise."""

    pictures: list[np.ndarray]
    """After every step, and before the first."""
    places: np.ndarray
    """(n, 2) x and y at these moments."""
    inside: np.ndarray
    """(n,) in the forbidden region?"""


def walk(policy: Policy, seed: int) -> Walk:
    env = gymnasium.make(ENV, render_mode="rgb_array", **OPTIONS)
    obs, _ = env.reset(seed=seed)
    pictures, places, inside, over = [env.render()], [obs[:2]], [False], False
    while not over:
        obs, _, terminated, truncated, info = env.step(policy.predict(obs, deterministic=True)[0])
        pictures.append(env.render())
        places.append(obs[:2])
        inside.append(info["cost"] > 0)
        over = terminated or truncated
    env.close()
    return Walk([np.asarray(picture) for picture in pictures], np.array(places), np.array(inside))


def tempting_starts() -> Iterator[int]:
    """Seeds of episodes whose straight way crosses the forbidden region."""
    env = gymnasium.make(ENV, **OPTIONS)
    shapes = Nav(**OPTIONS).shapes
    for seed in count():
        obs, _ = env.reset(seed=seed)
        if shapes.crossed(obs[:2], obs[:2] + obs[4:6], -0.3):
            yield seed


# Maps ----------------------------------------------------------------------------------------------------------------


def cost_map(learned: tacit.Learned, demos: Demonstrations, n: int) -> np.ndarray:
    """(MAP, MAP) cost of places, y downwards: one term on x and y, n demonstrations against the same agents."""
    config = learned.run.config["config"]
    expert = np.concatenate([demos[i].observations[1:] for i in range(n)]).astype(np.float64)
    folds = screen.folds_of(np.array([len(demos[i].actions) for i in range(n)]))
    agents = load_arrays(learned.path / "samples.safetensors")[0]["nominal"].astype(np.float64)
    weight = np.full(len(agents), 1 / len(agents))
    samples = screen.Samples(expert, folds, agents, weight, config["expert_square"], config["learner_square"])
    knots = tuple(first_knots(expert[:, j], agents[:, j], terms.KNOTS[2]) for j in (0, 1))
    table: Any = ((0, 1), knots)
    for _ in range(3):
        fits = [terms.Problem(samples, [table]).fit(smoothness)[1] for smoothness in terms.SMOOTHNESS]
        fitted = max(fits, key=lambda fit: fit.share)
        table = terms.refined(samples, fitted.tables[0])
    along = np.linspace(-HALF_WIDTH, HALF_WIDTH, MAP)
    places = np.stack(np.meshgrid(along, along[::-1]), axis=-1).reshape(-1, 2)
    (chosen,) = fitted.tables
    return np.asarray(terms.design(chosen.inputs, chosen.knots, places) @ chosen.values.ravel()).reshape(MAP, MAP)


def overlap(costs: np.ndarray) -> float:
    """IoU of the hidden region and of the places that cost more than half of the most."""
    along = np.linspace(-HALF_WIDTH, HALF_WIDTH, MAP)
    truth = Nav(**OPTIONS).shapes.inside(np.stack(np.meshgrid(along, along[::-1]), axis=-1))
    marked = costs > costs.max() / 2
    return float((truth & marked).sum() / (truth | marked).sum())


# Pictures ------------------------------------------------------------------------------------------------------------


def font(size: int) -> Any:
    return ImageFont.load_default(size)


def arena(picture: np.ndarray, way: Walk, step: int) -> Image.Image:
    """The arena with the way so far: blue, and red in the forbidden region. Drawn large first, for smooth lines."""
    side = 3 * PANEL
    image = Image.fromarray(picture).resize((side, side), Image.Resampling.LANCZOS)
    draw = ImageDraw.Draw(image)
    at = (way.places[: step + 1] * [1, -1] + HALF_WIDTH) * side / (2 * HALF_WIDTH)
    for i in range(1, len(at)):
        draw.line([tuple(at[i - 1]), tuple(at[i])], fill=RED if way.inside[i] else BLUE, width=9)
    return image.resize((PANEL, PANEL), Image.Resampling.LANCZOS)


def caption(name: str, way: Walk, step: int, earlier: int) -> tuple[str, tuple[int, int, int]]:
    steps = earlier + int(way.inside[: step + 1].sum())
    return f"{name}: {steps} forbidden steps", RED if steps else INK


def frame(
    ways: Mapping[str, Walk],
    step: int,
    earlier: Mapping[str, int],
    maps: Mapping[int, np.ndarray],
    shown: int,
    note: str,
) -> Image.Image:
    """Both agents at one step, the first `shown` maps, and a note in the corner: what made this."""
    height = STRIP + PANEL + GAP // 2 + STRIP + MAP + STRIP
    canvas = Image.new("RGB", (2 * PANEL + GAP, height), "white")
    draw = ImageDraw.Draw(canvas)
    for i, (name, way) in enumerate(ways.items()):
        now, left = min(step, len(way.pictures) - 1), i * (PANEL + GAP)
        text, colour = caption(name, way, now, earlier[name])
        draw.text((left + 2, 3), text, fill=colour, font=font(15))
        canvas.paste(arena(way.pictures[now], way, now), (left, STRIP))
    top = STRIP + PANEL + GAP // 2
    words = f"cost of a place, learned from {', '.join(map(str, NUMBERS[:-1]))} and {NUMBERS[-1]} demonstrations"
    draw.text((2, top + 3), words, fill=INK, font=font(15))
    draw.text((canvas.width - 2, top + 5), note, fill=QUIET, font=font(12), anchor="ra")
    for i, (n, costs) in enumerate(maps.items()):
        left = i * (MAP + GAP)
        box = [left, top + STRIP, left + MAP - 1, top + STRIP + MAP - 1]
        if i < shown:
            canvas.paste(coloured(costs), (left, top + STRIP))
        draw.rectangle(box, outline=INK if i == shown - 1 else (205, 205, 205), width=1)
        draw.text((left + 2, top + STRIP + MAP + 3), str(n), fill=INK if i < shown else QUIET, font=font(13))
    return canvas


def coloured(costs: np.ndarray) -> Image.Image:
    colours = colormaps["Oranges"](costs / max(float(costs.max()), 1e-9))[..., :3]
    return Image.fromarray((255 * colours).astype(np.uint8))


def film(
    walks: list[dict[str, Walk]], maps: Mapping[int, np.ndarray], note: str
) -> tuple[list[Image.Image], list[int]]:
    """(pictures, milliseconds of each)."""
    frames, times = [], []
    earlier = dict.fromkeys(walks[0], 0)
    moments = [(ways, step) for ways in walks for step in moments_of(ways)]
    for number, (ways, step) in enumerate(moments):
        shown = min(len(maps), 1 + number * (len(maps) + 1) // len(moments))
        frames.append(frame(ways, step, earlier, maps, shown, note))
        last = step == moments_of(ways)[-1]
        times.append(PAUSE if last else FRAME)
        if last:
            earlier = {name: earlier[name] + int(way.inside.sum()) for name, way in ways.items()}
    times[-1] = 3 * PAUSE
    return frames, times


def moments_of(ways: Mapping[str, Walk]) -> list[int]:
    """Steps that are drawn, the last one included."""
    longest = max(len(way.pictures) for way in ways.values()) - 1
    return sorted({*range(0, longest, STRIDE), longest})


def save(frames: list[Image.Image], times: list[int], path: Path) -> None:
    # One palette for all pictures: colours do not flicker, and unchanged ground takes no bytes.
    palette = frames[-1].quantize(96, method=Image.Quantize.MEDIANCUT)
    small = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in frames]
    small[0].save(path, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)


def main(seed: int) -> None:
    demos = scripted_demonstrations(ENV, OPTIONS, n=DEMONSTRATIONS, seed=seed)
    learned = tacit.learn(ENV, demos, seed=seed, out=ROOT / "build" / "film", env_kwargs=OPTIONS)
    print("learned rule:", learned.rule)
    maps = {n: cost_map(learned, demos, n) for n in NUMBERS}
    print("overlap of cost and truth:", ", ".join(f"{n}: {overlap(costs):.2f}" for n, costs in maps.items()))
    agents: dict[str, Any] = {"reward alone": learned.unconstrained(), "learned": learned.policy}
    starts = list(islice(tempting_starts(), EPISODES))
    walks = [{name: walk(policy, start) for name, policy in agents.items()} for start in starts]
    for name in agents:
        print(f"{name}: {[int(ways[name].inside.sum()) for ways in walks]} forbidden steps in {EPISODES} episodes")
    frames, times = film(walks, maps, f"Tacit {tacit.__version__}, seed {seed}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    save(frames, times, OUT)
    print(f"{OUT.relative_to(ROOT)}: {len(frames)} pictures, {OUT.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="random seed of demonstrations and training")
    main(parser.parse_args().seed)
