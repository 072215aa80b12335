"""Checks before learning: enough demonstrations, and an unconstrained agent that behaves differently.

Constraints are learned from differences: what an agent that follows the reward alone does and the demonstrations never
do. Without a difference there is nothing to learn. If the agent is merely worse at the task, the difference is not a
constraint. So the agent is trained for a short time (on a gridworld it is computed exactly) and compared with the
demonstrations, feature by feature:

    D_j = max_x |F_agent,j(x) - F_demonstrations,j(x)|                                                           (1)

with F the mean over trajectories of the distribution of feature j within a trajectory (Kolmogorov-Smirnov). Steps of
one trajectory are correlated. A test that assumes independence would call almost any difference significant. Whole
trajectories are independent: under the hypothesis that both kinds are drawn alike, the labels of trajectories may be
permuted. A feature's p-value is the share of permutations in which the largest D of any feature reaches D_j (Westfall
and Young), which bounds the probability of a single false alarm among all features.

A region in a plane may show in no single feature. So pairs are compared, too: where does the agent go that no
demonstrator goes (`tacit.explain.joint`)? Boxes of two features that most of its episodes enter, and no held-out
demonstration, say the same in words (`tacit.cost.avoided`); finished runs are judged by them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.algorithms import find
from tacit.cost.avoided import joint_test
from tacit.demos import collect, expert_policy, sample_demonstrations, suspects
from tacit.demos.data import FEW_DEMONSTRATIONS, Demonstrations
from tacit.demos.evidence import Finding
from tacit.envs import registry
from tacit.envs.options import exact_model
from tacit.envs.registry import make_vec
from tacit.errors import UserError, listed
from tacit.explain.alarms import JOINT, box_in_words
from tacit.explain.joint import SIGNIFICANT, Apart, compare_jointly
from tacit.metrics import percent
from tacit.run.summary import JointTest
from tacit.run.terminal import live
from tacit.stats import mean_interval

if TYPE_CHECKING:
    from tacit.policy import Policy

Array = NDArray[Any]
PERMUTATIONS = 2000
POINTS = 64
"""Number of values of a feature at which distributions are compared."""
LEARN_STEPS = 40_960
"""Environment steps of the short training."""
EPISODES = 50
FOR_A_THRESHOLD = 9
"""Number of demonstrations that a threshold with delta 0.1 needs."""


@dataclass(frozen=True)
class Difference:
    """One feature of the demonstrations, compared with that of the agent without constraint."""

    feature: str
    distance: float
    """Distance (1), between 0 and 1."""
    p: float
    """p-value, adjusted for the number of features."""
    demonstrations: tuple[float, float, float]
    agent: tuple[float, float, float]
    """5 %, 50 % and 95 % quantiles."""


@dataclass(frozen=True)
class Preflight:
    """The result of all checks."""

    findings: tuple[Finding, ...]
    differences: tuple[Difference, ...] = ()
    """Differences, the largest first; empty if only the demonstrations were checked."""
    apart: tuple[Apart, ...] = ()
    """Features and pairs of them, by the share of the agent's steps where demonstrators hardly ever are."""
    joint_test: JointTest | None = None
    """The box that most episodes of the agent enter and no demonstration does; see `tacit.cost.avoided`."""
    returns: Mapping[str, Mapping[str, float]] | None = None
    """Returns, {"demonstrations" | "agent": {"value", "low", "high"}}."""

    @property
    def something_to_learn(self) -> bool:
        known = not self.differences or self.differences[0].p <= SIGNIFICANT or any(one.clear for one in self.apart)
        return known or _fires(self.joint_test)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "something_to_learn": self.something_to_learn}


# ---------------------------------------------------------------------------------------------------------------------
# The demonstrations alone


