"""Tacit for Python: learn from an environment and demonstrations, then ask the result.

    import tacit
    learned = tacit.learn("tacit/Pendulum-v0", total_steps=1e5, progress=True)
    learned.rule                                        what is forbidden, in words
    learned.cost(observations)                          the learned cost, (n,)
    learned.policy.predict(obs, deterministic=True)     as in Stable-Baselines3
    learned.plot(), learned.video("film.gif"), learned.report()

The run folder is the one of the command line: `tacit report latest` and all other commands read it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from tacit.algorithms import find
from tacit.cost.calibration import Calibration, calibrate_run
from tacit.cost.learned import LearnedCost, load_cost
from tacit.cost.table import TableCost
from tacit.demos import Demonstrations, from_arrays, load
from tacit.envs.local import identify
from tacit.envs.options import exact_model
from tacit.envs.registry import LOCAL, make_vec
from tacit.errors import UserError
from tacit.evaluate import evaluate as run_episodes
from tacit.evaluate import summarize
from tacit.explain import explain, in_words, refresh_explanation, save_explanation
from tacit.explain.alarms import Alarm, alarms
from tacit.explain.brief import agent_in_brief, in_brief, rule_of
from tacit.explain.rules import Clause
from tacit.forward.soft_policy_iteration import plan
from tacit.launch import execute, start_run
from tacit.plots.axes import plot_cost
from tacit.plots.video import Actor, check_drawing, checked, record_beside
from tacit.policy import Policy, TablePolicy
from tacit.presets import settings
from tacit.run import Run, disk, log, storage
from tacit.run.find import find_run, other_seeds
from tacit.run.naming import OTHER_SEED
from tacit.run.summary import Summary

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.vector import VectorEnv
    from matplotlib.axes import Axes

    Environment = str | gym.Env[Any, Any] | VectorEnv | Callable[[], gym.Env[Any, Any]]
    Demos = str | os.PathLike[str] | Demonstrations | Iterable[Any] | None

COPIES = 64
"""Copies of an environment that are evaluated side by side."""
NOMINAL_STEPS = 100_000
"""Steps of an agent without constraint, for a film."""


@overload
def learn(
    env: Environment,
    demos: Demos = None,
    method: Literal["mce"] = "mce",
    preset: str | None = None,
    seed: int = 0,
    *,
    out: str | os.PathLike[str] = "runs",
    env_kwargs: Mapping[str, Any] | None = None,
    progress: bool = False,
    anyway: bool = False,
    trim: str | float = "auto",
    **settings: Unpack[settings.MCE],
) -> Learned: ...
@overload
def learn(
    env: Environment,
    demos: Demos = None,
    method: str = "mce",
    preset: str | None = None,
    seed: int = 0,
    *,
    out: str | os.PathLike[str] = "runs",
    env_kwargs: Mapping[str, Any] | None = None,
    progress: bool = False,
    anyway: bool = False,
    trim: str | float = "auto",
    **settings: Any,
) -> Learned: ...
def learn(
    env: Environment,
    demos: Demos = None,
    method: str = "mce",
    preset: str | None = None,
    seed: int = 0,
    *,
    out: str | os.PathLike[str] = "runs",
    env_kwargs: Mapping[str, Any] | None = None,
    progress: bool = False,
    anyway: bool = False,
    trim: str | float = "auto",
    **settings: Any,
) -> Learned:
    """Learn a cost and a policy from demonstrations: what `tacit learn METHOD ENV` does, with the same run folder.

    Args:
        env: An id ("module:Name-v0" for one of your own), a Gymnasium environment, a vector environment, or a function
            that makes an environment.
        demos: A file, `Demonstrations`, or a list with (observations, actions) of every trajectory, better with
            rewards: (observations, actions, rewards, terminated). Nothing for those that come with Tacit.
        method: One of `tacit learn --help`. (The setting `method` of mce-exact is for `tacit.solve` and the command.)
        preset: Preset that gives the defaults of the settings; the method's own unless named ("reference" for mce).
        seed: Random seed.
        out: Folder in which the run folder is made.
        env_kwargs: Options of an environment that is given by its id.
        progress: Show a progress bar. Without it, progress goes to the logger "tacit".
        anyway: Learn from demonstrations although replaying says that they do not fit the environment.
        trim: Which demonstrations to leave out: "auto" those that look unlike the others (`tacit.demos.suspects`),
            "off" none, a share such as 0.2 those that stand out most.
        settings: On top of the preset; `tacit.presets.settings` describes them.

    Called again it finds the finished run, or goes on with an interrupted one.
    """
    if "algo" in settings:
        warnings.warn("tacit.learn(algo=...) is now called method=...", DeprecationWarning, stacklevel=2)
        method = settings.pop("algo")
    algorithm = find(method, here=True)
    if not algorithm.learns:
        raise UserError(f"{method} does not learn from demonstrations: use `tacit {method}`")
    world = identify(env)
    if env_kwargs and not isinstance(env, str):
        raise UserError("env_kwargs are for an environment that is given by its id: make this one with them")
    if world.copies is not None and "n_envs" in {field.name for field in fields(algorithm.load().Config)}:
        settings.setdefault("n_envs", world.copies)
    asked = {"method": method, "seed": seed, **settings}
    asked |= {name: value for name, value in (("env_kwargs", env_kwargs), ("preset", preset)) if value is not None}
    with log.bars() if progress else nullcontext():
        run, data = start_run(
            method,
            world.id,
            out=os.fspath(out),
            env_kwargs=world.options if env_kwargs is None else env_kwargs,
            seed=seed,
            preset=preset,
            settings=settings,
            demos=_given(demos, world.id),
            anyway=anyway,
            trim=trim,
            command=f"tacit.learn({world.id!r}, {', '.join(f'{name}={value!r}' for name, value in asked.items())})",
        )
        return Learned(run, execute(run, data))


def _given(demos: Demos, env_id: str) -> str | Demonstrations | None:
    """Demonstrations as `start_run` takes them."""
    if isinstance(demos, str | os.PathLike):
        demos = os.fspath(demos)
        if not env_id.startswith(LOCAL):
            return demos
        demos = load(demos)
    if demos is None:
        return None
    data = demos if isinstance(demos, Demonstrations) else from_arrays(demos)
    # An environment that exists in this session alone has no id that a file could name.
    return replace(data, card={**data.card, "env": None, "env_kwargs": {}}) if env_id.startswith(LOCAL) else data


@dataclass(frozen=True, repr=False)
class Learned:
    """A finished run: the learned cost, the policy, and what can be asked about them."""

    run: Run
    summary: dict[str, Any]
    """What summary.json holds: the table of what agents do, boundaries, quality of the cost."""

    @classmethod
    def load(cls, run: str | os.PathLike[str]) -> Learned:
        """A finished run: its folder, the beginning of its name within ./runs, or "latest"."""
        finished = find_run(run)
        if not finished.done:
            raise UserError(f"{finished.path} is not finished: `tacit resume {finished.path}` first")
        return cls(finished, dict(finished.read("summary.json")))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the run to a folder that does not exist yet; its path. `Learned.load` reads it, so do all commands."""
        target = Path(folder)
        if target.exists():
            raise UserError(f"{target} exists already: name a folder that does not")
        files = [path for path in disk.listed(self.path, "**/*") if path.is_file() and path.name != "config.json"]
        for path in (*files, self.path / "config.json"):  # the last one makes a run folder of it
            inner = path.relative_to(self.path)
            if inner.parts[0] != "checkpoints" and not path.name.startswith("."):
                storage.atomic_write_bytes(target / inner, storage.read_bytes(path))
        return target

    @property
    def path(self) -> Path:
        """The run folder, for every command that takes a RUN."""
        return self.run.path

    @property
    def cost(self) -> LearnedCost | TableCost:
        """The cost that drove the policy: cost(obs) -> (n,), see tacit.cost."""
        return load_cost(self.run)

    @property
    def map(self) -> LearnedCost | TableCost:
        """The constraint map, an additive cost to read; UserError for methods that have none."""
        return load_cost(self.run, "map")

    @property
    def policy(self) -> Policy | TablePolicy:
        """The last policy: policy.predict(obs, deterministic=True) -> (actions, None), policy.act(obs, rng)."""
        return load_policy(self.run)

    @property
    def rule(self) -> str | None:
        """What is forbidden, in short; None where no rule could be read. `explain` says how far to trust it."""
        return rule_of(self.run)

    @property
    def alarms(self) -> list[Alarm]:
        """Reasons not to use the cost, and notes, from the run alone: no truth is needed. Empty if there are none."""
        return alarms(cast(Summary, self.summary), self.run.metrics(), other_seeds(self.run))

    def explain(self, of: Literal["map", "cost"] | None = None) -> str:
        """What was learned and what the data leave open, in words: what `tacit explain` prints."""
        explanation = explain(self.run, of)
        with self.run:
            save_explanation(self.run, explanation)
        return "\n".join(in_words(explanation))

    def evaluate(self, episodes: int = 100, seed: int = 0) -> dict[str, Any]:
        """{metric: {"value", "low", "high", "n"}} of the policy in fresh episodes, with 95 % intervals."""
        return sampled(self.run, episodes, seed)

    def calibrate(
        self, demos: Demos = None, delta: float = 0.1, against: Demonstrations | None = None
    ) -> dict[str, Calibration]:
        """Choose the threshold above which a state is forbidden: a fresh demonstration passes with 1 - `delta`.

        `demos` are demonstrations that were not learned from; without them, those that the run held out.
        """
        given = _given(demos, self.run.config["env"])
        calibrations = calibrate_run(self.run, load(given) if isinstance(given, str) else given, delta, against)
        with self.run:
            refresh_explanation(self.run)
        return calibrations

    def retrain(
        self,
        charge: Literal["soft", "excess", "set", "price", "budget", "raw"] = "soft",
        *,
        env: str | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        seed: int | None = None,
        out: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> Learned:
        """A fresh agent from nothing on the frozen cost: what `tacit retrain` and `tacit transfer` do.

        Args:
            charge: The cost as a set of forbidden steps with a soft edge (soft) or a hard one (set), or as a price:
                --as of the commands.
            env: Another environment that has the inputs of the cost; without it, that of the run.
            env_kwargs: Options of the other environment.
            seed: Random seed; by default the run's seed + 1000.
            out: Folder in which the run folder is made; by default that of the run.
            settings: `total_steps`, `price`, `threshold` and others of PPO-Lagrangian.
        """
        config = self.run.config
        options = config["env_kwargs"] if env is None and env_kwargs is None else env_kwargs
        fresh, data = start_run(
            "retrain",
            config["env"] if env is None else env,
            out=str(self.path.parent) if out is None else os.fspath(out),
            env_kwargs=options,
            seed=config["seed"] + OTHER_SEED if seed is None else seed,
            settings={**settings, "charge": charge, "cost": str(self.path)},
            command=f"Learned.retrain({charge!r})",
        )
        return Learned(fresh, execute(fresh, data))

    def plot(self, *features: str, ax: Axes | None = None) -> Axes:
        """The cost along one feature or over two, on matplotlib axes; by default those that the rule names first."""
        cost = load_cost(self.run, "map" if (self.path / "model/map.safetensors").exists() else "cost")
        return plot_cost(cost, self.run.learned_from(), features or self._features(cost), ax)

    def _features(self, cost: LearnedCost | TableCost) -> tuple[str, ...]:
        """The features of the rule's first clause."""
        if isinstance(cost, TableCost) or not (self.path / "explanation.json").exists():
            return cost.names[:1]
        clauses = self.run.read("explanation.json").get("clauses") or []
        return Clause.from_json(clauses[0]).features[:2] if clauses else cost.names[:1]

    def video(
        self, file: str | os.PathLike[str] = "film.gif", *, seed: int = 0, beside: Actor | Learned | None = None
    ) -> Path:
        """Film the policy next to an agent that follows the reward alone; the file, .gif or .mp4.

        `beside` is that agent: a policy or another run; without it, `unconstrained`.
        """
        target = checked(file)
        config = self.run.config
        check_drawing(config["env"], config["env_kwargs"])
        other = beside.policy if isinstance(beside, Learned) else beside or self.unconstrained()
        agents = {"reward alone": other, "learned": self.policy}
        record_beside(config["env"], config["env_kwargs"], agents, target, seed=seed)
        return target

    def unconstrained(self) -> Policy | TablePolicy:
        """An agent that follows the reward alone: computed on a gridworld, otherwise trained with PPO (100,000 steps).

        It is trained once, into a run folder beside this one. So short a training may not show all that it could do.
        """
        config = self.run.config
        spec = exact_model(config["env"], config["env_kwargs"])
        if spec is not None:
            mdp = spec.model()
            return TablePolicy(plan(mdp, mdp.rewards, config["config"].get("beta", 0.1)).policy, spec.states_of)
        log.say(f"training an agent without constraint for the film: {NOMINAL_STEPS:,} steps")
        options = {"total_steps": NOMINAL_STEPS, "eval_episodes": 10}
        nominal, data = start_run(
            "ppo",
            config["env"],
            out=str(self.path.parent),
            env_kwargs=config["env_kwargs"],
            seed=config["seed"],
            settings=options,
            demos=None,
        )
        execute(nominal, data)
        return load_policy(nominal)

    def report(self, file: str | os.PathLike[str] | None = None) -> Path:
        """The HTML page about the run, written into its folder unless a file is named; its path."""
        from tacit.report import write_report  # brings matplotlib

        return Path(write_report([self.run], self.path / "report.html" if file is None else file))

    def __repr__(self) -> str:
        about = f"{self.run.config['algo']} on {self.run.config['env']}, seed {self.run.config['seed']}"
        return f"<Learned {about}: {'; '.join(in_brief(self.run))}; {self.path}>"

    def _repr_html_(self) -> str:
        """For notebooks: the rule, what the agent does, and the picture of the explanation."""
        config = self.run.config
        rows = {
            "method": f"{config['algo']} on {config['env']}, seed {config['seed']}",
            "forbidden": self.rule or "no rule",
            "learned agent": agent_in_brief(self.summary) or "not measured",
            "run folder": str(self.path),
        }
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        picture = self.path / "explanation.svg"
        svg = storage.read_bytes(picture).decode() if picture.exists() else ""
        return f"<table>{''.join(cells)}</table>{svg[svg.find('<svg') :] if '<svg' in svg else ''}"


# ---------------------------------------------------------------------------------------------------------------------
# Shared with `tacit eval`


def load_policy(run: Run) -> Policy | TablePolicy:
    """The run's policy; UserError where there is none."""
    if (run.path / "model" / "proof.safetensors").exists():
        raise UserError(f"{run.path} has no policy: the run proved that no policy fits")
    arrays, card = run.load_model("policy")
    if card.get("kind") != "tabular":
        return Policy.from_arrays(arrays, card)
    spec, table = exact_model(run.config["env"], run.config["env_kwargs"]), arrays.get("policy")
    if spec is None or table is None or table.shape != (spec.n_states, spec.n_actions):
        raise UserError(f"{run.path}/model/policy.safetensors does not fit its environment")
    return TablePolicy(table, spec.states_of)


def sampled(run: Run, episodes: int, seed: int) -> dict[str, Any]:
    """Means and intervals over fresh episodes."""
    if episodes < 1:
        raise UserError(f"an evaluation needs at least 1 episode, not {episodes}")
    policy = load_policy(run)
    env = make_vec(run.config["env"], min(COPIES, episodes), **run.config["env_kwargs"])
    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    discount = spec.discount if spec else run.config["config"].get("gamma", 1.0)
    try:
        row = summarize(run_episodes(env, policy, episodes, seed=seed, discount=discount))
    finally:
        env.close()
    return {key: value for key, value in row.items() if isinstance(value, dict)}
