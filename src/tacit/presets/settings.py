"""The settings of every algorithm, as types: what `tacit.learn(env, method="mce", **settings)` takes.

Written by tools/settings.py from the algorithms' `Config` classes; do not edit. The second entry of an annotation is
the default of `Config`. What a run uses unless you say otherwise is that of its preset for its environment:
`tacit learn mce ENV --help` shows it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from tacit.run.naming import Unused


class MCEExact(TypedDict, total=False):
    """Settings of mce-exact."""

    beta: Annotated[float, 0.1]
    """Weight of the causal entropy, in units of reward; smaller is closer to a deterministic policy."""
    objective: Annotated[Literal["likelihood", "moments", "plugin"], "likelihood"]
    """What is fitted. likelihood: the demonstrated actions; always has a solution. moments: the visits of the
    demonstrations, as in the paper; may have no solution if the dynamics slip. plugin: the visits of a policy estimated
    from the demonstrations; always has a solution. `tacit.solve` defaults to moments, because it also takes
    expectations without demonstrations."""
    budget: Annotated[float, 0.0]
    """How far each feature may exceed the expert's, in discounted visits; a larger budget is looser. If the dynamics
    slip, moments needs one to have a solution."""
    features: Annotated[Literal["state", "state-action"], "state"]
    """Features that the cost depends on, with one weight each."""
    method: Annotated[Literal["newton", "gradient"], "newton"]
    """Solver: newton, or the paper's projected gradient with a fixed step."""
    l1: Annotated[float, 0.0001]
    """L1 penalty on the weights for the likelihood, in discounted visits."""
    pseudo_count: Annotated[float, 0.1]
    """For plugin: visits of the unconstrained policy that are added to each state's action counts."""
    tolerance: Annotated[float, 1e-09]
    """KKT residual at which the solver stops."""
    step_size: Annotated[float, 0.05]
    """For gradient: the step size."""
    max_iterations: Annotated[int | None, None]
    """Outer iterations. Default: 500 for newton, 2000 for gradient."""


class MlGreedy(TypedDict, total=False):
    """Settings of ml-greedy and ml-greedy-causal."""

    beta: Annotated[float, 0.1]
    """Temperature of the demonstrators, in units of reward; smaller is closer to a deterministic policy."""
    d_kl: Annotated[float, 0.1]
    """Stop when no state makes the demonstrations likelier by this much, in nats per trajectory."""
    risk: Annotated[float, 0.5]
    """Largest chance of stepping into a forbidden state that an allowed action may have. It has no effect if the
    dynamics are deterministic. ml-greedy uses it only for its policy."""
    max_states: Annotated[int, 1000]
    """Largest number of forbidden states."""


