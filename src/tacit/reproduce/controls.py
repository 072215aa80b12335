"""Controls that learn nothing, or nearly nothing, for every AUROC, IoU and boundary error in the other tables.

On the gridworld three of them stand beside the exact method, on the same demonstrations and with the same read-out:

    box                 number of coordinates (row, column) outside the demonstrated range
    never visited       1 in cells that no demonstration visits
    one inverse step    max(visits of the soft-optimal agent without cost - demonstrated visits, 0): the first gradient

Each is also used as a constraint: cells whose cost exceeds a tenth of the largest one cost 30 a visit, which is the
expert's own price, and the soft-optimal policy for that is evaluated exactly.

On the robots the box needs no run: its boundary on the true feature follows from the demonstrations. The error of a
boundary counts only outside the open band, which begins at the outermost demonstration. So the box has no error by
construction, and an error of 0 says little about a learned boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tacit.cost.bounds import Bound, threshold_error
from tacit.cost.box import EDGE
from tacit.demos import expert_demonstrations, expert_policy, load, shipped
from tacit.envs.capabilities import capabilities
from tacit.envs.gridworld import GridworldSpec, make_spec
from tacit.envs.registry import make_vec
from tacit.evaluate import cost_quality, evaluate_exact, reachable_states
from tacit.forward.soft_policy_iteration import occupancy, plan
from tacit.inverse.trajectories import discounted_counts
from tacit.plots import legend_above, new_figure, render, style
from tacit.reproduce import by_slip
from tacit.reproduce.columns import header, line
from tacit.reproduce.experiment import ROBOTS, Measured
from tacit.stats import iqm
from tacit.tabular import MDP, solve

SLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LAYOUT, DEMONSTRATIONS, BETA, PRICE, SHARE = "paper", 50, 0.1, 30.0, 0.1
COSTS = ("exact method", "one inverse step", "never visited", "box")
COLUMNS = {
    "auroc": "AUROC of the cost, all cells alike",
    "best_iou": "best IoU of the cost, all cells alike",
    "violation_rate_step": "violating steps of the policy that takes the cost as a constraint",
    "return": "return of that policy",
}


def measure(sets: int, progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Judge all controls.

    Returns {"expert": a record per slip, "costs": a record per slip, set and cost, "robots": a record per robot}.
    """
    experts, records = [], []
    for slip in SLIPS:
        spec = make_spec(LAYOUT, slip=slip)
        mdp = spec.model()
        experts.append({"slip": slip, **_judged(spec, mdp, expert_policy(spec))})
        for seed in range(sets):
            started = time.process_time()
            demos = spec.to_tabular(expert_demonstrations(spec, DEMONSTRATIONS, seed=seed))
            for name, cost in costs_of(spec, mdp, demos).items():
                quality = cost_quality(cost, spec.constrained, reachable=reachable_states(mdp))
                forbidden = cost > SHARE * cost.max()
                policy = plan(mdp, mdp.rewards - PRICE * forbidden[:, None], BETA).policy
                numbers = {"auroc": quality.auroc, "best_iou": quality.best_iou, **_judged(spec, mdp, policy)}
                records.append({"slip": slip, "set": seed, "cost": name, **numbers})
            records[-1]["seconds"] = time.process_time() - started
            progress(f"slip {slip:g}, set {seed + 1} of {sets}")
    return {"sets": sets, "expert": experts, "costs": records, "robots": [box_of(name) for name in ROBOTS]}


def costs_of(spec: GridworldSpec, mdp: MDP, demos: Any) -> dict[str, np.ndarray]:
    """The cost (S,) of the exact method and of every control, by name."""
    counts = discounted_counts(mdp, demos).sum(axis=1)
    free = occupancy(mdp, plan(mdp, mdp.rewards, BETA).policy).sum(axis=1)
    reached = np.unique(np.concatenate([states for states, _ in demos]))
    low, high = spec.cells[reached].min(axis=0), spec.cells[reached].max(axis=0)
    solution = solve(mdp, "state", demonstrations=demos, beta=BETA, objective="likelihood")
    return {
        "exact method": (solution.policy * solution.cost).sum(axis=-1),
        "one inverse step": np.maximum(free - counts, 0.0),
        "never visited": (~np.isin(np.arange(spec.n_states), reached)).astype(float),
        "box": ((spec.cells < low) | (spec.cells > high)).sum(axis=1).astype(float),
    }


