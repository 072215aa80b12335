"""What the inverse methods are compared with: agents that learn no constraint, inside a run folder like theirs.

    ppo     follows the reward alone: the lower reference, how much would be violated without a constraint
    rcpo    is told the true cost: the upper reference, how much can be earned without violating

Neither reads demonstrations; where there are any they are measured beside the agent. The last policy is kept, not the
best. Budgets and engine are those of the inverse methods, so that the numbers can stand in one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError
from tacit.forward import agent
from tacit.forward.collect import interface_of, make_vec
from tacit.forward.failing import naming_checkpoint
from tacit.policy import Policy

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

SHOWN = "{steps:,} steps  {fps:,.0f}/s  return {ret:.4g}"
TRUTH = {"rollout/cost_mean": "truth/violation_rate_step", "rollout/ep_violation_rate": "truth/violation_rate_episode"}
"""The same names as in the logs of the inverse methods."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run, whatever the reference."""

    eval_episodes: int = 100
    """Episodes of the final evaluation, stochastic and deterministic each."""
    checkpoint_every: int = 20
    """Rollouts between checkpoints."""


@dataclass(frozen=True)
class Reference:
    """An agent: states are its own type, with `steps` and `iterations`."""

    label: str
    """Of its row in tables."""
    statement: str
    learn: Callable[[VectorEnv, Any, int, Any], Iterator[tuple[Any, dict[str, float]]]]
    policy_of: Callable[[Any], Policy]
    to_arrays: Callable[[Any], tuple[dict[str, NDArray[Any]], dict[str, Any]]]
    from_arrays: Callable[[Mapping[str, NDArray[Any]], Mapping[str, Any]], Any]


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Any, needs_cost: bool = False) -> None:
    """UserError for settings that cannot work, before a run folder is made and hours are spent."""
    for name in ("total_steps", "n_envs", "eval_episodes", "checkpoint_every"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} must be at least 1, not {getattr(config, name)}")
    agent.check(config, config.n_envs)
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        face = interface_of(env, scaled=config.scale_actions)
        if needs_cost:
            _require_cost(env, face, env_id)
    finally:
        env.close()


def _require_cost(env: VectorEnv, face: Any, env_id: str) -> None:
    """One step shows whether there is a cost."""
    from tacit.forward import collect

    still = Policy(
        face,
        (np.zeros((face.obs_size, face.act_size), np.float32),),
        (np.zeros(face.act_size, np.float32),),
        None if face.n_actions else np.zeros(face.act_size, np.float32),
        np.zeros(face.obs_size, np.float32),
        np.ones(face.obs_size, np.float32),
        np.inf,
    )
    rollout, _ = collect.collect(env, still, collect.begin(env, face, 0), 1, np.random.default_rng(0))
    if rollout.cost is None:
        raise UserError(f'{env_id} does not report info["cost"], which this reference is to be told')


def run(
    reference: Reference,
    run: Run,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    demos: Demonstrations | None,
    config: Any,
    seed: int,
) -> dict[str, Any]:
    """Train, save, evaluate; continues from the newest checkpoint if there is one. The summary."""
    from tacit.evaluate import copies_for
    from tacit.forward.expert import evaluations

    env = make_vec(env_id, config.n_envs, **env_kwargs)
    try:
        state = train(reference, run, env, config, seed)
    finally:
        env.close()
    policy = reference.policy_of(state)
    arrays, card = policy.to_arrays()
    run.save_model("policy", arrays, {**card, "env": env_id, "env_kwargs": dict(env_kwargs), "run": run.name})
    test = make_vec(env_id, copies_for(config.eval_episodes), **env_kwargs)
    try:
        with naming_checkpoint(run):
            table = evaluations(test, policy, config.eval_episodes, seed, config.gamma)
    finally:
        test.close()
    table = beside(demos, table, config.gamma)
    run.log_eval({"steps": state.steps, **table})
    records = run.metrics()
    phases = {"rollouts": "time/rollout_seconds", "PPO": "time/update_seconds"}
    return {
        "statement": reference.statement,
        "table": table,
        "labels": {"learned": reference.label, "learned, deterministic": f"{reference.label}, without noise"},
        "time": {name: float(sum(record.get(key, 0.0) for record in records)) for name, key in phases.items()},
        "steps": state.steps,
    }


def beside(demos: Demonstrations | None, table: Mapping[str, Any], discount: float = 1.0) -> dict[str, Any]:
    """The table of a policy as the inverse methods have it, below the demonstrations if there are any."""
    from tacit.inverse.exact_run import demonstrated

    rows = {"learned": table["stochastic"], "learned, deterministic": table["deterministic"]}
    if demos is None:
        return rows
    return {"demonstrations": demonstrated(demos, discount), **rows}


def train(reference: Reference, run: Run, env: VectorEnv, config: Any, seed: int) -> Any:
    """The last state. A diverging training stops with its last good checkpoint kept."""
    from tacit.run.progress import live

    state = start = begun(reference, run)
    if start is not None and start.steps >= config.total_steps:
        return start
    total = -(-config.total_steps // config.rollout_steps)
    with naming_checkpoint(run), live("training", total=total - (0 if start is None else start.iterations)) as update:
        for state, metrics in reference.learn(env, config, seed, start):
            named = {TRUTH.get(key, key): value for key, value in metrics.items()}
            run.log({"iteration": state.iterations, "steps": state.steps, **named})
            if state.iterations % config.checkpoint_every == 0 or state.steps >= config.total_steps:
                arrays, metadata = reference.to_arrays(state)
                run.save_checkpoint(state.iterations, arrays, {"state": metadata})
            update(_shown(state, named))
    return state


def begun(reference: Reference, run: Run) -> Any:
    """Where the newest checkpoint left the training; None without one, UserError if it is of something else."""
    saved = run.latest_checkpoint()
    if saved is None:
        return None
    try:
        return reference.from_arrays(saved[1], saved[2].get("state", {}))
    except UserError as error:
        raise UserError(
            f"cannot continue from step-{saved[0]:08d} in {run.path / 'checkpoints'}: {error}; use the version of "
            "Tacit that provenance.json names, or remove that folder to start the run again"
        ) from None


def _shown(state: Any, metrics: Mapping[str, float]) -> str:
    fps, ret = metrics.get("time/fps", np.nan), metrics.get("rollout/ep_rew_mean", np.nan)
    line = SHOWN.format(steps=state.steps, fps=fps, ret=ret)
    violating, multiplier = metrics.get("truth/violation_rate_episode"), metrics.get("train/multiplier")
    line += "" if violating is None else f"  {violating:.0%} of episodes violate"
    return line + ("" if multiplier is None else f"  multiplier {multiplier:.3g}")
