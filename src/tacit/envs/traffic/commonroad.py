"""CommonRoad scenarios (XML, versions 2017a to 2020a) on straight parallel lanes, with their planning problems.

Versions before 2020a have <obstacle> elements with a <role>. In 2017a an obstacle may lack an <initialState> (a moving
one begins with the first state of its trajectory, a standing one is where its shape is), and times may be in seconds.
Scenarios with another time step than ours are resampled: positions by the cubic that has the recorded velocities at
both ends of a step, velocities linearly. `about["time step"]` says so.

Lanelets, obstacles and planning problems are read with the standard library. The scenario is turned so that the lanes
run along +x; a road that bends, or lanes that are not parallel, are refused, because the simulator's closed forms hold
for straight roads only. All traffic must drive the same way (as in scenarios made from one carriageway). Scenarios far
from the origin (UTM coordinates) are moved near it by whole kilometres, because the simulator's tables are in float32.
"""

from __future__ import annotations

import math
import os
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tacit.envs.traffic.recording import BACKWARDS, DT, KINDS, LOWER, Problem, Recording
from tacit.errors import UserError
from tacit.run.disk import read_text

SOURCE = "CommonRoad scenario"
VERSIONS = ("2017a", "2018a", "2018b", "2020a")
STEPS = (0.01, 1.0)
"""Shortest and longest time step that is resampled, seconds."""
STRAIGHT = 0.1
"""Metres that a boundary may stray from a straight line."""
MAX_BYTES = 1 << 28
MAX_STEPS = 100_000
MAX_ROWS = 5_000_000
"""Frames of static obstacles, which take one line of the file and are there all the time, or of resampled ones."""
_KINDS = {"car": "car", "truck": "truck", "bus": "bus", "parkedVehicle": "static", "constructionZone": "static"}


class _Track(NamedTuple):
    """An obstacle, in the frame of the road."""

    kind: str
    """One of `KINDS`."""
    first: int
    """Its first time step."""
    states: np.ndarray
    """(frames, 4) centre x, y and velocity vx, vy."""
    length: float
    width: float


def load(path: str | os.PathLike[str]) -> Recording:
    """A scenario as a recording with given problems; UserError with the reason for what cannot be driven here."""
    path = Path(path)
    text = read_text(path, max_bytes=MAX_BYTES)  # as text, so that no other encoding hides what is looked for here
    # Entities can make a small file explode, and no scenario needs them.
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise UserError(f"{path} declares entities or a document type, which scenarios do not have; it was not read")
    try:
        root = ET.fromstring(text)
    except (ET.ParseError, ValueError, LookupError) as error:
        raise UserError(f"{path} is not valid XML (truncated or damaged?): {error}") from None
    try:
        return _scenario(path, root)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be a scenario") from None


def source_of(path: str | os.PathLike[str]) -> str:
    """The source of a scenario; its file does not say where the traffic comes from."""
    if not Path(path).is_file():
        raise UserError(f"{path} does not exist")
    return SOURCE


def _scenario(path: Path, root: ET.Element) -> Recording:
    if root.tag != "commonRoad":
        raise UserError(f"expected a <commonRoad> scenario, found <{root.tag[:40]}>")
    version = root.get("commonRoadVersion", "")
    if version not in VERSIONS:
        raise UserError(f"its version is {version[:20]!r}, expected one of {', '.join(VERSIONS)}")
    step = _float(root.get("timeStepSize"), "timeStepSize")
    if not STEPS[0] <= step <= STEPS[1]:
        raise UserError(f"timeStepSize is {step:g}, expected {STEPS[0]:g} to {STEPS[1]:g} seconds")
    clock = _Clock(step, _unit_of_time(root, step) if version == "2017a" else 1.0)
    turn, marks, ends = _road(root)
    moving, standing = _obstacles(root)
    tracks = [_obstacle(node, turn, clock) for node in moving]
    if sum(len(track.states) for track in tracks) * clock.ratio > MAX_ROWS:
        raise UserError(f"its tracks are too long to be resampled from {step:g} s to {DT:g} s")
    tracks = [clock.resampled(track) for track in tracks]
    given = [_problem(node, turn, clock, root) for node in root.findall("planningProblem")]
    if not given:
        raise UserError("there is no <planningProblem>: nothing says where the ego starts and ends")
    last = max([t.first + len(t.states) for t in tracks] + [p.first + p.steps for p in given])
    if len(standing) * last > MAX_ROWS:
        raise UserError(f"{len(standing)} static obstacles for {last} time steps are too many")
    tracks += [_standing(node, turn, last) for node in standing]
    if not tracks:
        raise UserError("there is no vehicle in the scenario")
    states = np.concatenate([track.states for track in tracks])
    counts = np.array([len(track.states) for track in tracks])
    lengths, widths = np.array([track.length for track in tracks]), np.array([track.width for track in tracks])
    reach = np.repeat(lengths, counts), np.repeat(widths, counts)
    return Recording(
        name=path.name.removesuffix(".xml"),
        upper_marks=np.zeros(0),
        lower_marks=np.sort(-marks),
        ids=np.arange(1, len(tracks) + 1),
        kinds=np.array([KINDS[track.kind] for track in tracks]),
        directions=np.full(len(tracks), LOWER),
        lengths=lengths,
        widths=widths,
        first=np.array([track.first for track in tracks]) + 1,
        counts=counts,
        x=states[:, 0] - 0.5 * reach[0],
        y=-states[:, 1] - 0.5 * reach[1],
        vx=states[:, 2],
        vy=-states[:, 3],
        extend=0.0,
        ends=ends,
        problems=tuple(given),
        about={"source": SOURCE, "benchmark": root.get("benchmarkID", ""), "format": version, **clock.about},
    )


