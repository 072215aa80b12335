"""Cells and lines of Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def header(head: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [line(head), "|---" * len(head) + "|"]


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def short(value: float, like: float) -> str:
    """With as many decimals as a number of the size of `like` deserves."""
    return f"{value:.{0 if abs(like) >= 100 else 1}f}"


def error(values: np.ndarray) -> float:
    """Standard error of the mean; 0 of a single run, which has no spread."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def with_error(values: np.ndarray) -> str:
    """Mean ± standard error, as in the paper; "-" where a number is missing."""
    if np.isnan(values).any():
        return "-"
    mean = float(values.mean())
    return short(mean, mean) + (f" ± {short(error(values), mean)}" if len(values) > 1 else "")
