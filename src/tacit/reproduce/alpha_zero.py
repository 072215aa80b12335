"""What the paper's budget alpha = 0 leads to on the gridworld, for one-hot and for network features.

The problem is the paper's (docs/claims.md#errata): no moment of the agent may exceed that of the demonstrations. It is
solved exactly.

    one feature per cell       the paper's tabular setting
    network, sums              64 positive features of a network [40], summed over each trajectory as printed
    network, equal lengths     the same features; the goal absorbs and goes on for ever, so all trajectories are as long

Each set has 50 demonstrations and a network of its own with random weights. `below` is the share of limits that the
soft-optimal agent without any cost keeps: with 1, no cost at all is optimal.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tacit.demos import expert_demonstrations
from tacit.envs.gridworld import GridworldSpec, make_spec
from tacit.evaluate import evaluate_exact
from tacit.forward.soft_policy_iteration import occupancy, plan
from tacit.plots import legend_above, new_figure, render, style
from tacit.reproduce import by_slip
from tacit.reproduce.experiment import Measured
from tacit.tabular import MDP, solve

SLIPS = (0.0, 0.1, 0.3, 0.5)
LAYOUT, DEMONSTRATIONS, BETA, FEATURES, HIDDEN = "paper", 50, 0.1, 64, 40
CELLS, SUMS, EQUAL = "one feature per cell", "network, sums", "network, equal lengths"
PROBLEMS = (CELLS, SUMS, EQUAL)


def measure(sets: int, progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Solve all problems: {"problems": a record per slip, set and kind of features}."""
    records = []
    for slip in SLIPS:
        spec = make_spec(LAYOUT, slip=slip)
        for seed in range(sets):
            started = time.process_time()
            demos = spec.to_tabular(expert_demonstrations(spec, DEMONSTRATIONS, seed=seed))
            phi = network_features(spec, seed)
            for kind in PROBLEMS:
                model = absorbing(spec) if kind == EQUAL else spec.model()
                features = np.eye(spec.n_states) if kind == CELLS else phi
                records.append({"slip": slip, "set": seed, "kind": kind, **_solved(spec, model, features, demos)})
            records[-1]["seconds"] = time.process_time() - started
            progress(f"slip {slip:g}, set {seed + 1} of {sets}")
    return {"sets": sets, "problems": records}


def network_features(spec: GridworldSpec, seed: int) -> np.ndarray:
    """(S, FEATURES) outputs of a sigmoid network of the cell's coordinates, with random weights."""
    rng = np.random.default_rng(seed)
    cells = spec.cells / spec.cells.max()
    hidden = np.maximum(cells @ rng.standard_normal((2, HIDDEN)) + rng.standard_normal(HIDDEN), 0.0)
    outputs: np.ndarray = 1.0 / (1.0 + np.exp(-hidden @ rng.standard_normal((HIDDEN, FEATURES)) / HIDDEN**0.5))
    return outputs


def absorbing(spec: GridworldSpec) -> MDP:
    """The model with a goal that the agent stays in for ever, at no reward."""
    model = spec.model()
    rewards = model.rewards.copy()
    rewards[spec.goal] = 0.0
    return MDP(model.transitions, rewards, model.initial, model.discount)


def _solved(spec: GridworldSpec, model: MDP, features: np.ndarray, demos: Any) -> dict[str, Any]:
    limits = demonstrated_visits(model, demos) @ features
    free = occupancy(model, plan(model, model.rewards, BETA).policy).sum(axis=1) @ features
    solution = solve(model, np.repeat(features[:, None], spec.n_actions, axis=1), limits, beta=BETA)
    record = {"status": solution.status, "below": float((free <= limits).mean())}
    if solution.status != "optimal":
        return record
    judged = evaluate_exact(spec.model(), solution.policy, spec.constrained, step_limit=spec.horizon)
    return {**record, "largest": float(solution.weights.max()), "violating": judged.violation_rate_episode}


def demonstrated_visits(model: MDP, demos: Any) -> np.ndarray:
    """Mean discounted visits (S,). If the model goes on at the goal, so do the demonstrations that reached it."""
    visits = np.zeros(model.n_states)
    for states, actions in demos:
        powers = model.discount ** np.arange(len(actions) + 1)
        np.add.at(visits, states[: len(actions)], powers[:-1])
        last = states[-1]
        if not model.terminal[last] and len(states) > len(actions):
            visits[last] += powers[-1] / (1.0 - model.discount)
    return visits / len(demos)


def seconds(results: Mapping[str, Any]) -> float:
    """Processor seconds of one set at all slips."""
    return float(sum(record.get("seconds", 0.0) for record in results["problems"]) / results["sets"])


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def records_of(results: Mapping[str, Any], kind: str, slip: float) -> list[Mapping[str, Any]]:
    return [record for record in results["problems"] if (record["kind"], record["slip"]) == (kind, slip)]


def table(results: Mapping[str, Any]) -> str:
    """A row per kind of features, a column per slip."""
    titles = {
        "problems by outcome": lambda part: ", ".join(
            f"{n} {status}" for status, n in Counter(r["status"] for r in part).most_common()
        ),
        "limits that the agent without cost keeps": lambda part: f"{100 * np.mean([r['below'] for r in part]):.0f} %",
        "largest weight of the solution": lambda part: _mean(part, "largest", "{:.3g}"),
        "violating episodes of its policy, %": lambda part: _mean(part, "violating", "{:.1f}", 100.0),
    }
    parts = []
    for title, cell in titles.items():
        rows = {kind: [cell(records_of(results, kind, slip)) for slip in SLIPS] for kind in PROBLEMS}
        parts.append(by_slip.table(title, SLIPS, rows))
    note = (
        f"{results['sets']} sets of {DEMONSTRATIONS} demonstrations, each with a network of its own. Means are over "
        "the problems that have a solution, with their range; - : none has one. *Infeasible* is proved. At the "
        "*iteration limit* the weights still grow."
    )
    return "\n\n".join([*parts, note]) + "\n"


def _mean(part: list[Mapping[str, Any]], key: str, form: str, scale: float = 1.0) -> str:
    values = [scale * record[key] for record in part if key in record]
    if not values:
        return "-"
    low, middle, high = (form.format(value) for value in (min(values), float(np.mean(values)), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def figure(results: Mapping[str, Any]) -> bytes:
    """Share of problems with a solution, and violating episodes of the solutions."""
    with style():
        drawing = new_figure(8.5, 3.2)
        solved, broken = drawing.subplots(1, 2)
        for i, kind in enumerate(PROBLEMS):
            parts = [records_of(results, kind, slip) for slip in SLIPS]
            at = np.array(SLIPS) + 0.006 * (i - 1)
            solved.plot(at, [np.mean([r["status"] == "optimal" for r in part]) for part in parts], "o-", label=kind)
            means = [np.mean([r["violating"] for r in part if "violating" in r] or [np.nan]) for part in parts]
            broken.plot(at, means, "o-", label=kind)
        solved.set(xlabel="slip probability", ylabel="problems with a solution", ylim=(-0.05, 1.05))
        broken.set(xlabel="slip probability", ylabel="violating episodes", ylim=(-0.05, 1.05))
        legend_above(drawing, solved, 3)
        return render(drawing, "png", tight=False)


EXPERIMENT = Measured(
    "the paper's budget alpha = 0: what has a solution, and how short episodes keep every limit",
    measure,
    seconds,
    table,
    figure,
)
