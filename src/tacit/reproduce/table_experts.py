"""Experts on the five robots: PPO with the true cost, the preset `expert`, several seeds.

Beside their returns stand those of the demonstrations that earlier work on these robots learned from (Liu et al. 2022,
as published; HalfCheetah's is twice the mean of a file whose episodes are half as long).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tacit.run import Run
    from tacit.sweep import Job

EARLIER = {"Ant": 8034.0, "HalfCheetah": 4387.0, "Swimmer": 801.0, "Walker": 1702.0, "Pendulum": 56.8}
SEEDS = (0, 1, 2)
QUICK = {"total_steps": 16_384, "eval_episodes": 4, "demonstrations": 0}
METRICS = ("return", "terminated_return", "violation_rate_step", "violation_rate_episode")
CURVES = {"return": "rollout/ep_rew_mean", "violations": "rollout/cost_mean"}
POINTS = 100


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One expert a robot and seed."""
    from tacit.sweep import Job

    settings = QUICK if quick else {}
    return [
        Job("expert", f"tacit/{name}-v0", seed=seed, settings=settings, label=name)
        for seed in seeds
        for name in EARLIER
    ]


def collect(job: Job, run: Run) -> dict[str, Any]:
    """The final evaluation, stochastic and deterministic, and the learning curves, thinned."""
    agents = run.read("summary.json")["table"]
    found: dict[str, Any] = {name: {key: row[key]["value"] for key in METRICS} for name, row in agents.items()}
    for name, row in agents.items():
        found[name] |= {key: row["violation_rate_episode"][key] for key in ("count", "n")}
    log = run.metrics()
    parts = np.array_split(np.arange(len(log)), min(POINTS, len(log)))
    curves = {"steps": [log[part[-1]]["steps"] for part in parts]}
    for name, key in CURVES.items():
        values = np.array([record.get(key, np.nan) for record in log], dtype=float)
        curves[name] = [mean_of(values[part]) for part in parts]
    return {**found, "curves": curves}


def mean_of(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(f"{known.mean():.5g}") if len(known) else float("nan")


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def table(results: dict[str, Any]) -> str:
    """One table for the stochastic policy, one for the deterministic; a row a robot."""
    from tacit.stats import bootstrap_interval, clopper_pearson

    head = ["robot", "runs", "steps", "return", "IQM [95 %]", "terminated return", "violating steps"]
    head += ["violating episodes (95 % at most)", "return (violating episodes) of each seed", "earlier demonstrations"]
    parts = []
    for agent in ("stochastic", "deterministic"):
        lines = [f"**{agent} policy**", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for robot in EARLIER:
            runs = [run for run in results["runs"] if run["label"] == robot]
            if not runs:
                lines.append(f"| {robot} |" + " - |" * (len(head) - 2) + f" {EARLIER[robot]:g} |")
                continue
            value = {key: np.array([run[agent][key] for run in runs]) for key in (*METRICS, "count", "n")}
            middle = bootstrap_interval(value["return"], rng=np.random.default_rng(0), resamples=10_000)
            broken, episodes = int(value["count"].sum()), int(value["n"].sum())
            bound = clopper_pearson(broken, episodes, side="upper").high
            cells = [
                robot,
                str(len(runs)),
                f"{runs[0]['steps'] / 1e6:g}M",
                with_error(value["return"]),
                "{} [{}, {}]".format(*(short(end, middle.value) for end in middle)),
                with_error(value["terminated_return"]),
                f"{100 * value['violation_rate_step'].mean():.3f} %",
                f"{broken} of {episodes} ({100 * bound:.1f} %)",
                ", ".join(f"{short(x, x)} ({int(k)})" for x, k in zip(value["return"], value["count"], strict=True)),
                f"{EARLIER[robot]:g}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines))
    note = "Mean ± standard error over runs; each is measured on its own episodes, with the last policy."
    return "\n\n".join([*parts, note]) + "\n"


def with_error(values: np.ndarray) -> str:
    """Mean ± standard error, as in the paper; "-" where a number is missing."""
    if np.isnan(values).any():
        return "-"
    mean = float(values.mean())
    return short(mean, mean) + (f" ± {short(error(values), mean)}" if len(values) > 1 else "")


def error(values: np.ndarray) -> float:
    """Standard error of the mean; 0 of a single run, about which nothing is known."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def short(value: float, like: float) -> str:
    """With as many decimals as a number of the size of `like` deserves."""
    return f"{value:.{0 if abs(like) >= 100 else 1}f}"


def figure(results: dict[str, Any]) -> bytes:
    """Return and violating steps during training, a column a robot, a line a run."""
    from tacit.plots import COLOURS, SOFT, new_figure, render, style

    with style():
        drawing = new_figure(12.5, 4.6)
        panels = drawing.subplots(2, len(EARLIER), squeeze=False)
        for column, (robot, earlier) in enumerate(EARLIER.items()):
            upper, lower = panels[:, column]
            upper.set_title(robot)
            upper.axhline(earlier, color=SOFT, linestyle="--", linewidth=1.0, label="earlier demonstrations")
            runs = [run for run in results["runs"] if run["label"] == robot]
            for run in runs:
                curves, colour = run["curves"], COLOURS[run["seed"] % len(COLOURS)]
                steps = np.array(curves["steps"]) / 1e6
                upper.plot(steps, curves["return"], color=colour, label=f"seed {run['seed']}")
                lower.plot(steps, 100 * np.array(curves["violations"], dtype=float), color=colour)
            lower.set_xlabel("environment steps, millions")
            lower.set_ylim(bottom=0)
            upper.set_ylim(bottom=min(0.0, upper.get_ylim()[0]) if runs else 0.0)
            if not runs:
                upper.text(0.5, 0.3, "no run", transform=upper.transAxes, ha="center", va="center")
        panels[0, 0].set_ylabel("return (rollouts)")
        panels[1, 0].set_ylabel("violating steps, %")
        handles = {line.get_label(): line for axes in panels[0] for line in axes.get_lines()}
        drawing.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles))
        drawing.tight_layout(rect=(0, 0.06, 1, 1))
        return render(drawing, "png", tight=False)
