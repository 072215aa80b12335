"""The smallest rule behind walks by hand, as the page shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from tacit.demos.collect import EXPERT_WEIGHT
from tacit.forward.soft_policy_iteration import plan
from tacit.inverse.smallest_rule import Rule, infer

if TYPE_CHECKING:
    from tacit.envs.gridworld_spec import GridworldSpec
    from tacit.tabular import MDP

SURE = 0.9
"""A cell that is forbidden with less probability may as well be allowed."""
Pairs = list[tuple[np.ndarray, np.ndarray]]


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
    """Of a demonstration, on average."""
    cells: int
    """That anybody can enter."""
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
