"""Maps of a gridworld with values on them, as SVG or PNG bytes: visits, costs, and what the data cannot tell."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import UserError
from tacit.plots.style import INK, SOFT, Format, new_figure, plain, render, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WALL = "#59636e"
RAMPS = {"cost": "#d7412b", "visits": "#1f7bc4", "unknown": "#7a5cc0"}
"""Colours at full value. Values fade to transparent, so zero looks like the page, light or dark."""
_MAP_INCHES = 2.6  # the longer side; small, so that labels stay readable in a page with four maps in a row
_MAX_LIVE_CELLS = 1600  # above it a map is one image: a shape per cell would make the file heavy


@dataclass(frozen=True, eq=False)
class Panel:
    """One map of a figure."""

    values: ArrayLike | None = None
    """(S,) >= 0; None shows the map itself, with the constrained cells crossed."""
    label: str = ""
    """Label of the colour scale."""
    ramp: str = "cost"
    """A key of RAMPS."""
    scale: Literal["linear", "log"] = "linear"
    """With "log", the scale shows three decades below the largest value; smaller values fade out."""
    vmax: float | None = None
    """End of the scale; None: the largest value."""
    hatch: ArrayLike | None = None
    """(S,) in [0, 1]: how strongly to strike a cell through, because the data say little about it."""
    title: str = ""


def grid_map(layout: Sequence[str], *, format: Format = "svg") -> bytes:
    """The map itself. layout: one string per row; S start, G goal, X constrained, # wall, anything else free."""
    return grid_figure(layout, [Panel()], format=format)


def grid_heatmap(
    layout: Sequence[str],
    row: ArrayLike,
    col: ArrayLike,
    values: ArrayLike,
    *,
    outline: ArrayLike | None = None,
    format: Format = "svg",
    **options: Any,
) -> bytes:
    """A map with values (S,) of the states at cells (row, col) (S,); `options` are the other fields of `Panel`."""
    return grid_figure(layout, [Panel(values, **options)], row=row, col=col, outline=outline, format=format)


def grid_figure(
    layout: Sequence[str],
    panels: Sequence[Panel],
    *,
    row: ArrayLike = (),
    col: ArrayLike = (),
    outline: ArrayLike | None = None,
    format: Format = "svg",
) -> bytes:
    """Maps side by side. (row, col): (S,) cell of each state; outline: (S,) bool, cells to outline.

    In SVG each cell carries its value as a tooltip, up to some thousand cells.
    """
    if not layout or not layout[0]:
        raise UserError("the map is empty")
    rows, cols = np.asarray(row, dtype=int), np.asarray(col, dtype=int)
    height, width = len(layout), max(map(len, layout))
    size = _MAP_INCHES / max(height, width)
    headroom = 0.5 if any(panel.title for panel in panels) else 0.22
    with style():
        # Room for the numbers of rows and columns, and for what stands below the map.
        figure = new_figure((width * size + 0.46) * len(panels), height * size + 0.64 + headroom)
        tips: dict[str, str] = {}
        for number, panel in enumerate(panels):
            corner = ((width * size + 0.46) * number + 0.26, 0.64)
            axes = _map_axes(figure, layout, corner, size)
            if panel.title:
                axes.set_title(plain(panel.title), fontsize=9.5, fontweight="bold", loc="left", pad=18)
            if panel.values is None:
                _draw_crosses(axes, layout)
                _draw_fixtures(axes, layout)
                _draw_key(figure, axes, layout)
            else:
                tips |= _draw_values(axes, layout, rows, cols, panel, f"cell-{number}")
                if outline is not None:
                    _draw_outline(axes, layout, rows, cols, np.asarray(outline, dtype=bool))
                _draw_fixtures(axes, layout)
                _draw_bar(figure, axes, panel)
        image = render(figure, format, tight=False)
    return _with_titles(image, tips) if format == "svg" else image


