"""The agent that PPO trains: networks, optimiser, statistics, environments, random numbers; how to start, resume, save.

`State` is exactly what a checkpoint holds. It is immutable: an iteration makes a new one, and the previous one stays
good if the iteration fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.envs.capabilities import capabilities
from tacit.errors import UserError
from tacit.forward import collect, nets, normalize
from tacit.policy import Interface, Policy, interface_from

if TYPE_CHECKING:
    from tacit.forward.ppo import Config

VERSION = 1


@dataclass(frozen=True)
class State:
    """The whole state of a training. Its future depends on nothing else."""

    params: nets.Params
    opt_state: Any
    """State of `optimiser`."""
    obs_stats: normalize.Running
    reward_scale: normalize.ReturnScale
    carry: collect.Carry
    rng: dict[str, Any]
    """State of the NumPy generator that draws actions, minibatches and new networks."""
    interface: Interface
    obs_clip: float
    seed: int
    steps: int = 0
    """Environment steps so far."""
    iteration: int = 0
    """Rollouts and updates so far."""
    lr_factor: float = 1.0
    """Factor on the policy's learning rate that lr_adaptive has chosen."""


def optimiser(eps: Any = 1e-8) -> optax.GradientTransformation:
    """Adam. The caller clips the gradient and applies the learning rate."""
    return optax.scale_by_adam(eps=eps)


def parted(opt_state: Any) -> tuple[Any, Any]:
    """The optimiser's state for the policy, and for the critics."""
    mu, nu = opt_state.mu, opt_state.nu
    return opt_state._replace(mu=mu.actor, nu=nu.actor), opt_state._replace(mu=mu.critics, nu=nu.critics)


def joined(actor: Any, critics: Any) -> Any:
    """The optimiser's state for all networks. Both parts must have taken the same number of steps."""
    return actor._replace(mu=nets.Params(actor.mu, critics.mu), nu=nets.Params(actor.nu, critics.nu))


def init(env: VectorEnv, config: Config, seed: int, *, n_critics: int = 1) -> State:
    """Fresh networks and freshly reset environments."""
    _use_threads(env, config.threads)
    interface = collect.interface_of(env, scaled=config.scale_actions)
    check(config, env.num_envs)
    rng = np.random.default_rng([seed, 0])
    params = _networks(config, interface, rng, n_critics)
    # Copies are usually seeded with seed, seed + 1, ... Spread the seeds, or run 1 would share starts with run 0.
    env_seed = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
    return State(
        params=params,
        opt_state=optimiser().init(params),
        obs_stats=normalize.running((interface.view_size,)),
        reward_scale=normalize.return_scale(env.num_envs),
        carry=collect.begin(env, interface, env_seed),
        rng=dict(rng.bit_generator.state),
        interface=interface,
        obs_clip=config.obs_clip if normalises(config, interface) else math.inf,
        seed=seed,
    )


def resume(env: VectorEnv, config: Config, state: State) -> State:
    """Restore the environments to the state. UserError if they do not fit together."""
    _use_threads(env, config.threads)
    check(config, env.num_envs)
    state.interface.require(collect.interface_of(env, scaled=config.scale_actions), "the saved agent")
    seed = int(np.random.SeedSequence([state.seed, 2, state.steps]).generate_state(1)[0])
    return replace(state, carry=collect.restore(env, state.interface, state.carry, seed))


def _use_threads(env: VectorEnv, threads: int) -> None:
    nets.use_threads(threads)
    use_threads = capabilities(env).use_threads
    if threads > 1 and use_threads is not None:  # otherwise the environment keeps its own number
        use_threads(threads)


def _networks(config: Config, interface: Interface, rng: np.random.Generator, n_critics: int) -> nets.Params:
    log_std = None if interface.n_actions else first_log_std(config, interface)
    sizes = (interface.view_size, interface.act_size, config.hidden)
    return nets.make_params(rng, *sizes, n_critics=n_critics, log_std=log_std)


def first_log_std(config: Config, interface: Interface) -> float:
    """Initial log standard deviation of each action of a Gaussian policy."""
    share = 0.5 * math.log(interface.act_size) if config.noise_of == "vector" else 0.0
    return config.log_std_init - share


