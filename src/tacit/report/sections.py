"""The report's sections with numbers, pictures, curves and provenance.

Each is a function `(RunData, anchor) -> Section | None`, None when the run has nothing for it. `anchor` is unique for
each run of the page and keeps the ids of figures apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tacit.explain.findings import SHORTEST, boundaries, seconds_of_learning, time_of_phases
from tacit.metrics import AGENTS, DETECTION, ENDS, Metric, lookup, percent
from tacit.plots import RESIDUALS, dual_curve, learning_curves, residual_curves
from tacit.plots.grids import grid_heatmap, grid_map
from tacit.report.constraint import COLUMNS
from tacit.report.data import RunData
from tacit.report.html import Section, cell_numbers, details, esc, facts, figure, metric_table, table
from tacit.report.verdict import STATIONARITY, certificate_checks
from tacit.run import storage
from tacit.run.summary import Record, as_mapping, is_number, value_of

TABLE_KEYS = (
    "return",
    "discounted_return",
    "terminated_return",
    "feasible_return",
    "violation_rate",
    "violation_rate_step",
    "violation_rate_episode",
    "violation_rate_terminated",
    "initial_violation_rate",
    "violation_rate_legal_start",
    *ENDS,
    "violation_occupancy",
    "excess_violation_occupancy",
    "length",
)
QUALITY_KEYS = ("auroc", "auprc", "iou", "best_iou")
_MAX_NUMBERED_CELLS = 900
TRUTH = "truth, not used by the learner"
TOLD = "rcpo"
"""The reference that knows the true cost."""
UNSEEN = " The learner does not see it."


def used_metrics(runs: Sequence[RunData]) -> list[Metric]:
    """All metrics that the page mentions, for the list of definitions."""
    keys: set[str] = set()
    for data in runs:
        keys |= {key for row in data.table.values() for key in row if key in TABLE_KEYS}
        keys |= set(QUALITY_KEYS) & set(data.quality)
        keys |= set(DETECTION) if _detection(data) else set()
    proof = {check for data in runs for check, _ in certificate_checks(data).values()}
    marked = COLUMNS if any(boundaries(data.summary) for data in runs) else ()
    return [lookup(key) for key in keys] + [Metric(check.label, check.meaning) for check in proof] + [*marked]


# ---------------------------------------------------------------------------------------------------------------------
# Numbers and pictures


def numbers(data: RunData, anchor: str) -> Section | None:
    """Expert, unconstrained and learned agent side by side; the quality of the cost."""
    labels = {**AGENTS, **data.labels}
    rows = {labels.get(name, name): data.table[name] for name in sorted(data.table, key=_agent_order)}
    body = ""
    if rows:
        title = "what the agents do in the true environment"
        body += metric_table(title, rows, table_keys(rows.values()), labels["learned"])
    quality = {"learned cost": data.quality}
    judged = "judged on all cells that can be reached"
    if "boundaries" in data.summary:
        judged = "judged on all states that the learner tried"
    if data.has_map:
        quality = {"constraint map": data.quality, "cost of the policy": {"auroc": data.quality.get("auroc_cost")}}
    if any(value_of(data.quality.get(key)) is not None for key in QUALITY_KEYS):
        body += "<h3>How well the learned cost marks the true constraint</h3>"
        body += metric_table(judged, quality, QUALITY_KEYS)
        body += _detection(data)
    elif "threshold" in data.summary:
        body += "<p>The learner never broke the true constraint, so the cost cannot be judged against it.</p>"
    return Section("Numbers", body) if body else None


def _detection(data: RunData) -> str:
    """How well the map, or else the cost, detects violations on several sets of states; see `tacit.cost.quality`."""
    detection = as_mapping(data.summary.get("detection"))
    rows = as_mapping(as_mapping(detection.get("map", detection.get("cost"))).get("on"))
    judged = any(value_of(data.quality.get(key)) is not None for key in QUALITY_KEYS)
    if not judged or not rows or not all(isinstance(row, Mapping) for row in rows.values()):
        return ""
    keys = [key for key in DETECTION if any(key in row for row in rows.values())]
    return metric_table("on different states, at the learned threshold", rows, keys)


def table_keys(rows: Iterable[Record]) -> list[str]:
    """The informative columns of `TABLE_KEYS` for these agents: none that repeats another, and none of zeros."""
    rows = list(rows)
    values = {key: [value_of(row.get(key)) for row in rows] for key in TABLE_KEYS}
    repeats = {"discounted_return": "return", "feasible_return": "terminated_return"}
    return [
        key
        for key in TABLE_KEYS
        if values[key] != values.get(repeats.get(key, "")) and (key != "initial_violation_rate" or any(values[key]))
    ]


def _agent_order(name: str) -> tuple[int, str]:
    order = list(AGENTS)
    return (order.index(name) if name in order else len(order), name)


def pictures(data: RunData, anchor: str) -> Section | None:
    """The map of a gridworld, with visits and costs."""
    if not data.layout:
        return None
    arrays = data.arrays
    figures = [
        figure(
            grid_map(data.layout),
            f"{anchor}-map",
            "The map",
            "S is the start, G the goal, red crosses the hidden constraint. The learner never sees the crosses.",
        )
    ]
    visits = "Expected visits in an episode, on a logarithmic scale."
    beta = data.config["config"].get("beta")
    at_beta = f"β = {beta:g}. " if is_number(beta) else ""
    maps: list[tuple[str, str, str, str, str]] = [
        (
            "blame",
            "Where the conflict is",
            "share of the blame",
            "cost",
            "The cells that every policy visits more often than the demonstrations and the budget allow.",
        ),
        (
            "expert_visits",
            "What the expert does",
            "visits per episode",
            "visits",
            "Visits per episode in the demonstrations, on a logarithmic scale.",
        ),
        (
            "cost_state",
            "The recovered cost",
            "cost of a visit, in units of reward",
            "cost",
            f"{at_beta}What a visit to each cell costs the learned agent. The line surrounds the hidden constraint; "
            "hatched cells show no cost, but the demonstrations say little or nothing about them.",
        ),
        (
            "forbidden",
            "What is forbidden",
            "1 forbidden, 0 allowed",
            "cost",
            "The cells without which the demonstrations are most likely. The line surrounds the hidden constraint.",
        ),
        ("learned_visits", "What the learned agent does", "visits per episode", "visits", visits),
        (
            "cost_state_beta001",
            "The recovered cost at β = 0.01",
            "cost of a visit, in units of reward",
            "cost",
            "The same problem with a tenth of the entropy or less, the setting of the paper's figure.",
        ),
        ("unconstrained_visits", "What an agent without constraint does", "visits per episode", "visits", visits),
        (
            "unknown",
            "Which amounts cannot be known",
            "0 known, 1 not known",
            "unknown",
            "How little the demonstrations say about the amount that each cell costs. At 1, other amounts would give "
            "the same behaviour. A forbidden cell can be dark, too: that it costs something is known, how much is not.",
        ),
    ]
    truth = arrays.get("true_constraint")
    for name, title, label, ramp, caption in maps:
        if name not in arrays:
            continue
        values = np.asarray(arrays[name], dtype=np.float64)
        svg = grid_heatmap(
            data.layout,
            arrays["row"],
            arrays["col"],
            values,
            label=label,
            ramp=ramp,
            scale="log" if ramp == "visits" else "linear",
            vmax=1.0 if name == "unknown" else None,
            outline=truth,
            # A cost is visible without hatching. Hatch only cells that look free because nothing is known.
            hatch=(arrays["unknown"] > 0.5) & (values <= 0.05 * values.max())
            if ramp == "cost" and "unknown" in arrays
            else None,
        )
        more = cell_numbers(arrays["row"], arrays["col"], values) if len(values) <= _MAX_NUMBERED_CELLS else ""
        figures.append(figure(svg, f"{anchor}-{name}", title, caption, more))
    return Section("Pictures", f'<div class="figures">{"".join(figures)}</div>')


def convergence(data: RunData, anchor: str) -> Section | None:
    """The section about the convergence of the solver."""
    convex = data.certificate.get("objective") != "likelihood"
    names = RESIDUALS if convex else {"kkt": STATIONARITY.label}
    stages = len({record.get("beta") for record in data.metrics}) > 1
    figures = []
    if _has(data.metrics, tuple(names)):
        bands = " Bands are the stages of β, each started from the result of the last." if stages else ""
        svg = residual_curves(data.metrics, names)
        figures.append(figure(svg, f"{anchor}-residuals", "Distance from the optimum", f"Lower is better.{bands}"))
    if _has(data.metrics, ("dual_value",)):
        title, label = ("Value of the dual", "dual value") if convex else ("What is minimised", "objective")
        caption = (
            "What is minimised: an upper bound on what any allowed policy can achieve."
            if convex
            else "How unlikely the demonstrated actions are under the learned agent, plus the penalty on the weights."
        ) + (" β changes its level." if stages else "")
        figures.append(figure(dual_curve(data.metrics, label), f"{anchor}-dual", title, caption))
    return Section("Convergence", f'<div class="figures wide">{"".join(figures)}</div>') if figures else None


class Curves(NamedTuple):
    """A figure of metrics.jsonl: {key: name of its line}."""

    title: str
    lines: Mapping[str, str]
    ylabel: str
    caption: str
    reference: str = ""
    """Metric of the demonstrations that is drawn as a horizontal line."""


CURVES = (
    Curves(
        "Return",
        {"rollout/ep_rew_mean": "learner"},
        "return",
        "Mean total reward of the learner's last episodes, with the noise that it explores with.",
        "return",
    ),
    Curves(
        "Learned cost",
        {"dual/learner_cost": "learner", "dual/expert_cost": "demonstrations"},
        "cost of a step",
        "Mean cost of a step, by the cost as it is at that time. They meet when the learner goes where the "
        "demonstrations go.",
    ),
    Curves(
        "Feature gap",
        {"dual/feature_gap": "largest"},
        "feature gap",
        "By how much the learner exceeds the demonstrations in the feature in which it does so most.",
    ),
    Curves(
        "Imitation",
        {"bc/nll": "demonstrations", "bc/nll_held_out": "held out"},
        "negative log-likelihood, nats",
        "How unlikely the demonstrated actions are for the cloned policy, after so many steps of the optimiser.",
    ),
    Curves(
        "Likelihood",
        {"log_likelihood": "demonstrations"},
        "log-likelihood, nats",
        "How likely a demonstration is, on average, after each cell that was forbidden.",
    ),
    Curves(
        f"Violations ({TRUTH})",
        {"truth/violation_rate_episode": "episodes", "truth/violation_rate_step": "steps"},
        "share that violates",
        f"Share of episodes and of steps that break the true constraint.{UNSEEN}",
        "violation_rate_episode",
    ),
)


def learning(data: RunData, anchor: str) -> Section | None:
    """The section about training: the learner's own log, and evaluations during training."""
    figures: list[str] = []
    demos = data.table.get("demonstrations", {})
    for curves in CURVES:
        lines = {name: _line(data.metrics, key) for key, name in curves.lines.items() if _has(data.metrics, (key,))}
        level = value_of(demos.get(curves.reference))
        if lines:
            svg = learning_curves(
                {name: [line] for name, line in lines.items()},
                xlabel="environment steps" if is_number(data.metrics[0].get("steps")) else "iteration",
                ylabel=curves.ylabel,
                reference=None if level is None else ("demonstrations", level),
            )
            name, title, caption = f"{anchor}-curve-{len(figures)}", curves.title, curves.caption
            if data.config["algo"] == TOLD:
                title, caption = title.replace(TRUTH, "the learner is told"), caption.replace(UNSEEN, "")
            figures.append(figure(svg, name, title, esc(caption)))
    for key in ("return", "feasible_return", "violation_rate_step", "violation_rate_episode"):
        pairs = [
            (record.get("step", record.get("iteration", i)), value)
            for i, record in enumerate(data.evals)
            if (value := value_of(record.get(f"eval/{key}", record.get(key)))) is not None
        ]
        if len(pairs) >= 2:
            x, y = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
            expert = value_of(data.table.get("expert", {}).get(key))
            svg = learning_curves(
                {data.config["algo"]: [(x, y)]},
                xlabel="steps" if "step" in data.evals[0] else "iteration",
                ylabel=lookup(key).label,
                reference=None if expert is None else ("expert", expert),
            )
            figures.append(
                figure(svg, f"{anchor}-eval-{key}", lookup(key).label.capitalize(), esc(lookup(key).definition))
            )
    return Section("During training", f'<div class="figures wide">{"".join(figures)}</div>') if figures else None


