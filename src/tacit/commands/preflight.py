"""Check before learning: do the demonstrations fit, are there enough, and is there anything to learn from them?

  tacit preflight ENV [--demos FILE] [--steps N]

An agent that follows the reward alone is made (exactly on a gridworld, by a short training elsewhere) and compared with
the demonstrations, feature by feature, by a permutation test on whole trajectories that allows for the number of
features. Exit status 1 when it does not differ in any.

Examples:
  tacit preflight tacit/Gridworld-v0
  tacit preflight tacit/Pendulum-v0 --steps 100000
  tacit preflight tacit/HalfCheetah-v0 --demos my.npz --keep careless.npz       for tacit calibrate --against
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit.commands import EnvId, call, check_folder, new_table, print_json, print_table
from tacit.commands.environment import EnvOptions, Options
from tacit.errors import RunFailed, UserError
from tacit.explain.preflight import EPISODES, LEARN_STEPS, SIGNIFICANT, Preflight

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
    """Check.

    Args:
        env: Environment, one of `tacit envs` or any registered as module:Name-v0.
        demos: Demonstration file; those that come with Tacit or the built-in expert's when not given.
        options: Options of the environment.
        steps: Environment steps of the agent's training; more make it more able.
        episodes: How many of its episodes are compared.
        keep: Write those episodes into this demonstration file.
        seed: Of everything random.
        json: Print everything as JSON.
    """
    from tacit.demos import save
    from tacit.explain.preflight import run_preflight
    from tacit.launch import prepare, to_stderr

    if steps < 1 or episodes < 2:
        raise UserError(f"--steps is at least 1 and --episodes at least 2, not {steps} and {episodes}")
    if keep is not None:
        check_folder("--keep", Path(keep).parent)
    env_kwargs, data, _ = prepare(env, options.given(), demos, seed, to_stderr)
    found, agent = run_preflight(env, env_kwargs, data, steps=steps, episodes=episodes, seed=seed)
    if keep is not None:
        save(agent, keep)
    if json:
        print_json({"env": env, **found.to_dict()})
    else:
        show(found)
    if not found.something_to_learn:
        raise RunFailed("there seems to be nothing to learn from these demonstrations")


def show(found: Preflight) -> None:
    """Findings, and the features that differ most."""
    print("\n".join(f"{WORDS[one.level]}: {one.text}" for one in found.findings))
    if not found.differences:
        return
    title = "agent without constraint beside the demonstrations (5, 50 and 95 % quantiles)"
    table = new_table("feature", "distance", "p", "demonstrations", "agent", title=title)
    shown = found.differences[:MOST_ROWS]
    for one in shown:
        quantiles = (" ".join(f"{x:.3g}" for x in values) for values in (one.demonstrations, one.agent))
        table.add_row(one.feature, f"{one.distance:.3f}", f"{one.p:.2g}", *quantiles)
    print_table(table)
    rest = len(found.differences) - len(shown)
    same = sum(one.p > SIGNIFICANT for one in found.differences)
    print(f"{same} of {len(found.differences)} features do not differ" + (f"; {rest} not shown" if rest else ""))


def main(args: list[str]) -> Any:
    return call(preflight, "preflight", __doc__, args)
