"""Before learning: are there enough demonstrations, and does an agent without constraint do anything else at all?

Constraints are learned from differences: what an agent that follows the reward alone would do and the demonstrations
never do. If there is no difference there is nothing to learn; if the agent is merely worse at the task the difference
is not a constraint. So the agent is made (exactly on a gridworld, by a short training elsewhere), and compared feature
by feature:

    D_j = max_x |F_agent,j(x) - F_demonstrations,j(x)|                                                           (1)

with F the mean over trajectories of the distribution of feature j within a trajectory (Kolmogorov-Smirnov). Steps of a
trajectory depend on each other, trajectories do not: under the hypothesis that both are drawn alike, whose a trajectory
is may be permuted, whole trajectories at a time. A feature's p-value is the share of permutations in which the largest
D of any feature reaches D_j (Westfall and Young), which keeps the probability of a single false alarm among all
features below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos.data import FEW_DEMONSTRATIONS, Demonstrations
from tacit.envs import registry
from tacit.errors import UserError

if TYPE_CHECKING:
    from tacit.policy import Policy

Array = NDArray[Any]
PERMUTATIONS = 2000
POINTS = 64
"""Values of a feature at which distributions are compared."""
SIGNIFICANT = 0.05
LEARN_STEPS = 40_960
"""Of the short training."""
EPISODES = 50
FOR_A_THRESHOLD = 9
"""Demonstrations to hold out for a threshold with delta 0.1."""


@dataclass(frozen=True)
class Difference:
    """One feature, of the demonstrations and of the agent without constraint."""

    feature: str
    distance: float
    """(1), between 0 and 1."""
    p: float
    """Adjusted for the number of features."""
    demonstrations: tuple[float, float, float]
    agent: tuple[float, float, float]
    """5 %, 50 % and 95 % quantiles."""


@dataclass(frozen=True)
class Finding:
    """One thing to know before learning."""

    level: str
    """"good", "note" or "doubt"."""
    text: str


@dataclass(frozen=True)
class Preflight:
    """Everything that was looked at."""

    findings: tuple[Finding, ...]
    differences: tuple[Difference, ...] = ()
    """The largest first; none if no agent was made."""
    returns: Mapping[str, Any] | None = None

    @property
    def something_to_learn(self) -> bool:
        return not self.differences or self.differences[0].p <= SIGNIFICANT

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "something_to_learn": self.something_to_learn}


# ---------------------------------------------------------------------------------------------------------------------
# The demonstrations alone


def about(demos: Demonstrations) -> list[Finding]:
    """What can be said of demonstrations that fit their environment, without running anything."""
    n = len(demos)
    missed = 1.0 - 0.05 ** (1.0 / n)
    level = "doubt" if n < FEW_DEMONSTRATIONS else "good"
    words = (
        f"{n} demonstration{'s' if n > 1 else ''} of {demos.n_steps} steps in all: what fewer than {missed:.0%} of the "
        "demonstrators do may be missing by chance, and would look forbidden"
    )
    found = [Finding(level, words)]
    distinct = len({trajectory.observations.tobytes() + trajectory.actions.tobytes() for trajectory in demos})
    if distinct < n:
        word = "note" if not (demos.observations % 1).any() else "doubt"
        found.append(Finding(word, f"only {distinct} of the {n} demonstrations are different from each other"))
    if n < FOR_A_THRESHOLD + FEW_DEMONSTRATIONS:
        found.append(
            Finding(
                "note",
                f"too few to hold {FOR_A_THRESHOLD} out for a threshold that accepts nine fresh ones in ten "
                "(`tacit calibrate`)",
            )
        )
    rate = demos.summary()["violation_rate_episode"]
    if rate:
        found.append(
            Finding(
                "note", f"{rate:.0%} of them break the environment's own constraint: what they do counts as allowed"
            )
        )
    ended = float(demos.terminated.mean())
    if 0 < ended < 1:
        found.append(Finding("note", f"{ended:.0%} of them end by themselves, the others at a time limit"))
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Against an agent without constraint


def differences(
    demos: Demonstrations, agent: Demonstrations, names: Sequence[str], rng: np.random.Generator
) -> list[Difference]:
    """(1) of each feature with its p-value, the largest first."""
    groups = [[_rows(trajectory.observations) for trajectory in part] for part in (demos, agent)]
    n, every = len(groups[0]), [*groups[0], *groups[1]]
    if n < 2 or len(every) - n < 2:
        raise UserError("a comparison needs at least two demonstrations and two episodes of the agent")
    width = every[0].shape[1]
    pooled = np.concatenate(every)
    points = np.quantile(pooled, (np.arange(POINTS) + 0.5) / POINTS, axis=0)
    # (trajectories, features, points) distribution of each trajectory
    inside = np.stack([[(rows[:, [j]] <= points[:, j]).mean(axis=0) for j in range(width)] for rows in every])
    flat = inside.reshape(len(every), -1)

    def distances(chosen: Array) -> Array:
        """(B, features) for (B, trajectories) weights of who is a demonstration."""
        gap = (chosen / n - (1.0 - chosen) / (len(every) - n)) @ flat
        return np.abs(gap).reshape(len(chosen), width, POINTS).max(axis=2)

    own = np.zeros((1, len(every)))
    own[0, :n] = 1.0
    observed = distances(own)[0]
    shuffled = np.stack([rng.permutation(own[0]) for _ in range(PERMUTATIONS)])
    largest = distances(shuffled).max(axis=1)
    # The floor keeps rounding from telling apart what is equal.
    reached = (largest[:, None] >= observed - 1e-12).sum(axis=0)
    levels = (0.05, 0.5, 0.95)
    found = []
    for j in range(width):
        quantiles = [
            tuple(float(q) for q in np.quantile(np.concatenate([rows[:, j] for rows in group]), levels))
            for group in groups
        ]
        p = float((1 + reached[j]) / (1 + PERMUTATIONS))
        found.append(Difference(names[j], float(observed[j]), p, quantiles[0], quantiles[1]))  # type: ignore[arg-type]
    return sorted(found, key=lambda one: -one.distance)


def _rows(observations: Array) -> Array:
    return observations.reshape(len(observations), -1).astype(np.float64)


def compare(demos: Demonstrations, agent: Demonstrations, names: Sequence[str], seed: int = 0) -> Preflight:
    """Demonstrations beside episodes of an agent without constraint."""
    from tacit.stats import mean_interval

    found = differences(demos, agent, names, np.random.default_rng([seed, 17]))
    shown, earned = (mean_interval(part.returns) for part in (demos, agent))
    returns = {"demonstrations": shown._asdict(), "agent": earned._asdict()}
    differing = [one for one in found if one.p <= SIGNIFICANT]
    findings = about(demos)
    if not differing:
        words = (
            "the agent without constraint does not differ from the demonstrations in any feature: nothing to learn, "
        )
        findings.append(Finding("doubt", words + "or too few demonstrations to see it"))
    else:
        listed = ", ".join(f"{one.feature} ({one.distance:.2f})" for one in differing[:4])
        more = f" and {len(differing) - 4} more" if len(differing) > 4 else ""
        findings.append(
            Finding("good", f"the agent without constraint differs from the demonstrations in {listed}{more}")
        )
    if earned.high < shown.low:
        words = (
            f"the agent earns less than the demonstrations ({earned.value:.4g}, they {shown.value:.4g}): it may differ "
        )
        findings.append(Finding("doubt", words + "because it is worse at the task, not because of a constraint"))
    elif earned.low > shown.high:
        words = f"the demonstrations earn less than the agent ({shown.value:.4g}, it {earned.value:.4g}): they give "
        findings.append(Finding("good", words + "something up, as those do who respect a constraint"))
    else:
        words = f"the demonstrations earn about what the agent earns ({shown.value:.4g}, it {earned.value:.4g})"
        findings.append(Finding("note", words))
    return Preflight(tuple(findings), tuple(found), returns)


# ---------------------------------------------------------------------------------------------------------------------
# The agent


def run_preflight(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    demos: Demonstrations,
    *,
    steps: int = LEARN_STEPS,
    episodes: int = EPISODES,
    seed: int = 0,
) -> tuple[Preflight, Demonstrations]:
    """(what was found, the episodes of the agent without constraint)."""
    from tacit.envs.options import exact_model

    spec = exact_model(env_id, env_kwargs)
    if spec is not None:
        from tacit.demos import expert_policy, sample_demonstrations

        observation = env_kwargs.get("observation", "position")
        agent = sample_demonstrations(
            spec, expert_policy(spec, weight=0.0), episodes, seed + 1, observation=observation
        )
        names: Sequence[str] = ("row", "column") if observation == "position" else ("state",)
        return compare(demos, agent, names, seed), agent
    from tacit.demos import collect
    from tacit.forward.collect import make_vec

    policy = unconstrained_policy(env_id, env_kwargs, steps, seed)
    env = make_vec(env_id, min(episodes, 50), **env_kwargs)
    try:
        agent = collect(env, policy, episodes, seed=seed + 1, card={"source": "agent without constraint (preflight)"})
        names = feature_names(env, demos)
    finally:
        env.close()
    return compare(demos, agent, names, seed), agent


def unconstrained_policy(env_id: str, env_kwargs: Mapping[str, Any], steps: int, seed: int) -> Policy:
    """PPO on the reward alone for so many steps, with the settings of the deep method."""
    from dataclasses import replace

    from tacit.algorithms import find
    from tacit.forward import ppo_lagrangian
    from tacit.forward.collect import make_vec
    from tacit.run.progress import live

    config = replace(find("mce").config(env_id), total_steps=steps)
    zero = lambda obs, act, next_obs: np.zeros(len(obs))  # noqa: E731
    env = make_vec(env_id, config.n_envs, **env_kwargs)
    state = None
    try:
        with live("an agent without constraint", total=-(-steps // config.rollout_steps)) as update:
            for state, metrics in ppo_lagrangian.learn(env, config, seed, None, cost=zero):
                update(f"{state.steps:,} steps  return {metrics.get('rollout/ep_rew_mean', float('nan')):.4g}")
    finally:
        env.close()
    if state is None:
        raise UserError(f"--steps must be at least 1, not {steps}")
    return ppo_lagrangian.policy_of(state)


def feature_names(env: Any, demos: Demonstrations) -> tuple[str, ...]:
    """Of the entries of an observation, by the environment, the demonstrations' card, or numbered."""
    size = int(np.prod(demos.observations.shape[1:]))
    for names in (registry.feature_names(env, declared=True), demos.card.get("feature_names")):
        if names is not None and len(names) == size:
            return tuple(names)
    return tuple(f"obs[{i}]" for i in range(size)) if size > 1 else ("state",)


def quick(env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, seed: int = 0) -> Preflight:
    """What costs next to nothing: all of it on a gridworld, the demonstrations alone elsewhere."""
    from tacit.envs.options import exact_model

    if exact_model(env_id, env_kwargs) is None or len(demos) < 2:
        return Preflight(tuple(about(demos)))
    return run_preflight(env_id, env_kwargs, demos, seed=seed)[0]
