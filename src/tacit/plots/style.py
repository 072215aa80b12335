"""The common style of all figures, and their conversion to bytes (SVG or PNG).

Matplotlib is imported when a figure is drawn, without pyplot, and its settings are changed only while drawing. The same
input gives the same bytes. SVGs have a transparent background and draw their text and axes in INK, so that a page can
put its own text colour in its place (the report does, for dark mode). Colours are told apart by people with any common
colour vision; lines differ in marker and dash as well.
"""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2429"
"""Colour of text, axes and outlines."""
SOFT = "#8b949e"
"""Colour of grid lines and secondary marks."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1)), "-")

Format = Literal["svg", "png"]
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tacit",
    "font.family": ["DejaVu Sans"],
    "font.size": 8.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": SOFT,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.45,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def style() -> Any:
    import matplotlib

    return matplotlib.rc_context(cast(Any, _STYLE))


def render(figure: Figure, format: Format, tight: bool = True, description: str = "") -> bytes:
    """The figure as bytes. `description` is stored in the file, for people who cannot see the figure."""
    buffer = io.BytesIO()
    box: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.04} if tight else {}
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if format == "svg" else {"Software": None}
    # An SVG takes its background from the page; a PNG needs one, because its text is dark.
    if description and format == "png":
        metadata["Description"] = description
    figure.savefig(buffer, format=format, dpi=200, metadata=metadata, transparent=format == "svg", **box)
    if not description or format == "png":
        return buffer.getvalue()
    before, opening, after = buffer.getvalue().decode("utf-8").partition("<svg ")
    inside, end, rest = after.partition(">")
    return f'{before}{opening}role="img" {inside}{end}\n <title>{escape(description)}</title>{rest}'.encode()


def plain(text: str) -> str:
    """A user's text, escaped so that Matplotlib does not read it as mathematics."""
    return text.replace("$", r"\$")


def legend_above(drawing: Figure, axes: Axes, columns: int) -> None:
    """One legend over all axes of a figure: that of these axes."""
    drawing.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=columns, frameon=False, fontsize=8)
    drawing.tight_layout(rect=(0, 0, 1, 0.92))