def about(demos: Demonstrations) -> list[Finding]:
    """Check only the demonstrations, without running anything."""
    n = len(demos)
    missed = 1.0 - 0.05 ** (1.0 / n)
    level = "doubt" if n < FEW_DEMONSTRATIONS else "good"
    words = (
        f"{n} demonstration{'s' if n > 1 else ''} with {demos.n_steps} steps in all: behaviour of fewer than "
        f"{percent(missed)} of the demonstrators may be missing by chance, and would look forbidden"
    )
    findings = [Finding(level, words)]
    distinct = len({trajectory.observations.tobytes() + trajectory.actions.tobytes() for trajectory in demos})
    if distinct < n:
        word = "note" if not (demos.observations % 1).any() else "doubt"
        findings.append(Finding(word, f"only {distinct} of the {n} demonstrations are distinct"))
    if n < FOR_A_THRESHOLD + FEW_DEMONSTRATIONS:
        findings.append(
            Finding(
                "note",
                f"there are too few to hold out {FOR_A_THRESHOLD} for a threshold that accepts nine in ten fresh "
                "demonstrations (`tacit calibrate`)",
            )
        )
    rate = demos.summary()["violation_rate_episode"]
    if rate:
        words = f"{percent(rate)} of them break the environment's own constraint; what they do counts as allowed"
        findings.append(Finding("note", words))
    ended = float(demos.terminated.mean())
    if 0 < ended < 1:
        words = f"{percent(ended)} of them end in a terminal state, the others at a time limit"
        findings.append(Finding("note", words))
    return findings


def about_suspects(demos: Demonstrations) -> list[Finding]:
    """A finding about trajectories that look unlike the others, if there are any."""
    named = suspects(demos)
    if not named:
        return []
    numbers = listed([str(one.trajectory) for one in named], 10)
    words = (
        f"{len(named)} of the {len(demos)} demonstrations look unlike the others and may ignore the rule: {numbers}. "
        f"For example, {named[0]} (`tacit demos suspects`; `tacit learn` leaves them out unless --trim off)"
    )
    return [Finding("doubt", words)]


# ---------------------------------------------------------------------------------------------------------------------
# Against an agent without constraint


def differences(
    demos: Demonstrations, agent: Demonstrations, names: Sequence[str], rng: np.random.Generator
) -> list[Difference]:
    """Distance (1) of each feature with its p-value, the largest first."""
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
        """(B, features) distances for (B, trajectories) labels, 1 for a demonstration and 0 for the agent."""
        gap = (chosen / n - (1.0 - chosen) / (len(every) - n)) @ flat
        return np.abs(gap).reshape(len(chosen), width, POINTS).max(axis=2)

    own = np.zeros((1, len(every)))
    own[0, :n] = 1.0
    observed = distances(own)[0]
    shuffled = np.stack([rng.permutation(own[0]) for _ in range(PERMUTATIONS)])
    largest = distances(shuffled).max(axis=1)
    # The margin keeps rounding from telling equal values apart.
    reached = (largest[:, None] >= observed - 1e-12).sum(axis=0)
    levels = (0.05, 0.5, 0.95)
    features = []
    for j in range(width):
        quantiles = [
            tuple(float(q) for q in np.quantile(np.concatenate([rows[:, j] for rows in group]), levels))
            for group in groups
        ]
        p = float((1 + reached[j]) / (1 + PERMUTATIONS))
        features.append(Difference(names[j], float(observed[j]), p, quantiles[0], quantiles[1]))  # type: ignore[arg-type]
    return sorted(features, key=lambda difference: -difference.distance)


def _fires(joint: JointTest | None) -> bool:
    return joint is not None and joint["p"] <= JOINT


def _rows(observations: Array) -> Array:
    return observations.reshape(len(observations), -1).astype(np.float64)


