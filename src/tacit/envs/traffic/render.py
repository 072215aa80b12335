"""Pictures of traffic, drawn with Pillow: what the ego sees, and whole recordings."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.envs.drawing import Colour, Plane
from tacit.envs.traffic import observation as ob
from tacit.envs.traffic.geometry import EGO_LENGTH, EGO_WIDTH, Box, direction
from tacit.envs.traffic.layout import VX, VY
from tacit.envs.traffic.recording import FRAME_RATE, KINDS, UPPER, Recording
from tacit.errors import UserError
from tacit.run.storage import atomic_write_bytes

if TYPE_CHECKING:
    from tacit.envs.capabilities import Rule
    from tacit.envs.traffic.simulator import Simulator

WIDTH = 960
BEHIND, AHEAD = 110.0, 130.0
BEYOND = 6.0
"""Metres of grass beside the road."""
GRASS, ASPHALT, LINE, FAINT = (206, 220, 200), (90, 94, 100), (245, 245, 245), (150, 156, 164)
CAR, TRUCK, EGO, BROKEN, GOAL = (150, 190, 235), (235, 190, 120), (60, 160, 90), (205, 50, 50), (250, 220, 60)
TEXT, TEXT_HEIGHT = (30, 30, 30), 18
EVERY = 2
"""Number of recorded frames per picture of a film."""


class Canvas(Plane):
    """A picture of roads along x, `zoom` times as high as wide, with a line of text below."""

    def __init__(self, x0: float, x1: float, y0: float, y1: float, width: int = WIDTH, zoom: float = 1.0) -> None:
        scale = width / (x1 - x0)
        height = round((y1 - y0) * scale * zoom)
        height += (height + TEXT_HEIGHT) % 2  # films need even sides
        super().__init__(x0, x1, y0, y1, width, height, ground=GRASS, strip=TEXT_HEIGHT)
        self.y_scale = scale * zoom

    def vehicle(self, box: Box, fill: Colour, outline: Colour) -> None:
        """A turned rectangle."""
        corners = []
        for along, across in ((1, 1), (1, -1), (-1, -1), (-1, 1)):
            dx, dy = along * box.l, across * box.w
            corners.append(self.at(box.x + dx * box.c - dy * box.s, box.y + dx * box.s + dy * box.c))
        self.draw.polygon(corners, fill=fill, outline=outline)

    def road(self, marks: np.ndarray, x0: float, x1: float) -> None:
        """Asphalt with its markings, the inner ones dashed."""
        self.box(x0, float(marks.min()), x1, float(marks.max()), ASPHALT)
        for mark in marks[[0, -1]]:
            self.line([(x0, mark), (x1, mark)], LINE)
        for mark in marks[1:-1]:
            for begin in np.arange(np.floor(x0 / 18.0) * 18.0, x1, 18.0):
                if begin + 6.0 > x0:
                    self.line([(max(begin, x0), mark), (min(begin + 6.0, x1), mark)], LINE, 1)


def draw_ego(simulator: Simulator, i: int, obs: np.ndarray, rule: Rule) -> np.ndarray:
    """(H, W, 3) the road around ego i: lanes, vehicles, sight, goal; the ego in red while it breaks the rule."""
    traffic, course = simulator.traffic, simulator.course
    part = int(traffic.problems.part[simulator.problem[i]])
    road = traffic.roads[part]
    x, y = simulator.position[i]
    canvas = Canvas(x - BEHIND, x + AHEAD, float(road.marks[-1]) - BEYOND, float(road.marks[0]) + BEYOND, zoom=1.6)
    canvas.road(road.marks, max(road.x_range[0], x - BEHIND), min(road.x_range[1], x + AHEAD))
    canvas.disc(x, y, ob.RADIUS, FAINT, filled=False)
    goal = Box(*(float(values[i]) for values in course[:6]))
    canvas.vehicle(goal, GOAL, GOAL)
    around = simulator.around(slice(i, i + 1))
    for k in np.flatnonzero(around.there[0]):
        row = int(around.rows[0, k])
        c, s = direction(traffic.table[VX, row], traffic.table[VY, row])
        box = Box(around.x[0, k], around.y[0, k], c, s, around.l[0, k], around.w[0, k])
        canvas.vehicle(box, TRUCK if around.l[0, k] > 4.5 else CAR, (60, 60, 60))
    c, s = direction(*simulator.velocity[i])
    broken = bool(rule.violated(obs[None])[0])
    canvas.vehicle(Box(x, y, c, s, 0.5 * EGO_LENGTH, 0.5 * EGO_WIDTH), BROKEN if broken else EGO, (20, 20, 20))
    speed = float(np.hypot(obs[6], obs[7]))
    state = "broken" if broken else "kept"
    end = next((t for f, t in ((30, "collision"), (31, "off-road"), (4, "goal"), (5, "time-out")) if obs[f]), "")
    canvas.write(
        f"{speed:5.1f} m/s   gap {obs[ob.LEAD_GAP]:5.1f} m   goal {obs[0]:6.1f} m   {obs[ob.REMAINING]:4.0f} steps   "
        f"{rule.text}: {state}   {end}{'   simulated traffic' if traffic.simulated else ''}",
        BROKEN if broken else TEXT,
    )
    return canvas.pixels()


def draw_frame(recording: Recording, frame: int) -> np.ndarray:
    """(H, W, 3) a whole recorded section at a frame."""
    marks = [m for m in (recording.upper_marks, recording.lower_marks) if len(m)]
    top, bottom = min(float(m.min()) for m in marks) - 4, max(float(m.max()) for m in marks) + 4
    x0, x1 = (recording.x.min(), recording.x.max() + 20) if recording.ends else (0.0, recording.section)
    canvas = Canvas(x0, x1, -bottom, -top, width=1280, zoom=2.0)
    for own in marks:
        canvas.road(-own, x0, x1)
    for row in np.flatnonzero(recording.frames == frame):
        v = recording.vehicle[row]
        half_l, half_w = 0.5 * recording.lengths[v], 0.5 * recording.widths[v]
        c, s = direction(recording.vx[row], -recording.vy[row])
        box = Box(recording.x[row] + half_l, -(recording.y[row] + half_w), c, s, half_l, half_w)
        fast = np.hypot(recording.vx[row], recording.vy[row]) > 40.0
        colour = BROKEN if fast else TRUCK if recording.kinds[v] == KINDS["truck"] else CAR
        canvas.vehicle(box, colour, (60, 60, 60))
        # A nose, to tell the direction.
        tip = box.x + (-half_l if recording.directions[v] == UPPER else half_l)
        canvas.draw.line([canvas.at(box.x, box.y), canvas.at(tip, box.y)], fill=(40, 40, 40))
    source = recording.about.get("source", "unknown source")
    canvas.write(f"{recording.name}: {source}   {frame / FRAME_RATE:6.1f} s   red: above 40 m/s", TEXT)
    return canvas.pixels()


def save_picture(recording: Recording, path: str | os.PathLike[str], second: float) -> None:
    """A .png of the recording at a moment, written atomically."""
    from PIL import Image

    if Path(path).suffix.lower() != ".png":
        raise UserError(f"a picture is written as .png, not {os.fspath(path)!r}")
    # Second 0 is the first frame, which has number 1.
    frame = max(1, round(second * FRAME_RATE))
    if not 1 <= frame <= recording.last_frame:
        raise UserError(f"recording {recording.name} lasts {recording.seconds:g} s; nothing at {second:g} s")
    buffer = io.BytesIO()
    Image.fromarray(draw_frame(recording, frame)).save(buffer, "PNG")
    atomic_write_bytes(path, buffer.getvalue())


def frames(recording: Recording, begin: float, seconds: float, every: int = EVERY) -> Iterator[np.ndarray]:
    """Pictures of a stretch of time; UserError if the recording is over by then."""
    first = max(1, round(begin * FRAME_RATE))
    if first > recording.last_frame:
        raise UserError(f"recording {recording.name} lasts {recording.seconds:g} s, nothing from {begin:g} s on")
    for frame in range(first, min(recording.last_frame, first + round(seconds * FRAME_RATE)) + 1, every):
        yield draw_frame(recording, frame)
