"""A learned cost along one feature, above histograms of where demonstrations and agents spend their time.

cost_along("x_position", (-2, 1), curves={"learned cost": (x, y)}, visits={"demonstrations": values}, ...)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.plots.style import COLOURS, INK, SOFT, Format, new_figure, plain, render, style

if TYPE_CHECKING:
    from tacit.cost.bounds import Bound

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
    """Draw up to two costs {label: (x, y)} along the feature, and up to three histograms {label: values (n,)}.

    The range of the demonstrations is shaded; so is, in another colour, the band between it and each of the learned
    `bounds`, about which they say nothing. The true boundary is a dotted line, the threshold of the cost a dashed one
    across. `highest` is the end of the cost's axis.
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
