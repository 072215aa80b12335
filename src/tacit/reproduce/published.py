"""Published results on the same tasks, for columns beside our numbers.

None of it is a target. Their demonstrators, simulators and numbers of steps differ from ours (the paper's 4 to 20
million, earlier work 1.5 to 8). Sources are named in each cell:

    the paper    MCE-ICRL, mean (± standard error) of 10 seeds, violating steps
    Malik        the first paper on ME-ICRL (2021), 10 seeds, read off its figures (to 3 %), violating steps; "BC" there
                 is a binary classifier. Its transferred GACL and BC2L were run with faults, and are left out
    Liu          training logs of HalfCheetah that came with the benchmark (2023), 5 seeds, the last twentieth of the
                 episodes: reward until the first violation, violating episodes; ± is the standard deviation
    Hugessen     their runs (2024) of that benchmark's code, and of their own method (SAC, 5 million steps), 5 seeds:
                 feasible reward, violating episodes; ~ is read off figures
"""

from __future__ import annotations

from collections.abc import Iterable

from tacit.reproduce.experiment import Beside

PAPER = {"Ant": (7338, 0.0), "HalfCheetah": (4085, 0.0), "Swimmer": (257, 0.002), "Walker": (1858, 0.0)}
PAPER |= {"Pendulum": (26, 0.11)}
"""Reward (episode stopped at its first violation) and violation rate of the paper's table, beta = 1e-4."""
EARLIER_EXPERTS = {"Ant": 8034.0, "HalfCheetah": 4387.0, "Swimmer": 801.0, "Walker": 1702.0, "Pendulum": 56.8}
"""Returns of the demonstrations of earlier work (Liu et al. 2022); HalfCheetah's is twice the mean of a file whose
episodes are half as long."""
EXPERTS = {"Ant": 13454.0, "HalfCheetah": 5384.0, "Swimmer": 836.0, "Walker": 2330.0, "Pendulum": 89.9}
"""Return before violation of the experts that made our demonstrations (results/table-experts.json)."""
GOALS = {
    "Ant": "7338, 1 % / 1.0 of our expert, 0",
    "HalfCheetah": "4085, 1 % / 1.2 of the demonstrations, 0",
    "Swimmer": "600, 0.2 % of steps / 0.95 of our expert, 2 %",
    "Walker": "1700, 2 % / 1858 and 0.95 of our expert, 1 %",
    "Pendulum": "80, 5 % / 88, 2 %",
}
"""Goals (to reach / to aim for): the least return before violation and the most violating episodes."""
BESIDE_ROBOTS = (
    Beside("stochastic policy over our expert", over=EXPERTS),
    Beside(
        "the paper: reward / violation rate", {name: f"{reward:g} / {rate:g}" for name, (reward, rate) in PAPER.items()}
    ),
    Beside("to reach / aim", GOALS),
)
BESIDE_EXPERTS = Beside("earlier demonstrations", {name: f"{value:g}" for name, value in EARLIER_EXPERTS.items()})

OF_THE_PAPER = {
    "Ant": (("5985 ± 259", "0"), ("7338 ± 211", "0"), ("6057 ± 313", "0"), ("6228 ± 316", "0"), ("7131 ± 313", "0")),
    "HalfCheetah": (
        ("3895 ± 295", "0"),
        ("4085 ± 565", "0"),
        ("3499 ± 492", "0.002 ± 0.002"),
        ("2377 ± 631", "0.024 ± 0.012"),
        ("3609 ± 490", "0"),
    ),
    "Swimmer": (
        ("177 ± 52", "0.33 ± 0.09"),
        ("257 ± 44", "0.002 ± 0.001"),
        ("253 ± 54", "0.12 ± 0.04"),
        ("192 ± 43", "0.11 ± 0.05"),
        ("165 ± 59", "0.22 ± 0.09"),
    ),
    "Walker": (("1647 ± 100", "0"), ("1858 ± 44", "0"), ("1746 ± 81", "0"), ("1732 ± 77", "0"), ("1656 ± 71", "0")),
    "Pendulum": (
        ("27 ± 3", "0.22 ± 0.05"),
        ("26 ± 3", "0.11 ± 0.03"),
        ("32 ± 3", "0.12 ± 0.03"),
        ("29 ± 4", "0.17 ± 0.02"),
        ("21 ± 1", "0.23 ± 0.04"),
    ),
}
"""The paper's ablations: (reward, violation rate) with entropy weights 1e-5 to 1e-2, and without pre-training."""


