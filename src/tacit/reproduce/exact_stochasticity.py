"""The exact method with slips of 0 to 0.5 in the gridworld's dynamics, on several demonstration sets for each slip.

The layout is `paper`, the expert is soft-optimal at beta 0.1 with weight 30 on the constraint, each set has 50
demonstrations. All agents are evaluated exactly in the true environment. (The defaults of the likelihood's L1 weight
and of the plug-in's pseudo-count were chosen on this layout, with other seeds; docs/reference.md#metrics says so.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from tacit.demos import expert_demonstrations, expert_policy
from tacit.envs.gridworld import make_spec
from tacit.evaluate import cost_quality, evaluate_exact, reachable_states
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse.dual_newton import kkt_residual
from tacit.inverse.exact_objectives import Geometry, MomentsDual
from tacit.inverse.feasibility import smallest_uniform_slack, statistical_budget
from tacit.inverse.trajectories import discounted_counts
from tacit.plots import new_figure, render, style
from tacit.reproduce import by_slip
from tacit.reproduce.experiment import Measured
from tacit.tabular import feature_matrix, solve

SLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LAYOUT, DEMONSTRATIONS, BETA = "paper", 50, 0.1
METHODS = {
    "paper": "moments, budget 0, the paper's dual: weights from 1, 20 fixed steps of 5e-4",
    "gradient": "moments, budget 0, 300 fixed gradient steps of 0.5 from 1",
    "moments": "moments solved exactly; where budget 0 has no solution, the smallest uniform budget that has one",
    "statistical": "moments solved exactly with budgets from the demonstrations' variance (normal 95 % half-widths)",
    "plugin": "moments of the estimated expert policy under the known dynamics, budget 0",
    "likelihood": "causally conditioned likelihood, L1 weight 1e-4",
}
EARLY = {"paper": (5e-4, 20), "gradient": (0.5, 300)}
"""(step size, number of steps) of the methods that stop whether or not there is a solution."""
COLUMNS = {
    "return": "return",
    "violation_rate_step": "violating steps",
    "excess_violation_occupancy": "excess violations",
    "auroc": "AUROC",
    "best_iou": "best IoU",
}


def measure(sets: int, progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Solve all sets with all methods.

    Returns {"expert"/"unconstrained": one record per slip, "methods": {name: one record per slip and set}}.
    """
    results: dict[str, Any] = {"expert": [], "unconstrained": [], "methods": {name: [] for name in METHODS}}
    for slip in SLIPS:
        spec = make_spec(LAYOUT, slip=slip)
        mdp = spec.model()

        def judge(policy: np.ndarray, spec: Any = spec, mdp: Any = mdp) -> dict[str, float]:
            return evaluate_exact(mdp, policy, spec.constrained, step_limit=spec.horizon).as_dict()

        expert = judge(expert_policy(spec))
        results["expert"].append({"slip": slip, **expert})
        results["unconstrained"].append({"slip": slip, **judge(plan(mdp, mdp.rewards, BETA).policy)})
        for seed in range(sets):
            demos = spec.to_tabular(expert_demonstrations(spec, DEMONSTRATIONS, seed=seed))
            for name in METHODS:
                record = {"slip": slip, "seed": seed, **_one(name, spec, mdp, demos, judge, expert)}
                results["methods"][name].append(record)
            progress(f"slip {slip:g}, set {seed + 1} of {sets}")
    return {
        "layout": LAYOUT,
        "demonstrations": DEMONSTRATIONS,
        "beta": BETA,
        "sets": sets,
        "definitions": METHODS,
        **results,
    }


def seconds(results: Mapping[str, Any]) -> float:
    """Seconds that all methods take to solve one demonstration set at all slips."""
    taken = sum(record["seconds"] for records in results["methods"].values() for record in records)
    return float(taken / results["sets"])


def _one(name: str, spec: Any, mdp: Any, demos: Any, judge: Any, expert: dict[str, float]) -> dict[str, Any]:
    started = time.perf_counter()
    solution, note = _solve(name, mdp, demos)
    seconds = time.perf_counter() - started
    if solution.status == "infeasible":
        return {"status": "infeasible", "seconds": seconds}
    numbers = judge(solution.policy)
    quality = cost_quality(
        (solution.policy * solution.cost).sum(axis=-1), spec.constrained, reachable=reachable_states(mdp)
    )
    return {
        "status": solution.status,
        **note,
        **numbers,
        "excess_violation_occupancy": numbers["violation_occupancy"] - expert["violation_occupancy"],
        "auroc": quality.auroc,
        "best_iou": quality.best_iou,
        "kkt": solution.certificate.kkt,
        "iterations": len(solution.history),
        "seconds": seconds,
    }


