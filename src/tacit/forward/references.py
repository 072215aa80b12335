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
from tacit.evaluate import copies_for
from tacit.forward import agent, collect
from tacit.forward.collect import interface_of, make_vec
from tacit.forward.expert import evaluations
from tacit.inverse.exact_run import demonstrated
from tacit.policy import Policy
from tacit.run.trainer import Metrics, Saved, Training, naming_checkpoint
from tacit.run.trainer import train as train_in_folder

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

TRUTH = {"rollout/cost_mean": "truth/violation_rate_step", "rollout/ep_violation_rate": "truth/violation_rate_episode"}
"""The same names as in the logs of the inverse methods."""


@dataclass(frozen=True)
class Settings:
    """Settings of the run of any reference."""

    eval_episodes: int = 100
    """Episodes of the final evaluation, stochastic and deterministic each."""
    checkpoint_every: int = 20
    """Rollouts between checkpoints. There is also one after the first rollout, and after minutes without any."""


@dataclass(frozen=True)
class Reference:
    """An agent that learns no constraint. States are its own type."""

    label: str
    """The name of its row in tables."""
    statement: str
    """What the summary says of it, in a sentence or two."""
    learn: Callable[[VectorEnv, Any, int, Any], Iterator[tuple[Any, Metrics]]]
    """(env, config, seed, state) -> (state, metrics) per iteration."""
    policy_of: Callable[[Any], Policy]
    to_arrays: Callable[[Any], Saved]
    from_arrays: Callable[[Mapping[str, NDArray[Any]], Mapping[str, Any]], Any]


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Any, needs_cost: bool = False) -> None:
    """UserError for settings that cannot work, before a run folder is made and hours are spent."""
    for name in ("total_steps", "n_envs", "eval_episodes", "checkpoint_every"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} must be at least 1, not {getattr(config, name)}")
    agent.check(config, config.n_envs)
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        interface = interface_of(env, scaled=config.scale_actions)
        if needs_cost:
            _require_cost(env, interface, env_id)
    finally:
        env.close()


def _require_cost(env: VectorEnv, interface: Any, env_id: str) -> None:
    """One step shows whether there is a cost."""
    still = Policy(
        interface,
        (np.zeros((interface.obs_size, interface.act_size), np.float32),),
        (np.zeros(interface.act_size, np.float32),),
        None if interface.n_actions else np.zeros(interface.act_size, np.float32),
        np.zeros(interface.obs_size, np.float32),
        np.ones(interface.obs_size, np.float32),
        np.inf,
    )
    rollout, _ = collect.collect(env, still, collect.begin(env, interface, 0), 1, np.random.default_rng(0))
    if rollout.cost is None:
        raise UserError(f'{env_id} does not report info["cost"], which this reference is to be told')


def train(
    reference: Reference,
    run: Run,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    demos: Demonstrations | None,
    config: Any,
    seed: int,
) -> dict[str, Any]:
    """Train, save, evaluate; continues from the newest checkpoint if there is one. The summary."""
    env = make_vec(env_id, config.n_envs, **env_kwargs)
    try:
        state = train_in_folder(run, _training(reference, env, config, seed))
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


def _training(reference: Reference, env: VectorEnv, config: Any, seed: int) -> Training:
    def learn(state: Any) -> Iterator[tuple[Any, Metrics]]:
        for new, metrics in reference.learn(env, config, seed, state):
            yield new, {TRUTH.get(key, key): value for key, value in metrics.items()}

    return Training(
        learn=learn,
        to_arrays=reference.to_arrays,
        from_arrays=reference.from_arrays,
        progress_line=_progress_line,
        iterations=-(-config.total_steps // config.rollout_steps),
        total_steps=config.total_steps,
        checkpoint_every=config.checkpoint_every,
        label="training",
    )


def beside(demos: Demonstrations | None, table: Mapping[str, Any], discount: float = 1.0) -> dict[str, Any]:
    """The table of a policy as the inverse methods have it, below the demonstrations if there are any."""
    rows = {"learned": table["stochastic"], "learned, deterministic": table["deterministic"]}
    if demos is None:
        return rows
    return {"demonstrations": demonstrated(demos, discount), **rows}


def _progress_line(state: Any, metrics: Metrics) -> str:
    fps, mean_return = metrics.get("time/fps", np.nan), metrics.get("rollout/ep_rew_mean", np.nan)
    line = f"{state.steps:,} steps  {fps:,.0f}/s  return {mean_return:.4g}"
    violating, multiplier = metrics.get("truth/violation_rate_episode"), metrics.get("train/multiplier")
    line += "" if violating is None else f"  {violating:.0%} of episodes violate"
    return line + ("" if multiplier is None else f"  multiplier {multiplier:.3g}")
