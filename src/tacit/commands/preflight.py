"""Check before learning: do the demonstrations fit, are there enough, and is there anything to learn?

  tacit preflight ENV [--demos FILE] [--steps N]

An agent that follows the reward alone is trained for a short time (on a gridworld it is computed exactly) and compared
with the demonstrations, feature by feature and in pairs of features. The permutation tests use whole trajectories and
correct for the number of features. The exit status is 1 if nothing differs.

Examples:
  tacit preflight tacit/Gridworld-v0
  tacit preflight tacit/Pendulum-v0 --steps 100000
  tacit preflight tacit/HalfCheetah-v0 --demos my.npz --keep careless.npz       for tacit calibrate --against
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from tacit.commands import EnvId, EnvOptions, Options, check_folder, new_table, print_json, print_table
from tacit.demos import save
from tacit.errors import RunFailed, UserError
from tacit.explain.preflight import EPISODES, LEARN_STEPS, SIGNIFICANT, Preflight, run_preflight
from tacit.launch import prepare
from tacit.metrics import percent
from tacit.run.log import say

File = Annotated[str | None, tyro.conf.arg(metavar="FILE")]
WORDS = {"good": "good", "note": "note", "doubt": "doubtful"}
MOST_ROWS = 12


def preflight(
    env: EnvId,
    /,
    *,
    demos: File = None,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    steps: int = LEARN_STEPS,
    episodes: int = EPISODES,
    keep: File = None,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Check demonstrations before learning.

    Args:
        env: Environment, one of `tacit envs` or any registered as module:Name-v0.
        demos: Demonstration file. Default: the one that comes with Tacit, or the built-in expert's demonstrations.
        options: Options of the environment.
        steps: Environment steps of the agent's training. More steps make it more competent.
        episodes: Number of its episodes to compare.
        keep: Write those episodes into this demonstration file.
        seed: Random seed.
        json: Print everything as JSON.
    """
    if steps < 1 or episodes < 2:
        raise UserError(f"--steps must be at least 1 and --episodes at least 2, not {steps} and {episodes}")
    if keep is not None:
        check_folder("--keep", Path(keep).parent)
    env_kwargs, data, _ = prepare(env, options.given(), demos, seed, say, anyway=True)
    result, agent = run_preflight(env, env_kwargs, data, steps=steps, episodes=episodes, seed=seed)
    if keep is not None:
        save(agent, keep)
    if json:
        print_json({"env": env, **result.to_dict()})
    else:
        show(result)
    if not result.something_to_learn:
        raise RunFailed("there seems to be nothing to learn from these demonstrations, or too little to see it")


def show(result: Preflight) -> None:
    """Print the findings, and the features that differ most."""
    print("\n".join(f"{WORDS[finding.level]}: {finding.text}" for finding in result.findings))
    if not result.differences:
        return
    title = "agent without constraint beside the demonstrations (5, 50 and 95 % quantiles)"
    table = new_table("feature", "distance", "p", "demonstrations", "agent", title=title)
    rows = result.differences[:MOST_ROWS]
    for row in rows:
        quantiles = (" ".join(f"{x:.3g}" for x in values) for values in (row.demonstrations, row.agent))
        table.add_row(row.feature, f"{row.distance:.3f}", f"{row.p:.2g}", *quantiles)
    print_table(table)
    clear = [one for one in result.apart if one.clear]
    if clear:
        title = "share of the agent's steps that lie where demonstrators hardly ever are"
        table = new_table("features", "share", "p", title=title)
        for one in clear[:MOST_ROWS]:
            table.add_row(str(one), percent(one.share), f"{one.p:.2g}")
        print_table(table)
    rest = len(result.differences) - len(rows)
    same = sum(difference.p > SIGNIFICANT for difference in result.differences)
    words = f"{same} of {len(result.differences)} features {'does not differ' if same == 1 else 'do not differ'}"
    print((words if same else "every feature differs") + (f"; {rest} are not listed" if rest else ""))
