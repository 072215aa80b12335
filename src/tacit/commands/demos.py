"""Demonstrations: make them with the built-in expert, look at a file, check it, or bring your own data.

One file format, .npz with arrays and a JSON card and no pickles; docs/demonstrations.md describes it.

Examples:
  tacit demos make tacit/Gridworld-v0 --slip 0.2 --n 50 --seed 0 -o expert.npz
  tacit demos show expert.npz
  tacit demos validate expert.npz                       does it fit the environment that it names?
  tacit demos validate expert.npz tacit/Gridworld-v0 --layout my_map.txt
  tacit demos convert logs.csv demos.npz --in-env tacit/Gridworld-v0 --layout my_map.txt
  tacit demos convert demos.npz table.csv
"""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from tacit.commands import EnvId, FilePath, call, facts, print_json
from tacit.commands.environment import GRIDWORLD, EnvOptions, Options, gridworld, resolve_env
from tacit.errors import UserError

if TYPE_CHECKING:
    from tacit.demos import Demonstrations

OptionalEnv = Annotated[str | None, tyro.conf.arg(metavar="ENV")]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT")]
Output = Annotated[str, tyro.conf.arg(aliases=["-o"], metavar="FILE")]


def make(
    env: EnvId = GRIDWORLD,
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
    """Let the built-in expert, who knows the constraint, demonstrate.

    Args:
        env: Environment.
        out: File to write, something.npz.
        n: Number of trajectories.
        seed: Of everything random.
        beta: The expert's temperature; smaller is closer to optimal.
        weight: Reward that the expert gives up to avoid one violating step.
        options: Options of the environment.
        json: Print the file's card as JSON.
    """
    from tacit.demos import expert_demonstrations, save

    env_kwargs = resolve_env(env, options.given())
    spec = gridworld(env, env_kwargs)
    if spec is None:
        raise UserError(f"there is no built-in expert for {env}; there is one for {GRIDWORLD}")
    chosen = {key: value for key, value in (("beta", beta), ("weight", weight)) if value is not None}
    demos = expert_demonstrations(spec, n, seed, observation=env_kwargs.get("observation", "position"), **chosen)
    save(demos, out)
    _tell(demos, out, json)


def show(file: FilePath, /, *, json: bool = False) -> None:
    """What is in a demonstration file: how many, how long, what they earn, how they were made.

    Args:
        file: Demonstration file.
        json: Print the file's card as JSON.
    """
    from tacit.demos import load

    _tell(load(file), file, json)


def validate(
    file: FilePath,
    env: OptionalEnv = None,
    /,
    *,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    json: bool = False,
) -> None:
    """Check a file and whether it fits an environment; exit status 2 if it does not.

    Args:
        file: Demonstration file.
        env: Environment; the one that the file names when not given.
        options: Options of the environment; those in the file when not given.
        json: Print the problems as JSON.
    """
    from tacit.demos import load, problems

    demos = load(file)
    named = demos.card.get("env")
    target = env or named
    if target is None:
        raise UserError(f"{file} does not name an environment: say which one, tacit demos validate {file} ENV")
    given = options.given() or (demos.card.get("env_kwargs") or {} if target == named else {})
    found = problems(demos, _build(target, resolve_env(target, given)))
    if json:
        print_json({"file": file, "env": target, "problems": found})
    elif not found:
        print(f"{file}: {len(demos)} trajectories, {demos.n_steps} steps, all fit {target}")
    if found:
        more = f" (and {len(found) - 3} more problems; --json lists them)" if len(found) > 3 else ""
        raise UserError(f"{file} does not fit {target}: {'; '.join(found[:3])}{more}")


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
    """Between .csv tables, plain .npz arrays and demonstration files.

    Args:
        source: File to read: .csv or .npz.
        target: File to write: .npz or .csv.
        in_env: The environment that the data come from, to be noted in the file.
        options: Options of that environment.
        drop_unfinished: Drop last actions whose outcome was not recorded.
        json: Print the file's card as JSON.
    """
    from tacit import demos

    card: dict[str, Any] = {}
    if in_env is not None:
        card = {"env": in_env, "env_kwargs": resolve_env(in_env, options.given())}
    elif options.given():
        raise UserError("--layout, --slip and --env are options of an environment: say which one with --in-env ENV")
    _tell(demos.convert(source, target, card=card, drop_unfinished=drop_unfinished), target, json)


def _build(env: str, env_kwargs: dict[str, Any]) -> Any:
    import gymnasium

    spec = gridworld(env, env_kwargs)
    if spec is not None:
        return spec
    try:
        return gymnasium.make(env, **env_kwargs)
    except (gymnasium.error.Error, TypeError) as error:
        raise UserError(f"cannot make {env}: {error}") from None


MADE = ("env", "env_kwargs", "feature_names", "source", "note", "expert", "command", "versions", "seed")
TOLD = (*MADE, "constraint", "distance_kept", "sha256")


def _tell(demos: Demonstrations, file: str, json: bool) -> None:
    card = demos.full_card()
    if json:
        return print_json({"file": file, **card})
    print(f"{file}: {len(demos)} trajectories, {demos.n_steps} steps")
    texts = {key: card.get(key) for key in TOLD}
    shown = {
        key: json_module.dumps(v) if isinstance(v, dict | list) else v for key, v in texts.items() if v is not None
    }
    facts({**shown, **{key.replace("_", " "): value for key, value in card["statistics"].items()}})


def main(args: list[str]) -> Any:
    return call({"make": make, "show": show, "validate": validate, "convert": convert}, "demos", __doc__, args)
