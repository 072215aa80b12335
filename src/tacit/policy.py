"""A trained policy: arrays in, actions out, NumPy only.

    policy = Policy.from_arrays(*storage.load_arrays("policy.safetensors"))
    action = policy.act(obs, rng)                        # one observation or a batch of them
    action = policy.act(obs, rng, deterministic=True)
    action, _ = policy.predict(obs, deterministic=True)  # as in Stable-Baselines3

The observation normaliser is part of the policy. A policy is also a function `policy(obs, rng)`, which is what
`tacit.evaluate` and `tacit.demos.collect` expect. Neither JAX nor an environment is needed to run it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.cost import MOST_INPUTS, one_hot
from tacit.cost.surroundings import Surroundings
from tacit.errors import UserError

if TYPE_CHECKING:
    from gymnasium import Space

Array = NDArray[Any]
_LOG_2PI = math.log(2 * math.pi)
_MATCHED = ("n_states", "n_actions", "low", "high", "obs_size")


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of a policy, and the conversions between environment and networks.

    Observations become float32 vectors of length `obs_size` (a Discrete observation becomes one-hot). In a Box action
    space the policy works in coordinates where the box is [-1, 1] (`scaled`), or in the box's own.
    """

    obs_size: int
    act_size: int
    """Entries of an action, or number of discrete actions."""
    n_states: int = 0
    """Number of states of a Discrete observation; 0 for a Box."""
    n_actions: int = 0
    """Number of discrete actions; 0 for a Box."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """Bounds of the actions."""
    scaled: bool = True
    surroundings: Surroundings | None = None
    """How the policy sees a set of objects; None: it sees the entries of an observation as they are."""

    @classmethod
    def of(cls, observation_space: Space[Any], action_space: Space[Any], *, scaled: bool = True) -> Interface:
        """The interface to a single environment with these spaces."""
        from gymnasium.spaces import Box, Discrete

        if isinstance(observation_space, Discrete) and observation_space.start == 0:
            n_states, obs_size = int(observation_space.n), int(observation_space.n)
        elif isinstance(observation_space, Box) and len(observation_space.shape) == 1:
            n_states, obs_size = 0, int(observation_space.shape[0])
        else:
            raise UserError(
                f"observations must be a one-dimensional Box or Discrete from 0, not {observation_space};"
                " wrap the environment (gymnasium.wrappers.FlattenObservation)"
            )
        if isinstance(action_space, Discrete) and action_space.start == 0:
            n_actions = int(action_space.n)
            return cls(obs_size, n_actions, n_states, n_actions)
        if isinstance(action_space, Box) and len(action_space.shape) == 1:
            low, high = (tuple(map(float, bound)) for bound in (action_space.low, action_space.high))
            return cls(obs_size, len(low), n_states, 0, low, high, scaled)
        raise UserError(f"actions must be a one-dimensional Box or Discrete from 0, not {action_space}")

    @cached_property
    def box(self) -> tuple[Array, Array, Array, Array]:
        """(low, high, centre, half-width) (A,); (0, 1) for the latter in a direction without bounds or not scaled."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        bounded = np.isfinite(low) & np.isfinite(high) & self.scaled
        with np.errstate(invalid="ignore"):
            centre, half = np.where(bounded, (low + high) / 2, 0.0), np.where(bounded, (high - low) / 2, 1.0)
        box = (bound.astype(np.float32) for bound in (low, high, centre, half))
        return next(box), next(box), next(box), next(box)

    def encode(self, obs: ArrayLike) -> Array:
        """Environment's observations (..., *obs_shape) as float32 vectors (..., obs_size)."""
        if self.n_states:
            return one_hot(np.asarray(obs), self.n_states)
        vectors = np.asarray(obs, dtype=np.float32)
        if vectors.shape[-1:] != (self.obs_size,):
            raise UserError(f"the policy reads observations of {self.obs_size} numbers, not of shape {vectors.shape}")
        return vectors

    def view(self, vectors: Array) -> Array:
        """What the networks see, before normalisation, of encoded observations: (..., view_size)."""
        return vectors if self.surroundings is None else self.surroundings.view(vectors)

    @property
    def view_size(self) -> int:
        return self.obs_size if self.surroundings is None else self.surroundings.size

    def to_json(self) -> dict[str, Any]:
        """A plain description, which `interface_from` reads."""
        described = asdict(self)
        return {name: value for name, value in described.items() if name != "surroundings" or value is not None}

    def to_env(self, act: Array) -> Array:
        """What is sent to the environment for the policy's own actions (..., A): rescaled and clipped to the box."""
        if self.n_actions:
            return act
        low, high, centre, half = self.box
        return np.minimum(np.maximum(centre + half * act, low), high)

    def from_env(self, act: ArrayLike) -> Array:
        """The policy's own coordinates of actions (..., A) given in the environment's."""
        if self.n_actions:
            return np.asarray(act)
        _, _, centre, half = self.box
        return (np.asarray(act, dtype=np.float32) - centre) / half

    @property
    def log_volume(self) -> float:
        """log |d env action / d own action|: what separates log-densities in the two coordinates."""
        return 0.0 if self.n_actions else float(np.log(self.box[3].astype(np.float64)).sum())

    def require(self, other: Interface, what: str) -> None:
        """UserError unless the environment described by `other` has the same spaces."""
        for name in _MATCHED:
            ours, theirs = getattr(self, name), getattr(other, name)
            close = name in ("low", "high") and len(ours) == len(theirs) and np.allclose(ours, theirs)
            if ours != theirs and not close:
                raise UserError(f"{what} was made for {name} = {ours}, the environment has {theirs}")


