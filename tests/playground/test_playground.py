"""The playground: what it accepts, and what it answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import solve
from tacit.demos import expert_demonstrations
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.playground.answer import Superseded, answer
from tacit.playground.presets import presets
from tacit.playground.scene import Scene, parse
from tacit.playground.server import Desk, Refused

ROWS = ["S.X.G", ".....", "....."]
PATH = {"cells": [[0, 0], [1, 1], [1, 2], [1, 3], [0, 4]], "actions": [4, 0, 0, 5]}


def scene(**changes: Any) -> dict[str, Any]:
    return {"rows": ROWS, "slip": 0.0, "demonstrations": [PATH], **changes}


def flat(grid: list[list[float | None]]) -> list[float]:
    return [value for row in grid for value in row if value is not None]


# -- scenes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset["title"])
def test_presets_are_scenes(preset: dict[str, Any]) -> None:
    parsed = parse(preset["scene"])
    assert parsed.to_json() == preset["scene"]
    assert parsed.truth.n_states >= 4
    assert preset["about"].endswith((".", ")."))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": "S.G"}, "list of strings"),
        ({"rows": [["S", "G"], [".", "."]]}, "list of strings"),
        ({"rows": ["S.G"]}, "has 1 rows"),
        ({"rows": ["S" * 21, "G" * 21]}, "has 21 cells"),
        ({"rows": ["S.", "G"]}, "has 1 cells"),
        ({"rows": ["S..", "G."]}, "ragged"),
        ({"rows": ["S?", "G."]}, "unknown character"),
        ({"rows": ["S.", ".."]}, "no goal"),
        ({"rows": ["SS", "G."]}, "2 cells marked as start"),
        ({"rows": ["S#.", "##.", "..G"]}, "cannot be reached"),
        ({"moves": 6}, "moves must be 4 or 8"),
        ({"moves": 8.0}, "moves must be 4 or 8"),
        ({"slip": 0.95}, "slip must be a number from 0 to 0.9"),
        ({"slip": True}, "slip must be a number"),
        ({"slip": float("nan")}, "slip must be a number"),
        ({"slip": "0.1"}, "slip must be a number"),
        ({"beta": 0}, "beta must be"),
        ({"beta": 10**400}, "beta must be"),
        ({"budget": -1}, "budget must be"),
        ({"objective": "best"}, "objective must be one of"),
        ({"objective": ["plugin"]}, "objective must be one of"),
        ({"expert": {"n": 201}}, "from 0 to 200"),
        ({"expert": {"n": 1.5}}, "whole number"),
        ({"expert": {"seed": -1}}, "seed"),
        ({"expert": []}, "must be a JSON object"),
        ({"name": "x" * 81}, "name must be"),
        ({"name": "two\nlines"}, "name must be"),
        ({"format": "other"}, "no map of the playground"),
        ({"version": 2}, "version 2"),
        ({"layout": "/etc/passwd"}, "unknown entry"),
        ({"demonstrations": [{"cells": [[0, 0]], "actions": []}]}, "1 to 200 actions"),
        ({"demonstrations": [{"cells": [[0, 0]] * 202, "actions": [0] * 201}]}, "1 to 200 actions"),
        ({"demonstrations": [{"cells": [[0, 0], [0, 0, 0]], "actions": [0]}]}, "a cell is"),
        ({"demonstrations": [{"cells": [[0, 0], [0, 25]], "actions": [0]}]}, "a column"),
        ({"demonstrations": [{"cells": [[0, 0], [0, 9]], "actions": [0]}]}, "no cell"),
        ({"demonstrations": [{"cells": [[0, 0], [0, 1]], "actions": [8]}]}, "an action"),
        ({"demonstrations": [PATH] * 101}, "at most 100"),
        ({"rows": ["S.#.G", "..#..", "....."], "demonstrations": [PATH]}, "passes row 1, column 2"),
    ],
)
def test_wrong_scenes_are_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(scene(**changes))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_impossible_demonstrations_are_refused() -> None:
    jump = {"cells": [[0, 0], [2, 2]], "actions": [4]}
    with pytest.raises(UserError, match="cannot lead to"):
        answer(parse(scene(demonstrations=[jump])))
    late = {"cells": [[0, 1], [0, 2]], "actions": [0]}
    with pytest.raises(UserError, match="initial probability 0"):
        answer(parse(scene(demonstrations=[late])))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
FIELDS = ("rows", "moves", "slip", "beta", "budget", "objective", "expert", "demonstrations", "name", "version")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3) | JSON)
def test_anything_is_a_scene_or_a_clear_error(data: Any) -> None:
    found, said = parsed({**scene(), **data} if isinstance(data, dict) else data)
    if found is None:
        assert 10 < len(said) < 400
    else:
        assert parse(json.loads(json.dumps(found.to_json()))) == found


def parsed(data: Any) -> tuple[Scene | None, str]:
    """The scene, or None and why there is none."""
    try:
        return parse(data), ""
    except UserError as error:
        return None, str(error)


@st.composite
def maps(make: Callable[..., Any]) -> list[str]:
    height, width = make(st.integers(2, 7)), make(st.integers(2, 7))
    cells = make(st.lists(st.sampled_from("...X#"), min_size=height * width, max_size=height * width))
    start, goal = make(st.permutations(range(height * width)))[:2]
    cells[start], cells[goal] = "S", "G"
    return ["".join(cells[row * width : (row + 1) * width]) for row in range(height)]


@given(
    rows=maps(),
    moves=st.sampled_from([4, 8]),
    slip=st.sampled_from([0.0, 0.1, 0.9]),
    beta=st.sampled_from([0.005, 0.1, 1.0]),
    budget=st.sampled_from([0.0, 0.003, 10.0]),
    objective=st.sampled_from(["plugin", "likelihood", "moments"]),
    n=st.sampled_from([0, 1, 7]),
)
def test_every_scene_has_an_answer(rows: list[str], n: int, **settings: Any) -> None:
    """Whatever is drawn: valid JSON of the map's shape, costs that are not negative, chances that sum to one."""
    asked, said = parsed({"rows": rows, "expert": {"n": n}, **settings})
    if asked is None:
        assert "cannot be reached" in said
        return
    found = json.loads(json.dumps(answer(asked, compare=True), allow_nan=False))
    assert found["status"] in ("empty", "optimal", "stationary", "infeasible", "iteration limit")
    assert (found["status"] == "empty") == (n == 0)
    assert len(found["expert"]) == n
    walls = [[character == "#" for character in row] for row in rows]
    for name in ("cost", "unknown", "never"):
        if name in found:
            assert [[value is None for value in row] for row in found[name]] == walls
            assert all(value >= 0 for value in flat(found[name]))
    for policy in found["policy"].values():
        np.testing.assert_allclose(np.sum(policy, axis=1), 1.0, atol=5e-3)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_the_answer_is_the_solver_s() -> None:
    spec = make_spec("paper", slip=0.1)
    rows = list(spec.rows)
    found = answer(parse({"rows": rows, "slip": 0.1, "expert": {"n": 20, "seed": 3}, "budget": 0.01}), compare=True)
    data = spec.to_tabular(expert_demonstrations(spec, 20, seed=3))
    solution = solve(spec.model(), "state", demonstrations=data, beta=0.1, budget=0.01, objective="plugin")
    np.testing.assert_allclose(flat(found["cost"]), solution.weights, atol=1e-5)
    assert found["certificate"]["kkt"] < 1e-8
    assert found["status"] == "optimal"
    dearest = max((value, r, c) for r, row in enumerate(found["cost"]) for c, value in enumerate(row))
    assert rows[dearest[1]][dearest[2]] == "X"
    assert found["comparison"]["quality"]["auroc"] > 0.9


