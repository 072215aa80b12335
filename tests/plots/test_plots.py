"""Figures: valid files, the right data in them, the same bytes twice, no trace in Matplotlib's settings."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import numpy as np
import pytest

from tacit import plots
from tacit.cost.bounds import Bound
from tacit.errors import UserError
from tacit.plots import features, grids

LAYOUT = ("S.X", "#.G")
ROW, COL = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 1, 2])
VALUES = np.array([0.0, 1.0, 4.0, 0.001, 2.0])
METRICS = [
    {"iteration": i, "beta": beta, "dual_value": -i, "kkt": 10.0**-i, "gap": -(10.0**-i), "infeasibility": 0.0}
    for i, beta in enumerate([1.0, 1.0, 0.1, 0.1, 0.1])
]
FIGURES: dict[str, Callable[[plots.Format], bytes]] = {
    "map": lambda f: grids.grid_map(LAYOUT, format=f),
    "heatmap": lambda f: grids.grid_heatmap(
        LAYOUT, ROW, COL, VALUES, label="cost $x_1$", outline=VALUES > 3, hatch=VALUES / 4, format=f
    ),
    "log heatmap": lambda f: grids.grid_heatmap(
        LAYOUT, ROW, COL, VALUES, label="visits", ramp="visits", scale="log", format=f
    ),
    "residuals": lambda f: plots.residual_curves(METRICS, format=f),
    "dual": lambda f: plots.dual_curve(METRICS, format=f),
    "cost along a feature": lambda f: features.cost_along(
        "x $ y",
        (-1.0, 3.0),
        curves={"cost": ([-1, 3], [0, 5]), "map": ([-1, 3], [0, 0])},
        visits={"demonstrations": [0, 0.5, 1], "learner": [2, 3], "reward alone": []},
        demonstrated=(0.0, 1.0),
        bounds=[Bound("x", ">", 1.5, 1.0), Bound("x", "<", -0.5, 0.0)],
        truth=Bound("x", ">", 2.0),
        format=f,
    ),
    "learning": lambda f: plots.learning_curves(
        {"mce": [([0, 10, 20], [1, 2, 3]), ([0, 15], [0, math.nan])], "none": []},
        xlabel="steps",
        ylabel="return",
        reference=("expert", 2.5),
        format=f,
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_valid_and_reproducible(name: str) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    svg, png = FIGURES[name]("svg"), FIGURES[name]("png")
    assert dict(matplotlib.rcParams) == before
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert png.startswith(b"\x89PNG")
    assert len(png) > 2000
    assert FIGURES[name]("svg") == svg
    assert FIGURES[name]("png") == png


def cells(svg: bytes) -> dict[str, float]:
    """{tooltip: opacity} of the cells of a heat-map."""
    found = re.findall(r"<title>([^<]+)</title>\s*<path[^>]*?style=\"([^\"]*)\"", svg.decode())

    def opacity(css: str) -> float:
        stated = re.search(r"opacity: ([\d.e-]+)", css)
        return float(stated[1]) if stated else 0.0 if "fill: none" in css else 1.0

    return {title: opacity(css) for title, css in found}


def test_heatmap_shows_the_values_at_their_cells() -> None:
    shown = cells(FIGURES["heatmap"]("svg"))
    assert list(shown) == [
        "row 0, column 0: 0",
        "row 0, column 1: 1",
        "row 0, column 2: 4",
        "row 1, column 1: 0.001",
        "row 1, column 2: 2",
    ]
    opacity = list(shown.values())
    assert opacity[0] == 0
    assert opacity[2] == 1
    assert 0 < opacity[3] < opacity[1] < opacity[4] < 1
    assert opacity[4] == pytest.approx(0.03 + 0.97 / 2, abs=1e-4)


def points(path: str) -> np.ndarray:
    """(n, 2) corners of an SVG path."""
    return np.array(re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path), dtype=float)


def test_cells_and_outlines_are_where_they_belong() -> None:
    """Columns go right, rows go down, cells touch; the outline of one cell has its four edges."""
    svg = FIGURES["heatmap"]("svg").decode()
    corners = [points(d) for d in re.findall(r'<title>[^<]+</title>\s*<path d="([^"]+)"', svg)]
    size = np.ptp(corners[0], axis=0)
    assert size[0] == pytest.approx(size[1])
    origin = corners[0].min(axis=0)
    for state, corner in enumerate(corners):
        np.testing.assert_allclose(corner.min(axis=0), origin + size * [COL[state], ROW[state]], atol=0.01)
    edges = [points(d) for d in re.findall(r'<path d="([^"]+)"[^>]*stroke-width: 1.8', svg)]
    assert len(edges) == 4  # VALUES > 3 is one cell
    np.testing.assert_allclose(np.concatenate(edges).min(axis=0), corners[2].min(axis=0), atol=0.01)
    np.testing.assert_allclose(np.concatenate(edges).max(axis=0), corners[2].max(axis=0), atol=0.01)


def test_outline_surrounds_blocks_not_cells() -> None:
    svg = grids.grid_heatmap(LAYOUT, ROW, COL, VALUES, label="x", outline=COL == 1).decode()
    assert len(re.findall("stroke-width: 1.8", svg)) == 6  # two cells, one above the other


def test_hatching_is_inside_its_cells() -> None:
    hatched = np.array([0.0, 0.0, 0.0, 1.0, 0.01])
    svg = grids.grid_heatmap(LAYOUT, ROW, COL, VALUES, label="x", hatch=hatched).decode()
    cell = points(re.findall(r'<title>row 1, column 1[^<]+</title>\s*<path d="([^"]+)"', svg)[0])
    strokes = [points(d) for d in re.findall(r'<path d="([^"]+)"[^>]*stroke: #8b949e[^>]*stroke-width: 0.7', svg)]
    assert len(strokes) == 3
    assert (np.concatenate(strokes) >= cell.min(axis=0) - 0.01).all()
    assert (np.concatenate(strokes) <= cell.max(axis=0) + 0.01).all()


def test_logarithmic_scale_shows_three_decades() -> None:
    opacity = list(cells(FIGURES["log heatmap"]("svg")).values())
    assert opacity == pytest.approx([0, 1 - math.log10(4) / 3, 1, 0, 1 - math.log10(2) / 3], abs=1e-4)


def test_nothing_to_show_is_still_a_picture() -> None:
    for scale in ("linear", "log"):
        svg = grids.grid_heatmap(LAYOUT, ROW, COL, np.zeros(5), label="cost", scale=scale)  # type: ignore[arg-type]
        assert set(cells(svg).values()) == {0.0}
    assert plots.residual_curves([], format="svg")
    assert plots.dual_curve([{"iteration": 0, "dual_value": 1.0}])


def test_many_stages_and_single_points() -> None:
    stages = [{"iteration": i, "beta": 0.9**i, "kkt": 1.0} for i in range(30)]
    assert plots.residual_curves(stages)
    assert plots.residual_curves(stages[:1])


def test_middle_of_the_seeds_is_their_interquartile_mean() -> None:
    """The thick line of five flat seeds lies at the mean of the middle three."""
    seeds = [([0.0, 1.0], [level, level]) for level in (0.0, 1.0, 2.0, 3.0, 100.0)]
    svg = plots.learning_curves({"x": seeds}, xlabel="x", ylabel="y", reference=("r", 2.0)).decode()
    thick = re.search(r'<path d="M ([\d.]+) ([\d.]+)[^"]*"[^>]*stroke-width: 2\b', svg)
    dotted = re.search(r'<path d="M ([\d.]+) ([\d.]+)[^"]*"[^>]*stroke-width: 0.8', svg)
    assert thick is not None
    assert dotted is not None
    assert float(thick[2]) == pytest.approx(float(dotted[2]), abs=0.01)


def test_bad_input_is_explained() -> None:
    with pytest.raises(UserError, match="one length"):
        grids.grid_heatmap(LAYOUT, ROW, COL, VALUES[:3], label="x")
    with pytest.raises(UserError, match="empty"):
        grids.grid_map(())


def test_maps_side_by_side() -> None:
    """A strip is as wide as its panels together, and each panel shows its own values."""
    panels = [
        grids.Panel(title="The map"),
        grids.Panel(VALUES, label="cost", title="Cost"),
        grids.Panel(VALUES[::-1], label="visits", ramp="visits", scale="log", title="Visits"),
    ]
    svg = grids.grid_figure(LAYOUT, panels, row=ROW, col=COL, outline=VALUES > 3)
    one = grids.grid_figure(LAYOUT, panels[1:2], row=ROW, col=COL)
    width, single = (float(ElementTree.fromstring(image).attrib["viewBox"].split()[2]) for image in (svg, one))
    assert width == pytest.approx(3 * single, abs=0.1)
    text = svg.decode()
    assert re.search(r'id="cell-1-2"><title>row 0, column 2: 4<', text)
    assert re.search(r'id="cell-2-0"><title>row 0, column 0: 2<', text)
    assert all(panel.title in text for panel in panels)
