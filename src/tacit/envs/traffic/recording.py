"""A recording of highway traffic in memory: every vehicle's track, checked on construction.

Coordinates are those of highD: an image of the road seen from above, x to the right, y *down*, in metres; (x, y) is the
upper-left corner of a vehicle's bounding box, whose extent along x is the vehicle's length. Traffic of the upper
carriageway (direction 1) drives towards -x, that of the lower one (direction 2) towards +x. 25 frames per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FRAME_RATE = 25.0
DT = 1.0 / FRAME_RATE
UPPER, LOWER = 1, 2
KINDS = {"other": 0, "car": 1, "truck": 4, "bus": 5, "static": 6}
"""What a vehicle is, with the numbers that the observation uses."""
MAX_SPEED = 90.0
MAX_FRAMES = 2_000_000
"""Largest number of frames (22 hours). There is an entry for every frame, even without a vehicle."""
MAX_LENGTH, MAX_WIDTH = 40.0, 6.0
BACKWARDS = -2.0
"""m/s against its driving direction that a vehicle may show."""
BESIDE = 2.0
"""Metres that the centre of a vehicle may be beyond the outermost markings: the road is extended by as much."""
SECTION = 420.0
"""Metres of road that a highD camera sees."""
MARGIN = 40.0
"""The road goes on this far beyond the section at both ends."""


@dataclass(frozen=True)
class Problem:
    """A given start and goal, for recordings that bring their own (CommonRoad scenarios). In image coordinates."""

    first: int
    """Frame in which the ego starts."""
    state: tuple[float, float, float, float]
    """Centre x, y and velocity vx, vy."""
    goal: tuple[float, float, float, float, float]
    """Centre x, y, angle (in the image, from +x towards +y), half length, half width."""
    steps: int
    """Steps until time is out."""


@dataclass(frozen=True, eq=False)
class Recording:
    """n vehicles; the frames of all of them end to end, vehicle by vehicle. Construction checks everything."""

    name: str
    upper_marks: Floats
    """(lanes + 1,) y of the markings of the upper carriageway, ascending; empty if there is none."""
    lower_marks: Floats
    ids: Ints
    """(n,) positive and different."""
    kinds: Ints
    """(n,) values of `KINDS`."""
    directions: Ints
    """(n,) 1 or 2."""
    lengths: Floats
    """(n,) extent along x, metres."""
    widths: Floats
    """(n,) extent along y."""
    first: Ints
    """(n,) first frame, from 1."""
    counts: Ints
    """(n,) number of frames, at least 1."""
    x: Floats
    """(sum of counts,) left edge."""
    y: Floats
    """(sum of counts,) upper edge."""
    vx: Floats
    """(sum of counts,) metres per second, signed as x."""
    vy: Floats
    speed_limit: float = -1.0
    """Metres per second; -1: none."""
    extend: float = 2.0
    """How far the road reaches beyond its outermost markings, as in the original task."""
    ends: tuple[float, float] | None = None
    """Where the road begins and ends in x; None: 40 m beyond the section that was seen."""
    problems: tuple[Problem, ...] = ()
    """Starts and goals that came with the recording; empty: they are made from its cars."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON: where it comes from, month, location, ..."""

    def __post_init__(self) -> None:
        for name in ("upper_marks", "lower_marks", "lengths", "widths", "x", "y", "vx", "vy"):
            # + 0.0 makes a private copy, and 0 of -0, which would be another number to a hash.
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float64) + 0.0)
        for name in ("ids", "kinds", "directions", "first", "counts"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.int64))
        check(self)

    def __len__(self) -> int:
        """Number of vehicles."""
        return len(self.ids)

    @cached_property
    def offsets(self) -> Ints:
        """(n,) where the frames of each vehicle begin."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def vehicle(self) -> Ints:
        """(rows,) index of the vehicle of each row."""
        return np.repeat(np.arange(len(self)), self.counts)

    @cached_property
    def later(self) -> Ints:
        """The rows that have one before them in their track."""
        return np.setdiff1d(np.arange(len(self.x)), self.offsets)

    @cached_property
    def frames(self) -> Ints:
        """(rows,) frame of each row."""
        return np.arange(len(self.x)) - np.repeat(self.offsets - self.first, self.counts)

    @property
    def last_frame(self) -> int:
        return int((self.first + self.counts).max()) - 1

    @property
    def seconds(self) -> float:
        return self.last_frame / FRAME_RATE

    @cached_property
    def section(self) -> float:
        """Length of the road that was seen: highD's 420 m, or more if the centre of a vehicle was further out."""
        reach = float(np.ceil((self.x + 0.5 * self.lengths[self.vehicle]).max()))
        return max(SECTION, reach)

    @property
    def road(self) -> tuple[float, float]:
        """Where the road begins and ends in x."""
        return (-MARGIN, self.section + MARGIN) if self.ends is None else self.ends

    def marks(self, direction: int) -> Floats:
        return self.upper_marks if direction == UPPER else self.lower_marks

    def lanes(self) -> Ints:
        """(rows,) lane of each row by its centre, 0 = leftmost in driving direction, clipped to the road."""
        centre = self.y + 0.5 * self.widths[self.vehicle]
        upper = self.directions[self.vehicle] == UPPER
        result = np.zeros(len(self.x), np.int64)
        for direction, chosen in ((UPPER, upper), (LOWER, ~upper)):
            inner = self.marks(direction)[1:-1]
            above = np.searchsorted(inner, centre[chosen])
            result[chosen] = len(inner) - above if direction == UPPER else above
        return result

    def __eq__(self, other: object) -> bool:
        """Same name, road and tracks, to the last bit; `about` does not count."""
        if not isinstance(other, Recording):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        plain = ("name", "speed_limit", "extend", "ends", "problems")
        return all(mine[key] == theirs[key] for key in plain) and all(
            np.array_equal(mine[key], theirs[key]) for key in ARRAYS
        )

    __hash__ = None  # type: ignore[assignment]


