"""The exact method inside a run folder: `tacit learn mce-exact ENV`, its summary, its pictures, its certificate.

The algorithm is in `tacit.inverse.mce_exact`. It is deterministic and takes seconds, so there are no checkpoints: an
interrupted run starts again and ends with the same files.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit.algorithms import make_config
from tacit.demos import Demonstrations, expert_policy
from tacit.envs.capabilities import capabilities
from tacit.envs.gridworld import GridworldSpec
from tacit.envs.registry import make
from tacit.errors import RunFailed, UserError
from tacit.evaluate import (
    TabularEvaluation,
    cost_quality,
    demonstrated,
    evaluate_exact,
    excess_over_expert,
    reachable_states,
)
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse import certificate, exact_objectives, feasibility, mce_exact, trajectories
from tacit.inverse.identifiability import LARGEST, identifiability
from tacit.run import storage
from tacit.run.machine import one_blas_thread
from tacit.run.summary import Blame, Budget, Diagnosis, Summary, Table
from tacit.run.terminal import live
from tacit.tabular import MDP, Solution, feature_matrix

if TYPE_CHECKING:
    from tacit.run import Run

PICTURE_BETA = 0.01
"""Temperature at which the paper's figure shows the cost."""


@dataclass(frozen=True)
class Config:
    """Settings of mce-exact."""

    beta: float = 0.1
    """Weight of the causal entropy, in units of reward; smaller is closer to a deterministic policy."""
    objective: Literal["likelihood", "moments", "plugin"] = "likelihood"
    """What is fitted. likelihood: the demonstrated actions; always has a solution. moments: the visits of the
    demonstrations, as in the paper; may have no solution if the dynamics slip. plugin: the visits of a policy estimated
    from the demonstrations; always has a solution. `tacit.solve` defaults to moments, because it also takes
    expectations without demonstrations."""
    budget: float = 0.0
    """How far each feature may exceed the expert's, in discounted visits; a larger budget is looser. If the dynamics
    slip, moments needs one to have a solution."""
    features: Literal["state", "state-action"] = "state"
    """Features that the cost depends on, with one weight each."""
    method: Literal["newton", "gradient"] = "newton"
    """Solver: newton, or the paper's projected gradient with a fixed step."""
    l1: float = 1e-4
    """L1 penalty on the weights for the likelihood, in discounted visits."""
    pseudo_count: float = 0.1
    """For plugin: visits of the unconstrained policy that are added to each state's action counts."""
    tolerance: float = 1e-9
    """KKT residual at which the solver stops."""
    step_size: float = 0.05
    """For gradient: the step size."""
    max_iterations: int | None = None
    """Outer iterations. Default: 500 for newton, 2000 for gradient."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    gridworld_of(env_id, env_kwargs).model()
    mce_exact.positive("beta", config.beta)
    mce_exact.positive("budget", config.budget, or_zero=True)
    names = ("tolerance", "max_iterations", "step_size", "l1", "pseudo_count")
    mce_exact.Options(**{name: getattr(config, name) for name in names})


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> Summary:
    """Solve, evaluate, and write the whole run folder of an exact run; returns the summary."""
    spec = gridworld_of(env_id, env_kwargs)
    mdp, pairs = spec.model(), spec.to_tabular(demos)
    solution = _solve(mdp, pairs, config, config.beta, run)
    proof = solution.certificate.to_dict()
    if solution.diagnosis is not None:
        diagnosis = _diagnosis(spec, solution)
        run.write("certificate.json", proof | {"statement": diagnosis["text"]})
        run.save_model("proof", {"farkas": solution.diagnosis.farkas}, {"kind": "no policy keeps to the limits"})
        blame = solution.diagnosis.farkas.reshape(spec.n_states, -1).sum(axis=1)
        write_figures(run, spec, base_figures(spec, demos) | {"blame": blame})
        return {"status": solution.status, "statement": diagnosis["text"], "diagnosis": diagnosis}
    run.write("certificate.json", proof)
    _save_models(run, spec, solution, config)
    agents = evaluations(spec, mdp, solution.policy, demos, config.beta)
    _save_figures(run, spec, mdp, demos, config, solution, agents)
    return {
        "status": solution.status,
        "statement": solution.certificate.statement,
        "table": as_table(agents, demos, mdp.discount),
        "cost_quality": quality(spec, mdp, state_cost(solution.policy, solution.cost)),
    }


def run(*args: Any) -> Summary:
    """Deprecated name of `train`."""
    warnings.warn("tacit.inverse.exact_run.run is now train", DeprecationWarning, stacklevel=2)
    return train(*args)


def gridworld_of(env_id: str, env_kwargs: Mapping[str, Any], algo: str = "mce-exact") -> GridworldSpec:
    """The exact model of an environment; UserError if it has none."""
    spec = capabilities(make(env_id, **env_kwargs)).model
    if spec is None:
        raise UserError(
            f"{algo} needs the exact model of the environment, and {env_id} has none; for a finite MDP of your own "
            f"use {'tacit.solve' if algo == 'mce-exact' else 'tacit.inverse.ml_greedy.learn'} from Python"
        )
    return spec


def _solve(mdp: MDP, pairs: list[Any], config: Config, beta: float, run: Run | None) -> Solution:
    """The solution. With a run, every iteration is logged and shown."""
    options: dict[str, Any] = asdict(config)
    features = options.pop("features")
    steps = mce_exact.learn(mdp, features, demonstrations=pairs, **{**options, "beta": beta})
    with one_blas_thread(), live(f"mce-exact, beta {beta:g}:") as update:
        while True:
            try:
                _, metrics = next(steps)
            except StopIteration as end:
                return end.value
            if run is not None:
                run.log(metrics)
            update(f"{metrics['kkt']:.1e} from the optimum")


# ---------------------------------------------------------------------------------------------------------------------
# Evaluation


def evaluations(
    spec: GridworldSpec, mdp: MDP, policy: np.ndarray, demos: Demonstrations, beta: float
) -> dict[str, TabularEvaluation]:
    """Exact numbers of the learned agent, of the unconstrained agent, and of the expert if its settings are known."""
    policies = {"unconstrained": plan(mdp, mdp.rewards, beta).policy, "learned": policy}
    made = demos.card
    if isinstance(made.get("beta"), float) and isinstance(made.get("weight"), float):
        policies = {"expert": expert_policy(spec, made["beta"], made["weight"]), **policies}
    return {
        name: evaluate_exact(mdp, chosen, spec.constrained, step_limit=spec.horizon)
        for name, chosen in policies.items()
    }


def as_table(agents: Mapping[str, TabularEvaluation], demos: Demonstrations, discount: float) -> Table:
    """{agent: {metric: number}}. An expert without an exact policy is measured on its demonstrations."""
    table: Table = {name: dict(agent.as_dict()) for name, agent in agents.items()}
    if "expert" not in agents:
        return {"expert": demonstrated(demos, discount), **table}
    for name, agent in agents.items():
        if name != "expert":
            table[name] |= excess_over_expert(agent, agents["expert"])
    return table


def quality(spec: GridworldSpec, mdp: MDP, cost: np.ndarray) -> dict[str, float]:
    """How well a cost (S,) marks the true constraint, on the cells that can be reached."""
    return cost_quality(cost, spec.constrained, reachable=reachable_states(mdp)).as_dict()


def state_cost(policy: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """(S,) the expected cost of a visit; policy and cost are (S, A)."""
    return (policy * cost).sum(axis=-1)


# ---------------------------------------------------------------------------------------------------------------------
# Files


def _save_models(run: Run, spec: GridworldSpec, solution: Solution, config: Config) -> None:
    made = {"algo": run.config["algo"], "env": run.config["env"], "env_kwargs": run.config["env_kwargs"]}
    card = {
        "kind": "tabular",
        "feature_names": ["row", "column"],
        "states": "cells that are no wall, row by row",
        **made,
    }
    run.save_model("policy", {"policy": solution.policy, "cells": spec.cells}, card)
    cost = {"weights": solution.weights, "cost": solution.cost, "cells": spec.cells}
    run.save_model("cost", cost, {**card, "features": config.features, "unit": "reward"})


def _save_figures(
    run: Run,
    spec: GridworldSpec,
    mdp: MDP,
    demos: Demonstrations,
    config: Config,
    solution: Solution,
    agents: Mapping[str, TabularEvaluation],
) -> None:
    """figures.safetensors: per-cell numbers for the pictures of the report."""
    arrays = base_figures(spec, demos) | {"cost_state": state_cost(solution.policy, solution.cost)}
    for name in ("unconstrained", "learned"):
        visits = agents[name].visits
        assert visits is not None
        arrays[f"{name}_visits"] = visits
    if config.features == "state" and len(solution.weights) <= LARGEST:
        arrays["unknown"] = identifiability(mdp, solution, len(demos)).unknown
    if config.beta > PICTURE_BETA and config.method == "newton":
        colder = _solve(mdp, spec.to_tabular(demos), config, PICTURE_BETA, None)
        if colder.diagnosis is None:
            arrays["cost_state_beta001"] = state_cost(colder.policy, colder.cost)
    write_figures(run, spec, arrays)


def base_figures(spec: GridworldSpec, demos: Demonstrations) -> dict[str, np.ndarray]:
    """Arrays that can be drawn before learning: the map, the expert's visits, the true constraint."""
    return {
        "row": spec.cells[:, 0],
        "col": spec.cells[:, 1],
        "expert_visits": np.bincount(spec.states_of(demos.observations), minlength=spec.n_states) / len(demos),
        "true_constraint": spec.constrained.astype(np.float64),
    }


