"""The 74 numbers that the ego sees, in the order of the original task, on a straight road.

  0- 3   clearance to the goal's rectangle along and across the road (+ ahead, + left), each with its last decrease
  4- 5   goal reached, time out
  6-11   velocity, last acceleration (x along the road, y to the left), friction violation (never), remaining steps
 12-29   the nearest vehicles [left-follow, same-follow, right-follow, left-lead, same-lead, right-lead] in the ego's
         lane and those beside it, among those whose centre is within 100 m: relative speed, distance of the two
         rectangles (100: nobody), kind (0 nobody, 1 car, 4 truck, ...)
 30-31   collision, off the road
 32-37   distances to the markings of the lane and to the edges of the road, offset from the lane's centre, curvature
 38-52   the reference path at s + (-1000, 0, 5, 15, 100) m: five points as the ego sees them, five angles
 53-70   the centre lines of the current and of the next lane of the route at s + (-1000, 0, 1000) m
 71-73   what is left along the reference path, offset from it, and 1 (on the map)

The reference path leads from the first lane to the goal's: with n lanes on the way, each gets an n-th of the road, and
ramps of 10 m join them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RADIUS = 100.0
NOBODY = 100.0
PATH_AT = np.array([-1000.0, 0.0, 5.0, 15.0, 100.0])
LANE_AT = np.array([-1000.0, 0.0, 1000.0])
HALF_RAMP = 5.0
AROUND = ("left_follow", "same_follow", "right_follow", "left_lead", "same_lead", "right_lead")


def _names() -> tuple[str, ...]:
    names = ["distance_goal_long", "distance_goal_long_advance", "distance_goal_lat", "distance_goal_lat_advance"]
    names += ["is_goal_reached", "is_time_out", "v_ego_x", "v_ego_y", "a_ego_x", "a_ego_y"]
    names += ["is_friction_violation", "remaining_steps"]
    names += [f"{what}_{who}" for what in ("v_rel", "p_rel", "vehicle_type") for who in AROUND]
    names += ["is_collision", "is_off_road", "left_marker_distance", "right_marker_distance"]
    names += ["left_road_edge_distance", "right_road_edge_distance", "lat_offset", "lane_curvature"]
    names += [f"path_{axis}_{i}" for i in range(5) for axis in "xy"] + [f"path_angle_{i}" for i in range(5)]
    names += [f"route{lane}_{axis}_{i}" for lane in range(2) for i in range(3) for axis in "xy"]
    names += [f"route{lane}_angle_{i}" for lane in range(2) for i in range(3)]
    return (*names, "path_to_goal", "path_offset", "path_in_domain")


FEATURES = _names()
SIZE = len(FEATURES)
GOAL, TIME_OUT, VELOCITY, REMAINING = 4, 5, slice(6, 8), 11
V_REL, P_REL, KINDS = slice(12, 18), slice(18, 24), slice(24, 30)
LEAD_GAP = FEATURES.index("p_rel_same_lead")
COLLISION, OFF_ROAD = 30, 31


class Course(NamedTuple):
    """What stays the same during an episode; (N,) each unless said otherwise."""

    goal_x: Floats
    goal_y: Floats
    goal_c: Floats
    """(cos, sin) of the goal's angle."""
    goal_s: Floats
    goal_l: Floats
    """Half length."""
    goal_w: Floats
    reach_x: Floats
    """Half extent of the goal along and across the road."""
    reach_y: Floats
    x0: Floats
    """Begin and end of the road."""
    x1: Floats
    marks: Floats
    """(N, lanes + 1) markings, descending, padded below."""
    centres: Floats
    """(N, lanes) of the lanes."""
    right_edge: Floats
    lanes: Ints
    first_lane: Ints
    goal_lane: Ints

    def at(self, rows: Ints) -> Course:
        return Course._make(values[rows] for values in self)


def lane_of(marks: Floats, lanes: Ints, y: Floats) -> Ints:
    """(N,) lane by the markings (N, most lanes + 1); 0 = leftmost, clipped to the road, which has `lanes` (N,)."""
    return np.minimum((marks[:, 1:] > y[:, None]).sum(axis=1), lanes - 1)


def goal_clearance(course: Course, x: Floats, y: Floats) -> Floats:
    """(2, N) signed distances along and across to the goal's bounding rectangle, 0 within its extent."""
    along, across = course.goal_x - x, course.goal_y - y
    # What is left when a number is moved towards 0 by the reach: d - clip(d, -reach, reach).
    return np.stack(
        [
            along - np.minimum(np.maximum(along, -course.reach_x), course.reach_x),
            across - np.minimum(np.maximum(across, -course.reach_y), course.reach_y),
        ]
    )


