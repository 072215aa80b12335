"""The figures and tables of the paper by number, with what theirs says and which experiment makes ours.

Numbers are those of the compiled text. They run through to the appendix: 15 figures, 2 tables. `tools/paper_page.py`
writes results/paper.md from this table and the results.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Numbered:
    """A figure or table of the paper."""

    shows: str
    """Its subject."""
    theirs: str
    """What the paper reads from it."""
    experiment: str
    """The experiment that makes ours."""
    instead: tuple[str, ...] = ()
    """Experiments that answer the same question with other settings."""
    open: str = ""
    """Why ours does not match yet; empty if nothing is left."""


SHORT_RUNS = "Our runs have a fifth of the paper's iterations, and an earlier reading of its settings."
NOT_RUN = "It has not been run with the paper's settings and budgets."
TRAFFIC_DIFFERS = "The paper drives in recorded traffic (highD), which may not be passed on. Ours is simulated."
PAPER: dict[str, Numbered] = {
    "figure-1": Numbered(
        "gridworld: reward and violations of four methods, stochasticity 0 to 0.5",
        "MCE-ICRL loses a little reward and violates a little more as the world slips. ME-ICRL and VICRL fail with "
        "much randomness. GACL has the highest reward and the highest cost.",
        "grid-stochasticity-paper",
        ("grid-stochasticity", "exact-stochasticity", "exact-causality", "grid-causality"),
        NOT_RUN,
    ),
    "figure-2": Numbered(
        "five robots: four methods during training",
        "On HalfCheetah, Walker and Pendulum MCE-ICRL earns more and violates less than the others. On Ant it is "
        "comparable. On Swimmer it violates least, and only GACL earns more.",
        "robots-paper",
        ("robots",),
        SHORT_RUNS,
    ),
    "figure-3": Numbered(
        "highway: four methods during training",
        "MCE-ICRL outperforms the other methods by a large margin. Nobody reaches zero violations, because some "
        "episodes begin in violation.",
        "traffic",
        (),
        TRAFFIC_DIFFERS,
    ),
    "figure-4": Numbered(
        "the Ant's cost taken to Point and to a broken Ant",
        "With the cost of MCE-ICRL both agents do slightly better than with that of ME-ICRL, and much better than with "
        "those of VICRL and GACL.",
        "transfer",
        (),
        "Our runs have 0.3 million steps and our own settings.",
    ),
    "table-1": Numbered(
        "entropy weights and pre-training on five robots",
        "A weight of 1e-4 earns most on four of five robots and violates least on all. Pre-training raises the reward.",
        "table-ablation",
        ("table-robots-paper", "decisions"),
        SHORT_RUNS,
    ),
    "table-2": Numbered("hyper-parameters", "The settings of every environment.", "paper-settings"),
    "figure-5": Numbered("the gridworld", "Start, goal and constrained cells.", "grid-picture"),
    "figure-6": Numbered("the five robots", "A picture of each robot.", "robots-screens"),
    "figure-7": Numbered(
        "the highway", "The ego car among others, and its destination.", "traffic-picture", (), TRAFFIC_DIFFERS
    ),
    "figure-8": Numbered(
        "gridworld: demonstrated visits, recovered cost, visits of the policy",
        "The cost is high around the constrained cells, and the policy goes round them.",
        "grid-maps",
    ),
    "figure-9": Numbered(
        "gridworld: four methods during training, stochasticity 0 to 0.5",
        "The curves behind figure 1.",
        "grid-curves-paper",
        ("grid-curves",),
        NOT_RUN,
    ),
    "figure-10": Numbered(
        "gridworld: four entropy weights during training",
        "The paper draws no conclusion from it in words.",
        "grid-beta-paper",
        ("grid-beta",),
        NOT_RUN,
    ),
    "figure-11": Numbered(
        "gridworld: with and without pre-training",
        "The paper draws no conclusion from it in words.",
        "grid-pretraining-paper",
        ("grid-pretraining",),
        NOT_RUN,
    ),
    "figure-12": Numbered(
        "robots: four entropy weights during training", "The curves behind table 1.", "robots-beta", (), SHORT_RUNS
    ),
    "figure-13": Numbered(
        "robots: with and without pre-training", "The curves behind table 1.", "robots-pretraining", (), SHORT_RUNS
    ),
    "figure-14": Numbered(
        "highway: four entropy weights during training",
        "The paper draws no conclusion from it in words.",
        "traffic-beta",
        (),
        TRAFFIC_DIFFERS,
    ),
    "figure-15": Numbered(
        "highway: with and without pre-training",
        "The paper draws no conclusion from it in words.",
        "traffic-pretraining",
        (),
        TRAFFIC_DIFFERS,
    ),
}
"""In the order of the paper."""
NUMBERED = {number: entry.experiment for number, entry in PAPER.items()}
"""Experiment by the number that the paper has for it."""
