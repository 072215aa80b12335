"""The notebook examples/tour.ipynb: its cells run, and it is the one that tools/make_tour.py makes."""

import contextlib
import importlib.util
import io
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOK = json.loads((ROOT / "examples" / "tour.ipynb").read_text())
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


FIRST_OF_NAV = next(i for i, cell in enumerate(CODE) if "tacit/Nav-v0" in cell["source"])


def run_cells(cells):
    """(namespace, pictures) after cells that must say what the notebook shows."""
    pictures = []
    namespace = {"show": pictures.append}
    for cell in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            source = cell["source"].replace("from IPython.display import Image", "").replace("Image(", "show(")
            exec(compile(source, cell["id"], "exec"), namespace)
        shown = "".join(output.get("text", "") for output in cell["outputs"])
        # Numbers of a training may differ in the last digits between processors; words do not.
        assert [line.split()[:1] for line in printed.getvalue().splitlines()] == [
            line.split()[:1] for line in shown.splitlines()
        ]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    return namespace, pictures


def test_the_cells_of_the_grid_run_and_say_what_the_notebook_shows():
    namespace, pictures = run_cells(CODE[:FIRST_OF_NAV])
    assert len(pictures) == 1
    assert namespace["solution"].status == "stationary"
    wall = namespace["spec"].constrained
    assert namespace["solution"].weights[wall].min() > namespace["solution"].weights[~wall].mean()


@pytest.mark.slow
def test_the_cells_of_nav_find_the_discs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, pictures = run_cells(CODE)
    assert len(pictures) == 2
    learned = namespace["learned"]
    in_a_disc, in_the_other, outside = learned.cost(namespace["places"]) > learned.cost.threshold
    assert in_a_disc
    assert in_the_other
    assert not outside


def test_the_notebook_is_made_of_the_cells_of_its_maker():
    path = ROOT / "tools" / "make_tour.py"
    spec = importlib.util.spec_from_file_location("make_tour", path)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    sources = [cell["source"].split("from IPython")[0] for cell in NOTEBOOK["cells"]]
    assert sources == [text.split("display_png")[0] for _, text in maker.CELLS], "run python tools/make_tour.py"
    assert NOTEBOOK["nbformat"] == 4
    assert all({"cell_type", "id", "metadata", "source"} <= cell.keys() for cell in NOTEBOOK["cells"])
