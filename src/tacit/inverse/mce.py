"""Maximum causal entropy inverse constrained reinforcement learning with networks: the paper's Algorithm 1.

Given a reward R and demonstrations D of agents that respect hidden constraints, find

    max_pi  J(pi) + beta H(pi)     s.t.   mu_pi <= mu_D + budget,       mu = E phi_zeta                          (1)

where phi_zeta >= 0 are learned features and mu their expectations. The multipliers lam >= 0 of (1) price the features,
and  c = lam . phi_zeta  is the cost. Two steps take turns (`tacit.inverse.loop`):

    forward   PPO improves the policy on  R - c  with causal entropy (`tacit.forward.ppo_lagrangian`)
    inverse   lam and zeta descend the dual (`tacit.inverse.features`):

              lam . (mu_D + budget - mu_pi) + expert_square E_D[c^2] + learner_square E_pi[c^2]                  (2)

The squares are 0 in the paper. With them the dual is bounded: in the space of all functions its minimum is

    c* = (rho_pi - rho_D)_+ / (2 (expert_square rho_D + learner_square rho_pi))                                  (3)

which is near 0 wherever demonstrations go (expert_square large) and at most 1 / (2 learner_square), the ceiling,
elsewhere: a constraint rather than an imitation reward. Without them nothing but the alternation bounds the scale of
c, and where episodes can end, ending becomes cheaper than living.

Nothing here looks at the true cost; it is logged as truth/... when the environment knows it. Beside this file:

    soft_thresholds     features that can be read, beyond the paper's network
    mce_traps           the price of ending an episode, and the guard for a policy that is trapped
    mce_terms_method    another way to the cost, the default of `tacit learn mce`: a short sum of tables
    mce_checks          which settings are refused, and what a run warns of
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.envs.capabilities import capabilities
from tacit.forward import ppo_lagrangian
from tacit.forward.collect import Rollout
from tacit.inverse import constraint_map, features, loop, mce_checks, mce_traps, objects, samples
from tacit.inverse.beside_exact import against_exact
from tacit.inverse.features import OPTIMISER, Batches, Hyper, compiled_costs, dual_steps, feature_means
from tacit.inverse.loop import Evidence
from tacit.inverse.mce_checks import is_linear
from tacit.inverse.mce_settings import Network, Terms
from tacit.inverse.mce_terms_method import OfTerms
from tacit.inverse.samples import Expert
from tacit.policy import Interface
from tacit.run.naming import History, Unused
from tacit.run.trainer import Metrics

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

__all__ = ["Config", "State", "check", "check_demonstrations", "cost_of", "learn", "policy_of", "train"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Config(Network, Terms, loop.Config):
    """Settings of MCE-ICRL: of PPO, of the loop, and of the inverse step."""

    features: Literal["network", "terms"] = "network"
    """The cost: thresholds and a joint network, fitted by gradient steps (network), or a short sum of tables on one or
    two inputs, chosen on held-out demonstrations (terms)."""
    objects: str = "auto"
    """Entries of the observation that describe a set of objects, with * for their number: "dx_* dy_* kind=shy_*
    present=present_* origin=x origin=y". The cost reads distances to the nearest object instead of them. auto: for
    features "terms", what the environment declares or its names show. raw: read the entries as they are."""
    expert_square: float = 20.0
    """Weight of the squared cost of demonstrations in the dual."""
    learner_square: float = 0.1
    """Weight of the squared cost of the learner in the dual. The largest cost (ceiling) is 1 / (2 learner_square)."""
    moments: Literal["absorbing", "normalised", "sum"] = "absorbing"
    """How expectations are formed: per step over episodes continued to the horizon (absorbing), per step over what was
    seen (normalised), or as the paper's discounted sums over trajectories (sum). A sum of tables uses absorbing."""
    absorbing_quantile: float = 0.9
    """Largest cost of the absorbing state, as a quantile of the costs of the learner's living steps; 1: the maximum."""
    replay_phases: int = 40
    """Number of earlier phases to keep."""

    @property
    def ceiling(self) -> float:
        """The largest cost that (3) allows."""
        return 0.5 / self.learner_square if self.learner_square else np.inf

    HISTORY: ClassVar[History] = mce_checks.HISTORY
    SCALING: ClassVar = ("input_scale", "squash", "input_clip")  # tables have knots in the environment's units
    UNUSED: ClassVar[Unused] = {
        "features": {"terms": (*Network.__annotations__, *SCALING), "network": tuple(Terms.__annotations__)}
    }


