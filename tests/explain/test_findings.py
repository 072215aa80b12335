"""Findings: the sentences about a run follow from its summary and curves, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.explain import findings


def clean() -> dict[str, Any]:
    """The summary of a run about which there is nothing to doubt."""

    def row(value: float, count: int) -> dict[str, Any]:
        rate = {"value": count / 100, "low": max(0, count / 100 - 0.04), "high": count / 100 + 0.04, "count": count}
        around = {"value": value, "low": value - 5, "high": value + 5}
        return {"return": around, "violation_rate_episode": rate, "length": {"value": 90.0, "low": 89.0, "high": 91.0}}

    bound = {"feature": "x_position", "relation": ">", "value": 0.497, "demonstrated": 0.47, "share": 0.031}
    return {
        "table": {"demonstrations": row(100.0, 0), "learned": row(101.0, 2), "learned, deterministic": row(103.0, 0)},
        "demonstrations": {"trajectories": 50},
        "boundaries": [bound, {**bound, "feature": "speed", "relation": "<", "value": -2.0, "share": 0.01}],
        "threshold": {"truth": "x_position > 0.5", "found": "x_position > 0.497", "error": 0.0},
        "cost_quality": {"auroc": 0.98, "auroc_cost": 0.99},
        "resets": 0,
        "steps": 1000,
        "time": {"rollouts": 3.0, "PPO": 1.5, "inverse": 0.5},
    }


def test_words() -> None:
    summary = clean()
    assert findings.doubts(summary, []) == []
    (sentence,) = findings.learned(summary)
    assert sentence == (
        "Learned from 50 demonstrations: **x_position > 0.497** is forbidden. The demonstrations reach 0.47; no "
        "demonstration goes in between. 3.1 % of the states that the learner tried lie beyond it. The map also marks "
        "speed < -2 (1 %). The true constraint, which the learner never saw, is **x_position > 0.5**; the learned "
        "boundary lies between it and the demonstrations, as it should."
    )
    (sentence,) = findings.behaviour(summary["table"])
    assert sentence == (
        "The learned policy earns **101** per episode (95 % interval 96 to 106), the demonstrations 100. It breaks the "
        "true constraint in **2 %** of its episodes (95 % interval 0 % to 6 %), the demonstrations in none; without "
        "exploration noise in none."
    )
    assert findings.time_words(summary) == (
        "1,000 environment steps, 200 per second: rollouts 3 s (60 %), PPO 1.5 s (30 %), inverse 0.5 s (10 %)"
    )
    assert findings.learned({"table": {}}) == findings.doubts({"table": {}}) == findings.behaviour({}) == []
    assert findings.time_words({}) == ""


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("table", "learned", "violation_rate_episode"), {"value": 0.37, "low": 0.28, "high": 0.47}, "37 % of its"),
        (("table", "learned", "return"), {"value": 60.0, "low": 50.0, "high": 70.0}, "clearly less than the demo"),
        (("threshold", "found"), None, "misses the true constraint, x_position > 0.5"),
        (("cost_quality", "auroc"), 0.7, "AUROC 0.700"),
        (("demonstrations", "trajectories"), 1, "is only 1 demonstration:"),
        (("demonstrations", "trajectories"), 4, "are only 4 demonstrations:"),
        (("resets",), 2, "start again twice"),
    ],
)
def test_doubts_follow_the_summary(path: tuple[str, ...], value: Any, words: str) -> None:
    summary = clean()
    entry = summary
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    doubts = findings.doubts(summary)
    assert len(doubts) == 1
    assert words in doubts[0]


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"dual/clipped": [0.0, 0.2, 0.0]}, "20 % of the learner's steps"),
        ({"dual/learner_cost": [2.0, 1.0, 1.0], "dual/expert_cost": [0.1, 0.1, 0.1]}, "steps cost 1 on average"),
        # The first iteration knows no cost, and few iterations are judged by their last third: those before learn.
        ({"dual/learner_cost": [2.75, 0.01, 0.0], "dual/expert_cost": [0.01] * 3}, None),
        ({"dual/learner_cost": [3.0, 2.0, 1.5, 1.0, 0.01], "dual/expert_cost": [0.01] * 5}, None),
        ({"dual/learner_cost": [3.0] + [1.0] * 6 + [0.7, 0.8, 0.9], "dual/expert_cost": [0.1] * 10}, "cost 0.8 on"),
        ({"dual/learner_cost": [2.75], "dual/expert_cost": [0.1]}, None),
        ({"dual/learner_cost": [2.0, 0.1, 0.0, 0.0, 0.01], "dual/expert_cost": [0.0] * 5}, None),
        ({"dual/learner_cost": [2.0, 1.0, 1.0], "dual/expert_cost": [0.5, 0.5, 0.5]}, None),
        ({"dual/clipped": [0.005], "dual/learner_cost": ["x"], "dual/expert_cost": [None]}, None),
    ],
)
def test_doubts_follow_the_curves(metrics: dict[str, list[Any]], words: str | None) -> None:
    records = [dict(zip(metrics, row, strict=True)) for row in zip(*metrics.values(), strict=True)]
    doubts = findings.doubts(clean(), records)
    assert len(doubts) == (words is not None)
    assert words is None or words in doubts[0]


def test_a_map_without_boundaries() -> None:
    summary = clean() | {"boundaries": [], "threshold": {"truth": "x_position > 0.5", "found": None}}
    (doubt,) = findings.doubts(summary)
    assert "The map marks no boundary" in doubt
    assert "**marks no boundary** on any single feature" in findings.learned(summary)[0]


def test_a_boundary_beyond_the_truth() -> None:
    summary = clean()
    summary["threshold"] |= {"error": 0.125}
    assert findings.learned(summary)[0].endswith("**x_position > 0.5**; the learned boundary lies 0.125 beyond it.")
    # A summary lists only the first few: the one beside the truth is added.
    summary["boundaries"], summary["threshold"]["demonstrated"] = summary["boundaries"][1:], 0.47
    assert [str(bound) for bound in findings.boundaries(summary)] == ["speed < -2", "x_position > 0.497"]
    assert findings.boundaries(summary)[1].demonstrated == 0.47
    summary["threshold"] |= {"found": None}
    assert findings.learned(summary)[0].endswith("the map has no boundary on that side of x_position.")
    for strange in ("nonsense", "x > y", {"a": 1}, None):
        assert findings.true_bound({"threshold": {"truth": strange}}) is None


def test_the_rule_is_what_was_learned() -> None:
    """With an explanation, its rule is named, and no boundary of the map beside it."""
    clause = {"bounds": [{"feature": "x_position", "relation": ">", "value": 0.49, "demonstrated": 0.47}], "share": 0.9}
    region = {"shape": "distance", "features": ["x", "y"], "low": None, "high": 1.0, "demonstrated": [None, 1.1]}
    disc = {"bounds": [], "regions": [{**region, "centre": [0, 0], "ratio": 1.0}], "share": 0.1}
    quality = {"precision": 0.9, "recall": 0.8}
    explanation = {"clauses": [clause, disc], "coverage": quality, "truth": {**quality, "recall": 0.7}}
    (sentence,) = findings.learned(clean(), explanation)
    assert sentence == (
        "Learned from 50 demonstrations: **x_position > 0.49 or (x, y) within 1 of (0, 0)** is forbidden. The rule "
        "covers 80 % of the tried states that the cost rejects; the cost rejects 90 % of those that it covers. The "
        "true constraint, which the learner never saw, is **x_position > 0.5**; the rule's boundary lies between it "
        "and the demonstrations, as it should. Against the truth: precision 90 %, recall 70 %."
    )
    assert findings.doubts(clean(), [], explanation) == []
    (sentence,) = findings.learned(clean(), {**explanation, "clauses": [disc]})
    assert "no boundary of its own on that side of x_position" in sentence
    (doubt,) = findings.doubts(clean(), [], {**explanation, "clauses": [disc]})
    assert "says nothing about x_position" in doubt
    (doubt,) = findings.doubts(clean(), [], {**explanation, "clauses": []})
    assert "No short rule" in doubt
    for damaged in ({"clauses": 3}, {"clauses": [{}]}, {"clauses": [{"bounds": [3], "share": 1}]}, [1], None):
        assert findings.learned(clean(), damaged) == findings.learned(clean())
