"""Sets of objects in an observation, and what a cost may read of them: the distance to the nearest one.

An observation with *slots* has the same entries for each of several objects, in no order:

    dx_1 dy_1 shy_1 present_1   dx_2 dy_2 shy_2 present_2   ...

`Slots` says so. `*` stands for the number of the slot:

    Slots(position=("dx_*", "dy_*"), kinds=("shy_*", "harmless_*"), present="present_*")

A rule about "the nearest object" is about none of these entries alone. So a cost reads *derived* inputs instead:

    the distance to the nearest shy object  =  min over slots with present > 0.5 and shy > 0.5 of  sqrt(dx^2 + dy^2) (1)

and `far` where there is none. (1) does not depend on the order of the slots, nor on their number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError

Array = NDArray[Any]
MOST_SLOTS = 4096
"""Slots, and entries of a slot, that a file may announce."""
FARTHEST = 1e9
"""Largest distance that a file may announce."""
NUMBERED = re.compile(r"(\D*)(\d+)(\D*)")
"""A name with one number in it."""


@dataclass(frozen=True)
class Slots:
    """Which entries of an observation describe a set of objects. `*` stands for the number of a slot."""

    position: tuple[str, ...]
    """Coordinates of an object, such as ("dx_*", "dy_*"), relative to the agent unless there is an origin."""
    kinds: tuple[str, ...] = ()
    """Entries that are above 0.5 for objects of a kind, such as ("shy_*", "harmless_*")."""
    present: str = ""
    """The entry that is above 0.5 if there is an object in the slot; without one, all slots are taken."""
    origin: tuple[str, ...] = ()
    """Entries of the agent's own position, if those of the objects are not relative to it."""
    reach: float = 0.0
    """Distance within which objects matter to a policy (`tacit.cost.surroundings`). 0: a quarter of the largest
    coordinate that the observation space allows."""

    def __post_init__(self) -> None:
        for field, patterns in (("position", self.position), ("kinds", self.kinds), ("origin", self.origin)):
            if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
                raise UserError(f"{field} of objects is a tuple of names, not {patterns!r}")
            object.__setattr__(self, field, tuple(patterns))
        if not self.position:
            raise UserError('objects need the names of their coordinates, such as position=("dx_*", "dy_*")')
        for pattern in (*self.position, *self.kinds, *([self.present] if self.present else [])):
            if pattern.count("*") != 1:
                raise UserError(f"{pattern!r} needs one * for the number of the object, such as dx_*")
        if self.origin and len(self.origin) != len(self.position):
            raise UserError(
                f"the origin of objects has {len(self.origin)} coordinates, their position has {len(self.position)}"
            )

    @classmethod
    def of_text(cls, text: str) -> Slots:
        """The slots that a setting describes: coordinates, then kind=..., present=..., origin=... (any order)."""
        fields: dict[str, list[str]] = {"position": [], "kind": [], "present": [], "origin": []}
        for word in text.split():
            field, equals, pattern = word.rpartition("=")
            if equals and field not in fields:
                raise UserError(f"objects: {field!r} is not known; write e.g. {EXAMPLE!r}")
            fields[field or "position"].append(pattern)
        if len(fields["present"]) > 1:
            raise UserError(f"objects: there is one entry for present, not {', '.join(fields['present'])}")
        position, kinds, origin = (tuple(fields[name]) for name in ("position", "kind", "origin"))
        return cls(position, kinds, "".join(fields["present"]), origin)

    def numbers(self, names: Sequence[str]) -> tuple[str, ...]:
        """The numbers of the slots among these names. UserError if there are none, or an entry of one is missing."""
        numbers = _numbers(self.position[0], names)
        if not numbers:
            raise UserError(f"objects: no entry of the observation is called {self.position[0]}")
        for pattern in self.patterns:
            missing = [number for number in numbers if pattern.replace("*", number) not in names]
            if missing:
                raise UserError(f"objects: the observation has no entry {pattern.replace('*', missing[0])}")
        for name in self.origin:
            if name not in names:
                raise UserError(f"objects: the observation has no entry {name}")
        return numbers

    @property
    def patterns(self) -> tuple[str, ...]:
        """All patterns with a `*`."""
        return (*self.position, *self.kinds, *([self.present] if self.present else []))

    def entries(self, names: Sequence[str]) -> frozenset[str]:
        """Names of all entries that belong to the slots, also of those that are not described."""
        return frozenset(p.replace("*", n) for p in self.repeated(names) for n in self.numbers(names))

    def repeated(self, names: Sequence[str]) -> tuple[str, ...]:
        """Patterns of all entries of a slot: those that are described, and names that repeat with the same numbers."""
        own = sorted(self.numbers(names))
        same = [pattern for pattern, numbers in _repeated(names).items() if sorted(numbers) == own]
        return tuple(dict.fromkeys([*self.patterns, *same]))

    def nearest(self, names: Sequence[str], observations: Array | None = None) -> tuple[Nearest, ...]:
        """The distance to the nearest object of each kind, and of any kind. Far is the farthest that was observed."""
        there = (self.present,) if self.present else ()
        sets: list[tuple[str, tuple[str, ...]]] = [("distance to the nearest object", there)]
        sets += [(f"distance to the nearest {root(kind)} object", (kind, *there)) for kind in self.kinds]
        derived = []
        for name, flags in sets:
            one = Nearest(name, self.position, flags, self.origin).of_names(names)
            if observations is not None and len(observations):
                distances = one.distances(observations)
                finite = distances[np.isfinite(distances)]
                one = replace(one, far=float(finite.max()) if finite.size and finite.max() > 0 else 1.0)
            derived.append(one)
        highest = max(one.far for one in derived)
        return tuple(replace(one, far=highest) for one in derived)


