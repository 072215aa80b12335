"""Causal against non-causal maximum entropy, with nothing else changed, as the gridworld slips more and more.

The layout is `paper`, each set has 50 demonstrations of the built-in expert. Both models have the same features (one
per cell), demonstrations, objective and solver; `causal_pair` says in which line they differ. A learned cost is used in
two ways, because a model may learn badly, plan badly, or both:

    causal, causal            learned with causal entropy, and the policy planned with it
    causal, non-causal        the same cost, planned by the model that chooses its luck
    non-causal, causal        a cost learned without causality, planned with it
    non-causal, non-causal    the whole method without causality

All agents are evaluated exactly in the true dynamics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tacit.demos import expert_demonstrations, expert_policy
from tacit.envs.gridworld import GridworldSpec, make_spec
from tacit.evaluate import cost_quality, evaluate_exact, reachable_states
from tacit.forward.soft_policy_iteration import occupancy, plan
from tacit.plots import legend_above, new_figure, render, style
from tacit.reproduce import by_slip
from tacit.reproduce.causal_pair import EntropyModel, Fit
from tacit.reproduce.experiment import Measured
from tacit.stats import Interval
from tacit.tabular import MDP

SLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LAYOUT, DEMONSTRATIONS, BETA, L1, BUDGET = "paper", 50, 0.1, 1e-4, 1e-3
OBJECTIVES = {
    "likelihood": f"log-likelihood of {DEMONSTRATIONS} demonstrations, L1 weight {L1:g}",
    "moments": f"the paper's dual with the expert's own moments (no sampling error), budget {BUDGET:g}",
}
MODELS = {"causal": True, "non-causal": False}
COLUMNS = {
    "return": "return",
    "violation_rate_step": "violating steps",
    "violation_rate_episode": "violating episodes",
    "auroc": "AUROC of the cost",
    "best_iou": "best IoU of the cost",
}
OF_THE_COST = ("auroc", "best_iou")
"""Numbers that do not depend on the planner."""


def measure(sets: int, progress: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Fit both models to all sets.

    Returns {"expert"/"unconstrained": a record per slip, "fits": a record per slip, objective, model and set}.
    """
    results: dict[str, Any] = {"expert": [], "unconstrained": [], "fits": []}
    for slip in SLIPS:
        spec = make_spec(LAYOUT, slip=slip)
        mdp = spec.model(finite=True, discount=1.0)
        models = {name: EntropyModel(mdp, BETA, causal=causal) for name, causal in MODELS.items()}
        expert = expert_policy(spec)
        results["expert"].append({"slip": slip, **judge(spec, mdp, expert)})
        results["unconstrained"].append({"slip": slip, **judge(spec, mdp, plan(mdp, mdp.rewards, BETA).policy)})
        visited = occupancy(mdp, expert).sum(axis=(0, 2))
        for name, model in models.items():
            fit = partial(model.fit_moments, visited, BUDGET)
            about = {"slip": slip, "objective": "moments", "model": name, "set": None}
            results["fits"].append(about | _record(spec, mdp, models, fit)[0])
        starts: dict[str, np.ndarray | None] = dict.fromkeys(models)
        for seed in range(sets):
            demos = spec.to_tabular(expert_demonstrations(spec, DEMONSTRATIONS, seed=seed))
            for name, model in models.items():
                # Each set starts from the weights of the one before, which saves most of the steps.
                fit = partial(model.fit_likelihood, demos, L1, starts[name])
                about = {"slip": slip, "objective": "likelihood", "model": name, "set": seed}
                record, starts[name] = _record(spec, mdp, models, fit)
                results["fits"].append(about | record)
            progress(f"slip {slip:g}, set {seed + 1} of {sets}")
    settings = {"layout": LAYOUT, "demonstrations": DEMONSTRATIONS, "beta": BETA, "l1": L1, "budget": BUDGET}
    return {**settings, "sets": sets, "objectives": OBJECTIVES, **results}


def judge(spec: GridworldSpec, mdp: MDP, policy: np.ndarray) -> dict[str, float]:
    numbers = evaluate_exact(mdp, policy, spec.constrained).as_dict()
    return {key: numbers[key] for key in COLUMNS if key in numbers}


