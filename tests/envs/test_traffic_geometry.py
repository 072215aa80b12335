"""Boxes and motion: against polygons in plain Python, against shapely's or CommonRoad's where they are installed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traffic_oracle as oracle
from tacit.envs.traffic.geometry import (
    MAX_ACCELERATION,
    Box,
    acceleration,
    advance,
    direction,
    distance,
    height,
    intersect,
    swept,
)


def random_boxes(n: int, seed: int, spread: float = 8.0) -> tuple[np.ndarray, Box]:
    """(n, 5) x, y, yaw, length, width, and the same as a Box."""
    rng = np.random.default_rng(seed)
    raw = np.column_stack(
        [
            rng.uniform(-spread, spread, n),
            rng.uniform(-spread / 2, spread / 2, n),
            rng.uniform(-math.pi, math.pi, n),
            rng.uniform(1, 12, n),
            rng.uniform(0.5, 4, n),
        ]
    )
    return raw, as_box(raw)


def as_box(raw: np.ndarray) -> Box:
    x, y, yaw, length, width = raw.T
    return Box(x, y, np.cos(yaw), np.sin(yaw), length / 2, width / 2)


def test_separating_axes_and_distances_against_polygons() -> None:
    a_raw, a = random_boxes(4000, 0)
    b_raw, b = random_boxes(4000, 1)
    hits, gaps = intersect(a, b), distance(a, b)
    assert 0.2 < hits.mean() < 0.8
    for i in range(len(a_raw)):
        p, q = oracle.corners(*a_raw[i]), oracle.corners(*b_raw[i])
        expected = oracle.polygon_distance(p, q)
        assert gaps[i] == pytest.approx(expected, abs=1e-9)
        assert hits[i] == (expected == 0.0)


def test_a_cross_touches_though_no_corner_is_inside() -> None:
    bar = Box(0.0, 0.0, 1.0, 0.0, 5.0, 0.5)
    across = Box(0.0, 0.0, 0.0, 1.0, 5.0, 0.5)
    assert intersect(bar, across)
    assert distance(bar, across) == 0.0
    assert distance(bar, Box(8.0, 0.0, 0.0, 1.0, 5.0, 0.5)) == pytest.approx(2.5)


def test_swept_boxes_against_their_definition() -> None:
    before, _ = random_boxes(3000, 2)
    rng = np.random.default_rng(3)
    after = before.copy()
    after[:, :2] += rng.uniform(-3, 3, (len(after), 2))
    after[:, 2] += rng.uniform(-1.5, 1.5, len(after))
    found = swept(as_box(before), as_box(after))
    for i in range(len(before)):
        length, width = before[i, 3:]
        polygon = oracle.hull(tuple(before[i, :3]), tuple(after[i, :3]), length, width)
        box = oracle.corners(found.x[i], found.y[i], math.atan2(found.s[i], found.c[i]), 2 * found.l[i], 2 * found.w[i])
        assert np.allclose(sorted(polygon), sorted(box), atol=1e-8)
        top = max(p[1] for p in polygon)
        assert found.y[i] + height(Box(*(v[i] for v in found))) == pytest.approx(top)


def test_a_box_swept_in_opposite_directions_is_itself() -> None:
    box = Box(np.array(1.0), np.array(2.0), np.array(1.0), np.array(0.0), 2.0, 1.0)
    turned = box._replace(c=np.array(-1.0))
    assert [float(v) for v in swept(box, turned)] == pytest.approx([1.0, 2.0, -1.0, 0.0, 2.0, 1.0])


@given(st.tuples(*[st.floats(-60, 60) for _ in range(2)]), st.tuples(*[st.floats(-3, 3) for _ in range(2)]))
def test_the_point_mass_is_the_integral_of_its_acceleration(
    velocity: tuple[float, float], action: tuple[float, float]
) -> None:
    a = acceleration(np.array([action]))[0]
    assert math.hypot(*a) <= MAX_ACCELERATION
    clipped = np.clip(action, -1, 1)
    assert np.allclose(np.cross(np.append(a, 0), np.append(clipped, 0)), 0, atol=1e-9)
    if math.hypot(*clipped) <= 1:
        assert np.allclose(a, MAX_ACCELERATION * clipped)
    position, after = advance(np.zeros(2), np.array(velocity), a)
    # Ten thousand small steps of the midpoint rule, exact for a constant acceleration.
    times = (np.arange(10_000) + 0.5) * (0.04 / 10_000)
    assert np.allclose(position, (np.array(velocity)[:, None] + a[:, None] * times).sum(axis=1) * (0.04 / 10_000))
    assert np.allclose(after, np.array(velocity) + 0.04 * a)


def test_directions() -> None:
    c, s = direction(np.array([3.0, 0.0, -2.0, 0.0]), np.array([4.0, 0.0, 0.0, -1.0]))
    assert np.allclose(c, [0.6, 1.0, -1.0, 0.0])
    assert np.allclose(s, [0.8, 0.0, 0.0, -1.0])


# ---------------------------------------------------------------- CommonRoad, where it is installed


@pytest.fixture
def crcc() -> Any:
    return pytest.importorskip("commonroad_dc.pycrcc", reason="pip install '.[commonroad]' in its own environment")


def as_theirs(crcc: Any, row: np.ndarray) -> Any:
    x, y, yaw, length, width = (float(v) for v in row)
    return crcc.RectOBB(length / 2, width / 2, yaw, x, y)


def test_collisions_against_commonroad(crcc: Any) -> None:
    a_raw, a = random_boxes(20_000, 4)
    b_raw, b = random_boxes(20_000, 5)
    theirs = [as_theirs(crcc, p).collide(as_theirs(crcc, q)) for p, q in zip(a_raw, b_raw, strict=True)]
    assert (intersect(a, b) == np.array(theirs)).all()


def test_swept_boxes_and_the_road_boundary_against_commonroad(crcc: Any) -> None:
    from commonroad_dc.collision.trajectory_queries import trajectory_queries

    rng = np.random.default_rng(6)
    before, _ = random_boxes(3000, 7)
    # Longer than wide, and moving ahead, as vehicles are: theirs takes the long side of whatever results for the axis.
    before[:, 3] = rng.uniform(3.0, 18.0, len(before))
    before[:, 4] = rng.uniform(1.5, 2.6, len(before))
    before[:, 2] = rng.uniform(-0.5, 0.5, len(before))
    after = before.copy()
    after[:, 0] += rng.uniform(0, 2.4, len(after))
    after[:, 1] += rng.uniform(-0.2, 0.2, len(after))
    after[:, 2] += rng.uniform(-0.05, 0.05, len(after))
    hulls = swept(as_box(before), as_box(after))
    outside = crcc.RectAABB(500.0, 50.0, 0.0, 54.0)  # of a road whose left edge is at y = 4
    beyond = hulls.y + height(hulls) > 4.0
    assert 0.2 < beyond.mean() < 0.8
    for i in range(len(before)):
        series = crcc.TimeVariantCollisionObject(0)
        series.append_obstacle(as_theirs(crcc, before[i]))
        series.append_obstacle(as_theirs(crcc, after[i]))
        path, failed = trajectory_queries.trajectory_preprocess_obb_sum(series)
        assert not failed
        box = path.obstacle_at_time(0)
        assert (box.r_x(), box.r_y()) == pytest.approx((hulls.l[i], hulls.w[i]), abs=1e-6)
        assert tuple(box.center()) == pytest.approx((hulls.x[i], hulls.y[i]), abs=1e-6)
        assert box.collide(outside) == bool(beyond[i])


def test_the_point_mass_against_commonroad(crcc: Any) -> None:
    from commonroad.common.solution import VehicleType
    from commonroad_dc.feasibility.vehicle_dynamics import VehicleDynamics

    car = VehicleDynamics.PM(VehicleType.BMW_320i)
    rng = np.random.default_rng(8)
    compared = {True: 0, False: 0}
    for _ in range(6000):
        position, velocity = rng.uniform(-400, 400, 2), rng.uniform(-1, 1, 2) * (45, 5)
        # The whole friction circle, throttle and brakes.
        a = acceleration(rng.uniform(-1.0, 1.0, (1, 2)))[0]
        theirs = car.forward_simulation(np.concatenate([position, velocity]), a, 0.04, throw=False)
        if theirs is None:  # more than their engine can do at this speed, or than their friction allows
            continue
        assert np.concatenate(advance(position, velocity, a)) == pytest.approx(theirs, abs=1e-6)
        compared[bool(a[0] > 0)] += 1
    assert min(compared.values()) >= 1000, compared
