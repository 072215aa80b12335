"""The table of hidden regions and relations in README.md and docs/shapes.md: `python tools/shapes_table.py` writes it.

All numbers come from results/shapes.json. The table stands between two comments, which stay.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tacit.reproduce.results import read
from tacit.stats import clopper_pearson

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "shapes.md")
BEGIN, END = "<!-- the table of tools/shapes_table.py -->", "<!-- end of the table -->"
SCORES_BEGIN, SCORES_END = "<!-- the scores of tools/shapes_table.py -->", "<!-- end of the scores -->"
HIDDEN = {
    "Nav, disc": "a disc",
    "Nav, discs": "two discs",
    "Nav, ell": "an L of two boxes",
    "Nav, wall": "a wall with one way round it",
    "SlowZone": "a speed limit in one stretch of road",
    "Reactor, product": "concentration times heat",
    "Reactor, ratio": "contents too hot for their coolant",
    "Crowd": "a distance from one kind of object",
}
METHODS = {"ppo": "reward alone", "bc": "clone", "box": "box", "mce": "**learned**"}


def table() -> str:
    """Violating episodes of each method on each task, and the learned policy's return."""
    runs = read(ROOT / "results" / "shapes.json", curves=False)["runs"]
    head = ["task", "hidden rule", *METHODS.values(), "return"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for task, hidden in HIDDEN.items():
        of_task = {name: [run for run in runs if run["label"] == f"{task}: {name}"] for name in METHODS}
        if of_task["mce"]:
            cells = [task, hidden, *map(violating, of_task.values()), returns(of_task["mce"])]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def violating(runs: list[dict[str, Any]]) -> str:
    """Violating episodes in per cent: the 95 % interval of a single run, or the range of several seeds."""
    if not runs:
        return "-"
    if len(runs) > 1:
        rates = [100 * run["stochastic"]["count"] / run["stochastic"]["n"] for run in runs]
        return f"{sum(rates) / len(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})"
    broken, episodes = (sum(round(run["stochastic"][key]) for run in runs) for key in ("count", "n"))
    share = clopper_pearson(broken, episodes)
    return f"{100 * share.value:.0f} [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def returns(runs: list[dict[str, Any]]) -> str:
    """Mean return of the learned policy, and of the demonstrations."""
    own, demonstrated = (sum(run[who]["return"] for run in runs) / len(runs) for who in ("stochastic", "expert"))
    return f"{own:.1f} of {demonstrated:.1f}"


def seeds() -> int:
    """Number of runs of the method on a task, the least of all tasks."""
    runs = read(ROOT / "results" / "shapes.json", curves=False)["runs"]
    numbers = [sum(run["label"] == f"{task}: mce" for run in runs) for task in HIDDEN]
    return min(number for number in numbers if number)


def block() -> str:
    """The table with its heading, as pages have it."""
    words = (
        f"Violating episodes in per cent, of 100 fresh episodes per run. *Learned* is the mean over {seeds()} seeds,"
        " with the best and the worst seed. The others are one seed, with a 95 % interval. *Return* is the mean of the"
        " learned policy, and of the demonstrations. `tacit reproduce shapes` measures it."
    )
    return f"{BEGIN}\n{words}\n\n{table()}\n{END}"


def scores_block() -> str:
    """How right the costs and the rules are, as docs/shapes.md has it."""
    runs = read(ROOT / "results" / "shapes.json", curves=False)["runs"]
    head = ["task", "AUROC", "IoU", "rule: precision", "rule: recall", "identifiable", "normalised return"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for task in HIDDEN:
        own = [run for run in runs if run["label"] == f"{task}: mce" and run.get("decided")]
        if own:
            keys = ("auroc", "iou", "rule_precision", "rule_recall", "identifiable")
            columns = [[run["decided"][key] for run in own] for key in keys]
            columns.append([run["normalised_return"] for run in own])
            cells = [f"{sum(values) / len(values):.2f} ({min(values):.2f})" for values in columns]
            rows.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join([SCORES_BEGIN, *rows, SCORES_END])


def with_table(text: str) -> str:
    """A page with the present tables."""
    for begin, end, make in ((BEGIN, END, block), (SCORES_BEGIN, SCORES_END, scores_block)):
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, make=make: make(), text, flags=re.DOTALL)
    return text


def main() -> None:
    for page in PAGES:
        page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
