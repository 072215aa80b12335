"""The common part of all deep inverse methods inside a run folder: settings of a run, training, saving, judging.

A method derives from `Method` (most of them through `tacit.inverse.loop.Method`, which has the loop). Its metrics have
at least `dual/learner_cost` and `dual/expert_cost` (mean cost of a step of the learner and of a demonstration, now),
`dual/clipped` (share of the learner's steps with an input beyond the clip) and those of PPO. Violations of the true
constraint are logged as `truth/...`; nothing but these logs and the final judgement may look at them. Same settings
and seed: same run, bit by bit.

The run folder gets the last policy (never the best: nobody could tell which that is), the cost that drove it, samples
of the states that were compared, curves, and an evaluation. A method whose cost is hard to read may draw a constraint
map (`map_of`), a second cost; boundaries and AUROC are the map's then, and those of the cost itself otherwise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.cost import CLIPPED_TOO_OFTEN, Inputs, LearnedCost
from tacit.cost.calibration import HELD_OUT
from tacit.demos import load
from tacit.demos.data import FEW_DEMONSTRATIONS
from tacit.envs.options import other_options
from tacit.evaluate import copies_for
from tacit.forward import agent
from tacit.forward.collect import interface_of, make_vec
from tacit.inverse import samples
from tacit.inverse.judge import judge, save_samples
from tacit.metrics import percent
from tacit.policy import Interface, Policy
from tacit.run import versions
from tacit.run.trainer import Metrics, Saved, Training, naming_checkpoint
from tacit.run.trainer import train as train_in_folder

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

TRUTH = {"rollout/cost_mean": "truth/violation_rate_step", "rollout/ep_violation_rate": "truth/violation_rate_episode"}
"""Log names for metrics of the environment's own cost, which no learner may see."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run, common to all methods."""

    demonstrations: int = 0
    """Learn only from this many of the first demonstrations; 0: all."""
    eval_episodes: int = 100
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""
    checkpoint_every: int = 5
    """Outer iterations between checkpoints. There is also one after the first, and after three minutes."""


class Method:
    """The methods that a run folder needs from an algorithm. States and configs have the algorithm's own types."""

    name: ClassVar[str]
    """Name in `tacit learn NAME`."""
    config_type: ClassVar[type[Any]]
    """A frozen dataclass that derives from `Settings`; its fields are the options of `tacit learn NAME`."""
    map_of: Callable[[Any, Any, samples.Expert, int], LearnedCost | None] | None = None
    """(config, state, demonstrations, seed) -> the constraint map; None if the cost is readable without a map."""

    @property
    def Config(self) -> type[Any]:
        return self.config_type

    def learn(
        self, env: VectorEnv, demos: Demonstrations, config: Any, seed: int = 0, state: Any = None
    ) -> Iterator[tuple[Any, Metrics]]:
        """Yield (state, metrics) per outer iteration. With a state, it continues as if it had not stopped."""
        raise NotImplementedError

    def inputs_of(
        self, env: VectorEnv, interface: Interface, config: Any, demos: Demonstrations | None = None
    ) -> Inputs:
        """The inputs of the cost before scaling. UserError for a name that the environment does not have."""
        return samples.unscaled_inputs(env, interface, config)

    def policy_of(self, state: Any) -> Policy:
        """The present policy as an artefact."""
        raise NotImplementedError

    def cost_of(self, state: Any, config: Any) -> LearnedCost:
        """The present cost as an artefact."""
        raise NotImplementedError

    def to_arrays(self, state: Any) -> Saved:
        """(arrays, JSON metadata) of the whole state."""
        raise NotImplementedError

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Any:
        """The state that `to_arrays` saved; UserError for anything else."""
        raise NotImplementedError

    def iterations(self, config: Any) -> int:
        """Outer iterations of a whole run, for the progress bar."""
        raise NotImplementedError

    def ceiling(self, config: Any, cost: LearnedCost, rows: NDArray[Any]) -> float:
        """The largest cost that the map (without one, the cost) can have, given the rows that the learner tried."""
        return 1.0

    def details(self, env: VectorEnv, config: Any, state: Any, cost: LearnedCost) -> dict[str, Any]:
        """Further entries of the summary, from an evaluation environment."""
        return {}

    def check(self, env_id: str, env_kwargs: Mapping[str, Any], config: Any) -> None:
        """UserError for settings that cannot work in this environment, before anything is written."""
        agent.check_ranges(config, ("checkpoint_every", "eval_episodes"), 1)
        agent.check_ranges(config, ("demonstrations",), 0)
        agent.check(config, config.n_envs)
        env = make_vec(env_id, 1, **env_kwargs)
        try:
            self.inputs_of(env, interface_of(env, scaled=config.scale_actions), config)
        finally:
            env.close()

    def train(
        self, run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Any, seed: int
    ) -> dict[str, Any]:
        """Learn, save and evaluate; returns the summary. Continues from the newest checkpoint if there is one."""
        return train(self, run, env_id, env_kwargs, demos, config, seed)


