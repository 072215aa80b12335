"""The highway task written down slowly, from its definitions, one vehicle at a time in plain Python.

Shares nothing with the simulator but the Recording: polygons are lists of corners, angles are angles, lanes are
searched for one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.envs.traffic.recording import Recording

DT = 0.04
L, W = 4.508, 1.610
A_MAX = 11.5

Point = tuple[float, float]
Polygon = list[Point]


# ---------------------------------------------------------------- polygons


def corners(x: float, y: float, yaw: float, length: float, width: float) -> Polygon:
    c, s = math.cos(yaw), math.sin(yaw)
    half = [(length / 2, width / 2), (-length / 2, width / 2), (-length / 2, -width / 2), (length / 2, -width / 2)]
    return [(x + c * a - s * b, y + s * a + c * b) for a, b in half]


def edges(polygon: Polygon) -> list[tuple[Point, Point]]:
    return [(polygon[i], polygon[(i + 1) % len(polygon)]) for i in range(len(polygon))]


def point_segment(p: Point, a: Point, b: Point) -> float:
    dx, dy = b[0] - a[0], b[1] - a[1]
    t = ((p[0] - a[0]) * dx + (p[1] - a[1]) * dy) / (dx * dx + dy * dy)
    t = min(1.0, max(0.0, t))
    return math.dist(p, (a[0] + t * dx, a[1] + t * dy))


def cross(o: Point, a: Point, b: Point) -> float:
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


def inside(p: Point, polygon: Polygon) -> bool:
    """Convex, counter-clockwise."""
    return all(cross(a, b, p) >= 0 for a, b in edges(polygon))


def segments_cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    return cross(a, b, c) * cross(a, b, d) <= 0 and cross(c, d, a) * cross(c, d, b) <= 0


def touch(p: Polygon, q: Polygon) -> bool:
    if any(inside(v, q) for v in p) or any(inside(v, p) for v in q):
        return True
    return any(segments_cross(*e, *f) for e in edges(p) for f in edges(q))


def polygon_distance(p: Polygon, q: Polygon) -> float:
    if touch(p, q):
        return 0.0
    one = min(point_segment(v, *e) for v in p for e in edges(q))
    return min(one, min(point_segment(v, *e) for v in q for e in edges(p)))


def hull(before: tuple[float, float, float], after: tuple[float, float, float], length: float, width: float) -> Polygon:
    """The oriented box around two poses (x, y, yaw): mean angle, mid-point, largest projection of either box."""
    turn = math.remainder(after[2] - before[2], 2 * math.pi)
    yaw = before[2] + turn / 2
    x, y = (before[0] + after[0]) / 2, (before[1] + after[1]) / 2
    u, v = (math.cos(yaw), math.sin(yaw)), (-math.sin(yaw), math.cos(yaw))
    points = corners(*before, length, width) + corners(*after, length, width)
    half_l = max(abs((px - x) * u[0] + (py - y) * u[1]) for px, py in points)
    half_w = max(abs((px - x) * v[0] + (py - y) * v[1]) for px, py in points)
    return corners(x, y, yaw, 2 * half_l, 2 * half_w)


# ---------------------------------------------------------------- the road, seen in driving direction


@dataclass
class Other:
    x: float
    y: float
    vx: float
    vy: float
    length: float
    width: float
    kind: int

    @property
    def yaw(self) -> float:
        return math.atan2(self.vy, self.vx)


class SlowTask:
    """One ego in one recording: vehicle `ego` (an index) is replaced from `start` (a frame) on.

    `corner`: the corner of a box is taken for its centre; `lane_goal`: the goal is 20 m of the lane.
    """

    def __init__(
        self,
        recording: Recording,
        ego: int,
        start: int,
        window: int = 1000,
        corner: bool = False,
        lane_goal: bool = False,
    ) -> None:
        self.recording, self.ego, self.start, self.corner = recording, ego, start, corner
        self.direction = int(recording.directions[ego])
        sign = -1 if self.direction == 1 else 1
        marks = sorted((-sign * m for m in recording.marks(self.direction)), reverse=True)
        marks[0] += 2.0
        marks[-1] -= 2.0
        self.marks = marks
        a, b = sign * -40.0, sign * 460.0
        self.x0, self.x1 = min(a, b), max(a, b)
        last_of = {i: int(recording.first[i] + recording.counts[i] - 1) for i in range(len(recording))}
        end = min(last_of[ego], start + window - 1)
        others = [
            min(last_of[i], start + window - 1)
            for i in range(len(recording))
            if i != ego and recording.directions[i] == self.direction
        ]
        self.t_end = min(end + 25, max(others)) - start
        goal = self.vehicle(ego, end)
        assert goal is not None
        if lane_goal:
            own = self.lane(goal.y)
            goal = Other(goal.x, self.centre(own), 1.0, 0.0, 20.0, self.marks[own] - self.marks[own + 1], goal.kind)
        self.goal = goal
        first = self.vehicle(ego, start)
        assert first is not None
        self.x, self.y, self.vx, self.vy = first.x, first.y, first.vx, first.vy
        self.ax = self.ay = 0.0
        self.t = 0
        self.first_lane, self.goal_lane = self.lane(self.y), self.lane(goal.y)
        self.progress = (0.0, 0.0)
        self.flags = {"goal": False, "late": False, "crash": False, "off": False}

    def vehicle(self, i: int, frame: int) -> Other | None:
        r = self.recording
        k = frame - int(r.first[i])
        if not 0 <= k < r.counts[i] or r.directions[i] != self.direction:
            return None
        row = int(r.counts[:i].sum()) + k
        sign = -1 if self.direction == 1 else 1
        return Other(
            sign * (r.x[row] + (0.0 if self.corner else r.lengths[i] / 2)),
            -sign * (r.y[row] + (0.0 if self.corner else r.widths[i] / 2)),
            sign * r.vx[row],
            -sign * r.vy[row],
            float(r.lengths[i]),
            float(r.widths[i]),
            int(r.kinds[i]),
        )

    def lane(self, y: float) -> int:
        for j in range(len(self.marks) - 1):
            if y >= self.marks[j + 1]:
                return j
        return len(self.marks) - 2

    @property
    def yaw(self) -> float:
        return math.atan2(self.vy, self.vx)

    def clearance(self) -> tuple[float, float]:
        box = corners(self.goal.x, self.goal.y, self.goal.yaw, self.goal.length, self.goal.width)
        result = []
        for axis, value in ((0, self.x), (1, self.y)):
            low, high = min(p[axis] for p in box), max(p[axis] for p in box)
            result.append(low - value if value < low else high - value if value > high else 0.0)
        return result[0], result[1]

    def step(self, action: tuple[float, float]) -> float:
        before = (self.x, self.y, self.yaw)
        was = self.clearance()
        a = [A_MAX * min(1.0, max(-1.0, u)) for u in action]
        norm = math.hypot(*a)
        if norm > A_MAX:
            a = [u * (A_MAX - 1e-6) / norm for u in a]
        self.ax, self.ay = a
        self.x += self.vx * DT + self.ax * DT**2 / 2
        self.y += self.vy * DT + self.ay * DT**2 / 2
        self.vx += self.ax * DT
        self.vy += self.ay * DT
        self.t += 1
        now = self.clearance()
        self.progress = (abs(was[0]) - abs(now[0]), abs(was[1]) - abs(now[1]))
        frame = self.start + self.t
        body = hull(before, (self.x, self.y, self.yaw), L, W)
        crash = False
        for i in range(len(self.recording)):
            there, earlier = self.vehicle(i, frame), self.vehicle(i, frame - 1)
            if i == self.ego or there is None:
                continue
            earlier = earlier or there
            box = hull((earlier.x, earlier.y, earlier.yaw), (there.x, there.y, there.yaw), there.length, there.width)
            crash |= touch(body, box)
        off = max(p[1] for p in body) > self.marks[0] or min(p[1] for p in body) < self.marks[-1]
        goal_box = corners(self.goal.x, self.goal.y, self.goal.yaw, self.goal.length, self.goal.width)
        goal = inside((self.x, self.y), goal_box)
        lost = not self.x0 <= self.x <= self.x1 or abs(self.y - self.path(self.x)[0]) > 20
        late = (self.t >= self.t_end and not goal) or lost
        self.flags = {"goal": goal, "late": late, "crash": crash, "off": off}
        return 50.0 * goal - 50.0 * crash - 20.0 * off - 10.0 * late

    @property
    def ended(self) -> bool:
        return any(self.flags.values())

    # ------------------------------------------------------------ observation

    def centre(self, lane: int) -> float:
        return (self.marks[lane] + self.marks[lane + 1]) / 2

    def path(self, x: float) -> tuple[float, float]:
        """y and angle of the reference path: equal pieces of the road for each lane of the route, ramps of 10 m."""
        step = 1 if self.goal_lane > self.first_lane else -1
        route = list(range(self.first_lane, self.goal_lane + step, step))
        piece = (self.x1 - self.x0) / len(route)
        for k in range(1, len(route)):
            joint = self.x0 + k * piece
            if abs(x - joint) < 5.0:
                a, b = self.centre(route[k - 1]), self.centre(route[k])
                return a + (b - a) * (x - joint + 5.0) / 10.0, math.atan((b - a) / 10.0)
        k = min(int((x - self.x0) // piece), len(route) - 1)
        return self.centre(route[max(k, 0)]), 0.0

    def seen_from(self, x: float, y: float) -> Point:
        dx, dy, yaw = x - self.x, y - self.y, self.yaw
        return dx * math.cos(yaw) + dy * math.sin(yaw), dy * math.cos(yaw) - dx * math.sin(yaw)

    def observe(self) -> list[float]:
        goal, lane = self.clearance(), self.lane(self.y)
        out = [goal[0], self.progress[0], goal[1], self.progress[1]]
        out += [self.flags["goal"], self.flags["late"], self.vx, self.vy, self.ax, self.ay, 0.0, self.t_end - self.t]
        nearest: dict[tuple[bool, int], tuple[float, Other]] = {}
        me = corners(self.x, self.y, self.yaw, L, W)
        for i in range(len(self.recording)):
            other = self.vehicle(i, self.start + self.t)
            if i == self.ego or other is None or math.hypot(other.x - self.x, other.y - self.y) > 100:
                continue
            key = (other.x >= self.x, self.lane(other.y) - lane)
            gap = polygon_distance(me, corners(other.x, other.y, other.yaw, other.length, other.width))
            if key not in nearest or gap < nearest[key][0]:
                nearest[key] = (gap, other)
        speeds, gaps, kinds = [], [], []
        for lead in (False, True):
            for side in (-1, 0, 1):
                if (lead, side) not in nearest:
                    speeds.append(0.0), gaps.append(100.0), kinds.append(0)
                    continue
                gap, other = nearest[lead, side]
                speed = math.hypot(other.vx, other.vy) * math.cos(other.yaw - self.yaw)
                speeds.append(speed - self.vx if lead else self.vx - speed)
                gaps.append(gap)
                kinds.append(other.kind)
        out += speeds + gaps + kinds + [self.flags["crash"], self.flags["off"]]
        out += [abs(self.marks[lane] - self.y), abs(self.y - self.marks[lane + 1])]
        out += [abs(self.marks[0] - self.y), abs(self.y - self.marks[-1]), self.y - self.centre(lane), 0.0]
        ahead = [min(self.x1, max(self.x0, self.x + d)) for d in (-1000, 0, 5, 15, 100)]
        for x in ahead:
            out += self.seen_from(x, self.path(x)[0])
        out += [self.path(x)[1] - self.yaw for x in ahead]
        low, high = sorted((self.first_lane, self.goal_lane))
        current = min(high, max(low, lane))
        following = current + (self.goal_lane > current) - (self.goal_lane < current)
        for which in (current, following):
            for d in (-1000, 0, 1000):
                out += self.seen_from(min(self.x1, max(self.x0, self.x + d)), self.centre(which))
        out += [-self.yaw] * 6
        out += [self.goal.x - self.x, self.y - self.path(min(self.x1, max(self.x0, self.x)))[0], 1.0]
        return [float(v) for v in out]
