"""Recordings as arrays that N simulated cars can be looked up in at once.

Each carriageway becomes a *part* in its own frame: traffic drives towards +X, Y points to the left. The vehicles of a
frame are consecutive rows of one table; `starts[frame]` says where they begin. A problem is a start and a goal: a car
of the recording whose place the ego takes. It begins in the car's recorded state and should be where the car was last
seen within the window of 1000 frames, at the latest min(that frame + 25, last frame of other traffic).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.envs.traffic.geometry import EGO_LENGTH, EGO_WIDTH, Box, direction, height, intersect
from tacit.envs.traffic.observation import Course, lane_of
from tacit.envs.traffic.recording import KINDS, LOWER, UPPER, Problem, Recording, is_simulated
from tacit.errors import UserError

WINDOW = 1000
"""Frames of a scenario of the original task: 40 s."""
STRIDE = 250
"""Frames between the starts of problems when every car may be the ego."""
SLACK = 25
"""Steps that the ego may take longer than the car that it replaces."""
SHORTEST = 50
"""Frames that a car must still be in sight to be replaced."""
FAR = 1e6

CHANNELS = ("x", "y", "l", "w", "lane", "vehicle", "vx", "vy", "kind")
X, Y, HALF_LENGTH, HALF_WIDTH, LANE, VEHICLE, VX, VY, KIND = range(len(CHANNELS))
NEEDED = VX
"""The channels before this one are read for every vehicle around, those from here on only for the nearest."""


_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def flag(name: str, value: object) -> bool:
    """A switch: true or false, also as 1 or 0 or in words. Other text is refused; bool("no") would be true."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    word = _WORDS.get(str(value).strip().lower()) if isinstance(value, str | int) else None
    if word is None:
        raise UserError(f"{name} is true or false (or yes, no, 1, 0), not {value!r}")
    return word


@dataclass(frozen=True)
class Rules:
    """How problems are made from recordings."""

    ego: str = "any"
    """"any": every car in sight every 250 frames; "window": one car per window of 1000 frames, as the original."""
    goal: str = "footprint"
    """"footprint": the rectangle of the replaced car; "lane": 20 m of its lane."""
    corner: bool = False
    """The original's quirk: the upper-left corner of a bounding box taken for its centre."""
    split: str | None = None
    """"train" or "test": 70 or 30 % of the windows, drawn with `split_seed`; without problems that run on into the
    other side's windows."""
    split_seed: int = 5

    def __post_init__(self) -> None:
        for name, values in (
            ("ego", ("any", "window")),
            ("goal", ("footprint", "lane")),
            ("split", (None, "train", "test")),
        ):
            if getattr(self, name) not in values:
                allowed = ", ".join(repr(value) for value in values)
                raise UserError(f"{name} is one of {allowed}, not {getattr(self, name)!r}")
        if not isinstance(self.corner, bool):
            raise UserError(f"corner is true or false, not {self.corner!r}")
        if isinstance(self.split_seed, bool) or not isinstance(self.split_seed, int) or self.split_seed < 0:
            raise UserError(f"split_seed is a whole number from 0, not {self.split_seed!r}")


@dataclass(frozen=True, eq=False)
class Road:
    """A part: one carriageway of one recording."""

    recording: str
    marks: NDArray[np.float64]
    """(lanes + 1,) Y of the markings, descending; the outermost moved outwards by the recording's `extend`."""
    x_range: tuple[float, float]
    first_frame: int
    """Number of its frame 0 among the frames of all parts."""
    frames: int


