"""The page: the sections of each run, a comparison when there are several, the definitions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from tacit import __version__
from tacit.envs.options import notice
from tacit.errors import UserError
from tacit.report import sections
from tacit.report.constraint import constraint, rule
from tacit.report.data import RunData, load_run
from tacit.report.film import film
from tacit.report.html import Section, esc, facts, glossary, metric_table
from tacit.report.verdict import answer, certificate, diagnosis
from tacit.run import Run, storage

SECTIONS: tuple[Callable[[RunData, str], Section | None], ...] = (
    answer,
    diagnosis,
    rule,
    sections.pictures,
    constraint,
    sections.numbers,
    film,
    sections.learning,
    certificate,
    sections.convergence,
    sections.time,
    sections.provenance,
)


OPTIONS = ("layout", "slip", "shape", "rule")
"""Options of environments that are shown at the top."""


def write_report(runs: Sequence[Run], path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write the report of `runs` to `path` (whole or not at all) and return it."""
    if not runs:
        raise UserError("a report needs at least one run folder")
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file for the report, such as {path / 'report.html'}")
    storage.atomic_write_text(path, render_report([load_run(run) for run in runs], title))
    return path


def render_report(runs: Sequence[RunData], title: str | None = None) -> str:
    """The page as text."""
    title = title or _title(runs)
    parts = [f"<header><h1>{esc(title)}</h1>{_chips(runs[0]) if len(runs) == 1 else ''}</header>"]
    if len(runs) > 1:
        parts.append(_comparison(runs).html("all"))
    for number, data in enumerate(runs):
        parts.append(_article(data, f"run{number}", heading=len(runs) > 1))
    parts.append(Section("Definitions", glossary(sections.used_metrics(runs))).html("all"))
    template = resources.files("tacit.report").joinpath("template.html").read_text("utf-8")
    values = {"title": esc(title), "version": esc(__version__), "body": "\n".join(parts)}
    # One pass, so that inserted text is never searched for placeholders.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def _title(runs: Sequence[RunData]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs compared"
    return f"What {runs[0].config['algo']} learned on {runs[0].config['env'].rsplit('/', 1)[-1]}"


def _chips(data: RunData) -> str:
    config = data.config
    chips = [("method", config["algo"]), ("environment", config["env"]), ("seed", config["seed"])]
    chips += [(key, config["env_kwargs"][key]) for key in OPTIONS if _short(config["env_kwargs"].get(key))]
    chips += [
        (key, config["config"][key]) for key in ("objective", "beta", "budget") if _short(config["config"].get(key))
    ]
    note = notice(config["env"], config["env_kwargs"])
    chips += [("note", note)] if note else []
    chips += [("status", data.status)] if data.status else []
    return (
        '<ul class="chips">'
        + "".join(f"<li>{esc(k)} <b>{esc(f'{v:g}' if isinstance(v, float) else v)}</b></li>" for k, v in chips)
        + "</ul>"
    )


def _short(value: object) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) <= 24 and "\n" not in str(value)


def _article(data: RunData, anchor: str, heading: bool) -> str:
    parts = [f'<article id="{anchor}">']
    if heading:
        parts.append(f"<h1>{esc(data.name)}</h1>{_chips(data)}")
    for build in SECTIONS:
        section = build(data, anchor)
        if section is not None:
            parts.append(section.html(anchor))
    return "\n".join([*parts, "</article>"])


def _comparison(runs: Sequence[RunData]) -> Section:
    labels = [f"{i + 1}. {label}" for i, label in enumerate(_differences(runs))]
    rows = {label: {**data.table.get("learned", {}), **data.quality} for label, data in zip(labels, runs, strict=True)}
    keys = [*sections.table_keys(rows.values()), "auroc", "iou"]
    body = metric_table("the learned agent of each run", rows, keys)
    links = facts((f"run {i + 1}", f'<a href="#run{i}">{esc(data.name)}</a>') for i, data in enumerate(runs))
    return Section("Side by side", body + "<h3>Runs</h3>" + links)


def _differences(runs: Sequence[RunData]) -> list[str]:
    """Labels of the runs: the settings that differ between them, and any unusual status."""
    flat: list[dict[str, str]] = []
    for data in runs:
        config = data.config
        plain = {key: config[key] for key in ("algo", "env", "seed")} | config["env_kwargs"] | config["config"]
        flat.append({key: str(value) for key, value in plain.items() if _short(value)})
    keys = [key for key in dict.fromkeys(key for row in flat for key in row) if len({row.get(key) for row in flat}) > 1]
    labels = []
    for data, row in zip(runs, flat, strict=True):
        parts = [f"{key} {row[key]}" for key in keys[:4] if key in row]
        parts += [data.status] if data.status in ("infeasible", "iteration limit", "unfinished") else []
        labels.append(", ".join(parts) or data.name)
    return labels
