"""MCE-ICRL inside a run folder: `tacit learn mce ENV`. The algorithm is in `tacit.inverse.mce`, what all deep methods
share in `tacit.inverse.trainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost
from tacit.envs.capabilities import capabilities
from tacit.errors import UserError
from tacit.forward import ppo_lagrangian
from tacit.forward.agent import filled, named
from tacit.forward.collect import interface_of, make_vec
from tacit.inverse import constraint_map, features, mce, samples, trainer
from tacit.inverse.trainer import inputs_from_arrays, inputs_to_arrays

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.run import Run


@dataclass(frozen=True)
class Config(trainer.Settings, mce.Config):
    """Settings of a run of MCE-ICRL."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    mce.check(config)
    trainer.check(env_id, env_kwargs, config)


def check_demonstrations(env_id: str, env_kwargs: Mapping[str, Any], config: Config, demos: Demonstrations) -> None:
    """UserError for demonstrations that cannot be learned from with these settings, before anything is written."""
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        face = interface_of(env, scaled=config.scale_actions)
        if mce.is_linear(config, face):
            inputs = samples.unscaled_inputs(
                env, face, config.inputs, config.use_action, config.squash, config.input_clip
            )
            demos = demos.first(config.demonstrations)
            rows = samples.of_demonstrations(demos, face, inputs, config.at, samples.horizon_of(env, demos)).rows
            samples.unit_scale(inputs, rows)
    finally:
        env.close()


def run(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> dict[str, Any]:
    """Learn, fit the map, evaluate; continues from the newest checkpoint if there is one."""
    return trainer.run(_method(), run, env_id, env_kwargs, demos, config, seed)


def _method() -> trainer.Method:
    return trainer.Method(
        learn=mce.learn,
        policy_of=mce.policy_of,
        cost_of=mce.cost_of,
        to_arrays=state_to_arrays,
        from_arrays=state_from_arrays,
        iterations=_iterations,
        map_of=constraint_map.fit,
        ceiling=lambda config, cost, rows: constraint_map.ceiling(config),
        more=_more,
        save=save_checkpoint,
    )


def _iterations(config: Config) -> int:
    return 1 + max(0, -(-(config.total_steps - config.bootstrap_steps) // config.forward_steps))


def _more(env: Any, config: Config, state: mce.State, cost: LearnedCost) -> dict[str, Any]:
    grid = capabilities(env).model
    return {} if grid is None else {"exact": against_exact(grid, config, state, cost)}


def against_exact(grid: Any, config: Config, state: mce.State, cost: LearnedCost) -> dict[str, float]:
    """The policy beside the soft-optimal one for the same reward, cost and temperature, where the model is known.

    kl_per_step is E KL(policy || exact) of a step of the policy, loss what it gives up of the objective, by an identity
    (`certify_policy`). The policy's temperature is beta in units of reward.
    """
    from tacit.inverse.certificate import certify_policy

    mdp, policy = grid.model(), mce.policy_of(state)
    face = policy.interface
    obs = np.arange(grid.n_states) if face.n_states else grid.cells.astype(np.float32)
    encoded = face.encode(obs)
    head = policy.head(encoded).astype(np.float64)
    probabilities = np.exp(head - head.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    entered = np.zeros(grid.n_states)
    if config.moments == "absorbing":
        gamma = config.discount_of_cost
        entered[mdp.terminal] = gamma * cost.unit * state.absorbing / (1 - gamma)
    acted = np.zeros(mdp.rewards.shape)
    if config.at == "next":
        entered += cost.unit * cost(encoded)
    else:
        for action in range(mdp.rewards.shape[1]):
            acted[:, action] = cost.unit * cost(encoded, np.full(len(encoded), action))
    expected = acted + (mdp.transitions @ entered).reshape(mdp.rewards.shape)
    scale = state.forward.agent.reward_scale.std if config.normalize_reward else 1.0
    found = certify_policy(mdp, expected, config.beta * scale, probabilities)
    return {"kl_per_step": found.kl_per_step, "loss": found.loss, "beta": config.beta * scale}


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints


def save_checkpoint(run: Run, state: mce.State) -> None:
    trainer.save_checkpoint(_method(), run, state)


def begun(run: Run) -> mce.State | None:
    """Where the newest checkpoint left the training; None without one."""
    state: mce.State | None = trainer.begun(_method(), run)
    return state


KEPT = ("replay", "nominal", "replay_truth", "nominal_truth")


def state_to_arrays(state: mce.State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """(arrays, JSON metadata): all of the state."""
    forward, metadata = ppo_lagrangian.state_to_arrays(state.forward)
    arrays = {f"forward/{name}": array for name, array in forward.items()}
    arrays |= named({"dual": state.params, "dual_optimiser": state.opt_state})
    arrays |= {name: getattr(state, name) for name in KEPT}
    scales, inputs = inputs_to_arrays(state.inputs)
    arrays |= scales
    phi = state.params.phi
    return arrays, {
        "kind": "mce",
        "version": 1,
        "forward": metadata,
        "inputs": inputs,
        "thresholds": int(phi.slopes.shape[1]),
        "layers": [len(bias) for bias in phi.biases],
        **{name: getattr(state, name) for name in ("absorbing", "rng", "iteration", "saturated", "resets")},
    }


def state_from_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> mce.State:
    """The state that `state_to_arrays` saved. UserError if the file holds something else."""
    if metadata.get("kind") != "mce" or metadata.get("version") != 1:
        raise UserError("this checkpoint does not hold MCE-ICRL of this version of Tacit")
    try:
        inputs = inputs_from_arrays(arrays, metadata["inputs"])
        layers, d = metadata["layers"], len(inputs.names)
        blank = features.init(
            np.random.default_rng(0),
            np.zeros((2, d)),
            thresholds=metadata["thresholds"],
            hidden=tuple(layers[:-1]),
            joint=layers[-1] if layers else 0,
            lam=0.0,
            bias=0.0,
        )
        trees = filled({"dual": blank, "dual_optimiser": mce.OPTIMISER.init(blank)}, arrays)
        forward = {name.removeprefix("forward/"): a for name, a in arrays.items() if name.startswith("forward/")}
        rest: dict[str, Any] = {name: arrays[name] for name in KEPT}
        rest |= {name: metadata[name] for name in ("absorbing", "rng", "iteration", "saturated", "resets")}
        return mce.State(
            forward=ppo_lagrangian.state_from_arrays(forward, metadata["forward"]),
            params=jax.tree.map(jnp.asarray, trees["dual"]),
            opt_state=trees["dual_optimiser"],
            inputs=inputs,
            **rest,
        )
    except KeyError as error:
        raise UserError(f"this checkpoint lacks {error}") from error
