"""What a person's few walks tell, with each of the playground's objectives: scripted walks with random detours.

    python -m benchmarks.playground_walks           print the table, write results/bench-playground-walks.json
    python -m benchmarks.playground_walks rule      measure one objective anew, keep the others

A walker takes a shortest way around the hidden cells, and with some probability any other allowed step instead (a
detour). One who has habits breaks ties always in the same order, the others by chance. Sets of five walks on maps of
the playground, and on random maps that were drawn when the method was finished. An answer is right if the IoU with the
hidden cells is at least 0.8; a part if at least 0.8 of what it claims is hidden (many cells of random maps are on
nobody's way); wrong if it claims anything else; otherwise it says that the walks do not tell. Costs of the other
objectives claim the cells above a tenth of their maximum.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.gridworld_spec import GridworldSpec
from tacit.errors import UserError
from tacit.inverse.mce_exact import learn
from tacit.inverse.smallest_rule import infer
from tacit.playground.answer import intended
from tacit.playground.presets import presets
from tacit.playground.scene import parse
from tacit.run import provenance, storage

RESULT = Path(__file__).parents[1] / "results/bench-playground-walks.json"
WALKS, SETS = 5, 10
DETOURS = (0.05, 0.15, 0.25)
CHOSEN_ON = ("The door", "The wall", "A wall too far away")
LOOKED_AT = ("Liu 1: opening on the right", "Liu 4: zigzag", "Empty")
"""No setting was chosen for these, but they were looked at while the method was made."""
FRESH = ("random straight walls", "random bent walls")
"""Maps that were drawn when the method was finished."""
RANDOM = 20
OBJECTIVES = ("rule", "plugin", "likelihood", "moments")
RIGHT = 0.8
FAR = 10**6
VERDICTS = ("right", "part", "wrong", "untold")
BUDGET = 0.003


def distances(spec: GridworldSpec) -> np.ndarray:
    """(S,) steps to the goal around the hidden cells; FAR where there is no way."""
    ends, far = intended(spec), np.full(spec.n_states, FAR)
    far[spec.goal] = 0
    for steps in range(1, spec.n_states):
        far[(far[ends] == steps - 1).any(axis=1) & ~spec.constrained & (far == FAR)] = steps
    return far


def walk(spec: GridworldSpec, rng: np.random.Generator, detours: float, habits: bool) -> tuple[Any, Any]:
    """One walk, (states (T+1,), actions (T,)), that never enters a hidden cell."""
    ends, legal, far = intended(spec), ~spec.constrained, distances(spec)
    order = rng.permutation(spec.n_actions).tolist()
    states, actions = [spec.start], []
    while states[-1] != spec.goal and len(actions) < 190:
        here = states[-1]
        allowed = [a for a in range(spec.n_actions) if legal[ends[here, a]] and ends[here, a] != here]
        nearer = [a for a in allowed if far[ends[here, a]] == far[here] - 1]
        straight = min(nearer, key=order.index) if habits else int(rng.choice(nearer))
        actions.append(int(rng.choice(allowed)) if rng.random() < detours else straight)
        states.append(int(ends[here, actions[-1]]))
    return np.array(states), np.array(actions)


def walks(spec: GridworldSpec, number: int, detours: float, habits: bool, n: int = WALKS) -> list[tuple[Any, Any]]:
    """Set `number` of n walks."""
    rng = np.random.default_rng([number, round(100 * detours), habits])
    return [walk(spec, rng, detours, habits) for _ in range(n)]


def random_map(number: int, bent: bool) -> GridworldSpec:
    """A hidden wall of 3 to 6 cells, straight or with a second arm, that makes the way at least two steps longer."""
    rng = np.random.default_rng([number, 80 + bent])
    while True:
        height, width = rng.integers(6, 11, size=2)
        cells = np.full((height, width), ".")
        length, across = int(rng.integers(3, 7)), bool(rng.integers(2))
        row, column = rng.integers(height), rng.integers(width)
        cells[(slice(row, row + length), column) if across else (row, slice(column, column + length))] = "X"
        if bent:
            arm = int(rng.integers(2, 5))
            cells[(row, slice(column, column + arm)) if across else (slice(row, row + arm), column)] = "X"
        free = np.argwhere(cells == ".")
        start, goal = free[rng.choice(len(free), 2, replace=False)]
        cells[tuple(start)], cells[tuple(goal)] = "S", "G"
        try:
            spec = GridworldSpec(tuple("".join(line) for line in cells), moves=int(rng.choice([4, 8])), slip=0.1)
        except UserError:
            continue
        if distances(_without(spec))[spec.start] + 2 <= distances(spec)[spec.start] < FAR:
            return spec


def _without(spec: GridworldSpec) -> GridworldSpec:
    return GridworldSpec(tuple(row.replace("X", ".") for row in spec.rows), moves=spec.moves, slip=spec.slip)


def claimed(spec: GridworldSpec, pairs: list[tuple[Any, Any]], objective: str) -> np.ndarray | None:
    """(S,) the cells that the answer calls forbidden; None if it says that the walks do not tell."""
    if objective == "rule":
        rule = infer(intended(spec), spec.start, spec.goal, pairs)
        return None if rule.verdict == "somewhere" else rule.forbidden
    steps = learn(_without(spec).model(), "state", demonstrations=pairs, beta=0.1, budget=BUDGET, objective=objective)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            solution = end.value
            break
    if solution.diagnosis is not None:
        return None
    weights = np.asarray(solution.weights)
    return weights > 0.1 * weights.max() if weights.max() > 1e-6 else np.zeros(len(weights), dtype=bool)


def judged(spec: GridworldSpec, cells: np.ndarray | None) -> str:
    if cells is None:
        return "untold"
    truth = spec.constrained
    both, either = int((cells & truth).sum()), int((cells | truth).sum())
    if either == 0 or both / either >= RIGHT:
        return "right"
    return "untold" if not cells.any() else "part" if both / cells.sum() >= RIGHT else "wrong"


def measure(objectives: tuple[str, ...] = OBJECTIVES, titles: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    scenes = {entry["title"]: parse(entry["scene"]).truth for entry in presets()}
    groups = {name: [(scenes[name], number) for number in range(SETS)] for name in (*CHOSEN_ON, *LOOKED_AT)}
    for bent, title in enumerate(FRESH):
        groups[title] = [(random_map(number, bool(bent)), number) for number in range(RANDOM)]
    groups = {title: cases for title, cases in groups.items() if title in (titles or groups)}
    rows = []
    for title, cases in groups.items():
        for detours in DETOURS:
            for habits in (False, True):
                for objective in objectives:
                    start, verdicts = time.perf_counter(), []
                    for spec, number in cases:
                        verdicts.append(judged(spec, claimed(spec, walks(spec, number, detours, habits), objective)))
                    row = {
                        "map": title,
                        "fresh": title in FRESH,
                        "detours": detours,
                        "habits": habits,
                        "objective": objective,
                        "sets": len(cases),
                        **{word: verdicts.count(word) for word in VERDICTS},
                        "seconds": round((time.perf_counter() - start) / len(cases), 3),
                    }
                    rows.append(row)
                    print(row, flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: one line a map and objective, over all detours and habits."""
    lines = ["| map | objective | right | a part | wrong | cannot tell | s |", "|---|---|---|---|---|---|---|"]
    for title, objective in dict.fromkeys((row["map"], row["objective"]) for row in rows):
        own = [row for row in rows if (row["map"], row["objective"]) == (title, objective)]
        n = sum(row["sets"] for row in own)
        shares = [f"{sum(row[word] for row in own)}/{n}" for word in VERDICTS]
        seconds = np.mean([row["seconds"] for row in own])
        lines.append(f"| {title} | {objective} | {' | '.join(shares)} | {seconds:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    wanted = tuple(sys.argv[1:]) or OBJECTIVES
    before = json.loads(RESULT.read_text()) if RESULT.exists() else {"provenance": {}, "rows": []}
    record = provenance(" ".join(["python -m benchmarks.playground_walks", *wanted]))
    measured = measure(wanted) + [row for row in before["rows"] if row["objective"] not in wanted]
    measured.sort(key=lambda row: (row["fresh"], row["map"], OBJECTIVES.index(row["objective"])))
    records = before["provenance"] | dict.fromkeys(wanted, record)
    storage.write_json(RESULT, {"provenance": records, "rows": measured})
    print(table(measured))
