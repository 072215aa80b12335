"""Learn the constraint behind demonstrations: a cost over states and actions, and a policy that respects it.

  tacit learn ALGORITHM ENV [--demos FILE] [--preset NAME] [options of the algorithm]

Without --demos, Tacit's environments use the demonstrations that come with Tacit. If there are none for the options
that you give, the built-in expert makes them, with the same seed. Your own environments need --demos. The results are
in a folder under --out that is named after the settings. The same command again skips a finished run and resumes an
interrupted one.

Examples:
  tacit learn mce tacit/HalfCheetah-v0           deep, from the demonstrations that come with Tacit
  tacit learn mce tacit/Pendulum-v0 --preset paper --seed 3
  tacit learn mce my_package:Reactor-v0 --demos logs.npz --total-steps 400000 --inputs pressure temperature
  tacit learn bc2l tacit/Ant-v0                  another method on the same task
  tacit learn mce-exact tacit/Gridworld-v0       exact: finite environments with a known model
  tacit learn mce-exact tacit/Gridworld-v0 --layout my_map.txt --slip 0.2 --demos logs.npz --beta 0.1 --budget 1e-3
  tacit learn mce-exact tacit/Gridworld-v0 --env layout=wall-3 slip=0.3 moves=8 --seed 4
  tacit learn mce-exact --help                   the options of an algorithm; --help-all has every one
"""

# No `from __future__ import annotations` here: the type of `config` is known only when the algorithm is.
import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit.algorithms import Algorithm, every, find
from tacit.commands import (
    EnvId,
    EnvOptions,
    Options,
    asks_for_help,
    call,
    environment_in_front,
    print_json,
    settings_help,
)
from tacit.commands.summary import print_summary
from tacit.errors import RunFailed, UserError
from tacit.launch import execute, start_run
from tacit.run import Run
from tacit.run.log import say
from tacit.run.sinks import names_of, observed

Log = Annotated[str | None, tyro.conf.arg(metavar="NAMES")]


def main(args: list[str]) -> Any:
    names = [arg for arg in args[:1] if not arg.startswith("-")]
    if not names:
        return call(_list_algorithms, "learn", _with_algorithms(), args)
    algorithm = find(names[0], here=True)
    if not algorithm.learns:
        whereof = "RUN" if algorithm.name == "retrain" else "ENV"
        raise UserError(f"{algorithm.name} does not learn from demonstrations: use `tacit {algorithm.name} {whereof}`")
    text = f"{algorithm.name}: {algorithm.summary}.\n\n{__doc__}"
    return train_with(algorithm, f"learn {algorithm.name}", text, args[1:])


def train_with(algorithm: Algorithm, verb: str, doc: str | None, args: list[str]) -> Any:
    """`tacit learn ALGORITHM ENV ...` and `tacit expert ENV ...`: settings and options from the arguments, then train.

    Options that the algorithm has no use for are not in its help: presets, or demonstrations for one that makes them.
    """
    args = environment_in_front(args)
    env_id, named, default = defaults(algorithm, args)
    config_class = type(default)
    with_presets = () if algorithm.preset else (tyro.conf.Suppress,)
    with_demos = () if algorithm.learns else (tyro.conf.Suppress,)

    def train(
        env: EnvId,
        /,
        *,
        config: Annotated[config_class, tyro.conf.arg(name="")] = default,  # type: ignore[valid-type]
        preset: Annotated[str | None, tyro.conf.arg(metavar="NAME"), *with_presets] = named,
        demos: Annotated[str | None, tyro.conf.arg(metavar="FILE"), *with_demos] = None,
        anyway: Annotated[bool, tyro.conf.arg(), *with_demos] = False,
        trim: Annotated[str, tyro.conf.arg(metavar="{auto,off,SHARE}"), *with_demos] = "auto",
        calibration: Annotated[int, tyro.conf.arg(metavar="N"), *with_demos] = 0,
        options: Options = EnvOptions(),  # noqa: B008 (frozen)
        seed: int = 0,
        out: str = "runs",
        log: Log = None,
        json: bool = False,
    ) -> None:
        """Train inside a run folder.

        Args:
            env: Environment: one of `tacit envs`, or your own as module:Name-v0.
            config: Settings of the algorithm.
            preset: Preset that gives the defaults of the settings.
            demos: Demonstration file. Default: those that come with Tacit, or the built-in expert's.
            anyway: Learn even if replaying says that the demonstrations do not fit the environment.
            trim: Leave out demonstrations that look unlike the others (`tacit demos suspects`): auto, off, or a share.
            calibration: Number of demonstrations to hold out at random for `tacit calibrate`.
            options: Options of the environment.
            seed: Random seed.
            out: Folder in which the run folder is made.
            log: Also write the curves to tensorboard, wandb or both (tensorboard,wandb).
            json: Print the summary as JSON.
        """
        sinks = names_of(log)
        algorithm.refuse_unused(config, options_in(args), env_id)
        run, data = start_run(
            algorithm.name,
            in_front(env, env_id, algorithm),
            env_kwargs=options.given(),
            seed=seed,
            preset=preset,
            settings=dataclasses.asdict(config),
            demos=demos,
            anyway=anyway,
            trim=trim,
            calibration=calibration,
            out=out,
            command=shlex.join(["tacit", *verb.split(), *args]),
        )
        if data is not None and not run.done:
            print_preflight(run, data)
        with observed(run, sinks):
            summary = execute(run, data)
        show(run, summary, json)

    return call(train, verb, doc, args)


