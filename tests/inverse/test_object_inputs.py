"""Learning a cost where there is a set of objects: which inputs it has, what a run says, and what the rule says."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from object_helpers import SHY, crowd_cost, observations, permuted
from tacit.cost import LearnedCost
from tacit.demos import Demonstrations, load, shipped
from tacit.envs.capabilities import capabilities
from tacit.envs.crowd import OWN, Crowd
from tacit.envs.registry import make_vec
from tacit.errors import UserError
from tacit.explain import search
from tacit.explain.rules import Sample
from tacit.explain.words import rule_sentence
from tacit.forward.collect import interface_of
from tacit.inverse import mce, objects
from tacit.policy import Policy

DISTANCES = ("distance to the nearest object", SHY, "distance to the nearest harmless object")
CONFIG = mce.Config(features="terms", start="clone", expert_square=2.0)


@pytest.fixture(scope="module")
def demos() -> Demonstrations:
    return load(shipped("tacit/Crowd-v0"))


def inputs(demos: Demonstrations | None, env: Any = None, **settings: Any) -> tuple[str, ...]:
    """Names of the inputs of a cost with these settings."""
    env = make_vec("tacit/Crowd-v0", 1) if env is None else env
    return objects.inputs_of(env, interface_of(env), replace(CONFIG, **settings), demos).names


def undeclared() -> Any:
    """A crowd that says nothing of its objects."""
    env = make_vec("tacit/Crowd-v0", 1)
    env.unwrapped.objects = None
    return env


def test_the_cost_reads_distances_instead_of_slots(demos: Demonstrations) -> None:
    assert inputs(demos) == (*OWN, *DISTANCES)
    assert inputs(None) == (*OWN, *DISTANCES)  # before there are demonstrations, for checks
    assert inputs(demos, inputs=(SHY, "vx")) == (SHY, "vx")


def test_raw_entries_can_be_asked_for(demos: Demonstrations) -> None:
    assert inputs(demos, objects="raw") == Crowd.feature_names
    assert inputs(demos, inputs=("dx_1", "vx")) == ("dx_1", "vx")
    assert inputs(demos, features="network") == Crowd.feature_names  # the paper's way reads the observation as it is


def test_names_that_repeat_are_read_as_objects_and_the_run_says_so(demos: Demonstrations) -> None:
    with pytest.warns(
        UserWarning, match=r"the names show 8 objects.*--objects 'dx_\* dy_\* kind=shy_\*.*--objects raw"
    ):
        assert inputs(demos, undeclared()) == (*OWN, *DISTANCES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert inputs(demos, undeclared(), objects="raw") == Crowd.feature_names
        told = inputs(demos, undeclared(), objects="dx_* dy_* kind=shy_* present=present_*")
    assert told == (*OWN, *DISTANCES[:2])


def test_what_a_user_says_wrongly_is_answered_in_one_sentence(demos: Demonstrations) -> None:
    with pytest.raises(UserError, match="no entry of the observation is called px_"):
        inputs(demos, objects="px_* py_*")
    with pytest.raises(UserError, match="no feature 'distance to the nearest car object'; did you mean"):
        inputs(demos, inputs=(SHY, "distance to the nearest car object"))
    with pytest.raises(UserError, match="'size' is not known"):
        mce.check("tacit/Crowd-v0", {}, replace(CONFIG, objects="dx_* size=shy_*"))


def test_an_attribute_of_another_type_is_no_declaration() -> None:
    env = make_vec("tacit/Crowd-v0", 1)
    assert capabilities(env).objects == Crowd.objects
    env.unwrapped.objects = ["a table"]
    assert capabilities(env).objects is None
    assert interface_of(env).surroundings is None


@pytest.mark.filterwarnings("ignore:the agents that follow the reward")
def test_a_run_learns_saves_and_goes_on(demos: Demonstrations) -> None:
    env = make_vec("tacit/Crowd-v0", 8, objects=[3, 5])
    small = {"total_steps": 8192, "rollout_steps": 1024, "forward_steps": 1024, "epochs": 1, "batch_size": 256}
    config = replace(CONFIG, n_envs=8, bootstrap_steps=2048, tempted_steps=1024, **small)
    steps = mce.learn(env, demos.first(10), config, seed=0)
    next(steps)
    state, _ = next(steps)
    method = mce.METHODS["terms"]
    again = method.from_arrays(*method.to_arrays(state))
    assert again.inputs.derived == state.inputs.derived
    assert again.forward.agent.interface == state.forward.agent.interface
    cost = mce.cost_of(state, config)
    obs = demos.observations[:300]
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(cost(permuted(obs, rng)), cost(obs))
    policy = Policy.from_arrays(*mce.policy_of(state).to_arrays())
    head = policy.head(policy.interface.encode(obs))
    np.testing.assert_allclose(policy.head(policy.interface.encode(permuted(obs, rng))), head, atol=1e-4)


def test_the_rule_names_the_nearest_object(demos: Demonstrations) -> None:
    env = make_vec("tacit/Crowd-v0", 1)
    read = objects.inputs_of(env, interface_of(env), CONFIG, demos)
    rng = np.random.default_rng(0)
    expert = read.rows(demos.observations)
    tried = expert[rng.integers(len(expert), size=4000)].copy()
    column = read.columns[read.names.index(SHY)]
    tried[:, column] = rng.uniform(0.0, 6.0, size=len(tried))
    sample = Sample(expert, np.stack([expert.min(axis=0), expert.max(axis=0)]), tried, tried)
    columns = dict(zip(read.names, read.columns, strict=True))
    rule = search.fit(sample.tried[:, column] < 0.8, sample, columns)
    assert rule_sentence(rule).startswith(f"{SHY} < 0.8")
    (bound,) = rule.bounds
    assert 0.75 < bound.value < 0.85


def test_a_cost_on_objects_as_an_onnx_graph(demos: Demonstrations) -> None:
    pytest.importorskip("onnxruntime")
    from tacit.interop import onnx

    cost: LearnedCost = crowd_cost(observations())
    assert onnx.cost_difference(onnx.cost_graph(cost), cost, observations()) < 1e-4