class PPO(TypedDict, total=False):
    """Settings of PPO. Those of the paper's table have the same names as there."""

    total_steps: Annotated[int, 1000000]
    """Environment steps. The iteration in progress is finished, so a run may use slightly more."""
    n_envs: Annotated[int, 32]
    """Number of environment copies that are stepped together. A vector environment given to learn() sets it instead."""
    rollout_steps: Annotated[int, 2048]
    """Environment steps per rollout, all copies together (the paper's n_steps)."""
    batch_size: Annotated[int, 128]
    """Samples per minibatch; must divide rollout_steps."""
    epochs: Annotated[int, 10]
    """Passes over each rollout."""
    lr: Annotated[float, 0.0003]
    """Adam's learning rate at the start."""
    lr_final: Annotated[float, 1.0]
    """Learning rate at the end as a fraction of the initial one; the decay is linear."""
    lr_decay_start: Annotated[float, 0.0]
    """Share of the training after which the learning rate begins to fall."""
    gamma: Annotated[float, 0.99]
    """Discount factor."""
    gae_lambda: Annotated[float, 0.95]
    """Decay of the trace in generalised advantage estimation."""
    clip: Annotated[float, 0.2]
    """Clip range eps of the probability ratio. The paper does not give it."""
    target_kl: Annotated[float | None, 0.02]
    """Stop an update early once the estimated KL from the old policy exceeds kl_factor times this; None: never."""
    kl_factor: Annotated[float, 1.5]
    """Factor on target_kl that gives the KL limit of an update."""
    lr_adaptive: Annotated[bool, False]
    """Divide the policy's learning rate by 1.5 after an update whose KL exceeded the limit, and multiply it by 1.5 (up
    to lr) after one whose KL stayed below half of target_kl. A policy with little noise can only take small steps."""
    beta: Annotated[float, 0.0001]
    """Weight of the causal entropy (nats), in units of the normalised reward."""
    entropy: Annotated[Literal["return", "loss"], "return"]
    """Entropy as part of the return (causal entropy), or as a one-step bonus in the loss."""
    hidden: Annotated[tuple[int, ...], (64, 64)]
    """Hidden tanh layers of the policy and of each critic."""
    log_std_init: Annotated[float, 0.0]
    """Initial log standard deviation of a Gaussian policy, in units of half the action box if scale_actions."""
    noise_of: Annotated[Literal["action", "vector"], "action"]
    """Whether log_std_init is the noise of each action, or of the whole action vector. With "vector" each of A actions
    has 1/sqrt(A) of it: many joints that tremble at once explore more than one."""
    log_std_final: Annotated[float | None, None]
    """Upper bound of the log standard deviation at the end. The bound falls linearly from the initial one, from
    lr_decay_start on, and the last update lowers it by 2: the final policy has hardly any noise, and keeps the
    distance from a limit that its noise needed in training. None: no bound."""
    bound_coef: Annotated[float, 0.0]
    """Weight, in the loss, of the squared distance of a Gaussian policy's mean from the action box. Far outside of the
    box all actions are clipped to the same one, and the agent stops exploring. Needs scale_actions."""
    scale_actions: Annotated[bool, True]
    """Let the Gaussian act in coordinates where the action box is [-1, 1], instead of the box's own."""
    value_coef: Annotated[float, 0.5]
    """c_V: weight of the critics' squared errors."""
    max_grad_norm: Annotated[float, 0.5]
    """Largest norm of the gradient."""
    clip_gradients: Annotated[Literal["each", "together"], "each"]
    """Whether max_grad_norm bounds the gradient of each network, or that of all networks together, as other
    implementations do. Together, the policy takes smaller steps on samples that surprise the critics."""
    adam_eps: Annotated[float, 1e-05]
    """Adam's epsilon."""
    standardise: Annotated[Literal["rollout", "minibatch", "none"], "rollout"]
    """Samples over which advantages are standardised."""
    normalize_obs: Annotated[bool, True]
    """Standardise observations with running statistics (one-hot observations are left alone)."""
    obs_clip: Annotated[float, 10.0]
    """Bound of normalised observations."""
    normalize_reward: Annotated[bool, True]
    """Divide rewards by the running standard deviation of their discounted sum."""
    reward_clip: Annotated[float, 10.0]
    """Bound of normalised rewards."""
    threads: Annotated[int, 1]
    """Number of cores for this training. With 2, two threads step the environments; and if target_kl is None, policy
    and critics learn at the same time. Two trainings with one thread each use two cores better."""


class PpoLagrangianPenalty(PPO, total=False):
    """Settings of PPO on reward - price x cost with a constant price of 1, as learned costs need it."""

    penalty_unit: Annotated[Literal["rbar", "reward", "advantage"], "rbar"]
    """Unit of the multiplier: the largest mean |reward| per step so far (rbar), the environment's reward, or the spread
    of the reward's advantage."""
    critics: Annotated[Literal["separate", "single"], "separate"]
    """Separate critics for reward and cost, or a single critic for the penalised reward (RCPO)."""
    cost_gamma: Annotated[float, 0.99]
    """Discount of the cost critic."""
    cost_gae_lambda: Annotated[float, 0.95]
    """Decay of the trace in the cost's advantage estimation."""