EXAMPLE = "dx_* dy_* kind=shy_* kind=harmless_* present=present_*"


@dataclass(frozen=True)
class Nearest:
    """(1): the distance to the nearest object for which all flags are above 0.5, at most `far`."""

    name: str
    position: tuple[str, ...]
    flags: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    far: float = 1.0
    columns: tuple[tuple[int, ...], ...] = ()
    """Columns of an observation: of each coordinate and then of each flag, one for each slot."""
    origin_columns: tuple[int, ...] = ()

    def of_names(self, names: Sequence[str]) -> Nearest:
        """The same distance in observations whose entries have these names; UserError if one is missing."""
        slots = Slots(self.position, self.flags, origin=self.origin)
        numbers, place = slots.numbers(names), {name: i for i, name in enumerate(names)}
        columns = tuple(tuple(place[pattern.replace("*", n)] for n in numbers) for pattern in slots.patterns)
        return replace(self, columns=columns, origin_columns=tuple(place[name] for name in self.origin))

    def distances(self, obs: Array) -> Array:
        """(..., slots) distance of the object in every slot; infinite where there is none that counts."""
        square: Array = np.zeros((*obs.shape[:-1], len(self.columns[0])), obs.dtype)
        for axis in range(len(self.position)):
            offset = obs.take(self.columns[axis], axis=-1)
            if self.origin:
                offset = offset - obs[..., self.origin_columns[axis], None]
            square += offset * offset
        counts = np.ones(square.shape, np.bool_)
        for flag in self.columns[len(self.position) :]:
            counts &= obs.take(flag, axis=-1) > 0.5
        # A number that is not finite in an empty slot says nothing; in one that counts, the distance is not finite.
        return np.where(counts, np.sqrt(square), np.inf)

    def of_rows(self, obs: Array) -> Array:
        """(...) the distance in observations (..., obs_size). NaN if an entry that counts is NaN."""
        return np.minimum(self.distances(obs).min(axis=-1), np.asarray(self.far, obs.dtype))

    # ------------------------------------------------------------ saving

    def to_json(self) -> dict[str, Any]:
        """A plain description."""
        return {
            "kind": "nearest",
            **{name: list(getattr(self, name)) for name in ("position", "flags", "origin", "origin_columns")},
            "name": self.name,
            "far": self.far,
            "columns": [list(columns) for columns in self.columns],
        }

    @classmethod
    def from_json(cls, described: Any, obs_size: int) -> Nearest:
        """What `to_json` gave. UserError for anything else."""
        damaged = UserError("a derived input of this cost file is damaged")
        if not isinstance(described, Mapping) or described.get("kind") != "nearest":
            raise damaged
        try:
            position, flags, origin = (tuple(described[name]) for name in ("position", "flags", "origin"))
            columns = tuple(tuple(row) for row in described["columns"])
            one = cls(described["name"], position, flags, origin, described["far"], columns)
            one = replace(one, origin_columns=tuple(described["origin_columns"]))
            Slots(one.position, one.flags, origin=one.origin)
        except (KeyError, TypeError):
            raise damaged from None
        every = [column for row in (*columns, one.origin_columns) for column in row]
        sound = (
            isinstance(one.name, str)
            and type(one.far) in (int, float)
            and 0 < one.far <= FARTHEST
            and len(columns) == len(one.position) + len(one.flags) <= MOST_SLOTS
            and len({len(row) for row in columns}) == 1
            and 0 < len(columns[0]) <= MOST_SLOTS
            and len(one.origin_columns) == len(one.origin)
            and all(type(column) is int and 0 <= column < obs_size for column in every)
        )
        if not sound:
            raise damaged
        return one