UNSAID = "simulated"
"""The source of a recording that does not say one: nobody shall take it for human driving by mistake."""


def is_simulated(about: Mapping[str, Any]) -> bool:
    return "simulated" in str(about.get("source", UNSAID))


class Wrong(UserError):
    """What `check` found, and where: a row of the tracks, an entry of the vehicles, or the road ("tracks"...)."""

    def __init__(self, text: str, what: str = "", at: int | None = None) -> None:
        super().__init__(text)
        self.what, self.at = what, at


ARRAYS = (
    *("upper_marks", "lower_marks", "ids", "kinds", "directions", "lengths", "widths", "first", "counts"),
    *("x", "y", "vx", "vy"),
)


def check(recording: Recording) -> None:
    """UserError, naming the recording and the vehicle, for what no highway can produce."""
    name = recording.name

    def refuse(text: str, what: str = "", at: int | None = None) -> None:
        raise Wrong(f"recording {name}: {text}", what, at)

    n, rows = len(recording.ids), len(recording.x)
    if n == 0 or rows == 0:
        refuse("there is no vehicle in it")
    for key in ("kinds", "directions", "lengths", "widths", "first", "counts"):
        if getattr(recording, key).shape != (n,):
            refuse(f"{key} has shape {getattr(recording, key).shape}, expected ({n},): one entry per vehicle")
    if recording.counts.min() < 1 or int(recording.counts.sum()) != rows:
        refuse(f"{int(recording.counts.sum())} frames of vehicles were announced, {rows} are there")
    for key in ("x", "y", "vx", "vy"):
        values = getattr(recording, key)
        if values.shape != (rows,):
            refuse(f"{key} has shape {values.shape}, expected ({rows},)")
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            refuse(f"{key} of {_where(recording, row)} is {values[row]}, not a number", "tracks", row)
    if len(np.unique(recording.ids)) < n or recording.ids.min() < 1:
        refuse("the ids of the vehicles must be positive and all different")
    if recording.first.min() < 1:
        at = int(recording.first.argmin())
        refuse(f"frames are counted from 1, vehicle {recording.ids[at]} starts earlier", "vehicles", at)
    if int((recording.first + recording.counts).max()) > MAX_FRAMES:
        refuse(f"it goes on until frame {recording.last_frame}; frames are counted from 1, at most to {MAX_FRAMES}")
    for key, largest in (("lengths", MAX_LENGTH), ("widths", MAX_WIDTH)):
        values = getattr(recording, key)
        wrong = ~((values > 0) & (values <= largest))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            refuse(
                f"vehicle {recording.ids[i]} has {key[:-1]} {values[i]:g}, expected 0 to {largest:g} metres: "
                "are the units metres?",
                "vehicles",
                i,
            )
    if not np.isin(recording.kinds, list(KINDS.values())).all():
        refuse(f"a vehicle is one of {', '.join(KINDS)}")
    _check_road(recording, refuse)
    _check_motion(recording, refuse)
    if not recording.problems:  # scenarios may have parked vehicles beside the road
        _check_place(recording, refuse)


def _check_road(recording: Recording, refuse: Any) -> None:
    for direction, label in ((UPPER, "upper"), (LOWER, "lower")):
        marks = recording.marks(direction)
        used = (recording.directions == direction).any()
        if marks.ndim != 1 or (used and len(marks) < 2) or len(marks) == 1:
            refuse(f"the {label} carriageway has {marks.size} lane markings; at least 2 are needed", "road")
        if not np.isfinite(marks).all() or (np.diff(marks) < 1.0).any() or (np.diff(marks) > 20.0).any():
            refuse(f"the {label} lane markings {marks.tolist()} must ascend by a lane's width (1 to 20 metres)", "road")
    valid = np.isin(recording.directions, (UPPER, LOWER))
    if not valid.all():
        at = int(np.flatnonzero(~valid)[0])
        refuse(
            f"the driving direction of vehicle {recording.ids[at]} is {recording.directions[at]}, "
            "expected 1 (upper carriageway) or 2 (lower)",
            "vehicles",
            at,
        )
    if not np.isfinite(recording.speed_limit) or not -1 <= recording.speed_limit <= MAX_SPEED:
        refuse(f"the speed limit is in m/s, or -1 for none, not {recording.speed_limit:g}", "road")