def _draw_values(
    axes: Axes, layout: Sequence[str], rows: np.ndarray, cols: np.ndarray, panel: Panel, name: str
) -> dict[str, str]:
    """Draw cells and hatching; returns {id: tooltip}."""
    data = np.asarray(panel.values, dtype=np.float64)
    if not rows.shape == cols.shape == data.shape or data.ndim != 1:
        raise UserError(
            f"row, col and values must be arrays of one length, got {rows.shape}, {cols.shape}, {data.shape}"
        )
    colour, shade = RAMPS[panel.ramp], _shade(data, _top(panel), panel.scale)
    tips: dict[str, str] = {}
    if len(data) > _MAX_LIVE_CELLS:
        _cells_as_image(axes, layout, rows, cols, colour, shade)
    else:
        for state, (r, c, value) in enumerate(zip(rows, cols, data, strict=True)):
            _cell(axes, r, c, colour, shade[state], gid=f"{name}-{state}")
            tips[f"{name}-{state}"] = f"row {r}, column {c}: {value:.4g}"
    if panel.hatch is not None:
        _draw_hatch(axes, rows, cols, np.asarray(panel.hatch, dtype=np.float64))
    return tips


def _top(panel: Panel) -> float:
    """Upper end of the colour scale of a panel."""
    if panel.vmax is not None:
        return float(panel.vmax)
    return float(np.nanmax(np.asarray(panel.values, dtype=np.float64), initial=0.0))


def _shade(values: np.ndarray, top: float, scale: str) -> np.ndarray:
    """Opacity in [0, 1]; only 0 (and NaN) is fully transparent on a linear scale."""
    if not top > 0:
        return np.zeros(len(values))
    share = np.nan_to_num(np.clip(values, 0.0, top)) / top
    if scale == "linear":
        return np.where(share > 0, 0.03 + 0.97 * share, 0.0)
    with np.errstate(divide="ignore"):
        return np.clip(1 + np.log10(share) / 3, 0.0, 1.0)


def _map_axes(figure: Figure, layout: Sequence[str], corner: tuple[float, float], size: float) -> Axes:
    """Axes for a map whose lower left corner is at `corner`, with cells of `size`, in inches."""
    height, width = len(layout), max(map(len, layout))
    whole_width, whole_height = figure.get_size_inches()
    place = (corner[0] / whole_width, corner[1] / whole_height)
    axes = figure.add_axes((*place, width * size / whole_width, height * size / whole_height))
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal")
    axes.grid(False)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set(visible=True, linewidth=0.8)
    every = max(1, math.ceil(max(height, width) / 12))
    axes.set_xticks(range(0, width, every))
    axes.set_yticks(range(0, height, every))
    axes.tick_params(length=0, labelsize=7, labelcolor=SOFT, top=True, bottom=False, labeltop=True, labelbottom=False)
    if max(height, width) <= 40:
        for x in np.arange(0.5, width - 1):
            axes.axvline(x, color=SOFT, linewidth=0.35, alpha=0.6)
        for y in np.arange(0.5, height - 1):
            axes.axhline(y, color=SOFT, linewidth=0.35, alpha=0.6)
    return axes


def _draw_crosses(axes: Axes, layout: Sequence[str]) -> None:
    for r, line in enumerate(layout):
        for c, kind in enumerate(line):
            if kind == "X":
                _cell(axes, r, c, RAMPS["cost"], 0.16)
                for slope in (1, -1):
                    ends = [r - 0.2 * slope, r + 0.2 * slope]
                    axes.plot([c - 0.2, c + 0.2], ends, color=RAMPS["cost"], linewidth=1.6)


def _cell(axes: Axes, row: int, col: int, colour: str, alpha: float, gid: str | None = None) -> None:
    from matplotlib.patches import Rectangle

    patch = Rectangle((col - 0.5, row - 0.5), 1, 1, facecolor=(colour, float(alpha)), linewidth=0, gid=gid)
    patch.set_antialiased(False)
    axes.add_artist(patch)
    patch.set_clip_on(False)  # makes files smaller


def _cells_as_image(
    axes: Axes, layout: Sequence[str], rows: np.ndarray, cols: np.ndarray, colour: str, shade: np.ndarray
) -> None:
    from matplotlib.colors import to_rgb

    image = np.zeros((len(layout), max(map(len, layout)), 4))
    image[..., :3] = to_rgb(colour)
    image[rows, cols, 3] = shade
    axes.imshow(image, interpolation="nearest", aspect="equal", zorder=0.5)


def _draw_fixtures(axes: Axes, layout: Sequence[str]) -> None:
    """Draw walls, start and goal."""
    size = min(11.0, _MAP_INCHES * 72 / max(len(layout), max(map(len, layout))) * 0.5)
    for r, line in enumerate(layout):
        for c, kind in enumerate(line):
            if kind == "#":
                _cell(axes, r, c, WALL, 1.0)
            elif kind in "SG":
                axes.text(c, r, kind, ha="center", va="center_baseline", fontsize=size, fontweight="bold")