def _line(records: Sequence[Record], key: str) -> tuple[np.ndarray, np.ndarray]:
    """(steps or iterations, values) of the records that have the key."""
    pairs = [
        (record.get("steps", record.get("iteration", i)), record[key])
        for i, record in enumerate(records)
        if is_number(record.get(key))
    ]
    x, y = np.array(pairs, dtype=np.float64).T
    return x, y


def _has(records: Iterable[Record], keys: Sequence[str]) -> bool:
    """Whether at least two records carry a number under one of the keys."""
    return sum(any(is_number(record.get(key)) for key in keys) for record in records) >= 2


def time(data: RunData, anchor: str) -> Section | None:
    """The section about the time of each phase of the run."""
    phases = {name: seconds for name, seconds in time_of_phases(data.summary).items() if seconds >= SHORTEST}
    total, steps = sum(phases.values()), data.summary.get("steps")
    if not total:
        return None
    rows = [([esc(name), f"{seconds:.1f} s", percent(seconds / total)], "") for name, seconds in phases.items()]
    rows.append((["together", f"{total:.1f} s", "100 %"], "main"))
    words = ""
    if is_number(steps):
        fps = steps / seconds_of_learning(phases)
        words = f"<p><b>{int(steps):,}</b> environment steps, <b>{fps:,.0f}</b> per second of learning.</p>"
    head = ["phase", "time", "share"]
    whole = "evaluation" in phases
    title = "the whole run, without start-up" if whole else "learning, without start-up and evaluation"
    return Section("Time", words + table(title, head, rows, "narrow"))


