"""The data of a report, read from the run folder. Missing or damaged parts are left out and noted.

A run of `ppo` in the same environment beside it lends its agent for a film; nothing else is read from elsewhere.

Files read, all optional but config.json:
    config.json, provenance.json, DONE, summary.json, explanation.json, calibration.json
                          see `tacit.run.summary`
    certificate.json      {"status", "statement", "gap", "kkt", "infeasibility", "planner_residual",
                          "backward_error", ...}
    metrics.jsonl         {"iteration", "beta", "dual_value", "kkt", "gap", "infeasibility"} a line
    eval.jsonl            {"step", "eval/return", ...} a line
    samples.safetensors   rows [observation | action] (n, width) of "expert", "nominal", "learner", and "expert_range"
                          (2, width), with which model/cost.safetensors and model/map.safetensors are drawn; "history"
                          of all phases, and "nominal_truth" and "history_truth" (n,), for judging a rule
    model/policy.safetensors   one episode is shown in pictures
    figures.safetensors   row, col, expert_visits, learned_visits, unconstrained_visits, cost_state, cost_state_beta001,
                          true_constraint, unknown, and blame where there is no solution, each (S,);
                          metadata {"layout": the text of the map}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from tacit.cost import LearnedCost
from tacit.errors import UserError
from tacit.explain import explain
from tacit.explain.findings import with_overlap
from tacit.policy import Policy
from tacit.run import Run, storage
from tacit.run.summary import (
    CalibrationEntry,
    Explanation,
    Provenance,
    Record,
    Row,
    RunConfig,
    Summary,
    Table,
    as_mapping,
)

T = TypeVar("T")
SUMMARY: dict[str, type] = {
    **dict.fromkeys(("table", "cost_quality", "labels", "threshold", "detection", "demonstrations", "time"), dict),
    "boundaries": list,
}
"""Types of the entries of summary.json."""
REWARD_ALONE = ("ppo", "expert")
"""Methods whose agents follow a reward; the first one knows of no constraint."""
NOTHING: tuple[Mapping[str, np.ndarray], Record] = ({}, {})
"""Stands for a missing file of arrays with metadata."""


@dataclass(frozen=True)
class RunData:
    """Everything the report knows about a run."""

    name: str
    config: RunConfig
    done: bool
    """Whether the run has finished."""
    provenance: Provenance = field(default_factory=lambda: Provenance())
    summary: Summary = field(default_factory=lambda: Summary())
    certificate: Record = field(default_factory=dict)
    """The numbers of an exact solution's proof, {name: number}, and its "status" and "statement"."""
    metrics: Sequence[Record] = ()
    """Lines of metrics.jsonl."""
    evals: Sequence[Record] = ()
    """Lines of eval.jsonl."""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    """Per-state arrays for the pictures, all of one length."""
    layout: tuple[str, ...] = ()
    """Rows of the map."""
    samples: dict[str, np.ndarray] = field(default_factory=dict)
    """States of demonstrations and learner, to draw costs with; empty unless they fit all of `costs`."""
    costs: dict[str, LearnedCost] = field(default_factory=dict)
    """The "map" and the "cost" of a deep run."""
    explanation: Explanation | None = None
    """The explanation of `tacit explain`; its entries may be damaged."""
    calibration: Mapping[str, CalibrationEntry] = field(default_factory=dict)
    """The guarantees of `tacit calibrate`, {"cost" | "map": ...}; their entries may be damaged."""
    policy: Policy | None = None
    """The learned policy, for pictures of an episode."""
    policy_table: np.ndarray | None = None
    """(S, A) the learned policy of an exact run, for the same."""
    reward_alone: Policy | None = None
    """An agent without constraint, to be filmed beside it: of a finished run of `ppo` in the same folder of runs."""
    notes: tuple[str, ...] = ()
    """Sentences about missing or damaged parts."""

    @property
    def status(self) -> str:
        return str(self.summary.get("status") or self.certificate.get("status") or ("" if self.done else "unfinished"))

    @property
    def has_map(self) -> bool:
        """Whether a map beside the cost was judged; a cost of terms is read as it is."""
        return "map" in as_mapping(self.summary.get("detection")) or "map" in self.costs

    @property
    def quality(self) -> Row:
        """The quality of the cost, {metric: number}, with the overlap at the learned threshold."""
        return with_overlap(as_mapping(self.summary.get("cost_quality")), self.explanation)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of table rows, {agent: label}, if the usual names do not fit."""
        return {str(k): str(v) for k, v in as_mapping(self.summary.get("labels")).items()}

    @property
    def table(self) -> Table:
        """{agent: {metric: entry}}, without entries of the wrong type."""
        return {k: v for k, v in as_mapping(self.summary.get("table")).items() if isinstance(v, dict)}


def load_run(run: Run) -> RunData:
    """Read a run folder; parts that are missing or damaged are named in `notes`."""
    notes: list[str] = [] if run.done else ["This run has not finished: the numbers below are not final."]

    def attempt(name: str, read: Callable[[], T], default: T, needed: bool = False) -> T:
        if not (run.path / name).exists():
            if needed:
                notes.append(f"The folder has no {name}, so the parts that need it are left out.")
            return default
        try:
            value = read()
        except UserError as error:
            notes.append(f"Left out because {error}.")
            return default
        if not isinstance(value, type(default)):
            notes.append(f"Left out because {name} does not have the expected form.")
            return default
        return value

    summary = _checked_summary(attempt("summary.json", lambda: run.read("summary.json"), {}, True), notes)
    exact = run.config["algo"] == "mce-exact"
    # A run without a solution has few arrays to draw.
    solved = exact and summary.get("status") != "infeasible"
    arrays, metadata = attempt(
        "figures.safetensors", lambda: storage.load_arrays(run.path / "figures.safetensors"), NOTHING, solved
    )
    samples, costs = _sampled(run, attempt, notes)
    none: dict[str, object] = {}
    explanation = attempt("explanation.json", lambda: _explanation(run), none)
    no_policy: tuple[Policy, ...] = ()
    policy = attempt("model/policy.safetensors", lambda: _network(run), no_policy)
    tables: tuple[np.ndarray, ...] = attempt("model/policy.safetensors", lambda: _table(run), ()) if solved else ()
    layout = metadata.get("layout", "")
    rows = tuple(layout.strip("\n").split("\n") if isinstance(layout, str) else map(str, layout))
    return RunData(
        name=run.path.name,
        config=cast(RunConfig, run.config),
        done=run.done,
        provenance=cast(Provenance, attempt("provenance.json", lambda: run.read("provenance.json"), {}, True)),
        summary=summary,
        certificate=attempt("certificate.json", lambda: run.read("certificate.json"), {}, exact),
        metrics=attempt("metrics.jsonl", run.metrics, [], solved),
        evals=attempt("eval.jsonl", run.evals, []),
        arrays=_checked_arrays(arrays, rows, notes),
        layout=rows if rows != ("",) else (),
        samples=samples,
        costs=costs,
        explanation=cast(Explanation, explanation) if explanation else None,
        calibration=attempt("calibration.json", lambda: run.read("calibration.json"), {}),
        policy=policy[0] if policy else None,
        policy_table=tables[0] if tables else None,
        reward_alone=_without_constraint(run) if policy else None,
        notes=tuple(notes),
    )


def _explanation(run: Run) -> Any:
    """explanation.json. It is computed again if the cost was calibrated since, so the page shows only one threshold."""
    saved = run.read("explanation.json")
    entry = as_mapping(saved)
    file = run.path / "model" / f"{entry.get('of')}.json"
    level = as_mapping(storage.read_json(file)).get("threshold") if file.exists() else None
    return saved if level in (None, entry.get("threshold")) else dict(explain(run, entry["of"]))


def _checked_summary(summary: Record, notes: list[str]) -> Summary:
    """The parts of summary.json that have the expected form; the others are noted and dropped."""
    wrong = [name for name, kind in SUMMARY.items() if name in summary and not isinstance(summary[name], kind)]
    table = {} if "table" in wrong else summary.get("table", {})
    rows = [f"{name} of the table" for name, row in table.items() if not isinstance(row, dict)]
    if wrong or rows:
        notes.append(f"Left out because summary.json does not have the expected form: {', '.join([*wrong, *rows])}.")
    kept = {name: part for name, part in summary.items() if name not in wrong}
    if rows:
        kept["table"] = {name: row for name, row in table.items() if isinstance(row, dict)}
    return cast(Summary, kept)


def _sampled(
    run: Run, attempt: Callable[..., Any], notes: list[str]
) -> tuple[dict[str, np.ndarray], dict[str, LearnedCost]]:
    """The states in samples.safetensors, and the costs that can be drawn with them."""
    files = {name: run.path / "model" / f"{name}.safetensors" for name in ("map", "cost")}
    samples = attempt(
        "samples.safetensors",
        lambda: storage.load_arrays(run.path / "samples.safetensors"),
        NOTHING,
        files["map"].exists(),
    )[0]
    costs: dict[str, LearnedCost] = {}
    for name, file in files.items() if samples else ():
        # Other methods have no separate map, nor has a cost of terms.
        expected = name == "cost" or (run.config["algo"] == "mce" and run.config["config"].get("features") != "terms")
        for cost in attempt(f"model/{file.name}", lambda file=file: (LearnedCost.load(file),), (), expected):
            costs[name] = cost
    widths = {cost.inputs.width for cost in costs.values()}
    fits = {"expert", "nominal", "learner"} <= samples.keys() and all(
        array.ndim == 2 and len(array) and {array.shape[1]} == widths and np.isfinite(array).all()
        for name, array in samples.items()
        if not name.endswith("_truth")
    )
    if costs and not fits:
        notes.append("Left out because samples.safetensors does not fit the learned cost.")
    return (samples, costs) if fits else ({}, {})


def _network(run: Run) -> tuple[Policy, ...]:
    arrays, card = run.load_model("policy")
    try:
        return (Policy.from_arrays(arrays, card),) if card.get("kind") == "policy" else ()
    except (KeyError, TypeError) as error:
        raise UserError(f"model/policy.safetensors is damaged ({error})") from None


def _table(run: Run) -> tuple[np.ndarray, ...]:
    arrays, card = run.load_model("policy")
    return (arrays["policy"],) if card.get("kind") == "tabular" and "policy" in arrays else ()


def _without_constraint(run: Run) -> Policy | None:
    """The agent of a run of `ppo` beside this one, in the same environment; None if there is none."""
    if run.config["algo"] in REWARD_ALONE:
        return None
    for path in sorted(run.path.parent.glob(f"{REWARD_ALONE[0]}-*")):
        try:
            other = Run.open(path)
            same = all(other.config[key] == run.config[key] for key in ("env", "env_kwargs"))
            if same and other.done:
                return next(iter(_network(other)), None)
        except (UserError, OSError):  # it is not this run's report that fails
            continue
    return None


def _checked_arrays(
    arrays: Mapping[str, np.ndarray], layout: tuple[str, ...], notes: list[str]
) -> dict[str, np.ndarray]:
    """The arrays that fit the map; the others are noted and dropped."""
    if "row" not in arrays or "col" not in arrays:
        return {}
    row, col = arrays["row"], arrays["col"]
    fits = (
        row.ndim == 1
        and row.shape == col.shape
        and row.dtype.kind in "iu"
        and col.dtype.kind in "iu"
        and all(0 <= r < len(layout) and 0 <= c < len(layout[r]) for r, c in zip(row, col, strict=True))
    )
    if not fits:
        notes.append("Left out because the pictures in figures.safetensors do not fit the map.")
        return {}
    wrong = [name for name, array in arrays.items() if array.shape != row.shape]
    if wrong:
        notes.append(f"Left out because they do not fit the map: {', '.join(wrong)}.")
    return {name: array for name, array in arrays.items() if name not in wrong}
