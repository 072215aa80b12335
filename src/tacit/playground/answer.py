"""Solve a scene: everything that the page shows.

The learner gets the map without the constraint, and the demonstrations. The truth is read in two places only: to make
the expert's demonstrations, and, if the page asks for a comparison, to judge the answer afterwards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from tacit.demos import expert_demonstrations, expert_policy
from tacit.demos.collect import EXPERT_WEIGHT
from tacit.errors import UserError
from tacit.evaluate import cost_quality, evaluate_exact, reachable_states
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse.identifiability import identifiability
from tacit.inverse.mce_exact import learn
from tacit.inverse.smallest_rule import Rule, infer
from tacit.inverse.trajectories import check_demonstrations
from tacit.metrics import rounded_up
from tacit.run.machine import one_blas_thread

if TYPE_CHECKING:
    from tacit.envs.gridworld_spec import GridworldSpec
    from tacit.inverse.feasibility import Diagnosis
    from tacit.inverse.smallest_rule import Rule
    from tacit.playground.scene import PathEntry, Scene
    from tacit.tabular import MDP, Solution

TIME_LIMIT = 30.0
"""Seconds. The largest maps take up to ten on a busy machine."""
UNKNOWN = 0.5
"""As in the report: a cell is not known if more than half of its weight lies in directions that are not revealed."""

Pairs = list[tuple[np.ndarray, np.ndarray]]
Grid = list[list[float | None]]
"""One number per cell, row by row; None for walls."""
Agent = Literal["unconstrained", "learned", "demonstrations"]


class Conflict(TypedDict):
    """Why there is no solution."""

    violation: float
    blame: Grid
    cells: list[list[int]]
    """The cells with the largest share of the blame."""
    budget: float | None
    """One that would do, rounded up to two digits."""


class Comparison(TypedDict):
    """Agents in the true world, and the cost as a map of the true constraint."""

    agents: dict[str, dict[str, float]]
    quality: dict[str, float] | None
    constrained: int
    """Number of truly constrained cells."""


class Answer(TypedDict, total=False):
    """What the page gets, as plain JSON."""

    own: int
    """Number of demonstrations by hand."""
    expert: list[PathEntry]
    """The expert's demonstrations."""
    visits: dict[Agent, Grid]
    """Expected visits in an episode."""
    policy: dict[Agent, list[list[float]]]
    """(states, actions)"""
    reachable: Grid
    status: str
    """"empty" without demonstrations, "rule found" and so on for a rule, else that of the solution."""
    certificate: dict[str, Any]
    diagnosis: Conflict
    """Instead of cost, unknown and never, if there is no solution."""
    objective: str
    """What was fitted."""
    telling: Telling
    rule: RuleEntry
    """Instead of a certificate, for the objective "rule"."""
    cost: Grid
    """Cost of a visit; for the objective "rule" the probability that the cell is forbidden."""
    unknown: Grid
    """How much of each cell's cost these demonstrations do not reveal."""
    never: Grid
    """How much of it no demonstration can reveal."""
    comparison: Comparison
    seconds: float


class Superseded(Exception):
    """The page has asked for something else in the meantime."""


def answer(
    scene: Scene, *, compare: bool = False, superseded: Callable[[], bool] = lambda: False, limit: float = TIME_LIMIT
) -> Answer:
    """Solve a scene. Raises Superseded, or UserError."""
    started = time.perf_counter()
    world = scene.world
    mdp = world.model()
    with one_blas_thread():
        own = scene.own_demonstrations()
        by_expert = _expert_demonstrations(scene)
        without = plan(mdp, mdp.rewards, scene.beta).policy
        result: Answer = {
            "own": len(own),
            "expert": [_as_path(world, states, actions) for states, actions in by_expert],
            "visits": {"unconstrained": grid(world, _visits(mdp, world, without))},
            "policy": {"unconstrained": _rounded(without)},
            "reachable": grid(world, reachable_states(mdp).astype(float)),
        }
        pairs = own + by_expert
        if not pairs:
            return {**result, "status": "empty", "seconds": time.perf_counter() - started}
        pairs = check_demonstrations(mdp, pairs)
        result["visits"]["demonstrations"] = grid(world, _demonstrated(pairs, world.n_states))
        result["telling"] = telling(world, pairs)
        result["objective"] = _objective(scene, len(own))
        if result["objective"] == "rule":
            rule = find_rule(world, pairs, lambda: _go_on(superseded, started + limit))
            _with_rule(result, scene, mdp, rule, without, compare)
            return {**result, "seconds": time.perf_counter() - started}
        solution = _solve(mdp, pairs, scene, result["objective"], superseded, started + limit)
        result["status"], result["certificate"] = solution.status, _certificate(solution)
        if solution.diagnosis is not None:
            result["diagnosis"] = _diagnosis(world, scene, solution.diagnosis)
        else:
            revealed = identifiability(mdp, solution, len(pairs))
            result["cost"] = grid(world, solution.weights)
            result["unknown"] = grid(world, revealed.unknown)
            result["never"] = grid(world, np.clip((revealed.null_space**2).sum(axis=1), 0.0, 1.0))
            result["visits"]["learned"] = grid(world, _visits(mdp, world, solution.policy))
            result["policy"]["learned"] = _rounded(solution.policy)
        if compare:
            learned = None if solution.diagnosis is not None else (solution.policy, solution.weights)
            result["comparison"] = _comparison(scene, mdp, learned, without)
    return {**result, "seconds": time.perf_counter() - started}


