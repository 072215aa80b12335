"""An expert who knows the constraint: PPO with the true cost inside a run folder, followed by demonstrations.

The last policy is kept, not the best. Its demonstrations are complete episodes in which the constraint is never broken
and that reach the horizon; how many had to be drawn for them is written on their card. With `margin` the expert is
trained to keep that much more distance than the constraint asks for, where the environment declares its rule: otherwise
a policy that stays close to the boundary would cross it now and then because of its own noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos import collect, save
from tacit.demos.data import from_trajectories
from tacit.envs.capabilities import capabilities
from tacit.errors import RunFailed, UserError
from tacit.evaluate import copies_for, evaluations
from tacit.forward import ppo_lagrangian, references
from tacit.forward.collect import make_vec
from tacit.run import versions
from tacit.run.log import logger
from tacit.run.terminal import live
from tacit.run.trainer import Metrics, naming_checkpoint

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.demos.data import Trajectory
    from tacit.policy import Policy
    from tacit.run import Run
    from tacit.run.summary import Row

MOST_DRAWN = 40
"""Largest number of episodes to draw per demonstration."""


@dataclass(frozen=True)
class Config(ppo_lagrangian.Config):
    """Settings of an expert."""

    margin: float = 0.0
    """Extra distance from the constraint, in the unit of its feature; for environments whose constraint is a bound."""
    fall_cost: float = 0.0
    """Cost of ending an episode early, in violating steps, on top of terminal_cost. 1/(1 - cost_gamma) makes it as bad
    as violating for ever, so that falling is no way out of the constraint."""
    demonstrations: int = 50
    """Number of demonstrations to write; 0 for none."""
    eval_episodes: int = 100
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""
    checkpoint_every: int = 20
    """Iterations between checkpoints."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before a run folder is made and hours are spent."""
    if config.demonstrations < 0:
        raise UserError(f"demonstrations cannot be negative: {config.demonstrations}; 0 writes none")
    references.check(env_id, env_kwargs, config, needs_cost=True)
    with closing(make_vec(env_id, 1, **env_kwargs)) as env:
        cautious_cost(env, config.margin)


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations | None, config: Config, seed: int
) -> dict[str, Any]:
    """Train, evaluate and demonstrate; returns the summary. Continues from the newest checkpoint if there is one."""

    def learn(env: VectorEnv, state: ppo_lagrangian.State | None) -> Iterator[tuple[ppo_lagrangian.State, Metrics]]:
        cost, ending = cautious_cost(env, config.margin), config.terminal_cost + config.fall_cost
        return ppo_lagrangian.learn(env, config, seed, state, cost=cost, terminal_cost=ending)

    _, policy = references.train_policy(run, env_id, env_kwargs, config, ppo_lagrangian, learn)
    arrays, card = policy.to_arrays()
    run.save_model("policy", arrays, {**card, "env": env_id, "env_kwargs": dict(env_kwargs)})
    with closing(make_vec(env_id, copies_for(config.eval_episodes), **env_kwargs)) as test:
        with naming_checkpoint(run):
            table = evaluations(test, policy, config.eval_episodes, seed, config.gamma)
        run.log_eval({"steps": config.total_steps, **table})
        _warn_of_violations(table["stochastic"])
        summary: dict[str, Any] = {"table": table}
        if config.demonstrations:
            demonstrations = demonstrate(test, policy, config.demonstrations, seed, env_id, env_kwargs, run)
            save(demonstrations, run.path / "demos.npz")
            summary["demonstrations"] = demonstrations.summary()
    return summary


OFTEN = 0.1
"""Share of an expert's episodes that violate, above which its demonstrations are a matter of luck."""


def _warn_of_violations(row: Row) -> None:
    """Warn of an expert that often violates. Its demonstrations do not show it: they are the other episodes."""
    violating = row.get("violation_rate_episode", {}).get("value", 0.0)
    if violating > OFTEN:
        logger.warning(
            f"this expert breaks the constraint in {100 * violating:.0f} % of its episodes, and its demonstrations are "
            "the lucky rest; train it longer (--total-steps) or with a distance to keep (--margin)"
        )