@dataclass(frozen=True)
class Policy:
    """tanh network on normalised observations; diagonal Gaussian or categorical actions."""

    interface: Interface
    weights: tuple[Array, ...]
    """(in, out) float32 each."""
    biases: tuple[Array, ...]
    log_std: Array | None
    """(A,) of the Gaussian, in the policy's own coordinates; None for a categorical policy."""
    obs_mean: Array
    obs_scale: Array
    """(view_size,) float32: the network sees (view - mean) * scale, clipped."""
    obs_clip: float

    def head(self, obs: Array) -> Array:
        """Mean of the Gaussian or logits (..., A) for encoded observations (..., obs_size)."""
        x = (self.interface.view(obs) - self.obs_mean) * self.obs_scale
        # np.clip costs several times as much on small arrays.
        x = np.minimum(np.maximum(x, -self.obs_clip, out=x), self.obs_clip, out=x)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ weight
            x += bias
            np.tanh(x, out=x)
        x = x @ self.weights[-1]
        x += self.biases[-1]
        return x

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """What `perturb` needs to draw actions of `shape`: normal, or Gumbel for a categorical policy, (*shape, A)."""
        size = (*shape, self.interface.act_size)
        if self.log_std is not None:
            return rng.standard_normal(size, dtype=np.float32) * np.exp(self.log_std)
        draws = rng.standard_exponential(size, dtype=np.float32)
        return -np.log(np.maximum(draws, np.finfo(np.float32).tiny))

    def perturb(self, head: Array, noise: Array) -> Array:
        """Actions in the policy's own coordinates, (..., A) or (...) integers: an exact draw from the policy."""
        return head + noise if self.log_std is not None else np.argmax(head + noise, axis=-1)

    def act(self, obs: ArrayLike, rng: np.random.Generator, deterministic: bool = False) -> Array:
        """Actions for the environment; the mode of the distribution if `deterministic`."""
        head = self.head(self.interface.encode(obs))
        if not deterministic:
            return self.interface.to_env(self.perturb(head, self.noise(rng, head.shape[:-1])))
        return self.interface.to_env(head if self.log_std is not None else np.argmax(head, axis=-1))

    __call__ = act

    def predict(
        self, obs: ArrayLike, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Array, Any]:
        """(actions, state), called as in Stable-Baselines3. There is no state: it comes back as it was given."""
        return self.act(obs, self._rng, deterministic), state

    @cached_property
    def _rng(self) -> np.random.Generator:
        """For `predict`: the same draws for every policy that was just loaded."""
        return np.random.default_rng(0)

    def log_prob(self, obs: ArrayLike, act: ArrayLike) -> Array:
        """log pi(act | obs) (...) of actions in the environment's coordinates.

        For a Gaussian policy it is the density before clipping to the box.
        """
        head = self.head(self.interface.encode(obs))
        own = self.interface.from_env(act)
        if self.log_std is None:
            log_pi = head - np.log(np.exp(head - head.max(-1, keepdims=True)).sum(-1, keepdims=True))
            log_pi -= head.max(-1, keepdims=True)
            return np.take_along_axis(log_pi, own[..., None], axis=-1)[..., 0]
        z = (own - head) * np.exp(-self.log_std)
        return (-0.5 * (z * z + _LOG_2PI) - self.log_std).sum(-1) - np.float32(self.interface.log_volume)

    # ------------------------------------------------------------ saving

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """(arrays, metadata) for `storage.save_arrays`."""
        arrays = {"obs_mean": self.obs_mean, "obs_scale": self.obs_scale}
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        if self.log_std is not None:
            arrays["log_std"] = self.log_std
        card = {"kind": "policy", "version": 1, "interface": self.interface.to_json(), "obs_clip": self.obs_clip}
        return arrays, card

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> Policy:
        if metadata.get("kind") != "policy" or metadata.get("version") != 1:
            raise UserError("this file does not hold a policy of this version of Tacit")
        layers = sum(name.startswith("weight") for name in arrays)
        try:
            policy = cls(
                interface=interface_from(metadata["interface"]),
                weights=tuple(arrays[f"weight{i}"] for i in range(layers)),
                biases=tuple(arrays[f"bias{i}"] for i in range(layers)),
                log_std=arrays.get("log_std"),
                obs_mean=arrays["obs_mean"],
                obs_scale=arrays["obs_scale"],
                obs_clip=float(metadata["obs_clip"]),
            )
        except KeyError as error:
            raise UserError(f"this policy file lacks {error}") from None
        except (TypeError, ValueError):
            raise UserError("the card of this policy file is damaged") from None
        policy._check()
        return policy

    def _check(self) -> None:
        """UserError unless the arrays have the shapes that the interface announces, and hold finite floats."""
        interface = self.interface
        arrays = (self.obs_mean, self.obs_scale, *self.weights, *self.biases)
        arrays = arrays if self.log_std is None else (*arrays, self.log_std)
        sizes = [interface.view_size, *(weight.shape[-1] if weight.ndim else 0 for weight in self.weights)]
        fits = (
            bool(self.weights)
            and [weight.shape for weight in self.weights] == list(pairwise(sizes))
            and [bias.shape for bias in self.biases] == [(size,) for size in sizes[1:]]
            and sizes[-1] == interface.act_size
            and self.obs_mean.shape == self.obs_scale.shape == (interface.view_size,)
            and (self.log_std is None) == bool(interface.n_actions)
            and (self.log_std is None or self.log_std.shape == (interface.act_size,))
            and self.obs_clip > 0
        )
        if not fits or not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in arrays):
            raise UserError("the arrays of this policy file do not fit together: it is damaged")


