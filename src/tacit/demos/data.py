"""Demonstrations in memory: all trajectories end to end in a few arrays, checked on construction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

import gymnasium
import numpy as np

import tacit
from tacit.errors import UserError
from tacit.run.storage import sha256_of_arrays

Card = dict[str, Any]
"""What is known about demonstrations, as plain JSON. Usual entries:

env, env_kwargs     the environment's id and options
feature_names       names of the entries of an observation
source, note        how the demonstrations were made, in words
seed, versions      random seed; versions of the packages that made them
expert, command     the run of the expert; the command that made it
schema, statistics, sha256    in a file: its version, `Statistics`, and the hash of the arrays
"""
ARRAYS = ("observations", "actions", "rewards", "costs", "lengths", "terminated")
COMPUTED_KEYS = ("schema", "sha256", "statistics")
"""Entries of a file's card that follow from the arrays; they are written afresh and never kept in `card`."""
FEW_DEMONSTRATIONS = 5
"""With fewer demonstrations, what they avoid by chance looks forbidden."""


class Statistics(TypedDict):
    """Plain numbers about demonstrations."""

    trajectories: int
    steps: int
    length_mean: float
    """Steps per trajectory."""
    length_min: int
    length_max: int
    return_mean: float
    """Undiscounted reward per trajectory."""
    return_std: float
    return_min: float
    return_max: float
    terminated_rate: float
    """Share of trajectories that the environment ended, not a time limit."""
    violation_rate_step: float | None
    """Share of steps with a positive true cost; None when costs are unknown."""
    violation_rate_episode: float | None
    """Share of trajectories with such a step."""


@dataclass(frozen=True)
class Trajectory:
    """One episode of T steps. Step t goes from observation t to observation t + 1."""

    observations: np.ndarray
    """(T + 1, *obs_shape), the last one included."""
    actions: np.ndarray
    """(T, *act_shape)"""
    rewards: np.ndarray
    """(T,)"""
    costs: np.ndarray | None
    """(T,) true costs, or None when they are not known."""
    terminated: bool
    """Ended by the environment (goal, fall), not by a time limit."""

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Trajectories end to end: trajectory i has lengths[i] = T_i steps and T_i + 1 observations. At least one of each.

    The arrays are read-only. `sha256` identifies the content (arrays with names, types and shapes; not the card).
    """

    observations: np.ndarray
    """(sum(T_i + 1), *obs_shape)"""
    actions: np.ndarray
    """(sum T_i, *act_shape): integers for discrete actions, floats for continuous ones."""
    rewards: np.ndarray
    """(sum T_i,)"""
    costs: np.ndarray | None
    """(sum T_i,) the true cost, for judging results; never read by a learner. None when unknown."""
    lengths: np.ndarray
    """(n,) steps of each trajectory."""
    terminated: np.ndarray
    """(n,) booleans: the environment ended the episode with its last step; no time limit did."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """What is known about them: env, env_kwargs, feature_names, source, seed, versions, ... (plain JSON)."""

    def __post_init__(self) -> None:
        lengths = _array("lengths", self.lengths, "iu", np.int64)
        if lengths.ndim != 1 or lengths.size == 0:
            raise UserError("there are no demonstrations: at least one trajectory is needed")
        if lengths.min() < 1 or lengths.max() > len(self.actions):
            worst = int(np.argmax((lengths < 1) | (lengths > len(self.actions))))
            raise UserError(
                f"trajectory {worst} has a length of {lengths[worst]} steps; every trajectory needs at least one step "
                f"and there are {len(self.actions)} actions in all"
            )
        n, steps = len(lengths), int(lengths.sum())
        checked = {
            "lengths": lengths,
            "observations": _array("observations", self.observations, "biuf", None),
            "actions": _array("actions", self.actions, "biuf", None),
            "rewards": _array("rewards", self.rewards, "biuf", np.float64),
            "costs": None if self.costs is None else _array("costs", self.costs, "biuf", np.float64),
            "terminated": _array("terminated", self.terminated, "b", np.bool_),
        }
        rows = {"observations": steps + n, "actions": steps, "rewards": steps, "costs": steps, "terminated": n}
        for name, count in rows.items():
            array = checked[name]
            flat = name not in ("observations", "actions")
            if array is None:
                continue
            if array.ndim == 0 or len(array) != count or (flat and array.ndim != 1):
                shape = f"({count},)" if flat else f"({count}, ...)"
                raise UserError(
                    f"{name} have shape {array.shape}, expected {shape} for {n} trajectories of {steps} steps in all"
                )
        object.__setattr__(self, "lengths", lengths)  # `where` needs them
        for name, array in checked.items():
            if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
                row = int(np.argwhere(~np.isfinite(array))[0][0])
                raise UserError(
                    f"{name} hold NaN or infinity in {self.where(name, row)}: drop or repair that trajectory"
                )
            if array is not None:
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "card", {k: v for k, v in dict(self.card).items() if k not in COMPUTED_KEYS})
        self._check_card()

    def _check_card(self) -> None:
        env, kwargs, names = (self.card.get(key) for key in ("env", "env_kwargs", "feature_names"))
        if env is not None and not isinstance(env, str):
            raise UserError(f"the card's env must be an environment's id, not {env!r}")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise UserError(f"the card's env_kwargs must be a mapping, not {kwargs!r}")
        if names is not None:
            if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(x, str) for x in names):
                raise UserError(f"the card's feature_names must be a list of strings, not {names!r}")
            size = int(np.prod(self.observations.shape[1:]))
            if len(names) != size:
                raise UserError(f"the card names {len(names)} features but an observation has {size} entries")

    # -- access -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of trajectories."""
        return len(self.lengths)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Trajectory:
        i = range(len(self))[i]  # IndexError and negative indices as for a list
        step, row, length = int(self.step_offsets[i]), int(self.row_offsets[i]), int(self.lengths[i])
        return Trajectory(
            self.observations[row : row + length + 1],
            self.actions[step : step + length],
            self.rewards[step : step + length],
            None if self.costs is None else self.costs[step : step + length],
            bool(self.terminated[i]),
        )

    @property
    def n_steps(self) -> int:
        return len(self.actions)

    @cached_property
    def step_offsets(self) -> np.ndarray:
        """(n,) where each trajectory's actions begin."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def row_offsets(self) -> np.ndarray:
        """(n,) where each trajectory's observations begin."""
        return self.step_offsets + np.arange(len(self))

    @cached_property
    def rows_before(self) -> np.ndarray:
        """(sum T_i,) the row of the observation in which each action was taken; the next row holds its result."""
        return np.arange(self.n_steps) + np.repeat(np.arange(len(self)), self.lengths)

    def where(self, name: str, row: int) -> str:
        """'trajectory 3, step 17' for a row of one of the arrays."""
        if name in ("lengths", "terminated"):
            return f"trajectory {row}"
        offsets = self.row_offsets if name == "observations" else self.step_offsets
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        return f"trajectory {i}, step {row - int(offsets[i])}"

    def subset(self, which: Any) -> Demonstrations:
        """The chosen trajectories (indices or a boolean mask), in that order, with the same card."""
        indices = np.arange(len(self))[which]
        return from_trajectories([self[int(i)] for i in np.atleast_1d(indices)], self.card)

    def first(self, count: int) -> Demonstrations:
        """The first `count` trajectories; all of them for 0, or if there are fewer."""
        return self.subset(np.arange(count)) if 0 < count < len(self) else self

    # -- content ------------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, without `costs` when they are unknown."""
        return {name: array for name in ARRAYS if (array := getattr(self, name)) is not None}

    @cached_property
    def sha256(self) -> str:
        """Hash of the content: names, types, shapes and values of the arrays."""
        return sha256_of_arrays(self.arrays())

    @cached_property
    def returns(self) -> np.ndarray:
        """(n,) undiscounted sum of rewards of each trajectory."""
        return np.add.reduceat(self.rewards, self.step_offsets)

    def summary(self) -> Statistics:
        """How many there are, how long they are, what they earned, and how often they violated the constraint."""
        violating = None if self.costs is None else np.asarray(self.costs) > 0
        return {
            "trajectories": len(self),
            "steps": self.n_steps,
            "length_mean": float(self.lengths.mean()),
            "length_min": int(self.lengths.min()),
            "length_max": int(self.lengths.max()),
            "return_mean": float(self.returns.mean()),
            "return_std": float(self.returns.std()),
            "return_min": float(self.returns.min()),
            "return_max": float(self.returns.max()),
            "terminated_rate": float(self.terminated.mean()),
            "violation_rate_step": None if violating is None else float(violating.mean()),
            "violation_rate_episode": None
            if violating is None
            else float(np.logical_or.reduceat(violating, self.step_offsets).mean()),
        }

    def full_card(self) -> Card:
        """The card as it stands in a file: `card` plus schema, statistics and hash."""
        return {**self.card, "schema": SCHEMA, "statistics": self.summary(), "sha256": self.sha256}


