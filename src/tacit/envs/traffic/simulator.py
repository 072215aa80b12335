"""N cars in recorded traffic, stepped together in plain NumPy.

The traffic is replayed and does not react (unless `reactive`, see `idm.py`). All N egos are looked up in one table of
rows, one row per vehicle and frame; what a step needs of the at most K vehicles around each is one gather (N, K).
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

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
from tacit.envs.traffic.idm import Ego, Near, Reactions
from tacit.envs.traffic.layout import HALF_LENGTH, HALF_WIDTH, LANE, VEHICLE, VX, Traffic, X, Y
from tacit.envs.traffic.observation import Floats, Ints

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
    """The vehicles near each ego; (N, K) each. The rows are integers, the rest is float32."""

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


_STARTS: WeakKeyDictionary[Traffic, Table] = WeakKeyDictionary()


def first_observations(traffic: Traffic) -> Table:
    """(P, 74) what the ego sees at the start of each problem; computed once, because episodes start all the time."""
    if traffic not in _STARTS:
        total = len(traffic.problems)
        result = np.empty((total, ob.SIZE), np.float32)
        for begin in range(0, total, 4096):
            chosen = np.arange(begin, min(begin + 4096, total))
            simulator = Simulator(traffic, len(chosen))
            simulator.start(np.arange(len(chosen)), chosen)
            result[chosen] = simulator.observe_start()
        _STARTS[traffic] = result
    return _STARTS[traffic]


class Simulator:
    """The state of N egos, and its transition. Problems are assigned with `start`."""

    def __init__(self, traffic: Traffic, n: int, *, reactive: bool = False) -> None:
        self.traffic, self.n = traffic, n
        self.problem = np.zeros(n, np.int64)
        self.t = np.zeros(n, np.int64)
        self.position = np.zeros((n, 2))
        self.velocity = np.ones((n, 2))
        self.reactions = Reactions(n, int(traffic.slots.max()) + 1) if reactive else None
        # Rows (r, ..., r + K - 1) of the table as entry r of a view: a gather of N entries copies N runs of K numbers.
        table, width = traffic.table, traffic.most
        shape = (table.shape[1] - width + 1, layout.NEEDED, width)
        self._windows = as_strided(table, shape, (table.strides[1], *table.strides), writeable=False)
        self._slots = np.arange(width)
        self._egos = np.arange(n)[:, None]
        self.course = traffic.courses.at(self.problem)
        self._follow()

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
        """Look up again what follows from the problems and the states of `rows`."""
        for whole, part in zip(self.course, self.traffic.courses.at(self.problem[rows]), strict=True):
            whole[rows] = part
        self._follow()

    def _follow(self) -> None:
        """What follows from the state and is used by the next step, too."""
        x, y = self.position[:, 0], self.position[:, 1]
        self._pose = Box(x, y, *direction(self.velocity[:, 0], self.velocity[:, 1]), _L, _W)
        self._clearance = ob.goal_clearance(self.course, x, y)

    def initial(self, rows: Ints) -> Table:
        """(len(rows), 74) observations of egos that have just been started."""
        return first_observations(self.traffic)[self.problem[rows]]

    def observe_start(self) -> Table:
        """(N, 74) the observations of egos that have just been started, computed."""
        obs = np.empty((self.n, ob.SIZE), np.float32)
        self._observe(obs, self.around(), np.zeros((self.n, 2)))
        obs[:, 0], obs[:, 2] = self._clearance
        for column in (1, 3, ob.GOAL, ob.TIME_OUT, ob.COLLISION, ob.OFF_ROAD):
            obs[:, column] = 0.0
        return obs

    # ------------------------------------------------------------ one step

    def step(self, actions: Floats) -> Outcome:
        """Move all egos by one frame for actions (N, 2). Egos whose episode has ended must be started anew."""
        course, was, clearance = self.course, self._pose, self._clearance
        a = acceleration(np.asarray(actions, np.float64))
        if self.reactions is not None:
            self._react()
        self.position, self.velocity = advance(self.position, self.velocity, a)
        self.t += 1
        self._follow()
        around = self.around()
        obs = np.empty((self.n, ob.SIZE), np.float32)
        offset = self._observe(obs, around, a)

        x, y = self._pose.x, self._pose.y
        body = swept(was, self._pose)
        crashed = self._collisions(body, around)
        reach = height(body)
        off_road = (body.y + reach > course.marks[:, 0]) | (body.y - reach < course.right_edge)
        goal = ob.at_goal(course, x, y)
        lost = (x < course.x0) | (x > course.x1) | (np.abs(offset) > TOO_FAR)
        late = ((self.t >= self.traffic.problems.steps[self.problem]) & ~goal) | lost
        obs[:, 0], obs[:, 2] = self._clearance
        obs[:, 1], obs[:, 3] = np.abs(clearance) - np.abs(self._clearance)
        obs[:, ob.GOAL], obs[:, ob.TIME_OUT] = goal, late
        obs[:, ob.COLLISION], obs[:, ob.OFF_ROAD] = crashed, off_road

        reward = 50.0 * goal - 50.0 * crashed - 20.0 * off_road - 10.0 * late
        code = np.where(off_road, 1, np.where(crashed, 2, np.where(goal, 3, np.where(late, 4, 0)))).astype(np.int8)
        return Outcome(obs, reward, code > 0, code)

    def around(self, which: slice = slice(None)) -> Around:
        """The vehicles in the present frame of all egos, or of some."""
        traffic, problem = self.traffic, self.problem[which]
        frame = traffic.problems.frame[problem] + self.t[which]
        first = traffic.starts[frame]
        near = self._windows[first]
        x, y, half_l, half_w, lane, vehicle = (near[:, i] for i in (X, Y, HALF_LENGTH, HALF_WIDTH, LANE, VEHICLE))
        there = self._slots < (traffic.starts[frame + 1] - first)[:, None]
        there &= vehicle != traffic.problems.ego[problem].astype(np.float32)[:, None]
        rows = first[:, None] + self._slots
        shift = slower = moved = None
        if self.reactions is not None:
            shift, slower, moved = self.reactions.look_up(traffic.slots[rows], vehicle, which)
            x = x + shift
        return Around(rows, there, x, y, half_l, half_w, lane, shift, slower, moved)

    def _react(self) -> None:
        """Let reactive traffic decide on its acceleration, from the present frame to the next."""
        assert self.reactions is not None
        around = self.around()
        vehicle, speed = self.traffic.table[VEHICLE, around.rows], self.traffic.table[VX, around.rows] + around.slower
        lane = ob.lane_of(self.course.marks, self.course.lanes, self.position[:, 1])
        near = Near(around.there, around.x, around.l, around.lane)
        ego = Ego(self.position[:, 0], self.velocity[:, 0], lane)
        self.reactions.step(self.traffic.slots[around.rows], vehicle, speed, near, ego)

    # ------------------------------------------------------------ what the ego sees and hits

    def _observe(self, obs: Table, around: Around, a: Floats) -> Floats:
        """Fill in everything but the goal and the flags; returns the offset from the reference path (N,)."""
        x, y, c, s, *_ = self._pose
        lane = ob.lane_of(self.course.marks, self.course.lanes, y)
        obs[:, ob.VELOCITY], obs[:, 8:10], obs[:, 10] = self.velocity, a, 0.0
        obs[:, ob.REMAINING] = self.traffic.problems.steps[self.problem] - self.t
        self._neighbours(obs, around, lane)
        ob.lane_features(obs, self.course, y, lane)
        yaw = np.arctan2(self.velocity[:, 1], self.velocity[:, 0])
        return ob.route_features(obs, self.course, x, y, c, s, yaw, lane)

    def _neighbours(self, obs: Table, around: Around, lane: Ints) -> None:
        """Features 12 to 29. The nearest is chosen by the gap of boxes parallel to the road; its distance is exact."""
        x, y, c, s = (values.astype(np.float32)[:, None] for values in self._pose[:4])
        dx, dy = around.x - x, around.y - y
        seen = around.there & (dx * dx + dy * dy <= np.float32(ob.RADIUS**2))
        out_x = np.maximum(np.abs(dx) - around.l - np.float32(_L), 0)
        out_y = np.maximum(np.abs(dy) - around.w - np.float32(_W), 0)
        gap = np.where(seen, out_x * out_x + out_y * out_y, np.float32(np.inf))
        # 0, 1, 2 for the left, same and right lane, 3 more for those ahead; anything else is out of sight.
        side = around.lane - (lane[:, None] - 1).astype(np.float32)
        group = np.where((side >= 0) & (side <= 2), side + np.float32(3) * (dx >= 0), np.float32(-1))
        candidates = np.where(group[:, None, :] == _GROUPS, gap[:, None, :], np.float32(np.inf))
        winner = candidates.argmin(axis=2)
        present = candidates.min(axis=2) < np.inf

        row = around.rows[self._egos, winner]
        other_x, other_y, half_l, half_w, _, _, vx, vy, kind = self.traffic.table[:, row]
        if around.shift is not None and around.slower is not None:
            other_x = other_x + around.shift[self._egos, winner]
            vx = vx + around.slower[self._egos, winner]
        me = Box(x, y, c, s, np.float32(_L), np.float32(_W))
        apart = distance(me, Box(other_x, other_y, *direction(vx, vy), half_l, half_w))
        # Speed of the other in the ego's direction, against the ego's speed along the road: as in the original.
        ahead = vx * c + vy * s - self.velocity[:, :1].astype(np.float32)
        obs[:, ob.V_REL] = np.where(present, ahead * _SIGNS, 0)
        obs[:, ob.P_REL] = np.where(present, apart, ob.NOBODY)
        obs[:, ob.KINDS] = np.where(present, kind, 0)

    def _collisions(self, body: Box, around: Around) -> Flags:
        """(N,) does the box swept by the ego in this step touch one swept by a vehicle?"""
        near = around.there & (np.abs(around.x - body.x[:, None].astype(np.float32)) < _REACH_X)
        near &= np.abs(around.y - body.y[:, None].astype(np.float32)) < _REACH_Y
        ego, place = np.nonzero(near)
        result = np.zeros(self.n, np.bool_)
        if len(ego) == 0:
            return result
        now = around.rows[ego, place]
        before, after = (self._boxes(row) for row in (self.traffic.previous[now], now))
        if around.shift is not None and around.moved is not None:
            shift = around.shift[ego, place].astype(np.float64)
            after = after._replace(x=after.x + shift)
            before = before._replace(x=before.x + shift - around.moved[ego, place])
        hit = intersect(Box(*(values[ego] for values in body)), swept(before, after))
        result[ego[hit]] = True
        return result

    def _boxes(self, rows: NDArray[Any]) -> Box:
        x, y, half_l, half_w, _, _, vx, vy, _ = self.traffic.table[:, rows].astype(np.float64)
        return Box(x, y, *direction(vx, vy), half_l, half_w)


_GROUPS = np.arange(6, dtype=np.float32)[None, :, None]
_SIGNS = np.array([-1, -1, -1, 1, 1, 1], np.float32)
"""Followers: the ego's speed minus theirs; leaders: theirs minus the ego's."""