def _list_algorithms(algorithm: Annotated[str, tyro.conf.arg(metavar="ALGORITHM")], /) -> None:
    """Parse `tacit learn --help` and `tacit learn`, where no algorithm is named.

    Args:
        algorithm: One of the algorithms above, or your own.
    """
    raise UserError(f"the algorithm comes first: tacit learn {algorithm} ENV ...")


def _with_algorithms() -> str:
    lines = [f"  {algorithm.name:<17} {algorithm.summary}" for algorithm in every() if algorithm.learns]
    own = f"  {'MODULE:NAME':<17} one of your own, see docs/own-environment.md#write-an-algorithm"
    return "\n".join([(__doc__ or "").strip(), "", "Algorithms:", *lines, own])


def defaults(algorithm: Algorithm, args: list[str]) -> tuple[str, str | None, Any]:
    """(environment, preset, settings) before the parser exists, because they decide on the parser's defaults."""
    env_id = next((arg for arg in args if not arg.startswith("-")), "")
    preset = algorithm.preset
    if not asks_for_help(args):
        refuse_retired(algorithm, args)
    for i, arg in enumerate(args):
        if arg == "--preset" and i + 1 < len(args):
            preset = args[i + 1]
        elif arg.startswith("--preset="):
            preset = arg.partition("=")[2]
    for_help = settings_help.config_for_help(algorithm, env_id, preset, args) if asks_for_help(args) else None
    return env_id, preset, algorithm.config(env_id, preset) if for_help is None else for_help


def options_in(args: list[str]) -> list[str]:
    """Names of the options that are given: --lr=1 and --no-squash are "lr" and "squash"."""
    options = [arg.partition("=")[0].removeprefix("--") for arg in args if arg.startswith("--")]
    return [option.removeprefix("no-").replace("-", "_") for option in options]


def refuse_retired(algorithm: Algorithm, args: list[str]) -> None:
    """UserError for an option that the algorithm had once, with the reason why it is gone."""
    retired = algorithm.history.retired
    for name in options_in(args):
        if name in retired:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option} has no effect in {algorithm.name}, because {retired[name][1]}: leave it out")


def in_front(env: str, env_id: str, algorithm: Algorithm) -> str:
    """The environment. UserError if the defaults were made for another one, because it was not named first."""
    if algorithm.preset is not None and env != env_id:
        raise UserError(f"give the environment before the options: {env} ...")
    return env


def print_preflight(run: Run, data: Any) -> None:
    """Run the cheap checks of demonstrations and say what they find, on stderr."""
    from tacit.explain.preflight import quick

    for finding in quick(run.config["env"], run.config["env_kwargs"], data, run.config["seed"]).findings:
        say(f"preflight: {'doubtful: ' if finding.level == 'doubt' else ''}{finding.text}")


def pictures(run: Run) -> Path | None:
    """Path of the run's report, which is written if it is missing; None for a run without samples to draw."""
    path = run.path / "report.html"
    if not (run.path / "samples.safetensors").exists():
        return None
    if not path.exists():
        from tacit.report import write_report

        write_report([run], path)
    return path


def show(run: Run, summary: Mapping[str, Any], json: bool) -> None:
    """The summary, for people or machines; RunFailed when the run proved that there is nothing to learn."""
    report = pictures(run)
    if json:
        print_json({"run": str(run.path), "summary": summary} | ({} if report is None else {"report": str(report)}))
    elif summary.get("status") != "infeasible":
        print_summary(run, summary)
        print(run.path if report is None else f"{run.path}\nThe report, with pictures: {report}")
    if summary.get("status") == "infeasible":
        raise RunFailed(f"{summary['diagnosis']['text']} The proof is in {run.path}")
    if summary.get("status") == "iteration limit":
        say("warning: stopped at the iteration limit; the certificate says how far it got")