class SamplesSettings(TypedDict, total=False):
    """Settings of the cost's inputs, and of how the learner starts."""

    start: Annotated[Literal["nominal", "clone"], "nominal"]
    """Initial policy: one trained on the reward alone (nominal), or a clone of the demonstrations (clone)."""
    clone_log_std: Annotated[float, -4.0]
    """Smallest log standard deviation of a cloned policy, so that it still explores."""
    inputs: Annotated[tuple[str, ...], ()]
    """Names of the observation entries that the cost reads; empty: all."""
    use_action: Annotated[bool, False]
    """Let the cost read the action too."""
    at: Annotated[Literal["next", "current"], "next"]
    """State that the cost of a step reads: the one reached (next), or the one in which the action is taken
    (current)."""
    input_scale: Annotated[Literal["fit", "raw"], "fit"]
    """Scale of the inputs: the narrower of demonstrations and nominal data (fit), or the environment's (raw)."""
    squash: Annotated[bool, True]
    """Apply arsinh to the scaled inputs, see tacit.cost. Raw inputs are not squashed."""
    input_clip: Annotated[float, 20.0]
    """Bound of the scaled inputs."""


class TrainerSettings(TypedDict, total=False):
    """Settings of a run, common to all methods."""

    demonstrations: Annotated[int, 0]
    """Learn only from this many of the first demonstrations; 0: all."""
    eval_episodes: Annotated[int, 100]
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""
    checkpoint_every: Annotated[int, 5]
    """Outer iterations between checkpoints. There is also one after the first, and after three minutes."""


class Loop(TrainerSettings, SamplesSettings, PpoLagrangianPenalty, total=False):
    """Settings of the loop: of PPO with a cost, of the cost's inputs, and of how their steps alternate."""

    bootstrap_steps: Annotated[int, 20480]
    """Environment steps of the nominal policy, without cost, before the first inverse step; at least one rollout."""
    forward_steps: Annotated[int, 16384]
    """Environment steps of PPO between two inverse steps."""
    inverse_first: Annotated[bool, True]
    """Take the first inverse step after the bootstrap. Otherwise it follows the first forward phase, as in the
    paper."""


class MceSettingsTerms(TypedDict, total=False):
    """Settings of a sum of tables: features "terms", the default in most environments."""

    tempted_steps: Annotated[int, 49152]
    """Environment steps of the tempted clone: cloned from the demonstrations, then trained on the reward alone. At most
    a tenth of a run; the bootstrap takes at most a fifth."""


class MceSettingsNetwork(TypedDict, total=False):
    """Settings of a cost of thresholds and a network: features "network", as in --preset thresholds and paper."""

    budget: Annotated[float, 0.0]
    """How far each feature expectation may exceed the demonstrations'; a larger budget is looser."""
    thresholds: Annotated[int, 8]
    """Number of soft thresholds per input."""
    joint: Annotated[int, 64]
    """Number of sigmoid outputs of the joint network on all inputs (the paper's k); 0: no such network."""
    feature_hidden: Annotated[tuple[int, ...], (64, 64)]
    """Hidden ReLU layers of the joint network."""
    feature_bias: Annotated[float, -3.0]
    """Initial output bias of the joint network. A negative bias makes features begin near 0."""
    lam_init: Annotated[float, 0.01]
    """Initial multiplier of every feature."""
    lr_lam: Annotated[float, 0.01]
    """Learning rate of the multipliers lam."""
    lr_zeta: Annotated[float, 0.001]
    """Adam's learning rate of the features (zeta); 0: they stay as they are."""
    zeta_decay: Annotated[float, 1.0]
    """Factor on lr_zeta after each inverse step."""
    lam_update: Annotated[Literal["minibatch", "once"], "minibatch"]
    """Update lam with Adam on every minibatch beside zeta, or by one projected gradient step on all data after it."""
    minibatches: Annotated[int, 300]
    """Minibatches per inverse step; 0: as many as make a pass over the demonstrated steps. They are drawn with
    replacement, so a pass misses about 37 % of the steps."""
    dual_batch: Annotated[int, 512]
    """Samples of the learner, and of the demonstrations, per minibatch."""
    replay_share: Annotated[float, 0.5]
    """Share of the learner's samples that comes from earlier forward phases."""
    replay_by_cost: Annotated[bool, False]
    """Draw the samples of earlier phases in proportion to their present cost (plus a little), instead of evenly. There
    are no importance weights, so the learner counts as visiting what is drawn."""
    pretrain_epochs: Annotated[int, 0]
    """Epochs of auto-encoder pre-training of the features."""
    pretrain_lr: Annotated[float, 0.001]
    """Adam's learning rate of the pre-training."""
    guard: Annotated[float, 0.95]
    """Mean cost above which the policy counts as trapped, as a share of the ceiling; 0: no guard."""
    guard_iterations: Annotated[int, 3]
    """Trapped iterations in a row after which the guard re-initialises the policy, in the first 70 % of the steps."""


