"""From a request to a finished run. `tacit learn`, `tacit expert`, sweeps and experiments all go this way.

    run, demos = start_run("expert", "tacit/Ant-v0", seed=1, settings={"total_steps": 100_000})
    summary = execute(run, demos)

`tacit.learn` does the same for Python.

Nothing is written before everything has been checked. The folder is named after the resolved settings (see run.py), so
that asking again finds a finished run, or goes on with an interrupted one.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from tacit import demos as demonstrations
from tacit.algorithms import find, make_config
from tacit.cost.calibration import split
from tacit.cost.card import complete_cards
from tacit.demos import Demonstrations
from tacit.demos.replay import check_in
from tacit.envs.batched import whole_number
from tacit.envs.options import check_env, check_standalone, exact_model, has_expert, listed, other_options, resolve_env
from tacit.envs.registry import make_vec, shared
from tacit.errors import RunFailed, UserError
from tacit.explain import explain_if_possible
from tacit.run import SCHEMA, Run, log, run_name
from tacit.run.folder import HELD_OUT

Say = Callable[[str], None]
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_loaded: ContextVar[dict[str, Demonstrations] | None] = ContextVar("demonstrations that are shared", default=None)


@contextmanager
def planning() -> Iterator[None]:
    """Within this block `resolve` makes no environment and loads no file of demonstrations twice."""
    token = _loaded.set({} if _loaded.get() is None else _loaded.get())
    try:
        with shared():
            yield
    finally:
        _loaded.reset(token)


def start_run(
    algo: str, env: str, *, out: str = "runs", command: str | None = None, **wanted: Any
) -> tuple[Run, Demonstrations | None]:
    """(the run folder under `out`, new or begun before; what it learns from). For `wanted` see `resolve`.

    `calibration` demonstrations are held out of learning, for a threshold, and put into the folder as calibration.npz.
    """
    held_out = wanted.pop("calibration", 0)
    settings, demos = resolve(algo, env, **wanted)
    if held_out and demos is None:
        raise UserError(f"there are no demonstrations of {env} to hold out: leave out --calibration, or give --demos")
    if held_out and demos is not None:
        return _start_calibrated(out, settings, demos, held_out, command)
    path = place(out, settings)
    older = path.name != _name(settings)
    algorithm = find(algo)
    run = Run.open(path) if older else Run.start(out, **settings, command=command, history=algorithm.history)
    algorithm.bring(run, wanted.get("preset"), wanted.get("settings"))
    return run, demos


def _start_calibrated(
    out: str, settings: dict[str, Any], demos: Demonstrations, held_out: int, command: str | None
) -> tuple[Run, Demonstrations]:
    learned_from, kept = split(demos, held_out, settings["seed"])
    algorithm = find(settings["algo"])
    config = make_config(algorithm.load().Config, settings["config"], settings["algo"])
    algorithm.check(settings["env"], settings["env_kwargs"], config, learned_from)  # fewer than those that were checked
    # The file that was given holds both parts: `Run.demonstrations` must not fall back on it.
    parts = {"path": None, "sha256": learned_from.sha256, "from": settings["demos"], "calibration": kept.sha256}
    run = Run.start(out, **{**settings, "demos": parts}, command=command, history=algorithm.history)
    for name, part in (("demos.npz", learned_from), (HELD_OUT, kept)):
        if not (run.path / name).exists():
            demonstrations.save(part, run.path / name)
    return run, learned_from


def place(out: str | os.PathLike[str], settings: Mapping[str, Any]) -> Path:
    """The folder of these settings, as `resolve` gives them: the one that is named after them, begun or not yet.

    Or one that was begun before the algorithm got a new setting. There it counts as its default, in resuming as here;
    so the default of a new setting must be what was done without it.
    """
    path = Path(out) / _name(settings)
    if not path.exists():
        algorithm = find(settings["algo"])
        for file in sorted(Path(out).glob(f"{path.name.rpartition('-')[0]}-*/config.json")):
            try:
                begun = Run.open(file.parent).config
                config = dataclasses.asdict(make_config(algorithm.load().Config, begun["config"], str(file)))
            except UserError:
                continue
            if run_name({**begun, "config": config}, algorithm.history) == path.name:
                return file.parent
    return path


def _name(settings: Mapping[str, Any]) -> str:
    return run_name({"schema": SCHEMA, **settings}, find(settings["algo"]).history)


def resolve(
    algo: str,
    env: str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    demos: str | Demonstrations | None = None,
    anyway: bool | None = None,
    trim: str | float = "off",
    say: Say = log.say,
) -> tuple[dict[str, Any], Demonstrations | None]:
    """(what `Run.start` wants to know, demonstrations); UserError for what cannot work. Nothing is written.

    `settings` are put on top of the preset, which is the algorithm's own when none is named. Without `demos` an
    algorithm that learns gets those that come with Tacit, or the built-in expert's. Unless `anyway` is None, the
    demonstrations that do not come with Tacit are replayed. What certainly does not fit is refused; with `anyway` it is
    only a warning. `trim` says which of the demonstrations that were given are left out, see `tacit.demos.trim`.
    """
    algorithm = find(algo)
    seed = whole_number("the seed", seed, least=0)
    config = algorithm.config(env, preset, settings)
    given = dict(env_kwargs or {})
    if algorithm.learns and (algorithm.needs_demos or demos is not None or _demonstrated(env)):
        given, data, path = prepare(env, given, demos, seed, say, anyway)
    elif demos is not None:
        raise UserError(f"{algo} makes demonstrations and does not learn from any: leave out {_called(demos)}")
    else:
        given, data, path = resolve_env(env, given), None, None
    recorded: dict[str, Any] | None = None if data is None else {"path": path, "sha256": data.sha256}
    if data is not None and demos is not None:
        data, left_out = _trimmed(data, _called(demos), trim, say)
        # The file that was given holds those that were left out: `Run.demonstrations` must not fall back on it.
        if left_out:
            recorded = {"path": None, "sha256": data.sha256, "from": recorded, "left_out": list(left_out)}
    algorithm.check(env, given, config, data)
    return {
        "algo": algo,
        "env": env,
        "env_kwargs": given,
        "seed": seed,
        "config": dataclasses.asdict(algorithm.settle(config)),
        "demos": recorded,
    }, data


def _trimmed(data: Demonstrations, named: str, how: str | float, say: Say) -> tuple[Demonstrations, tuple[int, ...]]:
    """(demonstrations to learn from, numbers of those left out); says which and why."""
    kept, left_out = demonstrations.trim(data, how)
    if left_out:
        numbers = ", ".join(map(str, left_out))
        example = f" For example, {demonstrations.suspects(data)[0]}." if how == "auto" else ""
        say(
            f"warning: {named}: {len(left_out)} of {len(data)} trajectories look unlike the others and are left out: "
            f"{numbers}.{example} `tacit demos suspects` says more; --trim off (in Python trim='off') keeps them"
        )
    elif how == "auto" and (number := len(demonstrations.suspects(data))):
        say(
            f"warning: {named}: {number} of {len(data)} trajectories look unlike the others: too many to leave them "
            "out on suspicion. `tacit demos suspects` names them; --trim with a share leaves out those that stand "
            "out most"
        )
    return kept, left_out


def _demonstrated(env: str) -> bool:
    """Whether the environment comes with demonstrations."""
    return demonstrations.shipped(env) is not None or has_expert(env)


def prepare(
    env: str,
    given: Mapping[str, Any],
    demos: str | Demonstrations | None,
    seed: int,
    say: Say,
    anyway: bool | None = None,
) -> tuple[dict[str, Any], Demonstrations, str | None]:
    """(complete options of the environment, demonstrations, their file).

    Demonstrations know in which environment they were made: its options are the default for those not `given` at all.
    """
    included = demonstrations.shipped(env)
    if demos is None and included is not None and not _better_made(env, given, str(included)):
        say(f"no demonstrations given: those that come with Tacit, {included.name}")
        demos = str(included)
    if demos is None:
        env_kwargs = resolve_env(env, given)
        data = make_demonstrations(env, env_kwargs, seed)
        say(f"no demonstrations given: {len(data)} by the built-in expert, seed {seed}")
        return env_kwargs, data, None
    data, path = (_load(demos), demos) if isinstance(demos, str) else (demos, None)
    demos = _called(demos)
    check_env(env, given)  # a name that does not exist is no fault of the demonstrations
    made_in, made_with = data.card.get("env"), data.card.get("env_kwargs") or {}
    # module:Name-v0 and Name-v0 are the same environment: the module only says where it is registered.
    if made_in is not None and made_in.rpartition(":")[2] != env.rpartition(":")[2]:
        raise UserError(f"{demos} was made in {made_in}, not in {env}")
    if made_in is not None and made_with and not given:
        check_standalone(env, made_with, demos)
        say(f"environment options are those of {demos}: {listed(made_with)}")
        given = made_with
    env_kwargs = resolve_env(env, given)
    different = {} if made_in is None else other_options(env, made_with, env_kwargs)
    if different:
        say(f"warning: {demos} was made with other options: {listed(different)}")
    if env_kwargs.get("recordings") and not made_with.get("recordings"):
        say(
            f"warning: {demos} was driven in the simulated traffic that comes with Tacit, not in yours; "
            f"`tacit expert {env} --recordings DIR` makes demonstrations there, for --demos"
        )
    grid = exact_model(env, env_kwargs)
    if grid is not None:
        demonstrations.validate(data, grid)
    else:
        made = make_vec(env, 1, **env_kwargs)
        try:
            demonstrations.validate(data, made)
        finally:
            made.close()
    if anyway is not None and path != str(included):
        _replay(env, env_kwargs, data, demos, say, anyway)
    return env_kwargs, data, path


def _replay(env: str, env_kwargs: Mapping[str, Any], data: Demonstrations, named: str, say: Say, anyway: bool) -> None:
    """Say what replaying finds doubtful; UserError for what is certainly wrong, unless it is to be learned anyway."""
    result = check_in(env, env_kwargs, data)
    for text in result.texts("doubt"):
        say(f"warning: {named}: {text}")
    wrong = "; ".join(result.texts("wrong"))
    if wrong and not anyway:
        raise UserError(
            f"{named} does not fit {env}: {wrong}. `tacit demos validate` shows more; --anyway (in Python anyway=True) "
            "learns from it"
        )
    if wrong:
        say(f"warning: {named} does not fit {env}: {wrong}")


def _better_made(env: str, given: Mapping[str, Any], included: str) -> bool:
    """Were the included demonstrations made with other options than those given, and is there an expert for these?"""
    if not given or not has_expert(env):
        return False
    return bool(other_options(env, _load(included).card.get("env_kwargs") or {}, resolve_env(env, given)))


def _load(file: str) -> Demonstrations:
    """Demonstrations from a file, once within `planning`."""
    loaded = _loaded.get()
    if loaded is None:
        return demonstrations.load(file)
    if file not in loaded:
        loaded[file] = demonstrations.load(file)
    return loaded[file]


def _called(demos: str | Demonstrations) -> str:
    """In messages."""
    return demos if isinstance(demos, str) else f"Demonstrations of {len(demos)} episodes"


def make_demonstrations(
    env: str, env_kwargs: Mapping[str, Any], seed: int, n: int = 50, **expert: float
) -> Demonstrations:
    """Demonstrations of the built-in expert, an exact one with its beta and weight; UserError where there is none."""
    if not has_expert(env):
        raise UserError(f"there is no built-in expert for {env}: give demonstrations (`demos`, or --demos FILE)")
    spec = exact_model(env, env_kwargs)
    if spec is not None:
        return demonstrations.expert_demonstrations(
            spec, n, seed, observation=env_kwargs.get("observation", "position"), **expert
        )
    if expert:
        raise UserError(f"the expert of {env} is scripted and has no {next(iter(expert))}; leave it out")
    return demonstrations.scripted_demonstrations(env, env_kwargs, n, seed)


def execute(run: Run, demos: Demonstrations | None) -> dict[str, Any]:
    """Learn inside the run folder, from the beginning or from its newest checkpoint; the summary of a finished run."""
    algorithm = find(run.config["algo"])
    method, run.history = algorithm.load(), algorithm.history
    config = make_config(method.Config, run.config["config"], f"{run.path}/config.json")
    if getattr(config, "threads", 1) > 1:
        from tacit.forward.nets import use_threads

        use_threads(config.threads)  # before a checkpoint is read, which would make JAX begin with one
    try:
        with run:
            if run.done:
                log.say(f"{run.path} is finished already; remove it to learn again")
                return dict(run.read("summary.json"))
            # A copy, so that the folder can be evaluated, reported and resumed wherever it is.
            if demos is not None and not (run.path / "demos.npz").exists():
                demonstrations.save(demos, run.path / "demos.npz")
            train = getattr(method, "train", None) or method.run
            summary = train(run, run.config["env"], run.config["env_kwargs"], demos, config, run.config["seed"])
            complete_cards(run, summary)
            # Before DONE: what is finished is never looked at again.
            run.write("summary.json", summary)
            explain_if_possible(run)
            run.finish(summary)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"continue with `tacit resume {run.path}`") from None
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise RunFailed(
            f"cannot write {error.filename or run.path}: {error.strerror}; nothing that was saved before is lost: "
            f"make room, then continue with `tacit resume {run.path}`"
        ) from None
    return dict(summary)
