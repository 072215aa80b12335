"""Distances to the nearest of several objects as inputs of a cost, and what a policy sees of the objects."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from object_helpers import NAMES, SHY, crowd_cost, crowd_inputs, observations, permuted
from tacit import CostWrapper
from tacit.cost import LearnedCost, load_cost
from tacit.cost.objects import Nearest, Slots, recognised, root
from tacit.cost.surroundings import Surroundings
from tacit.envs.crowd import OF_OBJECT, OWN, SLOTS, Crowd
from tacit.envs.fitted_cost import FittedCost
from tacit.envs.registry import feature_names, make
from tacit.errors import UserError


def nearest_by_hand(row: np.ndarray, kind: str, far: float) -> float:
    """The distance, slot by slot, from the names alone."""
    entry = {name: float(value) for name, value in zip(NAMES, row, strict=True)}
    distances = [
        math.hypot(entry[f"dx_{i}"], entry[f"dy_{i}"])
        for i in range(1, SLOTS + 1)
        if entry[f"present_{i}"] == 1 and (not kind or entry[f"{kind}_{i}"] == 1)
    ]
    return min([far, *distances])


@pytest.mark.parametrize("kind", ["", "shy", "harmless"])
def test_the_nearest_distance_is_what_one_finds_by_hand(kind: str) -> None:
    obs = observations()
    named = {one.name: one for one in Crowd.objects.nearest(NAMES, obs)}
    one = named[f"distance to the nearest {kind} object".replace("  ", " ")]
    expected = [nearest_by_hand(row, kind, one.far) for row in obs]
    np.testing.assert_allclose(one.of_rows(obs), expected, rtol=1e-6)
    lone = obs.copy()
    lone[:, len(OWN) :] = 0.0
    assert (one.of_rows(lone) == np.float32(one.far)).all()  # where there is none, it is far, and finite


def test_far_is_the_farthest_that_was_observed() -> None:
    obs = observations()
    slots = obs[:, len(OWN) :].reshape(len(obs), SLOTS, len(OF_OBJECT))
    farthest = np.hypot(slots[..., 0], slots[..., 1])[slots[..., -1] > 0.5].max()
    assert [one.far for one in Crowd.objects.nearest(NAMES, obs)] == [pytest.approx(float(farthest))] * 3


def test_permuting_the_slots_does_not_change_the_cost(tmp_path: Path) -> None:
    obs = observations()
    cost = crowd_cost(obs)
    cost.save(tmp_path / "cost.safetensors")
    loaded = load_cost(tmp_path / "cost.safetensors")
    assert isinstance(loaded, LearnedCost)
    assert loaded.inputs.derived == cost.inputs.derived
    assert 0.05 < (cost(obs) > 2.0).mean() < 0.95
    np.testing.assert_array_equal(loaded(obs), cost(obs))
    rng = np.random.default_rng(0)
    for _ in range(10):
        np.testing.assert_array_equal(loaded(permuted(obs, rng)), cost(obs))


def test_a_cost_finds_its_objects_by_name_also_where_there_are_more() -> None:
    obs = observations()
    cost = crowd_cost(obs)
    order = np.random.default_rng(1).permutation(len(NAMES))
    moved = cost.of_names([NAMES[i] for i in order])
    np.testing.assert_array_equal(moved(obs[:, order]), cost(obs))
    nine = (*NAMES, *(f"{entry}_9" for entry in OF_OBJECT))
    ninth = np.zeros((len(obs), len(OF_OBJECT)), np.float32)
    ninth[:, [OF_OBJECT.index("shy"), OF_OBJECT.index("present")]] = 1.0  # at the agent's own place
    more = cost.of_names(nine)(np.concatenate([obs, ninth], axis=1))
    assert (more > 4.9).all()
    with pytest.raises(UserError, match="no entry of the observation is called dx_"):
        cost.of_names(OWN)


def test_derived_inputs_stand_between_observation_and_action() -> None:
    obs = observations()
    inputs = crowd_inputs(obs)
    both = replace(
        inputs, names=(*inputs.names, "action[0]"), columns=(*inputs.columns, inputs.first_action), act_size=2
    )
    rows = both.rows(obs, np.full((len(obs), 2), 7.0, np.float32))
    assert rows.shape == (len(obs), both.width) == (len(obs), 62 + 3 + 2)
    assert both.reads_actions
    assert not inputs.reads_actions
    assert (rows[:, -2:] == 7.0).all()
    moved = both.of_names((*NAMES, "more"))
    wider = np.concatenate([obs, np.zeros((len(obs), 1), np.float32)], axis=1)
    again = moved.rows(wider, np.full((len(obs), 2), 7.0, np.float32))
    np.testing.assert_array_equal(again[:, moved.columns], rows[:, both.columns])


def test_a_part_of_a_cost_needs_only_what_it_reads() -> None:
    cost = crowd_cost(observations())
    part = cost.only(["vx", "vy"])
    there = [
        cost.inputs.is_in(name, column, OWN, 0) for name, column in zip(part.names, part.inputs.columns, strict=True)
    ]
    assert there == [True, True]
    column = cost.inputs.columns[cost.inputs.names.index(SHY)]
    assert not cost.inputs.is_in(SHY, column, OWN, 0)
    assert cost.inputs.is_in(SHY, column, NAMES, 0)
    assert part.of_names(OWN)(np.ones((1, 6), np.float32)) > 0


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "farthest"},
        {"far": math.inf},
        {"far": "far"},
        {"columns": [[0, 1], [2]]},
        {"columns": [[0, 1], [2, 99], [3, 4], [5, 6]]},
        {"position": ["dx"]},
        {"position": 3},
        {"origin_columns": [1]},
    ],
)
def test_damaged_descriptions_are_refused(damage: dict[str, Any]) -> None:
    one = Crowd.objects.nearest(NAMES)[1]
    sound = one.to_json()
    assert Nearest.from_json(sound, len(NAMES)) == one
    with pytest.raises(UserError):
        Nearest.from_json({**sound, **damage}, len(NAMES))


# ---------------------------------------------------------------------------------------------------------------------
# Declarations


def test_declarations_that_are_none() -> None:
    with pytest.raises(UserError, match="one \\* for the number"):
        Slots(("dx", "dy"))
    with pytest.raises(UserError, match="names of their coordinates"):
        Slots(())
    with pytest.raises(UserError, match="is a tuple of names"):
        Slots("dx_*")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="origin of objects has 1"):
        Slots(("x_*", "y_*"), origin=("x",))
    with pytest.raises(UserError, match="no entry of the observation is called pos_"):
        Slots(("pos_*",)).numbers(NAMES)
    with pytest.raises(UserError, match="has no entry kind_1"):
        Slots(("dx_*", "dy_*"), ("kind_*",)).numbers(NAMES)
    with pytest.raises(UserError, match="has no entry me"):
        Slots(("dx_*",), origin=("me",)).numbers(NAMES)


def test_a_declaration_in_words() -> None:
    text = "dx_* dy_* kind=shy_* kind=harmless_* present=present_*"
    assert Slots.of_text(text) == Crowd.objects
    assert Slots.of_text("x_* origin=x") == Slots(("x_*",), origin=("x",))
    with pytest.raises(UserError, match="'sort' is not known"):
        Slots.of_text("dx_* sort=shy_*")
    with pytest.raises(UserError, match="one entry for present"):
        Slots.of_text("dx_* present=a_* present=b_*")


def test_all_entries_of_a_slot_belong_to_it() -> None:
    assert Crowd.objects.entries(NAMES) == set(NAMES) - set(OWN)


def test_repeated_names_are_recognised() -> None:
    obs = observations()
    assert recognised(NAMES, obs) == Crowd.objects
    names = ("x", "y", "obj0_x", "obj0_y", "obj1_x", "obj1_y")
    shown = recognised(names, np.random.default_rng(0).normal(size=(9, 6)))
    assert shown == Slots(("obj*_x", "obj*_y"), origin=("x", "y"))
    (one,) = shown.nearest(names)
    assert one.distances(np.array([1.0, 1.0, 4.0, 5.0, 1.0, 3.0])) == pytest.approx([5.0, 2.0])


@pytest.mark.parametrize("env", ["Ant", "Swimmer", "HighwayDistance", "Nav", "HalfCheetah", "Reactor"])
def test_no_objects_are_recognised_where_there_are_none(env: str) -> None:
    names = feature_names(make(f"tacit/{env}-v0"))
    assert names is not None
    assert recognised(names, np.zeros((2, len(names)))) is None


def test_two_sets_of_coordinates_are_ambiguous() -> None:
    names = ("car1_x", "car1_y", "car2_x", "car2_y", "man1_x", "man1_y", "man2_x", "man2_y")
    assert recognised(names, np.zeros((2, 8))) is None
    assert root("obj*_x") == "obj_x"


# ---------------------------------------------------------------------------------------------------------------------
# What a policy sees


def surroundings() -> Surroundings:
    seen = Surroundings.of(Crowd.objects, NAMES, Crowd.high)
    assert seen is not None
    return seen


def test_a_policy_sees_the_objects_in_no_order() -> None:
    obs, seen = observations(), surroundings()
    view = seen.view(obs)
    assert view.shape == (len(obs), seen.size)
    np.testing.assert_allclose(seen.view(permuted(obs, np.random.default_rng(2))), view, atol=1e-5)
    np.testing.assert_array_equal(view[:, : len(OWN)], obs[:, : len(OWN)])


def test_the_view_is_what_one_sums_by_hand() -> None:
    obs, seen = observations(steps=0), surroundings()
    expected = []
    for row in obs:
        entry = {name: float(value) for name, value in zip(NAMES, row, strict=True)}
        sums = [entry[name] for name in OWN]
        for kind in ("shy", "harmless"):
            for scale in seen.scales:
                total = np.zeros(5)
                for i in range(1, SLOTS + 1):
                    if entry[f"present_{i}"] and entry[f"{kind}_{i}"]:
                        dx, dy = entry[f"dx_{i}"], entry[f"dy_{i}"]
                        d = math.hypot(dx, dy)
                        weight = math.exp(-0.5 * (d / scale) ** 2)
                        total += weight * np.array([dx / d, dy / d, entry[f"dvx_{i}"], entry[f"dvy_{i}"], 1.0])
                sums += list(total)
        expected.append(sums)
    np.testing.assert_allclose(seen.view(obs), expected, atol=1e-5)


def test_the_view_is_saved_and_checked() -> None:
    seen = surroundings()
    described = asdict(seen)
    assert Surroundings.from_json(described, len(NAMES)) == seen
    for damage in ({"scales": [0.0]}, {"kept": [99]}, {"position": []}, {"kinds": [[1]]}, {"more": 1}):
        with pytest.raises(UserError, match="damaged"):
            Surroundings.from_json({**described, **damage}, len(NAMES))


def test_without_bounds_nothing_is_known_of_the_reach() -> None:
    high = np.full(len(NAMES), np.inf)
    assert Surroundings.of(Crowd.objects, NAMES, high) is None
    told = Surroundings.of(replace(Crowd.objects, reach=2.0), NAMES, high)
    assert told is not None
    assert told.scales == (0.5, 1.0, 2.0)


def test_a_wrapper_charges_the_nearest_object() -> None:
    cost = crowd_cost(observations())
    env = CostWrapper(make("tacit/Crowd-v0", objects=[6, 8]), cost, terminate=True)
    obs, _ = env.reset(seed=1)
    forbidden = []
    for seed in range(1, 6):
        obs, _ = env.reset(seed=seed)
        for _ in range(80):
            obs, _, terminated, truncated, info = env.step(np.clip(obs[4:6], -1.0, 1.0))
            assert info["cost"] == pytest.approx(float(cost(obs)))
            forbidden.append(info["forbidden"])
            if terminated or truncated:
                break
    assert any(forbidden)
    broken = obs.copy()
    broken[NAMES.index("dx_1")] = np.nan
    judgement = FittedCost(cost, env).judge(broken[None])
    assert judgement.unknown.all()
    assert np.isfinite(judgement.cost).all()
