"""The catalogue: every experiment by name, as data. To add an experiment, add an entry here.

`reference` and the published settings (`paper`) are experiments of their own, so that they stand in separate tables. In
`reference` all methods have the same steps, engine and demonstrations. Rows in common are the same runs: `robots-beta`
and `robots-pretraining` are all of `table-ablation`, drawn as curves; `grid-curves` and `grid-maps` are all among
`grid-stochasticity`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.reproduce import (
    alpha_zero,
    controls,
    decided,
    exact_causality,
    exact_stochasticity,
    frozen,
    gridworld,
    highway,
    pictures,
    published,
    stages,
    tuning,
)
from tacit.reproduce.experiment import (
    CONTROLS,
    METHODS,
    PAPER_BETAS,
    PRETRAINED,
    REFERENCES,
    SHORT,
    Axis,
    Experiment,
    Group,
    Measured,
    Row,
    betas,
    more_seeds,
    robot,
    robots,
    rows_of,
    slips,
    with_and_without_pretraining,
    with_budget,
)
from tacit.reproduce.records import number

# ---------------------------------------------------------------------------------------------------------------------
# Gridworld: 5 seeds, stochasticity 0 to 0.5

DEEP = rows_of(METHODS)
EXACT = rows_of(("mce-exact", "ml-greedy", "ml-greedy-causal"))
"""mce-exact maximises the causally conditioned likelihood; it and the greedy predecessors know the model."""
GRID = Experiment(
    "",
    slips(),
    {},
    seeds=(0, 1, 2, 3, 4),
    quick_groups=("slip 0", "slip 0.3"),
    collect="grid",
    table="grid",
    figure="values",
    wide=2.1,
    axis=Axis(
        "slip probability (stochasticity)",
        {
            "return": gridworld.NUMBERS["return"],
            "violating steps, %": gridworld.VIOLATING,
            "AUROC of the cost": number("exact", "auroc"),
        },
        gridworld.EXPERT,
    ),
)


def grid(summary: str, rows: dict[str, Row], **changes: Any) -> Experiment:
    return replace(GRID, summary=f"gridworld: {summary}", rows=rows, **changes)


# ---------------------------------------------------------------------------------------------------------------------
# Robots

PAPER_STEPS = {"Ant": 4_200_000, "HalfCheetah": 6_200_000, "Swimmer": 5_200_000, "Walker": 10_200_000}
PAPER_STEPS |= {"Pendulum": 20_100_000}
"""Environment steps of the paper's MCE-ICRL runs, bootstrap included. All methods get the same number."""
USUAL = "beta 0.0001"
PLAIN = "no pre-training"
BETA_ROWS = betas(PAPER_BETAS, "paper")
PRETRAINING = {PRETRAINED: Row("mce", "paper"), PLAIN: Row("mce", "paper", {"pretrain_epochs": 0})}
ABLATION = {**BETA_ROWS, PLAIN: PRETRAINING[PLAIN]}
READINGS = {
    name: Row("mce", "paper", {"clip": clip, "input_scale": scale, "input_clip": bound, "inverse_first": True})
    for name, (clip, scale, bound) in {
        "clip 0.2, scaled inputs": (0.2, "fit", 10.0),
        "clip 0.4, scaled inputs": (0.4, "fit", 10.0),
        "clip 0.2, raw inputs": (0.2, "raw", 20.0),
        "clip 0.4, raw inputs": (0.4, "raw", 20.0),
    }.items()
}
"""The readings differ in PPO's clip and in the inputs of the cost. Earlier code uses a clip of 0.4 for the Ant, whose
other settings the paper uses for three robots. The same code reads raw inputs, clipped at 20."""
ROBOT_TABLE = Experiment(
    "",
    robots(),
    {"": Row("mce")},
    table="seeds",
    figure="seeds",
    beside=published.BESIDE_ROBOTS,
    levels={"the paper's result": {name: reward for name, (reward, _) in published.PAPER.items()}},
)
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "starts from the nominal policy, not a clone": {"start": "nominal"},
    "one network on all inputs instead of thresholds": {"thresholds": 0, "joint": 64},
    "no squares: the paper's dual": {"expert_square": 0.0, "learner_square": 0.0},
    "weak square on demonstrations (0.5)": {"expert_square": 0.5},
    "no absorbing state": {"moments": "normalised"},
    "absorbing state costs as much as the worst living one": {"absorbing_quantile": 1.0},
    "no arsinh": {"squash": False},
    "long bootstrap (200k)": {"bootstrap_steps": 200_704},
    "slow dual (30 minibatches)": {"minibatches": 30},
    "replay drawn evenly": {"replay_by_cost": False},
    "no replay": {"replay_share": 0.0},
    "one critic": {"critics": "single"},
    "learning rate not adapted to the KL": {"lr_adaptive": False},
    "cost of the state acted in, not reached": {"at": "current"},
    "auto-encoder pre-training (20 epochs)": {"pretrain_epochs": 20},
    "entropy weight 1e-5 instead of 1e-4": {"beta": 1e-5},
    "entropy weight 1e-3": {"beta": 1e-3},
    "entropy weight 1e-2": {"beta": 1e-2},
}
"""Each entry changes one decision back to what the paper or a simpler recipe does. The runs are short, so a decision
must help early to show."""


