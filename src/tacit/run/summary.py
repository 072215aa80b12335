"""Types of the JSON files of a run folder: summary.json, config.json, explanation.json, calibration.json.

The files are the interface between training and everything that reads a run: reports, tables, sweeps, experiments. A
run leaves out what it has not measured, and older runs lack entries that were added later. The types describe intact
files. Code that reads a file from disk checks the entries that it uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard

Record = Mapping[str, Any]
"""A JSON object whose entries are checked where they are used: a line of a log, a card, an entry of a file."""


Card = dict[str, Any]
"""The JSON card inside a model file: what the model is, and where it comes from; see `tacit.cost.card`."""


class Measured(TypedDict):
    """A measured number with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    """Number of episodes, trajectories or states."""
    se: NotRequired[float]
    """Standard error; only for means."""
    count: NotRequired[int]
    """Count; only for shares."""
    upper: NotRequired[float]
    """One-sided 95 % upper bound; only for shares, to quote with a count of 0."""


Row = dict[str, Any]
"""{metric: number or `Measured`} of one agent; the metrics are those of `tacit.metrics`."""
Table = dict[str, Row]
"""{agent: row}; the agents are those of `tacit.metrics.AGENTS`."""


class Boundary(TypedDict):
    """One bound that a cost draws on a single feature; see `tacit.cost.bounds.Bound`."""

    feature: str
    relation: str
    value: float
    demonstrated: float
    share: float


class Threshold(TypedDict):
    """The environment's own bound beside the learned one on the same side of the same feature."""

    truth: str
    """The true bound in words, such as 'x_position > 0.5'."""
    found: str | None
    """The learned bound in the same form; None if there is none on that side."""
    demonstrated: NotRequired[float]
    """The demonstrations' extreme on that side."""
    error: NotRequired[float]
    """Distance of the learned bound from where it could be; see `tacit.cost.bounds.threshold_error`."""


class Rejected(TypedDict):
    """What a threshold rejects of a set of trajectories."""

    trajectories: Measured
    """Trajectories with at least one step above the threshold."""
    steps: float
    """Share of the steps above it."""


class Detection(TypedDict):
    """A cost as a detector of truly constrained states; see `tacit.cost.quality`."""

    threshold: float
    calibrated: bool
    on: dict[str, dict[str, float]]
    """{distribution of states: {metric: number}}"""
    rejected: NotRequired[Rejected]
    """What the threshold rejects of the demonstrations that were held out of learning."""


class JointTest(TypedDict):
    """Does the learned policy go where reward draws agents and no demonstrator goes? See `tacit.cost.avoided`."""

    inputs: list[str]
    """The two inputs of the box that most of its episodes enter."""
    box: list[list[float]]
    """[low, high] of each of them."""
    learner: Record
    demonstrations: Record
    """Share of held-out episodes that enter such a box: {"value", "low", "high", "n", "count"}."""
    auroc: Record
    """Of telling the one from the other by it: {"value", "low", "high"}."""
    p: float
    """p-value of the difference."""


class Obedience(TypedDict, total=False):
    """Does a fresh agent keep to a frozen cost? See `tacit.forward.obedience`."""

    above: Record
    """Share of its episodes with a step above the threshold: {"value", "low", "high", "n"}."""
    demonstrations: Record
    """The same of the demonstrations, if they are of this task."""
    steps: float
    """Share of its steps above the threshold."""
    unknown: float
    """Share of its steps well outside of everything that the run of the cost has seen."""
    threshold: float


class Blame(TypedDict):
    """One feature's part in a proof that there is no solution."""

    name: str
    blame: float
    """Its weight in the proof."""
    expert: float
    """Allowed discounted visits."""


class Budget(TypedDict):
    """A budget that gives a solution."""

    budget: float
    why: str


class Diagnosis(TypedDict):
    """Why there is no solution, and what to do."""

    text: str
    features: list[Blame]
    budgets: list[Budget]


class Summary(TypedDict, total=False):
    """summary.json: what a run found."""

    status: str
    """Status of an exact run: "optimal", "stationary", "infeasible" or "iteration limit"."""
    statement: str
    """The result in one sentence, if the method states one."""
    table: Table
    """What the agents do in the true environment."""
    labels: dict[str, str]
    """Labels of table rows, {agent: label}, if the usual names do not fit."""
    demonstrations: Record
    """Plain numbers of the demonstrations; see `Demonstrations.summary`."""
    boundaries: list[Boundary]
    """Bounds of the constraint map, or else of the cost: at most five, the one that explains most first."""
    cost_quality: dict[str, float]
    """{metric: number} of the cost against the truth; "auroc_cost" is of the cost that drove the policy."""
    detection: dict[str, Detection]
    """Detection quality of {"cost" | "map": ...} on several distributions of states."""
    threshold: Threshold
    joint_test: JointTest
    obedience: Obedience
    read: list[str]
    """Inputs that a cost of terms reads."""
    agents_cost: float
    """Mean cost of a step of agents without constraint."""
    outside: float
    """Share of the rejected states of agents without constraint that lie outside of the demonstrations' range."""
    other_options: Record
    """Options with which the demonstrations were made, where this run has others."""
    diagnosis: Diagnosis
    """Diagnosis of an exact run without a solution."""
    forbidden: list[list[int]]
    """Forbidden cells (row, column) of a greedy run, in the order in which they were added."""
    gains: list[float]
    """Gain from each forbidden cell of a greedy run, in nats per demonstration."""
    exact: dict[str, float]
    """Comparison of a deep run's policy with the exact one, on a gridworld."""
    source: dict[str, Any]
    """Source of the frozen cost that a policy was trained with."""
    time: dict[str, float]
    """Seconds of each phase."""
    steps: int
    """Environment steps."""
    resets: int
    """Number of times that the policy had to start again."""


