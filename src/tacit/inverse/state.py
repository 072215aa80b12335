"""The state of an inverse method: the content of a checkpoint, its initial value, and how it is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.cost import Inputs
from tacit.cost.objects import Nearest
from tacit.errors import UserError
from tacit.forward import agent
from tacit.inverse import samples
from tacit.inverse.samples import Phase
from tacit.run.trainer import Arrays, Saved

Array = NDArray[Any]
REPLAY_ROWS, REPLAY_PHASES = 2048, 40
"""Number of the learner's steps to keep per phase, and number of phases to keep."""
NOMINAL_ROWS = 8192
"""Number of bootstrap steps to keep."""


@dataclass(frozen=True)
class State:
    """The state of an inverse method, as a checkpoint holds it."""

    forward: Any
    """The forward half: `ppo_lagrangian.State`, or `agent.State` in GACL."""
    params: Any
    """The parameters of the cost."""
    opt_state: Any
    inputs: Inputs
    replay: Array
    """(phases, rows, width): rows of earlier forward phases, oldest first."""
    nominal: Array
    """(rows, width) of the bootstrap."""
    replay_truth: Array
    nominal_truth: Array
    """(phases, rows) and (rows,): the environment's own cost there, only for judging; NaN if unknown."""
    rng: dict[str, Any]
    iteration: int = 0

    @property
    def steps(self) -> int:
        return int(self.forward.steps)


class Saving:
    """Description of a method's parameters in a checkpoint: any dict of arrays, unless the method overrides it."""

    name: ClassVar[str]
    state_type: ClassVar[type[State]] = State
    tree: ClassVar[str] = "net"
    """The name of the parameters."""

    def shapes(self, params: Any) -> dict[str, Any]:
        """Metadata from which `blank` can make parameters of the same shapes."""
        return {"params": {name: [*np.shape(array)] for name, array in params.items()}}

    def blank(self, metadata: Mapping[str, Any], n_inputs: int) -> tuple[Any, Any]:
        """(params, opt_state) with the right shapes, to be filled."""
        return {name: np.zeros(shape, np.float32) for name, shape in metadata["params"].items()}, ()


def fresh_state(
    method: Saving,
    forward: Any,
    params: Any,
    opt_state: Any,
    inputs: Inputs,
    phase: Phase,
    rng: np.random.Generator,
    nominal_rows: int = NOMINAL_ROWS,
) -> Any:
    """The state after the bootstrap, whose steps are `phase`."""
    return method.state_type(
        forward=forward,
        params=params,
        opt_state=opt_state,
        inputs=inputs,
        replay=np.zeros((0, REPLAY_ROWS, phase.rows.shape[1]), np.float32),
        nominal=samples.thinned(phase.rows, nominal_rows),
        replay_truth=np.zeros((0, REPLAY_ROWS), np.float32),
        nominal_truth=samples.thinned(phase.truth, nominal_rows),
        rng=dict(rng.bit_generator.state),
    )


def generator(state: State) -> np.random.Generator:
    """A random generator in the state where this state left it."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    return rng


def remember(state: Any, phase: Phase, rng: np.random.Generator, most: int = REPLAY_PHASES) -> Any:
    """The state with a sample of this phase at the end of its replay, and with the generator's present state."""
    chosen = rng.integers(len(phase.rows), size=REPLAY_ROWS)
    first = max(0, len(state.replay) + 1 - most)
    return replace(
        state,
        replay=np.concatenate([state.replay, phase.rows[chosen][None]])[first:],
        replay_truth=np.concatenate([state.replay_truth, phase.truth[chosen][None]])[first:],
        rng=dict(rng.bit_generator.state),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints

KEPT = ("replay", "nominal", "replay_truth", "nominal_truth")


def _own_fields(method: Saving) -> list[str]:
    """Fields that a method's state has beyond `State`, which are plain numbers."""
    return [field.name for field in fields(method.state_type) if field.name not in {f.name for f in fields(State)}]


def to_arrays(method: Saving, state: Any, forward: Saved) -> Saved:
    """(arrays, JSON metadata) of the whole state; `forward` are those of its forward half."""
    arrays = {f"forward/{name}": array for name, array in forward[0].items()}
    arrays |= agent.named({method.tree: state.params, f"{method.tree}_optimiser": state.opt_state})
    arrays |= {name: getattr(state, name) for name in KEPT}
    arrays |= {"inputs/centre": state.inputs.centre, "inputs/scale": state.inputs.scale}
    inputs = {field.name: getattr(state.inputs, field.name) for field in fields(Inputs)}
    return arrays, {
        "kind": method.name,
        "version": 1,
        "forward": forward[1],
        "inputs": {name: value for name, value in inputs.items() if name not in ("centre", "scale", "derived")},
        **({"derived": [one.to_json() for one in state.inputs.derived]} if state.inputs.derived else {}),
        **method.shapes(state.params),
        **{name: getattr(state, name) for name in ("rng", "iteration", *_own_fields(method))},
    }


def from_arrays(method: Saving, arrays: Mapping[str, Array], metadata: Mapping[str, Any], forward_from: Any) -> Any:
    """The state that `to_arrays` saved. UserError if the file holds something else."""
    if metadata.get("kind") != method.name or metadata.get("version") != 1:
        raise UserError(f"this checkpoint does not hold a run of {method.name} of this version of Tacit")
    try:
        described = metadata["inputs"]
        lists = {name: tuple(described[name]) for name in ("names", "columns")}
        derived = tuple(Nearest.from_json(one, described["obs_size"]) for one in metadata.get("derived", []))
        scaling = {"centre": arrays["inputs/centre"], "scale": arrays["inputs/scale"]}
        inputs = Inputs(**{**described, **lists, **scaling, "derived": derived})
        params, opt_state = method.blank(metadata, len(inputs.names))
        trees = agent.filled({method.tree: params, f"{method.tree}_optimiser": opt_state}, arrays)
        forward: Arrays = {n.removeprefix("forward/"): a for n, a in arrays.items() if n.startswith("forward/")}
        return method.state_type(
            forward=forward_from(forward, metadata["forward"]),
            params=trees[method.tree],
            opt_state=trees[f"{method.tree}_optimiser"],
            inputs=inputs,
            **{name: arrays[name] for name in KEPT},  # type: ignore[arg-type]
            **{name: metadata[name] for name in ("rng", "iteration")},
            # A checkpoint of an earlier version lacks what has been added since, at its default.
            **{name: metadata[name] for name in _own_fields(method) if name in metadata},
        )
    except KeyError as error:
        raise UserError(f"this checkpoint lacks {error}") from error
