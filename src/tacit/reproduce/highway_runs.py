"""What the highway experiments share: the numbers of a run, a table a task, curves. (Not an experiment itself.)

A label is "TASK: ROW". Some starts break the rule before anybody has acted, so no method reaches zero: beside every
violation rate stand that of the expert and the share of such starts. The traffic is simulated; table and figure say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.envs.traffic import SIMULATED
from tacit.reproduce.records import labelled
from tacit.reproduce.table_experts import mean_of, with_error

if TYPE_CHECKING:
    from tacit.run import Run
    from tacit.sweep import Job

TASKS = ("Distance", "Velocity")
EXPERT = "expert"
ENDS = ("goal_rate", "collision_rate", "off_road_rate", "time_out_rate")
METRICS = (
    "return",
    "terminated_return",
    *ENDS,
    "violation_rate_step",
    "violation_rate_episode",
    "violation_rate_legal_start",
    "initial_violation_rate",
)
AGENTS = {"stochastic": "learned", "deterministic": "learned, deterministic"}
CURVES = {"return": ("rollout/ep_rew_mean",), "violations": ("truth/violation_rate_step", "rollout/cost_mean")}
POINTS = 60
EVALUATION = {"eval_episodes": 1000}
QUICK: dict[str, Any] = {
    "total_steps": 16_384,
    "bootstrap_steps": 4096,
    "forward_steps": 4096,
    "eval_episodes": 20,
    "minibatches": 20,
    "pretrain_epochs": 1,
    "demonstrations": 5,
}


def env_of(task: str) -> str:
    return f"tacit/Highway{task}-v0"


def accepted(algo: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that the algorithm has."""
    import dataclasses

    from tacit.algorithms import find

    known = {field.name for field in dataclasses.fields(find(algo).load().Config)}
    return {key: value for key, value in settings.items() if key in known}


def expert_jobs(seeds: Sequence[int], quick: bool) -> list[Job]:
    """The experts beside whom everybody is judged, one a task and seed."""
    from tacit.sweep import Job

    settings = {**accepted("expert", QUICK), "demonstrations": 0} if quick else {}
    return [
        Job("expert", env_of(task), seed=seed, settings=settings, label=f"{task}: {EXPERT}")
        for seed in seeds
        for task in TASKS
    ]


def collect(job: Job, run: Run) -> dict[str, Any]:
    """The final evaluation, stochastic and deterministic, what the cost is worth, and the learning curves, thinned."""
    summary = run.read("summary.json")
    found: dict[str, Any] = {}
    for name, key in AGENTS.items():
        row = summary["table"].get(key) or summary["table"].get(name)
        if row is not None:  # a method may have no deterministic policy
            found[name] = {metric: row[metric]["value"] for metric in METRICS if metric in row}
    log = run.metrics()
    curves: dict[str, list[float]] = {}
    if log:
        parts = np.array_split(np.arange(len(log)), min(POINTS, len(log)))
        curves["steps"] = [log[part[-1]].get("steps", 0) for part in parts]
        for name, keys in CURVES.items():
            values = np.array([next((r[k] for k in keys if k in r), np.nan) for r in log], dtype=float)
            curves[name] = [mean_of(values[part]) for part in parts]
    return {
        **found,
        "cost_quality": summary.get("cost_quality"),
        "threshold": summary.get("threshold"),
        "curves": curves,
    }


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def runs_of(results: Mapping[str, Any], task: str, row: str) -> list[dict[str, Any]]:
    return labelled(results, f"{task}: {row}")


def mean(runs: Sequence[Mapping[str, Any]], agent: str, metric: str) -> float:
    known = [run[agent][metric] for run in runs if metric in run.get(agent, {})]
    return float(np.mean(known)) if known else float("nan")


HEAD = (
    "",
    "seeds",
    "steps",
    "return",
    "goal",
    "collision",
    "off-road",
    "time-out",
    "violating steps",
    "over the expert's, points",
    "legal starts only",
    "violating episodes",
    "violating starts",
    "goal / violating steps of each seed",
)


