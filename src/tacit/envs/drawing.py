"""Pictures of a part of the plane, drawn with Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
GROUND, FORBIDDEN, AGENT, GOAL = (245, 245, 240), (235, 150, 140), (50, 90, 170), (60, 160, 90)
GREY, INK, PAPER = (150, 156, 164), (40, 40, 40), (250, 250, 250)


class Plane:
    """A picture of the rectangle [x0, x1] x [y0, y1], y upwards, perhaps with a strip for a line of text below."""

    def __init__(
        self,
        x0: float,
        x1: float,
        y0: float,
        y1: float,
        width: int = 320,
        height: int = 320,
        *,
        ground: Colour = GROUND,
        strip: int = 0,
    ) -> None:
        from PIL import Image, ImageDraw

        self.x0, self.y1, self.strip = x0, y1, strip
        self.x_scale, self.y_scale = width / (x1 - x0), height / (y1 - y0)
        self.image = Image.new("RGB", (width, height + strip), ground)
        self.draw = ImageDraw.Draw(self.image)

    def at(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The pixel of a point."""
        return (x - self.x0) * self.x_scale, (self.y1 - y) * self.y_scale

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        """A filled rectangle."""
        (left, bottom), (right, top) = self.at(x0, y0), self.at(x1, y1)
        self.draw.rectangle([left, top, right, bottom], fill=colour)

    def disc(self, x: float, y: float, radius: float, colour: Colour, *, filled: bool = True) -> None:
        """A disc, or its outline."""
        (left, top), (right, bottom) = self.at(x - radius, y + radius), self.at(x + radius, y - radius)
        self.draw.ellipse([left, top, right, bottom], fill=colour if filled else None, outline=colour)

    def line(self, points: Any, colour: Colour, width: int = 2) -> None:
        """A line through points (n, 2)."""
        self.draw.line([self.at(x, y) for x, y in points], fill=colour, width=width)

    def write(self, text: str, colour: Colour = INK) -> None:
        """A line of text in the strip below the picture, or without one in its upper left corner."""
        top = self.image.height - self.strip if self.strip else 0
        if self.strip:
            self.draw.rectangle([0, top, self.image.width, self.image.height], fill=PAPER)
        self.draw.text((6, top + (3 if self.strip else 4)), text, fill=colour)

    def pixels(self) -> NDArray[np.uint8]:
        """(height, width, 3)"""
        return np.asarray(self.image, np.uint8).copy()
