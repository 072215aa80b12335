"""What experiments that set methods or settings side by side share: jobs, tables, curves.

A run's label is "GROUP: ROW". A group is what is compared within (a robot, a stochasticity); a row is a method or a
setting, `Row`. Jobs with equal settings are the same run folder, so experiments that have rows in common share their
runs, and nothing is trained twice. (Not an experiment itself.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce.deep_runs import QUICK
from tacit.reproduce.highway_runs import accepted
from tacit.reproduce.records import AGENTS, METRICS, header, labelled, shown, steps_made
from tacit.reproduce.table_experts import error, short, with_error

if TYPE_CHECKING:
    from tacit.sweep import Job

METHODS = ("mce", "gacl", "me-icrl", "vicrl")
REFERENCES = ("ppo", "rcpo")
BC_QUICK = {"steps": 200}
SHORT: dict[str, Any] = {"total_steps": 300_000, "eval_episodes": 40}
"""Where conditions are compared rather than methods ranked: half the steps of `robots` or less, as in `decisions`."""


@dataclass(frozen=True)
class Row:
    """A method with its settings, as an experiment wants it."""

    algo: str = "mce"
    preset: str | None = "reference"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the row is about; also when it is only tried out."""
    budget: Mapping[str, Any] = field(default_factory=dict)
    """Steps and the like, smaller when it is only tried out."""


@dataclass(frozen=True)
class Beside:
    """What others found, for a last column of a table."""

    title: str
    cells: Mapping[str, str]
    """By "GROUP: ROW"."""
    note: str = ""


CONTROLS = {
    # Begins as a clone and follows the reward alone: how much of a method is its start, and how much its cost.
    # (Run by ME-ICRL's loop with a multiplier of 0: what its cost is, and how it is learned, makes no difference.)
    "ppo, cloned": Row(
        "me-icrl",
        settings={"multiplier": "fixed", "multiplier_init": 0.0, "start": "clone", "lr_constraint": 0.05, "delta": 0.5},
    ),
    "bc": Row("bc"),
}


def rows_of(algos: Iterable[str], preset: str = "reference") -> dict[str, Row]:
    return {algo: Row(algo, preset) for algo in algos}


def short_rows(algos: Iterable[str], env: str) -> dict[str, Row]:
    """Methods for runs of SHORT: rates that the presets give for whole runs come to the same in fewer steps."""
    from tacit import presets

    rows = {}
    for algo in algos:
        usual = presets.load(algo, "reference", env)
        longer = usual["total_steps"] / SHORT["total_steps"]
        rates = {"multiplier_lr": lambda rate, n=longer: rate * n, "anneal": lambda rate, n=longer: rate**n}
        rows[algo] = Row(algo, settings={key: round(of(usual[key]), 6) for key, of in rates.items() if key in usual})
    return rows


def job(
    group: str,
    name: str,
    row: Row,
    env: str,
    seed: int,
    quick: bool,
    env_kwargs: Mapping[str, Any] | None = None,
    demos: str | None = None,
    budget: Mapping[str, Any] | None = None,
) -> Job:
    """One run. A `budget` of the group stands behind the row's own; settings that a method lacks are left out."""
    from tacit.sweep import Job

    small = QUICK | (BC_QUICK if row.algo == "bc" else {})
    spent = small if quick else {**(budget or {}), **row.budget}
    settings = {**accepted(row.algo, spent), **row.settings}
    label = f"{group}: {name}"
    return Job(row.algo, env, env_kwargs or {}, seed, row.preset, settings, demos, label)


# ---------------------------------------------------------------------------------------------------------------------
# Which runs there are


def runs_of(results: Mapping[str, Any], group: str, row: str) -> list[dict[str, Any]]:
    return labelled(results, f"{group}: {row}")


def wanted(results: Mapping[str, Any]) -> list[str]:
    """Labels of all runs that were to be there, in order."""
    both = [*results["runs"], *(results.get("missing") or [])]
    return list(dict.fromkeys(str(run["label"]) for run in both))


def groups_in(results: Mapping[str, Any], order: Sequence[str]) -> list[str]:
    """Those of the groups that runs were wanted of; ValueError for results of another experiment."""
    return _there(order, {label.partition(": ")[0] for label in wanted(results)})