def five_robots(summary: str, rows: dict[str, Row], **changes: Any) -> Experiment:
    return Experiment(f"five robots: {summary}", robots(), rows, **changes)


DEMO_ROBOTS = ("Pendulum", "Swimmer")
DEMO_ROWS = rows_of(("mce", "me-icrl", "bc"))
COUNTS = (1, 5, 10, 20, 50)


def _counts() -> dict[str, Group]:
    """A group per robot and number of demonstrations. All 50 need no setting, so other experiments share these runs."""
    settings = {count: {} if count == max(COUNTS) else {"demonstrations": count} for count in COUNTS}
    return {
        f"{name}, {count}": replace(robot(name, **settings[count]), value=float(count))
        for name in DEMO_ROBOTS
        for count in COUNTS
    }


def _demo_axis(label: str, ticks: tuple[float, ...], log: bool) -> Axis:
    """The axis of a figure with two panels per robot."""
    metrics = {
        "return before violation": ("terminated_return", 1.0),
        "violating steps, %": ("violation_rate_step", 100.0),
    }
    panels = {
        f"{name}: {title}": _of(name, metric, scale)
        for title, (metric, scale) in metrics.items()
        for name in DEMO_ROBOTS
    }
    return Axis(label, panels, log=log, ticks={value: f"{value:g}" for value in ticks})


def _of(name: str, metric: str, scale: float) -> Any:
    value = number("stochastic", metric, scale=scale)
    return lambda run: value(run) if run["label"].startswith(f"{name},") else None


# ---------------------------------------------------------------------------------------------------------------------