def write_figures(run: Run, spec: GridworldSpec, arrays: dict[str, np.ndarray]) -> None:
    storage.save_arrays(run.path / "figures.safetensors", arrays, {"layout": "\n".join(spec.rows) + "\n"})


def _diagnosis(spec: GridworldSpec, solution: Solution) -> Diagnosis:
    """The reasons why there is no solution, for the report."""
    proof = solution.diagnosis
    assert proof is not None

    def name(feature: int) -> str:
        state, action = divmod(feature, spec.n_actions) if len(proof.farkas) > spec.n_states else (feature, None)
        row, column = spec.position_of(state)
        return f"cell ({row}, {column})" + ("" if action is None else f" {spec.action_names[action]}")

    limit = solution.expert_moments + solution.budget
    blamed: list[Blame] = [
        {"name": name(i), "blame": float(proof.farkas[i]), "expert": float(limit[i])} for i in proof.to_blame[:20]
    ]
    budgets: list[Budget] = []
    if proof.uniform_slack is not None:
        smallest = float(solution.budget.max()) + proof.uniform_slack
        budgets.append({"budget": smallest, "why": "has a solution"})
    if proof.statistical_budget is not None:
        largest = float(proof.statistical_budget.max())
        budgets.append({"budget": largest, "why": "allows for the sampling error of the demonstrations"})
    names = [name(i) for i in range(len(proof.farkas))]
    return {"text": proof.describe(names), "features": blamed, "budgets": budgets}