def _judged(spec: GridworldSpec, mdp: MDP, policy: np.ndarray) -> dict[str, float]:
    numbers = evaluate_exact(mdp, policy, spec.constrained, step_limit=spec.horizon).as_dict()
    return {key: numbers[key] for key in COLUMNS if key in numbers}


def box_of(robot: str) -> dict[str, Any]:
    """The box's boundary on the feature and side of a robot's true constraint, from the demonstrations alone."""
    env = make_vec(f"tacit/{robot}-v0", 1)
    try:
        truth = capabilities(env).rule
    finally:
        env.close()
    file = shipped(f"tacit/{robot}-v0")
    assert truth is not None
    assert truth.column is not None
    assert file is not None
    values = load(file).observations[:, truth.column].astype(float)
    low, high = float(values.min()), float(values.max())
    outermost = low if truth.below else high
    # The cost of the box passes 1/2 half an edge outside of the demonstrated range.
    boundary = outermost + (-0.5 if truth.below else 0.5) * EDGE * (high - low)
    error = threshold_error(Bound(truth.feature, truth.relation, boundary, outermost), truth.value)
    return {"robot": robot, "truth": str(truth), "demonstrated": outermost, "boundary": boundary, "error": error}


def seconds(results: Mapping[str, Any]) -> float:
    """Processor seconds of one demonstration set at all slips."""
    return float(sum(record.get("seconds", 0.0) for record in results["costs"]) / results["sets"])


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def values(results: Mapping[str, Any], cost: str, slip: float, column: str) -> np.ndarray:
    """One number for every set."""
    return np.array([r[column] for r in results["costs"] if (r["cost"], r["slip"]) == (cost, slip)], dtype=float)


def table(results: Mapping[str, Any]) -> str:
    """A table per number with a column per slip, and the box on the robots."""
    parts = []
    for column, title in COLUMNS.items():
        theirs = [f"{record[column]:.3f}" for record in results["expert"] if column in record]
        rows = {"expert": theirs} if theirs else {}
        rows |= {cost: [_cell(values(results, cost, slip, column)) for slip in SLIPS] for cost in COSTS}
        parts.append(by_slip.table(title, SLIPS, rows))
    head = header(["robot", "true constraint", "outermost demonstration", "boundary of the box", "error"])
    lines = [
        line([r["robot"], r["truth"], f"{r['demonstrated']:.4g}", f"{r['boundary']:.4g}", f"{r['error']:.3f}"])
        for r in results["robots"]
    ]
    parts.append("\n".join(["**the box on the robots**", "", *head, *lines]))
    note = (
        f"Gridworld: mean [95 % bootstrap interval] and interquartile mean over {results['sets']} sets of "
        f"{DEMONSTRATIONS} demonstrations. As a constraint, cells whose cost exceeds a tenth of the largest one cost "
        f"{PRICE:g} a visit. Robots: the error is counted outside the open band between the outermost demonstration "
        "and the true limit, as in the other tables."
    )
    return "\n\n".join([*parts, note]) + "\n"


def _cell(numbers: np.ndarray) -> str:
    return f"{by_slip.cell(numbers)}, IQM {iqm(numbers):.3f}"


def figure(results: Mapping[str, Any]) -> bytes:
    """AUROC, best IoU and violating steps against slip."""
    with style():
        drawing = new_figure(11.5, 3.4)
        for axes, column in zip(drawing.subplots(1, 3), list(COLUMNS)[:3], strict=True):
            if column in results["expert"][0]:
                axes.plot(SLIPS, [record[column] for record in results["expert"]], "k--", label="expert", linewidth=1.2)
            for cost in COSTS:
                means = [values(results, cost, slip, column).mean() for slip in SLIPS]
                axes.plot(SLIPS, means, marker="o", markersize=4, label=cost)
            axes.set_xlabel("slip probability")
            axes.set_ylabel(COLUMNS[column].replace(" of the policy", "\nof the policy").replace(", all", "\nall"))
        legend_above(drawing, drawing.axes[2], 5)
        return render(drawing, "png", tight=False)


EXPERIMENT = Measured(
    "controls that learn nothing: the box, cells never visited, a single inverse step", measure, seconds, table, figure
)