# ---------------------------------------------------------------- time


class _Clock:
    """Converts the times of a file to our frames."""

    def __init__(self, step: float, unit: float) -> None:
        self.step, self.unit = step, unit
        self.same = math.isclose(step, DT, rel_tol=1e-6)
        self.ratio = 1.0 if self.same else step / DT
        """Our frames in a time step of the file."""

    @property
    def about(self) -> dict[str, str]:
        return {} if self.same else {"time step": f"{self.step:g} s, resampled to {DT:g} s"}

    def whole(self, text: str | None, what: str) -> int:
        """The number of a time step."""
        value = _float(text, what) / self.unit
        if abs(value - round(value)) > 1e-3 or abs(value) > MAX_STEPS:
            raise UserError(
                f"{what} is {(text or '')[:40]!r}, expected a whole number of at most {MAX_STEPS} time steps"
            )
        return round(value)

    def frame(self, time: int) -> int:
        """Our frame that is nearest to a time step."""
        return round(time * self.ratio)

    def resampled(self, track: _Track) -> _Track:
        if self.same:
            return track
        states, last = track.states, len(track.states) - 1
        begin, end = track.first * self.ratio, (track.first + last) * self.ratio
        frames = np.arange(math.ceil(begin - 1e-6), math.floor(end + 1e-6) + 1)
        if len(frames) == 0:  # it is there for less than a frame
            return track._replace(first=self.frame(track.first), states=states[:1])
        at = np.clip(frames / self.ratio - track.first, 0, last)
        i = np.minimum(at.astype(int), max(last - 1, 0))
        s = (at - i)[:, None]
        a, b = states[i], states[np.minimum(i + 1, last)]
        p, q, v, w = a[:, :2], b[:, :2], self.step * a[:, 2:], self.step * b[:, 2:]
        place = p + s * v + s**2 * (3 * (q - p) - 2 * v - w) + s**3 * (2 * (p - q) + v + w)
        return track._replace(first=int(frames[0]), states=np.column_stack([place, (1 - s) * a[:, 2:] + s * b[:, 2:]]))


def _unit_of_time(root: ET.Element, step: float) -> float:
    """The unit of time in version 2017a: 1 if times are numbers of steps, the time step if they are seconds."""
    for trajectory in root.iter("trajectory"):
        times = [_float(node.text, "time") for node in trajectory.findall("state/time/exact")[:2]]
        if len(times) == 2:
            return step if math.isclose(times[1] - times[0], step, rel_tol=1e-3) else 1.0
    return 1.0


# ---------------------------------------------------------------- the road


class _Turn:
    """A rotation by -angle about the origin, then a shift."""

    def __init__(self, angle: float) -> None:
        self.angle, self.c, self.s = angle, math.cos(angle), math.sin(angle)
        self.shift = np.zeros(2)

    def __call__(self, xy: np.ndarray) -> np.ndarray:
        """(..., 2) turned points."""
        x, y = xy[..., 0], xy[..., 1]
        return np.stack([x * self.c + y * self.s, y * self.c - x * self.s], axis=-1) - self.shift


