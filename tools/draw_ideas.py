"""Pictures that explain ideas: `python tools/draw_ideas.py` writes docs/images/ideas/*.svg and prints their numbers.

Colours are Okabe and Ito's, which people with any colour vision can tell apart; nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from tacit import GridworldSpec, demos, make_spec, solve
from tacit.evaluate import evaluate_exact
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse.identifiability import identifiability

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

OUT = Path(__file__).parent.parent / "docs" / "images" / "ideas"
BLUE, ORANGE, RED, GREEN, GREY = "#0072B2", "#E69F00", "#D55E00", "#009E73", "#666666"
BETA = 0.1


def save(figure: Any, name: str) -> None:
    figure.savefig(OUT / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.08)
    plt.close(figure)


def grid(axes: Any, rows: Sequence[str], title: str) -> None:
    """An empty map with S and G; row 0 at the top."""
    height, width = len(rows), len(rows[0])
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, fontsize=10, loc="left")
    for edge in range(1, max(height, width)):
        axes.axhline(edge - 0.5, color="#dddddd", lw=0.5, zorder=0)
        axes.axvline(edge - 0.5, color="#dddddd", lw=0.5, zorder=0)
    for row, line in enumerate(rows):
        for column, mark in enumerate(line):
            if mark in "SG":
                axes.text(column, row, mark, ha="center", va="center", weight="bold", zorder=5)


def shade(axes: Any, cells: np.ndarray, values: np.ndarray, color: str) -> None:
    """Cells as dark as their value, 0 to 1."""
    for (row, column), value in zip(cells, values, strict=True):
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=color, alpha=float(value), lw=0, zorder=1))


def hatch(axes: Any, cells: np.ndarray, pattern: str, color: str) -> None:
    for row, column in cells:
        axes.add_patch(
            Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, hatch=pattern, edgecolor=color, lw=0, zorder=2)
        )


def outline(axes: Any, cells: np.ndarray) -> None:
    """The border of a column of cells."""
    (top, left), (bottom, right) = cells.min(axis=0), cells.max(axis=0)
    axes.add_patch(
        Rectangle((left - 0.5, top - 0.5), right - left + 1, bottom - top + 1, fill=False, ec="black", lw=1.6, zorder=4)
    )


def learned(spec: GridworldSpec, seed: int = 0) -> Any:
    data = spec.to_tabular(demos.expert_demonstrations(spec, n=50, seed=seed))
    return solve(spec.model(), "state", demonstrations=data, beta=BETA, objective="likelihood")


def constraint() -> None:
    """What is a constraint: the way that the reward wants, the way that people take, the cost that explains it."""
    spec = make_spec("paper", slip=0.1)
    figure, panels = plt.subplots(1, 3, figsize=(8.4, 3.0))
    wall = spec.cells[spec.constrained]
    titles = ("1. You know the reward", "2. You see demonstrations", "3. Tacit finds a cost")
    for axes, title in zip(panels, titles, strict=True):
        grid(axes, spec.rows, title)
    panels[0].annotate("", (5.6, 6), (2.4, 6), arrowprops={"arrowstyle": "-|>", "color": BLUE, "lw": 2})
    panels[0].text(4, 5.4, "the short way pays best", ha="center", fontsize=8, color=BLUE)
    rng = np.random.default_rng(1)
    data = demos.expert_demonstrations(spec, n=12, seed=3)
    for trajectory in data:
        points = trajectory.observations + rng.uniform(-0.2, 0.2, size=trajectory.observations.shape)
        panels[1].plot(points[:, 1], points[:, 0], color=ORANGE, lw=1, alpha=0.8)
    panels[1].text(4, 7.6, "nobody goes straight: why?", ha="center", fontsize=8, color=GREY)
    weights = learned(spec).weights
    shade(panels[2], spec.cells, weights / weights.max(), RED)
    outline(panels[2], wall)
    panels[2].set_xlabel("darker: costs more; line: the hidden rule", fontsize=8)
    save(figure, "constraint")


def causal_entropy() -> None:
    """Choices count, luck does not: a door with one room behind it, and a die with six."""
    figure, (tree, bars) = plt.subplots(1, 2, figsize=(8.4, 2.9), width_ratios=(1.5, 1))
    tree.set(xlim=(-0.4, 6.2), ylim=(-3.4, 3.6), xticks=[], yticks=[])
    tree.axis("off")
    tree.set_title("One choice: a door, or a roll of the dice", fontsize=10, loc="left")
    tree.plot([0], [0], "o", color="black")
    tree.text(-0.1, 0.35, "choice", fontsize=8, ha="center")
    tree.plot([0, 2], [0, 2.2], color=BLUE, lw=2)
    tree.text(0.9, 1.75, "door", color=BLUE, fontsize=9, ha="center")
    tree.plot([2, 4], [2.2, 2.2], color=BLUE, lw=2)
    tree.plot([4], [2.2], "s", color=BLUE)
    tree.text(4.15, 2.2, "one room", va="center", fontsize=8, color=BLUE)
    tree.plot([0, 2], [0, -1.2], color=RED, lw=2)
    tree.text(0.9, -1.35, "dice", color=RED, fontsize=9, ha="center")
    for outcome in range(6):
        height = -1.2 + (outcome - 2.5) * 0.7
        tree.plot([2, 4], [-1.2, height], color=RED, lw=1, ls="--")
        tree.plot([4], [height], "s", color=RED, ms=4)
    tree.text(4.15, -1.2, "six rooms,\nby luck", va="center", fontsize=8, color=RED)
    tree.plot([2], [-1.2], "D", color=RED)
    rolls = (100 * 6 / 7, 50.0)
    print(f"causal entropy: dice in {rolls[0]:.0f} % with trajectory entropy, {rolls[1]:.0f} % with causal entropy")
    bars.barh([1, 0], rolls, color=[RED, GREEN], hatch=["//", ""], edgecolor="white", height=0.55)
    bars.set(xlim=(0, 100), yticks=[1, 0], yticklabels=["entropy of\ntrajectories", "causal\nentropy"])
    bars.set_title("How often the dice are rolled", fontsize=10, loc="left")
    for place, share in zip((1, 0), rolls, strict=True):
        bars.text(share + 2, place, f"{share:.0f} %", va="center", ha="left", weight="bold")
    bars.set_xlabel("% of choices", fontsize=8)
    bars.tick_params(labelsize=8)
    for side in ("top", "right"):
        bars.spines[side].set_visible(False)
    save(figure, "causal-entropy")


def cannot_know() -> None:
    """The band between the last demonstration and where everybody turns back; and a map with cells nobody visits."""
    figure, (line, grid_axes) = plt.subplots(1, 2, figsize=(8.4, 3.0), width_ratios=(1.7, 1))
    zones = (
        (0, 4, GREEN, "", "demonstrated:\nallowed"),
        (4, 7, ORANGE, "//", "nobody shows\nthis: unknown"),
        (7, 10, RED, "xx", "beyond every\npossible limit:\nforbidden"),
    )
    for left, right, color, pattern, words in zones:
        line.axvspan(left, right, ymax=0.22, color=color, alpha=0.35, lw=0)
        line.axvspan(left, right, ymax=0.22, fill=False, hatch=pattern, edgecolor=color, lw=0)
        line.text((left + right) / 2, -0.12, words, ha="center", va="top", fontsize=8)
    x = np.linspace(0, 10, 200)
    shown = np.exp(-((x - 1.9) ** 2) / 1.1)
    line.plot(x[x < 4], 0.3 + 0.6 * shown[x < 4], color=GREEN, lw=2)
    line.plot(x, 0.3 + 0.32 * np.exp(-((x - 5.5) ** 2) / 9), color=BLUE, lw=2, ls="--")
    line.text(1.9, 0.95, "demonstrators", color=GREEN, fontsize=8, ha="center")
    line.text(6.6, 0.66, "an agent that follows\nthe reward alone", color=BLUE, fontsize=8)
    line.set(xlim=(0, 10), ylim=(0, 1.05), yticks=[], xticks=[])
    line.set_title("Where is the limit on one feature?", fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        line.spines[side].set_visible(False)
    spec = make_spec("far-wall", slip=0.1)
    solution = learned(spec)
    unknown = identifiability(spec.model(), solution, n_demonstrations=50).unknown > 0.5
    grid(grid_axes, spec.rows, "Which cells are forbidden?")
    shade(grid_axes, spec.cells, solution.weights / solution.weights.max(), RED)
    hatch(grid_axes, spec.cells[unknown & (solution.weights < 0.01)], "///", GREY)
    outline(grid_axes, spec.cells[spec.constrained])
    grid_axes.set_xlabel("orange: learned cost; hatched: unknown;\nline: the hidden rule", fontsize=8)
    missed = int((spec.constrained & (solution.weights < 0.01)).sum())
    print(f"what cannot be known: {missed} of {int(spec.constrained.sum())} hidden cells of far-wall have no cost")
    save(figure, "cannot-know")


def moved(rows: Sequence[str], start: tuple[int, int], goal: tuple[int, int], slip: float) -> GridworldSpec:
    """The same map with another start and goal."""
    cells = [list(line.replace("S", ".").replace("G", ".")) for line in rows]
    cells[start[0]][start[1]], cells[goal[0]][goal[1]] = "S", "G"
    return make_spec("moves: 8\n\n" + "\n".join("".join(line) for line in cells), slip=slip)


def price_and_set() -> None:
    """A learned cost as a price and as a set, and a clone, when the task or the dynamics change."""
    spec = make_spec("paper", slip=0.1)
    rows = spec.rows
    worlds = {
        "the same\nworld": spec,
        "start and goal\nswapped": moved(rows, (6, 6), (6, 2), 0.1),
        "corner to\ncorner": moved(rows, (8, 0), (8, 8), 0.1),
        "slip 0.1\nbecomes 0.5": moved(rows, (6, 2), (6, 6), 0.5),
    }
    agents = ("clone", "price", "set", "expert")
    shares: dict[str, list[float]] = {agent: [] for agent in agents}
    costs = [learned(spec, seed).weights for seed in range(10)]
    clones = [clone(spec, seed) for seed in range(10)]
    for world in worlds.values():
        model = world.model()
        priced = [plan(model, model.rewards - cost[:, None], BETA).policy for cost in costs]
        fenced = [plan(model, model.rewards - 30.0 * (cost > 0.1 * cost.max())[:, None], BETA).policy for cost in costs]
        policies = {"clone": clones, "price": priced, "set": fenced, "expert": [demos.expert_policy(world)]}
        for agent, chosen in policies.items():
            rates = [evaluate_exact(model, policy, world.constrained, step_limit=200) for policy in chosen]
            shares[agent].append(100 * float(np.mean([rate.violation_rate_episode for rate in rates])))
    print("price and set, violating episodes in %:")
    for agent in agents:
        print(f"  {agent:8}", *(f"{share:6.1f}" for share in shares[agent]))
    figure, axes = plt.subplots(figsize=(8.4, 2.9))
    names = {"clone": "clone", "price": "cost as a price", "set": "cost as a set", "expert": "expert"}
    looks = {"clone": (GREY, "xx"), "price": (ORANGE, "//"), "set": (BLUE, ""), "expert": (GREEN, "..")}
    for place, agent in enumerate(agents):
        at = np.arange(len(worlds)) + (place - 1.5) * 0.2
        color, pattern = looks[agent]
        drawn = axes.bar(at, shares[agent], 0.19, color=color, hatch=pattern, edgecolor="white", label=names[agent])
        axes.bar_label(drawn, [f"{share:.0f}" for share in shares[agent]], fontsize=7)
    axes.set(xticks=range(len(worlds)), xticklabels=worlds, ylim=(0, 112), ylabel="violating episodes, %")
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.16), frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    save(figure, "price-and-set")


def clone(spec: GridworldSpec, seed: int) -> np.ndarray:
    """The actions of 50 demonstrations, counted; evenly random in cells that none of them visits."""
    counts = np.zeros((spec.n_states, 8))
    for states, actions in spec.to_tabular(demos.expert_demonstrations(spec, n=50, seed=seed)):
        np.add.at(counts, (np.asarray(states)[: len(actions)], np.asarray(actions)), 1)
    visits = counts.sum(axis=1, keepdims=True)
    return np.where(visits > 0, counts / np.maximum(visits, 1), 1 / 8)


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "tacit", "font.family": "DejaVu Sans"})
    for draw in (constraint, causal_entropy, cannot_know, price_and_set):
        draw()


if __name__ == "__main__":
    main()
