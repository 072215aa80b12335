"""CommonRoad scenarios (XML, version 2020a) on straight parallel lanes, with their planning problems.

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
from tacit.run.storage import read_bytes

SOURCE = "CommonRoad scenario"
STRAIGHT = 0.1
"""Metres that a boundary may stray from a straight line."""
MAX_BYTES = 1 << 28
MAX_STEPS = 100_000
MAX_ROWS = 5_000_000
"""Frames of static obstacles, which take one line of the file and are there all the time."""
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
    data = read_bytes(path)
    if len(data) > MAX_BYTES:
        raise UserError(f"{path} has more than {MAX_BYTES >> 20} MB and was not read")
    try:
        # As text, so that no other encoding hides what is looked for here.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None
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


def _scenario(path: Path, root: ET.Element) -> Recording:
    if root.tag != "commonRoad":
        raise UserError(f"expected a <commonRoad> scenario, found <{root.tag[:40]}>")
    version = root.get("commonRoadVersion", "")
    if version != "2020a":
        raise UserError(f"its version is {version[:20]!r}, expected '2020a': convert it with commonroad-io")
    step = _float(root.get("timeStepSize"), "timeStepSize")
    if not math.isclose(step, DT, rel_tol=1e-6):
        raise UserError(f"timeStepSize is {step:g}, expected {DT:g}: 25 frames per second")
    turn, marks, ends = _road(root)
    tracks = [_obstacle(node, turn) for node in root.findall("dynamicObstacle")]
    given = [_problem(node, turn) for node in root.findall("planningProblem")]
    if not given:
        raise UserError("there is no <planningProblem>: nothing says where the ego starts and ends")
    last = max([t.first + len(t.states) for t in tracks] + [p.first + p.steps for p in given])
    standing = root.findall("staticObstacle")
    if len(standing) * last > MAX_ROWS:
        raise UserError(f"{len(standing)} static obstacles for {last} time steps are too many")
    for node in standing:
        tracks.append(_obstacle(node, turn, frames=last))
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
        about={"source": SOURCE, "benchmark": root.get("benchmarkID", "")},
    )


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
                f"lanelet {number}: its {side} does not run in the direction of the others; straight one-way roads only"
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


def _obstacle(node: ET.Element, turn: _Turn, frames: int | None = None) -> _Track:
    """One obstacle; a static one stands where it is for `frames` frames."""
    name = f"obstacle {node.get('id')}"
    kind = _KINDS.get((node.findtext("type") or "").strip(), "other")
    rectangle = node.find("shape/rectangle")
    if rectangle is None:
        raise UserError(f"{name}: its shape is not a rectangle")
    first = node.find("initialState")
    if first is None:
        raise UserError(f"{name} has no <initialState>")
    length, width = (_float(rectangle.findtext(key), f"{name}: {key}") for key in ("length", "width"))
    if frames is not None:
        place = turn(np.array(_point(first.find("position/point"), name)))
        angle = _float(first.findtext("orientation/exact"), f"{name}: orientation") - turn.angle
        c, s = abs(math.cos(angle)), abs(math.sin(angle))
        states = np.tile([*place, 0.0, 0.0], (frames, 1))
        return _Track("static", 0, states, c * length + s * width, s * length + c * width)
    if node.find("occupancySet") is not None:
        raise UserError(f"{name}: its motion is an <occupancySet>; only a <trajectory> of exact states can be read")
    moments = [_state(state, name) for state in (first, *node.findall("trajectory/state"))]
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


def _state(node: ET.Element, name: str) -> tuple[int, float, float, float, float]:
    """Time step, x, y, orientation, speed."""
    time = _whole(node.findtext("time/exact"), f"{name}: time")
    where = f"{name} at time step {time}"
    x, y = _point(node.find("position/point"), where)
    orientation = _float(node.findtext("orientation/exact"), f"{where}: orientation")
    return time, x, y, orientation, _float(node.findtext("velocity/exact"), f"{where}: velocity")


def _problem(node: ET.Element, turn: _Turn) -> Problem:
    """A planning problem in image coordinates, whose y points down."""
    name = f"planning problem {node.get('id')}"
    start, goals = node.find("initialState"), node.findall("goalState")
    if start is None or not goals:
        raise UserError(f"{name} needs an <initialState> and a <goalState>")
    time, x, y, orientation, speed = _state(start, name)
    position, angle = turn(np.array([x, y])), orientation - turn.angle
    rectangle = goals[0].find("position/rectangle")
    if rectangle is None:
        raise UserError(f"{name}: its goal is not a rectangle; goals in lanelets or without a position cannot be used")
    centre = turn(np.array(_point(rectangle.find("center"), f"{name}: goal")))
    yaw = _float(rectangle.findtext("orientation") or "0", f"{name}: goal orientation") - turn.angle
    half = [0.5 * _float(rectangle.findtext(key), f"{name}: goal {key}") for key in ("length", "width")]
    if min(half) <= 0:
        raise UserError(f"{name}: its goal has no area")
    end = max(
        _whole(goal.findtext("time/intervalEnd") or goal.findtext("time/exact"), f"{name}: goal time") for goal in goals
    )
    if end <= time:
        raise UserError(f"{name}: its goal ends at time step {end}, not after its start at {time}")
    return Problem(
        first=time + 1,
        state=(position[0], -position[1], speed * math.cos(angle), -(speed * math.sin(angle))),
        goal=(centre[0], -centre[1], -yaw, half[0], half[1]),
        steps=end - time,
    )


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


def _whole(text: str | None, what: str) -> int:
    value = _float(text, what)
    if value != int(value) or abs(value) > MAX_STEPS:
        raise UserError(f"{what} is {(text or '')[:40]!r}, expected a whole number of at most {MAX_STEPS}")
    return int(value)