@dataclass(frozen=True)
class TablePolicy:
    """Probabilities of the actions in each of finitely many states."""

    table: Array
    """(S, A)"""
    states_of: Callable[[Array], Array]
    """Observations (n, ...) -> numbers of the states (n,)."""

    def act(self, obs: ArrayLike, rng: np.random.Generator, deterministic: bool = False) -> Array:
        """Actions for a batch of observations; the likeliest ones if `deterministic`."""
        chances = self.table[self.states_of(np.asarray(obs))]
        if deterministic:
            return np.argmax(chances, axis=-1)
        actions = (chances.cumsum(axis=-1) <= rng.random(len(chances))[:, None]).sum(axis=1)
        return np.minimum(actions, self.table.shape[1] - 1)  # the last sum may be 1 - rounding

    __call__ = act

    def predict(
        self, obs: ArrayLike, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Array, Any]:
        """(actions, state), called as in Stable-Baselines3, with one observation or a batch of them."""
        seen = np.asarray(obs)
        single = seen.ndim == 0 or (seen.ndim == 1 and seen.dtype.kind == "f")
        actions = self.act(seen[None] if single else seen, self._rng, deterministic)
        return (actions[0] if single else actions), state

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(0)


def interface_from(fields: Mapping[str, Any]) -> Interface:
    """The Interface whose fields a JSON file holds. UserError if they do not describe one."""
    try:
        low, high = (tuple(float(bound) for bound in fields[name]) for name in ("low", "high"))
        plain = {name: value for name, value in fields.items() if name != "surroundings"}
        interface = Interface(**{**plain, "low": low, "high": high})
    except (KeyError, TypeError, ValueError):
        raise UserError("the description of observations and actions in this file is damaged") from None
    sizes = (interface.obs_size, interface.act_size, interface.n_states, interface.n_actions)
    sound = (
        all(type(size) is int and 0 <= size <= MOST_INPUTS for size in sizes)
        and interface.n_states in (0, interface.obs_size)
        and interface.n_actions in (0, interface.act_size)
        and len(low) == len(high) == (0 if interface.n_actions else interface.act_size)
        and isinstance(interface.scaled, bool)
        and all(a <= b for a, b in zip(low, high, strict=True))
    )
    if not sound:
        raise UserError("the description of observations and actions in this file contradicts itself: it is damaged")
    if fields.get("surroundings") is not None:
        return replace(interface, surroundings=Surroundings.from_json(fields["surroundings"], interface.obs_size))
    return interface
