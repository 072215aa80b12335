"""The settings of every algorithm, as types: what `tacit.learn(env, method="mce", **settings)` takes.

Written by tools/settings.py from the algorithms' `Config` classes; do not edit. The second entry of an annotation is
the default of `Config`. What a run uses unless you say otherwise is that of its preset for its environment:
`tacit learn mce ENV --help` shows it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict


class MCEExact(TypedDict, total=False):
    """Settings of mce-exact."""

    beta: Annotated[float, 0.1]
    """Weight of the causal entropy, in units of reward; smaller is closer to a deterministic policy."""
    objective: Annotated[Literal["likelihood", "moments", "plugin"], "likelihood"]
    """What is fitted: the demonstrated actions (likelihood, always solvable), the visits of the demonstrations
    (moments, as in the paper; may have no solution when the dynamics slip), or the visits of a policy estimated from
    them (plugin, always solvable). `tacit.solve` defaults to moments, because it also takes expectations without
    demonstrations."""
    budget: Annotated[float, 0.0]
    """How far each feature may exceed the expert's, in discounted visits; more is looser. (moments has no solution
    without one when the dynamics slip.)"""
    features: Annotated[Literal["state", "state-action"], "state"]
    """What a cost may depend on, one weight each."""
    method: Annotated[Literal["newton", "gradient"], "newton"]
    """newton, or the paper's projected gradient with a fixed step."""
    l1: Annotated[float, 0.0001]
    """L1 penalty on the weights for the likelihood, in discounted visits."""
    pseudo_count: Annotated[float, 0.1]
    """plugin: visits of the unconstrained policy that are mixed into each state's action counts."""
    tolerance: Annotated[float, 1e-09]
    """KKT residual at which to stop."""
    step_size: Annotated[float, 0.05]
    """gradient: the step."""
    max_iterations: Annotated[int | None, None]
    """Outer iterations; 500 for newton and 2000 for gradient when not given."""


class MlGreedy(TypedDict, total=False):
    """Settings of ml-greedy and ml-greedy-causal."""

    beta: Annotated[float, 0.1]
    """Temperature of the demonstrators, in units of reward; smaller is closer to a deterministic policy."""
    d_kl: Annotated[float, 0.1]
    """Stop when no state makes the demonstrations likelier by this much, in nats per trajectory."""
    risk: Annotated[float, 0.5]
    """Largest chance of stepping into a forbidden state that an allowed action may have. It means nothing where the
    dynamics are deterministic; ml-greedy uses it for its policy alone."""
    max_states: Annotated[int, 1000]
    """Stop after this many states."""


class PPO(TypedDict, total=False):
    """Settings of PPO; those of the paper's table are named as there."""

    total_steps: Annotated[int, 1000000]
    """Environment steps. The iteration in progress is finished, so a run may use slightly more."""
    n_envs: Annotated[int, 32]
    """Copies of the environment that are stepped together. A vector environment given to learn() decides itself."""
    rollout_steps: Annotated[int, 2048]
    """Environment steps per rollout, all copies together (the paper's n_steps)."""
    batch_size: Annotated[int, 128]
    """Samples per minibatch; must divide rollout_steps."""
    epochs: Annotated[int, 10]
    """Passes over each rollout."""
    lr: Annotated[float, 0.0003]
    """Adam's learning rate at the start."""
    lr_final: Annotated[float, 1.0]
    """Learning rate at the end as a fraction of the first, reached linearly."""
    lr_decay_start: Annotated[float, 0.0]
    """Share of the training after which the learning rate begins to fall."""
    gamma: Annotated[float, 0.99]
    """Discount."""
    gae_lambda: Annotated[float, 0.95]
    """Decay of the trace in generalised advantage estimation."""
    clip: Annotated[float, 0.2]
    """Clip range eps of the probability ratio (not given in the paper)."""
    target_kl: Annotated[float | None, 0.02]
    """An update stops early once the estimated KL from the old policy exceeds kl_factor times this; None: never."""
    kl_factor: Annotated[float, 1.5]
    """Factor on target_kl that gives the limit of an update."""
    lr_adaptive: Annotated[bool, False]
    """Divide the policy's learning rate by 1.5 after an update whose KL exceeded the limit, and multiply it by 1.5 (up
    to lr) after one that stayed below half of target_kl. A policy with little noise can only take small steps."""
    beta: Annotated[float, 0.0001]
    """Weight of the causal entropy, in units of the normalised reward, nats."""
    entropy: Annotated[Literal["return", "loss"], "return"]
    """Entropy as part of the return (causal entropy), or as a one-step bonus in the loss."""
    hidden: Annotated[tuple[int, ...], (64, 64)]
    """Hidden tanh layers of the policy and of each critic."""
    log_std_init: Annotated[float, 0.0]
    """Initial log standard deviation of a Gaussian policy, in units of half the action box if scale_actions."""
    scale_actions: Annotated[bool, True]
    """Whether the Gaussian acts in coordinates where the action box is [-1, 1], or in the box's own."""
    value_coef: Annotated[float, 0.5]
    """c_V: weight of the critics' squared errors."""
    max_grad_norm: Annotated[float, 0.5]
    """Each network's gradient is clipped to this norm, separately, so that one network does not slow the others."""
    adam_eps: Annotated[float, 1e-05]
    """Adam's epsilon."""
    standardise: Annotated[Literal["rollout", "minibatch", "none"], "rollout"]
    """The samples over which advantages are standardised."""
    normalize_obs: Annotated[bool, True]
    """Standardise observations with running statistics (one-hot observations are left alone)."""
    obs_clip: Annotated[float, 10.0]
    """Bound of normalised observations."""
    normalize_reward: Annotated[bool, True]
    """Divide rewards by the running standard deviation of their discounted sum."""
    reward_clip: Annotated[float, 10.0]
    """Bound of normalised rewards."""
    threads: Annotated[int, 1]
    """Cores for this training. With 2, two threads step the copies, and without an early stop (target_kl) policy and
    critics learn at the same time. Two trainings side by side with one thread each use two cores better."""