def _objective(scene: Scene, own: int) -> str:
    """What is fitted: people who walk by hand are few and clumsy, the expert's demonstrations are neither."""
    if scene.objective != "auto":
        return scene.objective
    return "rule" if own else "plugin"


def _with_rule(result: Answer, scene: Scene, mdp: MDP, rule: Rule, without: np.ndarray, compare: bool) -> None:
    """Put the smallest rule that explains the demonstrations into the answer."""
    world = scene.world
    policy = obeying(world, mdp, rule, scene.beta)
    result["status"], result["rule"] = f"rule {rule.verdict}", described(world, rule)
    result["cost"] = grid(world, rule.probability)
    result["unknown"] = grid(world, not_told(rule))
    result["never"] = grid(world, np.zeros(world.n_states))
    result["visits"]["learned"] = grid(world, _visits(mdp, world, policy))
    result["policy"]["learned"] = _rounded(policy)
    if compare:
        result["comparison"] = _comparison(scene, mdp, (policy, rule.probability), without)


def _go_on(superseded: Callable[[], bool], deadline: float) -> None:
    """Raise Superseded if the page has asked again, or UserError if time is out."""
    if superseded():
        raise Superseded
    if time.perf_counter() > deadline:
        raise UserError("this takes too long: try a smaller map, a larger beta or a larger budget")


def _solve(
    mdp: MDP, pairs: Pairs, scene: Scene, objective: str, superseded: Callable[[], bool], deadline: float
) -> Solution:
    steps = learn(mdp, "state", demonstrations=pairs, beta=scene.beta, budget=scene.budget, objective=objective)
    while True:
        _go_on(superseded, deadline)
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _expert_demonstrations(scene: Scene) -> Pairs:
    if not scene.expert.n:
        return []
    wanted = scene.expert
    data = expert_demonstrations(scene.truth, wanted.n, wanted.seed, beta=wanted.beta)
    return scene.truth.to_tabular(data)


def _certificate(solution: Solution) -> dict[str, Any]:
    numbers = solution.certificate.to_dict()
    return {key: _plain(value) for key, value in numbers.items()} | {"iterations": len(solution.history)}


def _diagnosis(world: GridworldSpec, scene: Scene, proof: Diagnosis) -> Conflict:
    enough = None if proof.uniform_slack is None else rounded_up(scene.budget + 1.01 * proof.uniform_slack, 2)
    return {
        "violation": _plain(proof.violation),
        "blame": grid(world, proof.farkas),
        "cells": [list(world.position_of(state)) for state in proof.to_blame],
        "budget": enough,
    }


def _comparison(
    scene: Scene, mdp: MDP, learned: tuple[np.ndarray, np.ndarray] | None, without: np.ndarray
) -> Comparison:
    """`learned` is (policy, cost of each state), None if there is no solution."""
    truth = scene.truth
    policies = {"expert": expert_policy(truth, scene.expert.beta), "unconstrained": without}
    if learned is not None:
        policies["learned"] = learned[0]
    agents = {}
    for name, policy in policies.items():
        numbers = evaluate_exact(mdp, policy, truth.constrained, step_limit=truth.horizon)
        agents[name] = {
            "return": _plain(numbers.expected_return),
            "violating_episodes": _plain(numbers.violation_rate_episode),
        }
    quality = None
    if learned is not None and truth.constrained.any():
        judged = cost_quality(learned[1], truth.constrained, reachable=reachable_states(mdp))
        quality = {"auroc": _plain(judged.auroc), "best_iou": _plain(judged.best_iou)}
    return {"agents": agents, "quality": quality, "constrained": int(truth.constrained.sum())}


