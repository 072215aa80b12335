"""One evaluation protocol: what an agent earns, how often it breaks the true constraint, how good a cost is.

Three measurements, each a function that returns a small frozen dataclass:

    evaluate(env, policy, episodes)       Monte-Carlo, any Gymnasium vector environment that reports info["cost"]
    evaluate_exact(mdp, policy, mask)     the same quantities as expectations of a finite MDP, no sampling error
    cost_quality(cost, mask)              a cost over states as a detector of the truly constrained ones

A step violates when its true cost is positive (info["cost"] > 0). The environment is the nominal one, which goes on
after a violation; what one that stops would have paid follows from the same episodes. Names are defined in
`tacit.metrics`, and at length in docs/reference.md#metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit import stats
from tacit.envs.capabilities import capabilities
from tacit.envs.registry import required_autoreset
from tacit.errors import RunFailed, UserError
from tacit.forward.evaluate_exact import (
    CostQuality,
    TabularEvaluation,
    cost_quality,
    evaluate_exact,
    excess_over_expert,
    reachable_states,
)
from tacit.run.summary import Measured, Row, Table
from tacit.run.terminal import Update, live

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.policy import Policy as SavedPolicy

__all__ = [
    "OUTCOMES",
    "CostQuality",
    "Episodes",
    "TabularEvaluation",
    "copies_for",
    "cost_quality",
    "demonstrated",
    "episodes_of",
    "evaluate",
    "evaluate_exact",
    "evaluations",
    "excess_over_expert",
    "reachable_states",
    "summarize",
]

Policy = Callable[[Any, np.random.Generator], Any]
"""(observations of all copies, generator) -> actions of all copies."""

Info = Mapping[str, Any]
"""The information that a vector environment returns with a step."""

OUTCOMES = {"goal": "goal", "collision": "collision", "off_road": "off-road", "time_out": "time-out"}
"""Ends of episodes that are counted where an environment names them, as NAME_rate."""


@dataclass(frozen=True)
class Episodes:
    """Complete episodes, one entry each; every array is (n,)."""

    returns: NDArray[np.float64]
    discounted_returns: NDArray[np.float64]
    terminated_returns: NDArray[np.float64]
    """Reward before the first violating step; that step pays nothing and ends the count."""
    violation_steps: NDArray[np.int64] | None
    """Number of violating steps; None when the environment does not report info["cost"]."""
    initial_violations: NDArray[np.bool_]
    """Did the episode start in violation (info["cost"] > 0 at reset)?"""
    lengths: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    """Ended by a terminal state, not by a time limit."""
    outcomes: NDArray[np.str_] | None = None
    """How each ended, in the environment's words (its `outcomes` name the codes of info["outcome"]), if it has any."""
    stopped_lengths: NDArray[np.int64] | None = None
    """Steps up to the first violating one, which counts, or to the end; None if they were not counted."""

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def feasible_returns(self) -> NDArray[np.float64]:
        """As `terminated_returns`, but nothing is feasible in an episode that starts in violation."""
        return np.where(self.initial_violations, 0.0, self.terminated_returns)

    @property
    def violation_rates(self) -> NDArray[np.float64]:
        """Share of violating steps of each episode."""
        return self._violations() / self.lengths

    @property
    def stopped_violation_rates(self) -> NDArray[np.float64] | None:
        """The same in the environment that stops at the first violation: one over the steps until then, or 0."""
        return None if self.stopped_lengths is None else self.violated / self.stopped_lengths

    @property
    def violated(self) -> NDArray[np.bool_]:
        """At least one violating step."""
        return self._violations() > 0

    def _violations(self) -> NDArray[np.int64]:
        if self.violation_steps is not None:
            return self.violation_steps
        raise UserError('the environment does not report info["cost"], so violations cannot be counted')


