"""What the gridworld experiments share. The world is `paper`, 50 demonstrations of the built-in expert, anew each seed.

Deep policies are judged as the exact methods are: the world is known, so the return and the violations of a policy
pi(a|s) are computed, not sampled, and there is no noise in them but that of learning. A cost that reads actions is
averaged over pi for maps and AUROC. (Not an experiment itself.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce import compare, compare_plots, overall, records
from tacit.reproduce.compare import METHODS, Row, groups_in, rows_in, runs_of
from tacit.reproduce.table_experts import error

if TYPE_CHECKING:
    from tacit.envs.gridworld import GridworldSpec
    from tacit.run import Run
    from tacit.sweep import Job

ENV, LAYOUT = "tacit/Gridworld-v0", "paper"
SLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
QUICK_SLIPS = (0.0, 0.3)
SEEDS = (0, 1, 2, 3, 4)
DEEP = compare.rows_of(METHODS)
EXACT = {name: Row(name, None) for name in ("mce-exact", "ml-greedy", "ml-greedy-causal")}


def group_of(slip: float) -> str:
    return f"slip {slip:g}"


GROUPS = {group_of(slip): slip for slip in SLIPS}


def jobs(
    rows: Mapping[str, Row], seeds: Sequence[int], quick: bool, slips: Sequence[float] = SLIPS, **budget: Any
) -> list[Job]:
    """One run a seed, slip and row."""
    chosen = [slip for slip in slips if slip in QUICK_SLIPS] if quick else slips
    return [
        compare.job(group_of(slip), name, row, ENV, seed, quick, {"layout": LAYOUT, "slip": slip}, budget=budget)
        for seed in seeds
        for slip in chosen
        for name, row in rows.items()
    ]


def collect(job: Job, run: Run) -> dict[str, Any]:
    """The numbers of the run, and the exact ones of its policy, its expert and its cost."""
    from tacit.demos import expert_policy
    from tacit.envs.options import exact_model
    from tacit.evaluate import cost_quality, evaluate_exact, excess_over_expert, reachable_states

    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    assert spec is not None
    mdp = spec.model()
    policy = policy_table(run, spec)
    agent, expert = (
        evaluate_exact(mdp, pi, spec.constrained, step_limit=spec.horizon) for pi in (policy, expert_policy(spec))
    )
    cost = cost_table(run, spec, policy)
    found = records.collect(job, run)
    judged = {} if cost is None else cost_quality(cost, spec.constrained, reachable=reachable_states(mdp)).as_dict()
    certified = run.read("summary.json").get("exact", {})  # of a deep policy, by the exact solver
    certified = {key: certified[key] for key in ("kl_per_step",) if key in certified}
    return found | {
        "slip": spec.slip,
        "exact": {**agent.as_dict(), **excess_over_expert(agent, expert), **judged, **certified},
        "expert": {**records.evaluation(expert.as_dict())},
    }


def policy_table(run: Run, spec: GridworldSpec) -> np.ndarray:
    """(S, A) pi(a|s) of a finished run, exact or deep."""
    from tacit.policy import Policy

    arrays, card = run.load_model("policy")
    if card.get("kind") == "tabular":
        return np.asarray(arrays["policy"], dtype=np.float64)
    policy = Policy.from_arrays(arrays, card)
    logits = policy.head(policy.interface.encode(observations(spec, bool(policy.interface.n_states)))).astype(
        np.float64
    )
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def cost_table(run: Run, spec: GridworldSpec, policy: np.ndarray) -> np.ndarray | None:
    """(S,) the cost of being in each cell, averaged over the policy (S, A); None for a method that learns none."""
    from tacit.cost import LearnedCost

    if not (run.path / "model" / "cost.safetensors").exists():
        return None
    arrays, card = run.load_model("cost")
    if card.get("kind") == "tabular":
        return np.asarray((policy * arrays["cost"]).sum(axis=1), dtype=np.float64)
    cost = LearnedCost.from_arrays(arrays, card)
    seen = observations(spec, cost.inputs.names[0].startswith("state["))
    if not cost.inputs.act_size:
        return np.asarray(cost(seen), dtype=np.float64)
    every = np.stack([cost(seen, np.full(len(seen), action)) for action in range(spec.n_actions)], axis=1)
    return np.asarray((policy * every).sum(axis=1), dtype=np.float64)


def observations(spec: GridworldSpec, numbered: bool) -> np.ndarray:
    """What an agent sees in each cell: its number, or its row and column."""
    return np.arange(spec.n_states) if numbered else spec.cells.astype(np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def number(*path: str, scale: float = 1.0) -> compare_plots.Numbers:
    """What a record has at the end of this path; None where it ends before."""

    def of(run: Mapping[str, Any]) -> float | None:
        value: Any = run
        for key in path:
            value = (value or {}).get(key)
        return None if value is None else scale * float(value)

    return of


def beyond_the_expert(run: Mapping[str, Any]) -> float | None:
    earned, expert = run["exact"].get("return"), (run.get("expert") or {}).get("return")
    return None if earned is None or expert is None else earned - expert


ON = ("detection", "cost", "on")
VIOLATING = number("exact", "violation_rate_step", scale=100.0)
TABLES: dict[str, compare_plots.Numbers] = {
    "return": number("exact", "return"),
    "violating steps, %": VIOLATING,
    "violating episodes, %": number("exact", "violation_rate_episode", scale=100.0),
    "violations beyond the expert's (discounted visits)": number("exact", "excess_violation_occupancy"),
    "terminated return, sampled (no start violates: the feasible return is the same)": number(
        "stochastic", "terminated_return"
    ),
    "violating steps, stopped at the first, sampled, %": number("stochastic", "violation_rate_terminated", scale=100.0),
    "deterministic policy: return, sampled": number("deterministic", "return"),
    "deterministic policy: violating steps, sampled, %": number("deterministic", "violation_rate_step", scale=100.0),
    "AUROC of the cost, all cells alike": number("exact", "auroc"),
    "AUROC on nominal states": number(*ON, "nominal", "auroc"),
    "AUROC on everything tried": number(*ON, "tried", "auroc"),
    "AUPRC of the cost, all cells alike": number("exact", "auprc"),
    "best IoU of the cost, all cells alike": number("exact", "best_iou"),
    "IoU at the learned threshold, all cells alike": number(*ON, "uniform", "iou"),
    "KL to the soft-optimal policy for the same cost, nats a step": number("exact", "kl_per_step"),
}
EXPERTS = {
    "return": number("expert", "return"),
    "violating steps, %": number("expert", "violation_rate_step", scale=100.0),
    "violating episodes, %": number("expert", "violation_rate_episode", scale=100.0),
}
SCORES = (
    overall.Score("violating steps, %", VIOLATING, (1.0, 2.0, 5.0, 10.0, 20.0), less_is_better=True),
    overall.Score("return less the expert's", beyond_the_expert, (-2.0, -1.0, 0.0, 1.0, 2.0)),
)
"""All stochasticities together."""
NOTE = (
    "Mean ± standard error over {} seeds (fewer where n says so). Computed from the policies where it does not "
    "say sampled (100 episodes); what no run of a row has is left out. AUROC on everything that its own learner tried "
    "is not the same question for every method. A higher return than the expert's is no merit: the way through the "
    "wall is shorter."
)


def table(results: Mapping[str, Any], rows: Sequence[str], ours: str = "mce") -> str:
    """One table a number: rows are methods, columns are slips; mean ± standard error over seeds."""
    groups, rows = groups_in(results, list(GROUPS)), rows_in(results, rows)
    most = max((len(runs_of(results, group, row)) for group in groups for row in rows), default=0)
    head = ["| | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    parts = []
    for title, of in TABLES.items():
        lines = []
        for row in rows:
            cells = [_cell(runs_of(results, group, row), of, most) for group in groups]
            if title in EXPERTS or any(cell != "-" for cell in cells):
                lines.append(f"| {row} | " + " | ".join(cells) + " |")
        if lines:
            parts.append("\n".join([f"**{title}**", "", *head, *_expert(results, groups, title), *lines]))
    seeds = [
        f"| {row} | " + " | ".join(_each(runs_of(results, group, row), VIOLATING) for group in groups) + " |"
        for row in rows
    ]
    parts.append("\n".join(["**violating steps of each seed, %**", "", *head, *seeds]))
    together = overall.table(results, groups, rows, ours, SCORES)
    return "\n\n".join([*parts, together + NOTE.format(most)]) + "\n"


def _expert(results: Mapping[str, Any], groups: Sequence[str], title: str) -> list[str]:
    """The expert's line, where there is one to compare with."""
    if title not in EXPERTS:
        return []
    found = [EXPERTS[title]({"expert": compare.expert_of(results, group)}) for group in groups]
    return ["| expert | " + " | ".join("-" if value is None else f"{value:.3f}" for value in found) + " |"]