class PpoLagrangianPenalty(PPO, total=False):
    """Settings of PPO on  reward - price x cost  with a constant price of 1: what a learned cost needs."""

    penalty_unit: Annotated[Literal["rbar", "reward", "advantage"], "rbar"]
    """Unit of the multiplier: the largest mean |reward| per step so far (rbar), the environment's reward, or the spread
    of the reward's advantage; see (2)."""
    critics: Annotated[Literal["separate", "single"], "separate"]
    """A critic for the cost beside that of the reward, or one for the penalised reward (RCPO)."""
    cost_gamma: Annotated[float, 0.99]
    """Discount of the cost critic."""
    cost_gae_lambda: Annotated[float, 0.95]
    """Decay of the trace in the cost's advantage estimation."""


class SamplesSettings(TypedDict, total=False):
    """Settings of what the cost reads, and of how the learner begins."""

    start: Annotated[Literal["nominal", "clone"], "nominal"]
    """The policy that the loop begins with: one that has followed the reward alone, or a clone of the
    demonstrations."""
    clone_log_std: Annotated[float, -4.0]
    """Smallest log standard deviation of a cloned policy: it must still explore."""
    inputs: Annotated[tuple[str, ...], ()]
    """Names of the observation entries that the cost reads; none given: all."""
    use_action: Annotated[bool, False]
    """Whether the cost reads the action too."""
    at: Annotated[Literal["next", "current"], "next"]
    """Whether the cost of a step is that of the state it reaches or of the one in which the action is taken."""
    input_scale: Annotated[Literal["fit", "raw"], "fit"]
    """Inputs in units of the narrower of demonstrations and nominal data, or as the environment gives them."""
    squash: Annotated[bool, True]
    """arsinh of the scaled inputs, see tacit.cost; not of raw ones."""
    input_clip: Annotated[float, 20.0]
    """Bound of the scaled inputs."""


class TrainerSettings(TypedDict, total=False):
    """Settings of a run of any method."""

    demonstrations: Annotated[int, 0]
    """Learn from this many of the first demonstrations; 0: from all."""
    eval_episodes: Annotated[int, 100]
    """Episodes of the final evaluation, stochastic and deterministic each."""
    checkpoint_every: Annotated[int, 5]
    """Outer iterations between checkpoints. There is also one after the first, and after minutes without any."""


class Loop(TrainerSettings, SamplesSettings, PpoLagrangianPenalty, total=False):
    """Settings of the loop: those of PPO with a cost, of what the cost reads, and of how they take turns."""

    bootstrap_steps: Annotated[int, 20480]
    """Environment steps of the nominal policy, without cost, before the first inverse step; at least one rollout."""
    forward_steps: Annotated[int, 16384]
    """Environment steps of PPO between two inverse steps."""
    inverse_first: Annotated[bool, True]
    """Whether the first inverse step follows the bootstrap, or the first forward phase (the paper's Algorithm 1)."""