def train(
    method: Method,
    run: Run,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    demos: Demonstrations,
    config: Any,
    seed: int,
) -> dict[str, Any]:
    """Learn, save and evaluate; returns the summary. Continues from the newest checkpoint if there is one."""
    held_out = _held_out(run, demos, config.demonstrations)
    demos = demos.first(config.demonstrations)
    _warn_of(demos)
    env = make_vec(env_id, config.n_envs, **env_kwargs)
    try:
        state = train_in_folder(run, _training(method, env, demos, config, seed))
        horizon = samples.horizon_of(env, demos)
    finally:
        env.close()
    about = {"env": env_id, "env_kwargs": dict(env_kwargs), "demonstrations": demos.sha256, "run": run.name}
    policy, cost = method.policy_of(state), method.cost_of(state, config)
    arrays, card = policy.to_arrays()
    run.save_model("policy", arrays, {**card, **about})
    expert = samples.of_demonstrations(demos, policy.interface, state.inputs, config.at, horizon)
    started = time.perf_counter()
    cost_map = None if method.map_of is None else method.map_of(config, state, expert, seed)
    cost_map = cost if cost_map is None else cost_map
    mapped = time.perf_counter()
    for name, learned in (("cost", cost), ("map", cost_map)):
        if name == "cost" or cost_map is not cost:
            run.save_model(name, *learned.with_card(**about).to_arrays())
    test = make_vec(env_id, copies_for(max(1, config.eval_episodes)), **env_kwargs)
    try:
        with naming_checkpoint(run):
            summary = judge(method, test, demos, config, state, expert, cost, cost_map, seed, held_out)
    finally:
        test.close()
    made_with = demos.card.get("env_kwargs") or {}
    if demos.card.get("env") and (different := other_options(env_id, made_with, env_kwargs)):
        summary["other_options"] = different
    spent = {} if method.map_of is None else {"map": mapped - started}
    spent["evaluation"] = time.perf_counter() - mapped
    run.log_eval({"steps": state.steps, **summary["table"]})
    save_samples(run, state, expert)
    return summary | {"time": _time_budget(run) | spent, "steps": state.steps, "resets": getattr(state, "resets", 0)}


def _training(method: Method, env: VectorEnv, demos: Demonstrations, config: Any, seed: int) -> Training:
    warned = False

    def learn(state: Any) -> Iterator[tuple[Any, Metrics]]:
        nonlocal warned
        for new, metrics in method.learn(env, demos, config, seed, state):
            if metrics["dual/clipped"] > CLIPPED_TOO_OFTEN and not warned:
                warned = True
                warnings.warn(
                    f"{percent(metrics['dual/clipped'])} of the learner's steps have a cost input beyond the clip of "
                    f"{config.input_clip:g}: the cost cannot tell them apart; use squash, a larger input_clip, or "
                    "other inputs",
                    stacklevel=1,
                )
            yield new, metrics

    return Training(
        learn=learn,
        to_arrays=method.to_arrays,
        from_arrays=method.from_arrays,
        progress_line=_progress_line,
        iterations=method.iterations(config),
        total_steps=config.total_steps,
        checkpoint_every=config.checkpoint_every,
    )


def truth_apart(metrics: Metrics) -> Metrics:
    """Metrics of PPO, with the environment's own cost under truth/."""
    return {TRUTH.get(key, key): value for key, value in metrics.items() if key != "rollout/ep_cost_mean"}


def _progress_line(state: Any, metrics: Metrics) -> str:
    fps, mean_return = metrics.get("time/fps", np.nan), metrics.get("rollout/ep_rew_mean", np.nan)
    line = f"{state.steps:,} steps  {fps:,.0f}/s  return {mean_return:.4g}  cost: learner "
    line += f"{metrics['dual/learner_cost']:.3g}, demonstrations {metrics['dual/expert_cost']:.3g}"
    gap, violating = metrics.get("dual/feature_gap"), metrics.get("truth/violation_rate_episode")
    line += "" if gap is None else f"  feature gap {gap:.3g}"
    return line + ("" if violating is None else f"  (truth, not used: {percent(violating)} of episodes violate)")


def _warn_of(demos: Demonstrations) -> None:
    """Warn about demonstrations that fit the environment but are few, or were made with another simulator version."""
    if len(demos) < FEW_DEMONSTRATIONS:
        count = "is only 1 demonstration" if len(demos) == 1 else f"are only {len(demos)} demonstrations"
        warnings.warn(
            f"there {count}: what is missing from them by chance looks forbidden. "
            f"Use at least {FEW_DEMONSTRATIONS} (the paper uses 10 to 50)",
            stacklevel=1,
        )
    made, here = (demos.card.get("versions") or {}).get("mujoco"), versions(("mujoco",)).get("mujoco")
    if made and here and made != here:
        warnings.warn(
            f"the demonstrations were made with MuJoCo {made}, but this is {here}: trajectories depend on the version",
            stacklevel=1,
        )


def _held_out(run: Run, demos: Demonstrations, used: int) -> Demonstrations | None:
    """Demonstrations that were not learned from: kept for calibration, or beyond the first `used`; None if none."""
    if (run.path / HELD_OUT).exists():
        return load(run.path / HELD_OUT)
    return demos.subset(np.arange(used, len(demos))) if 0 < used < len(demos) else None


def _time_budget(run: Run) -> dict[str, float]:
    """Seconds of each phase of learning, over the whole run."""
    keys = {"rollouts": "time/rollout_seconds", "PPO": "time/update_seconds", "inverse": "time/inverse_seconds"}
    keys |= {"set-up": "time/setup_seconds"}
    records = run.metrics()
    return {name: float(sum(record.get(key, 0.0) for record in records)) for name, key in keys.items()}