# ---------------------------------------------------------------------------------------------------------------------
# Names that repeat

AXIS = re.compile(r"(?P<stem>(?:.*_)?)(?P<relative>d|rel_|delta_)?(?P<axis>[xyz])(?P<end>_rel|_pos|_position)?")
NO_OBJECT = re.compile(r"(^|_)(v|vel|velocity|speed|a|acc|path|route|way|waypoint|goal|target|quat)_$")
"""Ends of a stem after which x and y are no place of an object."""
PRESENT = re.compile(r"(^|_)(is_)?(present|presence|mask|exists|active|visible|valid|there)($|_)")


def root(pattern: str) -> str:
    """A pattern without its `*`, for words: shy_* is shy."""
    return re.sub(r"_+", "_", pattern.replace("*", "")).strip("_")


def recognised(names: Sequence[str], observations: Array) -> Slots | None:
    """The slots that repeated names show, such as dx_1 dy_1 dx_2 dy_2 or obj0_x obj0_y obj1_x obj1_y.

    None unless there is exactly one set of coordinates. Entries that are 0 or 1 in the observations (n, obs) are kinds.
    """
    numbers = _repeated(names)
    places: dict[tuple[Any, ...], dict[str, str]] = {}
    for pattern, members in numbers.items():
        match = AXIS.fullmatch(root(pattern))
        if match and len(members) > 1 and not NO_OBJECT.search(match["stem"]):
            key = (match["stem"], match["relative"] or match["end"] == "_rel", match["end"], frozenset(members))
            places.setdefault(key, {})[match["axis"]] = pattern
    sets = [(key, axes) for key, axes in places.items() if {"x", "y"} <= axes.keys()]
    if len(sets) != 1:
        return None
    (_, relative, _, members), axes = sets[0]
    position = tuple(axes[axis] for axis in sorted(axes))
    own = tuple(sorted(axes))
    origin = own if not relative and all(name in names for name in own) else ()
    others = [pattern for pattern, those in numbers.items() if frozenset(those) == members and pattern not in position]
    values = {
        pattern: observations[:, [list(names).index(pattern.replace("*", n)) for n in members]] for pattern in others
    }
    flags = [
        pattern
        for pattern in others
        if len(observations) and np.isin(values[pattern], (0.0, 1.0)).all() and np.ptp(values[pattern]) > 0
    ]
    masks = [pattern for pattern in flags if PRESENT.search(root(pattern))]
    kinds = tuple(pattern for pattern in flags if pattern not in masks)
    return Slots(position, kinds, masks[0] if len(masks) == 1 else "", origin)


def _repeated(names: Sequence[str]) -> dict[str, list[str]]:
    """{pattern: numbers} of all names with one number in them."""
    numbers: dict[str, list[str]] = {}
    for match in map(NUMBERED.fullmatch, names):
        if match:
            numbers.setdefault(f"{match[1]}*{match[3]}", []).append(match[2])
    return numbers


def _numbers(pattern: str, names: Sequence[str]) -> tuple[str, ...]:
    """What `*` stands for in the names that fit a pattern, in rising order."""
    before, _, after = pattern.partition("*")
    fits = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
    numbers = {match[1] for match in map(fits.fullmatch, names) if match}
    return tuple(sorted(numbers, key=lambda number: (int(number), number)))