# ---------------------------------------------------------------------------------------------------------------------
# config.json and provenance.json


class DemosSource(TypedDict, total=False):
    """The demonstrations of a run."""

    path: str | None
    """Path of the demonstration file; None if the run made them or they were put into its folder."""
    sha256: str
    calibration: str
    """SHA-256 of the demonstrations that were held out for a threshold."""


class RunConfig(TypedDict):
    """config.json: everything that was asked for."""

    schema: int
    algo: str
    env: str
    env_kwargs: dict[str, Any]
    seed: int
    config: dict[str, Any]
    """Every setting of the algorithm, resolved."""
    demos: DemosSource | None


class Provenance(TypedDict, total=False):
    """provenance.json: where the numbers come from."""

    versions: dict[str, str]
    commit: str | None
    platform: str
    cpu: str
    cpu_count: int | None
    threads: dict[str, str]
    command: str
    started: str
    """Times are UTC."""
    finished: str | None


# ---------------------------------------------------------------------------------------------------------------------
# explanation.json


class Agreement(TypedDict):
    """How far two sets of states agree."""

    agreement: float
    """Share of all states on which they agree."""
    precision: float
    """Share of the first that is in the second; NaN if the first is empty."""
    recall: float
    """Share of the second that is in the first; NaN if the second is empty."""
    n: int


class Truth(Agreement):
    """A rule compared with the environment's true constraint."""

    constraint: str | None
    """The true constraint in words, if the environment states it."""
    note: str
    certain: Agreement
    """The same without the states that the data leave open."""


class Forbids(TypedDict):
    """What a rule forbids of the demonstrations."""

    demonstrations: float
    """Share of their states."""
    n: int
    held_out: bool
    """Whether nothing was fitted to them. Otherwise both the cost and the rule were."""


class Confidence(TypedDict):
    """An ensemble's agreement on what the learner tried."""

    members: int
    doubtful: float
    """Share of the states on which the members disagree."""
    forbidden: float
    """Share of the states that nearly all members forbid."""
    note: str


class ClauseEntry(TypedDict):
    """A conjunction of bounds and regions."""

    bounds: list[dict[str, Any]]
    """Bounds; see `tacit.cost.bounds.Bound.from_json`."""
    regions: list[dict[str, Any]]
    """Regions; see `tacit.explain.regions.region_from_json`."""
    share: float
    """Share of the rejected states that this clause explains first."""
    text: str


class PictureEntry(TypedDict):
    """A picture of the cost and the rule: explanation.svg, explanation-2.svg, ..."""

    features: list[str]
    """One or two."""
    title: str
    caption: str


class Alternative(TypedDict):
    """Another bound that could be the reason instead."""

    text: str
    share: float
    """Share of the rejected states that lie beyond it."""


class _Explanation(TypedDict):
    """The common part of both kinds of explanation."""

    of: str
    """"map" or "cost"."""
    threshold: float
    """Threshold of the cost; states that cost more are forbidden."""
    guarantee: str | None
    """Guarantee of a calibrated threshold."""
    rule: str
    coverage: Agreement
    """The rule compared with what the cost rejects, on states that it was not fitted to. Older files call it
    "fidelity"."""
    forbids: Forbids
    rejected: dict[str, float]
    """Share of each agent's states that the cost rejects."""
    truth: Truth | None
    confidence: Confidence | None
    sentence: str
    """The rule, and what is not known, in one sentence."""


class FeatureExplanation(_Explanation):
    """A cost of named features as a rule of bounds and regions."""

    kind: Literal["features"]
    clauses: list[ClauseEntry]
    pictures: list[PictureEntry]
    also: list[str]
    """Bounds of the cost that the rule does not need."""
    instead: list[Alternative]
    margin: NotRequired[dict[str, float]]
    """A margin to suggest: how much each input of the cost usually changes in a demonstrated step."""


class CellExplanation(_Explanation):
    """A cost over the cells of a gridworld as rectangles."""

    kind: Literal["cells"]
    cells: list[list[int]]
    """(row, column) of the forbidden cells."""
    unknown: list[list[int]]
    """Allowed cells that neither a demonstration nor an unconstrained agent enters."""
    extrapolated: list[list[int]]
    """Forbidden cells that neither a demonstration nor an unconstrained agent enters."""
    unknown_in_words: str
    costs: list[float]
    """The cells that are not walls, row by row."""
    layout: list[str]


Explanation = FeatureExplanation | CellExplanation


# ---------------------------------------------------------------------------------------------------------------------
# calibration.json


class Power(TypedDict, total=False):
    """Share that a threshold rejects of trajectories that it ought to reject; empty if there are none."""

    of: str
    """Whose trajectories they are."""
    trajectories: Measured
    steps: float


class CalibrationEntry(TypedDict):
    """A threshold and its guarantee; see `tacit.cost.calibration.Calibration`."""

    threshold: float
    delta: float
    demonstrations: int
    rank: int
    sha256: str
    power: Power
    accepts: float
    accepts_at_least: float
    guarantee: str


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a number: infinity is one, NaN and booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def value_of(entry: object) -> float | None:
    """The number of a table's entry, which is a number or a `Measured`; None if there is none."""
    if isinstance(entry, Mapping):
        entry = entry.get("value", entry.get("mean"))
    return float(entry) if is_number(entry) else None


def as_mapping(value: object) -> Record:
    """The value if it is a JSON object, else an empty object."""
    return value if isinstance(value, Mapping) else {}