def _check_motion(recording: Recording, refuse: Any) -> None:
    fast = np.hypot(recording.vx, recording.vy) > MAX_SPEED
    if fast.any():
        row = int(np.flatnonzero(fast)[0])
        refuse(
            f"{_where(recording, row)} moves at {np.hypot(recording.vx[row], recording.vy[row]):.0f} m/s, more than "
            f"{MAX_SPEED:g}: are the velocities in km/h or pixels?",
            "tracks",
            row,
        )
    ahead = np.where(recording.directions[recording.vehicle] == UPPER, -recording.vx, recording.vx)
    # A car that stands may seem to creep backwards.
    if (ahead < BACKWARDS).any():
        row = int(ahead.argmin())
        refuse(
            f"{_where(recording, row)} has velocity {recording.vx[row]:g} m/s in x, against its driving direction "
            f"{recording.directions[recording.vehicle[row]]} (1 drives towards -x, 2 towards +x): is the sign, or the "
            "direction, wrong?",
            "tracks",
            row,
        )
    # Positions and velocities must tell the same story, or the units or the frame rate are not what they should be.
    after = recording.later
    if len(after) == 0:
        return
    moved = np.diff(recording.x)[after - 1]
    expected = 0.5 * DT * (recording.vx[after] + recording.vx[after - 1])
    by_position, by_velocity = float(np.abs(moved).sum()), float(np.abs(expected).sum())
    if abs(by_position - by_velocity) > 0.05 * max(by_position, by_velocity) + 0.01 * len(after):
        refuse(
            f"the vehicles move {by_position / len(after) / DT:.1f} m/s by their positions and "
            f"{by_velocity / len(after) / DT:.1f} m/s by their velocities: expected metres, metres per second and 25 "
            "frames per second"
        )
    _check_steps(recording, refuse, after, "x", moved, expected, 3.0)


def _check_steps(
    recording: Recording, refuse: Any, after: Ints, axis: str, moved: Floats, expected: Floats, most: float
) -> None:
    """How far the vehicles move from frame to frame, by their positions and by their velocities; rows `after`."""
    jump = np.abs(moved - expected) > most
    if jump.any():
        k = int(np.flatnonzero(jump)[0])
        row = int(after[k])
        refuse(
            f"{_where(recording, row)} jumps by {abs(moved[k]):.1f} m in {axis} within one frame, where its velocity "
            f"leads {abs(expected[k]):.1f} m: is a position wrong, or did another vehicle get its id?",
            "tracks",
            row,
        )
    # Over whole tracks the rounding to centimetres hardly matters, and signs do.
    whose = recording.vehicle[after]
    by_position, by_velocity = (np.bincount(whose, values, len(recording)) for values in (moved, expected))
    apart, most_of = np.abs(by_position - by_velocity).sum(), max(np.abs(by_position).sum(), np.abs(by_velocity).sum())
    if apart > 0.25 * most_of + 0.1 * len(recording):
        worst = int(np.abs(by_position - by_velocity).argmax())
        refuse(
            f"{axis} and {axis}Velocity contradict each other: vehicle {recording.ids[worst]} moves "
            f"{by_position[worst]:.2f} m by its positions and {by_velocity[worst]:.2f} m by its velocities (all "
            f"vehicles differ by {apart:.1f} m of {most_of:.1f}): is a sign or a unit wrong?",
            "tracks",
            int(recording.offsets[worst]),
        )


def _check_place(recording: Recording, refuse: Any) -> None:
    """Lateral motion, and centres on their own carriageway."""
    after = recording.later
    moved = np.diff(recording.y)[after - 1]
    expected = 0.5 * DT * (recording.vy[after] + recording.vy[after - 1])
    _check_steps(recording, refuse, after, "y", moved, expected, 1.0)
    centre = recording.y + 0.5 * recording.widths[recording.vehicle]
    for direction, label in ((UPPER, "upper"), (LOWER, "lower")):
        marks = recording.marks(direction)
        if len(marks) == 0:
            continue
        outside = (centre < marks[0] - BESIDE) | (centre > marks[-1] + BESIDE)
        outside &= recording.directions[recording.vehicle] == direction
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            refuse(
                f"the centre of {_where(recording, row)} is at y = {centre[row]:.2f}, over {BESIDE:g} m beside the "
                f"{label} carriageway, whose markings go from {marks[0]:g} to {marks[-1]:g}: are the markings, or the "
                "driving direction, of another recording?",
                "tracks",
                row,
            )


def _where(recording: Recording, row: int) -> str:
    vehicle = int(np.searchsorted(recording.offsets, row, side="right")) - 1
    frame = int(recording.first[vehicle]) + row - int(recording.offsets[vehicle])
    return f"vehicle {recording.ids[vehicle]} in frame {frame}"