@dataclass(frozen=True, eq=False)
class Problems:
    """P starts and goals; all arrays (P,)."""

    part: NDArray[np.int64]
    frame: NDArray[np.int64]
    """First frame, among the frames of all parts."""
    ego: NDArray[np.int64]
    """The vehicle that is left out of the traffic; -1: none."""
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    vx: NDArray[np.float64]
    vy: NDArray[np.float64]
    goal_x: NDArray[np.float64]
    goal_y: NDArray[np.float64]
    goal_yaw: NDArray[np.float64]
    goal_l: NDArray[np.float64]
    """Half length of the goal's rectangle."""
    goal_w: NDArray[np.float64]
    steps: NDArray[np.int64]
    """Steps until time is out."""

    def __len__(self) -> int:
        return len(self.part)

    def subset(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Problems:
        return Problems(**{name: values[which] for name, values in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Traffic:
    """All parts of all recordings, and the problems that they pose."""

    roads: tuple[Road, ...]
    table: NDArray[np.float32]
    """(channels, rows + most); rows sorted by part, then frame, and as much padding as a frame may hold."""
    previous: NDArray[np.int32]
    """(rows,) row of the same vehicle one frame earlier; its own row at the start of a track."""
    slots: NDArray[np.int16]
    """(rows,) a number that a vehicle keeps while it is in sight and shares with nobody else then; from 0."""
    starts: NDArray[np.int64]
    """(frames + 1,) first row of each frame."""
    problems: Problems
    simulated: bool
    """True unless every recording says that it is not."""

    @cached_property
    def most(self) -> int:
        """Largest number of vehicles in a frame."""
        return int(np.diff(self.starts).max(initial=1))

    @cached_property
    def marks(self) -> NDArray[np.float64]:
        """(parts, most lanes + 1) markings, padded with -FAR."""
        lanes = max(len(road.marks) for road in self.roads)
        return np.stack([np.pad(r.marks, (0, lanes - len(r.marks)), constant_values=-FAR) for r in self.roads])

    @cached_property
    def courses(self) -> Course:
        """What stays the same while each of the P problems is driven."""
        p, part = self.problems, self.problems.part
        marks, lanes = self.marks[part], np.array([len(road.marks) - 1 for road in self.roads])[part]
        ends = np.array([road.x_range for road in self.roads])[part]
        c, s = np.cos(p.goal_yaw), np.sin(p.goal_yaw)
        return Course(
            goal_x=p.goal_x,
            goal_y=p.goal_y,
            goal_c=c,
            goal_s=s,
            goal_l=p.goal_l,
            goal_w=p.goal_w,
            reach_x=np.abs(c) * p.goal_l + np.abs(s) * p.goal_w,
            reach_y=np.abs(s) * p.goal_l + np.abs(c) * p.goal_w,
            x0=ends[:, 0],
            x1=ends[:, 1],
            marks=marks,
            centres=0.5 * (marks[:, :-1] + marks[:, 1:]),
            right_edge=np.take_along_axis(marks, lanes[:, None], axis=1)[:, 0],
            lanes=lanes,
            first_lane=lane_of(marks, lanes, p.y),
            goal_lane=lane_of(marks, lanes, p.goal_y),
        )

    @property
    def nbytes(self) -> int:
        arrays = (self.table, self.previous, self.slots, self.starts, *vars(self.problems).values())
        return sum(array.nbytes for array in arrays)


def build(recordings: Sequence[Recording], rules: Rules = Rules()) -> Traffic:  # noqa: B008 (frozen)
    """The arrays of some recordings; UserError if they pose no problem at all."""
    if not recordings:
        raise UserError("there is no recording: give a folder with recordings, or none for those of the package")
    _meaningful(recordings, rules)
    roads: list[Road] = []
    owners: list[int] = []
    tables, previous, slots, counts = [], [], [], []
    by_part: list[Problems] = []
    rows = frames = vehicles = 0
    for number, recording in enumerate(recordings):
        for way in (UPPER, LOWER):
            chosen = np.flatnonzero(recording.directions == way)
            if len(chosen) == 0:
                continue
            part = _Part(recording, way, chosen, rules, vehicles)
            roads.append(Road(recording.name, part.marks, part.x_range, frames, len(part.counts)))
            owners.append(number)
            by_part.append(part.problems(len(roads) - 1, frames))
            tables.append(part.table)
            previous.append(part.previous + rows)
            slots.append(part.slots)
            counts.append(part.counts)
            rows, frames, vehicles = rows + part.table.shape[1], frames + len(part.counts), vehicles + len(chosen)
    problems = Problems(**{k: np.concatenate([getattr(p, k) for p in by_part]) for k in vars(by_part[0])})
    starts = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    most = int(np.diff(starts).max())
    traffic = Traffic(
        roads=tuple(roads),
        table=np.concatenate([*tables, np.full((len(CHANNELS), most), FAR, np.float32)], axis=1),
        previous=np.concatenate(previous).astype(np.int32),
        slots=np.concatenate([*slots, np.zeros(most, np.int64)]).astype(np.int16),
        starts=starts,
        problems=problems,
        simulated=any(is_simulated(r.about) for r in recordings),
    )
    sensible = _sensible(traffic)
    chosen_problems = problems.subset(sensible)
    # By recording: which have nothing to drive, and why.
    owner = np.array(owners)
    posing = set(owner[chosen_problems.part].tolist())
    idle = {
        i: f"{recording.name}: {_why(recording, problems.subset(owner[problems.part] == i))}"
        for i, recording in enumerate(recordings)
        if i not in posing
    }
    if posing and idle:
        for reason in idle.values():
            warnings.warn(f"no problem comes from recording {reason}", stacklevel=2)
    if rules.split is not None:
        chosen_problems = chosen_problems.subset(_split(traffic, chosen_problems, rules))
    if len(chosen_problems) == 0:
        if posing:
            raise UserError(
                f"the recordings are too short for split={rules.split!r}: no problem is left on that side; use longer "
                "recordings, or no split"
            )
        raise UserError("the recordings pose no problem: " + "; ".join(list(idle.values())[:5]))
    return replace(traffic, problems=chosen_problems)


def _meaningful(recordings: Sequence[Recording], rules: Rules) -> None:
    """UserError for options that say how problems are made, where a scenario brings its own."""
    own = [recording.name for recording in recordings if recording.problems]
    changed = [name for name in ("ego", "goal", "corner") if getattr(rules, name) != getattr(Rules(), name)]
    if own and changed:
        raise UserError(
            f"{changed[0]}={getattr(rules, changed[0])!r} means nothing for {own[0]}: CommonRoad scenarios have their "
            f"own starts and goals; leave {' and '.join(changed)} out"
        )


def _why(recording: Recording, problems: Problems) -> str:
    """Why no problem of a recording can be driven, in words."""
    if recording.problems:
        return "its planning problems start in a collision, off the road or beyond its ends"
    if not (recording.kinds == KINDS["car"]).any():
        return "there is no car in it, only other vehicles, and the ego takes the place of a car"
    if len(problems) == 0:
        return (
            f"none of its cars is in sight for {SHORTEST} frames from a frame on at which problems start (every "
            f"{STRIDE} frames); use longer recordings"
        )
    if (problems.steps < 1).all():
        return (
            "there is no other vehicle on the carriageway while its cars drive, and time is out when the last other "
            "vehicle is gone; at least two vehicles are needed"
        )
    return "its cars start in a collision or off the road"


class _Part:
    """One carriageway of one recording in its own frame, rows sorted by frame."""

    def __init__(self, recording: Recording, way: int, chosen: np.ndarray, rules: Rules, offset: int) -> None:
        self.recording, self.rules, self.way, self.offset = recording, rules, way, offset
        sign = -1.0 if way == UPPER else 1.0
        self.sign = sign
        rows = np.flatnonzero(recording.directions[recording.vehicle] == way)
        vehicle = np.searchsorted(chosen, recording.vehicle[rows])
        half_l, half_w = 0.5 * recording.lengths[chosen], 0.5 * recording.widths[chosen]
        shift = 0.0 if rules.corner else 1.0
        x = sign * (recording.x[rows] + shift * half_l[vehicle])
        y = -sign * (recording.y[rows] + shift * half_w[vehicle])
        marks = -sign * recording.marks(way)
        marks = np.sort(marks)[::-1].copy()
        marks[0] += recording.extend
        marks[-1] -= recording.extend
        self.marks = marks
        ends = sign * np.array(recording.road)
        self.x_range = float(ends.min()), float(ends.max())
        lane = (marks[1:-1, None] > y).sum(axis=0)
        frame = recording.frames[rows] - 1
        order = np.argsort(frame, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        begins = np.flatnonzero(np.diff(vehicle, prepend=-1))
        before = np.arange(len(rows)) - 1
        before[begins] = begins
        columns = {
            "x": x, "y": y, "l": half_l[vehicle], "w": half_w[vehicle], "lane": lane, "vehicle": vehicle + offset,
            "vx": sign * recording.vx[rows], "vy": -sign * recording.vy[rows], "kind": recording.kinds[chosen][vehicle],
        }  # fmt: skip
        self.table = np.stack([columns[name][order] for name in CHANNELS]).astype(np.float32)
        self.previous = place[before][order]
        frames = max([recording.last_frame, *(p.first + p.steps for p in recording.problems)])
        self.counts = np.bincount(frame, minlength=frames)
        self.slots = _slots(recording.first[chosen], recording.counts[chosen])[vehicle][order]
        self.first, self.last = recording.first[chosen] - 1, recording.first[chosen] + recording.counts[chosen] - 2
        self.cars = recording.kinds[chosen] == KINDS["car"]
        # Back in the order of the tracks, for looking up where a car is in a given frame.
        self.columns, self.begins = columns, begins

    def problems(self, part: int, base: int) -> Problems:
        if self.recording.problems:
            return self._given(part, base)
        stride = WINDOW if self.rules.ego == "window" else STRIDE
        starts, egos = [], []
        for begin in range(0, len(self.counts), stride):
            seen = np.minimum(self.last, begin + WINDOW - 1) - begin + 1
            able = np.flatnonzero(self.cars & (self.first <= begin) & (seen >= SHORTEST))
            if self.rules.ego == "window" and len(able):
                able = np.random.default_rng([0, part, begin]).choice(able, 1)
            starts.append(np.full(len(able), begin))
            egos.append(able)
        start, ego = np.concatenate(starts), np.concatenate(egos).astype(np.int64)
        end = np.minimum(self.last[ego], start + WINDOW - 1)
        # The last frame in which anybody else is on the road.
        ranked = np.argsort(self.last)
        latest, second = ranked[-1], ranked[-2] if len(ranked) > 1 else ranked[-1]
        others = np.where(ego == latest, self.last[second] if len(ranked) > 1 else -1, self.last[latest])
        others = np.minimum(others, start + WINDOW - 1)
        at, to = self.begins[ego] + start - self.first[ego], self.begins[ego] + end - self.first[ego]
        c = self.columns
        goal_l, goal_w = c["l"][to], c["w"][to]
        goal_yaw = np.arctan2(c["vy"][to], c["vx"][to])
        goal_y = c["y"][to]
        if self.rules.goal == "lane":
            lane = c["lane"][to]
            goal_l, goal_yaw = np.full(len(ego), 10.0), np.zeros(len(ego))
            goal_w = 0.5 * (self.marks[lane] - self.marks[lane + 1])
            goal_y = 0.5 * (self.marks[lane] + self.marks[lane + 1])
        return Problems(
            part=np.full(len(ego), part),
            frame=base + start,
            ego=ego + self.offset,
            x=c["x"][at],
            y=c["y"][at],
            vx=c["vx"][at],
            vy=c["vy"][at],
            goal_x=c["x"][to],
            goal_y=goal_y,
            goal_yaw=goal_yaw,
            goal_l=goal_l,
            goal_w=goal_w,
            steps=np.minimum(end + SLACK, others) - start,
        )

    def _given(self, part: int, base: int) -> Problems:
        """The problems that came with the recording."""
        given: tuple[Problem, ...] = self.recording.problems
        state = self._own(np.array([p.state for p in given]).reshape(-1, 4))
        goal = np.array([p.goal for p in given]).reshape(-1, 5)
        place = self._own(goal[:, :2])
        n = len(given)
        first = np.array([p.first - 1 for p in given])
        return Problems(
            part=np.full(n, part),
            frame=base + first,
            ego=np.full(n, -1),
            **{name: state[:, i] for i, name in enumerate(("x", "y", "vx", "vy"))},
            goal_x=place[:, 0],
            goal_y=place[:, 1],
            # The image's y points the other way; a rectangle turned by half a turn is the same.
            goal_yaw=-goal[:, 2],
            goal_l=goal[:, 3],
            goal_w=goal[:, 4],
            steps=np.array([p.steps for p in given]),
        )

    def _own(self, values: np.ndarray) -> np.ndarray:
        """Image coordinates (n, 2 or 4) in the frame of the part."""
        return values * np.resize([self.sign, -self.sign], values.shape[1])


def _slots(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(n,) for each vehicle the smallest number that is free when it appears."""
    result = np.empty(len(first), np.int64)
    free_at: list[int] = []
    for i in np.argsort(first, kind="stable"):
        slot = next((k for k, end in enumerate(free_at) if end <= first[i]), len(free_at))
        if slot == len(free_at):
            free_at.append(0)
        free_at[slot] = int(first[i] + counts[i])
        result[i] = slot
    return result


def _sensible(traffic: Traffic) -> NDArray[np.bool_]:
    """(P,) problems whose ego, which has its own size, starts on the road, touching nobody, with time to act."""
    p = traffic.problems
    c, s = direction(p.vx, p.vy)
    x, y, c, s = (values[:, None] for values in (p.x, p.y, c, s))
    ego = Box(x, y, c, s, 0.5 * EGO_LENGTH, 0.5 * EGO_WIDTH)
    index = traffic.starts[p.frame][:, None] + np.arange(traffic.most)
    there = index < traffic.starts[p.frame + 1][:, None]
    rows = traffic.table[:, index].astype(np.float64)
    there &= rows[VEHICLE] != p.ego[:, None]
    box = Box(rows[X], rows[Y], *direction(rows[VX], rows[VY]), rows[HALF_LENGTH], rows[HALF_WIDTH])
    crashed = (there & intersect(ego, box)).any(axis=1)
    reach = height(ego)[:, 0]
    left, right = traffic.marks[p.part, 0], np.array([road.marks[-1] for road in traffic.roads])[p.part]
    on_road = (p.y + reach <= left) & (p.y - reach >= right)
    ends = np.array([road.x_range for road in traffic.roads])[p.part]
    inside = (p.x >= ends[:, 0]) & (p.x <= ends[:, 1])
    return ~crashed & on_road & inside & (p.steps >= 1)


def _split(traffic: Traffic, problems: Problems, rules: Rules) -> NDArray[np.bool_]:
    """(P,) which problems belong to the split: whole windows do, so that no scene is on both sides.

    A problem that runs on into a window of the other side belongs to neither.
    """
    begin = problems.frame - np.array([road.first_frame for road in traffic.roads])[problems.part]
    first, last = begin // WINDOW, (begin + problems.steps) // WINDOW
    windows, which = np.unique(np.stack([problems.part, first]), axis=1, return_inverse=True)
    which = which.ravel()
    order = np.random.default_rng(rules.split_seed).permutation(windows.shape[1])
    train = np.zeros(windows.shape[1], np.bool_)
    train[order[: round(0.7 * len(order))]] = True
    # Per part and window: how many windows of either side come before it. Those without a problem are of neither.
    sides = np.zeros((2, len(traffic.roads), int(last.max(initial=0)) + 2), np.int64)
    sides[train.astype(np.int64), windows[0], windows[1] + 1] = 1
    before = np.cumsum(sides, axis=2)
    other = 1 - train[which].astype(np.int64)
    crossing = before[other, problems.part, last + 1] > before[other, problems.part, first]
    return (train[which] == (rules.split == "train")) & ~crossing
