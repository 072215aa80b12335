"""Make demonstrations with the built-in expert; show, check and convert files; import your own data.

A demonstration file is an .npz with arrays and a JSON card, without pickles. docs/files.md#demonstrations describes it.

Examples:
  tacit demos make tacit/Gridworld-v0 --slip 0.2 --n 50 --seed 0 -o expert.npz
  tacit demos show expert.npz
  tacit demos validate expert.npz                       does it fit the environment that it names? Steps are replayed.
  tacit demos validate expert.npz --env tacit/Ant-v0 --all
  tacit demos validate expert.npz tacit/Gridworld-v0 --layout my_map.txt
  tacit demos suspects logs.npz                         which trajectories look unlike the others?
  tacit demos suspects logs.npz -o kept.npz             and write the others into a file
  tacit demos convert logs.csv demos.npz --env tacit/Gridworld-v0 --layout my_map.txt
  tacit demos convert demos.npz table.csv
  tacit demos import logs.csv --env my_package:Reactor-v0       your own logs, replayed in your environment
  tacit demos import rollouts/ --env tacit/HalfCheetah-v0 -o mine.npz      a folder of pickles, arrays or tables
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
from tacit.commands import NO_DEFAULT, EnvId, EnvOptions, FilePath, Options, call, facts, print_json
from tacit.demos import Demonstrations
from tacit.demos.data import Card
from tacit.demos.evidence import Check
from tacit.demos.replay import check as replay
from tacit.envs.gridworld import ENV_ID
from tacit.envs.options import check_standalone, exact_model, resolve_env
from tacit.envs.registry import make as make_env
from tacit.errors import UserError
from tacit.imports.importing import import_files, refuse, target_of
from tacit.imports.names import parsed
from tacit.imports.reading import Choices
from tacit.launch import make_demonstrations
from tacit.metrics import percent
from tacit.run.log import quiet, say

Paths = Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH..."), NO_DEFAULT]
EnvAndOptions = Annotated[tuple[str, ...], tyro.conf.arg(metavar="ENV KEY=VALUE")]
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
        beta: Gridworld: temperature of the expert. A smaller value is closer to optimal. Default: 0.1.
        weight: Gridworld: reward that the expert gives up to avoid one violating step. Default: 30.
        options: Options of the environment.
        json: Print the file's card as JSON.
    """
    chosen = {key: value for key, value in (("beta", beta), ("weight", weight)) if value is not None}
    demos = make_demonstrations(env, resolve_env(env, options.given()), seed, n, **chosen)
    demonstrations.save(demos, out)
    _written(demos, out, json)


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
    all: bool = False,
    json: bool = False,
) -> None:
    """Check whether a file fits an environment, by replaying steps. The exit status is 2 if it does not.

    Args:
        file: Demonstration file.
        env: Environment, also as --env ENV. Default: the one that the file names.
        options: Options of the environment. Default: those in the file.
        all: Replay every step instead of a sample.
        json: Print the result as JSON.
    """
    demos = demonstrations.load(file)
    named = demos.card.get("env")
    chosen, options = options.named()
    chosen = env or chosen
    target = chosen or named
    if target is None:
        raise UserError(f"{file} does not name an environment: say which one, tacit demos validate {file} ENV")
    if chosen is None and ":" in target:
        raise UserError(
            f"{file} names {target}, and making it imports the module {target.rpartition(':')[0]}: if you trust that, "
            f"say so: tacit demos validate {file} {target}"
        )
    given = options.given()
    if not given and target == named:
        given = demos.card.get("env_kwargs") or {}
        check_standalone(target, given, file)
    built = _build(target, resolve_env(target, given))
    problems = demonstrations.problems(demos, built)
    result = None if problems and not hasattr(built, "states_of") else replay(demos, built, every=all)
    if json:
        check = None if result is None else result.to_dict()
        print_json({"file": file, "env": target, "problems": problems, "check": check})
    elif not problems and result is not None:
        print(f"{file}: {len(demos)} trajectories, {demos.n_steps} steps, {target}")
        facts(_verdict_rows(result))
    refuse(file, target, problems, result)


