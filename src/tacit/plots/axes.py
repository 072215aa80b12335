"""A learned cost on your own Matplotlib axes: over the cells of a grid, along one feature, or over two.

axes = plot_cost(cost, demonstrations, ("x_position",))
axes = plot_cost(cost, demonstrations, ("x", "y"), axes)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost, choose_columns
from tacit.cost.table import TableCost
from tacit.errors import UserError
from tacit.plots.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tacit.demos import Demonstrations

POINTS, DOTS, MARGIN = 201, 2000, 0.25
"""Values along a feature; demonstrated states that are drawn; what is shown beyond them, as a share of their range."""


def plot_cost(
    cost: LearnedCost | TableCost, demos: Demonstrations, features: Sequence[str] = (), axes: Axes | None = None
) -> Axes:
    """Draw the cost on `axes`, or on those of a new figure; returns them. A grid needs no features."""
    axes = _new_axes() if axes is None else axes
    if isinstance(cost, TableCost):
        return _grid(cost, demos, axes)
    if len(features) not in (1, 2):
        raise UserError(f"a cost is drawn along one feature or over two, not {len(features)}: {', '.join(cost.names)}")
    columns = choose_columns(cost.inputs.names, features)
    rows = _steps(cost, demos) if cost.reads_actions else cost.inputs.rows(demos.observations)
    places = [cost.inputs.columns[i] for i in columns]
    dots = rows[:: max(1, len(rows) // DOTS)]
    return (_curve if len(features) == 1 else _surface)(cost, rows, dots, places, features, axes)


def _steps(cost: LearnedCost, demos: Demonstrations) -> NDArray[Any]:
    """[observation | derived | action] of every demonstrated step."""
    before = demos.observations[demos.rows_before]
    if not cost.inputs.derived:
        return np.concatenate([before.reshape(len(before), -1), demos.actions.reshape(len(demos.actions), -1)], axis=1)
    return cost.inputs.rows(before, demos.actions)


def _curve(
    cost: LearnedCost, rows: NDArray[Any], dots: NDArray[Any], places: list[int], names: Sequence[str], axes: Axes
) -> Axes:
    low, high = rows[:, places[0]].min(), rows[:, places[0]].max()
    values = np.linspace(*_window(low, high), POINTS)
    axes.plot(values, cost.of_rows(_varied(rows, places, [values])), color=COLOURS[0], label="learned cost")
    axes.axvspan(low, high, color=COLOURS[2], alpha=0.15, linewidth=0, label="demonstrated")
    if cost.threshold is not None:
        axes.axhline(cost.threshold, color=COLOURS[1], linestyle="--", label="threshold")
    axes.set(xlabel=names[0], ylabel="cost")
    axes.legend()
    return axes


def _surface(
    cost: LearnedCost, rows: NDArray[Any], dots: NDArray[Any], places: list[int], names: Sequence[str], axes: Axes
) -> Axes:
    sides = [np.linspace(*_window(rows[:, i].min(), rows[:, i].max()), POINTS // 2) for i in places]
    x, y = np.meshgrid(*sides)
    costs = cost.of_rows(_varied(rows, places, [x.ravel(), y.ravel()])).reshape(x.shape)
    filled = axes.contourf(x, y, costs, levels=12, cmap="viridis")
    axes.figure.colorbar(filled, ax=axes, label="cost")
    axes.plot(*dots[:, places].T, ".", color="white", markersize=1.5, alpha=0.6, label="demonstrated")
    axes.set(xlabel=names[0], ylabel=names[1])
    return axes


def _varied(rows: NDArray[Any], places: list[int], values: list[NDArray[Any]]) -> NDArray[Any]:
    """A typical demonstrated state (the median of each entry) with some entries at these values."""
    varied = np.repeat(np.median(rows, axis=0)[None], len(values[0]), axis=0)
    for place, column in zip(places, values, strict=True):
        varied[:, place] = column
    return varied


def _window(low: float, high: float) -> tuple[float, float]:
    room = MARGIN * (high - low) or 1.0
    return low - room, high + room


def _grid(cost: TableCost, demos: Demonstrations, axes: Axes) -> Axes:
    rows, columns = cost.cells.max(axis=0) + 1
    picture = np.full((rows, columns), np.nan)
    picture[tuple(cost.cells.T)] = cost.table.max(axis=1)
    image = axes.imshow(picture, cmap="viridis")
    axes.figure.colorbar(image, ax=axes, label="cost")
    for trajectory in demos:
        cells = cost.cells[cost.states_of(trajectory.observations)]
        axes.plot(cells[:, 1], cells[:, 0], color="white", linewidth=0.8, alpha=0.4)
    axes.set(xlabel="column", ylabel="row")
    return axes


def _new_axes() -> Axes:
    """Axes of a new figure; a notebook shows it without being asked."""
    import matplotlib.pyplot as plt

    return plt.subplots()[1]
