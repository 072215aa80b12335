"""What a policy sees of a set of objects: sums over the slots, in which near objects count most.

The entries of slots in no order are hard for a small network: every slot would have to be learned on its own, and what
matters lies within a small part of their range. So a policy sees, of each kind of object and at each scale s,

    sum over slots of  w (u, e, 1),      w = exp(-(d / s)^2 / 2)                                                  (1)

with the distance d of an object, the direction u to it (a unit vector) and its other entries e, such as its velocity.
(1) does not depend on the order of the slots. Objects that are far away, or absent, count nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost.objects import FARTHEST, MOST_SLOTS, Slots
from tacit.errors import UserError

Array = NDArray[Any]
Columns = tuple[int, ...]
SCALES = (0.25, 0.5, 1.0)
"""The scales s, as shares of the reach of the objects."""
NEAREST = 1e-6
"""Distance below which an object has no direction."""


@dataclass(frozen=True)
class Surroundings:
    """(1) in columns of an observation. All but `kept` and `origin` have one column for each slot."""

    kept: Columns
    """Entries that belong to no object. The policy sees them as they are."""
    position: tuple[Columns, ...]
    others: tuple[Columns, ...]
    kinds: tuple[Columns, ...]
    present: tuple[Columns, ...]
    """None, or one."""
    origin: Columns
    scales: tuple[float, ...]

    @classmethod
    def of(cls, slots: Slots, names: Sequence[str], high: Array) -> Surroundings | None:
        """The surroundings in observations with these names, at most `high` (obs,) in size.

        None if neither the slots nor the observation space say how large coordinates are.
        """
        numbers, place = slots.numbers(names), {name: i for i, name in enumerate(names)}

        def columns(pattern: str) -> Columns:
            return tuple(place[pattern.replace("*", number)] for number in numbers)

        entries = slots.entries(names)
        further = [pattern for pattern in slots.repeated(names) if pattern not in slots.patterns]
        reach = slots.reach or float(np.max(high[[place[p.replace("*", numbers[0])] for p in slots.position]])) / 4.0
        if not 0 < reach < FARTHEST:
            return None
        return cls(
            kept=tuple(i for i, name in enumerate(names) if name not in entries),
            position=tuple(columns(pattern) for pattern in slots.position),
            others=tuple(columns(pattern) for pattern in further),
            kinds=tuple(columns(pattern) for pattern in slots.kinds),
            present=(columns(slots.present),) if slots.present else (),
            origin=tuple(place[name] for name in slots.origin),
            scales=tuple(share * reach for share in SCALES),
        )

    @property
    def size(self) -> int:
        """Numbers that a policy sees."""
        sums = len(self.position) + len(self.others) + 1
        return len(self.kept) + max(1, len(self.kinds)) * len(self.scales) * sums

    def view(self, obs: Array) -> Array:
        """(..., size) of observations (..., obs_size)."""
        offset = np.stack([obs.take(columns, axis=-1) for columns in self.position], axis=-1)
        if self.origin:
            offset = offset - obs.take(self.origin, axis=-1)[..., None, :]
        square = (offset * offset).sum(axis=-1)
        direction = offset / np.maximum(np.sqrt(square), np.float32(NEAREST))[..., None]
        entries = [obs.take(columns, axis=-1)[..., None] for columns in self.others]
        rows = np.concatenate([direction, *entries, np.ones((*square.shape, 1), obs.dtype)], axis=-1)
        there = np.ones(square.shape, obs.dtype)
        for columns in self.present:
            there = there * (obs.take(columns, axis=-1) > 0.5)
        parts = [obs.take(self.kept, axis=-1)]
        near = [np.exp(square * np.float32(-0.5 / scale**2)) * there for scale in self.scales]
        for kind in self.kinds or (None,):
            counts = 1.0 if kind is None else (obs.take(kind, axis=-1) > 0.5).astype(obs.dtype)
            parts += [np.einsum("...s,...se->...e", weight * counts, rows) for weight in near]
        return np.concatenate(parts, axis=-1)

    @classmethod
    def from_json(cls, described: Any, obs_size: int) -> Surroundings:
        """What `dataclasses.asdict` gave, read from a file. UserError for anything else."""
        damaged = UserError("the description of the objects that this policy sees is damaged")
        if not isinstance(described, Mapping):
            raise damaged
        try:
            position, others, kinds, present = (
                tuple(tuple(row) for row in described[name]) for name in ("position", "others", "kinds", "present")
            )
            kept, origin, scales = (tuple(described[name]) for name in ("kept", "origin", "scales"))
            one = cls(kept, position, others, kinds, present, origin, tuple(float(scale) for scale in scales))
        except (KeyError, TypeError, ValueError):
            raise damaged from None
        every = [*one.position, *one.others, *one.kinds, *one.present]
        sound = (
            len(described) == 7
            and bool(one.position)
            and len(one.present) <= 1
            and len(every) <= MOST_SLOTS
            and len({len(row) for row in every}) == 1
            and 0 < len(one.position[0]) <= MOST_SLOTS
            and len(one.origin) in (0, len(one.position))
            and 0 < len(one.scales) <= MOST_SLOTS
            and all(math.isfinite(scale) and 1e-9 < scale <= FARTHEST for scale in one.scales)
            and all(type(c) is int and 0 <= c < obs_size for row in (*every, one.kept, one.origin) for c in row)
        )
        if not sound:
            raise damaged
        return one
