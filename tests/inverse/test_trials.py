"""Trials of terms: which of several explanations a learner needs to be told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.inverse import screen, trials
from tacit.inverse.screen import Samples
from tacit.inverse.terms import Single
from tacit.inverse.trials import Trials

PLACE, STYLE = (0, 1), (2,)


def in_disc(x):
    return np.hypot(x[:, 0], x[:, 1]) < 1.2


def world(rng, careless=0.02, n=3000):
    """Demonstrators avoid a disc, and mostly keep column 2 low; agents do neither."""
    expert = rng.uniform(-3, 3, size=(4 * n, 4))
    expert = expert[~in_disc(expert) | (rng.random(4 * n) < careless / 4)][:n]
    expert[:, 2] = np.where(rng.random(n) < careless, rng.uniform(3.2, 4.0, n), expert[:, 2])
    agents = rng.uniform(-3, 3, size=(n, 4))
    agents[: n // 2, :2] = rng.uniform(-0.8, 0.8, size=(n // 2, 2))
    agents[:, 2] = np.where(rng.random(n) < 0.6, rng.uniform(3.2, 4.0, n), agents[:, 2])
    lengths = np.full(20, n // 20)
    return Samples(expert, screen.folds_of(lengths), agents, np.full(n, 1 / n), 2.0, 0.1)


@pytest.fixture(scope="module")
def samples():
    return world(np.random.default_rng(0))


@pytest.fixture
def both(monkeypatch):
    """Two candidates, none of them spared."""
    monkeypatch.setattr(trials, "FREE", 0.0)
    return Trials((PLACE, STYLE))


def through_the_disc(samples):
    """A learner that has the demonstrators' style, and goes where they do not."""
    steps = samples.expert.copy()
    half = len(steps) // 2
    steps[:half, :2] = np.random.default_rng(1).uniform(-0.8, 0.8, size=(half, 2))
    return steps


def test_candidates_are_what_the_tempted_clone_does(samples):
    started = trials.begin(samples, samples.learner)
    assert PLACE in started.candidates
    assert any(set(STYLE) <= set(inputs) for inputs in started.candidates)
    assert trials.begin(samples, samples.expert).candidates == (), "it does nothing that demonstrators do not"
    through = through_the_disc(samples)
    assert PLACE in trials.begin(samples, through).candidates
    assert trials.excess(Single(samples, STYLE), through) < 0 < trials.excess(Single(samples, PLACE), through)


def test_terms_are_laid_aside_one_by_one_and_never_the_last(samples, both):
    obedient = samples.expert
    assert both.after(samples, obedient, trials.FIRST_TRIAL - 1, 0.1) == both, "too early"
    assert both.after(samples, obedient, 5, trials.LAST_TRIAL) == both, "too late"
    first = both.after(samples, obedient, 5, 0.1)
    assert len(first.aside) == 1
    assert first.after(samples, obedient, 5 + trials.REST, 0.1) == first, "one is left"
    assert first.in_force == [inputs for inputs in both.candidates if inputs not in first.aside]


def test_what_costs_demonstrators_nothing_is_not_laid_aside(samples):
    assert all(Single(samples, inputs).paid < trials.FREE for inputs in (PLACE, STYLE))
    safe = Trials((PLACE, STYLE))
    assert safe.after(samples, samples.expert, 5, 0.1) == safe


def test_a_term_comes_back_if_the_learner_trespasses_and_stays_aside_otherwise(samples, both):
    through = through_the_disc(samples)
    aside = replace(both, aside=(PLACE,), tried=(PLACE,), changed=5)
    back = aside.after(samples, through, 6, 0.3)
    assert back.aside == ()
    assert back.last == PLACE
    assert aside.after(samples, through, 6, trials.LAST_RETURN) == aside, "too late to learn it"
    # Now the style is laid aside, and stays there: this learner has it by itself.
    tried = back.after(samples, samples.expert, 6 + trials.REST, 0.4)
    assert tried.aside == (STYLE,)
    for number in range(7 + trials.REST, 20):
        tried = tried.after(samples, samples.expert, number, 0.5)
    assert tried.in_force == [PLACE]


def test_a_term_is_tried_at_most_so_often(samples, both):
    often = replace(both, tried=(PLACE, STYLE) * trials.MOST_TRIALS)
    assert often.after(samples, samples.expert, 9, 0.5) == often
    assert Trials().after(samples, samples.expert, 9, 0.5) == Trials(), "nothing to try"


def test_only_the_more_doubtful_term_gets_a_second_trial(samples, both):
    sure, doubtful = sorted(both.candidates, key=lambda inputs: Single(samples, inputs).paid)
    tried = replace(both, tried=both.candidates)
    assert replace(tried, last=sure).after(samples, samples.expert, 9, 0.4).aside == (doubtful,)
    assert replace(tried, last=doubtful).after(samples, samples.expert, 9, 0.4).aside == ()


INPUTS = st.lists(st.integers(0, 99), min_size=1, max_size=2, unique=True).map(lambda x: tuple(sorted(x)))
MANY = st.lists(INPUTS, max_size=4).map(tuple)


@given(MANY, MANY, MANY, st.none() | INPUTS, st.integers(0, 1000))
def test_trials_come_back_from_a_checkpoint(candidates, aside, tried, last, changed):
    one = Trials(candidates, aside, tried, last, changed)
    assert Trials.from_array(one.to_array()) == one
