"""A learned cost in pictures: along one feature (`cost_along`), or over the plane of two (`cost_over`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.plots.style import COLOURS, INK, SOFT, Format, new_figure, plain, render, style

if TYPE_CHECKING:
    from tacit.cost.bounds import Bound

Array = NDArray[Any]
Window = tuple[tuple[float, float], tuple[float, float]]
DOTS = 400
"""Number of states of each kind that are drawn."""
COSTS = "Oranges"
"""Colours from nearly white to dark. They can be read with any colour vision, and in print."""
BLACK, DOT, CROSS = "#000000", "#0068a8", "#737d87"
"""Colours of lines and states on the map. They are not the theme's, because the map stays light on a dark page."""
MOST_BINS, FEWEST_BINS, IN_A_BIN = 50, 10, 25
_CURVES = ((COLOURS[0], "-"), (COLOURS[1], (0, (4, 1.5))))
_VISITS = ((COLOURS[2], "-"), (COLOURS[3], "-"), (SOFT, (0, (2, 1))))
_OPEN = COLOURS[4]


def cost_along(
    name: str,
    window: tuple[float, float],
    *,
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    visits: Mapping[str, ArrayLike],
    demonstrated: tuple[float, float],
    bounds: Sequence[Bound] = (),
    truth: Bound | None = None,
    threshold: float | None = None,
    highest: float | None = None,
    format: Format = "svg",
    description: str = "",
) -> bytes:
    """Draw up to two costs {label: (x, y)} along the feature, above up to three histograms {label: values (n,)}.

    Histograms show where demonstrations and agents spend their time. The range of the demonstrations is shaded; so is,
    in another colour, the band between it and each of the learned `bounds`, about which they say nothing. The true
    boundary is a dotted line, the threshold of the cost a dashed one across. `highest` is the end of the cost's axis.
    """
    with style():
        figure = new_figure(4.6, 3.5)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.4), gridspec_kw={"hspace": 0.1})
        for axes in (top, bottom):
            axes.axvspan(*demonstrated, color=_VISITS[0][0], alpha=0.12, linewidth=0)
            bands = [bound.open_band for bound in bounds if bound.open_band is not None]
            for number, band in enumerate(bands):
                label = "not known" if axes is bottom and not number else None
                axes.axvspan(*band, color=_OPEN, alpha=0.35, linewidth=0, label=label)
        for (label, (x, y)), (colour, dash) in zip(curves.items(), _CURVES, strict=False):
            top.plot(x, y, color=colour, linestyle=dash, label=plain(label), zorder=3)
        if threshold is not None:
            line = top.axhline(threshold, color=SOFT, linewidth=0.9, linestyle="--", zorder=2)
            line.set_label(f"threshold {threshold:.3g}")
        _vertical((top, bottom), bounds, COLOURS[1], (0, (4, 1.5)), "learned", 0.9)
        _vertical((top, bottom), () if truth is None else (truth,), INK, (0, (1, 1.3)), "true", 1.4)
        samples = [np.asarray(values, dtype=np.float64) for values in visits.values()]
        inside = max(int(((sample >= window[0]) & (sample <= window[1])).sum()) for sample in samples)
        edges = np.linspace(*window, 1 + min(max(inside // IN_A_BIN, FEWEST_BINS), MOST_BINS))
        for label, sample, (colour, dash) in zip(visits, samples, _VISITS, strict=False):
            share = np.histogram(sample, edges)[0] / max(len(sample), 1)
            bottom.stairs(share, edges, color=colour, linestyle=dash, linewidth=1.1, label=plain(label))
        top.set(ylabel="cost")
        top.set_ylim(
            0.0, 1.05 * (highest or max(1e-3, threshold or 0.0, *(float(np.max(y)) for _, y in curves.values())))
        )
        bottom.set(xlabel=plain(name), ylabel="share of time", xlim=window)
        bottom.set_ylim(bottom=0.0)
        handles = [handle for axes in (top, bottom) for handle in axes.get_legend_handles_labels()[0]]
        top.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 1.03),
            ncols=3,
            borderaxespad=0,
            handlelength=2.2,
            columnspacing=1.2,
            fontsize=7,
        )
        figure.align_ylabels((top, bottom))
        return render(figure, format, description=description)


def _vertical(every: Any, bounds: Iterable[Bound], colour: str, dash: Any, word: str, width: float) -> None:
    for bound in bounds:
        for axes in every:
            line = axes.axvline(bound.value, color=colour, linestyle=dash, linewidth=width)
        line.set_label(f"{word}: {bound.relation} {bound.value:.6g}".replace("-", "−"))


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
    """Draw costs (h, w) on an even grid of the window, the second feature upwards, with the states and the rule.

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
