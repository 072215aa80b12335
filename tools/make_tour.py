"""Write examples/tour.ipynb with the outputs of a run: `python tools/make_tour.py`.

The cells are here, as text that can be read and compared; the notebook is made of them. Tests run the notebook's cells.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent.parent / "examples" / "tour.ipynb"

CELLS: list[tuple[str, str]] = [
    (
        "markdown",
        """# Tacit in five minutes

Somebody who knows the rules of a place shows you how to get around in it. You know what they want (the reward), not
what they avoid, nor why. Tacit finds a **cost** that explains what they avoid, and a **policy** that avoids it too.""",
    ),
    (
        "markdown",
        """## 1. Demonstrations

A slippery grid: one step in ten goes astray. The X cells are forbidden; the expert knows that, the learner not.""",
    ),
    (
        "code",
        """import numpy as np
from tacit import demos, make_spec, solve

spec = make_spec("paper", slip=0.1)
data = demos.expert_demonstrations(spec, n=50, seed=0)
print(*spec.rows, sep="\\n")
print(len(data), "demonstrations, mean return", round(data.summary()["return_mean"], 2))""",
    ),
    (
        "markdown",
        """## 2. The cost that explains them

`solve` finds what a visit to each cell must cost for the demonstrations to make sense, and the policy that obeys it.
The hidden cells are not an input: only the world's dynamics, its reward and the demonstrations are.""",
    ),
    (
        "code",
        """mdp = spec.model()
solution = solve(mdp, "state", demonstrations=spec.to_tabular(data), beta=0.1, objective="likelihood")
print(solution.status, "after", len(solution.history), "iterations")
print(solution.certificate.statement)""",
    ),
    (
        "code",
        """from tacit.evaluate import evaluate_exact
from tacit.plots.grids import Panel, grid_figure

visits = np.bincount(spec.states_of(data.observations), minlength=spec.n_states) / len(data)
learned = evaluate_exact(mdp, solution.policy, spec.constrained, step_limit=spec.horizon)
row, column = spec.cells.T
picture = grid_figure(
    spec.rows,
    [
        Panel(visits, "visits per episode", "visits", "log", title="What the expert does"),
        Panel(solution.weights, "cost of a visit", "cost", title="The recovered cost"),
        Panel(learned.visits, "visits per episode", "visits", "log", title="What the learned agent does"),
    ],
    row=row, col=column, outline=spec.constrained, format="png",
)
display_png(picture)""",
    ),
    (
        "markdown",
        """The line is the truth, drawn only now. Cells that nobody would visit anyway cost nothing: no behaviour can
tell whether they are forbidden, and Tacit does not pretend to know ([concepts](../docs/concepts.md)).""",
    ),
    (
        "markdown",
        """## 3. A rule in a continuous world

Now without a model and without cells. A point mass goes to a goal, and two discs are forbidden. The learner observes x,
y, its velocity and the way to the goal. It is told the reward, and it sees 50 demonstrations. Nobody says that the rule
is about x and y, or that there are two regions. This takes about a minute.""",
    ),
    (
        "code",
        """import tacit

learned = tacit.learn("tacit/Nav-v0", env_kwargs={"shape": "discs"}, seed=1)
print("forbidden:", learned.rule)""",
    ),
    (
        "markdown",
        """The truth: discs of radius 0.8 around (-1.1, 0.7) and (1.1, -0.7). The cost behind the rule is a table of x
and y, which can be drawn:""",
    ),
    (
        "code",
        """import io

drawn = io.BytesIO()
learned.plot("x", "y").figure.savefig(drawn, dpi=80)
picture = drawn.getvalue()
display_png(picture)""",
    ),
    (
        "code",
        """places = np.zeros((3, 6), np.float32)                    # x, y, vx, vy, way to the goal
places[:, :2] = [[-1.1, 0.7], [1.1, -0.7], [0.0, 2.0]]     # in the discs, and outside
for place, cost in zip(places, learned.cost(places)):
    print(f"at ({place[0]:+.1f}, {place[1]:+.1f}) the cost is {cost:.1f}")
print(f"forbidden above {learned.cost.threshold:.1f}")
print(f"violating episodes: {learned.evaluate(episodes=100)['violation_rate_episode']['value']:.0%}")""",
    ),
    (
        "markdown",
        """`learned.explain()` says how far to trust the rule. `learned.video("film.gif")` films the policy beside an
agent that follows the reward alone. `learned.report()` writes a page about everything.

Not every seed and not every shape goes as well as this one: [constraints of any shape](../docs/shapes.md) has failures,
too.""",
    ),
    (
        "markdown",
        """## 4. Where to go from here

    tacit demo                              this grid, with a report to look at
    tacit playground                        draw a world, hide a constraint, watch it being inferred
    tacit learn mce tacit/Nav-v0            the point mass, with a report, in a minute
    tacit learn mce tacit/HalfCheetah-v0    a robot, in a few minutes
    tacit explain RUN                       the learned constraint in words

and [constraints of any shape](../docs/shapes.md), [your own environment](../docs/own-environment.md), [your own
demonstrations](../docs/bring-your-logs.md).""",
    ),
]


def run(cells: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Notebook cells with their outputs. Runs go to a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return outputs_of(cells)


def outputs_of(cells: list[tuple[str, str]]) -> list[dict[str, Any]]:
    namespace: dict[str, Any] = {}
    made, count = [], 0
    for kind, text in cells:
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(made)}", "metadata": {}, "source": text}
        if kind == "code":
            count += 1
            pictures: list[bytes] = []
            namespace["display_png"] = pictures.append
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, f"cell {count}", "exec"), namespace)
            outputs: list[dict[str, Any]] = []
            if printed.getvalue():
                outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
            for picture in pictures:
                data = {"image/png": base64.b64encode(picture).decode()}
                outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
            # In Jupyter a picture is shown by IPython.
            source = text.replace("display_png(picture)", "from IPython.display import Image\n\nImage(picture)")
            cell |= {"execution_count": count, "outputs": outputs, "source": source}
        made.append(cell)
    return made


def main() -> None:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": run(CELLS), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    OUT.write_text(json.dumps(notebook, indent=1) + "\n")
    print(OUT.name)


if __name__ == "__main__":
    main()
