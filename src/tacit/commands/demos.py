"""Make demonstrations with the built-in expert, look at a file, check it, or import your own data.

There is one file format: .npz with arrays and a JSON card, without pickles. docs/demonstrations.md describes it.

Examples:
  tacit demos make tacit/Gridworld-v0 --slip 0.2 --n 50 --seed 0 -o expert.npz
  tacit demos show expert.npz
  tacit demos validate expert.npz                       does it fit the environment that it names?
  tacit demos validate expert.npz tacit/Gridworld-v0 --layout my_map.txt
  tacit demos convert logs.csv demos.npz --in-env tacit/Gridworld-v0 --layout my_map.txt
  tacit demos convert demos.npz table.csv
  tacit demos import logs.csv --env my_package:Reactor-v0       your own logs, checked against your environment
  tacit demos import minari:D4RL/pen/expert-v2 -o pen.npz       a Minari dataset
  tacit demos export demos.npz minari:mine/tank/operators-v0
"""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit import demos as demonstrations
from tacit.commands import EnvId, FilePath, call, facts, key_values, print_json
from tacit.commands.environment import EnvOptions, Options, exact_model, resolve_env
from tacit.demos import Demonstrations
from tacit.demos.convert import read_any
from tacit.demos.data import Card
from tacit.envs.gridworld import ENV_ID
from tacit.envs.options import check_standalone, has_expert
from tacit.envs.registry import make as make_env
from tacit.errors import UserError
from tacit.interop.pickles import demonstrations as from_pickle_file

OptionalEnv = Annotated[str | None, tyro.conf.arg(metavar="ENV")]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT")]
Output = Annotated[str, tyro.conf.arg(aliases=["-o"], metavar="FILE")]


def make(
    env: EnvId = ENV_ID,
    /,
    *,
    out: Output,
    n: int = 50,
    seed: int = 0,
    beta: Number = None,
    weight: Number = None,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    json: bool = False,
) -> None:
    """Write demonstrations of the built-in expert, which knows the constraint.

    Args:
        env: Environment.
        out: File to write, something.npz.
        n: Number of trajectories.
        seed: Random seed.
        beta: Temperature of the expert. A smaller value is closer to optimal.
        weight: Reward that the expert gives up to avoid one violating step.
        options: Options of the environment.
        json: Print the file's card as JSON.
    """
    env_kwargs = resolve_env(env, options.given())
    if not has_expert(env):
        raise UserError(f"there is no built-in expert for {env}; there is one for {ENV_ID}")
    chosen = {key: value for key, value in (("beta", beta), ("weight", weight)) if value is not None}
    model = exact_model(env, env_kwargs)
    if model is not None:
        observation = env_kwargs.get("observation", "position")
        demos = demonstrations.expert_demonstrations(model, n, seed, observation=observation, **chosen)
    elif chosen:
        raise UserError(f"the expert of {env} is scripted and has no {next(iter(chosen))}; leave it out")
    else:
        demos = demonstrations.scripted_demonstrations(env, env_kwargs, n, seed)
    demonstrations.save(demos, out)
    _print(demos, out, json)


def show(file: FilePath, /, *, json: bool = False) -> None:
    """Show what a demonstration file holds: how many episodes, how long, what they earn, how they were made.

    Args:
        file: Demonstration file.
        json: Print the file's card as JSON.
    """
    _print(demonstrations.load(file), file, json)


def validate(
    file: FilePath,
    env: Annotated[str | None, tyro.conf.arg(metavar="[ENV]")] = None,
    /,
    *,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    json: bool = False,
) -> None:
    """Check a file, and whether it fits an environment. The exit status is 2 if it does not.

    Args:
        file: Demonstration file.
        env: Environment. If left out, the one that the file names.
        options: Options of the environment. If left out, those in the file.
        json: Print the problems as JSON.
    """
    demos = demonstrations.load(file)
    named = demos.card.get("env")
    target = env or named
    if target is None:
        raise UserError(f"{file} does not name an environment: say which one, tacit demos validate {file} ENV")
    if env is None and ":" in target:
        raise UserError(
            f"{file} names {target}, and making it imports the module {target.rpartition(':')[0]}: if you trust that, "
            f"say so: tacit demos validate {file} {target}"
        )
    given = options.given()
    if not given and target == named:
        given = demos.card.get("env_kwargs") or {}
        check_standalone(target, given, file)
    problems = demonstrations.problems(demos, _build(target, resolve_env(target, given)))
    if json:
        print_json({"file": file, "env": target, "problems": problems})
    elif not problems:
        print(f"{file}: {len(demos)} trajectories, {demos.n_steps} steps, all fit {target}")
    if problems:
        more = f" (and {len(problems) - 3} more problems; --json lists them)" if len(problems) > 3 else ""
        raise UserError(f"{file} does not fit {target}: {'; '.join(problems[:3])}{more}")


