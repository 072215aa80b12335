"""What every deep inverse method shares inside a run folder: training with checkpoints, saving, judging.

A method is a module of the registry with `Config`, `check` and `run`. Its Config adds `Settings` to its own settings,
its `check` calls `check` here, and its `run` calls `run` here with a `Method`, which says

    learn(env, demos, config, seed, state)   a generator of (state, metrics), one pair an outer iteration; with a state
                                             it continues from there exactly as if it had not stopped
    policy_of(state)                         the current policy as an artefact
    cost_of(state, config)                   the current cost as an artefact
    to_arrays(state), from_arrays(a, m)      (arrays, JSON metadata) of the whole state, and back; `from_arrays` raises
                                             UserError for what is not such a state
    iterations(config)                       how many outer iterations a whole run has, for the live line

A state is a frozen dataclass with at least the fields of `State`. Metrics have at least `dual/learner_cost` and
`dual/expert_cost` (mean cost of a step of the learner and of a demonstration, now), `dual/clipped` (share of the
learner's steps with an input beyond the clip) and those of PPO; violations of the true constraint are `truth/...`, and
nothing but these logs and the final judgement may look at them. A metric that is not finite ends the run as failed,
with its last checkpoint kept. Same settings and seed: same run, bit by bit.

The run folder gets the last policy (never the best: nobody could tell which that is), the cost that drove it, samples
of the states that were compared, curves, and an evaluation. A method whose cost is hard to read may supply a
`map_of(config, state, expert, seed)`, a second cost that is saved as the constraint map; boundaries and AUROC are the
map's then, and those of the cost itself otherwise.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.cost import CLIPPED_TOO_OFTEN, Inputs, LearnedCost
from tacit.demos.data import FEW_DEMONSTRATIONS
from tacit.errors import RunFailed, UserError
from tacit.evaluate import copies_for
from tacit.forward import agent
from tacit.forward.collect import interface_of, make_vec
from tacit.forward.failing import naming_checkpoint
from tacit.inverse import samples
from tacit.inverse.judge import judge, save_samples
from tacit.policy import Policy

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

Arrays = dict[str, NDArray[Any]]
CHECKPOINT_SECONDS = 180.0
"""A checkpoint is written at the end of an iteration if the last one is older than this."""
SHOWN = "{steps:,} steps  {fps:,.0f}/s  return {ret:.4g}  cost: learner {learner:.3g}, demonstrations {expert:.3g}"


class State(Protocol):
    """What a state of any method has."""

    @property
    def inputs(self) -> Inputs:
        """What the cost reads."""

    @property
    def iteration(self) -> int:
        """Outer iterations so far."""

    @property
    def steps(self) -> int:
        """Environment steps so far."""

    @property
    def nominal(self) -> NDArray[Any]:
        """(rows, width) of the learner's first steps, before there was a cost."""

    @property
    def nominal_truth(self) -> NDArray[Any]:
        """(rows,) the environment's own cost there, NaN if unknown."""

    @property
    def replay(self) -> NDArray[Any]:
        """(phases, rows, width) of the learner's later steps, oldest first."""

    @property
    def replay_truth(self) -> NDArray[Any]:
        """(phases, rows)"""


@dataclass(frozen=True)
class Settings:
    """Settings of a run, whatever the method."""

    demonstrations: int = 0
    """Learn from the first so many demonstrations; 0: from all."""
    eval_episodes: int = 100
    """Episodes of the final evaluation, stochastic and deterministic each."""
    checkpoint_every: int = 5
    """Outer iterations between checkpoints; there is one after the first, and after minutes without any."""