EXPERIMENTS: dict[str, Experiment | Measured] = {
    "exact-stochasticity": exact_stochasticity.EXPERIMENT,
    "exact-causality": exact_causality.EXPERIMENT,
    "controls": controls.EXPERIMENT,
    "alpha-zero": alpha_zero.EXPERIMENT,
    "table-experts": Experiment(
        "experts that know the constraint, on the five robots: what demonstrations can be made of",
        robots(published.EARLIER_EXPERTS),
        {"": Row("expert")},
        quick={"total_steps": 16_384, "eval_episodes": 4, "demonstrations": 0},
        collect="expert",
        table="experts",
        figure="experts",
        beside=(published.BESIDE_EXPERTS,),
        levels={"earlier demonstrations": published.EARLIER_EXPERTS},
    ),
    "table-robots": replace(
        ROBOT_TABLE, summary="MCE-ICRL, preset thresholds, on the five robots", seeds=(0, 1, 2, 3, 4)
    ),
    "table-robots-paper": replace(
        ROBOT_TABLE,
        summary="MCE-ICRL with the paper's settings and budgets on the five robots",
        rows={"": Row("mce", "paper")},
        seeds=(0, 1, 2, 3, 4),
    ),
    "paper-readings": Experiment(
        "readings of what the paper leaves open, at its full budgets: the nearest to its table is preset paper",
        robots(("Swimmer", "HalfCheetah")),
        READINGS,
        seeds=(100, 101, 102),
        table="seeds",
        wide=4.0,
    ),
    "decisions": Experiment(
        "the decisions of the preset thresholds, one changed at a time, on three robots",
        robots(("Pendulum", "HalfCheetah", "Swimmer")),
        {name: Row("mce", settings=change) for name, change in CHANGES.items()},
        budget=SHORT,
        table="seeds",
        figure="changes",
    ),
    "demos-few": Experiment(
        "MCE-ICRL with 1 and 5 demonstrations on HalfCheetah and Pendulum",
        {f"{name}, {n}": robot(name, demonstrations=n) for name in ("HalfCheetah", "Pendulum") for n in (1, 5)},
        {"": Row("mce")},
        table="seeds",
        figure="seeds",
    ),
    "grid-stochasticity": grid("the four methods and exact ones, stochasticity 0 to 0.5", {**DEEP, **EXACT}),
    "grid-ppo": grid(
        "MCE-ICRL with PPO beside the exact solver, and how far it is from it", rows_of(("mce", "mce-exact"))
    ),
    "grid-stochasticity-paper": grid("the four methods with their published settings", rows_of(METHODS, "paper")),
    "grid-contenders": grid(
        "later contenders and references beside MCE-ICRL",
        rows_of(("mce", "bc2l", "irl-correction", "bc", "ppo", "rcpo")),
    ),
    "grid-tuning": grid(
        "the record of tuning, four trials per method at two stochasticities",
        tuning.GRID.rows,
        groups=slips(tuning.SLIPS),
        seeds=(100, 101),
        quick_groups=("slip 0.3",),
        quick_rows=tuning.GRID.quick_rows,
        collect=tuning.collect_grid,
        table=tuning.GRID.table,
        figure=tuning.GRID.figure,
    ),
    "grid-curves": grid("the four methods during training", DEEP, figure="curves"),
    "grid-maps": grid(
        "demonstrations, recovered cost and visits on the map",
        {**DEEP, **rows_of(("mce-exact",))},
        groups=slips((0.0, 0.3)),
        seeds=(0,),
        collect=gridworld.collect_maps,
        figure=gridworld.maps,
    ),
    "grid-beta": grid(
        "MCE-ICRL with four entropy weights", betas((0.01, 0.03, 0.1, 0.3)), figure="curves", ours="beta 0.1"
    ),
    "grid-beta-paper": grid(
        "the paper's settings with its four entropy weights", BETA_ROWS, figure="curves", ours="beta 1e-05"
    ),
    "grid-pretraining": grid(
        "with and without pre-training of the features",
        with_and_without_pretraining(),
        figure="curves",
        ours=PRETRAINED,
    ),
    "grid-causality": grid(
        "MCE-ICRL with the entropy inside the return (causal) or as a bonus of one step, nothing else changed",
        {
            f"{name}, beta {beta:g}": Row("mce", settings={"beta": beta, "entropy": entropy})
            for beta in (0.1, 0.3)
            for name, entropy in {"causal": "return", "one step": "loss"}.items()
        },
        groups=slips((0.0, 0.1, 0.3, 0.5)),
        seeds=(0, 1, 2),
        ours="causal, beta 0.1",
    ),
    "grid-pretraining-paper": grid(
        "the same with the paper's settings", with_and_without_pretraining("paper"), figure="curves", ours=PRETRAINED
    ),
    "robots": five_robots(
        "the four methods and two references during training",
        # The further seeds of mce are also those of `table-robots`.
        {**more_seeds(rows_of((*METHODS, *REFERENCES)), "mce", (3, 4)), **CONTROLS},
        beside=(published.EARLIER,),
    ),
    "robots-paper": five_robots(
        "the four methods with their published settings and the paper's steps",
        rows_of(METHODS, "paper"),
        steps=PAPER_STEPS,
        beside=(published.EARLIER,),
    ),
    "robots-contenders": five_robots(
        "later contenders and behaviour cloning beside MCE-ICRL",
        rows_of(("mce", "bc2l", "irl-correction", "bc")),
        beside=(published.EARLIER,),
    ),
    "robots-beta": five_robots(
        "the paper's settings with its four entropy weights, during training", BETA_ROWS, ours=USUAL
    ),
    "robots-pretraining": five_robots(
        "the paper's settings with and without pre-training, during training", PRETRAINING, ours=PRETRAINED
    ),
    "table-ablation": Experiment(
        "the paper's table of ablations on five robots, beside its own numbers",
        robots(),
        ABLATION,
        ours=USUAL,
        beside=(published.ablation(ABLATION),),
    ),
    "shapes": decided.EXPERIMENT,
    "robots-screens": Experiment(
        "the five robots in pictures",
        robots(),
        {pictures.ROW: Row("mce")},
        seeds=(0,),
        quick_groups=("Pendulum", "Swimmer"),
        collect=pictures.collect,
        table=pictures.table,
        figure=pictures.figure,
    ),
    "robots-noise": stages.Noise(
        "HalfCheetah with process noise: the four methods",
        stages.noise_groups(),
        {"expert": Row("expert", quick={"demonstrations": 5}), **with_budget({**DEEP, **CONTROLS}, SHORT)},
        quick_groups=("noise 0.01",),
        figure="values",
        axis=Axis(
            "standard deviation of the process noise",
            log=True,
            ticks={stages.LOWEST: "none", **{noise: f"{noise:g}" for noise in (1e-3, 1e-2, 1e-1)}},
        ),
    ),
    "transfer": stages.Transfer(
        "the Ant's cost taken to Point and to BrokenAnt, four methods",
        robots((*stages.TARGETS, stages.SOURCE)),
        rows_of((*METHODS, *REFERENCES)),
        budget=SHORT,
        table=stages.transfer_table,
        figure=stages.transfer_figure,
        beside=(published.EARLIER_TARGETS,),
    ),
    "retraining": stages.Retraining(
        "five robots: a fresh agent with the frozen cost of MCE-ICRL and of ME-ICRL",
        robots(),
        rows_of(("mce", "mce, budget", "me-icrl", "me-icrl, budget", *REFERENCES)),
        quick_groups=("Pendulum",),
    ),
    "fresh": frozen.FRESH,
    "shift": frozen.SHIFT,
    "demos-count": Experiment(
        "1 to 50 demonstrations on Pendulum and Swimmer",
        _counts(),
        DEMO_ROWS,
        quick_groups=tuple(f"{name}, {count}" for name in DEMO_ROBOTS for count in (5, 50)),
        figure="values",
        axis=_demo_axis("demonstrations", COUNTS, log=True),
    ),
    "demos-violating": stages.ViolatingDemonstrations(
        "20, 50 and 80 % of demonstrations that violate, on Pendulum and Swimmer",
        stages.share_groups(DEMO_ROBOTS),
        {
            "mce": Row("mce"),
            "mce, equal squares": Row("mce", settings={"expert_square": 0.1}),
            **rows_of(("me-icrl", "bc")),
        },
        quick_groups=tuple(f"{name}, {share} %" for name in DEMO_ROBOTS for share in (0, 50)),
        table=stages.share_table,
        figure="values",
        axis=_demo_axis("violating demonstrations, %", (0.0, 20.0, 50.0, 80.0), log=False),
        note=stages.CLEAN_NOTE,
    ),
    "tuning": Experiment(
        "the record of tuning: four trials per method on HalfCheetah and Swimmer",
        robots(tuning.ROBOTS.groups),
        tuning.ROBOTS.rows,
        seeds=(100,),
        quick_rows=tuning.ROBOTS.quick_rows,
        collect=tuning.collect,
        table=tuning.ROBOTS.table,
        figure=tuning.ROBOTS.figure,
    ),
    **highway.EXPERIMENTS,
    "grid-curves-paper": grid(
        "the four methods with their published settings, during training", rows_of(METHODS, "paper"), figure="curves"
    ),
    "grid-picture": pictures.GRID,
    "traffic-picture": pictures.TRAFFIC,
    "paper-settings": pictures.SETTINGS_TABLE,
}
"""The experiments, in the order of `tacit reproduce --list`."""
