"""N cars in recorded traffic, stepped together in plain NumPy.

The traffic is replayed and does not react (unless `reactive`, see `idm.py`). All N egos are looked up in one table of
rows, one row a vehicle and frame; what a step needs of the at most K vehicles around each is one gather (N, K).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tacit.envs.traffic import layout
from tacit.envs.traffic import observation as ob
from tacit.envs.traffic.geometry import (
    EGO_LENGTH,
    EGO_WIDTH,
    Box,
    acceleration,
    advance,
    direction,
    distance,
    height,
    intersect,
    swept,
)
from tacit.envs.traffic.idm import Reactions
from tacit.envs.traffic.layout import HALF_LENGTH, HALF_WIDTH, LANE, VEHICLE, VX, VY, Traffic, X, Y
from tacit.envs.traffic.observation import Course, Floats, Ints

Flags = NDArray[np.bool_]
Table = NDArray[np.float32]

OUTCOMES = ("running", "off-road", "collision", "goal", "time-out")
"""How an episode stands; where several ends coincide, the first of them in this order is named."""
REWARDS = {"goal": 50.0, "collision": -50.0, "off-road": -20.0, "time-out": -10.0}
TOO_FAR = 20.0
"""Metres beside the reference path that end an episode as out of time."""
_L, _W = 0.5 * EGO_LENGTH, 0.5 * EGO_WIDTH
_REACH_X, _REACH_Y = 30.0, 8.0
"""Centres further apart than this cannot belong to swept boxes that touch."""


class Outcome(NamedTuple):
    """What a step gave; (N,) each, observations (N, 74)."""

    obs: Table
    reward: Floats
    ended: Flags
    code: NDArray[np.int8]
    """Index into `OUTCOMES`."""


class Around(NamedTuple):
    """The vehicles near each ego; (N, K) each, float32 but for the rows."""

    rows: Ints
    """Rows of the table."""
    there: Flags
    """False for padding and for the vehicle that the ego replaces."""
    x: Table
    y: Table
    l: Table  # noqa: E741
    w: Table
    lane: Table
    shift: Table | None
    """How far reactive traffic is from its recorded place, and (`slower`) from its recorded speed."""
    slower: Table | None
    moved: Table | None
    """Change of `shift` in the last step."""


class Simulator:
    """The state of N egos, and its transition. Problems are assigned with `start`."""

    def __init__(self, traffic: Traffic, n: int, *, reactive: bool = False) -> None:
        self.traffic, self.n = traffic, n
        self.problem = np.zeros(n, np.int64)
        self.t = np.zeros(n, np.int64)
        self.position = np.zeros((n, 2))
        self.velocity = np.zeros((n, 2))
        self.reactions = Reactions(n, int(traffic.slots.max()) + 1) if reactive else None
        width = traffic.most
        # Rows (r, ..., r + K - 1) of the table as entry r of a view: a gather of N entries copies N runs of K numbers.
        padded = np.pad(traffic.table, ((0, 0), (0, width)), constant_values=layout.FAR)
        self._table = padded
        stride = padded.strides
        shape = (padded.shape[1] - width + 1, layout.NEEDED, width)
        self._windows = as_strided(padded, shape, (stride[1], stride[0], stride[1]), writeable=False)
        self._slots = np.arange(width)
        roads = traffic.roads
        self._ends = np.array([road.x_range for road in roads])
        self._right = np.array([road.marks[-1] for road in roads])
        self._lanes = np.array([len(road.marks) - 1 for road in roads])
        self.course = self._course(self.problem)

    # ------------------------------------------------------------ episodes

    def start(self, rows: Ints, problems: Ints) -> None:
        """Put the egos `rows` at the start of their problems."""
        p = self.traffic.problems
        self.problem[rows] = problems
        self.t[rows] = 0
        self.position[rows] = np.stack([p.x[problems], p.y[problems]], axis=1)
        self.velocity[rows] = np.stack([p.vx[problems], p.vy[problems]], axis=1)
        if self.reactions is not None:
            self.reactions.clear(rows)
        self.refresh(rows)

    def refresh(self, rows: Ints) -> None:
        """Look up again what follows from the problems of `rows`."""
        for whole, part in zip(self.course, self._course(self.problem[rows]), strict=True):
            whole[rows] = part

    def _course(self, problem: Ints) -> Course:
        p, marks = self.traffic.problems, self.traffic.marks
        part = p.part[problem]
        road, lanes = marks[part], self._lanes[part]
        return Course(
            goal_x=p.goal_x[problem],
            goal_y=p.goal_y[problem],
            goal_c=np.cos(p.goal_yaw[problem]),
            goal_s=np.sin(p.goal_yaw[problem]),
            goal_l=p.goal_l[problem],
            goal_w=p.goal_w[problem],
            x0=self._ends[part, 0],
            x1=self._ends[part, 1],
            marks=road,
            right_edge=self._right[part],
            lanes=lanes,
            first_lane=ob.lane_of(road, lanes, p.y[problem]),
            goal_lane=ob.lane_of(road, lanes, p.goal_y[problem]),
        )

    def initial(self, rows: Ints) -> Table:
        """(len(rows), 74) observations of egos that have just been started."""
        if len(rows) < self.n:
            return self._only(rows).initial(np.arange(len(rows)))
        quiet = np.zeros(self.n, np.bool_)
        obs = np.empty((self.n, ob.SIZE), np.float32)
        self._observe(obs, self._around(), np.zeros((self.n, 2)))
        clearance = ob.goal_clearance(self.course, self.position[:, 0], self.position[:, 1])
        self._flags(obs, clearance, clearance, quiet, quiet, quiet, quiet)
        return obs

    def _only(self, rows: Ints) -> Simulator:
        """A view of some of the egos as a simulator of its own, sharing the traffic."""
        part = object.__new__(Simulator)
        part.__dict__.update(self.__dict__)
        part.n = len(rows)
        for name in ("problem", "t", "position", "velocity"):
            setattr(part, name, getattr(self, name)[rows])
        part.course = Course._make(values[rows] for values in self.course)
        part.reactions = None if self.reactions is None else self.reactions.only(rows)
        return part

    # ------------------------------------------------------------ one step

    def step(self, actions: Floats) -> Outcome:
        """Move all egos by one frame for actions (N, 2). Egos whose episode has ended must be started anew."""
        course, before = self.course, self.position
        a = acceleration(np.asarray(actions, np.float64))
        clearance = ob.goal_clearance(course, before[:, 0], before[:, 1])
        was = self._ego()
        if self.reactions is not None:
            self._react()
        self.position, self.velocity = advance(before, self.velocity, a)
        self.t += 1
        around = self._around()
        x, y = self.position[:, 0], self.position[:, 1]

        obs = np.empty((self.n, ob.SIZE), np.float32)
        offset = self._observe(obs, around, a)
        body = swept(was, self._ego())
        crashed = self._collisions(body, around)
        reach = height(body)
        off_road = (body.y + reach > course.marks[:, 0]) | (body.y - reach < course.right_edge)
        goal = ob.at_goal(course, x, y)
        lost = (x < course.x0) | (x > course.x1) | (np.abs(offset) > TOO_FAR)
        late = ((self.t >= self.traffic.problems.steps[self.problem]) & ~goal) | lost
        self._flags(obs, clearance, ob.goal_clearance(course, x, y), goal, late, crashed, off_road)

        reward = 50.0 * goal - 50.0 * crashed - 20.0 * off_road - 10.0 * late
        code = np.where(off_road, 1, np.where(crashed, 2, np.where(goal, 3, np.where(late, 4, 0)))).astype(np.int8)
        return Outcome(obs, reward, code > 0, code)

    def _ego(self) -> Box:
        c, s = direction(self.velocity[:, 0], self.velocity[:, 1])
        return Box(self.position[:, 0], self.position[:, 1], c, s, _L, _W)

    def _frame(self) -> Ints:
        return self.traffic.problems.frame[self.problem] + self.t

    def _around(self) -> Around:
        frame = self._frame()
        first = self.traffic.starts[frame]
        near = self._windows[first]
        x, y, half_l, half_w, lane, vehicle = (near[:, i] for i in (X, Y, HALF_LENGTH, HALF_WIDTH, LANE, VEHICLE))
        there = self._slots < (self.traffic.starts[frame + 1] - first)[:, None]
        there &= vehicle != self.traffic.problems.ego[self.problem].astype(np.float32)[:, None]
        rows = first[:, None] + self._slots
        shift = slower = moved = None
        if self.reactions is not None:
            slot = self.traffic.slots[np.minimum(rows, len(self.traffic.slots) - 1)]
            shift, slower, moved = self.reactions.look_up(slot, vehicle)
            x = x + shift
        return Around(rows, there, x, y, half_l, half_w, lane, shift, slower, moved)

    def _react(self) -> None:
        """Let reactive traffic decide on its acceleration, from the present frame to the next."""
        assert self.reactions is not None
        around = self._around()
        rows = np.minimum(around.rows, self._table.shape[1] - 1)
        speed = self._table[VX, rows] + around.slower
        lane = ob.lane_of(self.course.marks, self.course.lanes, self.position[:, 1])
        slot = self.traffic.slots[np.minimum(around.rows, len(self.traffic.slots) - 1)]
        self.reactions.step(
            slot, self._table[VEHICLE, rows], around.there, around.x, around.l, around.lane, speed,
            self.position[:, 0], self.velocity[:, 0], lane,
        )  # fmt: skip

    # ------------------------------------------------------------ what the ego sees and hits

    def _observe(self, obs: Table, around: Around, a: Floats) -> Floats:
        """Fill in everything but the goal and the flags; returns the offset from the reference path (N,)."""
        x, y = self.position[:, 0], self.position[:, 1]
        c, s = direction(self.velocity[:, 0], self.velocity[:, 1])
        lane = ob.lane_of(self.course.marks, self.course.lanes, y)
        obs[:, ob.VELOCITY], obs[:, 8:10], obs[:, 10] = self.velocity, a, 0.0
        obs[:, ob.REMAINING] = self.traffic.problems.steps[self.problem] - self.t
        self._neighbours(obs, around, lane, c, s)
        ob.lane_features(obs, self.course, y, lane)
        yaw = np.arctan2(self.velocity[:, 1], self.velocity[:, 0])
        return ob.route_features(obs, self.course, x, y, c, s, yaw, lane)

    def _neighbours(self, obs: Table, around: Around, lane: Ints, c: Floats, s: Floats) -> None:
        """Features 12 to 29. The nearest is chosen by the gap of boxes parallel to the road; its distance is exact."""
        dx = around.x - self.position[:, :1].astype(np.float32)
        dy = around.y - self.position[:, 1:].astype(np.float32)
        seen = around.there & (dx * dx + dy * dy <= np.float32(ob.RADIUS**2))
        out_x = np.maximum(np.abs(dx) - around.l - np.float32(_L), 0)
        out_y = np.maximum(np.abs(dy) - around.w - np.float32(_W), 0)
        gap = np.where(seen, out_x * out_x + out_y * out_y, np.float32(np.inf))
        # 0, 1, 2 for the left, same and right lane, 3 more for those ahead; anything else is out of sight.
        where = around.lane - (lane[:, None] - 1).astype(np.float32)
        where = np.where((where >= 0) & (where <= 2), where + 3 * (dx >= 0), np.float32(-1))
        candidates = np.where(where[:, None, :] == _GROUPS, gap[:, None, :], np.float32(np.inf))
        winner = candidates.argmin(axis=2)
        found = np.isfinite(np.take_along_axis(candidates, winner[:, :, None], axis=2)[:, :, 0])

        row = np.where(found, np.take_along_axis(around.rows, winner, axis=1), 0)
        table = self._table
        ox, vx, vy = table[X, row], table[VX, row], table[VY, row]
        if around.shift is not None and around.slower is not None:
            ox = ox + np.take_along_axis(around.shift, winner, axis=1)
            vx = vx + np.take_along_axis(around.slower, winner, axis=1)
        other = Box(ox, table[Y, row], *direction(vx, vy), table[HALF_LENGTH, row], table[HALF_WIDTH, row])
        me = Box(self.position[:, :1], self.position[:, 1:], c[:, None], s[:, None], _L, _W)
        # Speed of the other in the ego's direction, against the ego's speed along the road: as in the original.
        ahead = vx * me.c + vy * me.s - self.velocity[:, :1]
        obs[:, ob.V_REL] = np.where(found, ahead * _SIGNS, 0.0)
        obs[:, ob.P_REL] = np.where(found, distance(me, other), ob.NOBODY)
        obs[:, ob.KINDS] = np.where(found, table[layout.KIND, row], 0.0)

    def _collisions(self, body: Box, around: Around) -> Flags:
        """(N,) does the box swept by the ego in this step touch one swept by a vehicle?"""
        near = around.there & (np.abs(around.x - body.x[:, None].astype(np.float32)) < _REACH_X)
        near &= np.abs(around.y - body.y[:, None].astype(np.float32)) < _REACH_Y
        ego, place = np.nonzero(near)
        result = np.zeros(self.n, np.bool_)
        if len(ego) == 0:
            return result
        now = around.rows[ego, place]
        poses = []
        for row in (self.traffic.previous[now], now):
            values = self._table[:, row].astype(np.float64)
            poses.append(
                Box(values[X], values[Y], *direction(values[VX], values[VY]), values[HALF_LENGTH], values[HALF_WIDTH])
            )
        before, after = poses
        if around.shift is not None and around.moved is not None:
            shift = around.shift[ego, place].astype(np.float64)
            after = after._replace(x=after.x + shift)
            before = before._replace(x=before.x + shift - around.moved[ego, place])
        hit = intersect(Box(*(values[ego] for values in body)), swept(before, after))
        result[ego[hit]] = True
        return result

    @staticmethod
    def _flags(
        obs: Table,
        before: tuple[Floats, Floats],
        now: tuple[Floats, Floats],
        goal: Flags,
        late: Flags,
        crashed: Flags,
        off_road: Flags,
    ) -> None:
        for column, was, is_now in zip((0, 2), before, now, strict=True):
            obs[:, column], obs[:, column + 1] = is_now, np.abs(was) - np.abs(is_now)
        obs[:, ob.GOAL], obs[:, ob.TIME_OUT] = goal, late
        obs[:, ob.COLLISION], obs[:, ob.OFF_ROAD] = crashed, off_road


_GROUPS = np.arange(6, dtype=np.float32)[None, :, None]
_SIGNS = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
"""Followers: the ego's speed minus theirs; leaders: theirs minus the ego's."""