@dataclass(frozen=True)
class Method:
    """What a method supplies, see the module's docstring. States and configs are its own types."""

    learn: Callable[[VectorEnv, Demonstrations, Any, int, Any], Iterator[tuple[Any, dict[str, float]]]]
    policy_of: Callable[[Any], Policy]
    cost_of: Callable[[Any, Any], LearnedCost]
    to_arrays: Callable[[Any], tuple[Arrays, dict[str, Any]]]
    from_arrays: Callable[[Mapping[str, NDArray[Any]], Mapping[str, Any]], Any]
    iterations: Callable[[Any], int]
    map_of: Callable[[Any, Any, samples.Expert, int], LearnedCost | None] | None = None
    ceiling: Callable[[Any, LearnedCost, NDArray[Any]], float] = lambda config, cost, rows: 1.0
    """The largest cost that the map (or the cost, without one) can have, given the rows that the learner tried."""
    more: Callable[[Any, Any, Any, LearnedCost], dict[str, Any]] = lambda env, config, state, cost: {}
    """Further entries of the summary: (an evaluation environment, config, state, cost)."""
    save: Callable[[Run, Any], None] | None = None
    """How a checkpoint is written, if not by `save_checkpoint`."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Any) -> None:
    """UserError for settings that cannot work in this environment, before anything is written."""
    for name in ("checkpoint_every", "eval_episodes"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} must be at least 1, not {getattr(config, name)}")
    if config.demonstrations < 0:
        raise UserError(f"demonstrations cannot be negative: {config.demonstrations}; 0: all")
    agent.check(config, config.n_envs)
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        face = interface_of(env, scaled=config.scale_actions)
        samples.unscaled_inputs(env, face, config.inputs, config.use_action, config.squash, config.input_clip)
    finally:
        env.close()


def run(
    method: Method,
    run: Run,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    demos: Demonstrations,
    config: Any,
    seed: int,
) -> dict[str, Any]:
    """Learn, save, evaluate; continues from the newest checkpoint if there is one. The summary."""
    held = _held_out(run, demos, config.demonstrations)
    demos = demos.first(config.demonstrations)
    _warn_of(demos)
    env = make_vec(env_id, config.n_envs, **env_kwargs)
    try:
        state = train(method, run, env, demos, config, seed)
        horizon = samples.horizon_of(env, demos)
    finally:
        env.close()
    about = {"env": env_id, "env_kwargs": dict(env_kwargs), "demonstrations": demos.sha256, "run": run.name}
    policy, cost = method.policy_of(state), method.cost_of(state, config)
    arrays, card = policy.to_arrays()
    run.save_model("policy", arrays, {**card, **about})
    expert = samples.of_demonstrations(demos, policy.interface, state.inputs, config.at, horizon)
    started = time.perf_counter()
    drawn = None if method.map_of is None else method.map_of(config, state, expert, seed)
    drawn = cost if drawn is None else drawn
    mapped = time.perf_counter()
    for name, learned in (("cost", cost), ("map", drawn)):
        if name == "cost" or drawn is not cost:
            run.save_model(name, *learned.with_card(**about).to_arrays())
    test = make_vec(env_id, copies_for(max(1, config.eval_episodes)), **env_kwargs)
    try:
        with naming_checkpoint(run):
            summary = judge(method, test, demos, config, state, expert, cost, drawn, seed, held)
    finally:
        test.close()
    spent = {} if method.map_of is None else {"map": mapped - started}
    spent["evaluation"] = time.perf_counter() - mapped
    run.log_eval({"steps": state.steps, **summary["table"]})
    save_samples(run, state, expert)
    return summary | {"time": _time_budget(run) | spent, "steps": state.steps, "resets": getattr(state, "resets", 0)}


def train(method: Method, run: Run, env: VectorEnv, demos: Demonstrations, config: Any, seed: int) -> Any:
    """The last state. A training that fails stops with its last good checkpoint kept."""
    from tacit.run.progress import live

    state = start = begun(method, run)
    save = method.save or (lambda run, state: save_checkpoint(method, run, state))
    warned = False
    left = method.iterations(config) - (0 if start is None else start.iteration)
    saved = time.monotonic()
    with naming_checkpoint(run), live("learning", total=left) as update:
        for state, metrics in method.learn(env, demos, config, seed, start):
            bad = [key for key, value in metrics.items() if not np.isfinite(value)]
            if bad:
                raise RunFailed(f"training diverged after {state.steps} steps: {bad[0]} is not finite")
            run.log({"iteration": state.iteration, "steps": state.steps, **metrics})
            # The bootstrap may be long, and so may an iteration: nobody should lose more than minutes.
            due = state.iteration == 1 or time.monotonic() - saved > CHECKPOINT_SECONDS
            if due or state.iteration % config.checkpoint_every == 0 or state.steps >= config.total_steps:
                save(run, state)
                saved = time.monotonic()
            if metrics["dual/clipped"] > CLIPPED_TOO_OFTEN and not warned:
                warned = True
                share = metrics["dual/clipped"]
                warnings.warn(
                    f"{share:.0%} of the learner's steps have a cost input beyond the clip of {config.input_clip:g}"
                    ": the cost cannot tell them apart; use squash, a larger input_clip, or other inputs",
                    stacklevel=1,
                )
            update(_shown(state, metrics))
    assert state is not None
    if state.steps > 1.1 * config.total_steps:
        asked = f"{state.steps:,} steps were made, not {config.total_steps:,}"
        print(f"{asked}: the bootstrap and every iteration are completed", file=sys.stderr)
    return state


def _shown(state: State, metrics: Mapping[str, float]) -> str:
    line = SHOWN.format(
        steps=state.steps,
        fps=metrics.get("time/fps", float("nan")),
        ret=metrics.get("rollout/ep_rew_mean", float("nan")),
        learner=metrics["dual/learner_cost"],
        expert=metrics["dual/expert_cost"],
    )
    gap, violating = metrics.get("dual/feature_gap"), metrics.get("truth/violation_rate_episode")
    line += "" if gap is None else f"  feature gap {gap:.3g}"
    return line + ("" if violating is None else f"  (truth, not used: {violating:.0%} of episodes violate)")


def _warn_of(demos: Demonstrations) -> None:
    """Warnings about demonstrations that fit the environment but are few, or of another simulator."""
    from tacit.run import versions

    if len(demos) < FEW_DEMONSTRATIONS:
        warnings.warn(
            f"only {len(demos)} demonstrations: what they never do by chance looks forbidden; "
            f"at least {FEW_DEMONSTRATIONS} are better, the paper uses 10 to 50",
            stacklevel=1,
        )
    made, here = (demos.card.get("versions") or {}).get("mujoco"), versions(("mujoco",)).get("mujoco")
    if made and here and made != here:
        warnings.warn(
            f"the demonstrations were made with MuJoCo {made}, this is {here}: trajectories differ between versions",
            stacklevel=1,
        )


def _held_out(run: Run, demos: Demonstrations, used: int) -> Demonstrations | None:
    """Demonstrations that are not learned from: kept for calibration, or beyond the first so many; None without any."""
    from tacit.cost.calibration import HELD_OUT
    from tacit.demos import load

    if (run.path / HELD_OUT).exists():
        return load(run.path / HELD_OUT)
    return demos.subset(np.arange(used, len(demos))) if 0 < used < len(demos) else None


def _time_budget(run: Run) -> dict[str, float]:
    """Seconds of each phase of the learning, over the whole run."""
    keys = {"rollouts": "time/rollout_seconds", "PPO": "time/update_seconds", "inverse": "time/inverse_seconds"}
    keys |= {"set-up": "time/setup_seconds"}
    records = run.metrics()
    return {name: float(sum(record.get(key, 0.0) for record in records)) for name, key in keys.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints


def save_checkpoint(method: Method, run: Run, state: Any) -> None:
    arrays, metadata = method.to_arrays(state)
    run.save_checkpoint(state.iteration, arrays, {"state": metadata})


def begun(method: Method, run: Run) -> Any:
    """Where the newest checkpoint left the training; None without one."""
    saved = run.latest_checkpoint()
    if saved is None:
        return None
    try:
        return method.from_arrays(saved[1], saved[2].get("state", {}))
    except UserError as error:
        raise UserError(
            f"cannot continue from step-{saved[0]:08d} in {run.path / 'checkpoints'}: {error}; use the version of "
            "Tacit that provenance.json names, or remove that folder to start the run again"
        ) from None


def inputs_to_arrays(inputs: Inputs) -> tuple[Arrays, dict[str, Any]]:
    """(arrays, JSON metadata) of the inputs of a cost, for `to_arrays`."""
    fields = {key: getattr(inputs, key) for key in Inputs.__dataclass_fields__ if key not in ("centre", "scale")}
    return {"inputs/centre": inputs.centre, "inputs/scale": inputs.scale}, fields


def inputs_from_arrays(arrays: Mapping[str, NDArray[Any]], fields: Mapping[str, Any]) -> Inputs:
    """What `inputs_to_arrays` gave; KeyError for what is missing."""
    lists = {name: tuple(fields[name]) for name in ("names", "columns")}
    return Inputs(**{**fields, **lists}, centre=arrays["inputs/centre"], scale=arrays["inputs/scale"])
