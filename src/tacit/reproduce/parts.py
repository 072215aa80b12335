"""Rows and groups that several experiments have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tacit import presets
from tacit.reproduce.experiment import MEASURED_WITH, Group, Row, Settings

METHODS = ("mce", "gacl", "me-icrl", "vicrl")
REFERENCES = ("ppo", "rcpo")
CONTROLS = {
    # This agent begins as a clone and follows only the reward. It shows how much of a method's result is due to its
    # start. It runs in ME-ICRL's loop with a multiplier of 0, so the learned cost has no effect.
    "ppo, cloned": Row(
        "me-icrl",
        settings={"multiplier": "fixed", "multiplier_init": 0.0, "start": "clone", "lr_constraint": 0.05, "delta": 0.5},
    ),
    "bc": Row("bc"),
}
ROBOTS = ("Ant", "HalfCheetah", "Swimmer", "Walker", "Pendulum")
SHORT: dict[str, Any] = {"total_steps": 300_000, "eval_episodes": 40}
"""Budget for experiments that compare conditions instead of ranking methods: at most half the steps of `robots`."""


def robot(name: str, **settings: Any) -> Group:
    return Group(f"tacit/{name}-v0", settings=settings)


def robots(names: Iterable[str] = ROBOTS) -> dict[str, Group]:
    """A group per robot."""
    return {name: robot(name) for name in names}


def slip_name(slip: float) -> str:
    return f"slip {slip:g}"


def slips(values: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)) -> dict[str, Group]:
    """A group per stochasticity of the gridworld `paper`, with 50 demonstrations of the built-in expert per seed."""
    world = {slip: {"layout": "paper", "slip": slip} for slip in values}
    return {slip_name(slip): Group("tacit/Gridworld-v0", kwargs, value=slip) for slip, kwargs in world.items()}


def with_budget(rows: Mapping[str, Row], budget: Settings) -> dict[str, Row]:
    return {name: replace(row, budget=budget) for name, row in rows.items()}


def betas(values: Iterable[float], preset: str | None = None) -> dict[str, Row]:
    """A row per entropy weight."""
    return {f"beta {beta:g}": Row("mce", preset, {"beta": beta}) for beta in values}


def shortened(algo: str, env: str) -> dict[str, Any]:
    """Settings for runs of SHORT. The preset's rates are for whole runs, so they are adapted to fewer steps."""
    usual = presets.load(algo, MEASURED_WITH.get(algo, "reference"), env)
    longer = usual["total_steps"] / SHORT["total_steps"]
    rates = {"multiplier_lr": lambda rate: rate * longer, "anneal": lambda rate: rate**longer}
    return {key: round(convert(usual[key]), 6) for key, convert in rates.items() if key in usual}
