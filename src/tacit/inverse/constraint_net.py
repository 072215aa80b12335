"""What methods with one network for the constraint share: its settings, the network, the state of a run and its saving.

The network is a ReLU network on the scaled inputs of the cost (`tacit.cost`). With one output f, the cost of a step is
c = sigmoid(f) and its feasibility zeta = 1 - c = sigmoid(-f). It starts as the published code's does, weights and
biases uniform within 1/sqrt(inputs of the layer), which makes every cost about 1/2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.errors import UserError
from tacit.forward.agent import filled, named
from tacit.inverse import samples
from tacit.inverse.trainer import Arrays, inputs_from_arrays, inputs_to_arrays
from tacit.policy import Interface

Array = NDArray[Any]
Metrics = dict[str, float]
EPSILON = 1e-5
"""Inside logarithms of a feasibility."""
OPTIMISER = optax.scale_by_adam(eps=1e-5)
REPLAY_ROWS, REPLAY_PHASES = 2048, 40
"""Steps of the learner that are kept: so many of each of the last phases."""
NOMINAL_ROWS = 8192
"""Kept of the bootstrap."""


@dataclass(frozen=True)
class Settings:
    """Settings of the network, of what it reads and of how the learner begins."""

    start: Literal["nominal", "clone"] = "nominal"
    """With which policy the loop begins: one that has followed the reward alone, or one cloned from the
    demonstrations."""
    clone_log_std: float = -4.0
    """Smallest log standard deviation of a cloned policy: it must still explore."""
    inputs: tuple[str, ...] = ()
    """Names of the observation entries that the cost reads; none given: all."""
    use_action: bool = False
    """Whether the cost reads the action too."""
    at: Literal["next", "current"] = "next"
    """Whether the cost of a step is that of the state it reaches or of the one in which the action is taken."""
    input_scale: Literal["fit", "raw"] = "fit"
    """Inputs in units of the narrower of demonstrations and nominal data, or as the environment gives them."""
    squash: bool = True
    """arsinh of the scaled inputs, see tacit.cost."""
    input_clip: float = 20.0
    """Bound of the scaled inputs."""
    layers: tuple[int, ...] = (20,)
    """Hidden ReLU layers of the network."""
    lr_constraint: float = 5e-3
    """Adam's learning rate of the network."""


def check(config: Settings) -> None:
    """UserError for settings that cannot work."""
    choices = {"start": ("nominal", "clone"), "at": ("next", "current"), "input_scale": ("fit", "raw")}
    for name, allowed in choices.items():
        if getattr(config, name) not in allowed:
            raise UserError(f"{name} is {' or '.join(allowed)}, not {getattr(config, name)!r}")
    if config.at == "next" and config.use_action:
        raise UserError('a cost of the state that a step reaches cannot read the action: use at="current"')
    if any(size < 1 for size in config.layers):
        raise UserError(f"layers are sizes of at least 1, not {config.layers}")
    if not config.lr_constraint >= 0 or not config.input_clip > 0:
        raise UserError("lr_constraint cannot be negative, and input_clip must be positive")


# ---------------------------------------------------------------------------------------------------------------------
# The network


class Net(NamedTuple):
    weights: tuple[Any, ...]
    biases: tuple[Any, ...]
    """(in, out) and (out,)"""


def init(rng: np.random.Generator, sizes: tuple[int, ...]) -> Net:
    """A fresh network of these sizes, inputs and outputs included."""
    weights, biases = [], []
    for n_in, n_out in itertools.pairwise(sizes):
        bound = 1.0 / math.sqrt(n_in)
        weights.append(jnp.asarray(rng.uniform(-bound, bound, (n_in, n_out)), jnp.float32))
        biases.append(jnp.asarray(rng.uniform(-bound, bound, n_out), jnp.float32))
    return Net(tuple(weights), tuple(biases))


def outputs(net: Net, z: Any) -> jax.Array:
    """(B, out) of scaled inputs (B, d)."""
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        z = jax.nn.relu(z @ weight + bias)
    return z @ net.weights[-1] + net.biases[-1]


def log_feasibility(net: Net, z: Any) -> jax.Array:
    """log(zeta + eps) (B,) of scaled inputs (B, d)."""
    return jnp.log(jax.nn.sigmoid(-outputs(net, z)[:, 0]) + EPSILON)


def apply(net: Net, moves: Any, lr: Any) -> Net:
    """A step of `OPTIMISER`."""
    moved: Net = jax.tree.map(lambda p, move: p - lr * move, net, moves)
    return moved


def to_cost(net: Net, inputs: Inputs, at: Literal["next", "current"], **fields: Any) -> LearnedCost:
    """c = sigmoid(f) as an artefact (or another head, if `fields` say so)."""
    weights, biases = jax.tree.map(np.asarray, net)
    none = np.zeros((len(inputs.names), 0), np.float32)
    return LearnedCost(inputs, np.ones(1, np.float32), none, none, weights, biases, at=at, **fields)


def orders(rng: np.random.Generator, n: int, m: int, batch: int, passes: int) -> tuple[Array, Array]:
    """Row numbers (passes, minibatches, size) of n demonstrated and of m of the learner's rows; batch 0: all of them.

    A pass visits as many different rows of each side as the shorter of them allows.
    """
    if not batch or batch >= min(n, m):
        return np.tile(np.arange(n), (passes, 1, 1)), np.tile(np.arange(m), (passes, 1, 1))
    count = min(n, m) // batch
    both = []
    for rows in (n, m):
        chosen = np.stack([rng.permutation(rows)[: count * batch] for _ in range(passes)])
        both.append(chosen.reshape(passes, count, batch))
    return both[0], both[1]


