"""Bad input to the Python interface: a ValueError or TypeError whose sentence says what is wrong and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from strategies import make_case
from tacit.errors import UserError
from tacit.inverse.mce_exact import Options
from tacit.tabular import MDP, solve

CASE = make_case(0)  # 5 states, 3 actions, 3 features
CHAIN = make_case(
    0, dynamics="chain", n_terminal=1
)  # starts in 0; action 0 goes back, the others forward; 4 is terminal
MOMENTS = np.full(3, 5.0)
SPARSE = sp.csr_array(CASE.transitions.reshape(15, 5))
DEMOS = [(np.array([0, 1]), np.array([0]))]


def changed(array: np.ndarray, where: tuple[int, ...], value: float) -> np.ndarray:
    copy = np.array(array, dtype=np.float64)
    copy[where] = value
    return copy


def sparse_with(value: float) -> sp.csr_array:
    matrix = SPARSE.copy()
    matrix.data[5 * 7 + 2] = value  # row 7: state 2, action 1
    return matrix


def make(**arguments: Any) -> MDP:
    given: dict[str, Any] = {
        "transitions": CASE.transitions,
        "rewards": CASE.rewards,
        "initial": CASE.initial,
        "discount": 0.9,
    }
    return MDP(**{**given, **arguments})


def solve_with(**arguments: Any) -> Any:
    given: dict[str, Any] = {"features": CASE.features, "expert_moments": MOMENTS, "beta": 0.1}
    return solve(CASE.mdp, **{**given, **arguments})


def test_the_examples_are_good_before_they_are_spoilt() -> None:
    assert solve(make(), CASE.features, MOMENTS, beta=0.1).status == "optimal"
    assert solve_with(expert_moments=None, demonstrations=DEMOS, budget=10.0).status == "optimal"
    assert make(transitions=SPARSE).n_states == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"transitions": changed(CASE.transitions, (2, 1, 0), 0.9)},
            r"transitions from state 2, action 1 sum to 1\.\d+, not 1 \(1 such rows\)",
        ),
        ({"transitions": 2 * CASE.transitions}, r"state 0, action 0 sum to 2, not 1 \(15 such rows\); divide each row"),
        ({"transitions": changed(CASE.transitions, (2, 1, 0), -0.1)}, "state 2, action 1 have a negative .* -0.1"),
        ({"transitions": changed(CASE.transitions, (2, 1, 0), np.nan)}, r"transitions\[2, 1, 0\] is nan"),
        ({"transitions": changed(CASE.transitions, (4, 2, 3), np.inf)}, r"transitions\[4, 2, 3\] is inf"),
        ({"transitions": sparse_with(np.nan)}, "transitions from state 2, action 1 have nan"),
        ({"transitions": sparse_with(np.inf)}, "transitions from state 2, action 1 have inf"),
        ({"transitions": sparse_with(-0.25)}, "state 2, action 1 have a negative probability, -0.25"),
        ({"transitions": sparse_with(5.0)}, r"state 2, action 1 sum to 5\.\d+, not 1"),
        ({"transitions": SPARSE.T}, r"shape \(5, 15\), expected \(15, 5\).*row s \* n_actions \+ a"),
        ({"transitions": CASE.transitions[:4]}, r"transitions has shape \(4, 3, 5\), expected \(5, 3, 5\)"),
        ({"transitions": CASE.transitions.reshape(15, 5)}, r"shape \(15, 5\), expected \(5, 3, 5\)"),
        ({"rewards": CASE.rewards[:, 0]}, r"rewards has shape \(5,\), expected \(states, actions\)"),
        ({"rewards": np.zeros((0, 3))}, r"rewards has shape \(0, 3\)"),
        ({"rewards": changed(CASE.rewards, (1, 2), np.nan)}, r"rewards\[1, 2\] is nan"),
        ({"rewards": changed(CASE.rewards, (1, 2), -np.inf)}, r"rewards\[1, 2\] is -inf"),
        ({"initial": 2 * CASE.initial}, "initial must be a distribution.* sums to 2, not 1"),
        ({"initial": np.array([2.0, -1.0, 0.0, 0.0, 0.0])}, r"initial\[1\] is -1"),
        ({"initial": np.array([1.0])}, r"initial has shape \(1,\), expected \(5,\)"),
        ({"initial": np.array([np.nan, 0, 0, 0, 1])}, r"initial\[0\] is nan"),
        ({"discount": 0.0}, r"discount must be in \(0, 1\) without a horizon, not 0"),
        ({"discount": 1.0}, r"discount must be in \(0, 1\) without a horizon, not 1"),
        ({"discount": 1.5}, r"\(0, 1\) without a horizon, not 1.5"),
        ({"discount": -0.5}, r"\(0, 1\) without a horizon, not -0.5"),
        ({"discount": np.nan}, "not nan"),
        ({"discount": 1.5, "horizon": 5}, r"discount must be in \(0, 1\] with a horizon, not 1.5"),
        ({"discount": 0.0, "horizon": 5}, r"discount must be in \(0, 1\] with a horizon"),
        ({"horizon": 0}, "horizon must be at least 1, not 0"),
        ({"horizon": -3}, "horizon must be at least 1, not -3"),
        ({"horizon": 10**12}, "too many; shorten the horizon"),
        ({"terminal": np.array([True])}, r"terminal has shape \(1,\), expected \(5,\)"),
        ({"terminal": np.ones(5, dtype=bool)}, "every state is terminal"),
    ],
)
def test_a_bad_mdp(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transitions": "uniform"}, "transitions must be an array of real numbers"),
        ({"transitions": None}, "transitions must be an array of real numbers: it is None"),
        ({"transitions": [[1.0], [1.0, 2.0]]}, "transitions must be an array of real numbers"),
        ({"transitions": CASE.transitions + 0j}, "transitions must be an array of real numbers: it is complex"),
        ({"transitions": SPARSE * 1j}, "transitions must be an array of real numbers: it is complex"),
        ({"rewards": "x"}, "rewards must be an array of real numbers"),
        ({"rewards": None}, "rewards must be an array of real numbers: it is None"),
        ({"discount": "0.9"}, "discount must be a number, not '0.9'"),
        ({"discount": None}, "discount must be a number, not None"),
        ({"discount": True}, "discount must be a number"),
        ({"horizon": 2.5}, "horizon must be a whole number of steps or None, not 2.5"),
        ({"horizon": "5"}, "horizon must be a whole number"),
        ({"horizon": True}, "horizon must be a whole number"),
        ({"terminal": [0, 0, 0, 0, 1]}, "terminal must be a boolean mask.*int64"),
        ({"terminal": np.array([4])}, "terminal must be a boolean mask over states, for example"),
        ({"terminal": "goal"}, "terminal must be a boolean mask"),
    ],
)
def test_an_mdp_of_wrong_types(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(**arguments)


def test_rows_of_terminal_states_may_be_anything_that_is_not_negative() -> None:
    terminal = np.arange(5) == 4
    make(transitions=changed(CASE.transitions, (4, 0, 0), 7.0), terminal=terminal)
    with pytest.raises(UserError, match="state 4, action 0"):
        make(transitions=changed(CASE.transitions, (4, 0, 0), -7.0), terminal=terminal)


def test_numbers_of_any_kind_are_numbers() -> None:
    make(discount=np.float32(0.5))
    make(discount=1, horizon=np.int64(3))
    assert make(rewards=np.ones((5, 3), dtype=int)).rewards.dtype == np.float64
    whole = sp.coo_array(np.eye(5, dtype=int)[np.arange(15) % 5])
    assert make(transitions=whole).transitions.dtype == np.float64


def test_rounding_of_single_precision_is_told_how_to_fix() -> None:
    rough = CASE.transitions.astype(np.float32)
    with pytest.raises(UserError, match="divide each row by its sum"):
        make(transitions=rough)
    exact = rough.astype(np.float64)
    make(transitions=exact / exact.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": 0}, "beta must be a positive number, not 0"),
        ({"beta": -0.1}, "beta must be a positive number, not -0.1"),
        ({"beta": np.nan}, "beta must be a positive number, not nan"),
        ({"beta": np.inf}, "beta must be a positive number, not inf"),
        ({"beta": 1e-300}, r"beta = 1e-300 is out of proportion to the rewards, which differ by \d"),
        ({"beta": 1e300}, "beta = 1e.300 is out of proportion"),
        ({"budget": -1.0}, r"budget must be >= 0 \(it loosens the constraint\); entry 0 is -1"),
        ({"budget": [0.1, -0.2, 0.1]}, "entry 1 is -0.2"),
        ({"budget": np.nan}, "budget is nan"),
        ({"budget": [0.1, np.inf, 0.1]}, r"budget\[1\] is inf"),
        ({"budget": [0.1, 0.1]}, r"budget has shape \(2,\), expected a number or \(3,\)"),
        ({"expert_moments": [1.0]}, r"expert_moments has shape \(1,\), expected \(3,\)"),
        ({"expert_moments": [1.0, np.nan, 1.0]}, r"expert_moments\[1\] is nan"),
        ({"expert_moments": None}, "give expert_moments or demonstrations: there is nothing to learn from"),
        ({"demonstrations": DEMOS}, "give expert_moments or demonstrations, not both"),
        ({"objective": "moment"}, "objective must be one of moments, likelihood, plugin; not 'moment'"),
        ({"objective": "likelihood"}, 'objective="likelihood" needs demonstrations'),
        ({"objective": "plugin"}, 'objective="plugin" needs demonstrations'),
        ({"method": "sgd"}, "method must be one of newton, gradient; not 'sgd'"),
        ({"features": "states"}, 'features must be "state", "state-action" or an array, not \'states\''),
        ({"features": CASE.features[:, 0]}, r"features have shape \(5, 3\), expected \(5, 3, k\); for features of the"),
        ({"features": changed(CASE.features, (3, 1, 0), np.nan)}, r"features\[3, 1, 0\] is nan"),
        ({"features": CASE.features[..., :0]}, "features have no columns"),
        ({"features": sp.csr_array(np.ones((3, 3)))}, r"sparse features have 3 rows, expected 15"),
        ({"features": sp.csr_array(changed(np.ones((15, 3)), (7, 1), np.inf))}, "state 2, action 1 contain inf"),
        ({"tolerance": 0.0}, "tolerance must be a positive number, not 0"),
        ({"tolerance": np.nan}, "tolerance must be a positive number, not nan"),
        ({"max_iterations": 0}, "max_iterations must be a positive number, not 0"),
        ({"max_iterations": -3}, "max_iterations must be a positive number, not -3"),
        ({"method": "gradient", "step_size": 0.0}, "step_size must be a positive number"),
        ({"method": "gradient", "step_size": np.nan}, "step_size must be a positive number"),
        ({"initial_weights": [1.0]}, r"initial_weights has shape \(1,\), expected \(3,\)"),
        ({"initial_weights": [-1.0, 1.0, 1.0]}, "initial_weights must be >= 0"),
        ({"l1": -1e-3}, "l1 must be >= 0 and finite, not -0.001"),
        ({"l1": np.nan}, "l1 must be >= 0 and finite, not nan"),
        ({"pseudo_count": 0.0}, "pseudo_count must be a positive number"),
    ],
)
def test_bad_arguments_of_solve(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        solve_with(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": "0.1"}, "beta must be a number, not '0.1'"),
        ({"beta": None}, "beta must be a number, not None"),
        ({"beta": True}, "beta must be a number, not True"),
        ({"beta": [0.1]}, "beta must be a number"),
        ({"budget": "much"}, "budget must be an array of real numbers"),
        ({"budget": None}, "budget must be an array of real numbers: it is None"),
        ({"expert_moments": "abc"}, "expert_moments must be an array of real numbers"),
        ({"features": None}, "features must be an array of real numbers: it is None"),
        ({"features": sp.csr_array(np.ones((15, 3))) * 1j}, "features must be an array of real numbers: it is complex"),
        ({"tolerance": "x"}, "tolerance must be a number"),
        ({"max_iterations": 2.5}, "max_iterations must be a whole number, not 2.5"),
        ({"l1": "x"}, "l1 must be a number"),
        ({"tol": 1e-9}, "solve has no option 'tol'; options are tolerance, "),
    ],
)
def test_arguments_of_wrong_types(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        solve_with(**arguments)


def test_what_is_not_an_mdp_is_refused() -> None:
    with pytest.raises(TypeError, match=r"mdp must be a tacit\.tabular\.MDP, not dict"):
        solve({}, "state", [1.0], beta=0.1)  # type: ignore[arg-type]


def test_options_are_checked_wherever_they_are_made() -> None:
    with pytest.raises(UserError, match="tolerance"):
        Options(tolerance=-1.0)


def states(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


FORWARD = states(1)


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        ([], "there are no demonstrations: give at least one"),
        ([(states(0), states())], "demonstration 0 is empty: it has no action"),
        ([(states(), states())], "demonstration 0 is empty"),
        ([(states(0, 1), FORWARD), (states(0, 1, 2), FORWARD)], "demonstration 1 has 3 states and 1 actions"),
        ([(states(0), states(1, 1))], "demonstration 0 has 1 states and 2 actions: expected as many states"),
        ([(states(0, 1), FORWARD), (states(0, 5), FORWARD)], r"demonstration 1, step 1: state 5 is outside .* 0\.\.4"),
        ([(states(-1, 0), FORWARD)], r"demonstration 0, step 0: state -1 is outside the space 0\.\.4"),
        ([(states(0, 1, 2), states(1, 3))], r"demonstration 0, step 1: action 3 is outside the space 0\.\.2"),
        ([(states(0, 1), states(-1))], "step 0: action -1 is outside"),
        ([(states(2**62, 1), FORWARD)], "state 4611686018427387904 is outside"),
        (
            [(states(0, 1, 2), states(1, 1)), (states(0, 1, 3), states(1, 1))],
            "demonstration 1, step 1: state 1 with action 1 cannot lead to state 3",
        ),
        ([(states(0, 1, 2), states(1, 0))], "step 1: state 1 with action 0 cannot lead to state 2"),
        ([(states(1, 2), FORWARD)], "demonstration 0 starts in state 1, which has initial probability 0"),
        ([(states(0, 1, 2, 3, 4, 4), states(1, 1, 1, 1, 1))], "demonstration 0, step 4: acts in terminal state 4"),
    ],
)
@pytest.mark.parametrize("objective", ["moments", "likelihood", "plugin"])
def test_bad_demonstrations(demos: Any, message: str, objective: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        solve(CHAIN.mdp, CHAIN.features, demonstrations=demos, beta=0.1, objective=objective)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        ("demos.npz", "demonstrations must be a sequence of"),
        ({"states": [0]}, "demonstrations must be a sequence of"),
        (iter([(states(0, 1), FORWARD)]), "demonstrations must be a sequence of"),
        ([None], r"demonstration 0 is not a \(states, actions\) pair"),
        ([(states(0, 1), FORWARD, 1)], "demonstration 0 is not a"),
        ([(np.array([0.0, 1.0]), FORWARD)], "states of demonstration 0 must be a one-dimensional array of integers"),
        ([(states(0, 1), np.array([1.0]))], "actions of demonstration 0 must be a one-dimensional array of integers"),
        ([(np.zeros((2, 2), dtype=int), FORWARD)], "states of demonstration 0 must be a one-dimensional"),
        ([(np.array([False, True]), FORWARD)], "array of integers"),
        ([(np.array(["0", "1"]), FORWARD)], "array of integers"),
    ],
)
def test_demonstrations_of_wrong_types(demos: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        solve(CHAIN.mdp, CHAIN.features, demonstrations=demos, beta=0.1)


def test_demonstrations_longer_than_the_horizon() -> None:
    demo = (states(0, 1, 2, 3), states(1, 1, 1))
    mdp = CHAIN.changed(horizon=2).mdp
    with pytest.raises(UserError, match="demonstration 0 has 3 steps, more than the horizon 2"):
        solve(mdp, CHAIN.features, demonstrations=[demo], beta=0.1)


def test_lists_and_small_integers_are_fine() -> None:
    listed = solve_with(expert_moments=None, demonstrations=[([0, 1], [0])], budget=10.0)
    small = [(np.array([0, 1], dtype=np.uint8), np.array([0], dtype=np.int8))]
    np.testing.assert_array_equal(
        solve_with(expert_moments=None, demonstrations=small, budget=10.0).weights, listed.weights
    )
