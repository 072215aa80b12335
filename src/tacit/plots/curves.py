"""Curves: convergence, learning curves with intervals. The style of all figures is in `tacit.plots.style`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.plots.style import COLOURS, DASHES, INK, SOFT, Format, new_figure, plain, render, style
from tacit.run.summary import Record
from tacit.stats import iqm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# ---------------------------------------------------------------------------------------------------------------------
# Convergence


RESIDUALS = {"kkt": "KKT residual", "gap": "|duality gap|", "infeasibility": "infeasibility"}


def residual_curves(
    metrics: Sequence[Record], names: Mapping[str, str] = RESIDUALS, *, format: Format = "svg"
) -> bytes:
    """Residuals against the iteration, on a logarithmic scale, with the stages of beta. keys: {key: label}."""
    with style():
        figure = new_figure(4.6, 2.9)
        axes = figure.add_subplot()
        x = _numbers(metrics, "iteration", default=range(len(metrics)))
        for i, (key, name) in enumerate(names.items()):
            y = np.abs(_numbers(metrics, key))
            y[~(y > 0)] = np.nan  # exact zeros have no place on a logarithmic axis
            if np.isfinite(y).any():
                axes.plot(x, y, color=COLOURS[i], linestyle=DASHES[i], label=name, zorder=3 - i * 0.1)
        axes.set_yscale("log")
        axes.set(xlabel="iteration", ylabel="distance from the optimum")
        _mark_stages(axes, x, _numbers(metrics, "beta"))
        _legend(axes)
        return render(figure, format)


def dual_curve(metrics: Sequence[Record], label: str = "dual value", *, format: Format = "svg") -> bytes:
    """The value of the dual (or of another objective) against the iteration; it jumps where beta changes."""
    with style():
        figure = new_figure(4.6, 2.9)
        axes = figure.add_subplot()
        x = _numbers(metrics, "iteration", default=range(len(metrics)))
        axes.plot(x, _numbers(metrics, "dual_value"), color=COLOURS[0], marker="o", markersize=2.5)
        axes.set(xlabel="iteration", ylabel=plain(label))
        _mark_stages(axes, x, _numbers(metrics, "beta"))
        return render(figure, format)


def _numbers(records: Sequence[Record], key: str, default: Any = None) -> np.ndarray:
    """(n,) one entry of each record; NaN if it is missing or not a number."""
    fallback = [math.nan] * len(records) if default is None else list(default)
    values = [record.get(key, fallback[i]) for i, record in enumerate(records)]
    return np.array([v if isinstance(v, int | float) else math.nan for v in values], dtype=np.float64)


def _mark_stages(axes: Axes, x: np.ndarray, beta: np.ndarray) -> None:
    """Shade every other stretch of constant beta and write beta above those that are wide enough."""
    if not np.isfinite(beta).any():
        return
    starts = [0, *(np.flatnonzero(np.diff(beta) != 0) + 1)]
    ends = [*starts[1:], len(x)]
    left = [x[0] if s == 0 else (x[s - 1] + x[s]) / 2 for s in starts]
    right = [x[-1] if e == len(x) else (x[e - 1] + x[e]) / 2 for e in ends]
    span = max(x[-1] - x[0], 1e-9)
    if span > 1e-9:
        axes.set_xlim(x[0], x[-1])
    for number, (a, b, s) in enumerate(zip(left, right, starts, strict=True)):
        if number % 2:
            axes.axvspan(a, b, color=SOFT, alpha=0.13, linewidth=0)
        if (b - a) / span > 0.055:
            name = f"β = {beta[s]:g}" if number == 0 or (b - a) / span > 0.14 else f"{beta[s]:g}"
            axes.text(
                (a + b) / 2, 1.02, name, transform=axes.get_xaxis_transform(), ha="center", fontsize=6.5, color=SOFT
            )


# ---------------------------------------------------------------------------------------------------------------------
# Results


def learning_curves(
    curves: Mapping[str, Sequence[tuple[ArrayLike, ArrayLike]]],
    *,
    xlabel: str,
    ylabel: str,
    reference: tuple[str, float] | None = None,
    format: Format = "svg",
) -> bytes:
    """Learning curves of {method: [(x, y) of each seed]}: thin lines for seeds, thick ones for interquartile means."""
    from matplotlib.ticker import EngFormatter

    with style():
        figure = new_figure(4.6, 3.0)
        axes = figure.add_subplot()
        for i, (name, seeds) in enumerate(curves.items()):
            colour = COLOURS[i % len(COLOURS)]
            pairs = [(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)) for x, y in seeds]
            pairs = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in pairs]
            pairs = [(x, y) for x, y in pairs if len(x)]
            for x, y in pairs:
                axes.plot(x, y, color=colour, linewidth=0.7, alpha=0.45)
            if not pairs:
                continue
            # Only where every seed has data, so that the middle line does not jump when one ends early.
            grid = np.unique(np.concatenate([x for x, _ in pairs]))
            grid = grid[(grid >= max(x[0] for x, _ in pairs)) & (grid <= min(x[-1] for x, _ in pairs))]
            middle = iqm(np.stack([np.interp(grid, x, y) for x, y in pairs]), axis=0)
            seeds_note = f" ({len(pairs)} seeds)" if len(pairs) > 1 else ""
            axes.plot(
                grid,
                middle,
                color=colour,
                linewidth=2,
                linestyle=DASHES[i % len(DASHES)],
                label=plain(name) + seeds_note,
            )
        if reference is not None:
            name, level = reference
            axes.axhline(level, color=INK, linewidth=0.8, linestyle=(0, (1, 2)), label=plain(name))
        axes.set(xlabel=plain(xlabel), ylabel=plain(ylabel))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        if axes.lines and all(not np.any(line.get_ydata()) for line in axes.lines):
            axes.set_ylim(-0.02, 1.0)  # nothing but zeros: an axis around them would invent negative values
        _legend(axes)
        return render(figure, format)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.08), ncols=3, borderaxespad=0, handlelength=2.4)