class MCE(MceSettingsNetwork, MceSettingsTerms, Loop, total=False):
    """Settings of MCE-ICRL: of PPO, of the loop, and of the inverse step."""

    features: Annotated[Literal["network", "terms"], "network"]
    """The cost: thresholds and a joint network, fitted by gradient steps (network), or a short sum of tables on one or
    two inputs, chosen on held-out demonstrations (terms)."""
    objects: Annotated[str, "auto"]
    """Entries of the observation that describe a set of objects, with * for their number: "dx_* dy_* kind=shy_*
    present=present_* origin=x origin=y". The cost reads distances to the nearest object instead of them. auto: for
    features "terms", what the environment declares or its names show. raw: read the entries as they are."""
    expert_square: Annotated[float, 20.0]
    """Weight of the squared cost of demonstrations in the dual."""
    learner_square: Annotated[float, 0.1]
    """Weight of the squared cost of the learner in the dual. The largest cost (ceiling) is 1 / (2 learner_square)."""
    moments: Annotated[Literal["absorbing", "normalised", "sum"], "absorbing"]
    """How expectations are formed: per step over episodes continued to the horizon (absorbing), per step over what was
    seen (normalised), or as the paper's discounted sums over trajectories (sum). A sum of tables uses absorbing."""
    absorbing_quantile: Annotated[float, 0.9]
    """Largest cost of the absorbing state, as a quantile of the costs of the learner's living steps; 1: the maximum."""
    replay_phases: Annotated[int, 40]
    """Number of earlier phases to keep."""


class PpoLagrangianFixed(PpoLagrangianPenalty, total=False):
    """Settings of PPO with a constant penalty of any size."""

    multiplier_init: Annotated[float, 1.0]
    """Initial multiplier (the penalty if it is fixed), in units of penalty_unit."""
    multiplier_ramp: Annotated[int, 0]
    """Steps over which a fixed penalty grows from 0, with the cube of time; 0: full penalty from the start. An agent
    that must learn to balance first learns to fall instead if it is punished too early."""
    terminal_cost: Annotated[float, 0.0]
    """Cost added when an episode terminates, in place of the cost of living on. Without it an agent may learn to fall,
    because that ends the costs. A value of about 1 / (1 - cost_gamma) times the worst cost of a step prevents that."""


