"""Cells, lines and columns of Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.metrics import lookup
from tacit.reproduce.experiment import Beside
from tacit.reproduce.records import agent_of, demonstrated, steps_made
from tacit.reproduce.results import Agent, Evaluation, Record
from tacit.stats import bootstrap_interval, rate_over_runs

Runs = Sequence[Record]
Cell = Callable[[Runs, Agent], str]
"""(runs of a row, at least one; kind of policy) -> text of the cell."""


def header(head: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [line(head), "|---" * len(head) + "|"]


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def short(value: float, like: float) -> str:
    """The value with the number of decimals that suits numbers of the size of `like`."""
    return f"{value:.{0 if abs(like) >= 100 else 1}f}"


def error(values: np.ndarray) -> float:
    """Standard error of the mean; 0 for a single run, which has no spread."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def with_error(values: np.ndarray) -> str:
    """Mean ± standard error, as in the paper; "-" if a number is missing."""
    if np.isnan(values).any():
        return "-"
    mean = float(values.mean())
    return short(mean, mean) + (f" ± {short(error(values), mean)}" if len(values) > 1 else "")


def values_of(runs: Runs, agent: Agent, key: str) -> np.ndarray:
    return np.array([agent_of(run, agent).get(key, np.nan) for run in runs])


@dataclass(frozen=True)
class Column:
    """A column of a table of agents."""

    title: str
    cell: Cell

    def called(self, title: str) -> Column:
        return Column(title, self.cell)


def agents_table(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[tuple[str, str, Runs]],
    agent: Agent,
    beside: Sequence[Beside] = (),
    first: str = "",
    expert: Evaluation | None = None,
) -> str:
    """A table with a row per (name, label, runs); "-" if no run has this kind of policy.

    `expert` has the demonstrators' numbers, for a first line; {} if no run recorded them.
    """
    head = [first, *(column.title for column in columns), *(other.title for other in beside)]
    lines = [f"**{title}**", "", *header(head)]
    if expert is not None:
        lines.append(_expert_line(expert, head))
    for name, label, runs in rows:
        there = [run for run in runs if agent in run]
        cells = [name, *(column.cell(there, agent) if there else "-" for column in columns)]
        lines.append(line([*cells, *(_cell_beside(other, label, there) for other in beside)]))
    return "\n".join(lines)


def _cell_beside(other: Beside, label: str, runs: Runs) -> str:
    if label not in other.over:
        return other.cells.get(label, "")
    reached = [run["stochastic"]["terminated_return"] for run in runs]
    return f"{np.mean(reached) / other.over[label]:.2f}" if reached else "-"


def _expert_line(expert: Evaluation, head: Sequence[str]) -> str:
    cells = ["demonstrations"] + ["-"] * (len(head) - 1)
    for key in ("return", "terminated_return", "feasible_return"):
        if key in expert:
            cells[head.index(lookup(key).label)] = short(expert[key], expert[key])
    if "violation_rate_step" in expert:
        cells[head.index("violating steps")] = f"{100 * expert['violation_rate_step']:.3f} %"
    return line(cells)


def steps_cell(runs: Runs, agent: Agent) -> str:
    steps = [steps for steps in map(steps_made, runs) if steps]
    return f"{np.mean(steps) / 1e6:.3g}M" if len(steps) == len(runs) else "-"


def mean_cell(key: str) -> Cell:
    return lambda runs, agent: with_error(values_of(runs, agent, key))


def percent_cell(key: str, spread: bool = True) -> Cell:
    def cell(runs: Runs, agent: Agent) -> str:
        shares = values_of(runs, agent, key)
        if np.isnan(shares).any():
            return "-"
        deviation = f" ± {100 * error(shares):.3f}" if spread and len(shares) > 1 else ""
        return f"{100 * shares.mean():.3f}{deviation} %"

    return cell


