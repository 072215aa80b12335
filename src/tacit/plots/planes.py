"""A learned cost over the plane of two features, with the demonstrations, what was tried, and the rule's outline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.plots.style import INK, Format, new_figure, plain, render, style

Array = NDArray[Any]
Window = tuple[tuple[float, float], tuple[float, float]]
DOTS = 400
"""Number of states of each kind that are drawn."""
COSTS = "Oranges"
"""Colours from nearly white to dark. They can be read with any colour vision, and in print."""
BLACK, DOT, CROSS = "#000000", "#0068a8", "#737d87"
"""Colours of lines and states on the map. They are not the theme's, because the map stays light on a dark page."""


def cost_over(
    names: tuple[str, str],
    window: Window,
    *,
    costs: Array,
    threshold: float,
    forbidden: Array,
    demonstrated: Array,
    tried: Array,
    format: Format = "svg",
    description: str = "",
) -> bytes:
    """Draw costs (h, w) on an even grid of the window, the second feature upwards.

    forbidden (H, W) is where the rule holds, on another grid of the same window; demonstrated and tried are states
    (n, 2). The dashed line is where the cost passes its threshold.
    """
    from matplotlib.lines import Line2D

    (left, right), (bottom, top) = window
    with style():
        figure = new_figure(4.6, 3.9)
        axes = figure.add_subplot()
        axes.grid(False)
        highest = max(float(costs.max()), 1.25 * threshold, 1e-12)
        image = axes.imshow(
            costs,
            origin="lower",
            extent=(left, right, bottom, top),
            aspect="auto",
            cmap=COSTS,
            vmin=min(0.0, float(costs.min())),
            vmax=highest,
            interpolation="bilinear",
        )
        axes.plot(*_thinned(tried).T, "x", color=CROSS, markersize=2.6, markeredgewidth=0.6, zorder=2)
        axes.plot(*_thinned(demonstrated).T, "o", color=DOT, markersize=2.0, markeredgewidth=0.0, zorder=3)
        handles = [
            Line2D([], [], marker="o", color=DOT, linestyle="", markersize=3, label="demonstrated"),
            Line2D([], [], marker="x", color=CROSS, linestyle="", markersize=4, label="tried by agents"),
        ]
        xs, ys = (np.linspace(*ends, n) for ends, n in zip(window, costs.shape[::-1], strict=True))
        if costs.min() < threshold < costs.max():
            axes.contour(xs, ys, costs, levels=[threshold], colors=BLACK, linewidths=0.9, linestyles="--", zorder=4)
            handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle="--", label="cost at its threshold"))
        xs, ys = (np.linspace(*ends, n) for ends, n in zip(window, forbidden.shape[::-1], strict=True))
        if forbidden.any() and not forbidden.all():
            axes.contour(xs, ys, forbidden.astype(float), levels=[0.5], colors=BLACK, linewidths=1.8, zorder=4)
            handles.append(Line2D([], [], color=INK, linewidth=1.8, label="the rule"))
        # The legend is beside the map, so its lines have the page's colour.
        bar = figure.colorbar(image, ax=axes, label="cost", pad=0.03)
        bar.ax.axhline(threshold, color=BLACK, linewidth=0.9, linestyle="--")
        axes.set(xlabel=plain(names[0]), ylabel=plain(names[1]), xlim=(left, right), ylim=(bottom, top))
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.02), ncols=2, borderaxespad=0, fontsize=7)
        return render(figure, format, description=description)


def _thinned(states: Array) -> Array:
    return states[:: max(1, -(-len(states) // DOTS))]
