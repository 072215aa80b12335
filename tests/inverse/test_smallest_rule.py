"""The smallest rule behind a few walks: against brute force, on scripted clumsy walks, where nothing can be told."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import playground_walks as bench

from tacit.envs.gridworld_spec import GridworldSpec
from tacit.inverse import smallest_rule
from tacit.inverse.smallest_rule import infer
from tacit.playground.answer import intended, shortest_way
from tacit.playground.presets import presets
from tacit.playground.scene import parse

SCENES = {entry["title"]: parse(entry["scene"]).truth for entry in presets()}


def steps_around(spec: GridworldSpec, closed: set[int]) -> int:
    """Breadth-first search, one cell at a time: the shortest way that enters none of the closed cells."""
    ends = intended(spec)
    far, queue = {spec.start: 0}, [spec.start]
    for cell in queue:
        for following in ends[cell].tolist():
            if following not in far and following not in closed:
                far[following] = far[cell] + 1
                queue.append(following)
    return far.get(spec.goal, smallest_rule.FAR)


@pytest.mark.parametrize(("moves", "extra"), [(4, 1), (4, 2), (4, 4), (8, 1), (8, 2)])
def test_cuts_are_the_smallest_by_brute_force(moves, extra):
    spec = GridworldSpec(("S..G", "....", "...."), moves=moves)
    walk = [2, 2, 0, 0, 0, 3, 3]
    states = [spec.start]
    for action in walk:
        states.append(int(intended(spec)[states[-1], action]))
    world = smallest_rule._World.of(intended(spec), spec.start, spec.goal, [(np.array(states), np.array(walk))])
    length = world.shortest + extra
    assert length <= world.demonstrated
    cut = smallest_rule._smallest_cut(world, length, [], np.zeros(spec.n_states), np.zeros(spec.n_states, dtype=bool))
    free = np.flatnonzero(world.free).tolist()
    fewest = next(
        size
        for size in range(len(free) + 1)
        if any(steps_around(spec, set(chosen)) >= length for chosen in itertools.combinations(free, size))
    )
    assert cut.sum() == fewest
    assert steps_around(spec, set(np.flatnonzero(cut).tolist())) >= length


@pytest.mark.parametrize("title", ["The door", "The wall"])
def test_five_clumsy_walks_are_enough_in_nine_sets_of_ten(title):
    """The figures of the benchmark, on other sets than those."""
    spec = SCENES[title]
    sets = [bench.walks(spec, number, 0.15, number % 2 == 0) for number in range(50, 60)]
    verdicts = [bench.judged(spec, bench.claimed(spec, pairs, "rule")) for pairs in sets]
    assert verdicts.count("right") >= 9
    assert "wrong" not in verdicts


@pytest.mark.parametrize("detours", [0.0, 0.15, 0.3])
def test_detours_invent_no_rules(detours):
    spec = SCENES["Empty"]
    for number in range(5):
        rule = infer(intended(spec), spec.start, spec.goal, bench.walks(spec, number, detours, False))
        assert rule.verdict == "nothing"
        assert not rule.forbidden.any()


def test_what_was_walked_on_is_never_forbidden_and_one_walk_is_little():
    spec = SCENES["The wall"]
    pairs = bench.walks(spec, 0, 0.2, False)
    rule = infer(intended(spec), spec.start, spec.goal, pairs)
    entered = np.unique(np.concatenate([states for states, _ in pairs]))
    assert not rule.forbidden[entered].any()
    assert (rule.probability[entered] == 0).all()
    one = infer(intended(spec), spec.start, spec.goal, pairs[:1])
    assert one.evidence < rule.evidence


def test_a_slip_into_a_cell_does_not_allow_it():
    """A walker who meant to pass below is pushed into the hidden door: it may still be forbidden."""
    spec = SCENES["The door"]
    pairs = bench.walks(spec, 3, 0.0, True)
    states, actions = pairs[0]
    pushed = states.copy()
    pushed[1] = int(np.flatnonzero(spec.constrained)[0])
    rule = infer(intended(spec), spec.start, spec.goal, [(pushed, actions), *pairs[1:]])
    assert rule.forbidden[spec.constrained].all()


def test_shortest_way_is_that_of_breadth_first_search():
    for spec in SCENES.values():
        assert shortest_way(intended(spec), spec.start, spec.goal) == steps_around(spec, set())


def test_the_committed_figures_reach_what_the_page_promises():
    file = Path(__file__).parents[2] / "results/bench-playground-walks.json"
    rows = [row for row in json.loads(file.read_text())["rows"] if row["objective"] == "rule"]
    for row in rows:
        if row["map"] in ("The door", "The wall"):
            assert row["right"] >= 9, row
            assert row["wrong"] == 0, row
