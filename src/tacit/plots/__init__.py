"""Pictures and films as bytes or files: grids, curves, features, rules, video."""

from tacit.plots.curves import RESIDUALS, dual_curve, learning_curves, residual_curves
from tacit.plots.style import COLOURS, INK, SOFT, Format, legend_above, new_figure, plain, render, style

__all__ = [
    "COLOURS",
    "INK",
    "RESIDUALS",
    "SOFT",
    "Format",
    "dual_curve",
    "learning_curves",
    "legend_above",
    "new_figure",
]
__all__ += ["new_figure", "plain", "render", "residual_curves", "style"]
