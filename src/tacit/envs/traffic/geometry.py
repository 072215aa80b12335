"""Boxes and motion in the plane, for arrays of any shape: point mass, swept boxes, separating axes, distances.

A box is (x, y, c, s, l, w): centre, direction (c, s) = (cos, sin) of its angle, half length along the direction and
half width across it. Everything is elementwise, in the precision of what is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tacit.envs.traffic.recording import DT

Array = Any
"""NumPy arrays that broadcast against each other."""

EGO_LENGTH, EGO_WIDTH = 4.508, 1.610
"""Size of the ego car, a BMW 320i, in metres."""
MAX_ACCELERATION = 11.5
"""Largest acceleration in any direction, in m/s^2 (the friction circle)."""
_LARGEST = MAX_ACCELERATION - 1e-6


_SIGNS = np.array([[1, 1, -1, -1], [1, -1, 1, -1]], np.float32)


class Box(NamedTuple):
    x: Array
    y: Array
    c: Array
    s: Array
    l: Array  # noqa: E741
    w: Array


def acceleration(action: Array) -> Array:
    """(..., 2) accelerations from actions, which are clipped to [-1, 1]^2 and then to the friction circle."""
    a = MAX_ACCELERATION * np.clip(action, -1.0, 1.0)
    norm = np.sqrt(a[..., 0] ** 2 + a[..., 1] ** 2)
    scale = np.where(norm > MAX_ACCELERATION, _LARGEST / np.maximum(norm, 1e-12), 1.0)
    return a * scale[..., None]


def advance(position: Array, velocity: Array, a: Array) -> tuple[Array, Array]:
    """Position and velocity after one step of constant acceleration: the exact double integrator."""
    return position + velocity * DT + (0.5 * DT * DT) * a, velocity + a * DT


def direction(vx: Array, vy: Array) -> tuple[Array, Array]:
    """(cos, sin) of the angle atan2(vy, vx); (1, 0) at rest."""
    speed = np.sqrt(vx * vx + vy * vy)
    moving = speed > 0
    safe = np.where(moving, speed, 1.0)
    return np.where(moving, vx / safe, 1.0), vy / safe


def swept(before: Box, after: Box) -> Box:
    """The box around both poses: mean angle, centre between them, just large enough along and across for either.

    This is what CommonRoad's collision checker puts around two successive poses of a vehicle.
    """
    c, s = direction(before.c + after.c, before.s + after.s)
    # Opposite directions have no mean; a box turned by half a turn is the same box.
    opposite = (before.c + after.c == 0) & (before.s + after.s == 0)
    c, s = np.where(opposite, after.c, c), np.where(opposite, after.s, s)
    x, y = 0.5 * (before.x + after.x), 0.5 * (before.y + after.y)
    dx, dy = 0.5 * (after.x - before.x), 0.5 * (after.y - before.y)
    along, across = np.abs(dx * c + dy * s), np.abs(dy * c - dx * s)
    half = []
    for box in (before, after):
        cos, sin = np.abs(box.c * c + box.s * s), np.abs(box.s * c - box.c * s)
        half.append((box.l * cos + box.w * sin, box.l * sin + box.w * cos))
    (l0, w0), (l1, w1) = half
    return Box(x, y, c, s, along + np.maximum(l0, l1), across + np.maximum(w0, w1))


def intersect(a: Box, b: Box) -> Array:
    """Do the boxes touch? Separating axes: two rectangles are apart iff a side of one separates them."""
    dx, dy = b.x - a.x, b.y - a.y
    cos, sin = np.abs(a.c * b.c + a.s * b.s), np.abs(a.c * b.s - a.s * b.c)
    return (
        (np.abs(dx * a.c + dy * a.s) <= a.l + b.l * cos + b.w * sin)
        & (np.abs(dy * a.c - dx * a.s) <= a.w + b.l * sin + b.w * cos)
        & (np.abs(dx * b.c + dy * b.s) <= b.l + a.l * cos + a.w * sin)
        & (np.abs(dy * b.c - dx * b.s) <= b.w + a.l * sin + a.w * cos)
    )


def distance(a: Box, b: Box) -> Array:
    """Distance between two boxes, 0 if they touch, else the smallest from a corner of one to the other."""
    nearest = np.minimum(_corners_to_box(a, b), _corners_to_box(b, a))
    return np.where(intersect(a, b), 0.0, nearest)


def _corners_to_box(a: Box, b: Box) -> Array:
    """Smallest distance from the corners of a to the box b."""
    dx, dy = a.x - b.x, a.y - b.y
    x, y = dx * b.c + dy * b.s, dy * b.c - dx * b.s
    cos, sin = a.c * b.c + a.s * b.s, a.s * b.c - a.c * b.s
    # The four corners on a new first axis: few calls on larger arrays.
    along, across = _SIGNS.reshape(2, 4, *([1] * np.ndim(x)))
    out_x = np.maximum(np.abs(x + along * (a.l * cos) - across * (a.w * sin)) - b.l, 0.0)
    out_y = np.maximum(np.abs(y + along * (a.l * sin) + across * (a.w * cos)) - b.w, 0.0)
    return np.sqrt((out_x * out_x + out_y * out_y).min(axis=0))


def height(box: Box) -> Array:
    """Half the extent of a box along y."""
    return np.abs(box.s) * box.l + np.abs(box.c) * box.w
