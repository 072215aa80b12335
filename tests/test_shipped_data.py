"""Every data file that comes with the package says where it comes from and under which licence."""

from pathlib import Path

import pytest

import tacit
from tacit import demos
from tacit.envs.traffic import compact
from tacit.run import storage

SOURCE = Path(tacit.__file__).parent
CODE = {".py", ".pyc", ".typed", ".toml", ".html", ".css", ".js"}
"""Written for the package, as its licence says. So are the maps of the gridworld (.txt) and lists of hashes."""
FILES = sorted(
    path
    for path in SOURCE.rglob("*")
    if path.is_file() and path.suffix not in {*CODE, ".txt"} and path.name != "SHA256SUMS"
)


def label(path):
    """(licence, origin) on the card of a file; a kind of file that is not known here fails."""
    if path.name.endswith(compact.SUFFIX):
        card = compact.load(path).about
    elif path.suffix == ".npz":
        card = demos.load(path).card
    elif path.suffix == ".safetensors":
        card = storage.load_arrays(path)[1]
    else:
        assert path.suffix == ".xml", f"what is {path}? Say here how its licence and origin are read"
        text = path.read_text("utf-8")
        return ("MIT" if "Licence: MIT." in text else None), text.partition("Origin: ")[2].partition(".")[0]
    return card.get("licence"), card.get("origin")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_licence_and_origin(path):
    licence, origin = label(path)
    assert licence == "MIT", "run tools/label_data.py"
    assert origin.lower().startswith("made for tacit")


def test_there_are_files():
    assert {"nav.npz", "ant.npz", "sim01.traffic.npz", "highwayvelocity.replay.safetensors", "point.xml"} <= {
        path.name for path in FILES
    }


def test_they_are_shown(cli):
    shown = " ".join(cli("demos", "show", SOURCE / "demos" / "data" / "nav.npz").stdout.split())
    assert "licence MIT" in shown
    assert "origin Made for Tacit by its scripted expert" in shown
    assert cli("traffic", "show", "sim03", "--json").json()["licence"] == "MIT"
    assert "simulator SUMO" in cli("traffic", "show", "sim03").stdout
