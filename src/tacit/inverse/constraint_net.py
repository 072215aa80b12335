"""The common part of methods with one constraint network: settings, the network, and the data of an inverse step.

The network is a ReLU network on the scaled inputs of the cost (`tacit.cost`). With one output f, the cost of a step is
c = sigmoid(f) and its feasibility zeta = 1 - c = sigmoid(-f). It starts as the published code's does, weights and
biases uniform within 1/sqrt(inputs of the layer), which makes every cost about 1/2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.demos import Demonstrations
from tacit.errors import UserError
from tacit.forward import agent, ppo_lagrangian
from tacit.inverse import loop, samples
from tacit.inverse.clone import revision_of_clones
from tacit.policy import Interface
from tacit.run.naming import History
from tacit.run.trainer import Metrics

Array = NDArray[Any]
EPSILON = 1e-5
"""This number is added to a feasibility inside logarithms."""
OPTIMISER = optax.scale_by_adam(eps=1e-5)


@dataclass(frozen=True)
class Settings(samples.Settings):
    """Settings of the constraint network and its inputs."""

    layers: tuple[int, ...] = (20,)
    """Hidden ReLU layers of the network."""
    lr_constraint: float = 5e-3
    """Adam's learning rate of the network."""


def check(config: Settings) -> None:
    """UserError for settings that cannot work."""
    samples.check(config)
    if any(size < 1 for size in config.layers):
        raise UserError(f"layers must be sizes of at least 1, not {config.layers}")
    if not config.lr_constraint >= 0:
        raise UserError(f"lr_constraint cannot be negative, it is {config.lr_constraint}")


# ---------------------------------------------------------------------------------------------------------------------
# The network


class Net(NamedTuple):
    weights: tuple[Any, ...]
    biases: tuple[Any, ...]
    """Weights (in, out) and biases (out,)."""


def init(rng: np.random.Generator, sizes: tuple[int, ...]) -> Net:
    """A fresh network of these sizes, inputs and outputs included."""
    weights, biases = [], []
    for n_in, n_out in itertools.pairwise(sizes):
        bound = 1.0 / math.sqrt(n_in)
        weights.append(jnp.asarray(rng.uniform(-bound, bound, (n_in, n_out)), jnp.float32))
        biases.append(jnp.asarray(rng.uniform(-bound, bound, n_out), jnp.float32))
    return Net(tuple(weights), tuple(biases))


def outputs(net: Net, z: Any) -> jax.Array:
    """Outputs (B, out) for scaled inputs (B, d)."""
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        z = jax.nn.relu(z @ weight + bias)
    return z @ net.weights[-1] + net.biases[-1]


def log_feasibility(net: Net, z: Any) -> jax.Array:
    """log(zeta + eps) (B,) for scaled inputs (B, d)."""
    return jnp.log(jax.nn.sigmoid(-outputs(net, z)[:, 0]) + EPSILON)


def descend(
    loss: Callable[..., Any], net: Net, opt_state: Any, batches: Any, lr: Any, has_aux: bool = False
) -> tuple[Net, Any, Any]:
    """Adam on loss(net, *batch), one step per batch; returns network, optimiser's state, and the loss of each step."""

    def step(carry: tuple[Net, Any], batch: Any) -> tuple[tuple[Net, Any], Any]:
        net, opt_state = carry
        value, gradient = jax.value_and_grad(loss, has_aux=has_aux)(net, *batch)
        moves, opt_state = OPTIMISER.update(gradient, opt_state)
        return (jax.tree.map(lambda p, move: p - lr * move, net, moves), opt_state), value

    (net, opt_state), values = jax.lax.scan(step, (net, opt_state), batches)
    return net, opt_state, values


def to_cost(net: Net, inputs: Inputs, at: Literal["next", "current"], **fields: Any) -> LearnedCost:
    """The cost c = sigmoid(f) as an artefact (or with another head, if `fields` say so)."""
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


def scaled_inputs(inputs: Inputs, interface: Interface, config: Settings, expert: Array, learner: Array) -> Inputs:
    """The inputs with their scale, which is fixed from now on. One-hot states are not scaled."""
    raw = config.input_scale == "raw" or bool(interface.n_states)
    return inputs if raw else samples.fit_scale(inputs, expert, learner)


# ---------------------------------------------------------------------------------------------------------------------
# Classifiers of demonstrations against the learner, on the shared loop


@dataclass(frozen=True)
class Config(Settings, loop.Config, ppo_lagrangian.Config):
    """Settings of a classifier: of PPO-Lagrangian, of the network, and of how their steps alternate."""

    multiplier: Literal["fixed", "ascent", "softplus", "pid"] = "softplus"
    """How the multiplier follows the cost; "fixed" is a constant penalty."""
    penalty_unit: Literal["rbar", "reward", "advantage"] = "advantage"
    """Unit of the multiplier, see tacit.forward.ppo_lagrangian."""
    backward_steps: int = 10
    """Passes over the data per inverse step."""
    constraint_batch: int = 0
    """Samples of the demonstrations, and of the learner, per minibatch; 0: all."""
    anneal: float = 0.9
    """Factor on lr_constraint after each inverse step."""

    HISTORY: ClassVar[History] = History(added={"inverse_first": True}, revision=revision_of_clones)