def episodes_cell(runs: Runs, agent: Agent) -> str:
    """Violating episodes of all seeds, and an upper bound on their share that resamples seeds, then episodes."""
    broken, episodes = (int(np.nansum(values_of(runs, agent, key))) for key in ("count", "n"))
    if not episodes:
        return "-"
    counts, trials = (values_of(runs, agent, key) for key in ("count", "n"))
    counted = np.isfinite(counts) & np.isfinite(trials)
    bound = rate_over_runs(counts[counted], trials[counted], rng=np.random.default_rng(0)).high
    return f"{broken} of {episodes} ({100 * bound:.1f} %)"


def seeds_cell(key: str) -> Cell:
    def cell(runs: Runs, agent: Agent) -> str:
        parts = zip(runs, values_of(runs, agent, key), values_of(runs, agent, "count"), strict=True)
        return ", ".join(
            f"{short(x, x)}{f' ({count:.0f})' if np.isfinite(count) else ''}{FREE if charges_nothing(run) else ''}"
            for run, x, count in parts
        )

    return cell


def ratio_cell(runs: Runs, agent: Agent) -> str:
    stopped = values_of(runs, agent, "terminated_return")
    ratios = [own / other for own, other in zip(stopped, map(demonstrated, runs), strict=True) if other]
    return f"{np.mean(ratios):.2f}" if ratios else "-"


def minutes(runs: Runs, agent: Agent = "stochastic") -> str:
    timed = [seconds for run in runs if (seconds := run.get("seconds"))]  # an interrupted run has no time
    return f"{np.mean(timed) / 60:.1f}" if timed else "-"


def iqm_cell(runs: Runs, agent: Agent) -> str:
    middle = bootstrap_interval(values_of(runs, agent, "return"), rng=np.random.default_rng(0), resamples=10_000)
    return "{} [{}, {}]".format(*(short(end, middle.value) for end in middle))


FREE = " °"
NOTE_FREE = "° The frozen cost forbids nothing that its learner tried, so this agent was charged nothing."


def charges_nothing(run: Record) -> bool:
    """Whether the run is of a fresh agent whose frozen cost forbids nothing."""
    charge = (run.get("source") or {}).get("charge")
    return (
        charge is not None and charge["kind"] in ("soft", "excess", "set") and not charge["top"] > charge["threshold"]
    )


COUNT = Column("seeds", lambda runs, agent: str(len(runs)))
STEPS = Column("steps", steps_cell)
RETURN = Column("return", mean_cell("return"))
TERMINATED = Column("return before violation", mean_cell("terminated_return"))
FEASIBLE = Column("feasible return", mean_cell("feasible_return"))
EPISODES = Column("violating episodes (95 % at most)", episodes_cell)
SEEDS = Column("return before violation (violating episodes) of each seed", seeds_cell("terminated_return"))
OVER = Column("over demonstrations", ratio_cell)
COMPARISON = (
    COUNT,
    STEPS,
    RETURN,
    TERMINATED,
    FEASIBLE,
    Column("violating steps", percent_cell("violation_rate_step")),
    Column("violating steps, stopped at the first", percent_cell("violation_rate_terminated")),
    EPISODES,
    Column("begin in violation", percent_cell("initial_violation_rate")),
    SEEDS,
    OVER,
    Column("minutes a run", minutes),
)
"""Columns of a table with a row per method."""
EVERY_SEED = (
    STEPS,
    RETURN,
    TERMINATED,
    FEASIBLE,
    Column("violating steps", percent_cell("violation_rate_step", spread=False)),
    Column("violating steps, stopped at the first", percent_cell("violation_rate_terminated", spread=False)),
    EPISODES,
    Column("begin in violation", percent_cell("initial_violation_rate", spread=False)),
    SEEDS.called("return before violation of each seed"),
    OVER,
)
"""Columns of a table with a row per label."""
EXPERTS = (
    COUNT.called("runs"),
    STEPS,
    RETURN,
    Column("IQM [95 %]", iqm_cell),
    TERMINATED,
    Column("violating steps", percent_cell("violation_rate_step", spread=False)),
    EPISODES,
    Column("return (violating episodes) of each seed", seeds_cell("return")),
)
"""Columns of a table with a row per robot."""