# ---------------------------------------------------------------------------------------------------------------------
# Provenance


def provenance(data: RunData, anchor: str) -> Section | None:
    """The section with everything needed to repeat the run: command, seed, versions, commit, demonstrations."""
    source, demos = as_mapping(data.provenance), as_mapping(data.config.get("demos"))
    entries = [("run", f"<code>{esc(data.name)}</code>")]
    if source.get("command"):
        entries.append(("command", f"<code>{esc(source['command'])}</code>"))
    entries += [("seed", esc(data.config["seed"])), ("environment", f"<code>{esc(data.config['env'])}</code>")]
    if demos:
        entries.append(("demonstrations", _origin(demos)))
    if demos.get("sha256"):
        entries.append(("their SHA-256", f"<code>{esc(demos['sha256'])}</code>"))
    versions = source.get("versions")
    if isinstance(versions, dict):
        entries.append(("versions", esc(", ".join(f"{name} {version}" for name, version in versions.items()))))
    for key, label in (("commit", "commit"), ("cpu", "processor"), ("started", "started"), ("finished", "finished")):
        if source.get(key):
            entries.append((label, esc(source[key])))
    settings = storage.to_json(
        {key: data.config.get(key) for key in ("env", "env_kwargs", "seed", "config", "demos")}, indent=2
    )
    return Section("Provenance", facts(entries) + details("all settings", f"<pre>{esc(settings)}</pre>"))


def _origin(demos: Record) -> str:
    """The origin of the demonstrations: a file, or the run folder."""
    if demos.get("path"):
        return f"<code>{esc(demos['path'])}</code>"
    whole = demos.get("from")
    words = "<code>demos.npz</code> in the run folder"
    if isinstance(whole, Mapping):
        words += f": <code>{esc(whole['path'])}</code>" if whole.get("path") else ""
        words += ", without what was held out as <code>calibration.npz</code>"
    return words