def _record(
    spec: GridworldSpec, mdp: MDP, models: Mapping[str, EntropyModel], fit: Callable[[], Fit]
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit, and judge the result: (record, weights)."""
    started = time.process_time()
    fitted = fit()
    quality = cost_quality(fitted.weights, spec.constrained, reachable=reachable_states(mdp))
    record = {
        "value": fitted.value,
        "stationarity": fitted.stationarity,
        "evaluations": fitted.evaluations,
        "seconds": time.process_time() - started,
        "auroc": quality.auroc,
        "best_iou": quality.best_iou,
        "planned": {name: judge(spec, mdp, model.policy(fitted.weights)) for name, model in models.items()},
    }
    return record, fitted.weights


def seconds(results: Mapping[str, Any]) -> float:
    """Processor seconds of one demonstration set at all slips."""
    return float(sum(fit["seconds"] for fit in results["fits"]) / results["sets"])


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def values(
    results: Mapping[str, Any], objective: str, model: str, planner: str, slip: float, column: str
) -> np.ndarray:
    """One number for every set."""
    fits = [fit for fit in results["fits"] if (fit["objective"], fit["model"], fit["slip"]) == (objective, model, slip)]
    return np.array([fit[column] if column in OF_THE_COST else fit["planned"][planner][column] for fit in fits], float)


def difference(results: Mapping[str, Any], slip: float, column: str) -> Interval:
    """Non-causal less causal, the whole method each, on the same demonstrations."""
    without, with_ = (values(results, "likelihood", name, name, slip, column) for name in ("non-causal", "causal"))
    return by_slip.interval(without - with_)


def table(results: Mapping[str, Any]) -> str:
    """One table per number; rows are agents, columns are slips."""
    parts = []
    for column, title in COLUMNS.items():
        agents = ("expert", "unconstrained") if column not in OF_THE_COST else ()
        rows = {name: [f"{record[column]:.3f}" for record in results[name]] for name in agents}
        for objective in OBJECTIVES:
            for model in MODELS:
                for planner in MODELS if column not in OF_THE_COST else (model,):
                    how = model if column in OF_THE_COST else f"{model}, planned {planner}"
                    numbers = [values(results, objective, model, planner, slip, column) for slip in SLIPS]
                    rows[f"{objective}: {how}"] = [by_slip.cell(part) for part in numbers]
        apart = [difference(results, slip, column) for slip in SLIPS]
        rows["likelihood: non-causal less causal, paired"] = [
            "{:+.3f} [{:+.3f}, {:+.3f}]".format(*end) for end in apart
        ]
        parts.append(by_slip.table(title, SLIPS, rows))
    note = (
        f"*Likelihood*: {OBJECTIVES['likelihood']}; mean and 95 % bootstrap interval over {results['sets']} sets of "
        f"demonstrations. *Moments*: {OBJECTIVES['moments']}; there is one problem per slip. *Planned* says which "
        "model turns the learned cost into a policy. All policies are evaluated exactly in the true dynamics. "
        f"{_solver(results)}"
    )
    return "\n\n".join([*parts, note]) + "\n"


def _solver(results: Mapping[str, Any]) -> str:
    """How far the fits are from an optimum, and what that does to the numbers."""
    most = {name: max(f["stationarity"] for f in results["fits"] if f["objective"] == name) for name in OBJECTIVES}
    return (
        f"The solver leaves projected gradients of at most {most['likelihood']:.1g} (likelihood) and "
        f"{most['moments']:.1g} (moments) visits of a cell. Without slip the two models are the same, so the "
        "differences in that column are the solver's."
    )


def figure(results: Mapping[str, Any]) -> bytes:
    """Violating episodes, return and AUROC against slip; solid is planned by the model that learned the cost."""
    panels = ("violation_rate_episode", "return", "auroc")
    colours = {"causal": "C0", "non-causal": "C1"}
    with style():
        drawing = new_figure(11.5, 3.6)
        for axes, column in zip(drawing.subplots(1, 3), panels, strict=True):
            if column not in OF_THE_COST:
                axes.plot(SLIPS, [record[column] for record in results["expert"]], "k--", label="expert", linewidth=1.2)
            for model, colour in colours.items():
                for planner in MODELS if column not in OF_THE_COST else (model,):
                    numbers = [values(results, "likelihood", model, planner, slip, column) for slip in SLIPS]
                    own = planner == model
                    label = f"{model} entropy" if own else f"cost of {model}, planned by the other"
                    look = {"marker": "o", "linestyle": "-"} if own else {"marker": "x", "linestyle": ":"}
                    shift = 0.004 if model == "causal" else -0.004
                    by_slip.draw_means(axes, SLIPS, numbers, shift, color=colour, label=label, **look)
            axes.set_xlabel("slip probability")
            axes.set_ylabel(COLUMNS[column])
        legend_above(drawing, drawing.axes[0], 5)
        return render(drawing, "png", tight=False)


EXPERIMENT = Measured(
    "causal against non-causal maximum entropy on the gridworld, exact, with nothing else changed",
    measure,
    seconds,
    table,
    figure,
)