def compare(demos: Demonstrations, agent: Demonstrations, names: Sequence[str], seed: int = 0) -> Preflight:
    """Compare demonstrations with episodes of an unconstrained agent."""
    features = differences(demos, agent, names, np.random.default_rng([seed, 17]))
    theirs_rows, agent_rows = ([_rows(trajectory.observations) for trajectory in part] for part in (demos, agent))
    apart = compare_jointly(theirs_rows, agent_rows, names, np.random.default_rng([seed, 18]))
    joint = joint_test(theirs_rows, agent_rows, names)
    theirs, earned = (mean_interval(part.returns) for part in (demos, agent))
    findings = [*about(demos), *about_suspects(demos)]
    differing = [one for one in features if one.p <= SIGNIFICANT]
    if differing:
        listed = ", ".join(f"{one.feature} ({one.distance:.2f})" for one in differing[:4])
        more = f" and {len(differing) - 4} more" if len(differing) > 4 else ""
        words = f"the unconstrained agent differs from the demonstrations in {listed}{more}"
        findings.append(Finding("good", words))
    clear = [one for one in apart if one.clear]
    if clear:
        words = f"in {clear[0]}, {percent(clear[0].share)} of the agent's steps lie where demonstrators hardly ever are"
        findings.append(Finding("good", words))
    if joint is not None and _fires(joint):
        words = f"{percent(joint['learner']['value'])} of the agent's episodes go where demonstrators do not, and "
        words += f"{percent(joint['demonstrations']['value'])} of held-out demonstrations: for example, "
        findings.append(Finding("good", words + box_in_words(joint)))
    if not differing and not clear and not _fires(joint):
        words = "the unconstrained agent does not clearly differ from the demonstrations in any feature or pair of "
        words += "features: there is nothing to learn, or there are too few demonstrations to see it"
        if apart and apart[0].share > 0:
            share = percent(apart[0].share)
            words += f" (the largest difference is in {apart[0]}: {share} of its steps, p = {apart[0].p:.2g})"
        findings.append(Finding("doubt", words))
    if earned.high < theirs.low:
        words = f"the agent earns less than the demonstrations ({earned.value:.4g}, they {theirs.value:.4g}): "
        words += "it may differ because it is worse at the task, not because of a constraint"
        findings.append(Finding("doubt", words))
    elif earned.low > theirs.high:
        words = f"the demonstrations earn less than the agent ({theirs.value:.4g}, it {earned.value:.4g}): "
        words += "they give something up, as expected under a constraint"
        findings.append(Finding("good", words))
    else:
        words = f"the demonstrations earn about as much as the agent ({theirs.value:.4g}, it {earned.value:.4g})"
        findings.append(Finding("note", words))
    returns = {"demonstrations": theirs._asdict(), "agent": earned._asdict()}
    return Preflight(tuple(findings), tuple(features), tuple(apart), joint, returns)


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
    """(result of all checks, episodes of the unconstrained agent)."""
    spec = exact_model(env_id, env_kwargs)
    if spec is not None:
        observation = env_kwargs.get("observation", "position")
        agent = sample_demonstrations(
            spec, expert_policy(spec, weight=0.0), episodes, seed + 1, observation=observation
        )
        names: Sequence[str] = ("row", "column") if observation == "position" else ("state",)
        return compare(demos, agent, names, seed), agent
    policy = unconstrained_policy(env_id, env_kwargs, steps, seed)
    env = make_vec(env_id, min(episodes, 50), **env_kwargs)
    try:
        agent = collect(env, policy, episodes, seed=seed + 1, card={"source": "agent without constraint (preflight)"})
        names = feature_names(env, demos)
    finally:
        env.close()
    return compare(demos, agent, names, seed), agent


def unconstrained_policy(env_id: str, env_kwargs: Mapping[str, Any], steps: int, seed: int) -> Policy:
    """Train PPO on the reward alone for `steps`, with the settings of the deep method."""
    from tacit.forward import ppo_lagrangian  # needs JAX

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
    """Names of an observation's entries: the environment's, those on the demonstrations' card, or numbers."""
    size = int(np.prod(demos.observations.shape[1:]))
    for names in (registry.feature_names(env, declared=True), demos.card.get("feature_names")):
        if names is not None and len(names) == size:
            return tuple(names)
    return tuple(f"obs[{i}]" for i in range(size)) if size > 1 else ("state",)


def quick(env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, seed: int = 0) -> Preflight:
    """The cheap checks: all of them on a gridworld, elsewhere only those of the demonstrations."""
    if exact_model(env_id, env_kwargs) is None or len(demos) < 2:
        return Preflight(tuple(about(demos)))
    return run_preflight(env_id, env_kwargs, demos, seed=seed)[0]
