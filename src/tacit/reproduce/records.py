"""The numbers of one finished run, in the same form for all experiments that collect them.

Because the form is the same, an experiment can reuse another's record of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tacit.cost import LearnedCost, quality
from tacit.demos import expert_policy
from tacit.envs.gridworld import GridworldSpec
from tacit.envs.options import exact_model
from tacit.evaluate import cost_quality, evaluate_exact, excess_over_expert, reachable_states
from tacit.metrics import ENDS
from tacit.policy import Policy
from tacit.reproduce.results import AGENTS, Agent, Curves, Evaluation, Number, Record, Results
from tacit.run import Run
from tacit.sweep import Job

LEARNED = {"stochastic": "learned", "deterministic": "learned, deterministic"}
"""Names of a learner's agents in summary.json. In the summary of an expert, the keys themselves are the names."""
METRICS: tuple[str, ...] = ("return", "terminated_return", "feasible_return", "violation_rate_step")
METRICS += ("violation_rate_episode", "violation_rate_terminated", "initial_violation_rate")
DRIVING: tuple[str, ...] = ("return", "terminated_return", *ENDS, "violation_rate_step", "violation_rate_episode")
DRIVING += ("violation_rate_legal_start", "initial_violation_rate")
CURVES: dict[str, tuple[str, ...]] = {
    "return": ("rollout/ep_rew_mean",),
    "violations": ("truth/violation_rate_step", "rollout/cost_mean"),
    "learner_cost": ("dual/learner_cost",),
    "expert_cost": ("dual/expert_cost",),
}
"""Possible names of each curve in the log; the first that an entry has is used. Missing curves are left out."""
POINTS = 60


def collect(job: Job, run: Run) -> Record:
    """The final evaluation, the demonstrations' numbers, the quality of the cost, the time, and the thinned curves."""
    summary = run.read("summary.json")
    demonstrated = summary["table"].get("demonstrations") or summary["table"].get("expert")
    return {
        **agents_of(summary["table"], METRICS),
        "expert": None if demonstrated is None else evaluation(demonstrated),
        "cost_quality": summary.get("cost_quality"),
        "detection": quality.of_run(run) or summary.get("detection"),  # measured again, by the present definitions
        "made": summary.get("steps"),
        "threshold": summary.get("threshold"),
        "resets": summary.get("resets"),
        "source": summary.get("source"),
        "phases": summary.get("time"),
        "curves": curves_of(run.metrics()),
    }


def collect_expert(job: Job, run: Run) -> Record:
    """The final evaluation of an expert, and its learning curves."""
    table = run.read("summary.json")["table"]
    return {**agents_of(table, METRICS), "curves": curves_of(run.metrics(), points=100)}


def collect_driving(job: Job, run: Run) -> Record:
    """The final evaluation on the highway with the way episodes end, the quality of the cost, and the curves."""
    summary = run.read("summary.json")
    return {
        **agents_of(summary["table"], DRIVING),
        "cost_quality": summary.get("cost_quality"),
        "threshold": summary.get("threshold"),
        "curves": curves_of(run.metrics()),
    }


def agents_of(table: Mapping[str, Any], metrics: Sequence[str]) -> Record:
    """The metrics of the stochastic and of the deterministic policy; exact methods have only a stochastic one."""
    rows = {agent: table.get(LEARNED[agent], table.get(agent)) for agent in AGENTS}
    return cast(Record, {agent: evaluation(row, metrics) for agent, row in rows.items() if row is not None})


def evaluation(row: Mapping[str, Any], metrics: Sequence[str] = METRICS) -> Evaluation:
    """The metrics of an agent, with the number of violating episodes if they were counted."""
    numbers = {key: _value(row[key]) for key in metrics if key in row}
    episodes = row.get("violation_rate_episode")
    if isinstance(episodes, Mapping):
        numbers |= {key: episodes[key] for key in ("count", "n") if key in episodes}
    return numbers


def _value(entry: Any) -> float:
    return float(entry["value"] if isinstance(entry, Mapping) else entry)


def curves_of(log: Sequence[Mapping[str, Any]], points: int = POINTS) -> Curves:
    """{"steps", "return", "violations", ...}, thinned to `points`; empty if the log counts no environment steps."""
    log = [entry for entry in log if "steps" in entry]
    if not log:
        return {}
    parts = np.array_split(np.arange(len(log)), min(points, len(log)))
    curves = {"steps": [log[part[-1]]["steps"] for part in parts]}
    for name, keys in CURVES.items():
        values = np.array([next((entry[key] for key in keys if key in entry), np.nan) for entry in log], dtype=float)
        if name in ("return", "violations") or np.isfinite(values).any():
            curves[name] = [mean_of(values[part]) for part in parts]
    return curves


def mean_of(values: np.ndarray) -> float:
    """The mean of the finite values, rounded to five digits."""
    finite = values[np.isfinite(values)]
    return float(f"{finite.mean():.5g}") if len(finite) else float("nan")


# ---------------------------------------------------------------------------------------------------------------------
# The gridworld. The model is known, so return and violations of a policy pi(a|s) are computed, not sampled. A cost that
# reads actions is averaged over pi for maps and AUROC.


def spec_of(run: Run) -> GridworldSpec:
    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    assert spec is not None
    return spec


