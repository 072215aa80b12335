"""The tables of experiments in Markdown, drawn from saved numbers. `TABLES` lists them by name.

comparison    a table per group, a row per method; all groups together; what the costs know
seeds         a row per label with every seed; cost and map, speed
grid          a table per number, a column per group
driving       a table per task with the ends of episodes, beside the expert
experts       a row per robot
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tacit.envs.traffic import SIMULATED
from tacit.metrics import ENDS
from tacit.reproduce import gridworld, overall
from tacit.reproduce.columns import (
    COMPARISON,
    COUNT,
    EVERY_SEED,
    EXPERTS,
    NOTE_FREE,
    RETURN,
    STEPS,
    Cell,
    Column,
    Runs,
    agents_table,
    charges_nothing,
    header,
    line,
    minutes,
)
from tacit.reproduce.experiment import Beside, Experiment
from tacit.reproduce.records import (
    agent_of,
    expert_of,
    groups_in,
    labelled,
    number,
    rows_in,
    runs_of,
    steps_made,
    wanted,
)
from tacit.reproduce.results import AGENTS, Agent, Number, Results
from tacit.stats import mean_difference_interval

# ---------------------------------------------------------------------------------------------------------------------
# comparison

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
    "Numbers are means ± standard errors over seeds. Each seed's last policy is measured on its own episodes. "
    "*Return before violation* is the sum of the rewards before the first violating step (the paper's reward). "
    "*Over demonstrations* divides it by that of the demonstrations. *Feasible return* is the same, with 0 for an "
    "episode that begins in violation. The bound on violating episodes resamples seeds, then episodes. Everything "
    "tried is about as many steps of the nominal agent as of all later phases. Every learner tries something "
    "different, so AUROC on everything tried does not compare methods; AUROC on nominal states and on perturbed "
    "demonstrations does. "
    "The open band lies between the outermost demonstration and the wall: nothing can be known there. All columns are "
    "about the cost that drives the policy, except the boundaries of mce, which come from its map. Held-out "
    "demonstrations are those that a run did not learn from (-: it learned from all of them). Controls that learn "
    "nothing are in `controls.md`: the box around the demonstrations has a boundary error of 0 by construction."
)
ERROR = number("threshold", "error")
WITHOUT_COST = ("ppo, cloned",)
"""Rows whose cost network has no effect on the policy."""


def comparison(experiment: Experiment, results: Results) -> str:
    """All groups together, then a table per group and kind of policy, and the quality of the costs."""
    groups, rows = list(experiment.groups), list(experiment.rows)
    together = overall.table(results, groups, rows, experiment.ours)
    return together + by_group(results, groups, rows, experiment.beside, experiment.note)


def by_group(
    results: Results, groups: Sequence[str], rows: Sequence[str], beside: Sequence[Beside] = (), note: str = ""
) -> str:
    """A table per group and kind of policy with a row per method, and the quality of the costs."""
    parts = []
    labels = wanted(results)
    for agent in AGENTS:
        for group in groups_in(results, groups):
            # A row of which no run was wanted is left out; where its runs are missing, its line is empty.
            names = [row for row in rows_in(results, rows) if f"{group}: {row}" in labels]
            lines = [(row, f"{group}: {row}", runs_of(results, group, row)) for row in names]
            expert = expert_of(results, group) or {} if agent == "stochastic" else None
            parts.append(agents_table(f"{group}, {agent} policy", COMPARISON, lines, agent, beside, expert=expert))
    parts += [_costs(results, group, rows) for group in groups_in(results, groups)]
    free = NOTE_FREE if any(map(charges_nothing, results["runs"])) else ""
    text = "\n\n".join(filter(None, [*parts, NOTE, free, *(other.note for other in beside)])) + "\n"
    return text + (f"\n{note}\n" if note else "")


def _costs(results: Results, group: str, rows: Sequence[str]) -> str:
    """The quality of the costs of a group, judged by the truth; "" if no method has a cost."""
    lines = []
    for row in rows_in(results, rows):
        runs = [run for run in runs_of(results, group, row) if (run.get("detection") or {}).get("cost")]
        if runs and row not in WITHOUT_COST:
            lines.append(line([row, *_cost_cells(runs)]))
    return "\n".join([f"**{group}, costs**", "", *header(COST_HEAD), *lines]) if lines else ""


def _boundaries(runs: Runs) -> str:
    walls = [run.get("threshold") for run in runs]
    return ", ".join(str(wall["found"] or "none") if wall else "none" for wall in walls)


def _numbers(runs: Runs, of: Number) -> list[float]:
    return [value for value in map(of, runs) if value is not None]


def _cost_cells(runs: Runs) -> list[str]:
    def mean(states: str, key: str, percent: bool = False) -> str:
        values = _numbers(runs, number("detection", "cost", "on", states, key))
        if not values:
            return "-"
        few = f" ({len(values)} of {len(runs)} seeds)" if len(values) < len(runs) else ""
        return (f"{100 * np.mean(values):.1f} %" if percent else f"{np.mean(values):.3f}") + few

    errors = _numbers(runs, ERROR)
    lost = _numbers(runs, number("detection", "cost", "rejected", "trajectories", "value"))
    return [
        mean("tried", "auroc"),
        mean("tried", "auroc_outside"),
        mean("nominal", "auroc"),
        mean("perturbed", "auroc"),
        " / ".join(mean(states, "auprc") for states in STATES),
        " / ".join(mean(states, "iou") for states in STATES),
        mean("nominal", "false_alarms", percent=True),
        _boundaries(runs) if any(run.get("threshold") for run in runs) else "-",
        f"{np.mean(errors):.3g} ({len(errors)} of {len(runs)} seeds)" if errors else "-",
        f"{100 * np.mean(lost):.1f} %" if lost else "-",
    ]


# ---------------------------------------------------------------------------------------------------------------------
# seeds

MAP_HEAD = (
    "",
    "AUROC of the map on everything tried",
    "outside the open band",
    "on perturbed demonstrations",
    "AUROC of the driving cost",
    "boundary (each seed)",
    "error outside the open band",
    "resets",
    "minutes a run",
    "env steps/s",
    "of these learning",
)


def seeds(experiment: Experiment, results: Results) -> str:
    """One table with a line per group if the experiment has a single row, otherwise a table per group."""
    rows = list(experiment.rows)
    if len(rows) == 1:
        return by_label(results, [experiment.label(group, rows[0]) for group in experiment.groups], experiment.beside)
    labels = [[experiment.label(group, row) for row in rows] for group in experiment.groups]
    return "\n".join(by_label(results, part, experiment.beside) for part in labels)


def by_label(results: Results, labels: Sequence[str], beside: Sequence[Beside]) -> str:
    """Tables of the stochastic policy with every seed, the deterministic policy, and cost and map; a row per label."""
    rows = [(label, label, labelled(results, label)) for label in labels]
    others = beside or (Beside(""),)
    parts = [agents_table(f"{agent} policy", EVERY_SEED, rows, agent, others) for agent in AGENTS]
    lines = [line([label, *_map_cells(runs)]) for label, _, runs in rows]
    parts.append("\n".join(["**cost and map**", "", *header(MAP_HEAD), *lines]))
    return "\n\n".join([*parts, _note_on_seeds(results)]) + "\n"


def _note_on_seeds(results: Results) -> str:
    episodes = sorted({int(agent_of(run, agent)["n"]) for run in results["runs"] for agent in AGENTS})
    return (
        f"Numbers are means ± standard errors over seeds. Each seed's last policy is measured on "
        f"{' or '.join(map(str, episodes))} episodes of its own. Of the boundaries that a map draws, the one on the "
        "feature and side of the true constraint is shown; it is chosen with the truth, for judging. Errors are means "
        "over the seeds that have such a boundary. Everything tried is about as many steps of the nominal agent as of "
        "all later phases. *Return before violation* is the sum of the rewards before the first violating step. "
        "*Feasible return* is the same, with 0 for an episode that begins in violation. "
        "The open band lies between the outermost demonstration and the wall: nothing can be known there. The last "
        "column counts learning alone, without start-up, map and evaluation. Controls that learn nothing are in "
        "`controls.md`: the box around the demonstrations has a boundary error of 0 by construction."
    )


def spread(values: Sequence[float | None]) -> str:
    """Mean, smallest and largest value, with the number of seeds if some have none."""
    numbers = [value for value in values if value is not None]
    few = f", {len(numbers)} of {len(values)} seeds" if len(numbers) < len(values) else ""
    return f"{np.mean(numbers):.3f} ({min(numbers):.3f} to {max(numbers):.3f}){few}" if numbers else "-"


def _map_cells(runs: Runs) -> list[str]:
    if not runs:
        return ["-"] * (len(MAP_HEAD) - 1)

    def on(states: str, key: str) -> list[float | None]:
        """The numbers of the map, or of the cost if a run has no map."""
        kinds = ["map" if (run.get("detection") or {}).get("map") else "cost" for run in runs]
        return [number("detection", kind, "on", states, key)(run) for kind, run in zip(kinds, runs, strict=True)]

    timed = [(run, seconds) for run in runs if (seconds := run["seconds"])]  # an interrupted run has no time
    speeds = [(steps_made(run) or 0) / seconds for run, seconds in timed]
    learning = [
        (steps_made(run) or 0) / sum(phases[phase] for phase in ("rollouts", "PPO", "inverse", "set-up"))
        for run, _ in timed
        if (phases := run.get("phases"))
    ]
    return [
        spread(on("tried", "auroc")),
        spread(on("tried", "auroc_outside")),
        spread(on("perturbed", "auroc")),
        spread([*map(number("detection", "cost", "on", "tried", "auroc"), runs)]),
        _boundaries(runs),
        spread([*map(ERROR, runs)]),
        ", ".join(str(run["resets"]) for run in runs),
        minutes(runs),
        f"{np.mean(speeds):,.0f}" if speeds else "-",
        f"{np.mean(learning):,.0f}" if learning else "-",
    ]


# ---------------------------------------------------------------------------------------------------------------------
# driving

EXPERT = "expert"


def _values(runs: Runs, agent: Agent, metric: str) -> np.ndarray:
    return np.array([agent_of(run, agent)[metric] for run in runs if metric in agent_of(run, agent)])


def mean_of_agent(runs: Runs, agent: Agent, metric: str) -> float:
    values = _values(runs, agent, metric)
    return float(values.mean()) if len(values) else float("nan")


def _share(metric: str, digits: int = 1) -> Cell:
    def cell(runs: Runs, agent: Agent) -> str:
        value = mean_of_agent(runs, agent, metric)
        return "-" if np.isnan(value) else f"{100 * value:.{digits}f}"

    return cell


def _driving_columns(experts: Runs) -> tuple[Column, ...]:
    def excess(runs: Runs, agent: Agent) -> str:
        own, theirs = (100 * _values(part, agent, "violation_rate_step") for part in (runs, experts))
        if runs[0]["label"].endswith(f": {EXPERT}") or not len(own) or not len(theirs):
            return "-"
        gap = mean_difference_interval(own, theirs, rng=np.random.default_rng(0))
        few = min(len(own), len(theirs)) < 2
        return f"{gap.value:+.2f}" + ("" if few else f" [{gap.low:+.2f}, {gap.high:+.2f}]")

    def every_seed(runs: Runs, agent: Agent) -> str:
        agents = [agent_of(run, agent) for run in runs]
        return ", ".join(f"{100 * a['goal_rate']:.1f} / {100 * a['violation_rate_step']:.2f}" for a in agents)

    return (
        COUNT,
        STEPS,
        RETURN,
        *(Column(end.removesuffix("_rate").replace("_", "-"), _share(end)) for end in ENDS),
        Column("violating steps", _share("violation_rate_step", 2)),
        Column("over the expert's, points [95 %]", excess),
        Column("legal starts only", _share("violation_rate_legal_start", 2)),
        Column("violating episodes", _share("violation_rate_episode")),
        Column("violating starts", _share("initial_violation_rate")),
        Column("goal / violating steps of each seed", every_seed),
    )


def rows_with_runs(experiment: Experiment, results: Results) -> list[str]:
    """The rows that have at least one run. The others appear only in the list of missing runs."""
    labels = {run["label"] for run in results["runs"]}
    return [row for row in experiment.rows if any(f"{group}: {row}" in labels for group in experiment.groups)]


def driving(experiment: Experiment, results: Results) -> str:
    """A table per task and kind of policy, a row per method. A note says that the traffic is simulated.

    Some starts break the rule before any action, so no method reaches zero. The table also shows the expert's violation
    rate and the share of such starts.
    """
    rows = rows_with_runs(experiment, results)
    parts = [f"**{SIMULATED[0].upper()}{SIMULATED[1:]}.**"]
    for agent in AGENTS:
        for task in experiment.groups:
            columns = _driving_columns(runs_of(results, task, EXPERT))
            lines = [(row, f"{task}: {row}", runs_of(results, task, row)) for row in rows]
            parts.append(agents_table(f"{task}, {agent} policy", columns, lines, agent))
    judged: list[str] = []
    for label in (experiment.label(task, row) for task in experiment.groups for row in rows):
        runs = [run for run in labelled(results, label) if run.get("cost_quality")]
        if runs:
            quality = [spread(_numbers(runs, number("cost_quality", key))) for key in ("auroc", "auroc_cost")]
            judged.append(line([label, *quality, _boundaries(runs)]))
    if judged:
        head = ["| | AUROC of the map | AUROC of the driving cost | boundary (each seed) |", "|---|---|---|---|"]
        parts.append("\n".join(["**cost and map**", "", *head, *judged]))
    budgets = [row.budget.get("eval_episodes", 0) for row in experiment.rows.values()]
    episodes = "a few" if results.get("quick") else str(max(budgets))
    parts.append(
        f"Numbers are means over seeds (return ± standard error), rates in percent. Each seed's last policy is "
        f"measured on {episodes} episodes. Violating starts break the rule before anybody has acted; the other rates "
        "do not count them. Intervals resample the seeds."
    )
    return "\n\n".join(parts) + "\n"


# ---------------------------------------------------------------------------------------------------------------------
# experts


def experts(experiment: Experiment, results: Results) -> str:
    """One table for the stochastic policy, one for the deterministic; a row per robot."""
    rows = [(robot, robot, labelled(results, robot)) for robot in experiment.groups]
    parts = [agents_table(f"{agent} policy", EXPERTS, rows, agent, experiment.beside, "robot") for agent in AGENTS]
    note = "Numbers are means ± standard errors over runs. Each run's last policy is measured on its own episodes."
    return "\n\n".join([*parts, note]) + "\n"


TABLES: Mapping[str, Callable[[Experiment, Results], str]] = {
    "comparison": comparison,
    "seeds": seeds,
    "grid": gridworld.table,
    "driving": driving,
    "experts": experts,
}