class PpoLagrangian(PpoLagrangianFixed, total=False):
    """Settings of PPO and of the constraint."""

    budget: Annotated[float, 0.0]
    """Largest mean cost allowed."""
    budget_per: Annotated[Literal["step", "episode"], "step"]
    """Whether the budget is for the mean cost of a step or of an episode."""
    multiplier: Annotated[Literal["fixed", "ascent", "softplus", "pid"], "ascent"]
    """How the multiplier follows the cost; "fixed" is a constant penalty."""
    multiplier_lr: Annotated[float, 0.05]
    """Step size of "ascent" (multiplier per unit of excess cost) or Adam's learning rate of "softplus"."""
    ascent_by: Annotated[Literal["sum", "factor"], "sum"]
    """Whether "ascent" adds its step to the multiplier, or multiplies it by exp(multiplier_lr min(error, 1)), which
    needs no scale."""
    multiplier_max: Annotated[float, 100.0]
    """Upper bound of the multiplier."""
    pid_gains: Annotated[tuple[float, float, float], (10.0, 0.1, 0.0)]
    """Proportional, integral and derivative gain of "pid"."""
    pid_smoothing: Annotated[float, 0.5]
    """Weight of the past in the average that the proportional and derivative parts of "pid" see."""
    forfeit: Annotated[float, 0.0]
    """Probability that a step of cost 1 ends the agent's income for good. Needs critics = "single"."""
    falls: Annotated[Literal["free", "forfeit"], "free"]
    """With "forfeit", the end of an episode ends the income too, three times as badly, so that no agent falls in order
    not to violate. An episode whose last step pays more than any other step of the rollout has reached a goal and is
    exempt. This has no effect if forfeit is 0."""


class ConstraintNetSettings(SamplesSettings, total=False):
    """Settings of the constraint network and its inputs."""

    layers: Annotated[tuple[int, ...], (20,)]
    """Hidden ReLU layers of the network."""
    lr_constraint: Annotated[float, 0.005]
    """Adam's learning rate of the network."""


class ConstraintNet(ConstraintNetSettings, Loop, PpoLagrangian, total=False):
    """Settings of a classifier: of PPO-Lagrangian, of the network, and of how their steps alternate."""

    multiplier: Annotated[Literal["fixed", "ascent", "softplus", "pid"], "softplus"]
    """How the multiplier follows the cost; "fixed" is a constant penalty."""
    penalty_unit: Annotated[Literal["rbar", "reward", "advantage"], "advantage"]
    """Unit of the multiplier, see tacit.forward.ppo_lagrangian."""
    backward_steps: Annotated[int, 10]
    """Passes over the data per inverse step."""
    constraint_batch: Annotated[int, 0]
    """Samples of the demonstrations, and of the learner, per minibatch; 0: all."""
    anneal: Annotated[float, 0.9]
    """Factor on lr_constraint after each inverse step."""


class BC2L(ConstraintNet, total=False):
    """Settings of BC2L."""


class IrlCorrection(ConstraintNetSettings, Loop, PpoLagrangianFixed, total=False):
    """Settings of the reward correction."""

    forward_steps: Annotated[int, 4096]
    """Environment steps of PPO between two inverse steps."""
    backward_steps: Annotated[int, 1]
    """Adam steps per inverse step, each on a batch of constraint_batch."""
    constraint_batch: Annotated[int, 5000]
    """Samples of the demonstrations, and of the learner, per step; 0: all."""
    anneal: Annotated[float, 1.0]
    """Factor on lr_constraint after each inverse step."""
    expert_square: Annotated[float, 0.1]
    """Weight of the squared cost of demonstrations in (2)."""
    reset_actor: Annotated[int, 0]
    """Re-initialise the policy's last layer after this many inverse steps, in the first half of the run; 0: never."""
    reset_critic: Annotated[int, 0]
    """Re-initialise the cost critic's last layer after this many inverse steps, during the whole run; 0: never."""


