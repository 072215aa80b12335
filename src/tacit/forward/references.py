"""Reference agents for the inverse methods: they learn no constraint, and use the same run folder.

    ppo     follows the reward alone: the lower reference, how much would be violated without a constraint
    rcpo    is told the true cost: the upper reference, how much can be earned without violating

Neither reads demonstrations; where there are any they are measured beside the agent. The last policy is kept, not the
best. Budgets and engine are those of the inverse methods, so that the numbers can stand in one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError
from tacit.evaluate import copies_for, demonstrated, evaluations
from tacit.forward import agent, ppo_lagrangian
from tacit.forward.collect import interface_of, make_vec
from tacit.metrics import percent
from tacit.policy import Policy
from tacit.run.trainer import Metrics, Saved, Training, naming_checkpoint
from tacit.run.trainer import train as train_in_folder

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

TRUTH = {"rollout/cost_mean": "truth/violation_rate_step", "rollout/ep_violation_rate": "truth/violation_rate_episode"}
"""Metrics under the names that the logs of the inverse methods use."""


@dataclass(frozen=True)
class Settings:
    """Settings of a reference's run."""

    eval_episodes: int = 100
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""
    checkpoint_every: int = 20
    """Rollouts between checkpoints. There is also one after the first rollout, and after three minutes."""


class Engine(Protocol):
    """The functions of `ppo` and `ppo_lagrangian` on their states."""

    def policy_of(self, state: Any) -> Policy: ...

    def state_to_arrays(self, state: Any) -> Saved: ...

    def state_from_arrays(self, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True)
class Reference:
    """An agent that learns no constraint. States have the type of its engine."""

    label: str
    """The label of its row in tables."""
    statement: str
    """Its description in the summary, in a sentence or two."""
    engine: Engine
    learn: Callable[[VectorEnv, Any, int, Any], Iterator[tuple[Any, Metrics]]]
    """(env, config, seed, state) -> (state, metrics) per iteration."""
    needs_cost: bool = False

    def check(self, env_id: str, env_kwargs: Mapping[str, Any], config: Any) -> None:
        """UserError for settings that cannot work, before anything is written."""
        check(env_id, env_kwargs, config, self.needs_cost)

    def train(
        self, run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations | None, config: Any, seed: int
    ) -> dict[str, Any]:
        """Train, save and evaluate; returns the summary. Continues from the newest checkpoint if there is one."""

        def learn(env: VectorEnv, state: Any) -> Iterator[tuple[Any, Metrics]]:
            for new, metrics in self.learn(env, config, seed, state):
                yield new, {TRUTH.get(key, key): value for key, value in metrics.items()}

        state, policy = train_policy(run, env_id, env_kwargs, config, self.engine, learn)
        arrays, card = policy.to_arrays()
        run.save_model("policy", arrays, {**card, "env": env_id, "env_kwargs": dict(env_kwargs), "run": run.name})
        with closing(make_vec(env_id, copies_for(config.eval_episodes), **env_kwargs)) as env, naming_checkpoint(run):
            table = evaluations(env, policy, config.eval_episodes, seed, config.gamma)
        table = beside(demos, table, config.gamma)
        run.log_eval({"steps": state.steps, **table})
        records = run.metrics()
        phases = {"rollouts": "time/rollout_seconds", "PPO": "time/update_seconds"}
        return {
            "statement": self.statement,
            "table": table,
            "labels": {"learned": self.label, "learned, deterministic": f"{self.label}, without noise"},
            "time": {name: float(sum(record.get(key, 0.0) for record in records)) for name, key in phases.items()},
            "steps": state.steps,
        }


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Any, needs_cost: bool = False) -> None:
    """UserError for settings that cannot work, before a run folder is made and hours are spent."""
    agent.check_ranges(config, ("total_steps", "n_envs", "eval_episodes", "checkpoint_every"), 1)
    agent.check(config, config.n_envs)
    if isinstance(config, ppo_lagrangian.PenaltyConfig):
        ppo_lagrangian.check(config)
    with closing(make_vec(env_id, 1, **env_kwargs)) as env:
        interface_of(env, scaled=config.scale_actions)
        if needs_cost:
            env.reset(seed=0)
            info = env.step(env.action_space.sample())[4]
            if "cost" not in {**info, **info.get("final_info", {})}:
                raise UserError(f'{env_id} does not report info["cost"], the true cost that this agent needs')


def train_policy(
    run: Run,
    env_id: str,
    env_kwargs: Mapping[str, Any],
    config: Any,
    engine: Engine,
    learn: Callable[[VectorEnv, Any], Iterator[tuple[Any, Metrics]]],
) -> tuple[Any, Policy]:
    """(last state, its policy) of a training inside a run folder. `learn(env, state)` yields (state, metrics)."""
    with closing(make_vec(env_id, config.n_envs, **env_kwargs)) as env:

        def from_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> Any:
            state = engine.state_from_arrays(arrays, metadata)
            interface = interface_of(env, scaled=config.scale_actions)
            engine.policy_of(state).interface.require(interface, "the saved agent")
            return state

        training = Training(
            learn=partial(learn, env),
            to_arrays=engine.state_to_arrays,
            from_arrays=from_arrays,
            progress_line=_progress_line,
            iterations=-(-config.total_steps // config.rollout_steps),
            total_steps=config.total_steps,
            checkpoint_every=config.checkpoint_every,
            label="training",
        )
        state = train_in_folder(run, training)
    return state, engine.policy_of(state)


def beside(demos: Demonstrations | None, table: Mapping[str, Any], discount: float = 1.0) -> dict[str, Any]:
    """The table of a policy in the form of the inverse methods, with the demonstrations if there are any."""
    rows = {"learned": table["stochastic"], "learned, deterministic": table["deterministic"]}
    if demos is None:
        return rows
    return {"demonstrations": demonstrated(demos, discount), **rows}


def _progress_line(state: Any, metrics: Metrics) -> str:
    fps, mean_return = metrics.get("time/fps", np.nan), metrics.get("rollout/ep_rew_mean", np.nan)
    line = f"{state.steps:,} steps  {fps:,.0f}/s  return {mean_return:.4g}"
    violating = metrics.get("truth/violation_rate_episode", metrics.get("rollout/ep_violation_rate"))
    line += "" if violating is None else f"  {percent(violating)} of episodes violate"
    multiplier = metrics.get("train/multiplier")
    return line + ("" if multiplier is None else f"  multiplier {multiplier:.3g}")