def suspects(
    file: FilePath,
    /,
    *,
    out: Annotated[str | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None,
    json: bool = False,
) -> None:
    """Name the trajectories that look unlike the others, and say why. They may be of people who ignored the rule.

    Args:
        file: Demonstration file.
        out: Write the other trajectories into this file.
        json: Print the result as JSON.
    """
    demos = demonstrations.load(file)
    named = demonstrations.suspects(demos)
    if json:
        print_json({"file": file, "trajectories": len(demos), "suspects": [one.to_dict() for one in named]})
    elif not named:
        print(f"{file}: none of the {len(demos)} trajectories looks unlike the others")
    else:
        print(f"{file}: {len(named)} of {len(demos)} trajectories look unlike the others, and earn no less")
        print("\n".join(f"  {one}" for one in named))
        print(
            "Look at them. If they ignored the rule, learn without them: `tacit learn` leaves them out by default. "
            "If they are as good as the others, keep them with `tacit learn ... --trim off`."
        )
    if out is not None:
        which = [i for i in range(len(demos)) if i not in {one.trajectory for one in named}]
        demonstrations.save(demos.subset(which), out)


def convert(
    source: Annotated[str, tyro.conf.arg(metavar="SOURCE")],
    target: Annotated[str, tyro.conf.arg(metavar="TARGET")],
    /,
    *,
    options: Options = EnvOptions(),  # noqa: B008 (frozen)
    drop_unfinished: bool = False,
    json: bool = False,
) -> None:
    """Convert between .csv tables, plain .npz arrays and demonstration files.

    Args:
        source: File to read: .csv or .npz.
        target: File to write: .npz or .csv.
        options: The environment that the data come from, to be written on the card (--env ENV), and its options.
        drop_unfinished: Drop an episode's last action if where it led was not recorded.
        json: Print the file's card as JSON.
    """
    card: Card = {}
    env, options = options.named()
    if env is not None:
        card = {"env": env, "env_kwargs": resolve_env(env, options.given())}
    elif options.given():
        raise UserError("--layout, --slip and KEY=VALUE are about an environment: say which one with --env ENV")
    _written(demonstrations.convert(source, target, card=card, drop_unfinished=drop_unfinished), target, json)


def import_(
    paths: Paths,
    /,
    *,
    env: EnvAndOptions = (),
    out: Annotated[str | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None,
    layout: Annotated[str | None, tyro.conf.arg(metavar="LAYOUT")] = None,
    shift: Annotated[int | None, tyro.conf.arg(metavar="{-1,0,1}")] = None,
    columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROLE=NAME")] = (),
    terminated: Annotated[str | None, tyro.conf.arg(metavar="WHICH")] = None,
    rewards: Annotated[str | None, tyro.conf.arg(metavar="HOW")] = None,
    cut: Annotated[int | None, tyro.conf.arg(metavar="STEPS")] = None,
    anyway: bool = False,
    drop_unfinished: bool = False,
    json: bool = False,
) -> None:
    """Import your own logs and public datasets: tables, arrays, pickles, tensors, HDF5, JSON, Minari.

    Args:
        paths: Files and folders, or minari:DATASET. Several become one file.
        env: Environment that the data come from, and its options. Steps are replayed in it before the file is written.
        out: File to write, something.npz. Default: named after the source.
        layout: Where episodes begin (one-episode, jumps, every:N), or the order of axes (episodes-first, steps-first).
        shift: 0 if action t was taken in row t, 1 if it led to row t, -1 if it was taken in row t + 1.
        columns: Which entries are what, such as observations=x,v actions=throttle, or 'observations=obs[:29]'.
        terminated: Episodes that the environment ended: recorded, all, none, or short (those before the time limit).
        rewards: What the rewards are: step, sum (per episode), cumulative, env (let it compute them), none (zeros).
        cut: Cut episodes off after this many steps.
        anyway: Write the file even if replaying says that it does not fit.
        drop_unfinished: Has no effect any more: such actions are always completed or dropped.
        json: Print the table and the file's card as JSON.
    """
    if not paths:
        raise UserError("say which files to import: tacit demos import PATH... --env ENV -o FILE")
    named, options = EnvOptions(env=env).named()
    given = options.given()
    if given and named is None:
        raise UserError(f"--env {' '.join(env)} is about an environment: say which one with --env ENV {' '.join(env)}")
    choices = Choices(layout, shift, parsed(columns), terminated, rewards, cut)
    target = None if named is None else target_of(named, given)
    file = out or _named_after(paths[0])
    imported = import_files(list(paths), choices, target)
    source = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    verdict = _verdict_rows(imported.check)
    left = {"left out": "; ".join(f"{Path(f).name}: {why}"[:120] for f, why in list(imported.left_out.items())[:5])}
    rows = {**imported.rows, **verdict, **(left if imported.left_out else {})}
    if not json and not quiet():
        facts(rows, title=f"{source}: what was understood")
    if imported.problems or not anyway:
        try:
            refuse(source, named, imported.problems, imported.check)
        except UserError as error:
            how = f". This is on top of the chosen --shift {shift}" if shift is not None else ""
            how += "" if imported.problems else ". --anyway writes the file all the same"
            raise UserError(f"{error}{how}") from None
    demonstrations.save(imported.demos, file)
    if json:
        print_json({"file": file, "understood": rows, "left_out": imported.left_out, **imported.demos.full_card()})
    elif not quiet():
        print(f"{file}: {len(imported.demos)} trajectories, {imported.demos.n_steps} steps")


def _verdict_rows(check: Check | None) -> dict[str, str]:
    """What replaying found, for the table."""
    if check is None:
        return {}
    rows = {"verdict": check.findings[0].text if check.findings else check.verdict}
    if check.replayed:
        errors = ", ".join(f"{error:.2g} with shift {shift}" for shift, error in sorted(check.errors.items()))
        rows["replayed"] = f"{check.replayed} of {check.steps} steps: mean error {errors}"
    worst = [f"{name} {error:.2g}" for name, error in check.entries[:4] if error > 0.01]
    if worst:
        rows["worst entries"] = ", ".join(worst)
    for level, title in (("wrong", "does not fit"), ("doubt", "doubtful"), ("good", "fits"), ("note", "noted")):
        texts = [finding.text for finding in check.findings[1:] if finding.level == level]
        if texts:
            rows[title] = "; ".join(texts)
    return rows


def from_pickle(
    source: Annotated[str, tyro.conf.arg(metavar="SOURCE")],
    /,
    *,
    out: Output,
    env: EnvAndOptions = (),
    drop_unfinished: bool = False,
    json: bool = False,
) -> None:
    """The old name of `tacit demos import` for pickles.

    Args:
        source: Pickle file.
        out: File to write, something.npz.
        env: Environment that the data come from, and its options.
        drop_unfinished: Has no effect any more: such actions are always completed or dropped.
        json: Print the table and the file's card as JSON.
    """
    say("warning: `tacit demos from-pickle` is now `tacit demos import`, which has more options")
    import_((source,), env=env, out=out, json=json)


def _named_after(source: str) -> str:
    dataset = source.startswith("minari:")
    name = f"{source.removeprefix('minari:').replace('/', '-') if dataset else Path(source).stem}.npz"
    if Path(name).exists():
        raise UserError(f"{name} exists: say where to write with -o FILE")
    return name


def export(file: FilePath, target: Annotated[str, tyro.conf.arg(metavar="TARGET")], /) -> None:
    """Write demonstrations as a table or as a Minari dataset.

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
    if not quiet():
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


def _written(demos: Demonstrations, file: str, json: bool) -> None:
    """Say what was written, unless -q is given."""
    if json or not quiet():
        _print(demos, file, json)


def _print(demos: Demonstrations, file: str, json: bool) -> None:
    card = demos.full_card()
    if json:
        return print_json({"file": file, **card})
    print(f"{file}: {len(demos)} trajectories, {demos.n_steps} steps")
    values = {key: card[key] for key in PRINTED if card.get(key) is not None}
    texts = {key: json_module.dumps(v) if isinstance(v, dict | list) else v for key, v in values.items()}
    for key, value in card["statistics"].items():
        texts[key.replace("_", " ")] = percent(value) if "rate" in key.split("_") and value is not None else value
    facts(texts)


def main(args: list[str]) -> Any:
    verbs: dict[str, Callable[..., Any]]
    verbs = {"make": make, "show": show, "validate": validate, "convert": convert, "import": import_, "export": export}
    verbs |= {"suspects": suspects, "from-pickle": from_pickle}
    return call(verbs, "demos", __doc__, args)