class BC(TypedDict, total=False):
    """Settings of behaviour cloning."""

    steps: Annotated[int, 6000]
    """Number of Adam steps."""
    batch_size: Annotated[int, 256]
    """Samples per minibatch."""
    lr: Annotated[float, 0.001]
    """Adam's learning rate at the start; it decays linearly."""
    hidden: Annotated[tuple[int, ...], (64, 64)]
    """Hidden tanh layers of the policy."""
    min_log_std: Annotated[float, -5.0]
    """Smallest log standard deviation of a Gaussian policy, in units of half the action box."""
    scale_actions: Annotated[bool, True]
    """Let the Gaussian act in coordinates where the action box is [-1, 1], instead of the box's own."""
    obs_clip: Annotated[float, 10.0]
    """Bound of normalised observations."""
    held_out: Annotated[int, 0]
    """Hold out this many of the last demonstrations; they are used only to measure the likelihood."""
    demonstrations: Annotated[int, 0]
    """Learn only from this many of the first demonstrations; 0: all."""
    eval_episodes: Annotated[int, 100]
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""


class ReferencesSettings(TypedDict, total=False):
    """Settings of a reference's run."""

    eval_episodes: Annotated[int, 100]
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""
    checkpoint_every: Annotated[int, 20]
    """Rollouts between checkpoints. There is also one after the first rollout, and after three minutes."""


class PpoReference(ReferencesSettings, PPO, total=False):
    """Settings of PPO without cost."""


class RCPO(ReferencesSettings, PpoLagrangian, total=False):
    """Settings of RCPO."""

    critics: Annotated[Literal["separate", "single"], "single"]
    """A single critic for the penalised reward (RCPO), or separate critics for reward and cost (PPO-Lagrangian)."""


class Box(ReferencesSettings, PpoLagrangian, total=False):
    """Settings of an agent in the box around the demonstrations."""

    critics: Annotated[Literal["separate", "single"], "single"]
    """A single critic for the penalised reward (RCPO), or separate critics for reward and cost (PPO-Lagrangian)."""
    demonstrations: Annotated[int, 0]
    """Use only this many of the first demonstrations; 0: all."""


class Gacl(TrainerSettings, ConstraintNetSettings, PPO, total=False):
    """Settings of GACL: of PPO and of the discriminator."""

    checkpoint_every: Annotated[int, 20]
    """Rollouts between checkpoints."""
    lr_constraint: Annotated[float, 0.003]
    """Adam's learning rate of the discriminator."""
    layers: Annotated[tuple[int, ...], (30,)]
    """Hidden ReLU layers of the discriminator."""
    discriminator_steps: Annotated[int, 1]
    """Discriminator steps after each rollout."""
    bootstrap_steps: Annotated[int, 0]
    """Environment steps of PPO on the reward alone before the first discriminator step; at least one rollout."""
    absorbing: Annotated[bool, False]
    """If no demonstration ends early, charge the learner for ending an episode as much as staying for ever where log D
    is low (the lowest tenth of a rollout). Without this charge, the agent prefers to end episodes, because log D is
    negative."""


class MeIcrl(ConstraintNet, total=False):
    """Settings of ME-ICRL."""

    delta: Annotated[float, 0.5]
    """Weight of the mean cost, which keeps the constraint small."""
    weights: Annotated[Literal["step", "trajectory", "none"], "step"]
    """Importance weights of the learner's steps: of each step, of its whole trajectory, or none."""
    forward_kl: Annotated[float, 10.0]
    """An inverse step stops once KL(old || new) of the model exceeds this."""
    reverse_kl: Annotated[float, 2.5]
    """An inverse step stops once KL(new || old) of the model exceeds this."""
    published_code: Annotated[bool, False]
    """Follow the published program, in which importance weights have no effect on the gradient."""


class Vicrl(ConstraintNet, total=False):
    """Settings of variational ICRL."""

    delta: Annotated[float, 0.5]
    """Weight of the divergence from the prior."""
    prior: Annotated[tuple[float, float], (0.9, 0.1)]
    """Parameters of the Beta prior on the feasibility of a step."""
    cost: Annotated[Literal["sample", "mean"], "sample"]
    """What the learner is charged in a forward step: 1 - a sample of the feasibility, or 1 - its mean."""
    replay_share: Annotated[float, 0.0]
    """Share of the learner's samples in an inverse step that comes from earlier forward phases."""