@dataclass(frozen=True)
class Data:
    """The data of a classifier's inverse step."""

    expert: Array
    """(n, d) scaled inputs of the demonstrations' steps."""
    learner: Array
    """(m, d) scaled inputs of the learner's last steps."""
    trajectory: Array
    """(m,) number of the learner's trajectory that each step belongs to, from 0."""
    whole: Array
    """(m,) whether the trajectory with each number was seen from its first step to its last."""


class Classifier(loop.Method):
    """A method with one network. It supplies `descend`, and `cost_of` if its cost is not a plain sigmoid."""

    outputs: ClassVar[int] = 1
    """Number of outputs of the network."""

    def descend(self, config: Any, state: Any, data: Data, rng: np.random.Generator) -> tuple[Net, Any, Metrics]:
        """The inverse step; returns network, optimiser's state, and metrics."""
        raise NotImplementedError

    def begin(
        self, config: Any, interface: Interface, inputs: Inputs, expert: Array, nominal: Array, rng: np.random.Generator
    ) -> tuple[Inputs, Net, Any, Metrics]:
        inputs = scaled_inputs(inputs, interface, config, expert, nominal)
        net = init(rng, (len(inputs.names), *config.layers, self.outputs))
        return inputs, net, OPTIMISER.init(net), {}

    def inputs_of(
        self, env: VectorEnv, interface: Interface, config: Any, demos: Demonstrations | None = None
    ) -> Inputs:
        """The inputs of the cost before scaling. UserError for a name that the environment does not have."""
        return samples.unscaled_inputs(env, interface, config, may_squash=not interface.n_states)

    def step(self, config: Any, state: Any, evidence: loop.Evidence, rng: np.random.Generator) -> tuple[Any, Metrics]:
        """An inverse step on the last steps of the phase, about as many as were demonstrated."""
        expert, phase, rollouts = evidence.expert, evidence.phase, evidence.rollouts
        last = min(len(rollouts), max(1, -(-len(expert.rows) // config.rollout_steps))) * config.rollout_steps
        data = Data(
            state.inputs.scaled(expert.rows) if expert.z is None else expert.z,
            state.inputs.scaled(phase.rows[-last:]),
            *trajectories(phase.times[-last:].reshape(-1, rollouts[0].done.shape[1]), rollouts[-1].done[-1]),
        )
        net, opt_state, metrics = self.descend(config, state, data, rng)
        state = replace(state, params=net, opt_state=opt_state)
        return state, metrics | samples.cost_metrics(
            self.cost_of(state, config), state.inputs, expert.rows, phase.rows[-last:]
        )

    def cost_of(self, state: Any, config: Any) -> LearnedCost:
        return to_cost(state.params, state.inputs, config.at, unit=unit_of(state, config))

    def terminal_cost(self, config: Any, state: Any, expert: samples.Expert) -> float:
        return float(config.terminal_cost)

    def shapes(self, params: Net) -> dict[str, Any]:
        """Description of a network in a checkpoint."""
        return {"sizes": [len(params.weights[0]), *(len(bias) for bias in params.biases)]}

    def blank(self, metadata: Mapping[str, Any], n_inputs: int) -> tuple[Net, Any]:
        """A network of those shapes, and an optimiser's state for it."""
        net = init(np.random.default_rng(0), tuple(metadata["sizes"]))
        return net, OPTIMISER.init(net)

    def check_settings(self, config: Any) -> None:
        super().check_settings(config)
        check(config)
        agent.check_ranges(config, ("backward_steps",), 1)
        agent.check_ranges(config, ("constraint_batch",), 0)
        agent.check_ranges(config, ("anneal",), 0, 1, open_low=True)


def learning_rate(config: Any, state: Any) -> float:
    """Learning rate of the inverse step that follows this state."""
    return float(config.lr_constraint * config.anneal ** loop.steps_before(config, state))


def unit_of(state: Any, config: Any) -> float:
    """Reward per unit of cost in the last forward phase; 1 where the penalty is in units of advantages."""
    if config.penalty_unit == "advantage":
        return 1.0
    unit = (state.forward.rbar or 1.0) if config.penalty_unit == "rbar" else 1.0
    return float(state.forward.multiplier.value * unit)


def trajectories(times: Array, ended: Array) -> tuple[Array, Array]:
    """(T * N,) numbers of the trajectories in T steps of N environments, and (T * N,) whether one of a number is whole.

    times (T, N) are the step numbers within episodes, and ended (N,) marks the episodes that end with the last step. An
    episode that began before the first of these steps, or continues after the last, is a trajectory as far as it was
    seen, but not a whole one.
    """
    starts = times == 0
    starts[0] = True
    counts = starts.sum(axis=0)
    last = np.cumsum(counts) - 1
    first = last + 1 - counts
    whole = np.arange(times.size) <= last[-1]
    whole[np.concatenate([first[times[0] != 0], last[~ended]])] = False
    return (np.cumsum(starts, axis=0) - 1 + first).reshape(-1).astype(np.int32), whole
