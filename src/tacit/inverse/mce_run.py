"""MCE-ICRL inside a run folder: `tacit learn mce ENV`. The algorithm is in `tacit.inverse.mce`.

The run folder gets the last policy (never the best: nobody could tell which that is), the cost that drove it, the
constraint map, curves, and an evaluation. What the environment knows of the true constraint is used for judging alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import storage
from tacit.cost import CLIPPED_TOO_OFTEN, Inputs, LearnedCost
from tacit.demos.data import FEW_DEMONSTRATIONS
from tacit.errors import RunFailed, UserError
from tacit.forward import ppo_lagrangian
from tacit.forward.agent import filled, named
from tacit.forward.collect import interface_of, make_vec
from tacit.inverse import constraint_map, features, mce, samples

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.inverse.constraint_map import Boundary
    from tacit.run import Run

EVALUATION_COPIES = 50
SHOWN = (
    "{steps:,} steps  {fps:,.0f}/s  return {ret:.4g}  cost: learner {learner:.3g}, demonstrations {expert:.3g}  "
    "feature gap {gap:.3g}{truth}"
)


@dataclass(frozen=True)
class Config(mce.Config):
    """Settings of a run of MCE-ICRL."""

    demonstrations: int = 0
    """Learn from the first so many demonstrations; 0: from all."""
    eval_episodes: int = 100
    """Episodes of the final evaluation, stochastic and deterministic each."""
    checkpoint_every: int = 5
    """Outer iterations between checkpoints."""


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    mce.check(config)
    if config.checkpoint_every < 1:
        raise UserError(f"checkpoint_every is at least 1 iteration, not {config.checkpoint_every}")
    env = make_vec(env_id, 1, **env_kwargs)
    try:
        face = interface_of(env, scaled=config.scale_actions)
        samples.unscaled_inputs(env, face, config.inputs, config.use_action, config.squash, config.input_clip)
    finally:
        env.close()


def run(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> dict[str, Any]:
    """Learn, fit the map, evaluate; continues from the newest checkpoint if there is one."""
    if config.demonstrations:
        demos = demos.subset(np.arange(min(config.demonstrations, len(demos))))
    _warn_of(demos)
    env = make_vec(env_id, config.n_envs, **env_kwargs)
    try:
        state = train(run, env, demos, config, seed)
        horizon = samples.horizon_of(env, demos)
    finally:
        env.close()
    about = {"env": env_id, "env_kwargs": dict(env_kwargs), "demonstrations": demos.sha256, "run": run.name}
    policy, cost = mce.policy_of(state), mce.cost_of(state, config)
    arrays, card = policy.to_arrays()
    run.save_model("policy", arrays, {**card, **about})
    face = state.forward.agent.interface
    expert = samples.of_demonstrations(demos, face, state.inputs, config.at, horizon)
    drawn = constraint_map.fit(config, state, expert, seed)
    for name, learned in (("cost", cost), ("map", drawn)):
        run.save_model(name, *learned.with_card(**about).to_arrays())
    test = make_vec(env_id, min(EVALUATION_COPIES, max(1, config.eval_episodes)), **env_kwargs)
    try:
        summary = judge(test, demos, config, state, expert, cost, drawn, seed)
    finally:
        test.close()
    run.log_eval({"steps": state.steps, **summary["table"]})
    save_samples(run, state, expert)
    return summary | {"time": _time_budget(run), "steps": state.steps, "resets": state.resets}


def train(run: Run, env: VectorEnv, demos: Demonstrations, config: Config, seed: int) -> mce.State:
    """The last state. A training that fails stops with its last good checkpoint kept."""
    from tacit.progress import live

    state = start = begun(run)
    total = 1 + max(0, -(-(config.total_steps - config.bootstrap_steps) // config.forward_steps))
    warned = False
    try:
        with live("learning", total=total - (0 if start is None else start.iteration)) as update:
            for state, metrics in mce.learn(env, demos, config, seed, start):
                bad = [key for key, value in metrics.items() if not np.isfinite(value)]
                if bad:
                    raise RunFailed(f"training diverged after {state.steps} steps: {bad[0]} is not finite")
                run.log({"iteration": state.iteration, "steps": state.steps, **metrics})
                if state.iteration % config.checkpoint_every == 0 or state.steps >= config.total_steps:
                    save_checkpoint(run, state)
                if metrics["dual/clipped"] > CLIPPED_TOO_OFTEN and not warned:
                    warned = True
                    share = metrics["dual/clipped"]
                    warnings.warn(
                        f"{share:.0%} of the learner's steps have a cost input beyond the clip of {config.input_clip:g}"
                        ": the cost cannot tell them apart; use squash, a larger input_clip, or other inputs",
                        stacklevel=1,
                    )
                update(_shown(state, metrics))
    except RunFailed as error:
        kept = run.latest_checkpoint()
        what = "no checkpoint had been written" if kept is None else f"the checkpoint of iteration {kept[0]} is kept in"
        raise RunFailed(f"{error}; {what}" + (f" {run.path / 'checkpoints'}" if kept else "")) from error
    assert state is not None
    return state


def _shown(state: mce.State, metrics: Mapping[str, float]) -> str:
    violating = metrics.get("truth/violation_rate_episode")
    return SHOWN.format(
        steps=state.steps,
        fps=metrics.get("time/fps", float("nan")),
        ret=metrics.get("rollout/ep_rew_mean", float("nan")),
        learner=metrics["dual/learner_cost"],
        expert=metrics["dual/expert_cost"],
        gap=metrics["dual/feature_gap"],
        truth="" if violating is None else f"  (truth, not used: {violating:.0%} of episodes violate)",
    )


def _warn_of(demos: Demonstrations) -> None:
    """Warnings about demonstrations that fit the environment but are few, or of another simulator."""
    from tacit.run import versions

    if len(demos) < FEW_DEMONSTRATIONS:
        warnings.warn(
            f"only {len(demos)} demonstrations: what they never do by chance looks forbidden; "
            f"at least {FEW_DEMONSTRATIONS} are better, the paper uses 10 to 50",
            stacklevel=1,
        )
    made, here = (demos.card.get("versions") or {}).get("mujoco"), versions(("mujoco",)).get("mujoco")
    if made and here and made != here:
        warnings.warn(
            f"the demonstrations were made with MuJoCo {made}, this is {here}: trajectories differ between versions",
            stacklevel=1,
        )


def _time_budget(run: Run) -> dict[str, float]:
    """Seconds of each phase, over the whole run."""
    keys = {"rollouts": "time/rollout_seconds", "PPO": "time/update_seconds", "inverse": "time/inverse_seconds"}
    records = run.metrics()
    return {name: float(sum(record.get(key, 0.0) for record in records)) for name, key in keys.items()}


# ---------------------------------------------------------------------------------------------------------------------
# Judging


def judge(
    env: VectorEnv,
    demos: Demonstrations,
    config: Config,
    state: mce.State,
    expert: samples.Expert,
    cost: LearnedCost,
    drawn: LearnedCost,
    seed: int,
) -> dict[str, Any]:
    """What the last policy does, how good cost and map are, and where the map draws boundaries."""
    from tacit.evaluate import summarize
    from tacit.forward.expert import evaluations
    from tacit.inverse.exact_run import episodes_of

    table = evaluations(env, mce.policy_of(state), config.eval_episodes, seed)
    shown = {key: value for key, value in summarize(episodes_of(demos, 1.0)).items() if isinstance(value, dict)}
    rows = np.concatenate([state.nominal, state.replay.reshape(-1, state.replay.shape[-1])])
    truth = np.concatenate([state.nominal_truth, state.replay_truth.reshape(-1)])
    ceiling = config.ceiling if np.isfinite(config.ceiling) else 2.0 * float(np.quantile(cost.of_rows(rows), 0.9))
    found = constraint_map.boundaries(drawn, expert.rows, rows, ceiling)
    summary: dict[str, Any] = {
        "table": {
            "demonstrations": shown,
            "learned": table["stochastic"],
            "learned, deterministic": table["deterministic"],
        },
        "demonstrations": demos.summary(),
        "boundaries": [asdict(boundary) for boundary in found[:5]],
    }
    if np.isfinite(truth).all() and 0 < (truth > 0).mean() < 1:
        from tacit.stats import auroc

        labels = truth > 0
        summary["cost_quality"] = {
            "auroc": auroc(drawn.of_rows(rows), labels),
            "auroc_cost": auroc(cost.of_rows(rows), labels),
        }
    grid = getattr(env.unwrapped, "grid", None)
    if grid is not None:
        summary["exact"] = against_exact(grid, config, state, cost)
    task = getattr(env.unwrapped, "task", None)
    if task is not None:
        summary["threshold"] = _threshold(found, task.constraint)
    return summary


def against_exact(grid: Any, config: Config, state: mce.State, cost: LearnedCost) -> dict[str, float]:
    """The policy beside the soft-optimal one for the same reward, cost and temperature, where the model is known.

    kl_per_step is E KL(policy || exact) of a step of the policy, loss what it gives up of the objective, by an identity
    (`certify_policy`). The cost must be one of states, and the policy's temperature is beta in units of reward.
    """
    from tacit.inverse.certificate import certify_policy

    mdp, policy = grid.model(), mce.policy_of(state)
    obs = np.arange(grid.n_states) if policy.interface.n_states else grid.cells.astype(np.float32)
    head = policy.head(policy.interface.encode(obs)).astype(np.float64)
    probabilities = np.exp(head - head.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    entered = np.asarray(cost.unit * cost(policy.interface.encode(obs)), dtype=np.float64)
    entered[mdp.terminal] += 0.0 if config.moments != "absorbing" else cost.unit * state.absorbing / (1 - config.gamma)
    expected = (mdp.transitions @ entered).reshape(mdp.rewards.shape)
    scale = state.forward.agent.reward_scale.std if config.normalize_reward else 1.0
    found = certify_policy(mdp, expected, config.beta * scale, probabilities)
    return {"kl_per_step": found.kl_per_step, "loss": found.loss, "beta": config.beta * scale}


def _threshold(found: list[Boundary], truth: Any) -> dict[str, Any]:
    """The map's boundary on the side of the true one, and how far it is from where it could be."""
    side = truth.relation[0]
    nearest = next((b for b in found if b.feature == truth.feature and b.relation == side), None)
    if nearest is None:
        return {"truth": str(truth), "found": None}
    return {
        "truth": str(truth),
        "found": str(nearest),
        "demonstrated": nearest.demonstrated,
        "error": constraint_map.threshold_error(nearest, truth.bound),
    }