def copies_for(episodes: int) -> int:
    """Copies of the environment to use for this many episodes. Each runs a few, so that none waits long."""
    return min(episodes, max(50, episodes // 4))


def evaluate(
    env: VectorEnv,
    policy: Policy,
    episodes: int,
    *,
    seed: int,
    discount: float = 1.0,
    max_steps: int = 1_000_000,
    progress: Update | None = None,
) -> Episodes:
    """Run `episodes` complete episodes and measure each of them.

    The number of episodes of each copy of the environment is fixed beforehand. (Taking whichever episodes end first
    would favour short ones, and with them, say, early deaths.) Episodes are ordered by copy, then by time. `seed` sets
    both the environment and the generator that the policy gets. RunFailed when an episode exceeds `max_steps`, and when
    the environment raises or returns what is not finite. `progress` hears of every step and of the episodes it ended.
    """
    copies = int(env.num_envs)
    if episodes < 1:
        raise UserError(f"an evaluation needs at least 1 episode, got {episodes}")
    mode = required_autoreset(env)
    quota = np.full(copies, episodes // copies) + (np.arange(copies) < episodes % copies)
    # Gymnasium seeds copy i with seed + i: hashed first, so that evaluations with seeds 0 and 1 share no copy.
    env_seed = int(np.random.SeedSequence([seed, 0]).generate_state(1)[0])
    rng = np.random.default_rng([seed, 1])
    with _of_environment():
        obs, info = env.reset(seed=env_seed)
    _require_finite("observation", obs)
    tally = _Tally(copies, _costs(info, "cost", copies))
    records: list[list[tuple[Any, ...]]] = [[] for _ in range(copies)]
    resetting = np.zeros(copies, dtype=bool)  # in next-step mode: this step only resets the copy
    reports_cost = True
    names = capabilities(env).outcomes
    while any(len(record) < wanted for record, wanted in zip(records, quota, strict=True)):
        actions = policy(obs, rng)
        with _of_environment():
            obs, rewards, terminated, truncated, info = env.step(actions)
        _require_finite("observation", obs)
        rewards, done = np.asarray(rewards, dtype=np.float64), np.asarray(terminated | truncated)
        cost, start_cost = _step_costs(info, done, resetting, copies)
        if not np.isfinite(rewards[~resetting]).all():
            bad = rewards[~np.isfinite(rewards)][0]
            raise RunFailed(f"the environment returned the reward {bad} during evaluation")
        reports_cost &= cost is not None or bool(resetting.all())
        tally.step(rewards, np.zeros(copies) if cost is None else cost, discount)
        if (tally.length > max_steps).any():
            raise RunFailed(f"an episode did not end within {max_steps} steps: give the environment a time limit")
        counted = [copy for copy in map(int, np.flatnonzero(done & ~resetting)) if len(records[copy]) < quota[copy]]
        for copy in counted:
            records[copy].append((*tally.record(copy, bool(terminated[copy])), _outcome(info, copy, names)))
        if progress is not None:
            progress(f"step {int(tally.length.max()):,}", len(counted))
        # The new episode begins at once (same step) or with the step that only resets (next step).
        begins = done if mode == "SameStep" else resetting
        tally.begin(begins, start_cost)
        resetting = done & ~resetting if mode == "NextStep" else resetting
    columns = [np.array(column) for column in zip(*(row for record in records for row in record), strict=True)]
    returns, discounted, stopped, violations, initial, lengths, until, ended, outcomes = columns
    return Episodes(
        returns=returns,
        discounted_returns=discounted,
        terminated_returns=stopped,
        violation_steps=violations if reports_cost else None,
        initial_violations=initial,
        lengths=lengths,
        terminated=ended,
        outcomes=None if names is None else outcomes,
        stopped_lengths=until,
    )


@contextmanager
def _of_environment() -> Iterator[None]:
    """Turn what the environment raises into a RunFailed with one clear line, as training does."""
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:
        raise RunFailed(f"the environment raised {type(error).__name__} during evaluation: {error}") from error


def _require_finite(name: str, values: Any) -> None:
    """RunFailed for arrays of numbers that are not finite; structured observations are left to the policy."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not np.isfinite(values).all():
        copy = int(np.nonzero(~np.isfinite(values))[0][0])
        raise RunFailed(f"the environment returned an {name} that is not finite during evaluation (copy {copy})")


def _outcome(info: Info, copy: int, names: Sequence[str] | None) -> str:
    """How the episode of this copy has just ended, "" if the environment does not say."""
    codes = (info.get("final_info") or info).get("outcome")  # without autoreset in the same step there is no final_info
    return "" if names is None or codes is None else names[int(codes[copy])]


class _Tally:
    """Running sums of the current episode of each copy, arrays (copies,)."""

    def __init__(self, copies: int, start_cost: NDArray[np.float64] | None) -> None:
        self.total, self.discounted, self.stopped, self.weight = np.zeros((4, copies))
        self.violations, self.length, self.until = np.zeros((3, copies), dtype=np.int64)
        self.initial = np.zeros(copies, dtype=bool)
        self.begin(np.ones(copies, dtype=bool), start_cost)

    def begin(self, which: NDArray[np.bool_], start_cost: NDArray[np.float64] | None) -> None:
        for array in (self.total, self.discounted, self.stopped, self.violations, self.length, self.until):
            array[which] = 0
        self.weight[which] = 1.0
        self.initial[which] = False if start_cost is None else start_cost[which] > 0

    def step(self, rewards: NDArray[np.float64], cost: NDArray[np.float64], discount: float) -> None:
        """Add a step to every copy; those that only reset begin anew right after it."""
        self.until += self.violations == 0
        self.violations += cost > 0
        self.total += rewards
        self.discounted += self.weight * rewards
        self.stopped += np.where(self.violations == 0, rewards, 0.0)
        self.weight *= discount
        self.length += 1

    def record(self, copy: int, terminated: bool) -> tuple[Any, ...]:
        arrays = (self.total, self.discounted, self.stopped, self.violations, self.initial, self.length, self.until)
        return (*(array[copy] for array in arrays), terminated)


def _costs(info: Info, key: str, copies: int) -> NDArray[np.float64] | None:
    """(copies,) of an entry of a vector environment's info, NaN for the copies that do not report it."""
    if key not in info:
        return None
    reported = np.broadcast_to(np.asarray(info.get(f"_{key}", True), dtype=bool), (copies,))
    return np.where(reported, np.asarray(info[key], dtype=np.float64), np.nan)


def _step_costs(
    info: Info, done: NDArray[np.bool_], resetting: NDArray[np.bool_], copies: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """(cost of this step, cost of the first state of the episodes that begin now), either None when not reported.

    Gymnasium's same-step mode moves the information of an episode's last step to info["final_info"], and what stands at
    the top then belongs to the new episode. A vector environment without "final_info" keeps the last step's at the top.
    """
    top, final = _costs(info, "cost", copies), info.get("final_info")
    last = _costs(final, "cost", copies) if isinstance(final, dict) else None
    if last is None:
        step = top
        start = np.where(resetting, top, 0.0) if top is not None else None
    else:
        ended = done & ~np.isnan(last)
        step = np.where(ended, last, np.nan if top is None else top)
        start = top
    if step is None or np.isnan(step[~resetting]).any():
        return None, start
    return step, start


def summarize(episodes: Episodes, confidence: float = 0.95) -> Row:
    """Means with confidence intervals, ready for JSON: {metric: `Measured`}, and "episodes" and "confidence".

    Returns and lengths: Student's t over episodes, with the standard error. Episode rates: Clopper-Pearson, with the
    one-sided `upper` bound to quote for zero counts. Step rates: Student's t cut to [0, 1]; when no step violates their
    upper end is that of the episode rate, because an episode's rate is at most 1 if it violates at all.
    """
    n = len(episodes)

    def mean(values: NDArray[Any]) -> Measured:
        value, low, high = stats.mean_interval(values, confidence)
        return {"value": value, "low": low, "high": high, "n": n, "se": stats.mean_and_standard_error(values)[1]}

    def share(flags: NDArray[np.bool_]) -> Measured:
        count = int(flags.sum())
        value, low, high = stats.clopper_pearson(count, n, confidence)
        upper = stats.clopper_pearson(count, n, confidence, side="upper").high
        return {"value": value, "low": low, "high": high, "n": n, "count": count, "upper": upper}

    summary: Row = {
        "episodes": n,
        "confidence": confidence,
        "return": mean(episodes.returns),
        "discounted_return": mean(episodes.discounted_returns),
        "length": mean(episodes.lengths),
    }
    if episodes.outcomes is not None:
        summary |= {f"{name}_rate": share(episodes.outcomes == word) for name, word in OUTCOMES.items()}
    if episodes.violation_steps is None:
        return summary
    by_episode = share(episodes.violated)

    def rate(values: NDArray[np.float64]) -> Measured:
        measured = mean(values)
        measured["low"], measured["high"] = max(measured["low"], 0.0), min(measured["high"], 1.0)
        return measured if by_episode["count"] else {**measured, "high": by_episode["high"]}

    if (stopped := episodes.stopped_violation_rates) is not None:
        summary["violation_rate_terminated"] = rate(stopped)
    legal = ~episodes.initial_violations
    if legal.any() and not legal.all():
        value, low, high = stats.mean_interval(episodes.violation_rates[legal], confidence)
        if not episodes.violated[legal].any():
            high = stats.clopper_pearson(0, int(legal.sum()), confidence).high
        legally = {"value": value, "low": max(low, 0.0), "high": min(high, 1.0), "n": int(legal.sum())}
        summary["violation_rate_legal_start"] = legally
    return summary | {
        "terminated_return": mean(episodes.terminated_returns),
        "feasible_return": mean(episodes.feasible_returns),
        "violation_rate_step": rate(episodes.violation_rates),
        "violation_rate_episode": by_episode,
        "initial_violation_rate": share(episodes.initial_violations),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Policies and demonstrations


def evaluations(env: VectorEnv, policy: SavedPolicy, episodes: int, seed: int, discount: float = 1.0) -> Table:
    """{"stochastic": row, "deterministic": row} of a policy; `discount` is for discounted_return."""

    def deterministic(obs: Any, rng: np.random.Generator) -> Any:
        return policy.act(obs, rng, deterministic=True)

    with live("evaluating", total=2 * episodes) as update:
        return {
            name: _measured(
                summarize(evaluate(env, act, episodes, seed=seed + 10_000, discount=discount, progress=update))
            )
            for name, act in (("stochastic", policy), ("deterministic", deterministic))
        }


def demonstrated(demos: Demonstrations, discount: float) -> Row:
    """The demonstrations' own row of a table, with intervals.

    It does not say how many begin in violation: demonstrations hold the cost of steps, not that of the first state.
    """
    row = _measured(summarize(episodes_of(demos, discount)))
    row.pop("initial_violation_rate", None)
    return row


def _measured(summary: Row) -> Row:
    """The measured entries, without "episodes" and "confidence"."""
    return {key: value for key, value in summary.items() if isinstance(value, dict)}


def episodes_of(demos: Demonstrations, discount: float) -> Episodes:
    """Demonstrations as evaluated episodes."""
    costs = None if demos.costs is None else demos.costs > 0
    starts = demos.step_offsets
    time = np.arange(demos.n_steps) - np.repeat(starts, demos.lengths)
    if costs is None:
        before = np.ones(demos.n_steps, dtype=bool)
    else:
        # 1 before the first violating step of each trajectory, 0 from it on.
        before = np.concatenate([np.cumsum(part) == 0 for part in np.split(costs, starts[1:])])
    return Episodes(
        returns=demos.returns,
        discounted_returns=np.add.reduceat(demos.rewards * discount**time, starts),
        terminated_returns=np.add.reduceat(demos.rewards * before, starts),
        violation_steps=None if costs is None else np.add.reduceat(costs.astype(np.int64), starts),
        initial_violations=np.zeros(len(demos), dtype=bool),
        lengths=demos.lengths,
        terminated=demos.terminated,
        # The first violating step counts.
        stopped_lengths=np.minimum(np.add.reduceat(before.astype(np.int64), starts) + 1, demos.lengths),
    )