def _solve(name: str, mdp: Any, demos: Any) -> tuple[Any, dict[str, Any]]:
    """Solve one problem with one method: (solution, further entries of the record)."""

    def run(budget: Any = 0.0, **options: Any) -> Any:
        return solve(mdp, "state", demonstrations=demos, beta=BETA, budget=budget, **options)

    if name in EARLY:
        return _early_stopped(mdp, demos, *EARLY[name]), {}
    if name in ("plugin", "likelihood"):
        return run(objective=name), {}
    features = feature_matrix(mdp, "state")
    if name == "statistical":
        return run(statistical_budget(mdp, features, demos)), {}
    solution = run()
    if solution.status != "infeasible":
        return solution, {"budget": 0.0}
    slack = smallest_uniform_slack(mdp, features, solution.expert_moments)[0]
    budget = 1.01 * slack
    return run(budget), {"budget": budget}


def _early_stopped(mdp: Any, demos: Any, step: float, steps: int) -> SimpleNamespace:
    """The paper's update for `steps` steps, whether or not there is a solution (`solve` would refuse, with a proof)."""
    features = feature_matrix(mdp, "state")
    problem = MomentsDual(Geometry(mdp, features), features.T @ discounted_counts(mdp, demos).ravel())
    point = problem.at(np.ones(features.shape[1]), BETA, None)
    for _ in range(steps):
        point = problem.at(np.maximum(point.weights - step * point.gradient, 0.0), BETA, point)
    return SimpleNamespace(
        status="stopped early",
        policy=point.plan.policy,
        cost=(features @ point.weights).reshape(mdp.rewards.shape),
        certificate=SimpleNamespace(kkt=kkt_residual(point.weights, point.gradient)),
        history=range(steps),
    )


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def _values(results: Mapping[str, Any], name: str, slip: float, column: str) -> np.ndarray:
    records = results["methods"][name] if name in results["methods"] else results[name]
    return np.array([r.get(column, np.nan) for r in records if r["slip"] == slip], dtype=float)


def table(results: Mapping[str, Any]) -> str:
    """One table per column: rows are agents, columns are slips; mean and 95 % interval over demonstration sets.

    If some sets have no solution, the number of sets with one follows the interval.
    """
    parts = []
    slips = sorted({record["slip"] for record in results["expert"]})
    for column, title in COLUMNS.items():
        names = ("expert", "unconstrained", *results["methods"])
        rows = {name: [_cell(results, name, slip, column) for slip in slips] for name in names}
        measured = {name: cells for name, cells in rows.items() if any(cell != "-" for cell in cells)}
        parts.append(by_slip.table(title, slips, measured))
    return "\n\n".join(parts) + "\n"


def _cell(results: Mapping[str, Any], name: str, slip: float, column: str) -> str:
    values = _values(results, name, slip, column)
    values = values[np.isfinite(values)]
    if not len(values):
        return "-"
    few = f" n={len(values)}" if name in results["methods"] and 1 < len(values) < results["sets"] else ""
    return by_slip.cell(values) + few


def figure(results: Mapping[str, Any]) -> bytes:
    """Return, violating steps, excess violations and AUROC against slip."""
    methods = ("moments", "gradient", "plugin", "likelihood")
    slips = sorted({record["slip"] for record in results["expert"]})
    panels = {
        "return": "return",
        "violation_rate_step": "share of violating steps",
        "excess_violation_occupancy": "violations beyond the expert's\n(discounted visits)",
        "auroc": "AUROC of the cost",
    }
    with style():
        drawing = new_figure(10.5, 6.2)
        for axes, (column, label) in zip(drawing.subplots(2, 2).ravel(), panels.items(), strict=True):
            for name, look in (("expert", "k--"), ("unconstrained", "k:")):
                values = [_values(results, name, slip, column) for slip in slips]
                if all(np.isfinite(v).all() for v in values):
                    axes.plot(slips, [v.mean() for v in values], look, label=name, linewidth=1.2)
            for i, name in enumerate(methods):
                values = [_values(results, name, slip, column) for slip in slips]
                by_slip.draw_means(axes, slips, values, 0.006 * (i - 1.5), marker="o", label=name, linewidth=1.4)
            if column == "excess_violation_occupancy":
                axes.axhline(0.03, color="0.5", linewidth=0.8, linestyle="-.")
            axes.set_xlabel("slip probability")
            axes.set_ylabel(label)
        handles, labels = drawing.axes[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="upper center", ncols=6, frameon=False)
        drawing.tight_layout(rect=(0, 0, 1, 0.95))
        return render(drawing, "png", tight=False)


EXPERIMENT = Measured(
    "the exact method on the gridworld as the dynamics slip more and more", measure, seconds, table, figure
)