# ---------------------------------------------------------------------------------------------------------------------
# The state of a run


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    forward: Any
    """Of the forward step: `ppo_lagrangian.State` or `agent.State`."""
    params: Net
    opt_state: Any
    """Of `OPTIMISER`."""
    inputs: Inputs
    replay: Array
    """(phases, rows, width): rows of earlier forward phases, oldest first."""
    nominal: Array
    """(rows, width) of the bootstrap."""
    replay_truth: Array
    nominal_truth: Array
    """(phases, rows) and (rows,): the environment's own cost there, for judging alone; NaN if unknown."""
    rng: dict[str, Any]
    iteration: int = 0

    @property
    def steps(self) -> int:
        return int(self.forward.steps)


def fresh_state(forward: Any, params: Net, inputs: Inputs, phase: samples.Phase, rng: np.random.Generator) -> State:
    """After the bootstrap, of which `phase` are the steps."""
    return State(
        forward=forward,
        params=params,
        opt_state=OPTIMISER.init(params),
        inputs=inputs,
        replay=np.zeros((0, REPLAY_ROWS, phase.rows.shape[1]), np.float32),
        nominal=samples.thinned(phase.rows, NOMINAL_ROWS),
        replay_truth=np.zeros((0, REPLAY_ROWS), np.float32),
        nominal_truth=samples.thinned(phase.truth, NOMINAL_ROWS),
        rng=dict(rng.bit_generator.state),
    )


def generator(state: State) -> np.random.Generator:
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    return rng


def remember(state: State, phase: samples.Phase, rng: np.random.Generator) -> State:
    """The state with a sample of this phase at the end of its replay, and with the generator as it is then."""
    chosen = rng.integers(len(phase.rows), size=REPLAY_ROWS)
    first = max(0, len(state.replay) + 1 - REPLAY_PHASES)
    return replace(
        state,
        replay=np.concatenate([state.replay, phase.rows[chosen][None]])[first:],
        replay_truth=np.concatenate([state.replay_truth, phase.truth[chosen][None]])[first:],
        rng=dict(rng.bit_generator.state),
    )


def inputs_of(env: VectorEnv, face: Interface, config: Settings) -> Inputs:
    """What the cost is to read, not scaled yet. UserError for a name that the environment does not have."""
    squash = config.squash and config.input_scale == "fit" and not face.n_states
    return samples.unscaled_inputs(env, face, config.inputs, config.use_action, squash, config.input_clip)


def scaled_inputs(inputs: Inputs, face: Interface, config: Settings, expert: Array, learner: Array) -> Inputs:
    """Those with their scale, which stays as it is from now on. One-hot states are left alone."""
    raw = config.input_scale == "raw" or bool(face.n_states)
    return inputs if raw else samples.fit_scale(inputs, expert, learner)


def cost_metrics(cost: LearnedCost, inputs: Inputs, expert: Array, learner: Array) -> Metrics:
    """What every method logs of its cost, on rows of demonstrations and of the learner."""
    expert, learner = (samples.thinned(rows, 4096) for rows in (expert, learner))
    expert_cost = cost.of_rows(expert)
    return {
        "dual/expert_cost": float(expert_cost.mean()),
        "dual/expert_cost_99": float(np.quantile(expert_cost, 0.99)),
        "dual/learner_cost": float(cost.of_rows(learner).mean()),
        "dual/clipped": inputs.clipped_share(learner),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Saving

KEPT = ("replay", "nominal", "replay_truth", "nominal_truth")


def to_arrays(kind: str, state: State, forward: tuple[Arrays, dict[str, Any]]) -> tuple[Arrays, dict[str, Any]]:
    """(arrays, JSON metadata) of all of the state; `forward` are those of its forward half."""
    arrays = {f"forward/{name}": array for name, array in forward[0].items()}
    arrays |= named({"net": state.params, "net_optimiser": state.opt_state})
    arrays |= {name: getattr(state, name) for name in KEPT}
    scales, inputs = inputs_to_arrays(state.inputs)
    return arrays | scales, {
        "kind": kind,
        "version": 1,
        "forward": forward[1],
        "inputs": inputs,
        "sizes": [len(state.params.weights[0]), *(len(bias) for bias in state.params.biases)],
        "rng": state.rng,
        "iteration": state.iteration,
    }


def from_arrays(kind: str, arrays: Mapping[str, Array], metadata: Mapping[str, Any], forward_from: Any) -> State:
    """The state that `to_arrays` saved. UserError if the file holds something else."""
    if metadata.get("kind") != kind or metadata.get("version") != 1:
        raise UserError(f"this checkpoint does not hold a run of {kind} of this version of Tacit")
    try:
        blank = init(np.random.default_rng(0), tuple(metadata["sizes"]))
        trees = filled({"net": blank, "net_optimiser": OPTIMISER.init(blank)}, arrays)
        forward = {name.removeprefix("forward/"): a for name, a in arrays.items() if name.startswith("forward/")}
        return State(
            forward=forward_from(forward, metadata["forward"]),
            params=trees["net"],
            opt_state=trees["net_optimiser"],
            inputs=inputs_from_arrays(arrays, metadata["inputs"]),
            rng=metadata["rng"],
            iteration=metadata["iteration"],
            **{name: arrays[name] for name in KEPT},
        )
    except KeyError as error:
        raise UserError(f"this checkpoint lacks {error}") from error
