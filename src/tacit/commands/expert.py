"""Train an expert who knows the constraint, and let it demonstrate.

  tacit expert ENV [--seed N] [--preset NAME] [any setting]

The expert is PPO with the true cost. Its run folder gets the policy, curves, an evaluation, and demonstrations that
never break the constraint (demos.npz). The same command again skips a finished run and resumes an interrupted one.

Examples:
  tacit expert tacit/HalfCheetah-v0
  tacit expert tacit/Swimmer-v0 --seed 1 --total-steps 200000 --multiplier pid --budget 0.001
  tacit eval RUN --video swim.mp4                 watch it
"""

import dataclasses
import shlex
from typing import Annotated, Any

import tyro

from tacit.algorithms import find
from tacit.commands import EnvId, call
from tacit.commands.environment import EnvOptions, Options
from tacit.commands.learn import Log, defaults, in_front, show
from tacit.launch import execute, start_run
from tacit.run.sinks import names_of, observed


def main(args: list[str]) -> Any:
    algorithm = find("expert")
    env_id, named, default = defaults(algorithm, args)
    config_class = type(default)

    def expert(
        env: EnvId,
        /,
        *,
        config: Annotated[config_class, tyro.conf.arg(name="")] = default,  # type: ignore[valid-type]
        preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = named,
        options: Options = EnvOptions(),  # noqa: B008 (frozen)
        seed: int = 0,
        out: str = "runs",
        log: Log = None,
        json: bool = False,
    ) -> None:
        """Train an expert.

        Args:
            env: Environment: one of `tacit envs`, or your own as module:Name-v0.
            config: Settings of the training.
            preset: Preset that gives the defaults of the settings.
            options: Options of the environment.
            seed: Random seed.
            out: Folder in which the run folder is made.
            log: Also write the curves to tensorboard, wandb or both (tensorboard,wandb).
            json: Print the summary as JSON.
        """
        sinks = names_of(log)
        run, data = start_run(
            algorithm.name,
            in_front(env, env_id, algorithm),
            env_kwargs=options.given(),
            seed=seed,
            settings=dataclasses.asdict(config),
            out=out,
            command=shlex.join(["tacit", "expert", *args]),
        )
        with observed(run, sinks):
            summary = execute(run, data)
        show(run, summary, json)

    return call(expert, "expert", __doc__, args)
