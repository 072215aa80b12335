"""What the exact experiments share: tables with a column per slip, and intervals over demonstration sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce.columns import header, line
from tacit.stats import Interval, bootstrap_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def table(title: str, slips: Sequence[float], rows: Mapping[str, Iterable[str]]) -> str:
    """A table of {name of the row: a cell per slip}."""
    head = header(["", *(f"slip {slip:g}" for slip in slips)])
    head[0] = head[0].replace("|  |", "| |", 1)
    return "\n".join([f"**{title}**", "", *head, *(line([name, *cells]) for name, cells in rows.items())])


def interval(values: np.ndarray) -> Interval:
    """Mean with a 95 % bootstrap interval over the demonstration sets that have a number."""
    finite = values[np.isfinite(values)]
    return bootstrap_interval(finite[:, None], np.mean, rng=np.random.default_rng(0), resamples=10_000)


def cell(values: np.ndarray) -> str:
    """The mean with its interval; a single number as it is."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return "{:.3f} [{:.3f}, {:.3f}]".format(*interval(values))


def draw_means(axes: Axes, slips: Sequence[float], values: Iterable[np.ndarray], shift: float, **look: Any) -> None:
    """The mean at each slip with its interval as a bar; `shift` keeps bars apart."""
    means = [interval(part) for part in values]
    bars = np.array([[mean.value - mean.low, mean.high - mean.value] for mean in means]).T
    middle = [mean.value for mean in means]
    axes.errorbar(np.array(slips) + shift, middle, yerr=np.maximum(bars, 0.0), markersize=4, capsize=2, **look)
