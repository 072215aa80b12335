"""Maps: reading, refusing, making big ones, and drawing them."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.maps import large_map
from hypothesis import given, settings
from hypothesis import strategies as st

from gridworld_oracle import DOWN, RIGHT, UP, WALLED, dense, shortest
from tacit.envs.gridworld import ENV_ID, GridworldEnv, GridworldVectorEnv, make_spec
from tacit.envs.gridworld_map import layout_names, parse_map
from tacit.envs.gridworld_render import render_image, render_text
from tacit.errors import UserError


def test_built_in_layouts():
    assert layout_names() == ["far-wall", "paper", "wall-1", "wall-2", "wall-3", "wall-4"]
    expected = {"wall-1": 5, "wall-2": 9, "wall-3": 25, "wall-4": 10}
    assert {name: int(make_spec(name).constrained.sum()) for name in expected} == expected
    assert all(make_spec(name).description for name in layout_names())


def test_map_files_and_headers(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(b"Moves: 8\r\nhorizon: 33\r\nreward: liu\r\ndescription: a: b\r\n\r\nS..\r\n#XG  \r\n\r\n")
    grid = make_spec(path, slip=0.25)
    assert (grid.rows, grid.moves, grid.horizon, grid.reward) == (("S..", "#XG"), 8, 33, "liu")
    assert (grid.description, grid.name, grid.slip) == ("a: b", "mine", 0.25)
    # A file of one's own travels as its text, a built-in layout by its name.
    again = gym.make(ENV_ID, **grid.env_kwargs()).unwrapped.grid
    assert again == grid
    assert make_spec("wall-3").env_kwargs()["layout"] == "wall-3"
    disguised = tmp_path / "paper.txt"
    disguised.write_text("SG\n")
    assert gym.make(ENV_ID, **make_spec(disguised).env_kwargs()).unwrapped.grid.rows == ("SG",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", "is empty"),
        ("description: nothing\n", "is empty"),
        ("..G\n...\n", "no start: put one 'S'"),
        ("S..\n...\n", "no goal: put one 'G'"),
        ("S.G\n.S.\n", "2 cells marked as start, the second at row 1, column 1"),
        ("SGG\n...\n", "2 cells marked as goal, the second at row 0, column 2"),
        ("S.G\n..\n", "ragged: row 1 has 2 cells, row 0 has 3"),
        ("S.G\n\n...\n", "ragged: row 1 has 0 cells"),
        ("S.G\n.o.\n", "unknown character 'o' at row 1, column 1"),
        ("S.G\n.\x0c.\n", "unknown character '\\\\x0c' at row 1, column 1"),
        ("S#.\n#.G\n", "goal at row 1, column 2 cannot be reached from the start at row 0, column 0 with 4 moves"),
        ("colour: red\nSG\n", "line 1: unknown setting 'colour'"),
        ("moves: many\nSG\n", "line 1: moves must be a whole number, not 'many'"),
        ("moves: 5\nSG\n", "moves must be 4 or 8, not 5"),
        ("reward: none\nSG\n", "reward must be 'paper' or 'liu' or 'road', not 'none'"),
        ("horizon: 0\nSG\n", "horizon must be a whole number of steps, at least 1"),
    ],
)
def test_bad_maps(text, message):
    with pytest.raises(UserError, match=message):
        make_spec(text)
    with pytest.raises(UserError, match=message):
        gym.make(ENV_ID, layout=text)


def test_diagonal_moves_pass_between_walls():
    assert make_spec("S#.\n#.G\n", moves=8).n_states == 4


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"layout": "papre"}, "did you mean 'paper'"),
        ({"layout": "no/such/file.txt"}, "neither a built-in layout nor a map file"),
        ({"layout": "a\0b"}, "neither a built-in layout"),
        ({"slip": -0.1}, "slip must be a probability"),
        ({"slip": 1.1}, "slip must be a probability"),
        ({"slip": float("nan")}, "slip must be a probability"),
        ({"moves": 6}, "moves must be 4 or 8"),
        ({"slip_rule": "other"}, "slip_rule must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"horizon": 2.5}, "horizon must be"),
        ({"discount": 0.0}, "discount must be"),
        ({"observation": "pixels"}, "observation must be 'position' or 'index'"),
        ({"render_mode": "human"}, "render_mode must be one of"),
    ],
)
def test_bad_settings(kwargs, message):
    for make in (GridworldEnv, GridworldVectorEnv):
        with pytest.raises(UserError, match=message):
            make(**kwargs)


def test_bad_map_files(tmp_path):
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"S\xff\xfeG")
    with pytest.raises(UserError, match="not a text file"):
        make_spec(binary)
    with pytest.raises(UserError, match="neither a built-in layout nor a map file"):
        make_spec(tmp_path)
    huge = tmp_path / "huge.txt"
    with open(huge, "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UserError, match="too many"):
        make_spec(huge)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="SG.X#:m48\n\r\t é", max_size=40) | st.text(max_size=30))
def test_map_parser_never_crashes(text):
    try:
        rows, header = parse_map(text)
    except UserError:
        return
    assert set("".join(rows)) <= set("SG.X#")
    assert len({len(row) for row in rows}) == 1
    assert parse_map("\n".join(rows)) == (rows, {})
    assert set(header) <= {"description", "moves", "reward", "horizon"}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_map_gives_a_sound_model(data):
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 5))
    cells = [data.draw(st.sampled_from(".X#")) for _ in range(height * width)]
    start, goal = data.draw(st.permutations(range(height * width)))[:2]
    cells[start], cells[goal] = "S", "G"
    rows = ["".join(cells[i * width : (i + 1) * width]) for i in range(height)]
    moves, slip = data.draw(st.sampled_from([4, 8])), data.draw(st.floats(0, 1))
    rule = data.draw(st.sampled_from(["paper", "liu"]))
    reachable = shortest(rows, moves) is not None
    if not reachable:
        with pytest.raises(UserError, match="cannot be reached"):
            make_spec("\n".join(rows) + "\n", moves=moves)
        return
    grid = make_spec("\n".join(rows) + "\n", moves=moves, slip=slip, slip_rule=rule)
    mdp = grid.model()  # checks that rows are distributions
    table = dense(mdp)
    rng = np.random.default_rng(0)
    states = np.setdiff1d(np.arange(grid.n_states), [grid.goal]).repeat(20)
    actions = rng.integers(moves, size=len(states))
    assert (table[states, actions, grid.sample_next(states, actions, rng)] > 0).all()


@pytest.mark.parametrize("n", [8, 9, 20, 41, 100, 128])
def test_large_maps(n):
    text = large_map(n, seed=3)
    assert text == large_map(n, seed=3)
    grid = make_spec(text, slip=0.2, moves=8)
    assert grid.shape == (n, n)
    wall = grid.constrained.reshape(n, n).any(axis=0)
    assert wall.sum() == 1
    direct, safe = (shortest(grid.rows, 8, forbidden) for forbidden in ("", "X"))
    assert safe > direct  # even for eight moves
    assert grid.model().n_states == n * n
    if n == 100:
        assert len({large_map(n, seed) for seed in range(5)}) > 1
    with pytest.raises(UserError, match="at least 8"):
        large_map(5)


# ---------------------------------------------------------------------------------------------------------------------
# Pictures


def test_text_picture():
    grid = make_spec(WALLED)
    assert render_text(grid) == WALLED
    assert render_text(grid, grid.state_of(1, 0)) == "S.#.\n@X#G\n....\n"


def test_picture_shows_cells_and_agent():
    env = gym.make(ENV_ID, layout=WALLED, slip=0.0, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.dtype == np.uint8
    assert before.shape == (3 * 48 + 1, 4 * 48 + 1, 3)

    def reddish(cell):
        r, g, b = (
            before[cell[0] * 48 : cell[0] * 48 + 48, cell[1] * 48 : cell[1] * 48 + 48, i].astype(int) for i in range(3)
        )
        return ((r > 150) & (g < 80) & (b < 80)).mean()

    assert reddish((1, 1)) > 0.1
    assert all(reddish(cell) == 0 for cell in itertools.product(range(3), range(4)) if cell != (1, 1))
    assert before[24, 2 * 48 + 24].max() < 100  # the wall is dark
    env.step(np.int64(RIGHT))
    changed = (env.render() != before).any(axis=2)
    cells = {(r // 48, c // 48) for r, c in np.argwhere(changed).tolist()}
    assert cells == {(0, 0), (0, 1)}


def test_vector_pictures_and_large_ones():
    batch = GridworldVectorEnv(3, WALLED, slip=0.0, render_mode="ansi")
    batch.reset(seed=0)
    batch.step(np.array([RIGHT, DOWN, UP]))
    assert [picture.index("@") for picture in batch.render()] == [1, 5, 0]
    grid = make_spec(large_map(100))
    assert max(render_image(grid, grid.start).shape) <= 1201