def normalises(config: Config, interface: Interface) -> bool:
    """Whether observations are normalised. One-hot observations never are."""
    return config.normalize_obs and not interface.n_states


MAY_BE_INFINITE = frozenset({"target_kl", "obs_clip", "reward_clip", "input_clip", "max_grad_norm", "multiplier_max"})
"""Settings that are bounds. Infinity means no bound."""


def check_finite(config: Any) -> None:
    """UserError if a setting of a dataclass is not a number, or infinite although it is not a bound."""
    for field in fields(config):
        value = getattr(config, field.name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                if number == math.inf and field.name in MAY_BE_INFINITE:
                    continue
                raise UserError(f"{field.name} must be a finite number, not {number}")


def check_choices(config: Any) -> None:
    """UserError if a setting of a dataclass is not one of the choices of its type."""
    for name, kind in get_type_hints(type(config)).items():
        if get_origin(kind) is Literal and getattr(config, name) not in get_args(kind):
            *others, last = get_args(kind)
            raise UserError(f"{name} must be {', '.join(others)} or {last}, not {getattr(config, name)!r}")


def check_ranges(
    config: Any, names: Sequence[str], low: float, high: float = math.inf, *, open_low: bool = False
) -> None:
    """UserError if a setting lies outside [low, high], or outside (low, high] with `open_low`. None is accepted."""
    for name in names:
        value = getattr(config, name)
        if value is None or (low < value <= high if open_low else low <= value <= high):
            continue
        if low == 0 and high == math.inf:
            raise UserError(f"{name} {'must be positive' if open_low else 'cannot be negative'}, it is {value}")
        top = f" and at most {high:g}" if high < math.inf else ""
        bounds = f"{'above' if open_low else 'at least'} {low:g}{top}"
        raise UserError(f"{name} must be {bounds}, not {value}")


def check(config: Config, n_envs: int) -> None:
    """UserError for settings that cannot work."""
    check_finite(config)
    check_choices(config)
    check_ranges(
        config, ("clip", "max_grad_norm", "obs_clip", "reward_clip", "target_kl", "kl_factor"), 0, open_low=True
    )
    check_ranges(config, ("adam_eps", "value_coef", "lr_final", "beta", "bound_coef"), 0)
    if config.bound_coef > 0 and not config.scale_actions:
        raise UserError("bound_coef needs scale_actions, because it takes the action box for [-1, 1]")
    if config.log_std_final is not None and config.log_std_final > config.log_std_init:
        raise UserError(f"log_std_final ({config.log_std_final}) cannot exceed log_std_init ({config.log_std_init})")
    check_ranges(config, ("lr",), 0, open_low=True)
    check_ranges(config, ("gae_lambda",), 0, 1)
    check_ranges(config, ("gamma",), 0, 1, open_low=True)
    check_ranges(config, ("total_steps", "rollout_steps", "batch_size", "epochs", "threads"), 1)
    if n_envs < 1:
        raise UserError(f"n_envs must be at least 1, not {n_envs}")
    if config.rollout_steps % n_envs or config.rollout_steps % config.batch_size:
        raise UserError(
            f"rollout_steps ({config.rollout_steps}) must be a multiple of the number of environments ({n_envs})"
            f" and of batch_size ({config.batch_size})"
        )
    if any(size < 1 for size in config.hidden):
        raise UserError(f"hidden must be sizes of at least 1, not {config.hidden}")
    if not 0 <= config.lr_decay_start < 1:
        raise UserError(
            f"lr_decay_start must be a share of the training, at least 0 and below 1, not {config.lr_decay_start}"
        )


def generator(state: State) -> np.random.Generator:
    """A random generator in the state where this state left it."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    return rng


def policy_of(state: State) -> Policy:
    """The current policy as an artefact (NumPy)."""
    actor = jax.tree.map(np.asarray, state.params.actor)
    return Policy(
        interface=state.interface,
        weights=actor.net.weights,
        biases=actor.net.biases,
        log_std=actor.log_std,
        obs_mean=state.obs_stats.mean.astype(np.float32),
        obs_scale=state.obs_stats.scale.astype(np.float32),
        obs_clip=state.obs_clip,
    )


def freeze_reward_scale(state: State) -> State:
    """Freeze the reward scale: from now on rewards are divided by its present value."""
    scale = state.reward_scale
    return replace(state, reward_scale=replace(scale, stats=normalize.freeze(scale.stats)))


def reinitialise(config: Config, state: State) -> State:
    """Re-initialise policy, critics and optimiser. Statistics, environments and counters stay."""
    rng = generator(state)
    params = _networks(config, state.interface, rng, len(state.params.critics))
    return replace(state, params=params, opt_state=optimiser().init(params), rng=dict(rng.bit_generator.state))


# ---------------------------------------------------------------------------------------------------------------------
# Saving


def state_to_arrays(state: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """(arrays, JSON metadata) of the whole state."""
    arrays = named({"params": state.params, "optimiser": state.opt_state})
    arrays |= {
        "obs_stats/mean": state.obs_stats.mean,
        "obs_stats/var": state.obs_stats.var,
        "reward_scale/returns": state.reward_scale.returns,
        "reward_scale/mean": state.reward_scale.stats.mean,
        "reward_scale/var": state.reward_scale.stats.var,
        "carry/obs": state.carry.obs,
        "carry/episode": state.carry.episode,
        "carry/recent": state.carry.recent,
    }
    env_state = state.carry.env_state
    arrays |= {f"env/{name}": np.asarray(array) for name, array in (env_state or {}).items()}
    return {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in arrays.items()}, {
        "kind": "ppo",
        "version": VERSION,
        "interface": state.interface.to_json(),
        "hidden": [len(bias) for bias in state.params.actor.net.biases[:-1]],
        "n_critics": len(state.params.critics),
        "obs_stats": [state.obs_stats.count, state.obs_stats.frozen],
        "reward_scale": [state.reward_scale.stats.count, state.reward_scale.stats.frozen],
        "env_state": env_state is not None,
        "rng": state.rng,
        "obs_clip": state.obs_clip,
        "seed": state.seed,
        "steps": state.steps,
        "iterations": state.iteration,
        "lr_factor": state.lr_factor,
    }


def state_from_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> State:
    """The state that `state_to_arrays` saved. UserError if the file holds something else."""
    if metadata.get("kind") != "ppo" or metadata.get("version") != VERSION:
        raise UserError("this checkpoint does not hold a PPO agent of this version of Tacit")
    nets.use_threads(1)
    interface = interface_from(metadata["interface"])
    blank = nets.make_params(
        np.random.default_rng(0),
        interface.view_size,
        interface.act_size,
        metadata["hidden"],
        n_critics=metadata["n_critics"],
        log_std=None if interface.n_actions else 0.0,
    )
    trees = filled({"params": blank, "optimiser": optimiser().init(blank)}, arrays)

    def stats(name: str) -> normalize.Running:
        count, frozen = metadata[name]
        return normalize.Running(arrays[f"{name}/mean"], arrays[f"{name}/var"], count, frozen)

    try:
        env_state = {name[4:]: array for name, array in arrays.items() if name.startswith("env/")}
        carry = collect.Carry(
            arrays["carry/obs"],
            arrays["carry/episode"],
            arrays["carry/recent"],
            env_state if metadata["env_state"] else None,
        )
        return State(
            params=trees["params"],
            opt_state=trees["optimiser"],
            obs_stats=stats("obs_stats"),
            reward_scale=normalize.ReturnScale(arrays["reward_scale/returns"], stats("reward_scale")),
            carry=carry,
            interface=interface,
            lr_factor=metadata.get("lr_factor", 1.0),
            iteration=metadata["iterations"],
            **{name: metadata[name] for name in ("rng", "obs_clip", "seed", "steps")},
        )
    except KeyError as error:
        raise UserError(f"this checkpoint lacks {error}") from error


def named(tree: Any) -> dict[str, NDArray[Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in leaves}


def filled(tree: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """`tree` with its leaves replaced by the arrays with their names."""

    def leaf(path: Any, old: Any) -> jax.Array:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if name not in arrays or arrays[name].shape != old.shape or arrays[name].dtype != old.dtype:
            raise UserError(f"this checkpoint holds no {name} of shape {old.shape}: it is damaged or of another agent")
        return jnp.asarray(arrays[name])

    return jax.tree_util.tree_map_with_path(leaf, tree)