def at_goal(course: Course, x: Floats, y: Floats) -> NDArray[np.bool_]:
    """(N,) is the ego's centre inside the goal's rectangle?"""
    dx, dy = x - course.goal_x, y - course.goal_y
    along, across = dx * course.goal_c + dy * course.goal_s, dy * course.goal_c - dx * course.goal_s
    return (np.abs(along) <= course.goal_l) & (np.abs(across) <= course.goal_w)


def reference(course: Course, x: Floats) -> tuple[Floats, Floats]:
    """Y and angle (N, k) of the reference path at X = x (N, k)."""
    first = course.first_lane[:, None]
    rows = np.arange(len(x))[:, None]
    y, angle = np.repeat(course.centres[rows, first], x.shape[1], axis=1), np.zeros(x.shape)
    change = np.flatnonzero(course.goal_lane != course.first_lane)
    if len(change):
        y[change], angle[change] = _lane_changing(course.at(change), x[change])
    return y, angle


def _lane_changing(course: Course, x: Floats) -> tuple[Floats, Floats]:
    hops = (course.goal_lane - course.first_lane)[:, None]
    pieces = np.abs(hops) + 1
    piece = (course.x1 - course.x0)[:, None] / pieces
    s = x - course.x0[:, None]
    before = np.clip(np.floor((s - HALF_RAMP) / piece), 0, pieces - 1).astype(np.int64)
    after = np.clip(np.floor((s + HALF_RAMP) / piece), 0, pieces - 1).astype(np.int64)
    rows, sign, first = np.arange(len(x))[:, None], np.sign(hops), course.first_lane[:, None]
    y0, y1 = course.centres[rows, first + sign * before], course.centres[rows, first + sign * after]
    # On the ramp around the joint at s = after * piece; elsewhere both ends are the same lane.
    part = np.clip((s - (after * piece - HALF_RAMP)) / (2 * HALF_RAMP), 0.0, 1.0)
    return y0 + part * (y1 - y0), np.arctan2(y1 - y0, 2 * HALF_RAMP)


def route_features(
    out: NDArray[np.float32], course: Course, x: Floats, y: Floats, c: Floats, s: Floats, yaw: Floats, lane: Ints
) -> Floats:
    """Fill in features 38 to 73; returns the offset from the reference path (N,)."""
    n = len(x)
    x0, x1 = course.x0[:, None], course.x1[:, None]
    at = np.minimum(np.maximum(x[:, None] + PATH_AT, x0), x1)
    path_y, angle = reference(course, at)
    low, high = np.minimum(course.first_lane, course.goal_lane), np.maximum(course.first_lane, course.goal_lane)
    current = np.minimum(np.maximum(lane, low), high)
    lanes = np.stack([current, current + np.sign(course.goal_lane - current)], axis=1)
    centres = course.centres[np.arange(n)[:, None], lanes]

    # Eleven points: five of the path, three of each lane; then all of them as the ego sees them.
    dx, dy = np.empty((n, 11)), np.empty((n, 11))
    dx[:, :5], dy[:, :5] = at - x[:, None], path_y - y[:, None]
    dx[:, 5:8] = dx[:, 8:] = np.minimum(np.maximum(x[:, None] + LANE_AT, x0), x1) - x[:, None]
    dy[:, 5:] = np.repeat(centres - y[:, None], 3, axis=1)
    cos, sin = c[:, None], s[:, None]
    seen = np.stack([dx * cos + dy * sin, dy * cos - dx * sin], axis=2).reshape(n, 22)
    out[:, 38:48], out[:, 53:65] = seen[:, :10], seen[:, 10:]
    out[:, 48:53] = angle - yaw[:, None]
    out[:, 65:71] = -yaw[:, None]

    offset = y - path_y[:, 1]
    out[:, 71], out[:, 72], out[:, 73] = course.goal_x - x, offset, 1.0
    return offset


def lane_features(out: NDArray[np.float32], course: Course, y: Floats, lane: Ints) -> None:
    """Fill in features 32 to 37."""
    rows = np.arange(len(y))
    out[:, 32], out[:, 33] = np.abs(course.marks[rows, lane] - y), np.abs(y - course.marks[rows, lane + 1])
    out[:, 34], out[:, 35] = np.abs(course.marks[:, 0] - y), np.abs(y - course.right_edge)
    out[:, 36], out[:, 37] = y - course.centres[rows, lane], 0.0