class MCE(Loop, total=False):
    """Settings of MCE-ICRL: those of PPO and of the loop, and those of the inverse step."""

    budget: Annotated[float, 0.0]
    """How far each feature expectation may exceed the demonstrations'; more is looser."""
    thresholds: Annotated[int, 8]
    """Soft thresholds for each input."""
    joint: Annotated[int, 64]
    """Sigmoid outputs of the network on all inputs (the paper's k)."""
    feature_hidden: Annotated[tuple[int, ...], (64, 64)]
    """Hidden ReLU layers of that network."""
    feature_bias: Annotated[float, -3.0]
    """Its initial output bias; negative: features begin near 0."""
    lam_init: Annotated[float, 0.01]
    """Initial multiplier of every feature."""
    lr_lam: Annotated[float, 0.01]
    """Learning rate of lam."""
    lr_zeta: Annotated[float, 0.001]
    """Adam's learning rate of the features; 0: they stay as they are."""
    zeta_decay: Annotated[float, 1.0]
    """Factor on lr_zeta after each inverse step."""
    lam_update: Annotated[Literal["minibatch", "once"], "minibatch"]
    """lam with Adam on every minibatch beside zeta, or by one projected gradient step on all data after it."""
    minibatches: Annotated[int, 300]
    """Minibatches per inverse step; 0: as many as make a pass over the demonstrated steps (drawn with replacement, so
    about 37 % of them are missed)."""
    dual_batch: Annotated[int, 512]
    """Samples of the learner, and of the demonstrations, per minibatch."""
    expert_square: Annotated[float, 20.0]
    """Weight of the squared cost of demonstrations in (2)."""
    learner_square: Annotated[float, 0.1]
    """Weight of the squared cost of the learner in (2); the ceiling is 1 / (2 learner_square)."""
    moments: Annotated[Literal["absorbing", "normalised", "sum"], "absorbing"]
    """Expectations per step over episodes continued to the horizon, per step over what was seen, or the paper's
    discounted sums over trajectories."""
    absorbing_quantile: Annotated[float, 0.9]
    """The absorbing state costs at most what this share of the learner's living steps stays below; 1: the worst."""
    replay_share: Annotated[float, 0.5]
    """Share of the learner's samples that comes from earlier forward phases."""
    replay_phases: Annotated[int, 40]
    """How many earlier phases are kept."""
    replay_by_cost: Annotated[bool, False]
    """Draw those samples in proportion to their present cost (and a little), instead of evenly; without importance
    weights, so that rho_pi in (3) is that of what is drawn."""
    pretrain_epochs: Annotated[int, 0]
    """Epochs of auto-encoder pre-training of the features."""
    pretrain_lr: Annotated[float, 0.001]
    """Adam's learning rate of the pre-training."""
    guard: Annotated[float, 0.95]
    """Mean cost, as a share of the ceiling, above which the policy counts as trapped; 0: no guard."""
    guard_iterations: Annotated[int, 3]
    """The guard acts after this many trapped iterations in a row, in the first 70 % of the steps."""


class PpoLagrangianFixed(PpoLagrangianPenalty, total=False):
    """Settings of PPO with a penalty of any size, which follows nothing."""

    multiplier_init: Annotated[float, 1.0]
    """Multiplier at the start (the penalty if fixed), in units of penalty_unit."""
    multiplier_ramp: Annotated[int, 0]
    """Steps over which a fixed penalty grows from 0, with the cube of time; 0: it is there from the start. An agent
    that must learn to balance first learns to fall instead if it is punished too early."""
    terminal_cost: Annotated[float, 0.0]
    """Cost added when an episode terminates, in place of what living on would cost. Without it an agent may learn to
    fall, because that ends the costs. About 1 / (1 - cost_gamma) times the worst cost of a step prevents that."""