# ---------------------------------------------------------------------------------------------------------------------
# Checking again


def recheck(run: Run) -> tuple[certificate.Certificate, float]:
    """(certificate from the weights alone, loss of the saved policy against the exact one for these weights).

    Model and expert come from the folder's settings and demonstrations; everything else is computed anew. A proof that
    there is no solution is checked by one run of policy iteration.
    """
    config = make_config(Config, run.config["config"], f"{run.path}/config.json")
    spec = gridworld_of(run.config["env"], run.config["env_kwargs"])
    mdp = spec.model()
    features = feature_matrix(mdp, config.features)
    pairs = trajectories.check_demonstrations(mdp, spec.to_tabular(run.demonstrations()))
    budget = np.full(features.shape[1], config.budget)
    settings = mce_exact.Options(tolerance=config.tolerance, l1=config.l1, pseudo_count=config.pseudo_count)
    geometry = exact_objectives.Geometry(mdp, features)
    problem, target = mce_exact.pose(geometry, None, pairs, budget, config.beta, config.objective, settings)
    if (run.path / "model" / "proof.safetensors").exists():
        ray = _vector(run, "proof", "farkas", features.shape[1])
        proof = feasibility.farkas_proof(mdp, features, problem.limit, ray)
        if proof is None:
            raise RunFailed(f"{run.path}/model/proof.safetensors does not prove that there is no solution")
        return certificate.of_infeasible(proof, config.beta, config.objective), 0.0
    weights = _vector(run, "cost", "weights", features.shape[1])
    point = problem.at(weights, config.beta, None)
    done = certificate.is_optimal(problem, point, config.tolerance)
    certified = certificate.of_point(mdp, point, target, budget, config.objective, converged=done)
    policy = run.load_model("policy")[0].get("policy")
    if policy is None or policy.shape != point.plan.policy.shape or not np.allclose(policy.sum(axis=-1), 1.0):
        raise UserError(f"{run.path}/model/policy.safetensors does not hold a policy of {mdp.n_states} states")
    cost = (features @ weights).reshape(mdp.rewards.shape)
    return certified, certificate.certify_policy(mdp, cost, config.beta, policy).loss


def _vector(run: Run, model: str, name: str, size: int) -> np.ndarray:
    vector = run.load_model(model)[0].get(name)
    if vector is None or vector.shape != (size,) or not (vector >= 0).all():
        raise UserError(f"{run.path}/model/{model}.safetensors does not hold {size} {name} >= 0")
    return vector