@dataclass(frozen=True)
class State(loop.State):
    """What a checkpoint holds."""

    absorbing: float = 0.0
    """Cost of a step in the absorbing state."""
    saturated: int = 0
    """Number of inverse steps in a row with a mean cost near the ceiling."""
    resets: int = 0
    """Number of times that the guard has re-initialised the policy."""
    price: float = 1.0
    """Factor on a cost of terms when it is charged."""
    share: float = 0.0
    threshold: float = 0.0
    held_out_cost: float = 0.0
    smoothness: float = 0.0
    """What held-out demonstrations say about a cost of terms; see `terms.Fitted`."""


REPLAY_CANDIDATES = 8192
"""Number of replay rows that an inverse step draws from."""
THINNED = 4096
"""Number of rows used for the mean and the quantiles of a phase's costs."""


# ---------------------------------------------------------------------------------------------------------------------
# The inverse step


def inverse_step(config: Config, state: State, seen: Evidence, rng: np.random.Generator) -> tuple[State, Metrics]:
    """Descend on (2) with the demonstrations, the learner's last phase, and earlier phases."""
    expert, phase = seen.expert, seen.phase
    expert_z = state.inputs.scaled(expert.rows) if expert.z is None else expert.z
    learner_z = state.inputs.scaled(phase.rows)
    expert_weight = expert.weight(config.moments, config.gamma)
    learner_weight = phase.weight(config.moments, config.gamma)
    batches = _minibatches(config, state, (expert_z, expert_weight), (learner_z, learner_weight), rng)
    lr_zeta = config.lr_zeta * config.zeta_decay ** loop.steps_before(config, state)
    hyper = Hyper(lr_zeta, config.lr_lam, config.budget, config.expert_square, config.learner_square)
    once = config.lam_update == "once"
    params, opt_state, loss = dual_steps(state.params, state.opt_state, batches, hyper, once=once)

    mu_expert = feature_means(params.phi, expert_z, expert_weight)
    mu_learner = feature_means(params.phi, learner_z, learner_weight)
    gap = np.asarray(mu_learner - mu_expert)
    if once:
        params = params._replace(lam=jnp.maximum(0.0, params.lam + config.lr_lam * (gap - config.budget)))
    lam = np.asarray(params.lam)
    thinned_z = samples.thinned(learner_z, THINNED)
    learner_cost = np.asarray(compiled_costs(params, thinned_z))
    expert_cost = np.asarray(compiled_costs(params, samples.thinned(expert_z, THINNED)))
    living = float(np.quantile(learner_cost, config.absorbing_quantile))
    absorbing = mce_traps.absorbing_cost(config, expert.absorbed, phase.absorbed, living)
    return replace(state, params=params, opt_state=opt_state, absorbing=absorbing), {
        "dual/loss": float(loss),
        "dual/feature_gap": float(np.maximum(gap, 0.0).max()),
        "dual/expert_cost": float(expert_cost.mean()),
        "dual/expert_cost_99": float(np.quantile(expert_cost, 0.99)),
        "dual/learner_cost": float(learner_cost.mean()),
        "dual/lam_mean": float(lam.mean()),
        "dual/lam_max": float(lam.max()),
        "dual/absorbing": absorbing,
        "dual/absorbed": phase.absorbed,
        "dual/clipped": float((np.abs(thinned_z) >= state.inputs.clip).any(axis=-1).mean()),
    }


