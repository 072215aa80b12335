"""Maps to start from: the built-in layouts, and some that each demonstrate one effect."""

from __future__ import annotations

from typing import Any, TypedDict

from tacit.envs.gridworld_map import read_layout
from tacit.playground import scene
from tacit.playground.scene import Expert, Scene, SceneEntry


class Preset(TypedDict):
    """A scene without demonstrations, to start from."""

    title: str
    about: str
    """What to look at."""
    scene: SceneEntry


# (title, what to look at, layout or rows, settings)
_PRESETS: tuple[tuple[str, str, str | tuple[str, ...], dict[str, Any]], ...] = (
    ("The wall", "A wall on the direct way; everybody passes its upper end.", "paper", {}),
    (
        "A wall too far away",
        "The expert never comes near the lower half of the wall, so nobody can tell where it ends.",
        "far-wall",
        {"moves": 4},
    ),
    (
        "The door",
        "A door that one should not use, in a real wall (grey: nobody can enter it).",
        ("#########", "#S..X..G#", "#...#...#", "#.......#", "#########"),
        {"moves": 4, "slip": 0.05},
    ),
    (
        "Two ways",
        "Two equally long corridors, one forbidden. One closed cell explains it as well as three; the rest stays open.",
        ("...........", ".##.###.##.", ".#..XXX..#.", "S..#####..G", ".#.......#.", ".##.###.##.", "..........."),
        {"slip": 0.0},
    ),
    (
        "Slippery ledge",
        "The short way leads along a forbidden edge. The more slippery, the more distance the expert keeps.",
        ("...........", "...........", "...........", "S.........G", "XXXXXXXXXXX"),
        {"slip": 0.3},
    ),
    ("Liu 1: opening on the right", "A wall with one opening.", "wall-1", {}),
    ("Liu 2: a block", "A block in the middle; both ways round are equally good.", "wall-2", {}),
    ("Liu 3: only the border", "A block that leaves only the border.", "wall-3", {}),
    ("Liu 4: zigzag", "Two walls, and a zigzag between them.", "wall-4", {}),
    ("Empty", "Nothing is hidden here. Draw something.", ("." * 9, *["." * 9] * 3, ".S.....G.", *["." * 9] * 4), {}),
)


def presets() -> list[Preset]:
    """All presets, as plain JSON."""
    entries: list[Preset] = []
    for title, about, layout, settings in _PRESETS:
        rows = read_layout(layout)[1] if isinstance(layout, str) else layout
        entries.append({"title": title, "about": about, "scene": Scene(rows, name=title, **settings).to_json()})
    return entries


def limits() -> dict[str, float | list[float]]:
    """The numbers that the server accepts, for the page."""
    return {
        "side": [scene.SMALLEST_SIDE, scene.LARGEST_SIDE],
        "slip": [0.0, scene.LARGEST_SLIP],
        "beta": list(scene.BETAS),
        "budget": [0.0, scene.LARGEST_BUDGET],
        "expert": scene.MOST_EXPERT,
        "own": scene.MOST_OWN,
        "steps": scene.MOST_STEPS,
        "seed": scene.LARGEST_SEED,
        "expert_beta": Expert().beta,
    }