class Retrain(ReferencesSettings, PpoLagrangian, total=False):
    """Settings of an agent with a frozen cost: the settings of PPO-Lagrangian, and the cost."""

    cost: Annotated[str, ""]
    """The finished run folder that the cost comes from. Only its name is kept."""
    sha256: Annotated[str, ""]
    """SHA-256 of that cost; computed if not given."""
    which: Annotated[Literal["cost", "map"], "cost"]
    """The cost that drove the policy, or its additive map (if the run has one)."""
    shared: Annotated[bool, False]
    """If the environment lacks some inputs of an additive cost, use the part that reads the others."""
    charge: Annotated[Literal["soft", "excess", "set", "price", "budget", "raw"], "soft"]
    """How the cost is used: as a set of forbidden steps with a soft edge (soft), one that begins at the threshold
    (excess) or a hard one (set), as a price on top of the reward (price), with the mean cost of a demonstrated step as
    budget (budget), or with the budget of the settings (raw)."""
    price: Annotated[float, 0.0]
    """Reward per unit of cost for charge "price"; 0: the price at which the cost was learned."""
    threshold: Annotated[float | None, None]
    """Cost above which a step is forbidden, if the cost is used as a set; None: that of the cost, or the usual one."""
    unknown: Annotated[Literal["forbidden", "free"], "forbidden"]
    """Whether a set forbids what lies well outside of everything that the run of the cost has seen. Inputs that are not
    finite are always forbidden."""
    margin: Annotated[str, ""]
    """How much further the cost reaches out, in units of its inputs: "x=0.05 v=0.02". Only for a cost of terms."""
    free: Annotated[bool, False]
    """Accept a cost that forbids nothing that its learner tried."""


class Expert(PpoLagrangian, total=False):
    """Settings of an expert."""

    margin: Annotated[float, 0.0]
    """Extra distance from the constraint, in the unit of its feature; for environments whose constraint is a bound."""
    fall_cost: Annotated[float, 0.0]
    """Cost of ending an episode early, in violating steps, on top of terminal_cost. 1/(1 - cost_gamma) makes it as bad
    as violating for ever, so that falling is no way out of the constraint."""
    demonstrations: Annotated[int, 50]
    """Number of demonstrations to write; 0 for none."""
    eval_episodes: Annotated[int, 100]
    """Number of episodes of the final evaluation, for the stochastic and the deterministic policy each."""
    checkpoint_every: Annotated[int, 20]
    """Iterations between checkpoints."""


SETTINGS: dict[str, type] = {
    "mce-exact": MCEExact,
    "ml-greedy": MlGreedy,
    "ml-greedy-causal": MlGreedy,
    "mce": MCE,
    "bc2l": BC2L,
    "irl-correction": IrlCorrection,
    "bc": BC,
    "ppo": PpoReference,
    "rcpo": RCPO,
    "box": Box,
    "gacl": Gacl,
    "me-icrl": MeIcrl,
    "vicrl": Vicrl,
    "retrain": Retrain,
    "expert": Expert,
}
"""By the name of the algorithm."""

UNUSED: dict[str, Unused] = {
    "mce": {
        "features": {
            "terms": (
                "budget",
                "thresholds",
                "joint",
                "feature_hidden",
                "feature_bias",
                "lam_init",
                "lr_lam",
                "lr_zeta",
                "zeta_decay",
                "lam_update",
                "minibatches",
                "dual_batch",
                "replay_share",
                "replay_by_cost",
                "pretrain_epochs",
                "pretrain_lr",
                "guard",
                "guard_iterations",
                "input_scale",
                "squash",
                "input_clip",
            ),
            "network": ("tempted_steps",),
        }
    }
}
"""By the name of the algorithm: settings that another setting makes useless (`naming.Unused`)."""