def _minibatches(
    config: Config, state: State, expert: tuple[Array, Array], learner: tuple[Array, Array], rng: np.random.Generator
) -> Batches:
    """Samples of (scaled inputs, weights) of both sides; part of the learner's come from earlier phases."""
    count = config.minibatches or max(1, -(-len(expert[0]) // config.dual_batch))

    def draw(z: Array, weight: Array, size: int, likely: Array | None = None) -> tuple[Array, Array]:
        if likely is None:
            chosen = rng.integers(len(z), size=(count, size))
        else:
            chosen = np.searchsorted(np.cumsum(likely), rng.random((count, size)) * likely.sum()).clip(0, len(z) - 1)
        return z.take(chosen, axis=0), (len(z) * weight[chosen]).astype(np.float32)

    demonstrated = draw(*expert, config.dual_batch)
    old = round(config.replay_share * config.dual_batch) if len(state.replay) else 0
    recent = draw(*learner, config.dual_batch - old)
    if not old:
        return Batches(*demonstrated, *recent)
    # Earlier phases stand in for the present one and get the same total mass. Their costly rows are drawn more often.
    # That is harmless: where no demonstration goes, (3) does not depend on how often the learner goes there.
    rows = state.replay.reshape(-1, state.replay.shape[-1])
    rows = rows[rng.integers(len(rows), size=REPLAY_CANDIDATES)]
    mass = learner[1].sum()
    z = state.inputs.scaled(rows)
    likely = None
    if config.replay_by_cost:
        cost = np.asarray(compiled_costs(state.params, z))
        likely = cost + 0.02 * (config.ceiling if np.isfinite(config.ceiling) else cost.mean() + 1e-6)
    past = draw(z, np.full(len(rows), mass / len(rows)), old, likely)
    return Batches(*demonstrated, *(np.concatenate(pair, axis=1) for pair in zip(recent, past, strict=True)))


# ---------------------------------------------------------------------------------------------------------------------
# The method


class MCE(loop.Method):
    """The paper's way: `features = "network"`."""

    name = "mce"
    config_type = Config
    state_type = State
    tree = "dual"
    hidden_metrics = ("train/multiplier", "train/penalty")

    def inputs_of(
        self, env: VectorEnv, interface: Interface, config: Config, demos: Demonstrations | None = None
    ) -> Inputs:
        return objects.inputs_of(env, interface, config, demos)

    def begin(
        self, config: Config, interface: Interface, inputs: Inputs, expert: Array, nominal: Array, rng: Any
    ) -> tuple[Inputs, Any, Any, Metrics]:
        """The inputs' scale, and fresh features, pre-trained if asked for (line 3)."""
        if is_linear(config, interface):
            inputs = samples.unit_scale(inputs, expert)
            samples.require_features(inputs, nominal, "a step of the learner")
        elif config.input_scale == "fit":
            inputs = samples.fit_scale(inputs, expert, nominal)
        z = np.concatenate([inputs.scaled(expert), inputs.scaled(nominal)])
        params = features.init(
            rng,
            z,
            thresholds=0 if interface.n_states else config.thresholds,  # one-hot states are features already
            hidden=config.feature_hidden,
            joint=config.joint,
            lam=config.lam_init,
            bias=config.feature_bias,
        )
        epochs, lr = config.pretrain_epochs, config.pretrain_lr
        phi, losses = features.pretrain(rng, params.phi, z, epochs=epochs, lr=lr, batch_size=config.dual_batch)
        params = params._replace(phi=phi)
        names = {"dual/reconstruction_first": 0, "dual/reconstruction_last": -1} if losses else {}
        return inputs, params, OPTIMISER.init(params), {name: losses[place] for name, place in names.items()}

    def after_bootstrap(
        self, config: Config, first: ppo_lagrangian.State, forward: ppo_lagrangian.State
    ) -> ppo_lagrangian.State:
        # A single critic needs the scale of R - c, and there has been no c yet. A clone's scale is not known either.
        if config.start == "nominal" and config.critics == "separate":
            return ppo_lagrangian.freeze_reward_scale(forward)
        return forward

    def recent(self, config: Config, state: State, expert: Expert, rollouts: list[Rollout]) -> list[Rollout]:
        """For sums, the last steps of the present policy, about as many as demonstrated; otherwise the whole phase."""
        if config.moments != "sum":
            return rollouts
        return rollouts[-max(1, -(-len(expert.rows) // config.rollout_steps)) :]

    def terminal_cost(self, config: Config, state: State, expert: Expert) -> float:
        gamma = config.discount_of_cost
        return gamma * state.absorbing / (1.0 - gamma) if state.absorbing else 0.0

    def step(self, config: Config, state: State, evidence: Evidence, rng: Any) -> tuple[State, Metrics]:
        first = loop.steps_before(config, state) == 0
        if first:
            mce_checks.warn_of_survival(config, evidence)
        elif is_linear(config, state.forward.agent.interface):
            samples.require_features(state.inputs, evidence.phase.rows, "a step of the learner")
        state, metrics = inverse_step(config, state, evidence, rng)
        if first:
            return state, metrics
        state, guard = mce_traps.guarded(config, state, evidence.charged)
        return state, metrics | guard

    def cost_of(self, state: State, config: Config) -> LearnedCost:
        unit = (state.forward.rbar or 1.0) if config.penalty_unit == "rbar" else 1.0
        return features.to_cost(state.params, state.inputs, at=config.at, unit=unit)

    def replay_phases(self, config: Config) -> int:
        return config.replay_phases

    def shapes(self, params: Any) -> dict[str, Any]:
        phi = params.phi
        return {"thresholds": int(phi.slopes.shape[1]), "layers": [len(bias) for bias in phi.biases]}

    def blank(self, metadata: Mapping[str, Any], n_inputs: int) -> tuple[Any, Any]:
        params = features.blank(n_inputs, metadata["thresholds"], metadata["layers"])
        return params, OPTIMISER.init(params)

    def map_of(self, config: Config, state: State, expert: Expert, seed: int) -> LearnedCost | None:
        return constraint_map.fit(config, state, self.cost_of(state, config), expert, seed)

    def ceiling(self, config: Config, cost: LearnedCost, rows: Array) -> float:
        return constraint_map.ceiling(config)

    def details(self, env: VectorEnv, config: Config, state: State, cost: LearnedCost) -> dict[str, Any]:
        grid = capabilities(env).model
        return {} if grid is None else {"exact": against_exact(grid, config, state, cost, self.policy_of(state))}

    def check_settings(self, config: Config) -> None:
        super().check_settings(config)
        mce_checks.check_settings(config)

    def check_demonstrations(
        self, env_id: str, env_kwargs: Mapping[str, Any], config: Config, demos: Demonstrations
    ) -> None:
        mce_checks.check_demonstrations(env_id, env_kwargs, config, demos)


class MCEOfTerms(OfTerms, MCE):
    """The default way: `features = "terms"`."""


# ---------------------------------------------------------------------------------------------------------------------
# The two ways

METHODS: dict[str, MCE] = {"network": MCE(), "terms": MCEOfTerms()}
"""The method by the setting `features`. This is the one place where the two ways part."""


def learn(
    env: VectorEnv, demos: Demonstrations, config: Config, seed: int = 0, state: State | None = None
) -> Iterator[tuple[State, Metrics]]:
    """Yield (state, metrics) per outer iteration. With a state, it continues as if it had not stopped."""
    return METHODS[config.features].learn(env, demos, config, seed, state)


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> dict[str, Any]:
    """Learn inside a run folder, resuming if it was begun; returns the summary."""
    return METHODS[config.features].train(run, env_id, env_kwargs, demos, config, seed)


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work in this environment."""
    METHODS[config.features].check(env_id, env_kwargs, config)


def cost_of(state: State, config: Config) -> LearnedCost:
    """The present cost as an artefact."""
    return METHODS[config.features].cost_of(state, config)


check_demonstrations, policy_of = mce_checks.check_demonstrations, METHODS["network"].policy_of
