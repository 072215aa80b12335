"""Train a fresh agent on the frozen cost of a run, and count how often it breaks the TRUE constraint.

  tacit retrain RUN [--steps N] [--seed S]

A cost that only works together with its own policy fails here. The agent starts from nothing, with a seed of its own.
It is charged the frozen cost in the way in which the reference `rcpo` is charged the true one. The same command again
skips a finished test and resumes an interrupted one.

Examples:
  tacit retrain runs/mce-halfcheetah-s0-3fa1b2c4
  tacit retrain mce-halfcheetah-s0-3fa1b2c4 --steps 200000 --seed 7
  tacit retrain RUN --charge raw --set multiplier=fixed multiplier_init=1      the penalised reward
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import tyro

from tacit.commands import RunPath, call, key_values, open_run
from tacit.commands.environment import check_env
from tacit.commands.learn import Log, show
from tacit.errors import UserError
from tacit.launch import execute, start_run
from tacit.run import Run
from tacit.run.sinks import names_of, observed

Which = Literal["cost", "map"]
Charge = Literal["excess", "budget", "raw"]
Steps = Annotated[int | None, tyro.conf.arg(metavar="N")]
Seed = Annotated[int | None, tyro.conf.arg(metavar="S")]
Settings = Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")]
OTHER_SEED = 1000
"""Added to the run's own: the same seed would give the same first network."""


def wanted(steps: int | None, pairs: tuple[str, ...], **others: Any) -> dict[str, Any]:
    """The settings that were given; UserError where --set gives what has an option of its own."""
    given = key_values(pairs, "--set")
    own = {"total_steps": "--steps", "cost": "RUN"} | {name: f"--{name}" for name in others}
    for name in given:
        if name in own:
            raise UserError(f"--set cannot give {name}, which has a place of its own on the command line: {own[name]}")
    return {**given, **({} if steps is None else {"total_steps": steps}), **others}


def train_on(
    source: Run,
    env: str,
    env_kwargs: Mapping[str, Any],
    settings: Mapping[str, Any],
    seed: int | None,
    command: Sequence[str],
    out: str,
    log: str | None,
    json: bool,
) -> None:
    """Freeze, train, show; what cannot work is said before anything is written."""
    sinks = names_of(log)
    seed = source.config["seed"] + OTHER_SEED if seed is None else seed
    run, _ = start_run(
        "retrain",
        env,
        env_kwargs=env_kwargs,
        seed=seed,
        settings={**settings, "cost": str(source.path)},
        out=out,
        command=shlex.join(["tacit", *command]),
    )
    with observed(run, sinks):
        summary = execute(run, None)
    show(run, summary, json)


def main(args: list[str]) -> Any:
    def retrain(
        run: RunPath,
        /,
        *,
        steps: Steps = None,
        seed: Seed = None,
        which: Which = "cost",
        charge: Charge = "excess",
        set: Settings = (),
        out: str = "runs",
        log: Log = None,
        json: bool = False,
    ) -> None:
        """Train on the frozen cost.

        Args:
            run: Run folder with a learned cost, or its name within ./runs.
            steps: Environment steps. Default: those of the preset.
            seed: Random seed of the fresh agent. Default: the run's seed + 1000.
            which: The cost that drove the policy, or the additive map.
            charge: Charge the excess over the threshold, the cost beyond the demonstrations' mean, or all of it.
            set: Any settings of PPO-Lagrangian, such as multiplier_init=3 n_envs=16.
            out: Folder in which the run folder is made.
            log: Also write the curves to tensorboard, wandb or both (tensorboard,wandb).
            json: Print the summary as JSON.
        """
        source = open_run(run)
        env, env_kwargs = source.config["env"], source.config["env_kwargs"]
        check_env(env, env_kwargs)
        settings = wanted(steps, set, which=which, charge=charge)
        train_on(source, env, env_kwargs, settings, seed, ["retrain", *args], out, log, json)

    return call(retrain, "retrain", __doc__, args)
