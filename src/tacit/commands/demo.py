"""Watch Tacit discover a constraint, from demonstrations to a report, in under a minute.

On a slippery gridworld an expert walks around a wall that the learner cannot see. From 50 of its demonstrations the
exact method recovers a cost that explains the detour, and a policy that makes it. The certificate says how far to trust
the answer. Everything is written into one HTML page.

Examples:
  tacit demo
  tacit demo --layout wall-3 --slip 0.3 --seed 1
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from tacit.algorithms import find
from tacit.commands import print_json
from tacit.commands.environment import EnvOptions, Options, exact_model, resolve_env
from tacit.commands.summary import print_summary
from tacit.envs.gridworld import ENV_ID as GRIDWORLD
from tacit.errors import RunFailed
from tacit.launch import execute, make_demonstrations
from tacit.report import write_report
from tacit.run import Run

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
    demos = make_demonstrations(GRIDWORLD, env_kwargs, seed, say=lambda text: None)
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
    report = write_report([run], run.path / "report.html")
    if json:
        return print_json({"run": run.path, "summary": summary, "report": report})
    print_summary(run, summary)
    print(f"\nThe report, with pictures: {report}")


def _keeps(spec: GridworldSpec, rate: float | None) -> str:
    """How well the expert keeps to the constraint in these demonstrations, which are a sample."""
    if not spec.constrained.any():
        return "There is no X on this map: nothing is forbidden, so there is nothing to learn."
    if not rate:
        return "The expert never breaks the constraint in these demonstrations."
    slips = f"A step slips with probability {spec.slip:g}, so even the expert" if spec.slip else "The expert"
    return f"{slips} breaks the constraint in {rate:.2%} of the demonstrated steps."
