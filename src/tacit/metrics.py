"""The name and the definition of every reported number, for tables, reports and help texts."""

from __future__ import annotations

import math
from typing import NamedTuple


class Metric(NamedTuple):
    """One reported number."""

    label: str
    definition: str
    unit: str = ""
    """"share" (in percent) or "score" (between 0 and 1); otherwise the unit of the reward or of steps."""


METRICS: dict[str, Metric] = {
    "return": Metric(
        "return", "Mean total reward of an episode in the nominal environment, which does not stop at a violation."
    ),
    "discounted_return": Metric("discounted return", "Mean of the rewards of an episode weighted by discount^t."),
    "terminated_return": Metric(
        "return before violation",
        "Mean sum of the rewards before the first violating step of an episode. The episode itself goes on.",
    ),
    "feasible_return": Metric(
        "feasible return",
        "Mean reward collected before the first violation; nothing for an episode that starts in violation.",
    ),
    "violation_rate_step": Metric(
        "violating steps",
        "Share of an episode's steps that violate the true constraint, averaged over episodes.",
        "share",
    ),
    "violation_rate_episode": Metric(
        "violating episodes",
        "Share of episodes with at least one violating step. Zero counts come with an upper confidence bound.",
        "share",
    ),
    "violation_rate_terminated": Metric(
        "violating steps, stopped",
        "Share of violating steps when the episode stops at the first of them: one over the steps until then, or 0.",
        "share",
    ),
    "initial_violation_rate": Metric(
        "violating starts",
        "Share of episodes whose very first state violates, before the agent has acted. Not part of the other rates.",
        "share",
    ),
    "violation_rate_legal_start": Metric(
        "violating steps, legal starts",
        "Share of violating steps, averaged over the episodes that do not start in violation.",
        "share",
    ),
    "goal_rate": Metric("goal", "Share of episodes that end at the goal.", "share"),
    "collision_rate": Metric("collision", "Share of episodes that end in a collision.", "share"),
    "off_road_rate": Metric("off-road", "Share of episodes that end off the road.", "share"),
    "time_out_rate": Metric("time-out", "Share of episodes that end because time is out.", "share"),
    "violation_occupancy": Metric(
        "violation occupancy",
        "Expected discounted number of visits to constrained states: the sum over t of discount^t times the "
        "probability that the state at time t is constrained.",
    ),
    "excess_violation_occupancy": Metric(
        "excess over expert",
        "Violation occupancy of the agent minus that of the expert. In a slippery world not even the expert has zero.",
    ),
    "return_gap": Metric(
        "return lost", "Discounted return of the expert minus that of the agent; negative when the agent earns more."
    ),
    "length": Metric("length", "Mean number of steps of an episode."),
    "auroc": Metric(
        "AUROC",
        "Probability that a truly constrained state has a higher learned cost than an allowed one (ties count half). "
        "1 is perfect, 0.5 is guessing.",
        "score",
    ),
    "auroc_outside": Metric(
        "outside the band",
        "AUROC without the states between the outermost demonstration and the true limit, which the data leave open.",
        "score",
    ),
    "auprc": Metric(
        "AUPRC",
        "Average precision of the learned cost as a detector of constrained states. 1 is perfect; guessing gives the "
        "share of constrained states.",
        "score",
    ),
    "iou": Metric(
        "IoU",
        "Overlap (intersection over union) of the truly constrained states with those whose cost exceeds the learned "
        "threshold. 1 is perfect.",
        "score",
    ),
    "best_iou": Metric(
        "best IoU",
        "Overlap (intersection over union) of the truly constrained states with the states whose cost exceeds a "
        "threshold, at the threshold that suits the truth best, which the learner does not know. 1 is perfect.",
        "score",
    ),
    "best_threshold": Metric("threshold", "States with a learned cost above it are marked, for the best IoU."),
    "false_alarms": Metric(
        "false alarms", "Share of the truly allowed states whose cost exceeds the learned threshold.", "share"
    ),
    "missed": Metric(
        "missed", "Share of the truly constrained states whose cost does not exceed the learned threshold.", "share"
    ),
    "constrained": Metric("constrained", "Share of the states of a distribution that are truly constrained.", "share"),
    "rejected": Metric(
        "rejected demonstrations",
        "Share of demonstrations, kept out of learning, in which some step costs more than the learned threshold.",
        "share",
    ),
}

AGENTS = {
    "expert": "expert",
    "demonstrations": "demonstrations",
    "unconstrained": "without constraint",
    "learned": "learned constraint",
    "learned, deterministic": "learned, without noise",
}
"""Labels of the rows of a summary's table, in their order."""

ENDS = ("goal_rate", "collision_rate", "off_road_rate", "time_out_rate")
"""How episodes end, where the environment says it."""
DETECTION = ("auroc", "auroc_outside", "auprc", "iou", "false_alarms", "missed", "constrained")
"""A cost as a detector of truly constrained states, in the order of tables."""

ALIASES = {"violation_rate": "violation_rate_step", "expected_return": "return", "expected_length": "length"}
"""Other keys under which run folders may store the same quantities."""


def lookup(key: str) -> Metric:
    """The metric stored under `key`, which may be an alias; an unknown key has itself as label and no definition."""
    return METRICS.get(ALIASES.get(key, key)) or Metric(key.replace("_", " "), "")


# ---------------------------------------------------------------------------------------------------------------------
# Numbers as people read them: terminal, report and explanations round in this one way, so they never seem to disagree


def percent(share: float) -> str:
    """A share with three digits: '24.8 %', '8 %'. Only a whole share is '100 %', and only an empty one is '0 %'."""
    if math.isnan(share):
        return "unknown"
    value = 100 * abs(share)
    text = "under 0.001" if 0 < value < 0.001 else decimal(value, 3)
    if text == "100" and value < 100:
        text = "over 99.9"
    return f"{'-' if share < 0 else ''}{text} %"


def rounded_up(value: float, digits: int = 3) -> float:
    """A budget that is just enough, with so many digits and never less: 0.03571 becomes 0.0358."""
    if not 0 < value < math.inf:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.ceil(value / unit) * unit:.{digits}g}")


def decimal(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, without a power of ten and without zeros at the end."""
    if value == 0:
        return "0"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:.0f}"
    text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def figures(value: float, unit: str = "") -> str:
    """A number with its unit: a "share" in percent, a "score" with three decimals, anything else with four digits."""
    if unit == "share":
        return percent(value)
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit == "score":
        return f"{value:.3f}"
    return decimal(value) if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.2g}"
