"""Experiments in the gridworld: stochasticity 0 to 0.5, the four methods, exact ones, references, and ablations.

`reference` and the published settings are experiments of their own (-paper), so that they stand in separate tables. In
the preset `reference` all methods have the same steps, engine and demonstrations. The paper's settings are run on the
paper's steps. mce-exact maximises the causally conditioned likelihood; it and the greedy predecessors know the model.
Rows that several experiments have in common are the same runs: those of `grid-curves` and `grid-maps` are all among
those of `grid-stochasticity`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacit.reproduce import compare, grid_maps, grid_runs, tuning
from tacit.reproduce.compare import METHODS, Row
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.grid_runs import DEEP, EXACT, SEEDS

PAPER_BETAS = (1e-5, 1e-4, 1e-3, 1e-2)
BETAS = (0.01, 0.03, 0.1, 0.3)
"""In units of reward, as the preset `reference` has it here."""
EPOCHS = {"with pre-training": 20, "without": 0}


def _experiment(
    rows: Mapping[str, Row], figure: Callable[..., bytes] = grid_runs.figure, ours: str = "mce"
) -> Experiment:
    def jobs(seeds: list[int], quick: bool = False) -> list[Any]:
        return grid_runs.jobs(rows, seeds, quick)

    names = list(rows)
    return Experiment(
        SEEDS,
        jobs,
        grid_runs.collect,
        lambda found: grid_runs.table(found, names, ours),
        lambda found: figure(found, names),
    )


def _betas(betas: tuple[float, ...], preset: str) -> dict[str, Row]:
    return {f"beta {beta:g}": Row("mce", preset, {"beta": beta}) for beta in betas}


def _epochs(preset: str) -> dict[str, Row]:
    return {name: Row("mce", preset, {"pretrain_epochs": epochs}) for name, epochs in EPOCHS.items()}


EXPERIMENTS = {
    "grid-stochasticity": _experiment({**DEEP, **EXACT}),
    "grid-stochasticity-paper": _experiment(compare.rows_of(METHODS, "paper")),
    "grid-ppo": _experiment({name: {**DEEP, **EXACT}[name] for name in ("mce", "mce-exact")}),
    "grid-tuning": tuning.EXPERIMENTS["grid-tuning"],
    "grid-contenders": _experiment(compare.rows_of(("mce", "bc2l", "irl-correction", "bc", "ppo", "rcpo"))),
    "grid-curves": _experiment(DEEP, grid_runs.curves),
    "grid-maps": Experiment((0,), grid_maps.jobs, grid_maps.collect, grid_maps.table, grid_maps.figure),
    "grid-beta": _experiment(_betas(BETAS, "reference"), grid_runs.curves, "beta 0.1"),
    "grid-beta-paper": _experiment(_betas(PAPER_BETAS, "paper"), grid_runs.curves, "beta 1e-05"),
    "grid-pretraining": _experiment(_epochs("reference"), grid_runs.curves, "with pre-training"),
    "grid-pretraining-paper": _experiment(_epochs("paper"), grid_runs.curves, "with pre-training"),
}