def rows_in(results: Mapping[str, Any], order: Sequence[str]) -> list[str]:
    """The same for rows."""
    return _there(order, {label.partition(": ")[2] for label in wanted(results)})


def _there(order: Sequence[str], names: set[str]) -> list[str]:
    found = [name for name in order if name in names]
    if not found:
        raise ValueError(f"none of {', '.join(order)} is among its runs")
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Tables

HEAD = (
    "",
    "seeds",
    "steps",
    "return",
    "terminated return",
    "feasible return",
    "violating steps",
    "violating steps, stopped at the first",
    "violating episodes (95 % at most)",
    "begin in violation",
    "terminated return (violating episodes) of each seed",
    "over demonstrations",
    "minutes a run",
)
STATES = ("tried", "nominal", "perturbed")
COST_HEAD = (
    "",
    "AUROC on everything tried",
    "the same outside the open band",
    "AUROC on nominal states",
    "AUROC on perturbed demonstrations",
    "AUPRC on these three",
    "IoU at the learned threshold on these three",
    "false alarms on nominal states",
    "boundary of each seed",
    "its error outside the open band",
    "held-out demonstrations rejected",
)
NOTE = (
    "Mean ± standard error over seeds; the last policy of each, on episodes of its own. *Terminated "
    "return* stops at the first violation, as the paper's reward does; *over demonstrations* is its ratio to theirs "
    "(also terminated). *Feasible return* is the same, but an episode that begins in violation counts 0. The bound of "
    "violating episodes takes the episodes of all seeds together. AUROC on everything that its own learner tried is "
    "not the same question for every method; on nominal states and perturbed demonstrations it is. The open band lies "
    "between the outermost demonstration and the wall: nothing can be known there. Everything tried is about as many "
    "steps of the nominal agent as of all later phases. All is said of the cost that drives the policy, but for the "
    "boundaries of mce, which its map draws. Held out are demonstrations that a run did not learn from; where it "
    "learned from all there are, none can be rejected wrongly (-)."
)
FREE = " °"
NOTE_FREE = "° Its frozen cost forbids nothing that its learner tried, so that this agent was charged nothing."
WITHOUT_COST = ("ppo, cloned",)
"""Rows whose network is not used by anybody."""


def table(results: Mapping[str, Any], groups: Sequence[str], rows: Sequence[str], beside: Beside | None = None) -> str:
    """A table a group and kind of policy, a row a method; and what the costs know."""
    parts = []
    labels = wanted(results)
    head = [*HEAD, beside.title] if beside else list(HEAD)
    for agent in AGENTS:
        for group in groups_in(results, groups):
            lines = [f"**{group}, {agent} policy**", "", *header(head)]
            if agent == "stochastic":
                lines.append(_expert_line(results, group, len(head)))
            for row in rows_in(results, rows):
                if f"{group}: {row}" not in labels:
                    continue  # no run of it was wanted; where it is missing, its line is empty
                cells = [row, *_cells(runs_of(results, group, row), agent)]
                cells += [beside.cells.get(f"{group}: {row}", "")] if beside else []
                lines.append("| " + " | ".join(cells) + " |")
            parts.append("\n".join(lines))
    parts += [_costs(results, group, rows) for group in groups_in(results, groups)]
    free = NOTE_FREE if any(map(charges_nothing, results["runs"])) else ""
    said = beside.note if beside else ""
    return "\n\n".join(filter(None, [*parts, NOTE, free, said])) + "\n"


def _costs(results: Mapping[str, Any], group: str, rows: Sequence[str]) -> str:
    """What the costs of a group know of the truth; "" where no method has one."""
    lines = []
    for row in rows_in(results, rows):
        runs = [run for run in runs_of(results, group, row) if (run.get("detection") or {}).get("cost")]
        if runs and row not in WITHOUT_COST:
            lines.append("| " + " | ".join([row, *_cost_cells(runs)]) + " |")
    return "\n".join([f"**{group}, costs**", "", *header(COST_HEAD), *lines]) if lines else ""