class PpoLagrangian(PpoLagrangianFixed, total=False):
    """Settings of PPO and of the constraint."""

    budget: Annotated[float, 0.0]
    """Largest mean cost that is allowed."""
    budget_per: Annotated[Literal["step", "episode"], "step"]
    """Whether the budget is for the mean cost of a step or of an episode."""
    multiplier: Annotated[Literal["fixed", "ascent", "softplus", "pid"], "ascent"]
    """How the multiplier follows the cost; "fixed" is a constant penalty."""
    multiplier_lr: Annotated[float, 0.05]
    """Step size of "ascent" (multiplier per unit of excess cost) or Adam's learning rate of "softplus"."""
    multiplier_max: Annotated[float, 100.0]
    """Upper bound of the multiplier."""
    pid_gains: Annotated[tuple[float, float, float], (10.0, 0.1, 0.0)]
    """Proportional, integral and derivative gain of "pid"."""
    pid_smoothing: Annotated[float, 0.5]
    """Weight of the past in the average that the proportional and derivative parts of "pid" see."""


class ConstraintNetSettings(SamplesSettings, total=False):
    """Settings of the network, and of what it reads."""

    layers: Annotated[tuple[int, ...], (20,)]
    """Hidden ReLU layers of the network."""
    lr_constraint: Annotated[float, 0.005]
    """Adam's learning rate of the network."""


class ConstraintNet(ConstraintNetSettings, Loop, PpoLagrangian, total=False):
    """Settings of a classifier: those of PPO-Lagrangian, of the network, and of how they take turns."""

    multiplier: Annotated[Literal["fixed", "ascent", "softplus", "pid"], "softplus"]
    """How the multiplier follows the cost; "fixed" is a constant penalty."""
    penalty_unit: Annotated[Literal["rbar", "reward", "advantage"], "advantage"]
    """Unit of the multiplier, see tacit.forward.ppo_lagrangian."""
    backward_steps: Annotated[int, 10]
    """Passes over the data per inverse step."""
    constraint_batch: Annotated[int, 0]
    """Samples of each side per minibatch; 0: all."""
    anneal: Annotated[float, 0.9]
    """Factor on lr_constraint after each inverse step."""


class BC2L(ConstraintNet, total=False):
    """Settings of BC2L."""


class IrlCorrection(ConstraintNetSettings, Loop, PpoLagrangianFixed, total=False):
    """Settings of the reward correction."""

    forward_steps: Annotated[int, 4096]
    """Environment steps of PPO between two inverse steps."""
    backward_steps: Annotated[int, 1]
    """Steps on (2) per inverse step, each on a batch of constraint_batch."""
    constraint_batch: Annotated[int, 5000]
    """Samples of each side per step; 0: all."""
    anneal: Annotated[float, 1.0]
    """Factor on lr_constraint after each inverse step."""
    expert_square: Annotated[float, 0.1]
    """Weight of the squared cost of demonstrations in (2)."""
    reset_actor: Annotated[int, 0]
    """Reinitialise the policy's last layer every so many inverse steps, in the first half of the run; 0: never."""
    reset_critic: Annotated[int, 0]
    """The same for the cost critic, during the whole run."""


class BC(TypedDict, total=False):
    """Settings of behaviour cloning."""

    steps: Annotated[int, 6000]
    """Adam's steps on (1)."""
    batch_size: Annotated[int, 256]
    """Samples of a minibatch."""
    lr: Annotated[float, 0.001]
    """Adam's learning rate at the start; it falls linearly."""
    hidden: Annotated[tuple[int, ...], (64, 64)]
    """Hidden tanh layers of the policy."""
    min_log_std: Annotated[float, -5.0]
    """Smallest log standard deviation of a Gaussian policy, in units of half the action box."""
    scale_actions: Annotated[bool, True]
    """The Gaussian lives in coordinates where the action box is [-1, 1], else in the box's own."""
    obs_clip: Annotated[float, 10.0]
    """Bound of normalised observations."""
    held_out: Annotated[int, 0]
    """Number of the last demonstrations that are held out and only measured."""
    demonstrations: Annotated[int, 0]
    """Learn from this many of the first demonstrations; 0: from all."""
    eval_episodes: Annotated[int, 100]
    """Episodes of the final evaluation, stochastic and deterministic each."""


class ReferencesSettings(TypedDict, total=False):
    """Settings of the run of any reference."""

    eval_episodes: Annotated[int, 100]
    """Episodes of the final evaluation, stochastic and deterministic each."""
    checkpoint_every: Annotated[int, 20]
    """Rollouts between checkpoints. There is also one after the first rollout, and after minutes without any."""


class PpoReference(ReferencesSettings, PPO, total=False):
    """Settings of PPO without cost."""