SCHEMA = 1


def _array(name: str, value: Any, kinds: str, dtype: Any) -> np.ndarray:
    """A private C-ordered copy of native byte order and the wanted type (None: its own)."""
    array = np.asarray(value)
    if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
        wanted = {"b": "booleans", "iu": "integers", "biuf": "numbers of at most 64 bits"}[kinds]
        raise UserError(f"{name} must be an array of {wanted}, not of {array.dtype}")
    if array.dtype == np.uint64 and dtype == np.int64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise UserError(f"{name} hold a number too large to be a count: {array.max()}")
    return np.array(array, dtype=dtype or array.dtype.newbyteorder("="), order="C")


def from_trajectories(trajectories: Sequence[Trajectory], card: Mapping[str, Any] | None = None) -> Demonstrations:
    """Put trajectories end to end. True costs are kept only if every trajectory has them."""
    if not trajectories:
        raise UserError("there are no demonstrations: at least one trajectory is needed")
    costs = [t.costs for t in trajectories if t.costs is not None]
    return Demonstrations(
        observations=np.concatenate([t.observations for t in trajectories]),
        actions=np.concatenate([t.actions for t in trajectories]),
        rewards=np.concatenate([t.rewards for t in trajectories]),
        costs=np.concatenate(costs) if len(costs) == len(trajectories) else None,
        lengths=np.array([len(t) for t in trajectories]),
        terminated=np.array([t.terminated for t in trajectories]),
        card=card or {},
    )


def make_card(
    *,
    env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    feature_names: Sequence[str] | None = None,
    source: str = "",
    seed: int | None = None,
    **more: Any,
) -> Card:
    """A card with the usual entries and the versions of the packages; `more` may hold anything that JSON can."""
    return {
        "env": env,
        "env_kwargs": dict(env_kwargs or {}),
        "feature_names": None if feature_names is None else list(feature_names),
        "source": source,
        "seed": seed,
        "versions": {"tacit": tacit.__version__, "numpy": np.__version__, "gymnasium": gymnasium.__version__},
        **more,
    }
