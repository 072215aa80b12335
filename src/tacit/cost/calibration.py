"""A threshold for a learned cost, with a guarantee: split conformal prediction on demonstrations kept for this alone.

A demonstration's score is the largest cost of its steps,  S = max_t c(s_t, a_t). With n calibration demonstrations

    tau = S_(k),   the k-th smallest score,     k = ceil((n + 1) (1 - delta))                                    (1)

and a further demonstration is accepted if all of its steps cost at most tau. If it and the calibration demonstrations
are exchangeable (drawn alike, in any order) and none of them was learned from,

    P(accepted) >= k / (n + 1) >= 1 - delta                                                                      (2)

whatever the cost and whatever the distribution, with equality on the left if scores are never tied. The probability is
over the calibration demonstrations too: given them, the share of all future demonstrations that is accepted is at least
a Beta(k, n + 1 - k) variable, whose 5 % quantile is reported. (1) needs k <= n, that is n >= 1/delta - 1.

The guarantee bounds false alarms and nothing else: tau = infinity has it, too. So the power is always reported beside
it: how much of an unconstrained agent's behaviour is rejected.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.cost import LearnedCost, load_cost
from tacit.cost.card import save_cost, saved_costs
from tacit.cost.table import TableCost
from tacit.demos import Demonstrations, Trajectory, expert_policy, sample_demonstrations
from tacit.envs.options import exact_model
from tacit.errors import UserError
from tacit.run import storage
from tacit.run.folder import HELD_OUT as HELD_OUT  # its old place
from tacit.run.summary import CalibrationEntry, Power, Rejected
from tacit.stats import clopper_pearson

if TYPE_CHECKING:
    from tacit.run import Run

Cost = LearnedCost | TableCost
CONFIDENCE = 0.95
NOMINAL_EPISODES = 500


@dataclass(frozen=True)
class Calibration:
    """A threshold and its guarantee."""

    threshold: float
    delta: float
    demonstrations: int
    """Number n of calibration demonstrations."""
    rank: int
    """Rank k of the threshold among their scores."""
    sha256: str = ""
    """SHA-256 of the calibration demonstrations."""
    power: Power = field(default_factory=lambda: Power())
    """Share that it rejects of trajectories that ought to be rejected."""

    @property
    def accepts(self) -> float:
        """Guaranteed probability that a fresh demonstration is accepted."""
        return self.rank / (self.demonstrations + 1)

    @property
    def accepts_at_least(self) -> float:
        """Share of all further demonstrations that is accepted, with 95 % confidence."""
        from scipy.stats import beta

        return float(beta.ppf(1 - CONFIDENCE, self.rank, self.demonstrations + 1 - self.rank))

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        return (
            f"A fresh demonstration stays at or below {self.threshold:.4g} at every step with probability at least "
            f"{self.accepts:.3g} (asked for: {1 - self.delta:g}), if it is drawn like the {self.demonstrations} "
            "calibration demonstrations, which were used for nothing else. It says nothing about how many violations "
            "are caught: that is the power."
        )

    def to_dict(self) -> CalibrationEntry:
        """The entry of calibration.json."""
        derived = {"accepts": self.accepts, "accepts_at_least": self.accepts_at_least, "guarantee": self.guarantee}
        return cast(CalibrationEntry, {**asdict(self), **derived})


def conformal_threshold(scores: ArrayLike, delta: float) -> tuple[float, int]:
    """(tau, k) of (1) for scores (n,); UserError if they are too few for this delta."""
    if not 0.0 < delta < 1.0:
        raise UserError(f"delta is the share of demonstrations that may be rejected, between 0 and 1, not {delta}")
    ordered = np.sort(np.asarray(scores, dtype=np.float64).ravel())
    n = len(ordered)
    # (n + 1)(1 - 0.1) is a little more than 9 for n = 9 in floating point.
    rank = max(1, math.ceil((n + 1) * (1.0 - delta) - 1e-9))
    if rank > n:
        needed = math.ceil(1.0 / delta - 1.0 - 1e-9)
        smallest = f"; the smallest delta that {n} support is {1 / (n + 1):.3g}" if n else ""
        raise UserError(
            f"{n} calibration demonstrations are too few to promise acceptance with probability {1 - delta:g}: "
            f"{needed} are needed{smallest}"
        )
    return float(ordered[rank - 1]), rank


def usual_threshold(scores: ArrayLike, highest: float, delta: float = 0.1) -> float:
    """A threshold without a guarantee, for a cost that was not calibrated.

    It is (1) with demonstrations that were learned from, or a tenth of the highest cost if that is more.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    rank = min(len(ordered), math.ceil((len(ordered) + 1) * (1.0 - delta) - 1e-9))
    return max(float(ordered[rank - 1]), 0.1 * highest)


def set_threshold(scores: ArrayLike, highest: float) -> float:
    """The usual threshold, for a cost that is used as a set of forbidden steps.

    Where chance pushes demonstrators over the edge now and then (a slippery floor), a tenth of them reach costs near
    the highest. Their largest costs then say nothing about the edge, and those of the better half count.
    """
    usual = usual_threshold(scores, highest)
    return usual if usual <= 0.5 * highest else usual_threshold(scores, highest, delta=0.5)


def step_costs(cost: Cost, demos: Demonstrations) -> NDArray[Any]:
    """(steps,) cost of each step of the demonstrations."""
    rows = demos.rows_before + (1 if cost.at == "next" else 0)
    return cost(demos.observations[rows], demos.actions if cost.reads_actions else None)