def convert(
    source: Annotated[str, tyro.conf.arg(metavar="SOURCE")],
    target: Annotated[str, tyro.conf.arg(metavar="TARGET")],
    /,
    *,
    in_env: OptionalEnv = None,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    drop_unfinished: bool = False,
    json: bool = False,
) -> None:
    """Convert between .csv tables, plain .npz arrays and demonstration files.

    Args:
        source: File to read: .csv or .npz.
        target: File to write: .npz or .csv.
        in_env: Environment that the data come from. It is noted in the file.
        options: Options of that environment.
        drop_unfinished: Drop last actions whose outcome was not recorded.
        json: Print the file's card as JSON.
    """
    card: Card = {}
    if in_env is not None:
        card = {"env": in_env, "env_kwargs": resolve_env(in_env, options.given())}
    elif options.given():
        raise UserError("--layout, --slip and --env are options of an environment: say which one with --in-env ENV")
    _print(demonstrations.convert(source, target, card=card, drop_unfinished=drop_unfinished), target, json)


def import_(
    source: Annotated[str, tyro.conf.arg(metavar="SOURCE")],
    /,
    *,
    env: OptionalEnv = None,
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
    out: Annotated[str | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None,
    drop_unfinished: bool = False,
    json: bool = False,
) -> None:
    """Import a .csv table, .npz arrays, or a Minari dataset, checked against an environment.

    Args:
        source: log.csv, arrays.npz or minari:DATASET.
        env: Environment that the data come from. With it every step is checked before anything is written.
        option: Options of that environment.
        out: File to write, something.npz. If left out, it is named after the source.
        drop_unfinished: Drop last actions of a table whose outcome was not recorded.
        json: Print the file's card as JSON.
    """
    target = out or _named_after(source)
    _write(read_any(source, drop_unfinished=drop_unfinished), source, env, option, target, json)


def _write(
    data: Demonstrations, source: str, env: str | None, option: tuple[str, ...], target: str, json: bool
) -> None:
    """Check imported demonstrations against their environment, if one is named, and write them."""
    if env is None and option:
        raise UserError("--option is about an environment: say which one with --env ENV")
    if env is not None:
        env_kwargs = resolve_env(env, key_values(option, "--option"))
        built = _build(env, env_kwargs)
        data = demonstrations.for_environment(data, built, env, env_kwargs)
        problems = demonstrations.problems(data, built)
        if problems:
            more = f" (and {len(problems) - 3} more problems)" if len(problems) > 3 else ""
            raise UserError(f"{source} does not fit {env}: {'; '.join(problems[:3])}{more}")
    demonstrations.save(data, target)
    _print(data, target, json)


def from_pickle(
    source: Annotated[str, tyro.conf.arg(metavar="SOURCE")],
    /,
    *,
    out: Output,
    env: OptionalEnv = None,
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
    drop_unfinished: bool = False,
    json: bool = False,
) -> None:
    """Import an old pickle without running it. Only NumPy arrays, dicts, lists, numbers and text are read.

    Args:
        source: Pickle file with an episode, a list of episodes, or the arrays of a demonstration file.
        out: File to write, something.npz.
        env: Environment that the data come from. With it every step is checked before anything is written.
        option: Options of that environment.
        drop_unfinished: Drop last actions whose outcome was not recorded.
        json: Print the file's card as JSON.
    """
    _write(from_pickle_file(source, drop_unfinished=drop_unfinished), source, env, option, out, json)


def _named_after(source: str) -> str:
    dataset = source.startswith("minari:")
    name = f"{source.removeprefix('minari:').replace('/', '-') if dataset else Path(source).stem}.npz"
    if Path(name).exists():
        raise UserError(f"{name} exists: say where to write with -o FILE")
    return name


def export(file: FilePath, target: Annotated[str, tyro.conf.arg(metavar="TARGET")], /) -> None:
    """Write demonstrations in a format of other programs.

    Args:
        file: Demonstration file.
        target: table.csv, or minari:NAME for a Minari dataset, such as minari:mine/tank/operators-v0.
    """
    demos = demonstrations.load(file)
    if target.startswith("minari:"):
        from tacit.interop.minari import to_minari

        to_minari(demos, target)
    elif target.endswith(".csv"):
        demonstrations.to_csv(demos, target)
    else:
        raise UserError(f"demonstrations are exported to something.csv or minari:NAME, not {target!r}")
    print(f"{target}: {len(demos)} trajectories, {demos.n_steps} steps")


def _build(env: str, env_kwargs: Mapping[str, Any]) -> Any:
    """What demonstrations are checked against: the exact model if there is one, else the environment."""
    model = exact_model(env, env_kwargs)
    return make_env(env, **env_kwargs) if model is None else model


PRINTED = (
    *("env", "env_kwargs", "feature_names", "source", "note", "expert", "command", "versions", "seed"),
    *("constraint", "distance_kept", "origin", "licence", "sha256"),
)
"""Entries of a card that are printed."""


def _print(demos: Demonstrations, file: str, json: bool) -> None:
    card = demos.full_card()
    if json:
        return print_json({"file": file, **card})
    print(f"{file}: {len(demos)} trajectories, {demos.n_steps} steps")
    values = {key: card[key] for key in PRINTED if card.get(key) is not None}
    texts = {key: json_module.dumps(v) if isinstance(v, dict | list) else v for key, v in values.items()}
    facts({**texts, **{key.replace("_", " "): value for key, value in card["statistics"].items()}})


def main(args: list[str]) -> Any:
    verbs: dict[str, Callable[..., Any]]
    verbs = {"make": make, "show": show, "validate": validate, "convert": convert, "import": import_, "export": export}
    verbs["from-pickle"] = from_pickle
    return call(verbs, "demos", __doc__, args)
