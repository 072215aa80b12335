"""Make demonstrations: by any agent in any vector environment, or by the exact expert of a gridworld."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.demos.data import Demonstrations, Trajectory, from_trajectories, make_card
from tacit.envs.families import Options
from tacit.envs.gridworld import ENV_ID
from tacit.envs.options import scripted_expert
from tacit.envs.registry import feature_names, flatten, make_vec, origin, required_autoreset, rows
from tacit.errors import RunFailed, UserError
from tacit.forward.soft_policy_iteration import plan

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.envs.gridworld_spec import GridworldSpec

Policy = Callable[[Any, np.random.Generator], Any]
"""(observations of all copies, generator) -> actions of all copies."""

EXPERT_BETA = 0.1
LONGEST = 100_000
"""Steps after which a recorded episode counts as endless. All of them are kept in memory."""
EXPERT_WEIGHT = 30.0
"""Reward that the expert gives up to avoid one step in a constrained cell. With 30 the expert of the built-in layout
keeps its distance even at slip 0.5 (about one episode in six is pushed into a constrained cell there)."""


def collect(
    env: VectorEnv,
    policy: Policy,
    n: int,
    *,
    seed: int,
    card: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Demonstrations:
    """Record n complete episodes of an agent in a vector environment that resets its copies automatically.

    The number of episodes per copy is fixed beforehand: taking whichever end first would favour short ones. True costs
    are kept if the environment reports info["cost"]. Choose among the episodes afterwards with `subset`. The policy
    gets the observations as they are, a Dict for instance; the demonstrations hold them flattened, with named entries.
    `progress` hears of every step, with how many episodes it ended.
    """
    if n < 1:
        raise UserError(f"at least one demonstration is needed, not {n}")
    mode = required_autoreset(env)
    copies = env.num_envs
    quota = np.full(copies, n // copies) + (np.arange(copies) < n % copies)
    rng = np.random.default_rng([seed, 1])  # not the environment's stream
    observations, _ = env.reset(seed=seed)
    running = [_Recorder(row) for row in rows(env, observations)]
    finished: list[list[Trajectory]] = [[] for _ in range(copies)]
    resetting = np.zeros(copies, dtype=bool)
    while any(len(done) < wanted for done, wanted in zip(finished, quota, strict=True)):
        actions = np.asarray(policy(observations, rng))
        observations, rewards, terminated, truncated, info = env.step(actions)
        ended = np.asarray(terminated) | np.asarray(truncated)
        reached = rows(env, observations)
        before = sum(map(len, finished))
        for i in range(copies):
            if resetting[i]:
                running[i] = _Recorder(reached[i])
                continue
            own = info.get("final_info", {}) if ended[i] and mode == "SameStep" else info
            last = ended[i] and mode == "SameStep"
            result = flatten(env.single_observation_space, info["final_obs"][i]) if last else reached[i]
            has_cost = "cost" in own and bool(np.broadcast_to(own.get("_cost", True), copies)[i])
            running[i].add(actions[i], rewards[i], float(own["cost"][i]) if has_cost else None, result)
            if ended[i]:
                if len(finished[i]) < quota[i]:
                    finished[i].append(running[i].trajectory(bool(terminated[i])))
                running[i] = _Recorder(reached[i])
        resetting = ended & ~resetting if mode == "NextStep" else resetting
        longest = max(len(one.actions) for one in running)
        if longest > LONGEST:
            raise RunFailed(f"an episode did not end within {LONGEST:,} steps: give the environment a time limit")
        if progress is not None:
            progress(f"step {longest:,}", sum(map(len, finished)) - before)
    names = feature_names(env)
    env_id, options = origin(env)
    basis = make_card(
        env=env_id, env_kwargs=_writable(options), feature_names=names, source="collected from an agent", seed=seed
    )
    return from_trajectories([t for record in finished for t in record], {**basis, **(card or {})})


def _writable(options: Mapping[str, Any]) -> Options:
    """The options that can be written on a card. A warning names those that cannot."""
    writable = {}
    for key, value in options.items():
        try:
            writable[key] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            warnings.warn(
                f"the option {key} of the environment cannot be written as JSON and is left off the card: {value!r}",
                stacklevel=3,
            )
    return writable


class _Recorder:
    """A recorder of one running episode."""

    def __init__(self, first: Any) -> None:
        self.observations = [np.array(first)]
        self.actions: list[np.ndarray] = []
        self.rewards: list[float] = []
        self.costs: list[float | None] = []

    def add(self, action: Any, reward: float, cost: float | None, result: Any) -> None:
        self.actions.append(np.array(action))
        self.rewards.append(float(reward))
        self.costs.append(cost)
        self.observations.append(np.array(result))

    def trajectory(self, terminated: bool) -> Trajectory:
        costs = [cost for cost in self.costs if cost is not None]
        return Trajectory(
            np.stack(self.observations),
            np.stack(self.actions),
            np.array(self.rewards),
            np.array(costs) if len(costs) == len(self.costs) else None,
            terminated,
        )


def scripted_demonstrations(env_id: str, env_kwargs: Mapping[str, Any], n: int = 40, seed: int = 0) -> Demonstrations:
    """The first n episodes of the scripted expert of an environment's family."""
    expert = scripted_expert(env_id, env_kwargs)
    if expert is None:
        raise UserError(f"there is no scripted expert for {env_id}")
    env = make_vec(env_id, n, **env_kwargs)
    try:
        card = {
            "env": env_id,
            "env_kwargs": _writable(env_kwargs),
            "source": "scripted expert that knows the constraint, with a little noise",
            "note": "Made by Tacit's own simulator; the licence is that of Tacit (MIT). Nothing was filtered out.",
        }
        demos = collect(env, expert, n, seed=seed, card=card)
    finally:
        env.close()
    # 32 bits of a reward are enough, and make files small.
    return replace(demos, rewards=demos.rewards.astype(np.float32), actions=demos.actions.astype(np.float32))