def _each(runs: Sequence[Mapping[str, Any]], of: compare_plots.Numbers) -> str:
    return ", ".join("-" if value is None else f"{value:.1f}" for value in map(of, runs)) or "-"


def _cell(runs: Sequence[Mapping[str, Any]], of: compare_plots.Numbers, most: int) -> str:
    """Mean ± standard error, with the number of seeds where it is not `most`."""
    known = np.array([value for value in map(of, runs) if value is not None])
    if not len(known):
        return "-"
    few = f" n={len(known)}" if len(known) < most else ""
    return f"{known.mean():.3f}" + (f" ± {error(known):.3f}" if len(known) > 1 else "") + few


def figure(results: Mapping[str, Any], rows: Sequence[str]) -> bytes:
    """Return, violating steps and AUROC against the slip."""
    panels = {
        "return": TABLES["return"],
        "violating steps, %": VIOLATING,
        "AUROC of the cost": number("exact", "auroc"),
    }
    experts = {title: of for title, of in EXPERTS.items() if title in panels}
    return compare_plots.against(results, GROUPS, rows, panels, "slip probability (stochasticity)", experts)


def curves(results: Mapping[str, Any], rows: Sequence[str]) -> bytes:
    return compare_plots.curves(results, list(GROUPS), rows, wide=2.1)
