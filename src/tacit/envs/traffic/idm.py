"""Traffic that reacts to the ego: an option, off by default, because the original traffic does not.

A vehicle follows its recorded path as long as nobody is in its way. If the ego, or a vehicle that has itself been held
up, drives ahead of it in its lane, it brakes by the intelligent driver model (Treiber, Hennecke, Helbing 2000),

    a = A (1 - (v / v0)^4 - (s* / gap)^2),      s* = s0 + v T + v (v - v_ahead) / (2 sqrt(A B)),

with v0 the speed that it was recorded with; it takes the lower of this and the acceleration that brings it back to its
recorded speed. What is kept per vehicle is its lag: how far it is behind its recorded place, and how much slower. It
catches up in speed, not in place. Lateral motion stays recorded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.envs.traffic.geometry import EGO_LENGTH
from tacit.envs.traffic.recording import DT

Array = NDArray[Any]

MAX_ACCELERATION = 1.5
COMFORTABLE = 2.0
HARDEST = 8.0
"""Hardest braking, in m/s^2."""
HEADWAY = 1.0
STANDSTILL = 2.0
RECOVERY = 2.0
"""Seconds in which a vehicle returns to its recorded speed."""
HELD_UP = 0.05
"""Metres of lag from which on others react to a vehicle."""


class Near(NamedTuple):
    """The vehicles near each ego; (N, K) each."""

    there: Array
    x: Array
    half: Array
    """Half their length."""
    lane: Array


class Ego(NamedTuple):
    """(N,) each."""

    x: Array
    speed: Array
    lane: Array


class Reactions:
    """Lag of every vehicle near each of N egos, kept by slot; (N, slots) each."""

    def __init__(self, n: int, slots: int) -> None:
        self.vehicle = np.full((n, slots), -2.0, np.float32)
        self.shift = np.zeros((n, slots), np.float32)
        self.slower = np.zeros((n, slots), np.float32)
        self.moved = np.zeros((n, slots), np.float32)

    def clear(self, rows: Array) -> None:
        self.vehicle[rows] = -2.0
        self.shift[rows] = self.slower[rows] = self.moved[rows] = 0.0

    def look_up(self, slot: Array, vehicle: Array, which: slice = slice(None)) -> tuple[Array, Array, Array]:
        """Lag in place and speed, and its last change, of the vehicles (N, K) that are in these slots (N, K)."""
        slot = slot.astype(np.int64)
        same = np.take_along_axis(self.vehicle[which], slot, axis=1) == vehicle
        shift, slower, moved = (
            np.where(same, np.take_along_axis(values[which], slot, axis=1), np.float32(0))
            for values in (self.shift, self.slower, self.moved)
        )
        return shift, slower, moved

    def step(self, slot: Array, vehicle: Array, speed: Array, near: Near, ego: Ego) -> None:
        """One time step of the vehicles (N, K) near each ego; `speed` is that of the moment, lag included."""
        shift, slower, _ = self.look_up(slot, vehicle)
        recorded = np.maximum(speed - slower, 0.1)
        gap, ahead = self._obstacle(near, speed, shift, ego)
        approach = speed * (speed - ahead) / (2 * np.sqrt(MAX_ACCELERATION * COMFORTABLE))
        wished = STANDSTILL + np.maximum(speed * HEADWAY + approach, 0.0)
        interaction = (wished / np.maximum(gap, 0.5)) ** 2
        braking = MAX_ACCELERATION * (1 - (speed / recorded) ** 4 - interaction)
        recovering = -slower / RECOVERY
        a = np.where(np.isfinite(gap), np.minimum(recovering, np.maximum(braking, -HARDEST)), recovering)
        # Nobody drives backwards, and nobody overtakes his own recording.
        new = np.clip(slower + DT * a, -recorded, 0.0)
        moved = 0.5 * DT * (slower + new)
        order = slot.astype(np.int64)
        n, k = np.nonzero(near.there)
        target = order[n, k]
        # Slots of vehicles that have left keep their old number, which nobody asks for.
        self.vehicle[n, target] = vehicle[n, k]
        self.shift[n, target] = (shift + moved)[n, k]
        self.slower[n, target] = new[n, k]
        self.moved[n, target] = moved[n, k]

    @staticmethod
    def _obstacle(near: Near, speed: Array, shift: Array, ego: Ego) -> tuple[Array, Array]:
        """(N, K) gap to, and speed of, the nearest thing ahead in the lane that is not where the recording has it."""
        there, x, half, lane = near
        held = there & (shift < -HELD_UP)
        dx = x[:, None, :] - x[:, :, None]
        ahead = held[:, None, :] & (dx > 0) & (lane[:, None, :] == lane[:, :, None])
        gaps = np.where(ahead, dx - half[:, None, :] - half[:, :, None], np.inf)
        nearest = gaps.argmin(axis=2)
        gap = np.take_along_axis(gaps, nearest[:, :, None], axis=2)[:, :, 0]
        their_speed = np.take_along_axis(speed, nearest, axis=1)
        to_ego = ego.x[:, None] - x
        behind = (to_ego > 0) & (lane == ego.lane[:, None])
        ego_gap = np.where(behind, to_ego - half - 0.5 * EGO_LENGTH, np.inf)
        return np.minimum(gap, ego_gap), np.where(ego_gap <= gap, ego.speed[:, None], their_speed)