def ablation(rows: Iterable[str]) -> Beside:
    """The paper's table of ablations as a column, for rows in the same order."""
    names = list(rows)
    cells = {
        f"{robot}: {row}": f"{reward} / {rate}"
        for robot, numbers in OF_THE_PAPER.items()
        for row, (reward, rate) in zip(names, numbers, strict=True)
    }
    return Beside("the paper: reward / violation rate", cells)


NOTE = (
    "*Published* are: the paper, mean of 10 seeds, violating steps; Malik et al. 2021, read off figures, violating "
    "steps; Liu et al. 2023, logs of the last twentieth of training, ± standard deviation, violating episodes; "
    "Hugessen et al. 2024, their runs of Liu's code and of their own method, violating episodes, ~ read off figures. "
    "They had different demonstrators, simulators and numbers of steps (1.5 to 20 million), so compare with care."
)
PUBLISHED = {f"{robot}: mce": f"the paper {reward:g} / {rate:g}" for robot, (reward, rate) in PAPER.items()}
PUBLISHED |= {
    "HalfCheetah: gacl": "Malik 3100 / 0.006; Liu 3671 ± 243 / 0; Hugessen ~3830 / 0",
    "HalfCheetah: me-icrl": "Malik 3370 / 0; Liu 3045 ± 2461 / 0.40; Hugessen 2375 / 0.20",
    "HalfCheetah: vicrl": "Liu 3998 ± 261 / 0",
    "HalfCheetah: bc2l": "Malik 1560 / 0.48; Liu 848 ± 763 / 0.46",
    "HalfCheetah: irl-correction": "Hugessen ~8500",
    "HalfCheetah: ppo": "Malik 55 / 1",
    "HalfCheetah: rcpo": "Liu 3811 ± 555 / 0",
    "Ant: gacl": "Malik 7200 / 0; Hugessen ~8700 / 0",
    "Ant: me-icrl": "Malik 7350 / 0; Hugessen 7006 / 0.004",
    "Ant: bc2l": "Malik 6900 / 0.03",
    "Ant: irl-correction": "Hugessen ~8200",
    "Ant: ppo": "Malik 3000 / 0.30",
    "Swimmer: gacl": "Hugessen ~425 / 0.68",
    "Swimmer: me-icrl": "Hugessen 160 / 0.84",
    "Swimmer: irl-correction": "Hugessen ~540",
    "Walker: gacl": "Hugessen ~25 / 0",
    "Walker: me-icrl": "Hugessen 318 / 0.36",
    "Walker: irl-correction": "Hugessen ~1240",
    "Pendulum: gacl": "Hugessen ~0.3 / 1",
    "Pendulum: me-icrl": "Hugessen 5.2 / 0.75",
    "Pendulum: irl-correction": "Hugessen ~15",
    "Point: me-icrl": "Malik 140 to 148",
    "Point: ppo": "Malik 50 / 0.60",
    "BrokenAnt: me-icrl": "Malik ~2850",
    "BrokenAnt: ppo": "Malik 1100 / 0.30",
}
EARLIER = Beside("published: reward / violation rate", PUBLISHED, NOTE)
_TARGETS = {label: cell for label, cell in PUBLISHED.items() if label.startswith(("Point:", "BrokenAnt:"))}
EARLIER_TARGETS = Beside(EARLIER.title, _TARGETS, NOTE)
"""Results of transferred costs of (x, y), like ours. Published results on the Ant had more steps and all inputs."""
