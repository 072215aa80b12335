"""Pictures of hidden regions and relations: `python tools/draw_shapes.py [NAME ...]` writes docs/images/shapes/*.png.

One picture per task. Left: the hidden rule, demonstrations, and an agent that follows the reward alone. Right: the
learned cost over the same two inputs, averaged over demonstrated values of all others, and the learned policy. Below:
the rule in words. Every task is learned with the defaults, seed 0, about a minute each. Runs are kept in build/shapes.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image

import tacit
from tacit.envs.capabilities import capabilities
from tacit.plots.features import BLACK, COSTS, DOT
from tacit.plots.style import INK, new_figure, render, style
from tacit.policy import Policy

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs" / "images" / "shapes"
EPISODES, SIDE, FINE, BACKGROUNDS = 25, 121, 601, 100
"""Episodes of each agent; points along a side of the cost and of the rule; demonstrated states that are averaged."""
REWARD_ALONE, LEARNED, FORBIDDEN = "#d55e00", "#009e73", "#999999"


@dataclass(frozen=True)
class Picture:
    """A task, and the plane in which its rule can be seen."""

    env: str
    inputs: tuple[str, str]
    window: tuple[tuple[float, float], tuple[float, float]]
    labels: tuple[str, str]
    options: dict[str, Any] = field(default_factory=dict)


ARENA = ((-3.0, 3.0), (-3.0, 3.0))
NAV = {
    f"nav-{shape}": Picture("tacit/Nav-v0", ("x", "y"), ARENA, ("x", "y"), {"shape": shape})
    for shape in ("disc", "discs", "ell", "wall")
}
PICTURES = {
    **NAV,
    "slow-zone": Picture("tacit/SlowZone-v0", ("x", "v"), ((0.0, 8.0), (0.0, 2.0)), ("x", "speed v")),
    "reactor-product": Picture(
        "tacit/Reactor-v0",
        ("Ca", "T"),
        ((0.2, 0.95), (300.0, 380.0)),
        ("concentration Ca", "temperature T"),
        {"rule": "product"},
    ),
    "reactor-ratio": Picture(
        "tacit/Reactor-v0",
        ("T", "Tc"),
        ((310.0, 380.0), (280.0, 320.0)),
        ("temperature T", "coolant Tc"),
        {"rule": "ratio"},
    ),
}


def paths(picture: Picture, policy: Policy, columns: Sequence[int]) -> list[np.ndarray]:
    """(steps, 2) the two inputs along each of a few episodes."""
    env = gymnasium.make(picture.env, **picture.options)
    rng = np.random.default_rng(0)
    walked = []
    for seed in range(EPISODES):
        obs, _ = env.reset(seed=seed)
        places, over = [obs[columns]], False
        while not over:
            obs, _, terminated, truncated, _ = env.step(policy(obs[None], rng)[0])
            places.append(obs[columns])
            over = terminated or truncated
        walked.append(np.array(places))
    return walked


def draw(name: str, picture: Picture) -> None:
    learned = tacit.learn(picture.env, seed=0, out=ROOT / "build" / "shapes", env_kwargs=picture.options)
    print(f"{name}: {learned.rule}", flush=True)
    demos, cost = learned.run.learned_from(), learned.cost
    env = gymnasium.make(picture.env, **picture.options)
    about = capabilities(env)
    columns = [list(env.unwrapped.feature_names).index(one) for one in picture.inputs]
    states = demos.observations[:: max(1, len(demos.observations) // BACKGROUNDS)][:BACKGROUNDS]
    costs = cost(over_plane(picture, columns, states, SIDE)).reshape(SIDE, SIDE, -1).mean(axis=-1)
    assert about.rule is not None
    truth = about.rule.violated(over_plane(picture, columns, states[:1], FINE)).reshape(FINE, FINE)
    demonstrated = [demos[i].observations[:, columns] for i in range(min(len(demos), EPISODES))]
    with style():
        figure = new_figure(7.2, 4.1)
        left, right = figure.subplots(1, 2)
        before(left, demonstrated, paths(picture, learned.unconstrained(), columns))
        after(figure, right, picture, costs, float(cost.threshold or 0.0), paths(picture, learned.policy, columns))
        grid = [np.linspace(*ends, FINE) for ends in picture.window]
        left.contourf(*grid, truth.astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"])
        left.contour(*grid, truth.astype(float), levels=[0.5], colors=FORBIDDEN, linewidths=1.2)
        right.contour(*grid, truth.astype(float), levels=[0.5], colors=INK, linewidths=1.4)
        for axes in (left, right):
            axes.grid(False)
            axes.set(xlim=picture.window[0], ylim=picture.window[1])
            axes.set(xlabel=picture.labels[0], ylabel=picture.labels[1])
        words = textwrap.fill(f"The learned rule in words: {learned.rule}", 125)
        figure.text(0.07, 0.02, words, fontsize=7.5, va="bottom")
        figure.subplots_adjust(left=0.07, right=0.98, bottom=0.22, top=0.83, wspace=0.24)
        data = render(figure, "png")
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.png"
    path.write_bytes(data)
    # 96 colours are enough, and take a third of the bytes.
    with Image.open(path) as image:
        image.convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


def over_plane(picture: Picture, columns: Sequence[int], states: np.ndarray, side: int) -> np.ndarray:
    """(side * side * n, obs) the n states at every point of an even grid of the window, row by row."""
    xs, ys = (np.linspace(*ends, side) for ends in picture.window)
    places = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 1, 2)
    rows = np.repeat(states[None], len(places), axis=0)
    rows[..., columns] = places
    return rows.reshape(-1, rows.shape[-1])


def before(axes: Any, demonstrated: list[np.ndarray], tempted: list[np.ndarray]) -> None:
    """Who keeps to the rule and who does not."""
    for path in tempted:
        axes.plot(*path.T, color=REWARD_ALONE, lw=0.7, ls="--", alpha=0.8)
    for path in demonstrated:
        axes.plot(*path.T, color=DOT, lw=0.8, alpha=0.8)
    handles = [
        Patch(fc="none", ec=FORBIDDEN, hatch="////", label="hidden rule"),
        Line2D([], [], color=DOT, lw=1.2, label="demonstrations"),
        Line2D([], [], color=REWARD_ALONE, lw=1.2, ls="--", label="reward alone"),
    ]
    heading(axes, "What is given, and what is hidden", handles)


def after(
    figure: Figure, axes: Any, picture: Picture, costs: np.ndarray, threshold: float, walked: list[np.ndarray]
) -> None:
    """The cost and the policy."""
    (x0, x1), (y0, y1) = picture.window
    look: dict[str, Any] = {"cmap": COSTS, "vmin": 0, "interpolation": "bilinear", "aspect": "auto"}
    image = axes.imshow(costs, origin="lower", extent=(x0, x1, y0, y1), **look)
    figure.colorbar(image, ax=axes, pad=0.03)
    if costs.min() < threshold < costs.max():
        grid = [np.linspace(*ends, SIDE) for ends in picture.window]
        axes.contour(*grid, costs, levels=[threshold], colors=BLACK, linewidths=0.9, linestyles="--")
    for path in walked:
        axes.plot(*path.T, color=LEARNED, lw=0.8, alpha=0.9)
    handles = [
        Line2D([], [], color=INK, lw=1.4, label="hidden rule"),
        Line2D([], [], color=BLACK, lw=0.9, ls="--", label="learned limit"),
        Line2D([], [], color=LEARNED, lw=1.2, label="learned policy"),
    ]
    heading(axes, "What is learned: the cost, darker is higher", handles)


def heading(axes: Any, title: str, handles: list[Any]) -> None:
    axes.set_title(title, fontsize=9, loc="left", pad=22)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, borderaxespad=0, fontsize=7)


def main(names: list[str]) -> None:
    for name in names or PICTURES:
        draw(name, PICTURES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