def _draw_outline(axes: Axes, layout: Sequence[str], rows: np.ndarray, cols: np.ndarray, mask: np.ndarray) -> None:
    """Draw a line around every connected block of cells."""
    from matplotlib.collections import LineCollection

    inside = {(int(r), int(c)) for r, c, m in zip(rows, cols, mask, strict=True) if m}
    edges = []
    for r, c in inside:
        for dr, dc, edge in (
            (-1, 0, [(c - 0.5, r - 0.5), (c + 0.5, r - 0.5)]),
            (1, 0, [(c - 0.5, r + 0.5), (c + 0.5, r + 0.5)]),
            (0, -1, [(c - 0.5, r - 0.5), (c - 0.5, r + 0.5)]),
            (0, 1, [(c + 0.5, r - 0.5), (c + 0.5, r + 0.5)]),
        ):
            if (r + dr, c + dc) not in inside:
                edges.append(edge)
    width = 1.8 if max(len(layout), len(layout[0])) <= 40 else 0.8
    axes.add_collection(LineCollection(sorted(edges), colors=INK, linewidths=width, capstyle="projecting"))


def _draw_hatch(axes: Axes, rows: np.ndarray, cols: np.ndarray, strength: np.ndarray) -> None:
    """Draw three diagonal strokes per cell, stronger where less is known."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    lines, colours = [], []
    for r, c, weight in zip(rows, cols, np.clip(np.nan_to_num(strength), 0, 1), strict=True):
        if weight < 0.05:
            continue
        for shift in (-1 / 3, 0.0, 1 / 3):
            low, high = max(-0.5, -0.5 + shift), min(0.5, 0.5 + shift)
            lines.append([(c + low, r - low + shift), (c + high, r - high + shift)])
            colours.append(to_rgba(SOFT, 0.25 + 0.75 * weight))
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=0.7))


def _draw_bar(figure: Figure, axes: Axes, panel: Panel) -> None:
    """Draw the colour scale below the map."""
    from matplotlib.patches import Rectangle

    colour, top, scale = RAMPS[panel.ramp], _top(panel), panel.scale
    place = axes.get_position()
    height = figure.get_size_inches()[1]
    bar = figure.add_axes((place.x0, 0.4 / height, place.width, 0.1 / height))
    # Shapes instead of an image, so that a page can change the colour as in the cells.
    steps = 48
    for step in range(steps):
        # Each rectangle extends to the right end and adds a little, because adjacent rectangles would show seams.
        left, alpha = step / steps, 1 / (steps - step)
        bar.add_artist(Rectangle((left, 0), 1 - left, 1, facecolor=(colour, alpha), linewidth=0))
    bar.set(xlim=(0, 1), ylim=(0, 1))
    bar.grid(False)
    bar.set_yticks([])
    for side in ("top", "right"):
        bar.spines[side].set_visible(True)
    if not top > 0:
        bar.set_xticks([0], ["0"])
    elif scale == "log":
        decades = np.arange(math.ceil(math.log10(top) - 3 + 1e-9), math.floor(math.log10(top)) + 1)
        bar.set_xticks(1 + (decades - math.log10(top)) / 3, [f"{10.0**k:g}" for k in decades])
    else:
        bar.set_xticks([0, 0.5, 1], ["0", f"{top / 2:.2g}", f"{top:.2g}"])
    bar.tick_params(length=2, labelsize=7.5)
    bar.set_xlabel(plain(panel.label), fontsize=8, labelpad=2)


def _draw_key(figure: Figure, axes: Axes, layout: Sequence[str]) -> None:
    """Draw a legend of the marks that are on the map, in the place of the colour scale."""
    place = axes.get_position()
    words = {"S": "S start", "G": "G goal", "X": "× hidden constraint", "#": "■ wall"}
    text = "  ·  ".join(word for mark, word in words.items() if any(mark in line for line in layout))
    middle, height = place.x0 + place.width / 2, figure.get_size_inches()[1]
    figure.text(middle, 0.46 / height, text, ha="center", va="center", fontsize=7.5, color=INK)


def _with_titles(svg: bytes, titles: Mapping[str, str]) -> bytes:
    """Add tooltips: a <title> inside each group whose id is known."""

    def add(match: re.Match[str]) -> str:
        title = titles.get(match[1])
        return match[0] if title is None else f"{match[0]}<title>{title}</title>"

    return re.sub(r'<g id="([^"]+)">', add, svg.decode()).encode()
