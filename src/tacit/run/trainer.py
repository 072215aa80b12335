"""Training inside a run folder, the same for every method: logs, checkpoints, progress, and messages on failure.

A method is a generator of (state, metrics), one pair per iteration (`Training.learn`). Given a state, it continues as
if it had never stopped. This module writes the metrics, saves checkpoints by count and by the clock, shows a progress
line, and stops a training whose numbers are no longer finite with its last good checkpoint kept. It knows no method.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RunFailed, UserError
from tacit.run.log import logger
from tacit.run.terminal import live

if TYPE_CHECKING:
    from tacit.run.folder import Run

Metrics = dict[str, float]
Arrays = dict[str, NDArray[Any]]
Saved = tuple[Arrays, dict[str, Any]]
"""(arrays, JSON metadata) of a state."""
CHECKPOINT_SECONDS = 180.0
"""Seconds after which an iteration ends with a checkpoint, counted from the last one."""


class State(Protocol):
    """The part of a state that all trainings share."""

    @property
    def iteration(self) -> int:
        """Number of iterations so far."""

    @property
    def steps(self) -> int:
        """Number of environment steps so far."""


@dataclass(frozen=True)
class Training:
    """A training, and how its state is saved. States have the method's own type."""

    learn: Callable[[Any], Iterator[tuple[Any, Metrics]]]
    """(state to continue from, or None) -> (state, metrics) per iteration."""
    to_arrays: Callable[[Any], Saved]
    from_arrays: Callable[[Mapping[str, NDArray[Any]], Mapping[str, Any]], Any]
    """The inverse of `to_arrays`; UserError for anything else."""
    progress_line: Callable[[Any, Metrics], str]
    iterations: int
    """Number of iterations of a whole run, for the progress bar."""
    total_steps: int
    checkpoint_every: int
    """Iterations between checkpoints. There is also one after the first iteration, and after three minutes."""
    label: str = "learning"


def train(run: Run, training: Training) -> Any:
    """Train to the end and return the last state. Continues from the newest checkpoint if there is one."""
    state = start = resume_point(run, training)
    if start is not None and start.steps >= training.total_steps:
        return start
    left = training.iterations - (0 if start is None else start.iteration)
    saved_at = time.monotonic()
    with naming_checkpoint(run), live(training.label, total=left) as update:
        for state, metrics in training.learn(start):
            _require_finite(state, metrics)
            run.log({"iteration": state.iteration, "steps": state.steps, **metrics})
            # An iteration may be long, and nobody should lose more than minutes.
            due = state.iteration == 1 or time.monotonic() - saved_at > CHECKPOINT_SECONDS
            if due or state.iteration % training.checkpoint_every == 0 or state.steps >= training.total_steps:
                save_checkpoint(run, training, state)
                saved_at = time.monotonic()
            update(training.progress_line(state, metrics))
    assert state is not None
    if state.steps > 1.1 * training.total_steps:
        counts = f"The run used {state.steps:,} steps instead of {training.total_steps:,}"
        logger.info(f"{counts}, because the iteration in progress is always finished.")
    return state


def _require_finite(state: State, metrics: Metrics) -> None:
    for key, value in metrics.items():
        if not np.isfinite(value):
            raise RunFailed(f"training diverged after {state.steps} steps: {key} is not finite")


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints


def save_checkpoint(run: Run, training: Training, state: State) -> None:
    """Write the whole state."""
    arrays, metadata = training.to_arrays(state)
    run.save_checkpoint(state.iteration, arrays, {"state": metadata})


def resume_point(run: Run, training: Training) -> Any:
    """The state of the newest checkpoint; None without one, UserError if it belongs to something else."""
    saved = run.latest_checkpoint()
    if saved is None:
        return None
    metadata = saved[2].get("state")
    try:
        if not isinstance(metadata, dict):
            raise UserError("it does not hold the state of a run")
        return training.from_arrays(saved[1], metadata)
    except UserError as error:
        reason = str(error)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:  # intact, but not a state
        reason = (
            f"it does not hold the state of this run ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        )
    raise UserError(
        f"cannot continue from step-{saved[0]:08d} in {run.path / 'checkpoints'}: {reason}; use the version of "
        "Tacit that provenance.json names, or remove that folder to start the run again"
    )


@contextmanager
def naming_checkpoint(run: Run) -> Iterator[None]:
    """A context in which a RunFailed also says which checkpoint is kept."""
    try:
        yield
    except RunFailed as error:
        kept = run.latest_checkpoint()
        what = "no checkpoint had been written" if kept is None else f"the checkpoint of iteration {kept[0]} is kept in"
        where = f" {run.path / 'checkpoints'}: `tacit resume {run.path}` continues from there" if kept else ""
        raise RunFailed(f"{error}; {what}{where}") from error