# ---------------------------------------------------------------------------------------------------------------------
# Gridworld experts


def expert_policy(
    spec: GridworldSpec, beta: float = EXPERT_BETA, weight: float = EXPERT_WEIGHT, *, finite: bool = False
) -> np.ndarray:
    """Soft-optimal policy for the reward minus `weight` for every step that ends in a constrained cell.

    (S, A); with `finite`, (T, S, A) for the simulator's horizon.
    """
    if beta <= 0:
        raise UserError(f"beta must be positive, not {beta}")
    if weight < 0:
        raise UserError(f"the expert's weight on the constraint must not be negative, not {weight}")
    mdp = spec.model(finite=finite)
    return plan(mdp, mdp.rewards - weight * spec.expected(spec.entry_costs), beta).policy


def sample_demonstrations(
    spec: GridworldSpec,
    policy: np.ndarray,
    n: int = 50,
    seed: int = 0,
    *,
    observation: str = "position",
    card: Mapping[str, Any] | None = None,
) -> Demonstrations:
    """Sample n episodes of a tabular policy, (S, A) or (T, S, A), all side by side."""
    if n < 1:
        raise UserError(f"at least one demonstration is needed, not {n}")
    if observation not in ("position", "index"):
        raise UserError(f"observation must be 'position' or 'index', not {observation!r}")
    policy = np.asarray(policy, dtype=np.float64)
    table = (spec.n_states, spec.n_actions)
    if policy.shape[-2:] != table or policy.ndim not in (2, 3) or (policy.ndim == 3 and len(policy) < spec.horizon):
        raise UserError(f"the policy has shape {policy.shape}, expected {table} or ({spec.horizon}, ...) of them")
    if not (policy >= 0).all() or np.abs(policy.sum(axis=-1) - 1).max() > 1e-6:
        raise UserError("every row of the policy must be a distribution over actions")
    cumulative = policy.cumsum(axis=-1)[..., :-1]
    cumulative[cumulative > 1 - 1e-12] = 1.0  # as in GridworldSpec: no sliver for impossible actions
    rng = np.random.default_rng(seed)
    states = np.full((spec.horizon + 1, n), spec.start)
    actions = np.zeros((spec.horizon, n), dtype=np.int64)
    lengths = np.full(n, spec.horizon)
    alive = np.arange(n)
    for t in range(spec.horizon):
        now = states[t, alive]
        chances = (cumulative if policy.ndim == 2 else cumulative[t])[now]
        actions[t, alive] = (chances <= rng.random(len(alive))[:, None]).sum(axis=1)
        states[t + 1, alive] = spec.sample_next(now, actions[t, alive], rng)
        arrived = states[t + 1, alive] == spec.goal
        lengths[alive[arrived]] = t + 1
        alive = alive[~arrived]
        if not len(alive):
            break
    observed: np.ndarray = spec.cells.astype(np.float32) if observation == "position" else np.arange(spec.n_states)
    trajectories = []
    for i, length in enumerate(lengths):
        path = states[: length + 1, i]
        ended = bool(path[-1] == spec.goal)
        trajectories.append(
            Trajectory(
                observed[path], actions[:length, i], spec.entry_rewards[path[1:]], spec.entry_costs[path[1:]], ended
            )
        )
    basis = make_card(
        env=ENV_ID,
        env_kwargs=spec.env_kwargs() | ({} if observation == "position" else {"observation": observation}),
        feature_names=("row", "column") if observation == "position" else ("state",),
        source="sampled from a tabular policy",
        seed=seed,
    )
    return from_trajectories(trajectories, {**basis, **(card or {})})


def expert_demonstrations(
    spec: GridworldSpec,
    n: int = 50,
    seed: int = 0,
    *,
    beta: float = EXPERT_BETA,
    weight: float = EXPERT_WEIGHT,
    observation: str = "position",
) -> Demonstrations:
    """Sample n demonstrations of `expert_policy`, with a card that says how they were made."""
    note = (
        "An expert can avoid every violation here."
        if spec.slip == 0
        else f"With slip {spec.slip:g} any agent is pushed off its way: zero violations are impossible even for an "
        "expert. Nothing was filtered out; the statistics say how often the demonstrations violate."
    )
    card = {
        "source": f"soft-optimal expert: reward minus {weight:g} a step in a constrained cell, beta {beta:g}",
        "beta": float(beta),
        "weight": float(weight),
        "note": note,
    }
    return sample_demonstrations(spec, expert_policy(spec, beta, weight), n, seed, observation=observation, card=card)