def table(results: Mapping[str, Any], rows: Sequence[str]) -> str:
    """A table a task and kind of policy, a row a method."""
    parts = [f"**{SIMULATED[0].upper()}{SIMULATED[1:]}.**"]
    for agent in AGENTS:
        for task in TASKS:
            experts = runs_of(results, task, EXPERT)
            lines = [f"**{task}, {agent} policy**", "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
            lines += [_line(row, runs_of(results, task, row), experts, agent) for row in rows]
            parts.append("\n".join(lines))
    lines = ["**cost and map**", "", "| | AUROC of the map | AUROC of the driving cost | boundary (each seed) |"]
    lines.append("|---|---|---|---|")
    for task in TASKS:
        for row in rows:
            judged = [run for run in runs_of(results, task, row) if run.get("cost_quality")]
            if judged:
                lines.append(f"| {task}: {row} | " + " | ".join(_quality(judged)) + " |")
    if len(lines) > 4:
        parts.append("\n".join(lines))
    episodes = "a few" if results.get("quick") else str(EVALUATION["eval_episodes"])
    parts.append(
        f"Means over seeds (return ± standard error), shares in percent; the last policy over {episodes} episodes. "
        "Violating starts break the rule before anybody has acted and are not part of the other rates."
    )
    return "\n\n".join(parts) + "\n"


def _line(row: str, runs: Sequence[Mapping[str, Any]], experts: Sequence[Mapping[str, Any]], agent: str) -> str:
    runs = [run for run in runs if agent in run]
    if not runs:
        return f"| {row} |" + " - |" * (len(HEAD) - 1)

    def percent(metric: str, digits: int = 1) -> str:
        value = mean(runs, agent, metric)
        return "-" if np.isnan(value) else f"{100 * value:.{digits}f}"

    excess = 100 * (mean(runs, agent, "violation_rate_step") - mean(experts, agent, "violation_rate_step"))
    steps = runs[0]["steps"]
    each = ", ".join(
        f"{100 * run[agent]['goal_rate']:.1f} / {100 * run[agent]['violation_rate_step']:.2f}" for run in runs
    )
    cells = [
        row,
        str(len(runs)),
        "-" if not steps else f"{steps / 1e6:.3g}M",
        with_error(np.array([run[agent]["return"] for run in runs])),
        *(percent(end) for end in ENDS),
        percent("violation_rate_step", 2),
        "-" if np.isnan(excess) or row == EXPERT else f"{excess:+.2f}",
        percent("violation_rate_legal_start", 2),
        percent("violation_rate_episode"),
        percent("initial_violation_rate"),
        each,
    ]
    return "| " + " | ".join(cells) + " |"


def _quality(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    def spread(key: str) -> str:
        known = [run["cost_quality"][key] for run in runs if run["cost_quality"].get(key) is not None]
        return f"{np.mean(known):.3f} ({min(known):.3f} to {max(known):.3f})" if known else "-"

    bounds = ", ".join(str((run.get("threshold") or {}).get("found") or "none") for run in runs)
    return [spread("auroc"), spread("auroc_cost"), bounds]


def figure(results: Mapping[str, Any], rows: Sequence[str]) -> bytes:
    """Return and violating steps during training, a column a task: means over seeds, and each seed thinly."""
    from tacit.plots import COLOURS, SOFT, new_figure, render, style

    drawn = [row for row in rows if any(runs_of(results, task, row) for task in TASKS)]
    with style():
        drawing = new_figure(8.4, 5.4)
        panels = drawing.subplots(2, len(TASKS), squeeze=False)
        for column, task in enumerate(TASKS):
            upper, lower = panels[:, column]
            upper.set_title(f"{task} rule")
            experts = runs_of(results, task, EXPERT)
            starts = mean(experts, "stochastic", "initial_violation_rate")
            level = {"color": SOFT, "linewidth": 1.0}
            if experts:
                upper.axhline(mean(experts, "stochastic", "return"), label="expert, at the end", **level)
                lower.axhline(100 * mean(experts, "stochastic", "violation_rate_step"), **level)
                lower.axhline(100 * starts, linestyle=":", label="violating starts", **level)
            for number, row in enumerate(drawn):
                if row != EXPERT:
                    round_of_colours, colour = divmod(number, len(COLOURS))
                    look = {"color": COLOURS[colour], "linestyle": ("-", "--", ":")[round_of_colours % 3]}
                    _curves(upper, lower, runs_of(results, task, row), look, row)
            lower.set_xlabel("environment steps, millions")
            lower.set_ylim(bottom=0)
        panels[0, 0].set_ylabel("return (rollouts)")
        panels[1, 0].set_ylabel("violating steps, %")
        handles = {line.get_label(): line for axes in panels.flat for line in axes.get_lines()}
        handles = {label: line for label, line in handles.items() if not str(label).startswith("_")}
        drawing.legend(handles.values(), handles.keys(), loc="lower center", ncols=4)
        drawing.text(0.995, 0.995, SIMULATED, ha="right", va="top", fontsize=7, color=SOFT)
        lines_of_legend = -(-len(handles) // 4)
        drawing.tight_layout(rect=(0, 0.02 + 0.035 * lines_of_legend, 1, 0.98))
        return render(drawing, "png", tight=False)


def _curves(upper: Any, lower: Any, runs: Sequence[Mapping[str, Any]], look: Mapping[str, str], label: str) -> None:
    curves = [run["curves"] for run in runs if run["curves"]]
    for axes, key, scale in ((upper, "return", 1.0), (lower, "violations", 100.0)):
        for curve in curves:
            values = scale * np.array(curve[key], dtype=float)
            axes.plot(np.array(curve["steps"]) / 1e6, values, linewidth=0.4, alpha=0.3, **look)
        if curves:
            shortest = min(len(curve["steps"]) for curve in curves)
            values = scale * np.mean([np.array(curve[key][:shortest], dtype=float) for curve in curves], axis=0)
            axes.plot(np.array(curves[0]["steps"][:shortest]) / 1e6, values, linewidth=1.8, label=label, **look)
