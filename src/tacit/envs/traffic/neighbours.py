"""Who drives around whom: for each vehicle in each frame, the neighbours in its lane and in the lanes beside it.

All vehicles of all frames are sorted once by (direction, frame, lane, position along the road); a neighbour is then
found by bisection, for all rows at once.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tacit.envs.traffic.recording import UPPER, Floats, Ints, Recording

SIDES = {"same": 0, "left": -1, "right": 1}
"""Change of the lane number, which counts from the leftmost lane."""
_SPAN = 1e5
"""Longer than any road."""


class Neighbours:
    """Rows of neighbours, -1 where there is none; `s` is the centre's position in driving direction."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        vehicle = recording.vehicle
        self.sign = np.where(recording.directions[vehicle] == UPPER, -1.0, 1.0)
        self.half = 0.5 * recording.lengths[vehicle]
        self.s = self.sign * (recording.x + self.half)
        self.speed = self.sign * recording.vx
        self.lane = recording.lanes()
        self._group = (recording.directions[vehicle] * (recording.last_frame + 2) + recording.frames) * 64 + self.lane
        key = self._group * _SPAN + (self.s - self.s.min())
        self._order = np.argsort(key, kind="stable")
        self._sorted_group = self._group[self._order]
        self._sorted_key = key[self._order]
        self._key = key

    @cached_property
    def leader(self) -> Ints:
        """(rows,) the next vehicle ahead in the same lane."""
        return self._same_lane(1)

    @cached_property
    def follower(self) -> Ints:
        return self._same_lane(-1)

    @cached_property
    def gap(self) -> Floats:
        """(rows,) metres from bumper to bumper to the leader; infinity without one."""
        has_leader = self.leader >= 0
        ahead = np.where(has_leader, self.leader, 0)
        return np.where(has_leader, self.s[ahead] - self.s - self.half - self.half[ahead], np.inf)

    def beside(self, side: str) -> tuple[Ints, Ints, Ints]:
        """(rows,) each: preceding, alongside (overlapping along the road) and following on the "left" or "right"."""
        shift = SIDES[side]
        group = self._group + shift
        at = np.searchsorted(self._sorted_key, self._key + shift * _SPAN)
        ahead = [self._pick(at + k, group) for k in (0, 1)]
        behind = [self._pick(at - 1 - k, group) for k in (0, 1)]
        overlaps_ahead, overlaps_behind = self._overlaps(ahead[0]), self._overlaps(behind[0])
        alongside = np.where(overlaps_ahead, ahead[0], np.where(overlaps_behind, behind[0], -1))
        preceding = np.where(overlaps_ahead, ahead[1], ahead[0])
        following = np.where(overlaps_behind, behind[1], behind[0])
        return preceding, alongside, following

    def _same_lane(self, step: int) -> Ints:
        position = np.empty(len(self._order), np.int64)
        position[self._order] = np.arange(len(self._order))
        return self._pick(position + step, self._group)

    def _pick(self, at: Ints, group: Ints) -> Ints:
        """The row at a place of the order, if it is of that direction, frame and lane."""
        inside = (at >= 0) & (at < len(self._order))
        safe = np.where(inside, at, 0)
        return np.where(inside & (self._sorted_group[safe] == group), self._order[safe], -1)

    def _overlaps(self, other: Ints) -> np.ndarray:
        safe = np.where(other >= 0, other, 0)
        return (other >= 0) & (np.abs(self.s[safe] - self.s) < self.half + self.half[safe])
