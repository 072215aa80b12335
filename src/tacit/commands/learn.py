"""Learn the constraint behind demonstrations: a cost over states and actions, and a policy that respects it.

  tacit learn ALGORITHM ENV [--demos FILE] [options of the algorithm]

Without --demos the built-in expert makes them, with the same seed. The results are in a folder under --out, named after
the settings: the same command again skips a finished run and resumes one that was interrupted.

Examples:
  tacit learn mce-exact tacit/Gridworld-v0
  tacit learn mce-exact tacit/Gridworld-v0 --layout my_map.txt --slip 0.2 --demos logs.npz --beta 0.1 --budget 1e-3
  tacit learn mce-exact tacit/Gridworld-v0 --env layout=wall-3 slip=0.3 moves=8 --seed 4
  tacit learn mce-exact --help                   the options of an algorithm
"""

# No `from __future__ import annotations` here: the type of `config` is known only when the algorithm is.
import dataclasses
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from tacit.commands import EnvId, call, print_json
from tacit.commands.environment import EnvOptions, Options, gridworld, listed, resolve_env
from tacit.commands.summary import print_summary
from tacit.errors import RunFailed, UserError
from tacit.inverse.registry import ALGORITHMS, find, make_config
from tacit.run import Run

if TYPE_CHECKING:
    from tacit.demos import Demonstrations


def main(args: list[str]) -> Any:
    names = [arg for arg in args[:1] if not arg.startswith("-")]
    if not names:
        return call(_list_algorithms, "learn", _with_algorithms(), args)
    algorithm = find(names[0])
    if not algorithm.learns:
        raise UserError(f"{algorithm.name} does not learn from demonstrations: use `tacit {algorithm.name} ENV`")
    config_class = algorithm.load().Config

    def learn(
        env: EnvId,
        /,
        *,
        config: Annotated[config_class, tyro.conf.arg(name="")],  # type: ignore[valid-type]
        demos: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
        options: Options = EnvOptions(),  # noqa: B008 (frozen)
        seed: int = 0,
        out: str = "runs",
        json: bool = False,
    ) -> None:
        """Learn.

        Args:
            env: Environment, one of `tacit envs` or any registered as module:Name-v0.
            config: Settings of the algorithm.
            demos: Demonstration file; made by the built-in expert when not given.
            options: Options of the environment.
            seed: Of everything random.
            out: Folder for run folders.
            json: Print the summary as JSON.
        """
        env_kwargs, data, path = prepare(env, options.given(), demos, seed)
        algorithm.check(env, env_kwargs, config)
        run = Run.start(
            out,
            algo=algorithm.name,
            env=env,
            env_kwargs=env_kwargs,
            seed=seed,
            config=dataclasses.asdict(config),
            demos={"path": path, "sha256": data.sha256},
            command=shlex.join(["tacit", "learn", *args]),
        )
        show(run, execute(run, data), json)

    return call(learn, f"learn {algorithm.name}", f"{algorithm.name}: {algorithm.summary}.\n\n{__doc__}", args[1:])


def _list_algorithms(algorithm: Annotated[str, tyro.conf.arg(metavar="ALGORITHM")], /) -> None:
    """Parse `tacit learn --help` and `tacit learn`, where no algorithm is named."""
    raise UserError(f"the algorithm comes first: tacit learn {algorithm} ENV ...")


def _with_algorithms() -> str:
    lines = [f"  {algorithm.name:<12} {algorithm.summary}" for algorithm in ALGORITHMS.values() if algorithm.learns]
    return "\n".join([(__doc__ or "").strip(), "", "Algorithms:", *lines])


# ---------------------------------------------------------------------------------------------------------------------
# Preparing: environment and demonstrations


def prepare(
    env: str, given: Mapping[str, Any], demos: str | None, seed: int
) -> tuple[dict[str, Any], "Demonstrations", str | None]:
    """(complete options of the environment, demonstrations, their file).

    Demonstrations know in which environment they were made: its options are the default for those not `given` at all.
    """
    from tacit import demos as demonstrations

    included = demonstrations.shipped(env)
    if demos is None and included is not None:
        print(f"no --demos given: the demonstrations that come with Tacit, {included.name}", file=sys.stderr)
        demos = str(included)
    if demos is None:
        env_kwargs = resolve_env(env, given)
        return env_kwargs, make_demonstrations(env, env_kwargs, seed), None
    data = demonstrations.load(demos)
    made_in, made_with = data.card.get("env"), data.card.get("env_kwargs") or {}
    if made_in is not None and made_in != env:
        raise UserError(f"{demos} was made in {made_in}, not in {env}")
    if made_in == env and made_with and not given:
        print(f"environment options are those of {demos}: {listed(made_with)}", file=sys.stderr)
        given = made_with
    env_kwargs = resolve_env(env, given)
    different = {key: value for key, value in made_with.items() if key in env_kwargs and env_kwargs[key] != value}
    if different:
        print(f"warning: {demos} was made with other options: {listed(different)}", file=sys.stderr)
    spec = gridworld(env, env_kwargs)
    demonstrations.validate(data, env if spec is None else spec)
    return env_kwargs, data, demos


def make_demonstrations(
    env: str, env_kwargs: Mapping[str, Any], seed: int, n: int = 50, *, announce: bool = True
) -> "Demonstrations":
    """Demonstrations of the built-in expert; UserError where there is none."""
    spec = gridworld(env, env_kwargs)
    if spec is None:
        raise UserError(f"there is no built-in expert for {env}: give demonstrations with --demos FILE")
    from tacit.demos import expert_demonstrations

    if announce:
        print(f"no --demos given: {n} demonstrations by the built-in expert, seed {seed}", file=sys.stderr)
    return expert_demonstrations(spec, n, seed, observation=env_kwargs.get("observation", "position"))


# ---------------------------------------------------------------------------------------------------------------------
# Running


def execute(run: Run, demos: "Demonstrations | None") -> dict[str, Any]:
    """Learn inside the run folder, from the beginning or from its newest checkpoint; the summary of a finished run."""
    from tacit.demos import save

    algorithm = find(run.config["algo"]).load()
    config = make_config(algorithm.Config, run.config["config"], f"{run.path}/config.json")
    with run:
        if run.done:
            print(f"{run.path} is finished already; remove it to learn again", file=sys.stderr)
            return dict(run.read("summary.json"))
        try:
            # A copy, so that the folder can be evaluated, reported and resumed wherever it is.
            if demos is not None and not (run.path / "demos.npz").exists():
                save(demos, run.path / "demos.npz")
            summary = algorithm.run(run, run.config["env"], run.config["env_kwargs"], demos, config, run.config["seed"])
            if not run.done:
                run.finish(summary)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"continue with `tacit resume {run.path}`") from None
    return dict(summary)


def show(run: Run, summary: Mapping[str, Any], json: bool) -> None:
    """The summary, for people or machines; RunFailed when the run proved that there is nothing to learn."""
    if json:
        print_json({"run": str(run.path), "summary": summary})
    elif summary.get("status") != "infeasible":
        print_summary(run, summary)
        print(run.path)
    if summary.get("status") == "infeasible":
        raise RunFailed(f"{summary['diagnosis']['text']} The proof is in {run.path}")
    if summary.get("status") == "iteration limit":
        print("warning: stopped at the iteration limit; the certificate says how far it got", file=sys.stderr)
