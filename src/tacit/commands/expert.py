"""Train an expert who knows the constraint, and let it demonstrate.

  tacit expert ENV [--seed N] [--preset NAME] [any setting]

PPO with the true cost. The run folder gets the policy, curves, an evaluation and demos.npz: demonstrations that never
break the constraint. The same command again skips a finished run and resumes one that was interrupted.

Examples:
  tacit expert tacit/HalfCheetah-v0
  tacit expert tacit/Swimmer-v0 --seed 1 --total-steps 200000 --multiplier pid --budget 0.001
  tacit eval RUN --video swim.mp4                 look at it
"""

import dataclasses
import shlex
from typing import Annotated, Any

import tyro

from tacit.commands import EnvId, call
from tacit.commands.environment import EnvOptions, Options, resolve_env
from tacit.commands.learn import execute, show
from tacit.errors import UserError
from tacit.run import Run


def main(args: list[str]) -> Any:
    from tacit import presets
    from tacit.forward.expert import Config

    env_id = next((arg for arg in args if not arg.startswith("-")), "")
    preset = _option(args, "--preset", "expert")
    default = presets.load(Config, preset, env_id)

    def expert(
        env: EnvId,
        /,
        config: Annotated[Config, tyro.conf.arg(name="")] = default,
        *,
        preset: str = preset,
        options: Options = EnvOptions(),  # noqa: B008 (frozen)
        seed: int = 0,
        out: str = "runs",
        json: bool = False,
    ) -> None:
        """Train an expert.

        Args:
            env: Environment, one of `tacit envs` or any registered as module:Name-v0.
            config: Settings of the training.
            preset: Where the defaults below come from.
            options: Options of the environment.
            seed: Of everything random.
            out: Folder for run folders.
            json: Print the summary as JSON.
        """
        if env != env_id:
            raise UserError(f"give the environment first: tacit expert {env} ...")
        run = Run.start(
            out,
            algo="expert",
            env=env,
            env_kwargs=resolve_env(env, options.given()),
            seed=seed,
            config=dataclasses.asdict(config),
            demos=None,
            command=shlex.join(["tacit", "expert", *args]),
        )
        show(run, execute(run, None), json)

    return call(expert, "expert", __doc__, args)


def _option(args: list[str], name: str, default: str) -> str:
    """The value of an option before the parser exists, because it decides on the parser's defaults."""
    for i, arg in enumerate(args):
        if arg == name and i + 1 < len(args):
            return args[i + 1]
        if arg.startswith(f"{name}="):
            return arg.partition("=")[2]
    return default