class RCPO(ReferencesSettings, PpoLagrangian, total=False):
    """Settings of RCPO."""

    critics: Annotated[Literal["separate", "single"], "single"]
    """One critic for the penalised reward (RCPO), or one for the cost beside that of the reward (PPO-Lagrangian)."""


class Gacl(TrainerSettings, ConstraintNetSettings, PPO, total=False):
    """Settings of GACL: those of PPO and of the discriminator."""

    checkpoint_every: Annotated[int, 20]
    """Rollouts between checkpoints."""
    lr_constraint: Annotated[float, 0.003]
    """Adam's learning rate of the discriminator."""
    layers: Annotated[tuple[int, ...], (30,)]
    """Hidden ReLU layers of the discriminator."""
    discriminator_steps: Annotated[int, 1]
    """Steps of the discriminator after a rollout."""
    bootstrap_steps: Annotated[int, 0]
    """Environment steps of PPO on the reward alone before the first step of the discriminator; at least one rollout."""
    absorbing: Annotated[bool, False]
    """Where no demonstration ends early, charge for ending an episode: as much as staying for ever where log D is
    lowest (the lowest tenth of a rollout). Otherwise an agent prefers to end, because log D is negative."""


class MeIcrl(ConstraintNet, total=False):
    """Settings of ME-ICRL."""

    delta: Annotated[float, 0.5]
    """Weight of the mean cost, which keeps the constraint small."""
    weights: Annotated[Literal["step", "trajectory", "none"], "step"]
    """Importance weights of the learner's steps, see (2)."""
    forward_kl: Annotated[float, 10.0]
    """An inverse step stops once KL(old || new) of (3) exceeds this."""
    reverse_kl: Annotated[float, 2.5]
    """An inverse step stops once KL(new || old) of (3) exceeds this."""
    published_code: Annotated[bool, False]
    """Do what the published program did: its importance weights have no effect on the gradient."""


class Vicrl(ConstraintNet, total=False):
    """Settings of variational ICRL."""

    delta: Annotated[float, 0.5]
    """Weight of the divergence from the prior."""
    prior: Annotated[tuple[float, float], (0.9, 0.1)]
    """Parameters of the Beta prior of a step's feasibility."""
    cost: Annotated[Literal["sample", "mean"], "sample"]
    """What the forward step is charged: 1 - a sample of the feasibility, or 1 - its mean."""
    replay_share: Annotated[float, 0.0]
    """Share of the learner's samples in an inverse step that comes from earlier forward phases."""


class Retrain(ReferencesSettings, PpoLagrangian, total=False):
    """Settings of an agent with a frozen cost: those of PPO-Lagrangian, and which cost."""

    cost: Annotated[str, ""]
    """Where it comes from: a finished run folder, of which only the name is kept."""
    sha256: Annotated[str, ""]
    """SHA-256 of that cost; computed if not given."""
    which: Annotated[Literal["cost", "map"], "cost"]
    """The cost that drove the policy, or the additive map of it (where the run has one)."""
    shared: Annotated[bool, False]
    """Use the part of an additive cost that reads what the environment has, if it lacks some of the inputs."""
    charge: Annotated[Literal["excess", "budget", "raw"], "excess"]
    """What the agent is charged: the excess over the threshold, the cost with a budget of what a demonstrated step
    costs on average, or the cost itself with the settings' own budget."""
    free: Annotated[bool, False]
    """Go on with a cost that forbids nothing that its learner tried, and charge nothing, instead of refusing it."""


class Expert(PpoLagrangian, total=False):
    """Settings of an expert."""

    margin: Annotated[float, 0.0]
    """How much more distance than the constraint asks for, in the unit of its feature; for environments with a rule."""
    fall_cost: Annotated[float, 0.0]
    """Cost of ending an episode early, in violating steps, on top of terminal_cost. 1/(1 - cost_gamma) makes it as bad
    as violating for ever, so that falling is no way out of the constraint."""
    demonstrations: Annotated[int, 50]
    """How many to write; 0 for none."""
    eval_episodes: Annotated[int, 100]
    """Episodes of the final evaluation, stochastic and deterministic each."""
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
    "gacl": Gacl,
    "me-icrl": MeIcrl,
    "vicrl": Vicrl,
    "retrain": Retrain,
    "expert": Expert,
}
"""By the name of the algorithm."""
