"""Alarms from what a run recorded: each fires on its own number, and a good run has none."""

import pytest

from tacit.explain.alarms import alarms
from tacit.explain.findings import doubts


def row(value, spread=0.1):
    return {"value": value, "low": value - spread, "high": value + spread, "n": 100}


def joint(p):
    return {
        "inputs": ["x", "y"],
        "box": [[-0.5, 0.5], [-1.0, 0.25]],
        "learner": row(0.43),
        "demonstrations": row(0.025),
        "auroc": {"value": 0.7, "low": 0.6, "high": 0.77},
        "p": p,
    }


def a_run(**changes):
    rising = [{}] * 10
    first = {"seekers/nominal_return": 5.0, "seekers/tempted_return": 4.9}
    last = {"dual/terms": 1.0, "dual/learner_above": 0.01, "dual/expert_above": 0.01}
    summary = {
        "table": {
            "demonstrations": {"return": row(4.8), "discounted_return": row(3.5)},
            "learned": {"return": row(4.7), "discounted_return": row(3.4)},
        },
        "demonstrations": {"trajectories": 40},
        "boundaries": [],
    }
    for key, value in changes.items():
        if key == "few":
            summary["demonstrations"]["trajectories"] = value
        elif key == "earned":
            summary["table"]["learned"]["discounted_return"] = row(value)
        elif key in ("outside", "agents_cost", "other_options"):
            summary[key] = value
        elif key == "p":
            summary["joint_test"] = joint(value)
        elif key == "returns":
            rising = [{"rollout/ep_rew_mean": one} for one in value]
        elif key == "seekers":
            first = dict.fromkeys(first, value)
        else:
            last[f"dual/{key}"] = value
    metrics = [first, *[last] * 9]
    return summary, [{**one, **more} for one, more in zip(metrics, rising, strict=True)]


def test_a_good_run_raises_none():
    assert alarms(*a_run()) == []


@pytest.mark.parametrize(
    ("change", "name", "level", "number"),
    [
        ({"terms": 0.0}, "nothing found", "alarm", "no constraint"),
        ({"few": 3}, "few demonstrations", "alarm", "3"),
        ({"seekers": 1.5}, "beginners", "alarm", "1.5"),
        ({"learner_above": 0.2}, "not converged", "alarm", "20 %"),
        ({"earned": 2.0}, "earns less", "alarm", "2"),
        ({"earned": 5.0}, "earns more", "note", "5"),
        ({"returns": [1.0] * 8 + [2.0] * 2}, "not converged", "alarm", "from 1 to 2"),
        ({"p": 1e-4}, "joint test", "alarm", "x from -0.5 to 0.5 and y from -1 to 0.25"),
        ({"other_options": {"shape": "wall"}}, "another task", "alarm", "shape=wall"),
        ({"agents_cost": 1.0, "held_out_cost": 0.6, "expert_cost": 0.1}, "overfitted", "alarm", "0.6"),
        ({"outside": 0.99}, "only the range", "note", "99 %"),
    ],
)
def test_each_alarm_fires_on_its_own_number(change, name, level, number):
    (found,) = alarms(*a_run(**change))
    assert (found.name, found.level) == (name, level)
    assert number in found.text
    assert found.text.endswith(".")
    assert str(found).startswith("Do not use this") == (level == "alarm")
    assert str(found) in doubts(*a_run(**change))


@pytest.mark.parametrize("change", [{"p": 1e-4}, {"earned": 2.0}, {"returns": [1.0] * 8 + [2.0] * 2}])
def test_a_fresh_agent_is_advised_in_the_words_of_its_command(change):
    summary, metrics = a_run(**change)
    (found,) = alarms({**summary, "obedience": {"above": {"value": 0.0, "low": 0.0}, "unknown": 0.0}}, metrics)
    assert "--steps" in found.text
    assert "--total-steps" not in found.text


@pytest.mark.parametrize(("change", "name"), [({"earned": 5.0}, "earns more"), ({"outside": 0.99}, "only the range")])
def test_with_the_joint_test_notes_become_alarms(change, name):
    levels = {one.name: one.level for one in alarms(*a_run(**change, p=1e-4))}
    assert levels == {"joint test": "alarm", name: "alarm"}


@pytest.mark.parametrize(("theirs", "raised"), [("xy", 0), ("xv", 1)])
def test_inputs_that_differ_between_seeds_are_noted(theirs, raised):
    summary, metrics = a_run()
    others = [{"read": ["x", "y"]}, {"read": list(theirs)}, {"read": list(theirs)}, {}]
    found = alarms({**summary, "read": ["x", "y"]}, metrics, others)
    assert [one.name for one in found] == ["names differ between seeds"] * raised
    assert [one.level for one in found] == ["note"] * raised


def test_numbers_within_their_bounds_raise_nothing():
    good = {"agents_cost": 1.0, "held_out_cost": 0.3, "expert_cost": 0.1, "outside": 0.7, "p": 0.05}
    assert alarms(*a_run(**good, returns=[4.0] * 8 + [4.2] * 2)) == []


def test_runs_of_other_methods_have_fewer_alarms_and_no_error():
    assert alarms({}, []) == []
    assert alarms({"table": {"learned": {"return": 3.0}}}, [{"dual/learner_cost": 1.0}]) == []


def test_logs_without_rewards_say_nothing_about_income():
    summary, metrics = a_run(earned=9.0, seekers=1.0)
    none = {"value": 0.0, "low": 0.0, "high": 0.0, "n": 40, "se": 0.0}
    assert {alarm.name for alarm in alarms(summary, metrics)} == {"beginners", "earns more"}
    summary["table"]["demonstrations"] = {"return": none, "discounted_return": none}
    assert alarms(summary, metrics) == []
