"""Watch Tacit discover a constraint, from demonstrations to a report, in under a minute.

On a slippery gridworld an expert walks around a wall that the learner cannot see. From 50 of its demonstrations the
exact method recovers a cost that explains the detour, and a policy that makes it. You see it walk beside an agent that
follows the reward alone. Everything is written into one HTML page, whose path is printed last.

Examples:
  tacit demo
  tacit demo --layout wall-3 --slip 0.3 --seed 1
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from tacit.algorithms import find
from tacit.commands import EnvOptions, Options, print_json
from tacit.commands.summary import print_summary
from tacit.cost.table import TableCost
from tacit.envs.gridworld import ENV_ID as GRIDWORLD
from tacit.envs.gridworld_spec import GridworldSpec
from tacit.envs.options import exact_model, resolve_env
from tacit.errors import RunFailed
from tacit.launch import execute, make_demonstrations
from tacit.learned import Learned
from tacit.metrics import percent
from tacit.plots.video import Actor
from tacit.run import Run
from tacit.run.terminal import raw
from tacit.startup import program

if TYPE_CHECKING:
    from tacit.envs.gridworld_spec import GridworldSpec


def demo(
    *,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    seed: int = 0,
    out: str = "runs",
    json: bool = False,
) -> None:
    """Discover a constraint.

    Args:
        options: Options of the environment.
        seed: Random seed.
        out: Folder in which the run folder is made.
        json: Print the summary as JSON.
    """
    env_kwargs = resolve_env(GRIDWORLD, options.given())
    spec = exact_model(GRIDWORLD, env_kwargs)
    assert spec is not None
    talk = sys.stderr if json else sys.stdout
    print(
        "The map: S start, G goal, X the constraint. The learner does not see the X.\n",
        *spec.rows,
        "",
        sep="\n",
        file=talk,
    )
    demos = make_demonstrations(GRIDWORLD, env_kwargs, seed)
    numbers = demos.summary()
    print(
        f"{len(demos)} demonstrations of an expert who knows the constraint, on average "
        f"{numbers['length_mean']:.1f} steps long.\n{_keeps(spec, numbers['violation_rate_step'])}\n",
        file=talk,
        flush=True,
    )
    run = Run.start(
        out,
        algo="mce-exact",
        env=GRIDWORLD,
        env_kwargs=env_kwargs,
        seed=seed,
        config=dataclasses.asdict(find("mce-exact").load().Config()),
        demos={"path": None, "sha256": demos.sha256},
        command="tacit demo",
    )
    summary = execute(run, demos)
    if summary.get("status") == "infeasible":
        raise RunFailed(f"{summary['diagnosis']['text']} The proof is in {run.path}")
    learned = Learned(run, summary)
    report, film = learned.report(), learned.video(run.path / "film.gif", seed=seed)
    if json:
        return print_json({"run": run.path, "summary": summary, "report": report, "film": film})
    cost = learned.cost
    assert isinstance(cost, TableCost)
    titles = ("what is hidden (X)", "what was inferred: the darker, the costlier")
    print(side_by_side(list(spec.rows), shaded(spec, cost.table.max(axis=1)), titles), "", sep="\n")
    play(spec, {"reward alone": learned.unconstrained(), "learned": learned.policy}, seed)
    print_summary(run, summary)
    tacit = program()
    print(
        f"\nTry next:  {tacit} playground                  draw a map and walk on it yourself",
        f"           {tacit} explain {run.path}",
        f"           {tacit} --help\n",
        f"The film:  {film}",
        f"The report, with pictures: {report}",
        sep="\n",
    )


def _keeps(spec: GridworldSpec, rate: float | None) -> str:
    """A sentence on how well the expert keeps to the constraint in these demonstrations."""
    if not spec.constrained.any():
        return "There is no X on this map: nothing is forbidden, so there is nothing to learn."
    if not rate:
        return "The expert never breaks the constraint in these demonstrations."
    slips = f"A step slips with probability {spec.slip:g}, so even the expert" if spec.slip else "The expert"
    return f"{slips} breaks the constraint in {percent(rate)} of the demonstrated steps."


# ---------------------------------------------------------------------------------------------------------------------
# Two agents on the same map, walking in the terminal


SHADES = " .:-=+*#%@"
GAP, FRAME_SECONDS, MOST_STEPS = 6, 0.25, 24


def shaded(spec: GridworldSpec, values: np.ndarray) -> list[str]:
    """Values (S,) as a map of characters, where darker means more. Walls, start and goal stay as they are."""
    rows = [list(row.replace("X", " ")) for row in spec.rows]
    top = max(float(values.max()), 1e-12)
    for (row, column), value in zip(spec.cells.tolist(), values, strict=True):
        if rows[row][column] not in "SG":
            rows[row][column] = SHADES[min(int(value / top * len(SHADES)), len(SHADES) - 1)]
    return ["".join(row) for row in rows]


def side_by_side(left: list[str], right: list[str], titles: tuple[str, str]) -> str:
    """Two blocks of text next to each other."""
    wide = max(map(len, (titles[0], *left))) + GAP
    lines = [f"{a:<{wide}}{b}" for a, b in zip_longest((titles[0], *left), (titles[1], *right), fillvalue="")]
    return "\n".join(line.rstrip() for line in lines)


def play(spec: GridworldSpec, agents: Mapping[str, Actor], seed: int) -> None:
    """Show both agents walking, as an animation in the terminal. Without a terminal, do nothing."""
    stream = raw(sys.stdout)
    if not stream.isatty():
        return
    (one, first), (other, second) = ((name, _walk(spec, policy, seed)) for name, policy in agents.items())
    for step in range(min(MOST_STEPS, max(len(first), len(second)))):
        pictures = [_picture(spec, path[: step + 1]) for path in (first, second)]
        text = side_by_side(pictures[0], pictures[1], (one, other))
        stream.write(("" if step == 0 else f"\x1b[{text.count(chr(10)) + 1}A\x1b[J") + text + "\n")
        stream.flush()
        time.sleep(FRAME_SECONDS)
    stream.write("\n")


def _walk(spec: GridworldSpec, policy: Actor, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    path = [spec.start]
    while path[-1] != spec.goal and len(path) < MOST_STEPS:
        here = np.array(path[-1:])
        action = policy(spec.cells[here].astype(float), rng)
        path.append(int(spec.sample_next(here, action, rng)[0]))
    return path


def _picture(spec: GridworldSpec, path: list[int]) -> list[str]:
    rows = [list(row) for row in spec.rows]
    for state, mark in [*((state, "o") for state in path[:-1]), (path[-1], "@")]:
        row, column = spec.position_of(state)
        if rows[row][column] != "G":
            rows[row][column] = mark
    return ["".join(row) for row in rows]
