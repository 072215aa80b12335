"""Alarms from what a run recorded: each fires on its own number, and a good run has none."""

import pytest

from tacit.explain.alarms import alarms
from tacit.explain.findings import doubts


def row(value, spread=0.1):
    return {"value": value, "low": value - spread, "high": value + spread, "n": 100}


def a_run(**changes):
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
        elif key == "seekers":
            first = dict.fromkeys(first, value)
        else:
            last[f"dual/{key}"] = value
    return summary, [first, last, last, last]


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
    ],
)
def test_each_alarm_fires_on_its_own_number(change, name, level, number):
    (found,) = alarms(*a_run(**change))
    assert (found.name, found.level) == (name, level)
    assert number in found.text
    assert found.text.endswith(".")
    assert str(found).startswith("Do not use this") == (level == "alarm")
    assert str(found) in doubts(*a_run(**change))


def test_runs_of_other_methods_have_fewer_alarms_and_no_error():
    assert alarms({}, []) == []
    assert alarms({"table": {"learned": {"return": 3.0}}}, [{"dual/learner_cost": 1.0}]) == []


def test_logs_without_rewards_say_nothing_about_income():
    summary, metrics = a_run(earned=9.0, seekers=1.0)
    none = {"value": 0.0, "low": 0.0, "high": 0.0, "n": 40, "se": 0.0}
    assert {alarm.name for alarm in alarms(summary, metrics)} == {"beginners", "earns more"}
    summary["table"]["demonstrations"] = {"return": none, "discounted_return": none}
    assert alarms(summary, metrics) == []