def _road(root: ET.Element) -> tuple[_Turn, np.ndarray, tuple[float, float]]:
    """The turn that makes the lanes run along +x, the markings (lanes + 1,) then, and begin and end."""
    lanelets = root.findall("lanelet")
    if not lanelets:
        raise UserError("there is no <lanelet>: the road is missing")
    bounds = []
    for node in lanelets:
        for side in ("leftBound", "rightBound"):
            points = np.array([_point(p) for p in node.findall(f"{side}/point")])
            if len(points) < 2:
                raise UserError(f"lanelet {node.get('id')}: its {side} has {len(points)} points, at least 2 are needed")
            bounds.append((node.get("id"), side, points))
    way = bounds[0][2][-1] - bounds[0][2][0]
    turn = _Turn(math.atan2(way[1], way[0]))
    turn.shift = 1000.0 * np.round(turn(np.concatenate([points for *_, points in bounds])).mean(axis=0) / 1000.0)
    heights: list[float] = []
    low, high = math.inf, -math.inf
    for number, side, points in bounds:
        turned = turn(points)
        if (np.diff(turned[:, 0]) <= 0).any():
            raise UserError(
                f"lanelet {number}: its {side} does not run in the direction of the others: two-way roads and "
                "intersections cannot be driven here, only straight roads in one direction"
            )
        y = turned[:, 1]
        if np.abs(y - y.mean()).max() > STRAIGHT:
            raise UserError(
                f"lanelet {number}: its {side} strays {np.abs(y - y.mean()).max():.2f} m from a straight line "
                f"(at most {STRAIGHT} m): only straight, parallel lanes can be driven here"
            )
        heights.append(float(y.mean()))
        low, high = min(low, float(turned[0, 0])), max(high, float(turned[-1, 0]))
    ordered = np.sort(heights)
    groups = np.split(ordered, np.flatnonzero(np.diff(ordered) > 0.5) + 1)
    marks = np.array([group.mean() for group in groups])
    if any(np.ptp(group) > 2 * STRAIGHT for group in groups) or len(marks) < 2:
        raise UserError("the lanelets do not lie side by side; straight, parallel lanes are needed")
    return turn, marks, (low, high)


# ---------------------------------------------------------------- vehicles and problems


def _obstacles(root: ET.Element) -> tuple[list[ET.Element], list[ET.Element]]:
    """(moving, standing) ones."""
    moving, standing = root.findall("dynamicObstacle"), root.findall("staticObstacle")
    for node in root.findall("obstacle"):  # before 2020a
        role = (node.findtext("role") or "").strip()
        if role not in ("dynamic", "static"):
            raise UserError(f"obstacle {node.get('id')}: its role is {role[:20]!r}, expected dynamic or static")
        (moving if role == "dynamic" else standing).append(node)
    return moving, standing


def _rectangle(node: ET.Element, name: str) -> tuple[ET.Element, float, float]:
    """The shape of an obstacle, with its length and width."""
    rectangle = node.find("shape/rectangle")
    if rectangle is None:
        raise UserError(f"{name}: its shape is not a rectangle")
    length, width = (_float(rectangle.findtext(key), f"{name}: {key}") for key in ("length", "width"))
    return rectangle, length, width


def _standing(node: ET.Element, turn: _Turn, frames: int) -> _Track:
    """An obstacle that stands where it is for `frames` frames."""
    name = f"obstacle {node.get('id')}"
    rectangle, length, width = _rectangle(node, name)
    first = node.find("initialState")
    if first is None and rectangle.find("center") is None:
        raise UserError(f"{name} has no <initialState>")
    point = rectangle.find("center") if first is None else first.find("position/point")
    angle = (rectangle.findtext("orientation") or "0") if first is None else first.findtext("orientation/exact")
    place = turn(np.array(_point(point, name)))
    yaw = _float(angle, f"{name}: orientation") - turn.angle
    c, s = abs(math.cos(yaw)), abs(math.sin(yaw))
    states = np.tile([*place, 0.0, 0.0], (frames, 1))
    return _Track("static", 0, states, c * length + s * width, s * length + c * width)


def _obstacle(node: ET.Element, turn: _Turn, clock: _Clock) -> _Track:
    """An obstacle that moves, in time steps of the file."""
    name = f"obstacle {node.get('id')}"
    kind = _KINDS.get((node.findtext("type") or "").strip(), "other")
    _, length, width = _rectangle(node, name)
    if node.find("occupancySet") is not None:
        raise UserError(f"{name}: its motion is an <occupancySet>; only a <trajectory> of exact states can be read")
    nodes = [*node.findall("initialState"), *node.findall("trajectory/state")]
    if not nodes:
        raise UserError(f"{name} has no <initialState>")
    moments = [_state(state, name, clock) for state in nodes]
    times = [moment[0] for moment in moments]
    for before, after in pairwise(times):
        if after != before + 1:
            raise UserError(f"{name}: goes from time step {before} to {after}; expected consecutive steps, sorted")
    if times[0] < 0:
        raise UserError(f"{name} starts at time step {times[0]}; steps count from 0")
    values = np.array([moment[1:] for moment in moments])
    xy = turn(values[:, :2])
    yaw, speed = values[:, 2] - turn.angle, values[:, 3]
    states = np.column_stack([xy, speed * np.cos(yaw), speed * np.sin(yaw)])
    if states[:, 2].min() < BACKWARDS:
        raise UserError(
            f"{name} drives against the direction of the lanes ({states[:, 2].min():.1f} m/s along them): scenarios "
            "with oncoming traffic cannot be driven here"
        )
    return _Track(kind, times[0], states, length, width)