def cautious_cost(env: VectorEnv, margin: float) -> ppo_lagrangian.CostFunction | None:
    """The true cost with the boundary moved to the safe side by `margin`; None: the environment's own cost."""
    if margin == 0.0:
        return None
    rule = capabilities(env).rule
    if rule is None or not rule.is_bound:
        raise UserError(f"margin needs an environment whose constraint is a bound on a named feature, unlike {env}")
    bound = rule.value + (-margin if rule.relation.startswith(">") else margin)
    below = rule.relation.startswith("<")

    def cost(obs: np.ndarray, act: np.ndarray, next_obs: np.ndarray) -> np.ndarray:
        value = rule.values(next_obs)
        return ((value < bound) if below else (value > bound)).astype(np.float64)

    return cost


def demonstrate(
    env: VectorEnv, policy: Policy, n: int, seed: int, env_id: str, env_kwargs: Mapping[str, Any], run: Run
) -> Demonstrations:
    """n episodes of the stochastic policy that never break the constraint and last to the horizon (or succeed)."""
    good: list[Trajectory] = []
    drawn = 0
    with live("demonstrating: episodes") as update:
        while len(good) < n and drawn < MOST_DRAWN * n and (good or not drawn):  # give up if the first are all bad
            batch = collect(env, policy, 4 * n, seed=seed + 20_000 + 1_000_000 * drawn, progress=update)
            drawn += len(batch)
            good += [batch[int(i)] for i in np.flatnonzero(_exemplary(env, batch, env_id))]
            update(f"{min(len(good), n)} of {n} demonstrations", 0)
    if len(good) < n:
        raise RunFailed(
            f"only {len(good)} of {drawn} episodes of this expert keep to the constraint and reach the end, "
            f"but {n} are needed: train it longer, or with a margin; the policy is in {run.path / 'model'}"
        )
    chosen = from_trajectories(good[:n], batch.card)
    card = {
        "env": env_id,
        "env_kwargs": dict(env_kwargs),
        "source": "expert trained with the true cost (PPO-Lagrangian family), stochastic policy",
        "note": f"the first {n} of {len(good)} complete episodes without violation, of {drawn} drawn",
        "expert": {"seed": seed, "run": run.name, "steps": run.config["config"]["total_steps"]},
        "command": run.read("provenance.json").get("command"),
        "versions": {**chosen.card.get("versions", {}), **versions(("mujoco", "jax"))},
        **distance_kept(env, chosen),
    }
    return replace(
        chosen,
        observations=chosen.observations.astype(np.float32),
        actions=chosen.actions.astype(np.float32) if chosen.actions.dtype.kind == "f" else chosen.actions,
        card={**chosen.card, **card},
    )


def _exemplary(env: VectorEnv, episodes: Demonstrations, env_id: str) -> NDArray[np.bool_]:
    """Which episodes keep to the constraint from the first state on and end well."""
    if episodes.costs is None:
        raise UserError(f"{env_id} does not report info['cost'], which tells the demonstrations that violate")
    costs = np.add.reduceat(episodes.costs, episodes.step_offsets)
    # If episodes can end early, the environment says which ends are successes.
    can = capabilities(env)
    last = episodes.observations[episodes.row_offsets + episodes.lengths]
    complete = ~episodes.terminated if can.succeeded is None else can.succeeded(last)
    # An episode may not begin in violation either, because its first state is demonstrated, too.
    legal = True if can.rule is None else ~can.rule.violated(episodes.observations[episodes.row_offsets])
    return np.asarray((costs == 0) & complete & legal)


def distance_kept(env: VectorEnv, demos: Demonstrations) -> dict[str, Any]:
    """How near the demonstrations come to the boundary, if the constraint is a bound on a feature."""
    rule = capabilities(env).rule
    if rule is None:
        return {}
    if not rule.is_bound:
        return {"constraint": str(rule)}
    values = rule.values(demos.observations).astype(np.float64)
    nearest = float(values.min() - rule.value) if rule.relation.startswith("<") else float(rule.value - values.max())
    return {"constraint": str(rule), "distance_kept": nearest}