def scores(cost: Cost, demos: Demonstrations) -> NDArray[Any]:
    """(n,) the largest cost among each demonstration's steps."""
    return np.maximum.reduceat(step_costs(cost, demos), demos.step_offsets)


def calibrate(cost: Cost, demos: Demonstrations, delta: float, power: Power | None = None) -> tuple[Cost, Calibration]:
    """(the cost with its threshold, the threshold with its guarantee)."""
    tau, rank = conformal_threshold(scores(cost, demos), delta)
    calibration = Calibration(tau, delta, len(demos), rank, demos.sha256, power or {})
    return replace(cost, threshold=tau).with_card(calibration=calibration.to_dict()), calibration


def rejected(cost: Cost, threshold: float, demos: Demonstrations) -> Rejected:
    """Shares of trajectories (with their 95 % interval) and of steps that a threshold rejects."""
    costs = step_costs(cost, demos)
    whole = np.maximum.reduceat(costs, demos.step_offsets) > threshold
    value, low, high = clopper_pearson(int(whole.sum()), len(whole), CONFIDENCE)
    return {
        "trajectories": {"value": value, "low": low, "high": high, "n": len(whole)},
        "steps": float((costs > threshold).mean()),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Runs


def calibrate_run(
    run: Run, demos: Demonstrations | None, delta: float, against: Demonstrations | None = None
) -> dict[str, Calibration]:
    """Put a threshold on every cost of a finished run, in its files and in calibration.json.

    demos: by default those that were held out when the run was started. against: trajectories that ought to be
    rejected, to measure the power. An explanation of the run that was saved before has the old threshold:
    `tacit.explain.refresh_explanation` brings it up to date, as `tacit calibrate` does.
    """
    held = run.held_out() if demos is None else demos
    _refuse_learned_from(run, held)
    calibrations, costs = {}, {}
    for name in saved_costs(run):
        cost = load_cost(run, name)
        tau, _ = conformal_threshold(scores(cost, held), delta)
        costs[name], calibrations[name] = calibrate(cost, held, delta, power_of(run, cost, tau, against))
    if not calibrations:
        raise UserError(f"{run.path} has no learned cost to calibrate")
    with run:
        for name, cost in costs.items():
            save_cost(run, name, cost)
        run.write("calibration.json", {name: one.to_dict() for name, one in calibrations.items()})
    return calibrations


def power_of(run: Run, cost: Cost, threshold: float, against: Demonstrations | None = None) -> Power:
    """How much of the unconstrained agent's behaviour is rejected, by the run folder's samples or by `against`."""
    if against is not None:
        return {"of": "the trajectories given", **rejected(cost, threshold, against)}
    nominal = nominal_of_gridworld(run)
    if nominal is not None:
        return {"of": "the agent that follows the reward alone", **rejected(cost, threshold, nominal)}
    file = run.path / "samples.safetensors"
    if not file.exists() or isinstance(cost, TableCost):
        return {}
    rows = storage.load_arrays(file)[0].get("nominal")
    if rows is None or rows.ndim != 2 or rows.shape[1] != cost.inputs.width:
        return {}
    share = float((cost.of_rows(rows) > threshold).mean())
    return {"of": "the agent that follows the reward alone, early in its training", "steps": share}


def nominal_of_gridworld(run: Run) -> Demonstrations | None:
    """Episodes of the exact unconstrained agent; None where there is no exact model."""
    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    if spec is None:
        return None
    beta = run.config["config"].get("beta", 0.1) if run.config["algo"] == "mce-exact" else 0.1
    observation = run.config["env_kwargs"].get("observation", "position")
    free = expert_policy(spec, beta, 0.0)
    return sample_demonstrations(
        spec, free, NOMINAL_EPISODES, seed=run.config["seed"] + 30_000, observation=observation
    )


def split(demos: Demonstrations, held: int, seed: int) -> tuple[Demonstrations, Demonstrations]:
    """(demonstrations to learn from, `held` of them to calibrate with), at random because files may be sorted."""
    if held < 0:
        raise UserError(f"the number of demonstrations to hold out cannot be negative: {held}")
    if not 0 < held < len(demos):
        raise UserError(f"{held} of {len(demos)} demonstrations cannot be held out: at least one must be left to learn")
    order = np.random.default_rng([seed, 11]).permutation(len(demos))
    return demos.subset(np.sort(order[held:])), demos.subset(np.sort(order[:held]))


def _refuse_learned_from(run: Run, held: Demonstrations) -> None:
    used = run.learned_from()
    # On a grid two people walk the same way by chance; in a continuous world nobody does.
    chance = not (held.observations % 1).any()
    fingerprints = {_fingerprint(trajectory) for trajectory in used}
    double = sum(_fingerprint(trajectory) in fingerprints for trajectory in held)
    if chance and held.sha256 != used.sha256:
        return
    if double:
        raise UserError(
            f"{double} of the {len(held)} calibration demonstrations were learned from, so the guarantee would not "
            "hold: use others"
        )


def _fingerprint(trajectory: Trajectory) -> str:
    # Rounded to float32: the same trajectory may have been stored in either precision.
    arrays = {"observations": trajectory.observations, "actions": trajectory.actions}
    return storage.sha256_of_arrays({key: np.asarray(value, dtype=np.float32) for key, value in arrays.items()})