def _state(node: ET.Element, name: str, clock: _Clock) -> tuple[int, float, float, float, float]:
    """Time step, x, y, orientation, speed."""
    time = clock.whole(node.findtext("time/exact"), f"{name}: time")
    where = f"{name} at time step {time}"
    x, y = _point(node.find("position/point"), where)
    orientation = _float(node.findtext("orientation/exact"), f"{where}: orientation")
    return time, x, y, orientation, _float(node.findtext("velocity/exact"), f"{where}: velocity")


def _problem(node: ET.Element, turn: _Turn, clock: _Clock, root: ET.Element) -> Problem:
    """A planning problem in image coordinates, whose y points down."""
    name = f"planning problem {node.get('id')}"
    start, goals = node.find("initialState"), node.findall("goalState") or node.findall("goalRegion/state")
    if start is None or not goals:
        raise UserError(f"{name} needs an <initialState> and a <goalState>")
    time, x, y, orientation, speed = _state(start, name, clock)
    position, angle = turn(np.array([x, y])), orientation - turn.angle
    vx, vy = speed * math.cos(angle), speed * math.sin(angle)
    first = clock.frame(time)
    position = position + DT * (first - time * clock.ratio) * np.array([vx, vy])
    end = max(
        clock.whole(goal.findtext("time/intervalEnd") or goal.findtext("time/exact"), f"{name}: goal time")
        for goal in goals
    )
    if end <= time:
        raise UserError(f"{name}: its goal ends at time step {end}, not after its start at {time}")
    (gx, gy), yaw, half = _goal(goals[0], turn, name, root)
    return Problem(
        first=first + 1,
        state=(position[0], -position[1], vx, -vy),
        goal=(gx, -gy, -yaw, half[0], half[1]),
        steps=max(clock.frame(end) - first, 1),
    )


def _goal(node: ET.Element, turn: _Turn, name: str, root: ET.Element) -> tuple[np.ndarray, float, list[float]]:
    """Centre, angle, and half length and width of the rectangle to be reached."""
    rectangle = node.find("position/rectangle")
    if rectangle is not None:
        centre = turn(np.array(_point(rectangle.find("center"), f"{name}: goal")))
        yaw = _float(rectangle.findtext("orientation") or "0", f"{name}: goal orientation") - turn.angle
        half = [0.5 * _float(rectangle.findtext(key), f"{name}: goal {key}") for key in ("length", "width")]
        if min(half) <= 0:
            raise UserError(f"{name}: its goal has no area")
        return centre, yaw, half
    wanted = {lanelet.get("ref") for lanelet in node.findall("position/lanelet")}
    boxes = [
        turn(np.array([_point(p) for side in ("leftBound", "rightBound") for p in lanelet.findall(f"{side}/point")]))
        for lanelet in root.findall("lanelet")
        if lanelet.get("id") in wanted
    ]
    if not boxes:
        raise UserError(
            f"{name}: its goal is neither a rectangle nor lanelets; goals of other shapes or without a position cannot "
            "be used"
        )
    # Lanelets are straight here, so each is a rectangle; several of them must make up one.
    low, high = (np.array([getattr(box, end)(axis=0) for box in boxes]) for end in ("min", "max"))
    area = float(np.prod(high.max(axis=0) - low.min(axis=0)))
    if float(np.prod(high - low, axis=1).sum()) < 0.97 * area:
        raise UserError(f"{name}: the {len(boxes)} lanelets of its goal do not make up one rectangle")
    ends = low.min(axis=0), high.max(axis=0)
    return 0.5 * (ends[0] + ends[1]), 0.0, [float(part) for part in 0.5 * (ends[1] - ends[0])]


def _point(node: ET.Element | None, where: str = "lanelet") -> tuple[float, float]:
    if node is None:
        raise UserError(f"{where}: a point is missing; only exact positions can be read")
    return _float(node.findtext("x"), f"{where}: x"), _float(node.findtext("y"), f"{where}: y")


def _float(text: str | None, what: str) -> float:
    try:
        value = float(text if text is not None else "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 1e9:
        raise UserError(f"{what} is {(text or '')[:40]!r}, expected a number")
    return value