def collect_grid(job: Job, run: Run) -> Record:
    """The numbers of the run, with exact numbers of its policy, its expert and its cost."""
    spec = spec_of(run)
    mdp = spec.model()
    policy = policy_table(run, spec)
    agent, expert = (
        evaluate_exact(mdp, pi, spec.constrained, step_limit=spec.horizon) for pi in (policy, expert_policy(spec))
    )
    cost = cost_table(run, spec, policy)
    judged = {} if cost is None else cost_quality(cost, spec.constrained, reachable=reachable_states(mdp)).as_dict()
    certified = run.read("summary.json").get("exact", {})  # of a deep policy, by the exact solver
    certified = {key: certified[key] for key in ("kl_per_step",) if key in certified}
    return {
        **collect(job, run),
        "slip": spec.slip,
        "exact": {**agent.as_dict(), **excess_over_expert(agent, expert), **judged, **certified},
        "expert": {**evaluation(expert.as_dict())},
    }


def policy_table(run: Run, spec: GridworldSpec) -> np.ndarray:
    """(S, A) pi(a|s) of a finished run, exact or deep."""
    arrays, card = run.load_model("policy")
    if card.get("kind") == "tabular":
        return np.asarray(arrays["policy"], dtype=np.float64)
    policy = Policy.from_arrays(arrays, card)
    inputs = policy.interface.encode(observations(spec, bool(policy.interface.n_states)))
    logits = policy.head(inputs).astype(np.float64)
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def cost_table(run: Run, spec: GridworldSpec, policy: np.ndarray) -> np.ndarray | None:
    """(S,) the cost of being in each cell, averaged over the policy (S, A); None for a method without a cost."""
    if not (run.path / "model" / "cost.safetensors").exists():
        return None
    arrays, card = run.load_model("cost")
    if card.get("kind") == "tabular":
        return np.asarray((policy * arrays["cost"]).sum(axis=1), dtype=np.float64)
    cost = LearnedCost.from_arrays(arrays, card)
    seen = observations(spec, cost.inputs.names[0].startswith("state["))
    if not cost.inputs.act_size:
        return np.asarray(cost(seen), dtype=np.float64)
    costs = np.stack([cost(seen, np.full(len(seen), action)) for action in range(spec.n_actions)], axis=1)
    return np.asarray((policy * costs).sum(axis=1), dtype=np.float64)


def observations(spec: GridworldSpec, numbered: bool) -> np.ndarray:
    """The observation in each cell: its number, or its row and column."""
    return np.arange(spec.n_states) if numbered else spec.cells.astype(np.float32)


COLLECT: dict[str, Callable[[Job, Run], Record]] = {
    "policy": collect,
    "grid": collect_grid,
    "driving": collect_driving,
    "expert": collect_expert,
}


# ---------------------------------------------------------------------------------------------------------------------
# Reading records


def number(*path: str, scale: float = 1.0) -> Number:
    """The entry of a record at the end of this path; None if the path does not exist."""

    def of(run: Record) -> float | None:
        value: Any = run
        for key in path:
            value = (value or {}).get(key)
        return None if value is None else scale * float(value)

    return of


def agent_of(run: Record, agent: Agent) -> Evaluation:
    """The metrics of an agent; empty if the run has none."""
    return run.get(agent) or {}


def demonstrated(run: Record) -> float | None:
    """Return of the demonstrations of a run until their first violation; None if it was not recorded."""
    expert = run.get("expert") or {}
    value = expert.get("terminated_return", expert.get("return", run.get("demonstrations")))
    return None if value is None else float(value)


def steps_made(run: Record) -> float | None:
    """Environment steps that the run used; in older records, the steps that were asked for."""
    steps = run.get("made") or run["steps"]
    return None if steps is None else float(steps)


def group_of(label: str) -> str:
    return label.partition(": ")[0]


def labelled(results: Results, label: str) -> list[Record]:
    """The runs with this label, by seed."""
    return sorted((run for run in results["runs"] if run["label"] == label), key=lambda run: run["seed"])


def runs_of(results: Results, group: str, row: str) -> list[Record]:
    return labelled(results, f"{group}: {row}" if row else group)


def wanted(results: Results) -> list[str]:
    """Labels of all planned runs, in order."""
    labels = [run["label"] for run in results["runs"]] + [run["label"] for run in results.get("missing") or []]
    return list(dict.fromkeys(map(str, labels)))


def groups_in(results: Results, order: Sequence[str]) -> list[str]:
    """The groups with planned runs; ValueError for results of another experiment."""
    return _there(order, {group_of(label) for label in wanted(results)})


def rows_in(results: Results, order: Sequence[str]) -> list[str]:
    """The rows with planned runs; ValueError for results of another experiment."""
    return _there(order, {label.partition(": ")[2] for label in wanted(results)})


def _there(order: Sequence[str], names: set[str]) -> list[str]:
    there = [name for name in order if name in names]
    if not there:
        raise ValueError(f"it has no runs of {', '.join(order)}")
    return there


def expert_of(results: Results, group: str) -> Evaluation | None:
    """The demonstrators' numbers in a group, as its runs measured them."""
    experts = (run.get("expert") for run in results["runs"] if group_of(run["label"]) == group)
    return next((expert for expert in experts if expert), None)
