"""Hand-made recordings: cars that keep their speed on a road with two or three lanes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.envs.traffic.observation import FEATURES
from tacit.envs.traffic.recording import DT, KINDS, Recording

UPPER_MARKS, LOWER_MARKS = np.array([8.0, 12.0, 16.0]), np.array([20.0, 24.0, 28.0])


@dataclass
class Car:
    """A vehicle by its centre; y in the image. Lanes of the lower carriageway: left y = 22, right y = 26."""

    x: float
    y: float = 26.0
    speed: float = 30.0
    frames: int = 200
    first: int = 1
    kind: str = "car"
    length: float = 4.5
    width: float = 2.0
    sideways: float = 0.0


FAR_AWAY = Car(x=5.0, y=22.0, speed=20.0, frames=400)
"""Somebody must be on the road for time to go on; this one is far behind, in the other lane."""
AT = {name: i for i, name in enumerate(FEATURES)}
"""Where a feature is in an observation."""


def recording(
    cars: list[Car], name: str = "scene", marks: np.ndarray = LOWER_MARKS, mirrored: bool = False
) -> Recording:
    """All on the lower carriageway; mirrored: the same scene, driven on the upper one."""
    x, y, vx, vy = [], [], [], []
    for car in cars:
        t = np.arange(car.frames) * DT
        cx, cy = car.x + car.speed * t, car.y + car.sideways * t
        speed_x, speed_y = np.full(car.frames, car.speed), np.full(car.frames, car.sideways)
        if mirrored:
            # Half a turn about the middle between the carriageways.
            cx, cy, speed_x, speed_y = 420.0 - cx, 36.0 - cy, -speed_x, -speed_y
        x.append(np.round(cx - car.length / 2, 2))
        y.append(np.round(cy - car.width / 2, 2))
        vx.append(np.round(speed_x, 2))
        vy.append(np.round(speed_y, 2))
    return Recording(
        name=name,
        upper_marks=np.sort(36.0 - marks) if mirrored else UPPER_MARKS,
        lower_marks=marks,
        ids=np.arange(1, len(cars) + 1),
        kinds=np.array([KINDS[car.kind] for car in cars]),
        directions=np.full(len(cars), 1 if mirrored else 2),
        lengths=np.array([car.length for car in cars]),
        widths=np.array([car.width for car in cars]),
        first=np.array([car.first for car in cars]),
        counts=np.array([car.frames for car in cars]),
        x=np.concatenate(x),
        y=np.concatenate(y),
        vx=np.concatenate(vx),
        vy=np.concatenate(vy),
        about={"source": "simulated: hand-made"},
    )


def random_recording(seed: int, n: int = 14, frames: int = 220, lanes: int = 2) -> Recording:
    """Cars and trucks all over two or three lanes, some changing lanes; they may drive through each other."""
    marks = 20.0 + 4.0 * np.arange(lanes + 1)
    rng = np.random.default_rng(seed)
    cars = []
    for i in range(n):
        truck = rng.random() < 0.25
        x, speed = float(rng.uniform(0, 250)), float(np.round(rng.uniform(15, 45), 2))
        cars.append(
            Car(
                x=x,
                y=float(rng.choice(marks[:-1] + 2.0) + rng.uniform(-0.8, 0.8)),
                speed=speed,
                # Within the 420 m that a camera sees.
                frames=min(int(rng.integers(60, frames)), int((419.0 - x) / speed / DT)),
                first=1 if i < 5 else int(rng.integers(1, 60)),
                kind="truck" if truck else "car",
                length=float(np.round(rng.uniform(8, 18) if truck else rng.uniform(3.5, 5.5), 2)),
                width=2.5 if truck else 2.0,
                sideways=float(np.round(rng.uniform(-0.6, 0.6), 2)) if rng.random() < 0.4 else 0.0,
            )
        )
        end = cars[-1].y + cars[-1].sideways * cars[-1].frames * DT
        if not marks[0] - 1.5 < end < marks[-1] + 1.5:  # it would leave the road: to the other side, then
            cars[-1].sideways *= -1
    return recording(cars, marks=marks, mirrored=bool(rng.random() < 0.5))
