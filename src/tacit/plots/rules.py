"""The picture of an explanation over the cells of a map. For features, see `tacit.explain.pictures`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.plots.grids import Panel, grid_figure
from tacit.plots.style import Format
from tacit.run.summary import CellExplanation

PARTS = ("map", "forbidden")
"""Parts of the picture of cells."""


def cells(explanation: CellExplanation, parts: Sequence[str] = PARTS, *, format: Format = "svg") -> bytes:
    """The map with the cost of each cell. Forbidden cells are outlined, unknown ones struck through."""
    layout = explanation["layout"]
    places = [(r, c) for r, line in enumerate(layout) for c, mark in enumerate(line) if mark != "#"]
    row, col = np.array(places).T
    marked, unknown = ({tuple(cell) for cell in part} for part in (explanation["cells"], explanation["unknown"]))
    several = len(parts) > 1  # a single picture gets its title from the page
    panels = {
        "map": Panel(title="the map" if several else ""),
        "forbidden": Panel(
            np.asarray(explanation["costs"]),
            label="learned cost; lines: forbidden; strokes: not known",
            hatch=np.array([float(place in unknown) for place in places]),
            title="forbidden" if several else "",
        ),
    }
    outline = np.array([place in marked for place in places])
    return grid_figure(layout, [panels[part] for part in parts], row=row, col=col, outline=outline, format=format)