def test_the_learner_never_sees_the_constraint() -> None:
    """The same demonstrations with the crosses elsewhere, or nowhere: the same answer."""
    maps = (ROWS, ["S...G", "....X", "XX..."], ["S...G", *ROWS[1:]])
    answers = [answer(parse(scene(rows=rows, objective="plugin"))) for rows in maps]
    for found in answers:
        found.pop("seconds")
    assert answers[0] == answers[1] == answers[2]
    assert "comparison" not in answers[0]
    cost = answers[0]["cost"]
    assert all(cost[0][column] > 0.2 for column in (1, 2, 3)), "the straight way, which was not taken, must cost"
    assert all(cost[row][column] == 0 for row, column in PATH["cells"])


def test_what_cannot_be_known_is_said() -> None:
    """A chamber behind walls: nobody gets there, and nothing is said about it."""
    rows = ["S..G#.", "....#.", "....##"]
    found = answer(parse({"rows": rows, "moves": 4, "slip": 0.0, "expert": {"n": 5}}))
    assert found["reachable"][0][5] == 0
    assert found["reachable"][0][1] == 1
    assert found["unknown"][0][5] == found["never"][0][5] == 1.0
    assert found["cost"][0][5] == 0


def test_no_solution_is_explained_and_the_advice_works() -> None:
    asked = {"rows": list(make_spec("paper").rows), "objective": "moments", "budget": 0.0, "expert": {"n": 10}}
    found = answer(parse(asked))
    assert found["status"] == "infeasible"
    assert found["diagnosis"]["violation"] > 0
    assert found["diagnosis"]["cells"]
    assert "cost" not in found
    better = answer(parse({**asked, "budget": found["diagnosis"]["budget"]}))
    assert better["status"] == "optimal"


def test_a_superseded_solution_stops_and_a_long_one_too() -> None:
    with pytest.raises(Superseded):
        answer(parse(scene(objective="plugin")), superseded=lambda: True)
    with pytest.raises(UserError, match="too long"):
        answer(parse(scene(objective="plugin")), limit=0.0)


def test_the_desk_serves_the_newest_of_each_page() -> None:
    desk = Desk(places=2)
    with desk.turn("a") as superseded:
        assert not superseded()
        outcome: list[str] = []

        def come(page: str) -> None:
            try:
                with desk.turn(page):
                    outcome.append(f"{page} served")
            except Superseded:
                outcome.append(f"{page} superseded")

        first = threading.Thread(target=come, args=("a",))
        first.start()
        while not superseded():
            time.sleep(0.01)
        second = threading.Thread(target=come, args=("b",))
        second.start()
        while len(desk._newest) < 2:
            time.sleep(0.01)
        with pytest.raises(Refused, match="too many"), desk.turn("c"):
            pass
        newest = threading.Thread(target=come, args=("a",))
        newest.start()
        first.join(10)
        assert outcome == ["a superseded"]
    second.join(10)
    newest.join(10)
    assert sorted(outcome) == ["a served", "a superseded", "b served"]
    assert desk._newest == {}


def test_a_scene_is_plain() -> None:
    made = Scene(tuple(ROWS))
    assert "X" not in "".join(made.world.rows)
    assert made.truth.constrained.sum() == 1