def save_samples(run: Run, state: mce.State, expert: samples.Expert, rows: int = 4000) -> None:
    """A few thousand of the states that were compared, for the report's pictures."""

    def thinned(array: NDArray[Any]) -> NDArray[Any]:
        return array[:: max(1, -(-len(array) // rows))].astype(np.float32)

    last = state.replay[-10:].reshape(-1, state.replay.shape[-1])
    names = {"nominal": state.nominal, "learner": last, "expert": expert.rows}
    arrays = {name: thinned(array) for name, array in names.items()}
    # Thinned rows miss the extremes, and those are what the demonstrations say about a boundary.
    arrays["expert_range"] = np.stack([expert.rows.min(axis=0), expert.rows.max(axis=0)]).astype(np.float32)
    storage.save_arrays(run.path / "samples.safetensors", arrays, {"names": list(state.inputs.names)})


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints


def save_checkpoint(run: Run, state: mce.State) -> None:
    arrays, metadata = state_to_arrays(state)
    run.save_checkpoint(state.iteration, arrays, {"state": metadata})


def begun(run: Run) -> mce.State | None:
    """Where the newest checkpoint left the training; None without one."""
    saved = run.latest_checkpoint()
    if saved is None:
        return None
    try:
        return state_from_arrays(saved[1], saved[2].get("state", {}))
    except UserError as error:
        raise UserError(
            f"cannot continue from step-{saved[0]:08d} in {run.path / 'checkpoints'}: {error}; use the version of "
            "Tacit that provenance.json names, or remove that folder to start the run again"
        ) from None


KEPT = ("replay", "nominal", "replay_truth", "nominal_truth")


def state_to_arrays(state: mce.State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """(arrays, JSON metadata): all of the state."""
    forward, metadata = ppo_lagrangian.state_to_arrays(state.forward)
    arrays = {f"forward/{name}": array for name, array in forward.items()}
    arrays |= named({"dual": state.params, "dual_optimiser": state.opt_state})
    arrays |= {name: getattr(state, name) for name in KEPT}
    arrays |= {"inputs/centre": state.inputs.centre, "inputs/scale": state.inputs.scale}
    inputs = asdict(replace(state.inputs, centre=np.zeros(0), scale=np.zeros(0)))
    phi = state.params.phi
    return arrays, {
        "kind": "mce",
        "version": 1,
        "forward": metadata,
        "inputs": {key: value for key, value in inputs.items() if key not in ("centre", "scale")},
        "thresholds": int(phi.slopes.shape[1]),
        "layers": [len(bias) for bias in phi.biases],
        **{name: getattr(state, name) for name in ("absorbing", "rng", "iteration", "saturated", "resets")},
    }


def state_from_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> mce.State:
    """The state that `state_to_arrays` saved. UserError if the file holds something else."""
    if metadata.get("kind") != "mce" or metadata.get("version") != 1:
        raise UserError("this checkpoint does not hold MCE-ICRL of this version of Tacit")
    try:
        fields = metadata["inputs"]
        inputs = Inputs(
            **{
                **fields,
                "names": tuple(fields["names"]),
                "columns": tuple(fields["columns"]),
                "centre": arrays["inputs/centre"],
                "scale": arrays["inputs/scale"],
            }
        )
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