def _cost_cells(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    def mean(states: str, key: str, percent: bool = False) -> str:
        found = [run["detection"]["cost"]["on"].get(states, {}).get(key) for run in runs]
        known = [value for value in found if value is not None]
        if not known:
            return "-"
        few = f" ({len(known)} of {len(runs)} seeds)" if len(known) < len(runs) else ""
        return (f"{100 * np.mean(known):.1f} %" if percent else f"{np.mean(known):.3f}") + few

    walls = [run.get("threshold") or {} for run in runs]
    errors = [wall["error"] for wall in walls if wall.get("error") is not None]
    held = [run["detection"]["cost"].get("rejected", {}).get("trajectories") for run in runs]
    lost = [entry["value"] for entry in held if entry is not None]
    return [
        mean("tried", "auroc"),
        mean("tried", "auroc_outside"),
        mean("nominal", "auroc"),
        mean("perturbed", "auroc"),
        " / ".join(mean(states, "auprc") for states in STATES),
        " / ".join(mean(states, "iou") for states in STATES),
        mean("nominal", "false_alarms", percent=True),
        ", ".join(str(wall.get("found") or "none") for wall in walls) if any(walls) else "-",
        f"{np.mean(errors):.3g} ({len(errors)} of {len(runs)} seeds)" if errors else "-",
        f"{100 * np.mean(lost):.1f} %" if lost else "-",
    ]


def expert_of(results: Mapping[str, Any], group: str) -> dict[str, float] | None:
    """What the demonstrators of a group do, as its runs measured it."""
    there = (run.get("expert") for run in results["runs"] if run["label"].partition(": ")[0] == group)
    return next((expert for expert in there if expert), None)


def _expert_line(results: Mapping[str, Any], group: str, width: int) -> str:
    expert = expert_of(results, group)
    cells = ["demonstrations"] + ["-"] * (width - 1)
    if expert is not None:
        for place, key in ((3, "return"), (4, "terminated_return"), (5, "feasible_return")):
            if key in expert:
                cells[place] = short(expert[key], expert[key])
        if "violation_rate_step" in expert:
            cells[6] = f"{100 * expert['violation_rate_step']:.3f} %"
    return "| " + " | ".join(cells) + " |"


def _cells(runs: Sequence[Mapping[str, Any]], agent: str) -> list[str]:
    from tacit.stats import clopper_pearson

    runs = [run for run in runs if agent in run]
    if not runs:
        return ["-"] * (len(HEAD) - 1)
    value = {key: np.array([run[agent].get(key, np.nan) for run in runs]) for key in (*METRICS, "count", "n")}
    stopped = value["terminated_return"]
    broken, episodes = int(np.nansum(value["count"])), int(np.nansum(value["n"]))
    bound = clopper_pearson(broken, episodes, side="upper").high if episodes else math.nan
    ratio = [own / other for own, other in zip(stopped, map(shown, runs), strict=True) if other]
    timed = [run["seconds"] for run in runs if run.get("seconds")]
    return [
        str(len(runs)),
        _steps(runs),
        with_error(value["return"]),
        with_error(stopped),
        with_error(value["feasible_return"]),
        _percent(value["violation_rate_step"]),
        _percent(value["violation_rate_terminated"]),
        f"{broken} of {episodes} ({100 * bound:.1f} %)" if episodes else "-",
        _percent(value["initial_violation_rate"]),
        ", ".join(
            f"{short(x, x)}{f' ({k:.0f})' if np.isfinite(k) else ''}{FREE if charges_nothing(run) else ''}"
            for run, x, k in zip(runs, stopped, value["count"], strict=True)
        ),
        f"{np.mean(ratio):.2f}" if ratio else "-",
        f"{np.mean(timed) / 60:.1f}" if timed else "-",
    ]


def charges_nothing(run: Mapping[str, Any]) -> bool:
    """Whether it is of a fresh agent whose frozen cost forbids nothing."""
    charge = (run.get("source") or {}).get("charge")
    return charge is not None and charge["kind"] == "excess" and not charge["top"] > charge["threshold"]


def _steps(runs: Sequence[Mapping[str, Any]]) -> str:
    steps = [made for made in map(steps_made, runs) if made]
    return f"{np.mean(steps) / 1e6:.3g}M" if len(steps) == len(runs) else "-"


def _percent(shares: np.ndarray) -> str:
    if np.isnan(shares).any():
        return "-"
    spread = f" ± {100 * error(shares):.3f}" if len(shares) > 1 else ""
    return f"{100 * shares.mean():.3f}{spread} %"
