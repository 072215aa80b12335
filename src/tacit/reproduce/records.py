"""The numbers of one finished run, in one form for all experiments that are made of learned policies.

One form, so that an experiment can take over what another has measured of the same run. (Not an experiment itself.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce.table_experts import mean_of

if TYPE_CHECKING:
    from tacit.run import Run
    from tacit.sweep import Job

AGENTS = {"stochastic": "learned", "deterministic": "learned, deterministic"}
METRICS: tuple[str, ...] = ("return", "terminated_return", "feasible_return", "violation_rate_step")
METRICS += ("violation_rate_episode", "violation_rate_terminated", "initial_violation_rate")
CURVES: dict[str, tuple[str, ...]] = {
    "return": ("rollout/ep_rew_mean",),
    "violations": ("truth/violation_rate_step", "rollout/cost_mean"),
    "learner_cost": ("dual/learner_cost",),
    "expert_cost": ("dual/expert_cost",),
}
"""Names in the log, the first that a record has; curves of which a log knows nothing are left out."""
POINTS = 60


def collect(job: Job, run: Run) -> dict[str, Any]:
    """The final evaluation, the demonstrations', the quality of the cost, the time, and the curves, thinned."""
    from tacit.cost import quality

    summary = run.read("summary.json")
    found: dict[str, Any] = {}
    for name, key in AGENTS.items():
        row = summary["table"].get(key, summary["table"].get(name))  # the second: of an expert
        if row is not None:  # exact methods have no policy without noise
            found[name] = evaluation(row)
    shown = summary["table"].get("demonstrations") or summary["table"].get("expert")
    return {
        **found,
        "expert": None if shown is None else evaluation(shown),
        "cost_quality": summary.get("cost_quality"),
        "detection": quality.of_run(run) or summary.get("detection"),  # by today's definitions
        "made": summary.get("steps"),
        "threshold": summary.get("threshold"),
        "resets": summary.get("resets"),
        "source": summary.get("source"),  # of a frozen cost
        "phases": summary.get("time"),
        "curves": curves_of(run.metrics()),
    }


def evaluation(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of an agent, with the count of violating episodes where they were counted."""
    found = {key: _value(row[key]) for key in METRICS if key in row}
    episodes = row.get("violation_rate_episode")
    if isinstance(episodes, Mapping):
        found |= {key: episodes[key] for key in ("count", "n") if key in episodes}
    return found


def _value(entry: Any) -> float:
    return float(entry["value"] if isinstance(entry, Mapping) else entry)


def curves_of(log: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """{"steps", "return", "violations", ...}, at most POINTS each; empty where no environment steps are counted."""
    log = [record for record in log if "steps" in record]
    if not log:
        return {}
    parts = np.array_split(np.arange(len(log)), min(POINTS, len(log)))
    curves = {"steps": [log[part[-1]]["steps"] for part in parts]}
    for name, keys in CURVES.items():
        values = np.array([next((r[k] for k in keys if k in r), np.nan) for r in log], dtype=float)
        if name in ("return", "violations") or np.isfinite(values).any():
            curves[name] = [mean_of(values[part]) for part in parts]
    return curves


def shown(run: Mapping[str, Any]) -> float | None:
    """What the demonstrations of a run earn until their first violation, if it has any."""
    expert = run.get("expert") or {}
    value = expert.get("terminated_return", expert.get("return", run.get("demonstrations")))  # the last: older records
    return None if value is None else float(value)


def steps_made(run: Mapping[str, Any]) -> float | None:
    """Environment steps that were made; of an older record, those that were asked for."""
    steps = run.get("made") or run["steps"]
    return None if steps is None else float(steps)


# ---------------------------------------------------------------------------------------------------------------------
# In tables


def header(head: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]


def labelled(results: Mapping[str, Any], label: str) -> list[dict[str, Any]]:
    """The runs of that label, by seed."""
    return sorted((run for run in results["runs"] if run["label"] == label), key=lambda run: run["seed"])