def _visits(mdp: MDP, world: GridworldSpec, policy: np.ndarray) -> np.ndarray:
    """(S,) expected visits in an episode."""
    nowhere = np.zeros(world.n_states, dtype=bool)
    visits = evaluate_exact(mdp, policy, nowhere, step_limit=world.horizon).visits
    assert visits is not None
    return visits


def _demonstrated(pairs: Pairs, n_states: int) -> np.ndarray:
    """(S,) mean visits in a demonstration."""
    return np.bincount(np.concatenate([states for states, _ in pairs]), minlength=n_states) / len(pairs)


def _as_path(world: GridworldSpec, states: np.ndarray, actions: np.ndarray) -> PathEntry:
    return {"cells": world.cells[states].tolist(), "actions": actions.tolist()}


def grid(world: GridworldSpec, values: np.ndarray) -> Grid:
    """(S,) values as rows of the map."""
    rows: Grid = [[None] * world.shape[1] for _ in range(world.shape[0])]
    for (row, column), value in zip(world.cells.tolist(), values.tolist(), strict=True):
        rows[row][column] = _plain(value)
    return rows


def _rounded(policy: np.ndarray) -> list[list[float]]:
    """(S, A), states row by row as in the map."""
    return policy.round(4).tolist()


def _plain(value: Any) -> Any:
    """Numbers with six digits, None if they are not finite; anything else as it is."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


# ---------------------------------------------------------------------------------------------------------------------
# The smallest rule behind walks by hand, as the page shows it


SURE = 0.9
"""A cell that is forbidden with less probability may as well be allowed."""


class RuleEntry(TypedDict):
    """A rule, as plain JSON."""

    verdict: str
    """"found"; "somewhere": something is forbidden, but the walks do not tell where; "nothing"."""
    cells: list[list[int]]
    """The smallest rule."""
    or_else: list[list[int]]
    """Cells that may be forbidden instead."""
    clumsy: float
    """Share of the steps that look clumsy."""
    allowed: int
    """Steps of the shortest way that keeps to the rule."""


class Telling(TypedDict):
    """How much demonstrations can tell."""

    walks: int
    shortest: int
    """Steps of the shortest way if nothing is forbidden."""
    steps: float
    """Mean number of steps of a demonstration."""
    cells: int
    """Number of cells that can be entered."""
    walked: int
    """Cells that somebody meant to enter."""


def intended(world: GridworldSpec) -> NDArray[np.int64]:
    """(S, A) where each action is meant to lead; the state itself where it is impossible."""
    ends = world.targets[:, : world.n_actions]
    return np.asarray(np.where(ends >= 0, ends, np.arange(world.n_states)[:, None]))


def find_rule(world: GridworldSpec, pairs: Pairs, interrupt: Callable[[], None]) -> Rule:
    """What the walks say is forbidden."""
    return infer(intended(world), world.start, world.goal, pairs, interrupt=interrupt)


def described(world: GridworldSpec, rule: Rule) -> RuleEntry:
    """The rule for the page."""
    other = (rule.probability > 1 - SURE) & ~rule.forbidden
    return {
        "verdict": rule.verdict,
        "cells": world.cells[rule.forbidden].tolist(),
        "or_else": world.cells[other].tolist(),
        "clumsy": rule.clumsy,
        "allowed": rule.allowed,
    }


def not_told(rule: Rule) -> NDArray[np.float64]:
    """(S,) 1 for cells of which the walks do not tell whether they are forbidden."""
    return (~rule.walked & (rule.probability < SURE)).astype(float)


def obeying(world: GridworldSpec, mdp: MDP, rule: Rule, beta: float) -> NDArray[np.float64]:
    """(S, A) policy of an agent that keeps to the rule as the expert keeps to the truth."""
    entry = np.where(rule.forbidden, EXPERT_WEIGHT, 0.0)
    return np.asarray(plan(mdp, mdp.rewards - world.expected(entry), beta).policy)


def telling(world: GridworldSpec, pairs: Pairs) -> Telling:
    """What the demonstrations are, in numbers that a pupil understands."""
    ends = intended(world)
    meant = np.unique(np.concatenate([[world.start], *(ends[s[: len(a)], a] for s, a in pairs)]))
    return {
        "walks": len(pairs),
        "shortest": shortest_way(ends, world.start, world.goal),
        "steps": round(float(np.mean([len(actions) for _, actions in pairs])), 1),
        "cells": world.n_states,
        "walked": len(meant),
    }


def shortest_way(ends: NDArray[np.int64], start: int, goal: int) -> int:
    """Steps from start to goal."""
    reached, steps = np.arange(len(ends)) == start, 0
    while not reached[goal]:
        reached = reached | np.isin(np.arange(len(ends)), ends[reached])
        steps += 1
    return steps
